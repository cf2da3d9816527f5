"""Builders: for a structure that is unflattened again and again, a function made for it alone.

The outputs of a compiled function have one structure for good. A Python function that spells the
tree out as one expression builds it several times faster than a walk over the structure does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._registry import DICT, LIST, NONE, TUPLE

# Beyond these, compiling the expression costs more than it brings, or the parser gives up.
MAX_LEAVES = 2000
MAX_DEPTH = 60


def make_builder(structure: Any, leaf: object) -> Callable[[Sequence[Any]], Any] | None:
    """Return a function from the leaves to the tree; None for structures too large or too deep.

    Args:
        structure: nested (kind, metadata, children).
        leaf: what stands for a leaf in it.
    """
    writer = _Writer(leaf)
    try:
        body = writer.expression(structure, 0)
    except _TooLarge:
        return None
    targets = "".join(f"x{index}, " for index in range(writer.leaves))
    unpack = f"    [{targets}] = leaves\n" if targets else ""
    exec(f"def build(leaves):\n{unpack}    return {body}\n", writer.scope)
    return writer.scope["build"]


class _TooLarge(Exception):
    """The structure is not worth a function of its own."""


class _Writer:
    """Writes a structure as an expression of the leaves x0, x1, ... and of names in `scope`."""

    def __init__(self, leaf: object):
        self._leaf = leaf
        self.leaves = 0
        self.scope: dict[str, Any] = {}

    def expression(self, structure: Any, depth: int) -> str:
        if structure is self._leaf:
            self.leaves += 1
            return f"x{self.leaves - 1}"
        if depth > MAX_DEPTH or self.leaves > MAX_LEAVES:
            raise _TooLarge
        kind, metadata, children = structure
        if kind is NONE:
            return "None"
        parts = [self.expression(child, depth + 1) for child in children]
        if kind is TUPLE:
            return f"({''.join(part + ', ' for part in parts)})"
        if kind is LIST:
            return f"[{', '.join(parts)}]"
        if kind is DICT:
            keys = [repr(key) if type(key) is str else self._name(key) for key in metadata]
            pairs = zip(keys, parts, strict=True)
            return "{" + ", ".join(f"{key}: {part}" for key, part in pairs) + "}"
        return f"{self._name(kind.unflatten)}({self._name(metadata)}, [{', '.join(parts)}])"

    def _name(self, value: Any) -> str:
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name
