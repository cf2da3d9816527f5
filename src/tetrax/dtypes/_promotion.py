"""The promotion lattice: which dtype the operands of an operation are brought to.

A node is a NumPy dtype, or `int`, `float`, `complex`: the *weak* types of Python scalars, which
adapt to the dtypes they meet. `join` of two nodes is the lowest node that both can rise to. Where
two nodes have no such node, the operands must be converted by the user.
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import ml_dtypes

import numpy as np

from ..errors import TypePromotionError
from ._kinds import (
    ALL_DTYPES,
    BOOL,
    COMPLEX,
    FLOATS,
    SIGNED,
    SMALL_FLOATS,
    SMALL_SIGNED,
    SMALL_UNSIGNED,
    UNSIGNED,
)

Node: TypeAlias = Any  # np.dtype | type[int] | type[float] | type[complex]; NumPy cannot say so

_U8, _U16, _U32, _U64 = (np.dtype(name) for name in ("uint8", "uint16", "uint32", "uint64"))
_I8, _I16, _I32, _I64 = (np.dtype(name) for name in ("int8", "int16", "int32", "int64"))
_BF16, _F16 = np.dtype(ml_dtypes.bfloat16), np.dtype("float16")
_F32, _F64, _C64, _C128 = (
    np.dtype(name) for name in ("float32", "float64", "complex64", "complex128")
)

# From each node, the nodes directly above it.
_STANDARD: dict[Node, tuple[Node, ...]] = {
    BOOL: (int,),
    int: (_U8, _I8, *SMALL_SIGNED, *SMALL_UNSIGNED),
    _U8: (_I16, _U16),
    _U16: (_I32, _U32),
    _U32: (_I64, _U64),
    _U64: (float,),
    _I8: (_I16,),
    _I16: (_I32,),
    _I32: (_I64,),
    _I64: (float,),
    float: (*SMALL_FLOATS, _BF16, _F16, complex),
    _BF16: (_F32,),
    _F16: (_F32,),
    _F32: (_F64, _C64),
    _F64: (_C128,),
    complex: (_C64,),
    _C64: (_C128,),
}
# While 64-bit dtypes are off nothing may rise to one: u32 with i32 stays at i32.
_STANDARD_32 = {**_STANDARD, _U32: (_I32, _U64)}
# Strict promotion: only weak types rise.
_STRICT: dict[Node, tuple[Node, ...]] = {
    int: (float, *SIGNED, *UNSIGNED),
    float: (complex, *FLOATS),
    complex: COMPLEX,
}


class Lattice:
    """Joins in one of the graphs above, remembered per pair."""

    def __init__(self, above: dict[Node, tuple[Node, ...]]):
        self._above = above
        self._reachable: dict[Node, frozenset[Node]] = {}
        for node in (*ALL_DTYPES, int, float, complex):
            self._reach(node)

    def _reach(self, node: Node) -> frozenset[Node]:
        """Return the nodes that `node` can rise to, itself included."""
        if node not in self._reachable:
            higher = [self._reach(parent) for parent in self._above.get(node, ())]
            self._reachable[node] = frozenset((node,)).union(*higher)
        return self._reachable[node]

    def join(self, a: Node, b: Node) -> Node | None:
        """Return the lowest node that both can rise to, or None."""
        reachable = self._reachable
        if a not in reachable or b not in reachable:
            unknown = a if a not in reachable else b
            raise TypePromotionError(f"{unknown} is not a dtype that takes part in promotion.")
        common = reachable[a] & reachable[b]
        # The lowest of the common nodes is the one from which all the others are reached.
        return next((node for node in common if common <= reachable[node]), None)

    def join_all(self, nodes: tuple[Node, ...]) -> Node | None:
        """Return the join of several nodes; the order they come in makes no difference."""
        joined: Node | None = nodes[0]
        for node in nodes[1:]:
            # `==` and `is` both: np.dtype(int) == int, yet only one of them is the weak type.
            if joined is node:
                continue
            joined = self.join(joined, node)
            if joined is None:
                return None
        return joined


_LATTICES = {
    ("standard", True): Lattice(_STANDARD),
    ("standard", False): Lattice(_STANDARD_32),
    ("strict", True): Lattice(_STRICT),
    ("strict", False): Lattice(_STRICT),
}


@functools.lru_cache(4096)
def least_upper_bound(nodes: tuple[Node, ...], rules: str, x64: bool) -> Node:
    """Return the node that all `nodes` are brought to, or raise `TypePromotionError`."""
    joined = _LATTICES[rules, x64].join_all(nodes)
    if joined is None:
        raise TypePromotionError(_no_common_dtype(nodes, rules))
    return joined


# Where to send the user of a dtype that never promotes.
_ESCAPE: dict[Node, str] = {
    **dict.fromkeys(SMALL_FLOATS, "float32"),
    **dict.fromkeys(SMALL_SIGNED + SMALL_UNSIGNED, "int32"),
}


def _no_common_dtype(nodes: tuple[Node, ...], rules: str) -> str:
    names = ", ".join(
        f"weak {node.__name__}" if isinstance(node, type) else str(node) for node in nodes
    )
    message = f"The dtypes {names} have no common dtype to promote to"
    if rules == "strict":
        return (
            f"{message} while numpy_dtype_promotion is 'strict'. Convert an operand explicitly, "
            "for instance x.astype('float32'), or set numpy_dtype_promotion to 'standard'."
        )
    narrow = next((node for node in nodes if node in _ESCAPE), None)
    if narrow is not None:
        return (
            f"{message}: floats below 16 bits and integers below 8 bits never promote implicitly. "
            f"Convert the {narrow} operand, for instance x.astype('{_ESCAPE[narrow]}')."
        )
    return f"{message}. Convert an operand explicitly with x.astype(...)."
