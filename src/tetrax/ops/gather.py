"""Gather: windows of an operand, read at run-time indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax.ir import kernel, scalar
from tetrax.ir.layout import FactorsBuilder
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import View, element_type, is_complex
from tetrax.ops import axes as ax
from tetrax.ops import index_maps
from tetrax.ops.arithmetic import add, rem
from tetrax.ops.base import TestFacts, register
from tetrax.ops.bits_and_compare import lt
from tetrax.ops.index_maps import GatherDimensionNumbers, GatherScatterMode, IndexMap
from tetrax.ops.index_parts import Pointers, can_be_cut, only_where
from tetrax.ops.join import concatenate
from tetrax.ops.select import select
from tetrax.ops.shape import expand_dims
from tetrax.ops.structure import full, move_axis
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.value import get_aval

FILL = GatherScatterMode.FILL_OR_DROP


class Gather(Primitive):
    """Windows of `slice_sizes` of the operand, one for each index vector.

    Its transpose is a scatter, and stands with the scatters.
    """

    def shape(
        self,
        operand,
        indices,
        *,
        dimension_numbers,
        slice_sizes,
        unique_indices,
        indices_are_sorted,
        mode,
        fill_value,
    ):
        index_maps.check("gather", operand, indices, dimension_numbers, slice_sizes)
        shape = index_maps.result_shape(indices.shape, dimension_numbers, slice_sizes)
        return ShapedArray(shape, operand.dtype, operand.weak_type)

    def factors(self, avals, outs, params):
        operand, indices = avals
        build = FactorsBuilder()
        numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
        located = "sum" if can_be_cut(operand, indices) else None
        dims = index_maps.factors(
            build, operand.shape, indices.shape, numbers, sizes, located=located
        )
        return build.build(dims[:2], dims[2:])

    def positioned(self, operands, outs, place, params):
        x, indices = operands
        dims = params["dimension_numbers"]
        pointers = Pointers(indices, get_aval(x), place, dims)
        if params["mode"] is not FILL:
            pointers.inside(params["slice_sizes"])
        params = self.local_params(params, [], outs)
        return [only_where(pointers.mine(), self.bind(x, pointers.local, **params), dims)]

    def local_params(self, params, avals, outs):
        sizes, dims = list(params["slice_sizes"]), params["dimension_numbers"]
        for axis, place in index_maps.window_axes(dims, len(sizes)):
            sizes[axis] = outs[0].shape[place]
        return {**params, "slice_sizes": tuple(sizes)}

    def reference(self, x, indices, *, dimension_numbers, slice_sizes, mode, fill_value, **rest):
        shape = index_maps.result_shape(indices.shape, dimension_numbers, slice_sizes)
        where = IndexMap(x.shape, shape, dimension_numbers, tuple(slice_sizes))
        if x.size == 0:
            out, inside = np.zeros(shape, x.dtype), np.zeros((1,) * len(shape), bool)
        elif _takes_whole_slices(where):
            out, inside = _take(x, indices, where)
        else:
            rows, inside = where.numpy(indices)
            out = np.broadcast_to(x[tuple(rows)], shape)
        if mode is FILL and not inside.all():
            out = np.where(inside, out, np.asarray(fill_value).astype(x.dtype))
        return out

    def jvp(self, primals, tangents, **params):
        operand, indices = primals
        out = self.bind(operand, indices, **params)
        if type(tangents[0]) is Zero:
            return out, Zero.from_primal_value(out)
        fill = 0 if params["mode"] is FILL else params["fill_value"]
        return out, self.bind(tangents[0], indices, **{**params, "fill_value": fill})

    def batch(self, operands, dims, *, dimension_numbers, slice_sizes, **params):
        (operand, indices), (operand_dim, indices_dim) = operands, dims
        d = GatherDimensionNumbers(*dimension_numbers)
        offset, collapsed, mapped, batching = (tuple(axis + 1 for axis in row) for row in d[:4])
        if operand_dim is None:
            indices = move_axis(indices, indices_dim, 0)
            along = tuple(axis + 1 for axis in d.start_indices_batching_dims)
            new = d._replace(offset_dims=offset, start_indices_batching_dims=along)
            params |= {"unique_indices": False, "indices_are_sorted": False}
        elif indices_dim is None:
            operand = move_axis(operand, operand_dim, 0)
            slice_sizes = (get_aval(operand).shape[0], *slice_sizes)
            new = GatherDimensionNumbers(
                (0, *offset), collapsed, mapped, batching, d.start_indices_batching_dims
            )
        else:
            operand, indices = (
                move_axis(operand, operand_dim, 0),
                move_axis(indices, indices_dim, 0),
            )
            slice_sizes = (min(1, get_aval(operand).shape[0]), *slice_sizes)
            along = (0, *(axis + 1 for axis in d.start_indices_batching_dims))
            new = GatherDimensionNumbers(offset, collapsed, mapped, (0, *batching), along)
        out = self.bind(operand, indices, dimension_numbers=new, slice_sizes=slice_sizes, **params)
        return out, 0

    def rereads(self, avals, params):
        operand, indices = avals
        dims, sizes = params["dimension_numbers"], params["slice_sizes"]
        return ax.product(index_maps.result_shape(indices.shape, dims, sizes)) > operand.size

    def kernel(self, operands, outs, *, dimension_numbers, slice_sizes, mode, fill_value, **rest):
        x, indices = operands
        (out,) = outs
        if ax.product(x.shape) == 0:
            zero = _constant(0, out.dtype)
            return View(out.shape, out.dtype, lambda index: zero)
        where = IndexMap(x.shape, out.shape, dimension_numbers, tuple(slice_sizes))
        batch_axes = where.batch_axes
        components = range(len(dimension_numbers.start_index_map))

        def at(index):
            batch = [index[axis] for axis in batch_axes]
            vector = [indices.at((*batch, kernel.index(i))) for i in components]
            starts, inside = where.starts(vector)
            value = x.at(where.operand_index(starts, index))
            if mode is FILL:
                return scalar.select(inside, value, _constant(fill_value, out.dtype))
            return value

        return View(out.shape, out.dtype, at)

    def stablehlo(self, context, operands, outs, **params):
        return context.gather(operands, outs, **params)


def _takes_whole_slices(where: IndexMap) -> bool:
    """Whether indexed axes are collapsed and the others read in full, as in `x[i, :, j]`."""
    dims = where.dims
    return not dims.operand_batching_dims and all(
        size == extent if axis not in dims.start_index_map else axis in dims.collapsed_slice_dims
        for axis, (size, extent) in enumerate(
            zip(where.slice_sizes, where.operand_shape, strict=True)
        )
    )


def _take(x: np.ndarray, indices: np.ndarray, where: IndexMap) -> tuple[np.ndarray, np.ndarray]:
    """NumPy's indexing of leading axes; quicker than an index array for every axis."""
    mapped = where.dims.start_index_map
    others = [axis for axis in range(x.ndim) if axis not in mapped]
    bare = where._replace(
        result_shape=indices.shape[:-1],
        dims=GatherDimensionNumbers((), tuple(range(len(mapped))), tuple(range(len(mapped)))),
        operand_shape=tuple(x.shape[axis] for axis in mapped),
        slice_sizes=(1,) * len(mapped),
    )
    rows, inside = bare.numpy(indices)
    taken = np.transpose(x, (*mapped, *others))[tuple(rows)]
    taken = np.broadcast_to(taken, (*indices.shape[:-1], *(x.shape[axis] for axis in others)))
    order = [0] * len(where.result_shape)
    for position, axis in enumerate((*where.batch_axes, *where.dims.offset_dims)):
        order[axis] = position
    spread = [1] * len(where.result_shape)
    for axis in where.batch_axes:
        spread[axis] = where.result_shape[axis]
    return np.transpose(taken, order), inside.reshape(spread)


def _constant(value: Any, dtype: Any) -> scalar.Scalar:
    kind = element_type(dtype)
    number: Any = np.asarray(value).astype(getattr(dtype, "storage", dtype))[()]
    if is_complex(dtype):
        return scalar.Complex(kernel.const(number.real, kind), kernel.const(number.imag, kind))
    return kernel.const(number, kind)


def _aval(shape: Sequence[int], dtype: str = "float32") -> ShapedArray:
    return ShapedArray(shape, np.dtype(dtype))


def gather_samples() -> list[tuple[list[ShapedArray], dict]]:
    """Operand types and parameters of typical gathers."""
    rows = [
        ((7, 5), (4, 1), GatherDimensionNumbers((1,), (0,), (0,)), (1, 5), "float32"),
        ((7, 5), (3, 2), GatherDimensionNumbers((1, 2), (), (1, 0)), (2, 3), "float32"),
        ((7, 5), (2, 3, 2), GatherDimensionNumbers((), (0, 1), (0, 1)), (1, 1), "int32"),
        ((3, 6, 4), (3, 2, 1), GatherDimensionNumbers((2,), (1,), (1,), (0,), (0,)), (1, 1, 4),
         "complex64"),
    ]  # fmt: skip
    flags = {"unique_indices": False, "indices_are_sorted": False}
    samples = []
    for shape, indices, dims, sizes, dtype in rows:
        for mode in (GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP):
            params = {"dimension_numbers": dims, "slice_sizes": sizes, "mode": mode, **flags}
            fill = None if mode is GatherScatterMode.CLIP else 0
            avals = [_aval(shape, dtype), _aval(indices, "int32")]
            samples.append((avals, {**params, "fill_value": fill}))
    return samples


gather_p = register(Gather("gather"), TestFacts(ulp=0, samples=gather_samples))


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Any,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Any:
    """Windows of `slice_sizes` of `operand`, one at each index vector (last axis of the indices).

    `mode` says what is read out of bounds: 'fill' gives `fill_value`, by default NaN, or the most
    extreme integer; 'clip' moves the window inside; 'promise_in_bounds' (default) trusts you.
    Raises ShapeError for dimension numbers that do not fit.

    >>> rows = GatherDimensionNumbers((1,), (0,), (0,))
    >>> gather(np.eye(3, dtype="float32"), np.array([[2], [0]]), rows, (1, 3))
    Array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    operand = as_value(operand)
    mode = GatherScatterMode.from_any("promise_in_bounds" if mode is None else mode)
    if mode is not FILL:
        fill_value = None
    elif fill_value is None:
        fill_value = _default_fill(operand.dtype)
    return gather_p.bind(
        operand,
        as_value(start_indices),
        dimension_numbers=GatherDimensionNumbers(
            *(tuple(map(int, row)) for row in dimension_numbers)
        ),
        slice_sizes=ax.canonical_shape(slice_sizes, "slice_sizes"),
        unique_indices=bool(unique_indices),
        indices_are_sorted=bool(indices_are_sorted),
        mode=mode,
        fill_value=fill_value,
    )


def _default_fill(dtype: Any) -> Any:
    """What is read out of bounds: NaN, the most extreme integer, True."""
    if isinstance(dtype, dtypes.ExtendedDType):
        return np.iinfo(dtype.storage).max
    if dtypes.issubdtype(dtype, np.inexact):
        return np.nan
    if dtypes.issubdtype(dtype, np.signedinteger):
        return int(dtypes.iinfo(dtype).min)
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return int(dtypes.iinfo(dtype).max)
    return True


def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Any:
    """The slices of `src` at positions `idxs` (one vector per axis of `axes`), modulo the sizes."""
    src = as_value(src)
    vectors = []
    for position, axis in zip(idxs, axes, strict=True):
        position = as_value(position)
        extent = full(position.shape, src.shape[axis], position.dtype)
        left = rem(position, extent)
        zero = full(position.shape, 0, position.dtype)
        vectors.append(expand_dims(select(lt(left, zero), add(left, extent), left), (1,)))
    indices = concatenate(vectors, 1)
    sizes = [1 if axis in axes else extent for axis, extent in enumerate(src.shape)]
    offsets = tuple(range(1, src.ndim - len(vectors) + 1))
    dims = GatherDimensionNumbers(offsets, tuple(axes), tuple(axes))
    return gather(src, indices, dims, sizes)


__all__ = [
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "gather",
    "gather_p",
    "gather_samples",
    "index_take",
]
