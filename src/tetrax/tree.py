"""Functions on trees: nested tuples, lists, dictionaries, None and registered classes.

    >>> map(lambda x: 2 * x, {"weights": [1, 2], "bias": 3})
    {'bias': 6, 'weights': [2, 4]}

What is neither is a leaf. `flatten` and `unflatten` go between a tree and (leaves, structure).
"""

from __future__ import annotations

from .pytree._dataclasses import static
from .pytree._functions import (
    all,
    broadcast,
    leaves,
    map,
    reduce,
    reduce_associative,
    structure,
    transpose,
)
from .pytree._keys import keystr
from .pytree._paths import flatten_with_path, leaves_with_path, map_with_path
from .pytree._prefix import broadcast_prefix, equality_errors, flatten_axes, prefix_errors
from .pytree._structure import PyTreeDef, flatten, unflatten

__all__ = [
    "PyTreeDef",
    "all",
    "broadcast",
    "broadcast_prefix",
    "equality_errors",
    "flatten",
    "flatten_axes",
    "flatten_with_path",
    "keystr",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "prefix_errors",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
