"""Slices at run-time positions, and slicing along one axis."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.ir import kernel
from tetrax.ir.layout import apart_from
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import View
from tetrax.ops import axes as ax
from tetrax.ops.arithmetic import add
from tetrax.ops.base import TestFacts, batch_size, dtype_kind, register, typed_scalar
from tetrax.ops.bits_and_compare import lt
from tetrax.ops.convert import convert_element_type
from tetrax.ops.gather import gather
from tetrax.ops.index_maps import GatherDimensionNumbers, GatherScatterMode, as_index
from tetrax.ops.join import check_equal_dtypes, concatenate, slice_
from tetrax.ops.nests import flat, load_scalar, store_scalar, vector_nest
from tetrax.ops.scatter import ScatterDimensionNumbers
from tetrax.ops.scatter_functions import scatter
from tetrax.ops.select import select
from tetrax.ops.shape import expand_dims, reshape, squeeze
from tetrax.ops.structure import batch_at, instantiate, move_axis, zeros
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.symbolic import Zero, aval_of, is_undefined
from tetrax.tracing.value import get_aval

CLIP = GatherScatterMode.CLIP


def _check_starts(name: str, operand: ShapedArray, starts: Sequence[ShapedArray]) -> None:
    if len(starts) != operand.ndim:
        raise errors.ShapeError(
            f"{name} needs one start index per axis: got {len(starts)} start indices for operand "
            f"shape {operand.shape}"
        )
    for start in starts:
        if start.shape != () or dtype_kind(start.dtype) not in "iu":
            raise errors.ShapeError(
                f"{name}: start indices must be integer scalars, got {start.str_short()}"
            )


def _clipped(start: np.ndarray, extent: int, size: int) -> int:
    return max(0, min(int(start), extent - size))


def _clipped_index(start: Any, extent: int, size: int) -> Any:
    """The same in a kernel."""
    if extent == size:
        return kernel.index(0)
    last = kernel.index(extent - size)
    return kernel.maximum(kernel.minimum(as_index(start), last), kernel.index(0))


class DynamicSlice(Primitive):
    """The window of `slice_sizes` at start indices, moved inside the operand if need be."""

    def shape(self, operand, *starts, slice_sizes):
        _check_starts("dynamic_slice", operand, starts)
        if len(slice_sizes) != operand.ndim or any(
            not 0 <= size <= extent
            for size, extent in zip(slice_sizes, operand.shape, strict=False)
        ):
            raise errors.ShapeError(
                "slice slice_sizes must be one per axis and at most operand shape: got slice_sizes "
                f"{tuple(slice_sizes)} for operand shape {operand.shape}"
            )
        return ShapedArray(slice_sizes, operand.dtype, operand.weak_type)

    def factors(self, avals, outs, params):
        # Axes that are taken whole: wherever the window begins, it is moved to 0.
        return apart_from(avals, outs, ax.differing(avals[0].shape, outs[0].shape))

    def local_params(self, params, avals, outs):
        return {**params, "slice_sizes": outs[0].shape}

    def reference(self, x, *starts, slice_sizes):
        rows = []
        for start, extent, size in zip(starts, x.shape, slice_sizes, strict=True):
            first = _clipped(start, extent, size)
            rows.append(slice(first, first + size))
        return x[tuple(rows)]

    def jvp(self, primals, tangents, *, slice_sizes):
        out = self.bind(*primals, slice_sizes=slice_sizes)
        if type(tangents[0]) is Zero:
            return out, Zero.from_primal_value(out)
        return out, self.bind(tangents[0], *primals[1:], slice_sizes=slice_sizes)

    def transpose(self, ct, x, *starts, slice_sizes):
        rest = [None] * len(starts)
        if type(ct) is Zero:
            return [Zero(x.aval), *rest]
        zero = zeros(ShapedArray(x.aval.shape, get_aval(ct).dtype))
        return [dynamic_update_slice_p.bind(zero, ct, *starts), *rest]

    def batch(self, operands, dims, *, slice_sizes):
        x, *starts = operands
        x_dim, *start_dims = dims
        if all(d is None for d in start_dims):
            x = move_axis(x, x_dim, 0)
            zero = typed_scalar(0, get_aval(starts[0]).dtype if starts else np.dtype(np.int32))
            sizes = (get_aval(x).shape[0], *slice_sizes)
            return self.bind(x, zero, *starts, slice_sizes=sizes), 0
        indices = _index_vectors(starts, start_dims, batch_size(operands, dims))
        ndim = len(slice_sizes)
        if x_dim is None:
            numbers = GatherDimensionNumbers(tuple(range(1, ndim + 1)), (), tuple(range(ndim)))
            return gather(x, indices, numbers, slice_sizes, mode=CLIP), 0
        x = move_axis(x, x_dim, 0)
        each = tuple(range(1, ndim + 1))
        numbers = GatherDimensionNumbers(each, (), each, (0,), (0,))
        return gather(x, indices, numbers, (1, *slice_sizes), mode=CLIP), 0

    def kernel(self, operands, outs, *, slice_sizes):
        x, *starts = operands

        def at(index):
            rows = []
            for start, extent, size, i in zip(starts, x.shape, slice_sizes, index, strict=True):
                rows.append(kernel.add(_clipped_index(start.at(()), extent, size), i))
            return x.at(tuple(rows))

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context, operands, outs, *, slice_sizes):
        return context.dynamic_slice(operands, outs, slice_sizes)


def _index_vectors(starts: Sequence[Any], dims: Sequence[Any], size: int) -> Any:
    """The start indices of a batch as rows of a matrix."""
    wide = any(get_aval(start).dtype.itemsize == 8 for start in starts)
    dtype = np.dtype(np.int64 if wide else np.int32)
    columns = [
        expand_dims(convert_element_type(batch_at(start, dim, size), dtype), (1,))
        for start, dim in zip(starts, dims, strict=True)
    ]
    return concatenate(columns, 1)


class DynamicUpdateSlice(Primitive):
    """The operand with a window overwritten, moved inside the operand if need be."""

    updates = 0

    def shape(self, operand, update, *starts):
        _check_starts("dynamic_update_slice", operand, starts)
        check_equal_dtypes("dynamic_update_slice", (operand, update))
        if update.ndim != operand.ndim or any(
            size > extent for size, extent in zip(update.shape, operand.shape, strict=False)
        ):
            raise errors.ShapeError(
                "dynamic_update_slice update must have the rank of operand and fit into it: got "
                f"update shape {update.shape} for operand shape {operand.shape}"
            )
        return ShapedArray(operand.shape, operand.dtype, operand.weak_type)

    def factors(self, avals, outs, params):
        return apart_from(avals, outs, ax.differing(avals[0].shape, avals[1].shape))

    def reference(self, x, update, *starts):
        rows = []
        for start, extent, size in zip(starts, x.shape, update.shape, strict=True):
            first = _clipped(start, extent, size)
            rows.append(slice(first, first + size))
        out = np.array(x)
        out[tuple(rows)] = update
        return out

    def jvp(self, primals, tangents):
        out = self.bind(*primals)
        if type(tangents[0]) is Zero and type(tangents[1]) is Zero:
            return out, Zero.from_primal_value(out)
        operand, update = (instantiate(t) for t in tangents[:2])
        return out, self.bind(operand, update, *primals[2:])

    def transpose(self, ct, x, update, *starts):
        rest = [None] * len(starts)
        if type(ct) is Zero:
            return [Zero(o.aval) if is_undefined(o) else None for o in (x, update)] + rest
        window = aval_of(update).shape
        x_ct = update_ct = None
        if is_undefined(x):
            nothing = zeros(ShapedArray(window, get_aval(ct).dtype))
            x_ct = self.bind(ct, nothing, *starts)
        if is_undefined(update):
            update_ct = dynamic_slice_p.bind(ct, *starts, slice_sizes=tuple(window))
        return [x_ct, update_ct, *rest]

    def batch(self, operands, dims):
        x, update, *starts = operands
        x_dim, update_dim, *start_dims = dims
        size = batch_size(operands, dims)
        x, update = batch_at(x, x_dim, size), batch_at(update, update_dim, size)
        if all(d is None for d in start_dims):
            zero = typed_scalar(0, get_aval(starts[0]).dtype if starts else np.dtype(np.int32))
            return self.bind(x, update, zero, *starts), 0
        each = tuple(range(1, get_aval(x).ndim))
        numbers = ScatterDimensionNumbers(each, (), each, (0,), (0,))
        indices = _index_vectors(starts, start_dims, size)
        out = scatter(
            x, indices, update, numbers, indices_are_sorted=True, unique_indices=True, mode=CLIP
        )
        return out, 0

    def emit(self, builder, operands, outs):
        x, update, *starts = operands
        (out,) = outs
        firsts = [
            _clipped_index(builder.load(start.buffer, 0), extent, size)
            for start, extent, size in zip(starts, x.shape, update.shape, strict=True)
        ]
        base = flat(firsts, ax.row_major_strides(x.shape))
        with vector_nest(builder, update.shape) as index:
            target = kernel.add(base, flat(index, ax.row_major_strides(x.shape)))
            source = flat(index, ax.row_major_strides(update.shape))
            store_scalar(builder, out, target, load_scalar(builder, update, source))

    def stablehlo(self, context, operands, outs):
        return context.dynamic_update_slice(operands, outs)


def _aval(shape: Sequence[int], dtype: str = "float32") -> ShapedArray:
    return ShapedArray(shape, np.dtype(dtype))


def _slice_samples():
    index = _aval((), "int32")
    return [
        ([_aval((5, 7)), index, index], {"slice_sizes": (2, 7)}),
        ([_aval((33,), "complex64"), index], {"slice_sizes": (9,)}),
        ([_aval((), "int32")], {"slice_sizes": ()}),
    ]


def _update_samples():
    index = _aval((), "int32")
    return [
        ([_aval((5, 7)), _aval((2, 7)), index, index], {}),
        ([_aval((33,), "complex64"), _aval((9,), "complex64"), index], {}),
        ([_aval((3, 4)), _aval((0, 4)), index, index], {}),
    ]


dynamic_slice_p = register(DynamicSlice("dynamic_slice"), TestFacts(ulp=0, samples=_slice_samples))
dynamic_update_slice_p = register(
    DynamicUpdateSlice("dynamic_update_slice"), TestFacts(ulp=0, samples=_update_samples)
)


# -- functions -----------------------------------------------------------------------------------


def _start_indices(
    operand: Any, start_indices: Any, allow_negative: bool | Sequence[bool]
) -> list[Any]:
    """Start indices as scalars, counted from the front."""
    shape = get_aval(operand).shape
    if not isinstance(start_indices, list | tuple):
        vector = as_value(start_indices)
        if vector.ndim != 1:
            raise ValueError(f"Slice indices must be a 1D sequence, got {vector.shape}")
        start_indices = [
            reshape(slice_(vector, (i,), (i + 1,)), ()) for i in range(vector.shape[0])
        ]
    if len(start_indices) != len(shape):
        raise ValueError(
            "Length of slice indices must match number of operand dimensions "
            f"({len(start_indices)} vs {shape})"
        )
    if isinstance(allow_negative, bool):
        allow_negative = [allow_negative] * len(shape)
    return [
        _from_front(start, extent, allowed)
        for start, extent, allowed in zip(start_indices, shape, allow_negative, strict=True)
    ]


def _from_front(start: Any, extent: int, allow_negative: bool) -> Any:
    if isinstance(start, int | np.integer):
        if start < 0 and not allow_negative:
            raise ValueError(
                f"Index {start} is out of bounds for dimension {extent} if "
                "allow_negative_indices=False"
            )
        return as_value(start + extent if start < 0 else start)
    start = as_value(start)
    if not allow_negative or dtype_kind(start.dtype) != "i" or start.ndim:
        return start
    size, zero = typed_scalar(extent, start.dtype), typed_scalar(0, start.dtype)
    return select(lt(start, zero), add(start, size), start)


def dynamic_slice(
    operand: Any,
    start_indices: Any,
    slice_sizes: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """The window of `slice_sizes` at run-time `start_indices`, moved inside `operand` if need be.

    Negative indices count from the end. Raises ShapeError if the window is larger than `operand`.

    >>> dynamic_slice(np.arange(6, dtype="int32"), (4,), (3,))
    Array([3, 4, 5], dtype=int32)
    """
    operand = as_value(operand)
    starts = _start_indices(operand, start_indices, allow_negative_indices)
    sizes = ax.canonical_shape(slice_sizes, "slice_sizes")
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=sizes)


def dynamic_update_slice(
    operand: Any,
    update: Any,
    start_indices: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """`operand` with `update` written at run-time `start_indices`, moved inside if need be.

    >>> dynamic_update_slice(np.zeros(4, "float32"), np.ones(2, "float32"), (1,))
    Array([0., 1., 1., 0.], dtype=float32)
    """
    operand, update = as_value(operand), as_value(update)
    starts = _start_indices(operand, start_indices, allow_negative_indices)
    return dynamic_update_slice_p.bind(operand, update, *starts)


def _one_axis(operand: Any, start: Any, axis: int, allowed: bool) -> tuple[list, list]:
    """Start indices with only `axis` given, and where negative ones are allowed."""
    aval = get_aval(operand)
    axis = ax.canonical_axis(axis, aval.ndim)
    zero = typed_scalar(0, get_aval(start).dtype)
    return (
        [start if i == axis else zero for i in range(aval.ndim)],
        [allowed and i == axis for i in range(aval.ndim)],
    )


def dynamic_slice_in_dim(
    operand: Any,
    start_index: Any,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """`slice_size` elements of `operand` along `axis`, from a run-time start."""
    operand = as_value(operand)
    starts, allowed = _one_axis(operand, start_index, axis, allow_negative_indices)
    axis = ax.canonical_axis(axis, operand.ndim)
    sizes = ax.replace(operand.shape, axis, operator.index(slice_size))
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=allowed)


def dynamic_index_in_dim(
    operand: Any,
    index: Any,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """The element of `operand` along `axis` at a run-time index; the axis stays with size 1."""
    out = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    return out if keepdims else squeeze(out, (axis,))


def dynamic_update_slice_in_dim(
    operand: Any, update: Any, start_index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Any:
    """`operand` with `update` written along `axis`, from a run-time start."""
    operand = as_value(operand)
    starts, allowed = _one_axis(operand, start_index, axis, allow_negative_indices)
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=allowed)


def dynamic_update_index_in_dim(
    operand: Any, update: Any, index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Any:
    """`operand` with `update` written at a run-time index of `axis`."""
    operand, update = as_value(operand), as_value(update)
    axis = ax.canonical_axis(axis, operand.ndim)
    if update.ndim != operand.ndim:
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )


def slice_in_dim(
    operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Any:
    """`operand[start_index:limit_index:stride]` along `axis`, without clipping of the bounds.

    >>> slice_in_dim(np.arange(5, dtype="int32"), 1, -1)
    Array([1, 2, 3], dtype=int32)
    """
    operand = as_value(operand)
    axis = ax.canonical_axis(axis, operand.ndim)
    extent = operand.shape[axis]
    start = 0 if start_index is None else operator.index(start_index)
    limit = extent if limit_index is None else operator.index(limit_index)
    starts = ax.replace((0,) * operand.ndim, axis, start + extent if start < 0 else start)
    limits = ax.replace(operand.shape, axis, limit + extent if limit < 0 else limit)
    strides = ax.replace((1,) * operand.ndim, axis, operator.index(stride))
    return slice_(operand, starts, limits, strides)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """The element of `operand` along `axis` at `index`; the axis stays with size 1.

    Raises IndexError out of bounds.
    """
    operand = as_value(operand)
    axis = ax.canonical_axis(axis, operand.ndim)
    extent, index = operand.shape[axis], operator.index(index)
    position = index + extent if index < 0 else index
    if not 0 <= position < extent:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {extent}")
    out = slice_in_dim(operand, position, position + 1, 1, axis)
    return out if keepdims else squeeze(out, (axis,))


__all__ = [
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_slice_p",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "dynamic_update_slice_p",
    "index_in_dim",
    "slice_in_dim",
]
