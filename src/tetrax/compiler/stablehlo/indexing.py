"""StableHLO of gathers, scatters and slices at run-time positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax.compiler.stablehlo.reductions import ElementwiseRules, Outs
from tetrax.ir.stablehlo import Handle, boolean, i64_array, record
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import max, min
from tetrax.ops.bits_and_compare import bitwise_and, ge, le
from tetrax.ops.convert import convert_element_type
from tetrax.ops.index_maps import (
    GatherDimensionNumbers,
    GatherScatterMode,
    as_gather,
    window_sizes,
)
from tetrax.ops.reduce import reduce_and
from tetrax.ops.structure import broadcast_in_dim
from tetrax.tracing.value import get_aval

_INDEX = np.dtype(np.int64)
_FILL, _CLIP = GatherScatterMode.FILL_OR_DROP, GatherScatterMode.CLIP
_CLIPPING = (_CLIP, GatherScatterMode.ONE_HOT)


def _limits(shape: Sequence[int], dims: GatherDimensionNumbers, sizes: Sequence[int]) -> np.ndarray:
    """The last start, per component of an index vector, at which the window fits."""
    return np.array([shape[axis] - sizes[axis] for axis in dims.start_index_map], _INDEX)


def _as_index(indices: Any) -> Any:
    """Indices as int64; what lies beyond its largest value is out of bounds anyway."""
    if get_aval(indices).dtype == np.uint64:
        indices = min(indices, np.iinfo(_INDEX).max)
    return convert_element_type(indices, _INDEX)


def _along_last(row: np.ndarray, like: Any) -> Any:
    aval = get_aval(like)
    return broadcast_in_dim(row, aval.shape, (aval.ndim - 1,))


class IndexingRules(ElementwiseRules):
    """Gather and scatter in all modes; dynamic slices."""

    def gather(
        self,
        operands: Sequence[Handle],
        outs: Outs,
        *,
        dimension_numbers: GatherDimensionNumbers,
        slice_sizes: Sequence[int],
        mode: GatherScatterMode,
        fill_value: Any,
        indices_are_sorted: bool,
        **rest: Any,
    ) -> Handle:
        """StableHLO's gather clips; filling is a selection after it."""
        x, indices = operands
        (out,) = outs
        if 0 in x.shape or 0 in out.shape:
            fill = fill_value if mode is _FILL and fill_value is not None else 0
            return self.splat(fill, out)
        dims = dimension_numbers
        found = self.op(
            "gather",
            [x, indices],
            outs,
            dimension_numbers=record(
                "gather",
                offset_dims=dims.offset_dims,
                collapsed_slice_dims=dims.collapsed_slice_dims,
                operand_batching_dims=dims.operand_batching_dims,
                start_indices_batching_dims=dims.start_indices_batching_dims,
                start_index_map=dims.start_index_map,
                index_vector_dim=len(indices.shape) - 1,
            ),
            slice_sizes=i64_array(slice_sizes),
            indices_are_sorted=boolean(indices_are_sorted),
        )
        if mode is not _FILL:
            return found
        batch_axes = [i for i in range(len(out.shape)) if i not in dims.offset_dims]
        limits = _limits(x.shape, dims, slice_sizes)

        def fits(vectors: Any) -> list[Any]:
            vectors = _as_index(vectors)
            zero = _along_last(np.zeros_like(limits), vectors)
            inside = bitwise_and(ge(vectors, zero), le(vectors, _along_last(limits, vectors)))
            inside = reduce_and(inside, (get_aval(vectors).ndim - 1,))
            return [broadcast_in_dim(inside, out.shape, batch_axes)]

        inside = self.compose(fits, indices)[0]
        return self.op("select", [inside, found, self.splat(fill_value, out)], outs)

    def scatter(
        self,
        mnemonic: str,
        operands: Sequence[Handle],
        outs: Outs,
        *,
        dimension_numbers: Any,
        mode: GatherScatterMode,
        indices_are_sorted: bool,
        unique_indices: bool,
        **rest: Any,
    ) -> Handle:
        """StableHLO's scatter drops what is out of bounds; clipping comes before it."""
        x, indices, updates = operands
        if 0 in x.shape or 0 in updates.shape:
            return x
        dims = as_gather(dimension_numbers)
        if mode in _CLIPPING:
            sizes = window_sizes(dims, len(x.shape), updates.shape)
            limits = _limits(x.shape, dims, sizes)

            def clipped(vectors: Any) -> list[Any]:
                vectors = _as_index(vectors)
                zero = _along_last(np.zeros_like(limits), vectors)
                return [max(min(vectors, _along_last(limits, vectors)), zero)]

            (indices,) = self.compose(clipped, indices)
        return self.op(
            "scatter",
            [x, indices, updates],
            outs,
            [self._update(mnemonic, x.dtype)],
            scatter_dimension_numbers=record(
                "scatter",
                update_window_dims=dims.offset_dims,
                inserted_window_dims=dims.collapsed_slice_dims,
                input_batching_dims=dims.operand_batching_dims,
                scatter_indices_batching_dims=dims.start_indices_batching_dims,
                scatter_dims_to_operand_dims=dims.start_index_map,
                index_vector_dim=len(indices.shape) - 1,
            ),
            indices_are_sorted=boolean(indices_are_sorted),
            unique_indices=boolean(unique_indices),
        )

    def _update(self, mnemonic: str, dtype: Any) -> str:
        scalar = ShapedArray((), dtype)
        if mnemonic == "replace":
            return self.region([scalar, scalar], lambda pair: [pair[1]])
        return self.region([scalar, scalar], lambda pair: [self.op(mnemonic, pair, [scalar])])

    # -- slices --------------------------------------------------------------------------------

    def _starts(self, starts: Sequence[Handle]) -> list[Handle]:
        return [
            x if x.dtype == _INDEX else self.compose(lambda start: [_as_index(start)], x)[0]
            for x in starts
        ]

    def dynamic_slice(self, operands: Sequence[Handle], outs: Outs, sizes: Sequence[int]) -> Handle:
        x, *starts = operands
        return self.op(
            "dynamic_slice", [x, *self._starts(starts)], outs, slice_sizes=i64_array(sizes)
        )

    def dynamic_update_slice(self, operands: Sequence[Handle], outs: Outs) -> Handle:
        x, update, *starts = operands
        return self.op("dynamic_update_slice", [x, update, *self._starts(starts)], outs)

    def stacked_read(self, x: Handle, position: Handle) -> Handle:
        """`x[position]`: one slice along the first axis."""
        inner = x.shape[1:]
        zero = [self.scalar(0, _INDEX)] * len(inner)
        piece = x.aval.update(shape=(1, *inner))
        read = self.dynamic_slice([x, position, *zero], [piece], piece.shape)
        return self.op("reshape", [read], [x.aval.update(shape=inner)])

    def stacked_write(self, x: Handle, value: Handle, position: Handle) -> Handle:
        """`x` with `value` for its slice `position` along the first axis."""
        inner = x.shape[1:]
        zero = [self.scalar(0, _INDEX)] * len(inner)
        piece = self.op("reshape", [value], [x.aval.update(shape=(1, *inner))])
        return self.dynamic_update_slice([x, piece, position, *zero], [x.aval])
