"""Exponentials, logarithms, circular and hyperbolic functions, powers, roots and rounding."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax.ir import complex_math, kernel
from tetrax.ops.arithmetic import add, div, integer_pow, mul, neg, square, sub
from tetrax.ops.base import (
    COMPLEX,
    FLOATS,
    Elementwise,
    TestFacts,
    broadcast_together,
    dtype_kind,
)
from tetrax.ops.bits_and_compare import eq
from tetrax.ops.convert import convert_element_type, convert_element_type_p
from tetrax.ops.select import select
from tetrax.ops.structure import full, zeros
from tetrax.runtime.array import as_value
from tetrax.tracing.value import get_aval

_WIDE = FLOATS + COMPLEX


def _function(
    name: str,
    formula: Callable[[Any], Any],
    reference: Callable[[np.ndarray], Any],
    derivative: Callable[[Any, Any, Any], Any],
    mnemonic: str | Callable[..., Any],
    domain: tuple[float, float] = (-3.0, 3.0),
    accepts: str = _WIDE,
    cost: int = 8,
) -> Elementwise:
    """A row: one operand, the parameter `accuracy`, derivative `(tangent, out, x) -> tangent`."""
    return Elementwise(
        name,
        1,
        accepts=accepts,
        scalar=lambda x, accuracy=None: formula(x),
        reference=lambda x, accuracy=None: reference(x),
        derivative=(lambda t, out, x, accuracy=None: derivative(t, out, x),),
        stablehlo=mnemonic if isinstance(mnemonic, str) else _without_accuracy(mnemonic),
        cost=cost,
        facts=TestFacts(domain=domain),
    )


def _without_accuracy(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda context, operands, outs, accuracy=None: rule(context, operands, outs)


def _plain(
    name: str,
    formula: Callable[[Any], Any],
    reference: Callable[[np.ndarray], Any],
    derivative: Callable[[Any, Any, Any], Any],
    domain: tuple[float, float] = (-3.0, 3.0),
    jax_ulp: int | None = None,
) -> Elementwise:
    """A row without parameters that StableHLO knows from CHLO."""
    return Elementwise(
        name,
        1,
        accepts=_WIDE,
        scalar=formula,
        reference=reference,
        derivative=(derivative,),
        stablehlo=lambda context, operands, outs: context.chlo(name, operands, outs),
        cost=8,
        facts=TestFacts(domain=domain, jax_ulp=jax_ulp),
    )


def _one_minus_square(x: Any) -> Any:
    return sub(_one(x), square(x))


def _one(x: Any) -> Any:
    aval = get_aval(x)
    return full(aval.shape, 1, aval.dtype, aval.weak_type)


def _logistic_reference(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    # exp of a non-positive number never overflows.
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + decay), decay / (1 + decay)).astype(x.dtype)


_LN2 = math.log(2.0)

exp_p = _function("exp", complex_math.exp, np.exp, lambda t, out, x: mul(t, out), "exponential")
exp2_p = _function(
    "exp2",
    complex_math.exp2,
    np.exp2,
    lambda t, out, x: mul(mul(_LN2, t), out),
    lambda context, operands, outs: context.exp2(operands, outs),
)
expm1_p = _function(
    "expm1",
    complex_math.expm1,
    np.expm1,
    lambda t, out, x: mul(t, add(out, _one(out))),
    "exponential_minus_one",
)
log_p = _function(
    "log", complex_math.log, np.log, lambda t, out, x: div(t, x), "log", domain=(0.1, 4.0)
)
log1p_p = _function(
    "log1p",
    complex_math.log1p,
    np.log1p,
    lambda t, out, x: div(t, add(x, _one(x))),
    "log_plus_one",
    domain=(-0.8, 3.0),
)
logistic_p = _function(
    "logistic",
    complex_math.logistic,
    _logistic_reference,
    lambda t, out, x: mul(t, mul(out, logistic(neg(x)))),
    "logistic",
)
sin_p = _function("sin", complex_math.sin, np.sin, lambda t, out, x: mul(t, cos(x)), "sine")
cos_p = _function("cos", complex_math.cos, np.cos, lambda t, out, x: mul(t, neg(sin(x))), "cosine")
tan_p = _function(
    "tan",
    complex_math.tan,
    np.tan,
    lambda t, out, x: mul(t, add(_one(out), square(out))),
    "tan",
    domain=(-1.3, 1.3),
)
tanh_p = _function(
    "tanh",
    complex_math.tanh,
    np.tanh,
    # (1 - out)(1 + out) keeps precision where out is near +-1.
    lambda t, out, x: mul(mul(t, add(_one(out), out)), sub(_one(out), out)),
    "tanh",
    domain=(-2.0, 2.0),  # complex samples keep away from the poles at +-i pi/2
)
sqrt_p = _function(
    "sqrt",
    complex_math.sqrt,
    np.sqrt,
    lambda t, out, x: div(mul(t, 0.5), out),
    "sqrt",
    domain=(0.1, 4.0),
    cost=4,
)
rsqrt_p = _function(
    "rsqrt",
    complex_math.rsqrt,
    lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    lambda t, out, x: mul(mul(t, -0.5), div(out, x)),
    "rsqrt",
    domain=(0.1, 4.0),
)
cbrt_p = _function(
    "cbrt",
    lambda x: kernel.unary("cbrt", x),
    np.cbrt,
    lambda t, out, x: div(mul(mul(t, 1 / 3), out), x),
    "cbrt",
    domain=(0.1, 4.0),
    accepts=FLOATS,
)

asin_p = _plain(
    "asin",
    complex_math.asin,
    np.arcsin,
    lambda t, out, x: mul(t, rsqrt(_one_minus_square(x))),
    domain=(-0.9, 0.9),
)
acos_p = _plain(
    "acos",
    complex_math.acos,
    np.arccos,
    lambda t, out, x: mul(t, neg(rsqrt(_one_minus_square(x)))),
    domain=(-0.9, 0.9),
)
atan_p = _plain(
    "atan",
    complex_math.atan,
    np.arctan,
    lambda t, out, x: div(t, add(_one(x), square(x))),
    domain=(-1.5, 1.5),  # complex samples keep away from the poles at +-i
)
sinh_p = _plain("sinh", complex_math.sinh, np.sinh, lambda t, out, x: mul(t, cosh(x)))
cosh_p = _plain("cosh", complex_math.cosh, np.cosh, lambda t, out, x: mul(t, sinh(x)))
asinh_p = _plain(
    "asinh",
    complex_math.asinh,
    np.arcsinh,
    lambda t, out, x: mul(t, rsqrt(add(square(x), _one(x)))),
)
acosh_p = _plain(
    "acosh",
    complex_math.acosh,
    np.arccosh,
    lambda t, out, x: mul(t, mul(rsqrt(sub(x, _one(x))), rsqrt(add(x, _one(x))))),
    domain=(1.2, 4.0),
)
atanh_p = _plain(
    "atanh",
    complex_math.atanh,
    np.arctanh,
    lambda t, out, x: div(t, _one_minus_square(x)),
    domain=(-0.9, 0.9),
    jax_ulp=100,  # JAX takes the difference of two logarithms
)


def _atan2_reference(y: np.ndarray, x: np.ndarray) -> Any:
    if y.dtype.kind == "V":
        return np.arctan2(y.astype(np.float32), x.astype(np.float32)).astype(y.dtype)
    return np.arctan2(y, x)


atan2_p = Elementwise(
    "atan2",
    2,
    accepts=FLOATS,
    scalar=lambda y, x: kernel.binary("atan2", y, x),
    reference=_atan2_reference,
    derivative=(
        lambda t, out, y, x: mul(t, div(x, add(square(x), square(y)))),
        lambda t, out, y, x: mul(t, div(neg(y), add(square(x), square(y)))),
    ),
    stablehlo="atan2",
    cost=8,
    facts=TestFacts(domain=((0.3, 3.0), (0.3, 3.0))),
)


# -- powers --------------------------------------------------------------------------------------


class Power(Elementwise):
    """x^y; y may be an integer array, which keeps x^y exact and its derivative finite at x = 0."""

    def shape(self, x, y):
        if dtype_kind(y.dtype) in "iu" and dtype_kind(x.dtype) in "fc" and x.shape == y.shape:
            return x.strong() if not (x.weak_type and y.weak_type) else x
        return super().shape(x, y)

    def kernel(self, operands, outs):
        if dtype_kind(operands[1].dtype) in "iu":
            return super().kernel([operands[0], _converted_view(operands[1], outs[0].dtype)], outs)
        return super().kernel(operands, outs)


def _converted_view(view: Any, dtype: Any) -> Any:
    params = {"new_dtype": dtype, "weak_type": False}
    aval = get_aval(np.empty(0, dtype)).update(shape=view.shape)
    return convert_element_type_p.kernel([view], [aval], **params)


def _power_reference(x: np.ndarray, y: np.ndarray) -> Any:
    if x.dtype.kind == "V" or (x.dtype.kind == "f" and x.dtype.itemsize == 2):
        return np.power(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
    if x.dtype != y.dtype:
        return np.power(x, y.astype(x.dtype)).astype(x.dtype)
    if x.dtype.kind == "c":
        value = np.power(x, y)
        return np.where(y == 0, 1, value).astype(x.dtype)
    return np.power(x, y)


def _power_base_jvp(t: Any, out: Any, x: Any, y: Any) -> Any:
    dtype = get_aval(x).dtype
    one, zero = _one(y), zeros(get_aval(y))
    if dtype_kind(get_aval(y).dtype) in "iu":
        # y - 1 at y = 0 is replaced: x^0 is constant.
        less = select(eq(y, zero), _one(y), sub(y, one))
        return mul(t, mul(convert_element_type(y, dtype), pow_p.bind(x, less)))
    less = select(eq(y, zero), one, sub(y, one))
    return mul(t, mul(y, pow_p.bind(x, less)))


def _power_exponent_jvp(t: Any, out: Any, x: Any, y: Any) -> Any:
    safe = select(eq(x, zeros(get_aval(x))), _one(x), x)
    return mul(t, mul(log(safe), out))


pow_p = Power(
    "pow",
    2,
    accepts=_WIDE,
    scalar=complex_math.power,
    reference=_power_reference,
    derivative=(_power_base_jvp, _power_exponent_jvp),
    stablehlo=lambda context, operands, outs: context.power(operands, outs),
    cost=16,
    facts=TestFacts(domain=((0.3, 3.0), (-2.0, 2.0))),
)


# -- rounding ------------------------------------------------------------------------------------


class RoundingMethod(enum.IntEnum):
    """Where `round` takes halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def _round_scalar(x: Any, *, rounding_method: RoundingMethod) -> Any:
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return kernel.unary("round_even", x)
    truncated = kernel.unary("trunc", x)
    fraction = kernel.absolute(kernel.sub(x, truncated))
    away = kernel.add(truncated, kernel.binary("copysign", kernel.const(1.0, x.type), x))
    rounded = kernel.select(kernel.ge(fraction, kernel.const(0.5, x.type)), away, truncated)
    return kernel.binary("copysign", rounded, x)


def _round_reference(x: np.ndarray, *, rounding_method: RoundingMethod) -> np.ndarray:
    if x.dtype.kind == "V":
        wide = x.astype(np.float32)
        return _round_reference(wide, rounding_method=rounding_method).astype(x.dtype)
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return np.rint(x)
    truncated = np.trunc(x)
    away = truncated + np.copysign(np.ones_like(x), x)
    return np.copysign(np.where(np.abs(x - truncated) >= 0.5, away, truncated), x)


round_p = Elementwise(
    "round",
    1,
    accepts=FLOATS,
    scalar=_round_scalar,
    reference=_round_reference,
    stablehlo=lambda context, operands, outs, rounding_method: context.op(
        "round_nearest_even" if rounding_method else "round_nearest_afz", operands, outs
    ),
    facts=TestFacts(
        ulp=0,
        samples=lambda: [
            ([get_aval(np.empty((3, 4), np.float32))], {"rounding_method": method})
            for method in RoundingMethod
        ],
    ),
)

ceil_p = Elementwise(
    "ceil",
    1,
    accepts=FLOATS,
    scalar=lambda x: kernel.unary("ceil", x),
    reference=np.ceil,
    stablehlo="ceil",
    facts=TestFacts(ulp=0),
)


# -- functions -----------------------------------------------------------------------------------


def exp(x: Any, accuracy: Any = None) -> Any:
    """Elementwise e^x.

    >>> exp(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return exp_p(x, accuracy=accuracy)


def exp2(x: Any, accuracy: Any = None) -> Any:
    """Elementwise 2^x."""
    return exp2_p(x, accuracy=accuracy)


def expm1(x: Any, accuracy: Any = None) -> Any:
    """Elementwise e^x - 1, accurate near 0."""
    return expm1_p(x, accuracy=accuracy)


def log(x: Any, accuracy: Any = None) -> Any:
    """Elementwise natural logarithm; NaN below 0, principal value for complex numbers."""
    return log_p(x, accuracy=accuracy)


def log1p(x: Any, accuracy: Any = None) -> Any:
    """Elementwise log(1 + x), accurate near 0."""
    return log1p_p(x, accuracy=accuracy)


def logistic(x: Any, accuracy: Any = None) -> Any:
    """Elementwise 1 / (1 + e^-x)."""
    return logistic_p(x, accuracy=accuracy)


def sin(x: Any, accuracy: Any = None) -> Any:
    """Elementwise sine."""
    return sin_p(x, accuracy=accuracy)


def cos(x: Any, accuracy: Any = None) -> Any:
    """Elementwise cosine."""
    return cos_p(x, accuracy=accuracy)


def tan(x: Any, accuracy: Any = None) -> Any:
    """Elementwise tangent."""
    return tan_p(x, accuracy=accuracy)


def tanh(x: Any, accuracy: Any = None) -> Any:
    """Elementwise hyperbolic tangent."""
    return tanh_p(x, accuracy=accuracy)


def sqrt(x: Any, accuracy: Any = None) -> Any:
    """Elementwise square root; NaN below 0, principal value for complex numbers."""
    return sqrt_p(x, accuracy=accuracy)


def rsqrt(x: Any, accuracy: Any = None) -> Any:
    """Elementwise 1 / sqrt(x)."""
    return rsqrt_p(x, accuracy=accuracy)


def cbrt(x: Any, accuracy: Any = None) -> Any:
    """Elementwise cube root."""
    return cbrt_p(x, accuracy=accuracy)


def asin(x: Any) -> Any:
    """Elementwise inverse sine."""
    return asin_p(x)


def acos(x: Any) -> Any:
    """Elementwise inverse cosine."""
    return acos_p(x)


def atan(x: Any) -> Any:
    """Elementwise inverse tangent."""
    return atan_p(x)


def atan2(x: Any, y: Any) -> Any:
    """Elementwise angle of the point (y, x), in (-pi, pi]."""
    return atan2_p(x, y)


def sinh(x: Any) -> Any:
    """Elementwise hyperbolic sine."""
    return sinh_p(x)


def cosh(x: Any) -> Any:
    """Elementwise hyperbolic cosine."""
    return cosh_p(x)


def asinh(x: Any) -> Any:
    """Elementwise inverse hyperbolic sine."""
    return asinh_p(x)


def acosh(x: Any) -> Any:
    """Elementwise inverse hyperbolic cosine."""
    return acosh_p(x)


def atanh(x: Any) -> Any:
    """Elementwise inverse hyperbolic tangent."""
    return atanh_p(x)


def pow(x: Any, y: Any) -> Any:
    """Elementwise x^y; y may be of integer dtype. Python ints give `integer_pow`."""
    if isinstance(y, int) and not isinstance(y, bool):
        return integer_pow(x, y)
    kinds = dtype_kind(get_aval(x).dtype) + dtype_kind(get_aval(y).dtype)
    if kinds[1] in "iu" and kinds[0] in "fc" and not isinstance(y, float):
        return pow_p.bind(*broadcast_together("pow", [as_value(x), as_value(y)]))
    return pow_p(x, y)


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """Elementwise nearest integer; halves go where `rounding_method` says."""
    return round_p(x, rounding_method=RoundingMethod(rounding_method))


def ceil(x: Any) -> Any:
    """Elementwise smallest integer not below x."""
    return ceil_p(x)
