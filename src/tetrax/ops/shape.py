"""Operations that only give elements another place: squeeze, reverse, tile, reshape, broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.ir import kernel
from tetrax.ir.layout import FactorsBuilder, apart_from
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import View
from tetrax.ops import axes as ax
from tetrax.ops import structure
from tetrax.ops.base import TestFacts, register
from tetrax.ops.structure import Linear, move_axis, reduce_sum
from tetrax.ops.structure import reshape as reshape_plain
from tetrax.runtime.array import as_value
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.value import get_aval


class Squeeze(Linear):
    """Leaves out axes of size 1."""

    def shape(self, operand, *, dimensions):
        if any(not 0 <= axis < operand.ndim or operand.shape[axis] != 1 for axis in dimensions):
            raise errors.ShapeError(
                "cannot select an axis to squeeze out which has size not equal to one: got shape "
                f"{operand.shape} and dimensions={tuple(dimensions)}"
            )
        return ShapedArray(ax.without(operand.shape, dimensions), operand.dtype, operand.weak_type)

    def factors(self, avals, outs, params):
        build = FactorsBuilder()
        operand = build.axes(avals[0].shape)
        return build.build([operand], [ax.without(operand, params["dimensions"])])

    def reference(self, x, *, dimensions):
        return x.reshape(ax.without(x.shape, dimensions))

    def transpose(self, ct, x, *, dimensions):
        return [Zero(x.aval) if type(ct) is Zero else reshape_plain(ct, x.aval.shape)]

    def batch(self, operands, dims, *, dimensions):
        x = move_axis(operands[0], dims[0], 0)
        return squeeze(x, tuple(axis + 1 for axis in dimensions)), 0

    def kernel(self, operands, outs, *, dimensions):
        (x,) = operands
        zero = kernel.index(0)
        kept = [axis for axis in range(len(x.shape)) if axis not in dimensions]

        def at(index):
            full = [zero] * len(x.shape)
            for axis, position in zip(kept, index, strict=True):
                full[axis] = position
            return x.at(tuple(full))

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context, operands, outs, *, dimensions):
        return context.op("reshape", operands, outs)


class Rev(Linear):
    """Reverses the order of elements along axes."""

    def shape(self, operand, *, dimensions):
        if len(set(dimensions)) != len(dimensions) or any(
            not 0 <= axis < operand.ndim for axis in dimensions
        ):
            raise errors.ShapeError(
                f"rev dimensions must be distinct axes of the operand: got dimensions="
                f"{tuple(dimensions)} for shape {operand.shape}"
            )
        return ShapedArray(operand.shape, operand.dtype, operand.weak_type)

    def factors(self, avals, outs, params):
        return apart_from(avals, outs, params["dimensions"])

    def reference(self, x, *, dimensions):
        return np.flip(x, dimensions)

    def transpose(self, ct, x, *, dimensions):
        return [Zero(x.aval) if type(ct) is Zero else rev(ct, dimensions)]

    def batch(self, operands, dims, *, dimensions):
        (x,), (dim,) = operands, dims
        return rev(x, tuple(axis + (axis >= dim) for axis in dimensions)), dim

    def kernel(self, operands, outs, *, dimensions):
        (x,) = operands

        def at(index):
            return x.at(
                tuple(
                    kernel.sub(kernel.index(x.shape[axis] - 1), position)
                    if axis in dimensions
                    else position
                    for axis, position in enumerate(index)
                )
            )

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context, operands, outs, *, dimensions):
        return context.op("reverse", operands, outs, dimensions=context.i64_array(dimensions))


class Tile(Linear):
    """Repeats the operand `reps[i]` times along axis `i`."""

    def shape(self, operand, *, reps):
        if len(reps) != operand.ndim or any(rep < 0 for rep in reps):
            raise errors.ShapeError(
                f"tile needs one non-negative repetition per axis: got reps={tuple(reps)} for "
                f"shape {operand.shape}"
            )
        shape = [rep * extent for rep, extent in zip(reps, operand.shape, strict=True)]
        return ShapedArray(shape, operand.dtype, operand.weak_type)

    def factors(self, avals, outs, params):
        build = FactorsBuilder()
        operand = build.axes(avals[0].shape)
        pairs = zip(params["reps"], operand, strict=True)
        return build.build([operand], [[(build.new(n), axis) for n, axis in pairs]])

    def local_params(self, params, avals, outs):
        sizes = zip(outs[0].shape, avals[0].shape, params["reps"], strict=True)
        return {**params, "reps": tuple(out // n if n else rep for out, n, rep in sizes)}

    def reference(self, x, *, reps):
        return np.tile(x, reps)

    def transpose(self, ct, x, *, reps):
        if type(ct) is Zero:
            return [Zero(x.aval)]
        split = [n for pair in zip(reps, x.aval.shape, strict=True) for n in pair]
        return [reduce_sum(reshape_plain(ct, split), range(0, len(split), 2))]

    def batch(self, operands, dims, *, reps):
        (x,), (dim,) = operands, dims
        return tile(x, ax.insert(reps, dim, 1)), dim

    def rereads(self, avals, params):
        return ax.product(params["reps"]) > 1

    def kernel(self, operands, outs, *, reps):
        (x,) = operands

        def at(index):
            return x.at(
                tuple(
                    kernel.rem(position, kernel.index(extent)) if rep != 1 else position
                    for position, extent, rep in zip(index, x.shape, reps, strict=True)
                )
            )

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context, operands, outs, *, reps):
        shape = operands[0].aval.shape
        split = tuple(n for pair in zip(reps, shape, strict=True) for n in pair)
        dims = context.i64_array(range(1, len(split), 2))
        split_aval = ShapedArray(split, outs[0].dtype)
        grown = context.op("broadcast_in_dim", operands, [split_aval], broadcast_dimensions=dims)
        return context.op("reshape", [grown], outs)


def _aval(shape: Sequence[int], dtype: str = "float32") -> ShapedArray:
    return ShapedArray(shape, np.dtype(dtype))


def _squeeze_samples():
    return [
        ([_aval((1, 3, 1))], {"dimensions": (0,)}),
        ([_aval((1, 3, 1), "int32")], {"dimensions": (0, 2)}),
        ([_aval((1,), "complex64")], {"dimensions": (0,)}),
    ]


def _rev_samples():
    return [
        ([_aval((7,))], {"dimensions": (0,)}),
        ([_aval((3, 5), "int32")], {"dimensions": (0, 1)}),
        ([_aval((0, 2), "complex64")], {"dimensions": (0,)}),
    ]


def _tile_samples():
    return [
        ([_aval((3, 2))], {"reps": (2, 3)}),
        ([_aval((4,), "int32")], {"reps": (1,)}),
        ([_aval((4,), "complex64")], {"reps": (0,)}),
    ]


squeeze_p = register(Squeeze("squeeze"), TestFacts(samples=_squeeze_samples))
rev_p = register(Rev("rev"), TestFacts(samples=_rev_samples))
tile_p = register(Tile("tile"), TestFacts(samples=_tile_samples))


# -- functions -----------------------------------------------------------------------------------


def reshape(
    operand: Any, new_sizes: Any, dimensions: Any = None, *, out_sharding: Any = None
) -> Any:
    """The elements of `operand` under another shape of the same size.

    Elements are taken in row-major order, or in that of `dimensions`, a permutation of the axes.
    Raises ShapeError if the sizes differ.

    >>> reshape(np.arange(4, dtype="int32"), (2, 2), dimensions=(0,))
    Array([[0, 1],
           [2, 3]], dtype=int32)
    """
    new_sizes = ax.canonical_shape(new_sizes, "new_sizes")
    if dimensions is not None:
        dimensions = tuple(dimensions)
        if sorted(dimensions) != list(range(get_aval(operand).ndim)):
            raise errors.ShapeError(
                "reshape dimensions must be a permutation of operand dimensions, got dimensions "
                f"{dimensions} for shape {get_aval(operand).shape}"
            )
        operand = structure.transpose(operand, dimensions)
    return reshape_plain(as_value(operand), new_sizes)


def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """`array` without the axes `dimensions`, which must have size 1 (else ShapeError)."""
    dimensions = ax.canonical_axes(dimensions, get_aval(array).ndim, "dimensions")
    if not dimensions:
        return as_value(array)
    return squeeze_p.bind(array, dimensions=dimensions)


def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """`array` with new axes of size 1 at the positions `dimensions` of the result.

    >>> expand_dims(np.zeros(3), (0, -1)).shape
    (1, 3, 1)
    """
    shape = get_aval(array).shape
    ndim = len(shape) + len(tuple(dimensions))
    new = ax.canonical_axes(dimensions, ndim, "dimensions")
    kept = iter(shape)
    result = tuple(1 if axis in new else next(kept) for axis in range(ndim))
    return broadcast_in_dim(array, result, [axis for axis in range(ndim) if axis not in new])


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """`operand` with its elements in reverse order along `dimensions`."""
    dimensions = ax.canonical_axes(dimensions, get_aval(operand).ndim, "dimensions")
    if not dimensions:
        return as_value(operand)
    return rev_p.bind(operand, dimensions=dimensions)


def tile(operand: Any, reps: Sequence[int]) -> Any:
    """`operand` repeated `reps[i]` times along axis `i`.

    >>> tile(np.arange(2, dtype="int32"), (2,))
    Array([0, 1, 0, 1], dtype=int32)
    """
    return tile_p.bind(operand, reps=tuple(reps))


def transpose(operand: Any, permutation: Any) -> Any:
    """`operand` with axis `permutation[i]` as axis `i` of the result."""
    permutation = tuple(int(axis) for axis in permutation)
    return structure.transpose(operand, permutation)


def broadcast(operand: Any, sizes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """`operand` repeated along new leading axes of `sizes`."""
    shape = get_aval(operand).shape
    sizes = ax.canonical_shape(sizes, "sizes")
    dims = range(len(sizes), len(sizes) + len(shape))
    return structure.broadcast_in_dim(operand, (*sizes, *shape), dims)


def broadcast_in_dim(
    operand: Any, shape: Any, broadcast_dimensions: Sequence[int], *, out_sharding: Any = None
) -> Any:
    """`operand` with its axes at `broadcast_dimensions` of `shape`, repeated along the others.

    >>> broadcast_in_dim(np.arange(2, dtype="int32"), (2, 3), (0,))
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int32)
    """
    shape = ax.canonical_shape(shape)
    return structure.broadcast_in_dim(operand, shape, [int(d) for d in broadcast_dimensions])


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of `shapes` broadcast to, by NumPy's rule.

    Raises ValueError if there is none.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for extents in zip(*padded, strict=True):
        distinct = {extent for extent in extents if extent != 1}
        if len(distinct) > 1:
            shown = ", ".join(str(tuple(shape)) for shape in shapes)
            raise ValueError(
                f"Incompatible shapes for broadcasting: shapes=[{shown}]. Axes must be equal or 1, "
                "counted from the last"
            )
        result.append(distinct.pop() if distinct else 1)
    return tuple(result)


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """`x` with leading axes of size 1 until it has `rank` axes."""
    ndim = get_aval(x).ndim
    return as_value(x) if ndim == rank else expand_dims(x, range(rank - ndim))


def broadcast_like(arr: Any, like_arr: Any) -> Any:
    """`arr` broadcast to the shape of `like_arr` by NumPy's rule."""
    target = get_aval(like_arr).shape
    shape = get_aval(arr).shape
    if broadcast_shapes(shape, target) != target:
        raise ValueError(f"cannot broadcast shape {shape} to {target}")
    dims = range(len(target) - len(shape), len(target))
    return structure.broadcast_in_dim(arr, target, dims)


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """`operand` with the axes from `start_dimension` up to `stop_dimension` made one.

    >>> collapse(np.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    shape = get_aval(operand).shape
    start, stop, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if stop < start:
        raise ValueError(f"start and stop should satisfy start <= stop, got {start=}, {stop=}")
    merged = ax.product(shape[start:stop])
    return reshape_plain(as_value(operand), (*shape[:start], merged, *shape[stop:]))


__all__ = [
    "broadcast",
    "broadcast_in_dim",
    "broadcast_like",
    "broadcast_shapes",
    "broadcast_to_rank",
    "collapse",
    "expand_dims",
    "reshape",
    "rev",
    "rev_p",
    "squeeze",
    "squeeze_p",
    "tile",
    "tile_p",
    "transpose",
]
