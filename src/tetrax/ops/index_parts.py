"""Gathers and scatters on a part of the operand: which index vectors point into it."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax.ir.layout import Place
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import sub
from tetrax.ops.bits_and_compare import bitwise_and, bitwise_or, eq, ge, lt
from tetrax.ops.convert import convert_element_type
from tetrax.ops.creation import full_like
from tetrax.ops.index_maps import GatherDimensionNumbers
from tetrax.ops.reduce import reduce_and
from tetrax.ops.select import clamp, select
from tetrax.ops.split import stack
from tetrax.ops.structure import broadcast_in_dim
from tetrax.tracing.value import get_aval


def can_be_cut(operand: ShapedArray, indices: ShapedArray) -> bool:
    """Whether what is read of parts can be added up, and positions counted."""
    exact = operand.dtype.name in ("int32", "uint32", "int64", "uint64")
    return indices.dtype == np.int32 and (exact or dtypes.issubdtype(operand.dtype, np.inexact))


class Pointers:
    """Index vectors, counted from where a device's part of the operand begins."""

    def __init__(
        self, indices: Any, part: ShapedArray, place: Place, dims: GatherDimensionNumbers
    ) -> None:
        self.whole, self.part = place.wholes[0], part
        self.axes = dims.start_index_map
        self.shape = get_aval(indices).shape
        self.indices = indices
        starts = [convert_element_type(place.operands[0][axis], np.int32) for axis in self.axes]
        self.starts = self._spread(stack(starts))

    def _spread(self, row: Any) -> Any:
        return broadcast_in_dim(row, self.shape, (len(self.shape) - 1,))

    def _row(self, values: list[int]) -> Any:
        return self._spread(np.array(values, np.int32))

    def inside(self, sizes: Any) -> None:
        """Move windows of `sizes` inside the whole operand."""
        last = [self.whole.shape[axis] - sizes[axis] for axis in self.axes]
        self.indices = clamp(full_like(self.indices, 0), self.indices, self._row(last))

    @property
    def local(self) -> Any:
        return sub(self.indices, self.starts)

    def mine(self) -> Any:
        """Whether index vectors point into the part; those that point nowhere are the first's."""
        zero, local = full_like(self.indices, 0), self.local
        cut = [self.part.shape[axis] != self.whole.shape[axis] for axis in self.axes]
        ends, sizes = (
            self._row([x.shape[axis] for axis in self.axes]) for x in (self.whole, self.part)
        )
        here = bitwise_and(ge(local, zero), lt(local, sizes))
        nowhere = bitwise_or(lt(self.indices, zero), ge(self.indices, ends))
        here = bitwise_or(here, bitwise_and(nowhere, eq(self.starts, zero)))
        uncut = self._spread(np.array([not flag for flag in cut]))
        return reduce_and(bitwise_or(here, uncut), (len(self.shape) - 1,))


def only_where(mine: Any, out: Any, dims: GatherDimensionNumbers) -> Any:
    """What was read, with what changes no sum elsewhere (which for floats is -0)."""
    aval = get_aval(out)
    batch = tuple(axis for axis in range(aval.ndim) if axis not in dims.offset_dims)
    nothing = full_like(out, -0.0 if dtypes.issubdtype(aval.dtype, np.floating) else 0)
    return select(broadcast_in_dim(mine, aval.shape, batch), out, nothing)
