"""Concatenate, pad and slice, which are each other's transposes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.ir import kernel, scalar
from tetrax.ir.layout import apart_from
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import View, parts
from tetrax.ops import axes as ax
from tetrax.ops.arithmetic import sub
from tetrax.ops.base import TestFacts, batch_size, dtype_kind, register
from tetrax.ops.select import select
from tetrax.ops.structure import (
    Linear,
    batch_at,
    broadcast_in_dim,
    full,
    instantiate,
    move_axis,
    reduce_sum,
)
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.symbolic import Zero, aval_of, is_undefined
from tetrax.tracing.value import get_aval

# Concatenations up to this many elements are computed where they are used (every operand is looked
# at for every element); larger ones are copied piece by piece.
FUSED_CONCATENATION = 512
# Larger ones can be if a loop over the axis can be cut where the operands meet.
FUSED_PIECES = 4
LONG_AXIS = 64


class Concatenate(Primitive):
    """Operands one after another along `dimension`."""

    def shape(self, *operands, dimension):
        if not operands:
            raise errors.ShapeError("concatenate expects at least one operand, got 0")
        first = operands[0]
        shown = ", ".join(str(x.shape) for x in operands)
        if any(x.ndim != first.ndim for x in operands):
            raise errors.ShapeError(
                f"Cannot concatenate arrays with different numbers of dimensions: got {shown}"
            )
        if not 0 <= dimension < first.ndim:
            raise errors.ShapeError(
                f"concatenate dimension out of bounds: dimension {dimension} for shapes {shown}"
            )
        other = ax.without(first.shape, (dimension,))
        if any(ax.without(x.shape, (dimension,)) != other for x in operands):
            raise errors.ShapeError(
                "Cannot concatenate arrays with shapes that differ in dimensions other than the "
                f"one being concatenated: dimension {dimension} for shapes {shown}"
            )
        check_equal_dtypes("concatenate", operands)
        total = sum(x.shape[dimension] for x in operands)
        shape = (*first.shape[:dimension], total, *first.shape[dimension + 1 :])
        return ShapedArray(shape, first.dtype, all(x.weak_type for x in operands))

    def factors(self, avals, outs, params):
        return apart_from(avals, outs, (params["dimension"],))

    def reference(self, *arrays, dimension):
        return np.concatenate(arrays, axis=dimension)

    def jvp(self, primals, tangents, *, dimension):
        out = self.bind(*primals, dimension=dimension)
        if all(type(t) is Zero for t in tangents):
            return out, Zero.from_primal_value(out)
        return out, self.bind(*[instantiate(t) for t in tangents], dimension=dimension)

    def transpose(self, ct, *operands, dimension):
        if type(ct) is Zero:
            return [Zero(x.aval) if is_undefined(x) else None for x in operands]
        ends = list(accumulate(aval_of(x).shape[dimension] for x in operands))
        starts = [0, *ends[:-1]]
        return [
            slice_along(ct, dimension, start, end) if is_undefined(x) else None
            for x, start, end in zip(operands, starts, ends, strict=True)
        ]

    def batch(self, operands, dims, *, dimension):
        size = batch_size(operands, dims)
        moved = [batch_at(x, d, size) for x, d in zip(operands, dims, strict=True)]
        return self.bind(*moved, dimension=dimension + 1), 0

    def stores(self, avals, params):
        pieces = [x.shape[params["dimension"]] for x in avals if x.size]
        few = len(pieces) <= FUSED_PIECES and sum(pieces) >= LONG_AXIS
        return self.piecewise(avals, params) and not few

    def piecewise(self, avals, params):
        return sum(x.size for x in avals) > FUSED_CONCATENATION

    def kernel(self, operands, outs, *, dimension):
        ends = list(accumulate(x.shape[dimension] for x in operands))
        rows = [(x, end) for x, end in zip(operands, ends, strict=True) if x.shape[dimension] != 0]

        def at(index):
            position = index[dimension]
            value = None
            for x, end in reversed(rows):
                extent = x.shape[dimension]
                inside = clamp_index(kernel.sub(position, kernel.index(end - extent)), extent)
                here = x.at(ax.replace(index, dimension, inside))
                if value is None:
                    value = here
                else:
                    value = scalar.select(kernel.lt(position, kernel.index(end)), here, value)
            return value

        return View(outs[0].shape, outs[0].dtype, at)

    def emit(self, builder, operands, outs, *, dimension):
        (out,) = outs
        inner = ax.product(out.shape[dimension + 1 :]) * parts(out.dtype)
        whole = out.shape[dimension] * inner
        with builder.loop(ax.product(out.shape[:dimension])) as row:
            position = 0
            for x in operands:
                piece = x.shape[dimension] * inner
                target = kernel.add(kernel.mul(row, whole), position)
                source = kernel.mul(row, piece)
                with builder.loop(piece, "vector") as i:
                    value = builder.load(x.buffer, kernel.add(source, i))
                    builder.store(out.buffer, kernel.add(target, i), value)
                position += piece

    def stablehlo(self, context, operands, outs, *, dimension):
        return context.op("concatenate", operands, outs, dimension=context.i64(dimension))


def clamp_index(position: Any, extent: int) -> Any:
    """`position` moved into `0 <= position < extent`."""
    return kernel.maximum(kernel.minimum(position, kernel.index(extent - 1)), kernel.index(0))


def check_equal_dtypes(name: str, avals: Sequence[ShapedArray]) -> None:
    """Raises ShapeError unless all operands have one dtype."""
    if any(x.dtype != avals[0].dtype for x in avals):
        shown = ", ".join(x.dtype.name for x in avals)
        raise errors.ShapeError(
            f"lax.{name} requires arguments to have equal dtypes, got {shown}. Convert them with "
            "lax.convert_element_type first"
        )


class Pad(Primitive):
    """Adds (or with negative amounts removes) elements at the ends and between elements."""

    def shape(self, operand, padding_value, *, padding_config):
        check_equal_dtypes("pad", (operand, padding_value))
        if padding_value.shape != ():
            raise errors.ShapeError(
                f"padding_value must be a scalar; got shape {padding_value.shape}"
            )
        if len(padding_config) != operand.ndim:
            raise errors.ShapeError(
                "length of padding_config must equal the number of axes of operand, got "
                f"padding_config {padding_config} for operand shape {operand.shape}"
            )
        if any(interior < 0 for _, _, interior in padding_config):
            raise errors.ShapeError(
                f"interior padding in padding_config must be nonnegative, got {padding_config}"
            )
        shape = tuple(
            low + high + dilated(extent, interior + 1)
            for extent, (low, high, interior) in zip(operand.shape, padding_config, strict=True)
        )
        if any(extent < 0 for extent in shape):
            raise errors.ShapeError(
                f"Dimension size after padding is not at least 0, got result shape {shape} for "
                f"padding_config={padding_config} operand.shape={operand.shape}"
            )
        weak = operand.weak_type and padding_value.weak_type
        return ShapedArray(shape, operand.dtype, weak)

    def factors(self, avals, outs, params):
        padded = [i for i, amounts in enumerate(params["padding_config"]) if any(amounts)]
        return apart_from(avals, outs, padded)

    def reference(self, x, value, *, padding_config):
        shape = [
            low + high + dilated(extent, interior + 1)
            for extent, (low, high, interior) in zip(x.shape, padding_config, strict=True)
        ]
        out = np.full(shape, value, x.dtype)
        rows = [pad_slices(n, *row) for n, row in zip(x.shape, padding_config, strict=True)]
        out[tuple(target for target, _ in rows)] = x[tuple(source for _, source in rows)]
        return out

    def jvp(self, primals, tangents, *, padding_config):
        out = self.bind(*primals, padding_config=padding_config)
        if all(type(t) is Zero for t in tangents):
            return out, Zero.from_primal_value(out)
        tangents = [instantiate(t) for t in tangents]
        return out, self.bind(*tangents, padding_config=padding_config)

    def transpose(self, ct, x, value, *, padding_config):
        if type(ct) is Zero:
            return [Zero(o.aval) if is_undefined(o) else None for o in (x, value)]
        zero = full((), 0, get_aval(ct).dtype)
        cropped = pad(ct, zero, [(-low, -high, 0) for low, high, _ in padding_config])
        inner = slice_(
            cropped,
            (0,) * len(padding_config),
            get_aval(cropped).shape,
            [interior + 1 for _, _, interior in padding_config],
        )
        value_ct = None
        if is_undefined(value):
            every = tuple(range(len(padding_config)))
            value_ct = sub(reduce_sum(ct, every), reduce_sum(inner, every))
        return [inner if is_undefined(x) else None, value_ct]

    def batch(self, operands, dims, *, padding_config):
        (x, value), (x_dim, value_dim) = operands, dims
        if value_dim is None:
            config = ax.insert(padding_config, x_dim, (0, 0, 0))
            return pad(x, value, config), x_dim
        size = batch_size(operands, dims)
        x = batch_at(x, x_dim, size)
        value = move_axis(value, value_dim, 0)
        # One value per example: pad a mask of what came from the operand, and select by it.
        config = ((0, 0, 0), *padding_config)
        zero = full((), 0, get_aval(x).dtype)
        padded = pad(x, zero, config)
        ones = full(get_aval(x).shape, True, np.bool_)
        inside = pad(ones, full((), False, np.bool_), config)
        spread = broadcast_in_dim(value, get_aval(padded).shape, (0,))
        return select(inside, padded, spread), 0

    def kernel(self, operands, outs, *, padding_config):
        x, value = operands
        if ax.product(x.shape) == 0:
            return View(outs[0].shape, outs[0].dtype, lambda index: value.at(()))

        def at(index):
            inside, full_index = kernel.const(True, kernel.BOOL), []
            for position, extent, row in zip(index, x.shape, padding_config, strict=True):
                source, found = _padded_position(position, extent, *row)
                inside = kernel.bit_and(inside, found)
                full_index.append(source)
            return scalar.select(inside, x.at(tuple(full_index)), value.at(()))

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context, operands, outs, *, padding_config):
        low, high, interior = zip(*padding_config, strict=True) if padding_config else ((), (), ())
        return context.op(
            "pad",
            operands,
            outs,
            edge_padding_low=context.i64_array(low),
            edge_padding_high=context.i64_array(high),
            interior_padding=context.i64_array(interior),
        )


def _padded_position(
    position: Any, extent: int, low: int, high: int, interior: int
) -> tuple[Any, Any]:
    """The operand's index behind an index of the result, and whether there is one."""
    if (low, high, interior) == (0, 0, 0):
        return position, kernel.const(True, kernel.BOOL)
    step = interior + 1
    shifted = kernel.sub(position, kernel.index(low))
    last = (extent - 1) * step
    found = kernel.bit_and(
        kernel.ge(shifted, kernel.index(0)), kernel.le(shifted, kernel.index(last))
    )
    inside = clamp_index(shifted, last + 1)
    if step == 1:
        return inside, found
    on_grid = kernel.eq(kernel.rem(inside, kernel.index(step)), kernel.index(0))
    return kernel.div(inside, kernel.index(step)), kernel.bit_and(found, on_grid)


def dilated(extent: int, step: int) -> int:
    """The extent of an axis whose elements stand `step` apart."""
    return 0 if extent == 0 else (extent - 1) * step + 1


def pad_slices(extent: int, low: int, high: int, interior: int) -> tuple[slice, slice]:
    """Where the operand goes in the result of a pad, and which part of it goes there."""
    step = interior + 1
    total = low + high + dilated(extent, step)
    first = max(0, -(low // step)) if low < 0 else 0
    count = max(0, min(extent, -(-(total - low) // step)) - first)
    start = low + first * step
    return (
        slice(start, start + (count - 1) * step + 1, step) if count else slice(0, 0),
        slice(first, first + count),
    )


class Slice(Linear):
    """Elements from `start_indices` up to `limit_indices`, every `strides`-th."""

    def shape(self, operand, *, start_indices, limit_indices, strides):
        shown = (
            f"start_indices={tuple(start_indices)}, limit_indices={tuple(limit_indices)}, "
            f"strides={strides} for operand shape {operand.shape}"
        )
        steps = (1,) * operand.ndim if strides is None else strides
        if not len(start_indices) == len(limit_indices) == len(steps) == operand.ndim:
            raise errors.ShapeError(f"slice needs one index per axis of operand: got {shown}")
        for extent, start, limit, step in zip(
            operand.shape, start_indices, limit_indices, steps, strict=True
        ):
            if not 0 <= start <= limit <= extent or step <= 0:
                raise errors.ShapeError(
                    "slice needs 0 <= start_indices <= limit_indices <= operand shape and positive "
                    f"strides: got {shown}"
                )
        shape = [
            -(-(limit - start) // step)
            for start, limit, step in zip(start_indices, limit_indices, steps, strict=True)
        ]
        return ShapedArray(shape, operand.dtype, operand.weak_type)

    def factors(self, avals, outs, params):
        return apart_from(avals, outs, ax.differing(avals[0].shape, outs[0].shape))

    def local_params(self, params, avals, outs):
        limits = tuple(map(min, params["limit_indices"], avals[0].shape))
        return {**params, "limit_indices": limits}

    def reference(self, x, *, start_indices, limit_indices, strides):
        steps = (None,) * x.ndim if strides is None else strides
        return x[tuple(map(slice, start_indices, limit_indices, steps))]

    def transpose(self, ct, x, *, start_indices, limit_indices, strides):
        if type(ct) is Zero:
            return [Zero(x.aval)]
        steps = (1,) * x.aval.ndim if strides is None else strides
        config = []
        for extent, start, count, step in zip(
            x.aval.shape, start_indices, get_aval(ct).shape, steps, strict=True
        ):
            config.append((start, extent - start - dilated(count, step), step - 1))
        return [pad(ct, full((), 0, get_aval(ct).dtype), config)]

    def batch(self, operands, dims, *, start_indices, limit_indices, strides):
        (x,), (dim,) = operands, dims
        size = get_aval(x).shape[dim]
        return slice_(
            x,
            ax.insert(start_indices, dim, 0),
            ax.insert(limit_indices, dim, size),
            None if strides is None else ax.insert(strides, dim, 1),
        ), dim

    def kernel(self, operands, outs, *, start_indices, limit_indices, strides):
        (x,) = operands
        steps = (1,) * len(x.shape) if strides is None else strides

        def at(index):
            return x.at(
                tuple(
                    kernel.add(kernel.mul(position, kernel.index(step)), kernel.index(start))
                    for position, start, step in zip(index, start_indices, steps, strict=True)
                )
            )

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context, operands, outs, *, start_indices, limit_indices, strides):
        steps = (1,) * len(start_indices) if strides is None else strides
        return context.op(
            "slice",
            operands,
            outs,
            start_indices=context.i64_array(start_indices),
            limit_indices=context.i64_array(limit_indices),
            strides=context.i64_array(steps),
        )


def _aval(shape: Sequence[int], dtype: str = "float32") -> ShapedArray:
    return ShapedArray(shape, np.dtype(dtype))


def _concatenate_samples():
    return [
        ([_aval((2, 3)), _aval((4, 3))], {"dimension": 0}),
        ([_aval((3, 1)), _aval((3, 0)), _aval((3, 7))], {"dimension": 1}),
        ([_aval((33,), "int8"), _aval((600,), "int8")], {"dimension": 0}),
        ([_aval((2, 300), "complex64"), _aval((2, 33), "complex64")], {"dimension": 1}),
    ]


def _pad_samples():
    scalar_aval = _aval(())
    return [
        ([_aval((3, 4)), scalar_aval], {"padding_config": ((1, 2, 0), (0, 1, 2))}),
        ([_aval((7,)), scalar_aval], {"padding_config": ((-2, 3, 1),)}),
        ([_aval((7,)), scalar_aval], {"padding_config": ((-3, -2, 2),)}),
        ([_aval((0, 2)), scalar_aval], {"padding_config": ((2, 0, 1), (0, 0, 0))}),
        ([_aval((2,), "int32"), _aval((), "int32")], {"padding_config": ((1, 1, 1),)}),
        ([_aval((), "bool"), _aval((), "bool")], {"padding_config": ()}),
    ]


def _slice_samples():
    def row(shape, start, limit, strides, dtype="float32"):
        params = {"start_indices": start, "limit_indices": limit, "strides": strides}
        return [_aval(shape, dtype)], params

    return [
        row((5, 7), (1, 2), (4, 7), None),
        row((5, 7), (0, 1), (5, 6), (2, 3)),
        row((33,), (4,), (33,), (7,), "int32"),
        row((3,), (2,), (2,), None, "complex64"),
    ]


concatenate_p = register(Concatenate("concatenate"), TestFacts(ulp=0, samples=_concatenate_samples))
pad_p = register(Pad("pad"), TestFacts(ulp=0, samples=_pad_samples))
slice_p = register(Slice("slice"), TestFacts(ulp=0, samples=_slice_samples))


# -- functions -----------------------------------------------------------------------------------


def concatenate(operands: Any, dimension: int) -> Any:
    """Arrays of one dtype joined along `dimension`; their other axes must agree (ShapeError).

    >>> concatenate([np.zeros((2, 3)), np.ones((1, 3))], 0).shape
    (3, 3)
    """
    operands = [as_value(x) for x in operands]
    if len(operands) == 1:
        return operands[0]
    return concatenate_p.bind(*operands, dimension=operator.index(dimension))


def pad(operand: Any, padding_value: Any, padding_config: Any) -> Any:
    """`operand` with `padding_value` before, after and between the elements of each axis.

    `padding_config` has (low, high, interior) per axis; negative low and high take elements away.

    >>> pad(np.arange(1, 4, dtype="int32"), 0, [(1, 0, 1)])
    Array([0, 1, 0, 2, 0, 3], dtype=int32)
    """
    operand = as_value(operand)
    config = tuple(tuple(operator.index(n) for n in row) for row in padding_config)
    if isinstance(padding_value, bool | int | float | complex):
        padding_value = number_like(padding_value, operand.aval)
    if all(row == (0, 0, 0) for row in config) and len(config) == operand.ndim:
        return operand
    return pad_p.bind(operand, as_value(padding_value), padding_config=config)


def number_like(x: Any, aval: ShapedArray) -> Any:
    """A Python number in the dtype of `aval`, where that loses nothing but precision."""
    kinds = "biufc"
    kind, target = dtype_kind(get_aval(x).dtype), dtype_kind(aval.dtype)
    if target in kinds and kinds.index(kind) <= kinds.index(target):
        return full((), x, aval.dtype, aval.weak_type)
    return as_value(x)


def slice_(operand: Any, start_indices: Any, limit_indices: Any, strides: Any = None) -> Any:
    """Elements from `start_indices` up to `limit_indices`, every `strides`-th along each axis.

    >>> slice_(np.arange(10, dtype="int32"), (1,), (8,), (3,))
    Array([1, 4, 7], dtype=int32)
    """
    operand = as_value(operand)
    start = tuple(operator.index(i) for i in start_indices)
    limit = tuple(operator.index(i) for i in limit_indices)
    steps = None if strides is None else tuple(operator.index(i) for i in strides)
    if steps is not None and all(step == 1 for step in steps):
        steps = None
    if limit == operand.shape and steps is None and not any(start):
        return operand
    return slice_p.bind(operand, start_indices=start, limit_indices=limit, strides=steps)


def slice_along(x: Any, axis: int, start: int, limit: int, stride: int = 1) -> Any:
    """The part of `x` between two positions along one axis."""
    shape = get_aval(x).shape
    return slice_(
        x,
        ax.replace((0,) * len(shape), axis, start),
        ax.replace(shape, axis, limit),
        ax.replace((1,) * len(shape), axis, stride),
    )


__all__ = [
    "Concatenate",
    "check_equal_dtypes",
    "clamp_index",
    "concatenate",
    "concatenate_p",
    "dilated",
    "number_like",
    "pad",
    "pad_p",
    "slice_",
    "slice_along",
    "slice_p",
]
