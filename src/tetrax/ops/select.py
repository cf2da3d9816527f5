"""Choosing between arrays: select_n and clamp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_types import F32
from tetrax.ir.layout import pointwise
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import View
from tetrax.ops.base import TestFacts, batch_size, dtype_kind, matched, register
from tetrax.ops.bits_and_compare import bitwise_and, gt, lt
from tetrax.ops.structure import batch_at, broadcast_in_dim, instantiate, zeros
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import Primitive, rule
from tetrax.tracing.symbolic import Zero, is_undefined
from tetrax.tracing.value import get_aval


class SelectN(Primitive):
    """`cases[which]` elementwise; `which` is bool or int32, a scalar or of the cases' shape."""

    cost = 1

    def factors(self, avals, outs, params):
        found = pointwise(avals, outs)
        if not avals[0].shape:
            return replace(found, operands=((), *found.operands[1:]))
        return found

    def shape(self, which: ShapedArray, *cases: ShapedArray) -> ShapedArray:
        if not cases:
            raise errors.ShapeError("select_n needs at least one case")
        first = cases[0]
        if any(c.shape != first.shape or c.dtype != first.dtype for c in cases):
            shown = ", ".join(c.str_short() for c in cases)
            raise errors.ShapeError(
                f"select cases must have the same shapes and dtypes, got {shown}."
            )
        if which.shape and which.shape != first.shape:
            raise errors.ShapeError(
                f"select `which` must be scalar or have the same shape as cases, got {which.shape} "
                f"and {first.shape}"
            )
        if which.dtype == np.bool_:
            if len(cases) > 2:
                raise errors.ShapeError(
                    f"select with boolean `which` takes at most two cases, got {len(cases)}"
                )
        elif which.dtype != np.int32:
            raise errors.ShapeError(
                f"select `which` must be boolean or int32 type, got {which.dtype.name}."
            )
        return ShapedArray(first.shape, first.dtype, all(c.weak_type for c in cases))

    def reference(self, which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
        if which.dtype == np.bool_:
            return np.where(which, cases[-1], cases[0]) if len(cases) == 2 else cases[0]
        index = np.clip(which, 0, len(cases) - 1)
        result = np.array(np.broadcast_to(cases[0], cases[0].shape))
        for number, case in enumerate(cases[1:], 1):
            result = np.where(index == number, case, result)
        return result

    @rule
    def prepared(self, avals: Sequence[ShapedArray], params: dict) -> Callable[..., Any]:
        if avals[0].dtype == np.bool_ and len(avals) == 3:
            return lambda which, no, yes: np.where(which, yes, no)
        return super().prepared(avals, params)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        out = self.bind(*primals)
        cases = tangents[1:]
        if all(type(t) is Zero for t in cases):
            return out, Zero.from_primal_value(out)
        return out, self.bind(primals[0], *map(instantiate, cases))

    def transpose(self, ct: Any, which: Any, *cases: Any) -> list[Any]:
        if type(ct) is Zero:
            return [None, *(Zero(c.aval) if is_undefined(c) else None for c in cases)]
        none = zeros(get_aval(ct))
        results = [
            self.bind(which, *(ct if i == j else none for j in range(len(cases))))
            if is_undefined(case)
            else None
            for i, case in enumerate(cases)
        ]
        return [None, *results]

    def batch(self, operands: Sequence[Any], dims: Sequence[Any]) -> Any:
        which, *cases = operands
        size = batch_size(operands, dims)
        cases = [batch_at(x, d, size) for x, d in zip(cases, dims[1:], strict=True)]
        if dims[0] is not None or get_aval(which).shape:
            which = batch_at(which, dims[0], size)
            shape = get_aval(cases[0]).shape
            if get_aval(which).shape != shape:
                which = broadcast_in_dim(which, shape, (0,))
        return self.bind(which, *cases), 0

    def kernel(self, operands: Sequence[View], outs: Sequence[ShapedArray]) -> View:
        which, *cases = operands

        def at(index: Any) -> scalar.Scalar:
            choice = which.at(index if which.shape else ())
            values = [case.at(index) for case in cases]
            if len(values) == 1:
                return values[0]
            if which.dtype == np.bool_:
                return scalar.select(choice, values[1], values[0])  # type: ignore[arg-type]
            result = values[-1]
            for number in range(len(values) - 2, -1, -1):
                taken = kernel.le(choice, number)  # type: ignore[arg-type]
                result = scalar.select(taken, values[number], result)
            return result

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context: Any, operands: Any, outs: Any) -> Any:
        return context.select_n(operands, outs)


def _select_samples() -> list[tuple[list[ShapedArray], dict]]:
    flags, index = ShapedArray((3, 4), np.bool_), ShapedArray((3, 4), np.int32)
    samples = []
    for dtype in (np.float32, np.int32, np.bool_, np.complex64):
        case = ShapedArray((3, 4), dtype)
        samples.append(([flags, case, case], {}))
        samples.append(([ShapedArray((), np.bool_), case, case], {}))
        samples.append(([index, case, case, case], {}))
    return samples


select_n_p = register(SelectN("select_n"), TestFacts(ulp=0, samples=_select_samples))


class Clamp(Primitive):
    """`max(low, min(x, high))`; the bounds are scalars or of the shape of x."""

    cost = 2

    def factors(self, avals, outs, params):
        axes = pointwise(avals, outs).operands[0]
        operands = tuple(axes if aval.shape else () for aval in avals)
        return replace(pointwise(avals, outs), operands=operands)

    def shape(self, low: ShapedArray, x: ShapedArray, high: ShapedArray) -> ShapedArray:
        if dtype_kind(x.dtype) == "c":
            raise errors.ShapeError(f"clamp does not accept dtype {x.dtype.name}")
        for name, bound in (("min", low), ("max", high)):
            if bound.dtype != x.dtype:
                raise errors.ShapeError(
                    "clamp requires arguments to have equal dtypes, got "
                    f"{low.dtype.name}, {x.dtype.name}, {high.dtype.name}."
                )
            if bound.shape and bound.shape != x.shape:
                raise errors.ShapeError(
                    f"clamp requires {name}.shape == operand.shape or {name}.shape == (), got "
                    f"{name}.shape={bound.shape}, operand.shape={x.shape}."
                )
        return x

    def reference(self, low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.minimum(np.maximum(low, x), high)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        low, x, high = primals
        out = self.bind(low, x, high)
        shape = get_aval(x).shape
        wide = lambda bound: bound if get_aval(bound).shape else broadcast_in_dim(bound, shape, ())
        low, high = wide(low), wide(high)
        inside = bitwise_and(gt(x, low), lt(x, high))
        below, above = gt(low, x), lt(high, x)
        total: Any = None
        for tangent, mask in zip(tangents, (below, inside, above), strict=True):
            if type(tangent) is Zero:
                continue
            tangent = wide(tangent)
            term = select(mask, tangent, zeros(get_aval(tangent)))
            total = term if total is None else select(mask, tangent, total)
        return out, Zero.from_primal_value(out) if total is None else total

    def batch(self, operands: Sequence[Any], dims: Sequence[Any]) -> Any:
        low, x, high = operands
        size = batch_size(operands, dims)
        x = batch_at(x, dims[1], size)
        shape = get_aval(x).shape

        def bound(value: Any, dim: int | None) -> Any:
            if dim is None and not get_aval(value).shape:
                return value
            value = batch_at(value, dim, size)
            return value if get_aval(value).shape == shape else broadcast_in_dim(value, shape, (0,))

        return self.bind(bound(low, dims[0]), x, bound(high, dims[2])), 0

    def kernel(self, operands: Sequence[View], outs: Sequence[ShapedArray]) -> View:
        low, x, high = operands

        def at(index: Any) -> scalar.Scalar:
            values = [view.at(index if view.shape else ()) for view in (low, x, high)]
            if x.scalar.is_storage:
                values = [kernel.convert(v, F32) for v in values]  # type: ignore[arg-type]
            a, b, c = values
            value = kernel.minimum(kernel.maximum(a, b), c)  # type: ignore[arg-type]
            return kernel.convert(value, x.scalar)

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context: Any, operands: Any, outs: Any) -> Any:
        return context.op("clamp", operands, outs)


def _clamp_samples() -> list[tuple[list[ShapedArray], dict]]:
    samples = []
    for dtype in (np.float32, np.int32):
        bound, x = ShapedArray((), dtype), ShapedArray((3, 4), dtype)
        samples += [([bound, x, bound], {}), ([x, x, x], {})]
    return samples


clamp_p = register(
    Clamp("clamp"),
    TestFacts(ulp=0, samples=_clamp_samples, domain=((-3.0, -1.0), (-3.0, 3.0), (1.0, 3.0))),
)


def select_n(which: Any, *cases: Any) -> Any:
    """`cases[which]` elementwise; `which` is bool (False takes the first case) or int32.

    >>> select_n(True, 1.0, 2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    if not cases:
        raise ValueError("select_n() must have at least one case")
    first, *others = cases
    values = matched("select_n", cases) if others else [as_value(first)]
    return select_n_p.bind(as_value(which), *values)


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """`on_true` where `pred`, else `on_false`; all of one shape (`pred` may be scalar)."""
    return select_n(pred, on_false, on_true)


def clamp(min: Any, x: Any, max: Any) -> Any:
    """`x` limited to [min, max]; the bounds are scalars or have the shape of `x`.

    >>> clamp(0.0, 3.0, 1.0)
    Array(1., dtype=float32, weak_type=True)
    """
    x = as_value(x)
    bounds = [
        as_value(b) if get_aval(b).shape else matched("clamp", (b, x_scalar(x)))[0]
        for b in (min, max)
    ]
    return clamp_p.bind(bounds[0], x, bounds[1])


def x_scalar(x: Any) -> Any:
    """A scalar with the dtype of `x`, for matching numbers with it."""
    aval = get_aval(x)
    return zeros(aval.update(shape=(), weak_type=False))
