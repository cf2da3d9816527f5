"""Special functions on elements: error functions, log-gamma and digamma."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax._lazy import deferred, lazy_module
from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_types import F32
from tetrax.ops.arithmetic import add, div, mul, neg, square, sub
from tetrax.ops.base import FLOATS, Elementwise, TestFacts
from tetrax.ops.bits_and_compare import lt
from tetrax.ops.sampling_math import fma_single, log1p_scalar, log1p_single
from tetrax.ops.select import select
from tetrax.ops.structure import full
from tetrax.ops.transcendental import exp, sin
from tetrax.tracing.value import get_aval

special = lazy_module("scipy.special")

_TWO_OVER_ROOT_PI = 2.0 / math.sqrt(math.pi)
_HALF_ROOT_PI = math.sqrt(math.pi) / 2.0

# M. Giles, "Approximating the erfinv function" (2010), single precision: coefficients in
# w - 2.5 for w < 5 and in sqrt(w) - 3 beyond, highest power first, with w = -log(1 - x^2).
_ERF_INV_NEAR = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_ERF_INV_FAR = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


def _in_double(function: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], np.ndarray]:
    """A SciPy function evaluated in float64 and rounded once to the operand's dtype."""
    return lambda x: np.asarray(function(x.astype(np.float64))).astype(x.dtype)


def _row(
    name: str,
    reference: Callable[[np.ndarray], Any],
    derivative: Callable[[Any, Any, Any], Any],
    domain: tuple[float, float],
    formula: Callable[[Any], scalar.Scalar] | None = None,
) -> Elementwise:
    """A function of one real operand, with derivative `(tangent, out, x) -> tangent`."""
    return Elementwise(
        name,
        1,
        accepts=FLOATS,
        scalar=formula or (lambda x: kernel.unary(name, x)),
        reference=reference,
        derivative=(derivative,),
        stablehlo=lambda context, operands, outs: context.chlo(name, operands, outs),
        cost=16,
        # JAX evaluates these in float32, which costs it digits near the roots.
        facts=TestFacts(domain=domain, jax_ulp=32),
    )


def _gauss(scale: float, x: Any) -> Any:
    return mul(scale, exp(neg(square(x))))


erf_p = _row(
    "erf",
    _in_double(deferred("scipy.special", "erf")),
    lambda t, out, x: mul(_gauss(_TWO_OVER_ROOT_PI, x), t),
    (-3.0, 3.0),
)
erfc_p = _row(
    "erfc",
    _in_double(deferred("scipy.special", "erfc")),
    lambda t, out, x: mul(_gauss(-_TWO_OVER_ROOT_PI, x), t),
    (-3.0, 3.0),
)


def _erf_inv_single(x: np.ndarray) -> np.ndarray:
    """Giles' polynomials, rounded step by step as XLA does: normal samples must agree."""
    w = -log1p_single(-(x * x))
    near = w < np.float32(5)
    t = np.where(near, w - np.float32(2.5), np.sqrt(w) - np.float32(3))
    p = np.where(near, np.float32(_ERF_INV_NEAR[0]), np.float32(_ERF_INV_FAR[0]))
    for a, b in zip(_ERF_INV_NEAR[1:], _ERF_INV_FAR[1:], strict=True):
        p = fma_single(p, t, np.where(near, np.float32(a), np.float32(b)))
    return np.where(np.abs(x) == 1, x * np.float32(np.inf), p * x)


def _erf_inv_reference(x: np.ndarray) -> np.ndarray:
    if x.dtype == np.float64:
        return special.erfinv(x)
    return _erf_inv_single(x.astype(np.float32)).astype(x.dtype)


def _erf_inv_scalar(x: Any) -> Any:
    if x.type is not F32:
        return kernel.unary("erf_inv", x)
    w = kernel.neg(log1p_scalar(kernel.neg(kernel.mul(x, x, strict=True))))
    near = kernel.lt(w, const(5.0, F32))
    root = kernel.sub(kernel.unary("sqrt", w), const(3.0, F32))
    t = kernel.select(near, kernel.sub(w, const(2.5, F32)), root)
    p = kernel.select(near, const(_ERF_INV_NEAR[0], F32), const(_ERF_INV_FAR[0], F32))
    for a, b in zip(_ERF_INV_NEAR[1:], _ERF_INV_FAR[1:], strict=True):
        p = kernel.fma(p, t, kernel.select(near, const(a, F32), const(b, F32)))
    edge = kernel.eq(kernel.absolute(x), const(1.0, F32))
    return kernel.select(edge, kernel.mul(x, const(math.inf, F32)), kernel.mul(p, x))


erf_inv_p = _row(
    "erf_inv",
    _erf_inv_reference,
    lambda t, out, x: mul(_HALF_ROOT_PI, mul(t, exp(square(out)))),
    (-0.9, 0.9),
    _erf_inv_scalar,
)

lgamma_p = _row(
    "lgamma",
    _in_double(deferred("scipy.special", "gammaln")),
    lambda t, out, x: mul(t, digamma(x)),
    (0.2, 4.0),
)


def _digamma_reference(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    # SciPy gives an infinity at 0; the two one-sided limits differ.
    return np.where(wide == 0, np.nan, special.psi(wide)).astype(x.dtype)


def _trigamma(x: Any) -> Any:
    """The second derivative of log-gamma: reflection, shift by eight, asymptotic series."""
    aval = get_aval(x)
    constant = lambda value: full(aval.shape, value, aval.dtype)
    reflect = lt(x, constant(0.5))
    y = select(reflect, sub(constant(1.0), x), x)
    total = constant(0.0)
    for step in range(8):
        total = add(total, div(constant(1.0), square(add(y, constant(float(step))))))
    inverse = div(constant(1.0), add(y, constant(8.0)))
    power = square(inverse)
    series = constant(5 / 66)
    for coefficient in (-1 / 30, 1 / 42, -1 / 30, 1 / 6):
        series = add(constant(coefficient), mul(power, series))
    tail = add(inverse, mul(power, add(constant(0.5), mul(inverse, series))))
    value = add(total, tail)
    sine = sin(mul(x, math.pi))
    reflected = sub(div(constant(math.pi**2), square(sine)), value)
    return select(reflect, reflected, value)


digamma_p = _row(
    "digamma",
    _digamma_reference,
    lambda t, out, x: mul(t, _trigamma(x)),
    (0.2, 4.0),
)


# -- functions -----------------------------------------------------------------------------------


def erf(x: Any) -> Any:
    """Elementwise error function, 2/sqrt(pi) times the integral of e^-t^2 from 0 to x."""
    return erf_p(x)


def erfc(x: Any) -> Any:
    """Elementwise 1 - erf(x), precise in its tail."""
    return erfc_p(x)


def erf_inv(x: Any) -> Any:
    """Elementwise inverse of `erf`; infinite at -1 and 1, NaN beyond."""
    return erf_inv_p(x)


def lgamma(x: Any) -> Any:
    """Elementwise log |Gamma(x)|; infinite at 0, -1, -2, ...

    >>> lgamma(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return lgamma_p(x)


def digamma(x: Any) -> Any:
    """Elementwise derivative of `lgamma`; NaN at 0, -1, -2, ..."""
    return digamma_p(x)
