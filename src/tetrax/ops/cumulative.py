"""Running sums, products and extrema along an axis, and the recurrence behind their derivatives.

Each is one pass with the value so far carried along. All but the sum are differentiated through
`y[n] = a[n] y[n-1] + b[n]`, which is exact at zeros and costs one more pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_types import F32
from tetrax.ir.layout import apart_from
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import Stored, element_type, is_complex
from tetrax.ops import axes as ax
from tetrax.ops.arithmetic import add, mul, sub
from tetrax.ops.base import TestFacts, aligned_batch, dtype_kind, register
from tetrax.ops.bits_and_compare import eq, gt, lt
from tetrax.ops.creation import full_like
from tetrax.ops.identities import largest, smallest
from tetrax.ops.join import pad, slice_along
from tetrax.ops.nests import load_scalar, store_scalar
from tetrax.ops.select import select
from tetrax.ops.structure import full, move_axis
from tetrax.ops.transcendental import exp
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.value import get_aval

Step = Callable[[scalar.Scalar, Sequence[scalar.Scalar]], scalar.Scalar]


def emit_scan(
    builder: Any,
    operands: Sequence[Stored],
    out: Stored,
    axis: int,
    reverse: bool,
    initial: Any,
    step: Step,
) -> None:
    """Store `y[n] = step(y[n-1], operands[n])` along `axis`; narrow floats are carried as f32."""
    if 0 in out.shape:
        return
    outer, count = ax.product(out.shape[:axis]), out.shape[axis]
    inner = ax.product(out.shape[axis + 1 :])
    kind = element_type(out.dtype)
    wide = F32 if kind.is_storage else kind
    to_complex = is_complex(out.dtype)
    start = scalar.convert(kernel.const(initial, wide), wide, to_complex)

    def advance(so_far: Any, offset: Any) -> scalar.Scalar:
        values = [
            scalar.convert(load_scalar(builder, x, offset), wide, to_complex) for x in operands
        ]
        following = step(so_far, values)
        store_scalar(builder, out, offset, scalar.convert(following, kind, to_complex))
        return following

    with builder.loop(outer) as row:
        base = kernel.mul(row, count * inner)
        if inner == 1:
            _scan_line(builder, base, count, reverse, start, advance)
            return
        width = 2 if to_complex else 1
        carried = Stored(builder.temporary(wide, inner * width), (inner,), out.dtype)
        spare = builder.temporary(wide, inner) if to_complex else None
        with builder.loop(inner, "vector") as i:
            store_scalar(builder, carried, i, start)
        with builder.loop(count) as turn:
            place = kernel.sub(kernel.index(count - 1), turn) if reverse else turn
            offset = kernel.add(base, kernel.mul(place, inner))
            with builder.loop(inner, "vector") as i:
                so_far = load_scalar(builder, carried, i)
                following = advance(so_far, kernel.add(offset, i))
                store_scalar(builder, carried, i, following, spare and (spare, i))


def _scan_line(
    builder: Any, base: Any, count: int, reverse: bool, start: Any, advance: Callable
) -> None:
    """One line of neighbouring elements, the value so far in a register."""
    carried = [builder.carry("so_far", part) for part in scalar.parts_of(start)]
    with builder.loop(count) as turn:
        place = kernel.sub(kernel.index(count - 1), turn) if reverse else turn
        so_far = scalar.from_parts([value.value for value in carried])
        following = advance(so_far, kernel.add(base, place))
        for value, part in zip(carried, scalar.parts_of(following), strict=True):
            value.set(part)


def _ordered(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    return np.flip(x, axis) if reverse else x


class Cumulative(Primitive):
    """`y[n] = combine(y[n-1], x[n])` along `axis`, from either end."""

    def __init__(
        self,
        name: str,
        accepts: str,
        combine: Callable[..., scalar.Scalar],
        identity: Callable[[Any], Any],
        numpy: Any,
        facts: TestFacts,
    ) -> None:
        super().__init__(name)
        self.accepts, self.combine, self.identity, self.numpy = accepts, combine, identity, numpy
        register(self, facts)

    def shape(self, operand, *, axis, reverse):
        if not 0 <= axis < operand.ndim:
            raise errors.ShapeError(
                f"{self.name}: axis {axis} is out of bounds for array of shape {operand.shape}"
            )
        if dtype_kind(operand.dtype) not in self.accepts:
            raise errors.ShapeError(
                f"{self.name} does not accept dtype {operand.dtype.name}; convert it first"
            )
        return ShapedArray(operand.shape, operand.dtype, operand.weak_type)

    def factors(self, avals, outs, params):
        return apart_from(avals, outs, (params["axis"],))

    def reference(self, x, *, axis, reverse):
        wide = x.astype(np.float32) if element_type(x.dtype).is_storage else x
        out = self.numpy.accumulate(_ordered(wide, axis, reverse), axis=axis)
        return _ordered(out, axis, reverse).astype(x.dtype, copy=False)

    def jvp(self, primals, tangents, *, axis, reverse):
        (x,) = primals
        out = self.bind(x, axis=axis, reverse=reverse)
        if type(tangents[0]) is Zero:
            return out, Zero.from_primal_value(out)
        return out, self.tangent(tangents[0], x, out, axis, reverse)

    def tangent(self, t: Any, x: Any, out: Any, axis: int, reverse: bool) -> Any:
        raise self.missing("jvp")

    def batch(self, operands, dims, *, axis, reverse):
        x = move_axis(operands[0], dims[0], 0)
        return self.bind(x, axis=axis + 1, reverse=reverse), 0

    def emit(self, builder, operands, outs, *, axis, reverse):
        initial = self.identity(outs[0].dtype)

        def step(so_far: Any, values: Sequence[Any]) -> scalar.Scalar:
            return self.combine(so_far, values[0])

        emit_scan(builder, operands, outs[0], axis, reverse, initial, step)

    def stablehlo(self, context, operands, outs, *, axis, reverse):
        return context.cumulative(self.name, operands, outs, axis, reverse)


class CumulativeSum(Cumulative):
    """Linear; the transpose runs from the other end."""

    def tangent(self, t, x, out, axis, reverse):
        return self.bind(t, axis=axis, reverse=reverse)

    def transpose(self, ct, x, *, axis, reverse):
        if type(ct) is Zero:
            return [Zero(x.aval)]
        return [self.bind(ct, axis=axis, reverse=not reverse)]


class CumulativeProduct(Cumulative):
    def tangent(self, t, x, out, axis, reverse):
        before = _shifted(out, axis, reverse, 1)
        return linear_recurrence(x, mul(before, t), axis, reverse)


class CumulativeExtremum(Cumulative):
    """The new element has the derivative where it wins; where it ties, half of it."""

    def tangent(self, t, x, out, axis, reverse):
        if get_aval(x).size == 0:
            return t
        later, before = _without_first(x, axis, reverse), _without_last(out, axis, reverse)
        wins = (gt if self.name == "cummax" else lt)(later, before)
        zero, half, one = (full_like(later, value) for value in (0, 0.5, 1))
        share = select(wins, one, select(eq(later, before), half, zero))
        share = _with_first(share, axis, reverse, 1)
        kept = sub(full_like(share, 1), share)
        return linear_recurrence(kept, mul(share, t), axis, reverse)


class CumulativeLogSumExp(Cumulative):
    def reference(self, x, *, axis, reverse):
        wide = x.astype(np.float32) if element_type(x.dtype).is_storage else x
        out = np.logaddexp.accumulate(_ordered(wide, axis, reverse), axis=axis)
        return _ordered(out, axis, reverse).astype(x.dtype, copy=False)

    def tangent(self, t, x, out, axis, reverse):
        level = _finite(out)
        share = exp(sub(_finite(x, only_positive=True), level))
        before = _shifted(out, axis, reverse, -np.inf)
        kept = exp(sub(_finite(before, only_positive=True), level))
        return linear_recurrence(kept, mul(share, t), axis, reverse)


def _finite(x: Any, only_positive: bool = False) -> Any:
    """`x` with 0 for infinities, so that differences of infinities are not NaN."""
    out = select(eq(x, full_like(x, np.inf)), full_like(x, 0), x)
    return out if only_positive else select(eq(x, full_like(x, -np.inf)), full_like(x, 0), out)


def _edge(axis: int, ndim: int, reverse: bool, first: int, last: int) -> list[tuple]:
    """Padding of `first` elements where the pass begins and `last` where it ends."""
    row = (last, first, 0) if reverse else (first, last, 0)
    return [row if i == axis else (0, 0, 0) for i in range(ndim)]


def _shifted(x: Any, axis: int, reverse: bool, fill: Any) -> Any:
    """The values one step earlier in the pass, `fill` before the first."""
    aval = get_aval(x)
    return pad(x, full((), fill, aval.dtype), _edge(axis, aval.ndim, reverse, 1, -1))


def _with_first(x: Any, axis: int, reverse: bool, fill: Any) -> Any:
    aval = get_aval(x)
    return pad(x, full((), fill, aval.dtype), _edge(axis, aval.ndim, reverse, 1, 0))


def _without_first(x: Any, axis: int, reverse: bool) -> Any:
    size = get_aval(x).shape[axis]
    if reverse:
        return slice_along(x, axis, 0, max(size - 1, 0))
    return slice_along(x, axis, min(1, size), size)


def _without_last(x: Any, axis: int, reverse: bool) -> Any:
    return _without_first(x, axis, not reverse)


class LinearRecurrence(Primitive):
    """`y[n] = a[n] y[n-1] + b[n]` along `axis`, with 0 before the first; linear in `b`."""

    def shape(self, a, b, *, axis, reverse):
        if a.shape != b.shape or a.dtype != b.dtype or not 0 <= axis < a.ndim:
            raise errors.ShapeError(
                f"linear_recurrence needs two operands of one type and an axis of them: got "
                f"{a.str_short()}, {b.str_short()}, axis={axis}"
            )
        return ShapedArray(b.shape, b.dtype, b.weak_type)

    def factors(self, avals, outs, params):
        return apart_from(avals, outs, (params["axis"],))

    def reference(self, a, b, *, axis, reverse):
        compute = np.float32 if element_type(b.dtype).is_storage else b.dtype
        rows_a = np.moveaxis(_ordered(a, axis, reverse).astype(compute), axis, 0)
        rows_b = np.moveaxis(_ordered(b, axis, reverse).astype(compute), axis, 0)
        out = np.empty(rows_b.shape, compute)
        so_far = np.zeros(rows_b.shape[1:], compute)
        for n in range(len(rows_b)):
            so_far = rows_a[n] * so_far + rows_b[n]
            out[n] = so_far
        return _ordered(np.moveaxis(out, 0, axis), axis, reverse).astype(b.dtype)

    compile_eagerly = True

    def jvp(self, primals, tangents, *, axis, reverse):
        a, b = primals
        t_a, t_b = tangents
        out = self.bind(a, b, axis=axis, reverse=reverse)
        moved = None if type(t_b) is Zero else t_b
        if type(t_a) is not Zero:
            term = mul(t_a, _shifted(out, axis, reverse, 0))
            moved = term if moved is None else add(moved, term)
        if moved is None:
            return out, Zero.from_primal_value(out)
        return out, self.bind(a, moved, axis=axis, reverse=reverse)

    def transpose(self, ct, a, b, *, axis, reverse):
        if type(ct) is Zero:
            return [None, Zero(b.aval)]
        later = _shifted(a, axis, not reverse, 0)
        return [None, self.bind(later, ct, axis=axis, reverse=not reverse)]

    def batch(self, operands, dims, *, axis, reverse):
        moved, _ = aligned_batch(operands, dims)
        return self.bind(*moved, axis=axis + 1, reverse=reverse), 0

    def emit(self, builder, operands, outs, *, axis, reverse):
        def step(so_far: Any, values: Sequence[Any]) -> scalar.Scalar:
            return scalar.add(scalar.mul(values[0], so_far), values[1])

        emit_scan(builder, operands, outs[0], axis, reverse, 0, step)

    def stablehlo(self, context, operands, outs, *, axis, reverse):
        return context.cumulative(self.name, operands, outs, axis, reverse)


def _logaddexp(x: Any, y: Any) -> scalar.Scalar:
    high = kernel.maximum(x, y)
    gap = kernel.neg(kernel.absolute(kernel.sub(x, y)))
    value = kernel.add(high, kernel.unary("log1p", kernel.unary("exp", gap)))
    # Equal infinities have no difference; the sum of such is the same infinity.
    same = kernel.bit_and(kernel.eq(x, y), kernel.logical_not(kernel.is_finite(x)))
    return kernel.select(same, x, value)


def _samples(*names: str) -> Any:
    def samples() -> list[tuple[list[ShapedArray], dict]]:
        rows = []
        for name in names:
            for shape, axis in (((7,), 0), ((3, 5), 0), ((3, 5), 1), ((2, 0), 1)):
                for reverse in (False, True):
                    params = {"axis": axis, "reverse": reverse}
                    rows.append(([ShapedArray(shape, np.dtype(name))], params))
        return rows

    return samples


_NUMBERS = _samples("float32", "int32", "complex64")
_REALS = _samples("float32", "int32")
_FLOATS = _samples("float32")
_NOT_LINEAR = (("transpose", "not linear"),)

cumsum_p = CumulativeSum(
    "cumsum", "iufc", scalar.add, lambda dtype: 0, np.add, TestFacts(ulp=16, samples=_NUMBERS)
)
cumprod_p = CumulativeProduct(
    "cumprod",
    "iufc",
    scalar.mul,
    lambda dtype: 1,
    np.multiply,
    TestFacts(ulp=16, samples=_NUMBERS, excluded=_NOT_LINEAR),
)
cummax_p = CumulativeExtremum(
    "cummax",
    "biuf",
    kernel.maximum,
    smallest,
    np.maximum,
    TestFacts(ulp=0, samples=_REALS, excluded=_NOT_LINEAR),
)
cummin_p = CumulativeExtremum(
    "cummin",
    "biuf",
    kernel.minimum,
    largest,
    np.minimum,
    TestFacts(ulp=0, samples=_REALS, excluded=_NOT_LINEAR),
)
cumlogsumexp_p = CumulativeLogSumExp(
    "cumlogsumexp",
    "f",
    _logaddexp,
    lambda dtype: -np.inf,
    np.logaddexp,
    TestFacts(ulp=16, samples=_FLOATS, excluded=_NOT_LINEAR),
)


def _recurrence_samples() -> list[tuple[list[ShapedArray], dict]]:
    return [([*avals, *avals], params) for avals, params in _samples("float32", "complex64")()]


linear_recurrence_p = register(
    LinearRecurrence("linear_recurrence"), TestFacts(ulp=16, samples=_recurrence_samples)
)


# -- functions -----------------------------------------------------------------------------------


def linear_recurrence(a: Any, b: Any, axis: int, reverse: bool = False) -> Any:
    """`y[n] = a[n] y[n-1] + b[n]` along `axis`, with `y[-1] = 0`.

    >>> linear_recurrence(np.full(3, 2, "float32"), np.ones(3, "float32"), 0)
    Array([1., 3., 7.], dtype=float32)
    """
    return linear_recurrence_p.bind(a, b, axis=axis, reverse=reverse)


def _cumulative(primitive: Cumulative, operand: Any, axis: int, reverse: bool) -> Any:
    operand = as_value(operand)
    axis = ax.canonical_axis(axis, operand.ndim)
    return primitive.bind(operand, axis=axis, reverse=bool(reverse))


def cumsum(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running sums along `axis`, from its end if `reverse`.

    >>> cumsum(np.arange(1, 5, dtype="int32"))
    Array([ 1,  3,  6, 10], dtype=int32)
    """
    return _cumulative(cumsum_p, operand, axis, reverse)


def cumprod(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running products along `axis`, from its end if `reverse`."""
    return _cumulative(cumprod_p, operand, axis, reverse)


def cummax(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running maxima along `axis`, from its end if `reverse`; NaN stays."""
    return _cumulative(cummax_p, operand, axis, reverse)


def cummin(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running minima along `axis`, from its end if `reverse`; NaN stays."""
    return _cumulative(cummin_p, operand, axis, reverse)


def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running `log(sum(exp(x)))` along `axis`, from its end if `reverse`; does not overflow."""
    return _cumulative(cumlogsumexp_p, operand, axis, reverse)


__all__ = [
    "cumlogsumexp",
    "cumlogsumexp_p",
    "cummax",
    "cummax_p",
    "cummin",
    "cummin_p",
    "cumprod",
    "cumprod_p",
    "cumsum",
    "cumsum_p",
    "linear_recurrence",
    "linear_recurrence_p",
]
