"""What devices exchange when they meet: the operations that collectives become when they are
compiled. They work on whole blocks of memory; the collectives' axes are moved before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax.ir.control import Exchange
from tetrax.ir.kernel_types import complex_part, scalar_type
from tetrax.ir.types import ShapedArray, storage_dtype
from tetrax.tracing.primitive import Primitive

Groups = tuple[tuple[int, ...], ...] | None


def _is_complex(dtype: Any) -> bool:
    return dtypes.issubdtype(dtype, np.complexfloating)


def _bytes(aval: ShapedArray) -> int:
    return aval.size * storage_dtype(aval.dtype).itemsize


class AllReduce(Primitive):
    """The reduction ('sum', 'max' or 'min') of the operands of all members, for each of them."""

    def shape(self, x: ShapedArray, *, operation: str, names: tuple, groups: Groups) -> ShapedArray:
        return x

    def structure(self, avals: Sequence[ShapedArray], *, operation, names, groups) -> Exchange:
        (x,) = avals
        routine, count = _reduction("all_reduce", operation, x)
        return Exchange(routine, names, groups, count)


class ReduceScatter(Primitive):
    """Block `rank` of the reduction of all operands, whose first axis counts the members."""

    def shape(self, x: ShapedArray, *, operation: str, names: tuple, groups: Groups) -> ShapedArray:
        return x.update(shape=x.shape[1:])

    def structure(self, avals: Sequence[ShapedArray], *, operation, names, groups) -> Exchange:
        (x,) = avals
        routine, count = _reduction("reduce_scatter", operation, x.update(shape=x.shape[1:]))
        return Exchange(routine, names, groups, count)


def _reduction(kind: str, operation: str, aval: ShapedArray) -> tuple[str, int]:
    """The routine for a type, and how many numbers there are."""
    if _is_complex(aval.dtype):
        return f"tetrax_{kind}_{operation}_{complex_part(aval.dtype).name}", 2 * aval.size
    return f"tetrax_{kind}_{operation}_{scalar_type(aval.dtype).name}", aval.size


class AllGather(Primitive):
    """The operands of all members along a new first axis."""

    def shape(self, x: ShapedArray, *, size: int, names: tuple, groups: Groups) -> ShapedArray:
        return x.update(shape=(size, *x.shape))

    def structure(self, avals: Sequence[ShapedArray], *, size, names, groups) -> Exchange:
        return Exchange("tetrax_all_gather", names, groups, _bytes(avals[0]))


class AllToAll(Primitive):
    """Block m of the result is block `rank` of the operand of member m."""

    def shape(self, x: ShapedArray, *, names: tuple, groups: Groups) -> ShapedArray:
        return x

    def structure(self, avals: Sequence[ShapedArray], *, names, groups) -> Exchange:
        (x,) = avals
        return Exchange("tetrax_all_to_all", names, groups, _bytes(x.update(shape=x.shape[1:])))


class Permute(Primitive):
    """The operand of the member in front of this one in `pairs`; zeros where there is none."""

    def shape(self, x: ShapedArray, *, names: tuple, pairs: tuple) -> ShapedArray:
        return x

    def structure(self, avals: Sequence[ShapedArray], *, names, pairs) -> Exchange:
        return Exchange("tetrax_permute", names, None, _bytes(avals[0]), pairs)


all_reduce_p = AllReduce("all_reduce")
reduce_scatter_p = ReduceScatter("reduce_scatter_blocks")
all_gather_p = AllGather("all_gather_blocks")
all_to_all_p = AllToAll("all_to_all_blocks")
permute_p = Permute("permute")
