"""Trees of arrays as one vector, and back."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
from tetrax import dtypes, tree_util
from tetrax import numpy as jnp

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: Any) -> tuple[Any, _Unravel]:
    """Return all leaves as one vector, and the function that turns such a vector into the tree.

    Leaves of several dtypes are promoted to their common one; the way back restores each.

    >>> flat, unravel = ravel_pytree({"w": np.ones((2, 2), np.float32), "b": np.float32(0)})
    >>> flat.shape, unravel(flat)["w"].shape
    ((5,), (2, 2))
    """
    leaves, treedef = tree_util.tree_flatten(pytree)
    if not leaves:
        return jnp.zeros(0, np.float32), _Unravel(treedef, (), (), np.dtype(np.float32))
    kinds = tuple(dtypes.dtype(leaf) for leaf in leaves)
    shapes = tuple(np.shape(leaf) for leaf in leaves)
    common = dtypes.result_type(*kinds)
    kinds = tuple(dtypes.canonicalize_dtype(kind) for kind in kinds)
    flat = jnp.concatenate([jnp.ravel(leaf).astype(common) for leaf in leaves])
    return flat, _Unravel(treedef, shapes, kinds, common)


class _Unravel:
    """Turns a vector into a tree. Equal ones compare equal, so they may be static arguments."""

    def __init__(
        self,
        treedef: Any,
        shapes: tuple[tuple[int, ...], ...],
        kinds: tuple[np.dtype, ...],
        common: np.dtype,
    ) -> None:
        self._key = (treedef, shapes, kinds, common)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unravel) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __call__(self, flat: Any) -> Any:
        treedef, shapes, kinds, common = self._key
        sizes = [math.prod(shape) for shape in shapes]
        if np.shape(flat) != (sum(sizes),):
            raise ValueError(
                f"unravel: expected a vector of shape {(sum(sizes),)}, got shape {np.shape(flat)}"
            )
        mixed = any(kind != common for kind in kinds)
        found = dtypes.dtype(flat)
        if mixed and found != common:
            raise TypeError(f"unravel function given array of dtype {found}, but expected {common}")
        ends = list(itertools.accumulate(sizes))
        pieces = jnp.split(jnp.asarray(flat), ends[:-1]) if sizes else []
        with warnings.catch_warnings():
            # Complex to real loses nothing here: the leaf was real when it was raveled.
            warnings.simplefilter("ignore")
            leaves = [
                (piece.astype(kind) if mixed else piece).reshape(shape)
                for piece, shape, kind in zip(pieces, shapes, kinds, strict=True)
            ]
        return tree_util.tree_unflatten(treedef, leaves)
