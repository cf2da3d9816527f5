"""Split an array into pieces, stack arrays along a new axis, and unstack them again."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.ir import kernel, scalar
from tetrax.ir.layout import FactorsBuilder, apart_from
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import View
from tetrax.ops import axes as ax
from tetrax.ops.base import TestFacts, batch_size, register
from tetrax.ops.join import check_equal_dtypes, concatenate, concatenate_p
from tetrax.ops.shape import expand_dims
from tetrax.ops.structure import batch_at, instantiate
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.symbolic import Zero, is_undefined
from tetrax.tracing.value import get_aval


class Pieces(Primitive):
    """An operation that gives parts of its one operand, and is linear in it."""

    multiple_results = True

    def jvp(self, primals, tangents, **params):
        outs = self.bind(*primals, **params)
        (tangent,) = tangents
        if type(tangent) is Zero:
            return outs, [Zero.from_primal_value(out) for out in outs]
        return outs, self.bind(tangent, **params)


class Split(Pieces):
    """Pieces of `sizes` along `axis`."""

    def shape(self, operand, *, sizes, axis):
        if not 0 <= axis < operand.ndim:
            raise errors.ShapeError(f"split: axis {axis} is out of bounds for {operand.shape}")
        if any(size < 0 for size in sizes) or sum(sizes) != operand.shape[axis]:
            raise errors.ShapeError(
                f"split: sizes must be non-negative and add up to the size of the axis: got sizes="
                f"{tuple(sizes)} for axis {axis} of shape {operand.shape}"
            )
        return [
            ShapedArray(ax.replace(operand.shape, axis, size), operand.dtype, operand.weak_type)
            for size in sizes
        ]

    def factors(self, avals, outs, params):
        return apart_from(avals, outs, (params["axis"],))

    def reference(self, x, *, sizes, axis):
        return np.split(x, list(accumulate(sizes))[:-1], axis)

    def transpose(self, cts, x, *, sizes, axis):
        if all(type(ct) is Zero for ct in cts):
            return [Zero(x.aval)]
        return [concatenate([instantiate(ct) for ct in cts], axis)]

    def batch(self, operands, dims, *, sizes, axis):
        (x,), (dim,) = operands, dims
        outs = self.bind(x, sizes=sizes, axis=axis + (axis >= dim))
        return outs, [dim] * len(outs)

    def kernel(self, operands, outs, *, sizes, axis):
        (x,) = operands
        starts = [0, *accumulate(sizes)]

        def piece(out: ShapedArray, start: int) -> View:
            offset = kernel.index(start)
            return View(
                out.shape,
                out.dtype,
                lambda index: x.at(ax.replace(index, axis, kernel.add(index[axis], offset))),
            )

        return [piece(out, start) for out, start in zip(outs, starts, strict=False)]

    def stablehlo(self, context, operands, outs, *, sizes, axis):
        results = []
        ndim = len(outs[0].shape)
        for out, start in zip(outs, [0, *accumulate(sizes)], strict=False):
            first = ax.replace((0,) * ndim, axis, start)
            last = tuple(map(operator.add, first, out.shape))
            results.append(
                context.op(
                    "slice",
                    operands,
                    [out],
                    start_indices=context.i64_array(first),
                    limit_indices=context.i64_array(last),
                    strides=context.i64_array((1,) * ndim),
                )
            )
        return results


class Stack(Primitive):
    """Operands of one shape along a new axis."""

    def shape(self, *operands, axis):
        if not operands:
            raise errors.ShapeError("stack expects at least one operand, got 0")
        first = operands[0]
        check_equal_dtypes("stack", operands)
        if any(x.shape != first.shape for x in operands):
            shown = ", ".join(str(x.shape) for x in operands)
            raise errors.ShapeError(f"stack: all operands must have one shape, got {shown}")
        if not 0 <= axis <= first.ndim:
            raise errors.ShapeError(f"stack: axis {axis} is out of bounds for {first.shape}")
        shape = ax.insert(first.shape, axis, len(operands))
        return ShapedArray(shape, first.dtype, all(x.weak_type for x in operands))

    def factors(self, avals, outs, params):
        build = FactorsBuilder()
        axes = build.axes(avals[0].shape)
        new = build.new(len(avals), whole=True)
        return build.build([axes] * len(avals), [ax.insert(axes, params["axis"], new)])

    def reference(self, *arrays, axis):
        return np.stack(arrays, axis)

    def jvp(self, primals, tangents, *, axis):
        out = self.bind(*primals, axis=axis)
        if all(type(t) is Zero for t in tangents):
            return out, Zero.from_primal_value(out)
        return out, self.bind(*[instantiate(t) for t in tangents], axis=axis)

    def transpose(self, ct, *operands, axis):
        if type(ct) is Zero:
            return [Zero(x.aval) if is_undefined(x) else None for x in operands]
        parts = unstack(ct, axis)
        return [part if is_undefined(x) else None for x, part in zip(operands, parts, strict=True)]

    def batch(self, operands, dims, *, axis):
        size = batch_size(operands, dims)
        moved = [batch_at(x, d, size) for x, d in zip(operands, dims, strict=True)]
        return self.bind(*moved, axis=axis + 1), 0

    def stores(self, avals, params):
        return concatenate_p.piecewise(avals, params)

    def kernel(self, operands, outs, *, axis):
        def at(index):
            which, inner = index[axis], ax.without(index, (axis,))
            value = operands[-1].at(inner)
            for i in reversed(range(len(operands) - 1)):
                chosen = kernel.eq(which, kernel.index(i))
                value = scalar.select(chosen, operands[i].at(inner), value)
            return value

        return View(outs[0].shape, outs[0].dtype, at)

    def emit(self, builder, operands, outs, *, axis):
        rows = [_with_axis(x, axis, 1) for x in operands]
        concatenate_p.emit(builder, rows, outs, dimension=axis)

    def stablehlo(self, context, operands, outs, *, axis):
        (out,) = outs
        unit = ShapedArray(ax.replace(out.shape, axis, 1), out.dtype)
        grown = [context.op("reshape", [x], [unit]) for x in operands]
        return context.op("concatenate", grown, outs, dimension=context.i64(axis))


def _with_axis(x: Any, axis: int, size: int) -> Any:
    """A stored operand seen with one more axis."""
    return type(x)(x.buffer, ax.insert(x.shape, axis, size), x.dtype)


class Unstack(Pieces):
    """The slices along `axis`, without it."""

    def shape(self, operand, *, axis):
        if not 0 <= axis < operand.ndim:
            raise errors.ShapeError(f"unstack: axis {axis} is out of bounds for {operand.shape}")
        out = ShapedArray(ax.without(operand.shape, (axis,)), operand.dtype, operand.weak_type)
        return [out] * operand.shape[axis]

    def factors(self, avals, outs, params):
        build = FactorsBuilder()
        axes = build.axes(avals[0].shape, (params["axis"],))
        return build.build([axes], [ax.without(axes, (params["axis"],))] * len(outs))

    def reference(self, x, *, axis):
        return list(np.moveaxis(x, axis, 0))

    def transpose(self, cts, x, *, axis):
        if all(type(ct) is Zero for ct in cts):
            return [Zero(x.aval)]
        return [stack([instantiate(ct) for ct in cts], axis)]

    def batch(self, operands, dims, *, axis):
        (x,), (dim,) = operands, dims
        new_axis = axis + (axis >= dim)
        outs = self.bind(x, axis=new_axis)
        return outs, [dim - (new_axis < dim)] * len(outs)

    def kernel(self, operands, outs, *, axis):
        (x,) = operands

        def piece(out: ShapedArray, position: int) -> View:
            where = kernel.index(position)
            return View(out.shape, out.dtype, lambda index: x.at(ax.insert(index, axis, where)))

        return [piece(out, position) for position, out in enumerate(outs)]

    def stablehlo(self, context, operands, outs, *, axis):
        results = []
        shape = operands[0].aval.shape
        for position, out in enumerate(outs):
            first = ax.replace((0,) * len(shape), axis, position)
            unit = ShapedArray(ax.replace(shape, axis, 1), out.dtype)
            piece = context.op(
                "slice",
                operands,
                [unit],
                start_indices=context.i64_array(first),
                limit_indices=context.i64_array(ax.replace(shape, axis, position + 1)),
                strides=context.i64_array((1,) * len(shape)),
            )
            results.append(context.op("reshape", [piece], [out]))
        return results


def _aval(shape: Sequence[int], dtype: str = "float32") -> ShapedArray:
    return ShapedArray(shape, np.dtype(dtype))


def _split_samples():
    return [
        ([_aval((5, 3))], {"sizes": (2, 0, 3), "axis": 0}),
        ([_aval((2, 7), "complex64")], {"sizes": (6, 1), "axis": 1}),
    ]


def _stack_samples():
    return [
        ([_aval((5, 3)), _aval((5, 3))], {"axis": 1}),
        ([_aval(()), _aval(()), _aval(())], {"axis": 0}),
        ([_aval((400,), "int32"), _aval((400,), "int32")], {"axis": 1}),
    ]


def _unstack_samples():
    return [([_aval((5, 3))], {"axis": 1}), ([_aval((2,), "int32")], {"axis": 0})]


split_p = register(Split("split"), TestFacts(ulp=0, samples=_split_samples))
stack_p = register(Stack("stack"), TestFacts(ulp=0, samples=_stack_samples))
unstack_p = register(Unstack("unstack"), TestFacts(ulp=0, samples=_unstack_samples))


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Pieces of `operand` of the given sizes along `axis`; the sizes must add up (ShapeError).

    >>> [piece.shape for piece in split(np.zeros((5, 2)), (2, 3))]
    [(2, 2), (3, 2)]
    """
    axis = ax.canonical_axis(axis, get_aval(operand).ndim)
    return split_p.bind(operand, sizes=tuple(operator.index(n) for n in sizes), axis=axis)


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one shape and dtype along a new axis of the result.

    >>> stack([np.zeros(3), np.ones(3)], 1).shape
    (3, 2)
    """
    values = [as_value(x) for x in operands]
    if not values:
        raise ValueError("stack expects at least one operand, got 0")
    axis = ax.canonical_axis(axis, values[0].ndim + 1)
    if len(values) == 1:
        return expand_dims(values[0], (axis,))
    return stack_p.bind(*values, axis=axis)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices of `x` along `axis`, which they lack.

    >>> [row.shape for row in unstack(np.zeros((2, 3)))]
    [(3,), (3,)]
    """
    aval = get_aval(x)
    axis = ax.canonical_axis(axis, aval.ndim)
    if aval.shape[axis] == 0:
        return ()
    return tuple(unstack_p.bind(x, axis=axis))


__all__ = ["split", "split_p", "stack", "stack_p", "unstack", "unstack_p"]
