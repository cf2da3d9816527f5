"""Incomplete gamma functions, their derivatives, the Hurwitz zeta function and polygamma.

P(a, x) is a power series for small x and one minus a continued fraction for large x (W. Gautschi,
"A computational procedure for incomplete gamma functions", 1979). Its derivative by `a` is that of
the same series, term by term. Everything is computed in float64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tetrax import dtypes, errors
from tetrax._lazy import deferred, lazy_module
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import add, mul, neg, sub
from tetrax.ops.base import FLOATS, Elementwise, TestFacts
from tetrax.ops.formulas import Dual, Number, Real, function, kernel_rule, loop, negligible, where
from tetrax.ops.special import digamma, lgamma
from tetrax.ops.transcendental import exp, log

special = lazy_module("scipy.special")

_MOST_TERMS = 20000.0
# From here on Stirling's series for log-gamma is exact to a unit with four terms.
_STIRLING_FROM = 16.0
_STIRLING = (-1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
# Bernoulli numbers B(2j) / (2j)!, of the Euler-Maclaurin sum of zeta.
_BERNOULLI = tuple(
    number / math.factorial(2 * j)
    for j, number in enumerate(
        (
            *(1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510),
            *(43867 / 798, -174611 / 330, 854513 / 138, -236364091 / 2730),
        ),
        start=1,
    )
)


def in_double(formula: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """A SciPy function evaluated in float64 and rounded once to the operands' dtype."""

    def reference(*arrays: np.ndarray) -> np.ndarray:
        wide = [x.astype(np.float64) for x in arrays]
        return np.asarray(formula(*wide)).astype(arrays[0].dtype)

    return reference


# -- formulas ------------------------------------------------------------------------------------


def _density(a: Number, x: Real) -> Number:
    """x^a e^-x / Gamma(a + 1), without the cancellation of large exponents."""
    direct = function("exp", a * function("log", x) - x - function("lgamma", a + 1.0))
    distance = (x - a) / a
    inverse = 1.0 / a
    square = inverse * inverse
    series = a.constant(_STIRLING[0])
    for coefficient in _STIRLING[1:]:
        series = series * square + coefficient
    exponent = -(a * (distance - function("log1p", distance))) - series * inverse
    stirling = function("exp", exponent) / function("sqrt", a * (2 * math.pi))
    return where(a < _STIRLING_FROM, direct, stirling)


def _power_series(a: Number, x: Real, active: Real) -> Number:
    """sum of x^n / ((a+1) ... (a+n))."""
    one = a.constant(1.0)

    def condition(term: Number, total: Number, divisor: Number, count: Real) -> Real:
        return active & ~negligible(term, total) & (count < _MOST_TERMS)

    def step(term: Number, total: Number, divisor: Number, count: Real) -> list[Number]:
        divisor = divisor + 1.0
        term = term * (x / divisor)
        return [term, total + term, divisor, count + 1.0]

    return loop([one, one, a + 0.0, x.constant(0.0)], condition, step)[1]


def _continued_fraction(a: Number, x: Real, active: Real) -> Number:
    """Gamma(a, x) / (x^a e^-x), by Lentz's method."""
    b = x + 1.0 - a
    first = 1.0 / b
    one = a.constant(1.0)

    def condition(i: Real, b: Number, c: Number, d: Number, h: Number, change: Number) -> Real:
        # The derivative is a sum of larger terms: their last digits never settle.
        return active & ~negligible(change - 1.0, one, 2e-15) & (i < _MOST_TERMS)

    def step(i: Real, b: Number, c: Number, d: Number, h: Number, change: Number) -> list[Number]:
        i = i + 1.0
        numerator = (a - i) * i
        b = b + 2.0
        d = 1.0 / (numerator * d + b)
        c = numerator / c + b
        change = c * d
        return [i, b, c, d, h * change, change]

    start = [x.constant(0.0), b, a.constant(1e300), first, first, a.constant(2.0)]
    return loop(start, condition, step)[4]


def _gamma_parts(a: Number, x: Real) -> tuple[Number, Number]:
    """P(a, x) and Q(a, x) inside the domain."""
    inside = (x > 0.0) & (a > 0.0) & (x < math.inf) & (a < math.inf)
    large = (x > 1.0) & (x > a.value)
    density = _density(a, x)
    below = _power_series(a, x, inside & ~large) * density
    above = _continued_fraction(a, x, inside & large) * density * a
    return where(large, 1.0 - above, below), where(large, above, 1.0 - below)


def _at_edges(a: Real, x: Real, value: Real, at_zero: float) -> Real:
    """Limits of P (`at_zero` = 0) or Q (1) at the ends of the domain, NaN outside it."""
    at_end = 1.0 - at_zero
    value = where(x.equals(0.0) | a.equals(math.inf), at_zero, value)
    value = where(x.equals(math.inf) | a.equals(0.0), at_end, value)
    corner = (x.equals(0.0) & a.equals(0.0)) | (x.equals(math.inf) & a.equals(math.inf))
    return where((x >= 0.0) & (a >= 0.0) & ~corner, value, math.nan)


def igamma_formula(a: Real, x: Real) -> Real:
    """P(a, x)."""
    return _at_edges(a, x, _gamma_parts(a, x)[0], 0.0)


def igammac_formula(a: Real, x: Real) -> Real:
    """Q(a, x)."""
    return _at_edges(a, x, _gamma_parts(a, x)[1], 1.0)


def _slope(a: Real, x: Real) -> Real:
    """dP/da, 0 at the ends of the domain and NaN outside it."""
    below, _ = _gamma_parts(Dual(a, a.constant(1.0)), x)
    edge = x.equals(0.0) | x.equals(math.inf)
    return where((x >= 0.0) & (a > 0.0), where(edge, 0.0, below.tangent), math.nan)


def igamma_grad_a_formula(a: Real, x: Real) -> Real:
    """dP/da."""
    return _slope(a, x)


def random_gamma_grad_formula(a: Real, x: Real) -> Real:
    """dx/da of a sample x whose quantile P(a, x) is fixed."""
    value = -_slope(a, x) / (_density(a, x) * a) * x
    return where(x.equals(0.0), 0.0, value)


def zeta_formula(s: Real, q: Real) -> Real:
    """sum of (q + n)^-s: some terms, up to q + n = 10, and the rest after Euler and Maclaurin."""
    zero = s.constant(0.0)

    def condition(total: Real, a: Real, count: Real) -> Real:
        return ((count < 10.0) | (a <= 10.0)) & (count < _MOST_TERMS)

    def step(total: Real, a: Real, count: Real) -> list[Number]:
        return [total + a**-s, a + 1.0, count + 1.0]

    total, a, _ = loop([zero, q + 0.0, zero], condition, step)
    last = a**-s
    total = total + last * a / (s - 1.0) + 0.5 * last
    rising, power = s, last / a
    for j, coefficient in enumerate(_BERNOULLI, start=1):
        total = total + coefficient * rising * power
        rising = rising * (s + (2.0 * j - 1.0)) * (s + 2.0 * j)
        power = power / (a * a)
    total = where(s.equals(math.inf) | q.equals(math.inf), q**-s, total)
    total = where(s.equals(1.0), math.inf, total)
    undefined = (q <= 0.0) & ~function("floor", s).equals(s)
    pole = (q <= 0.0) & function("floor", q).equals(q)
    total = where(pole, math.inf, where(undefined, math.nan, total))
    return where(s >= 1.0, total, math.nan)


def polygamma_formula(m: Real, x: Real) -> Real:
    """The derivative of digamma of order m."""
    half = m * 0.5
    odd = ~function("floor", half).equals(half)
    size = function("exp", function("lgamma", m + 1.0)) * zeta_formula(m + 1.0, x)
    value = where(odd, size, -size)
    value = where(m.equals(0.0), function("digamma", x), value)
    return where((m >= 0.0) & function("floor", m).equals(m), value, math.nan)


def _polygamma_reference(m: np.ndarray, x: np.ndarray) -> np.ndarray:
    valid = (m >= 0) & (np.floor(m) == m)
    order = np.where(valid, m, 0)
    size = special.gamma(order + 1) * special.zeta(order + 1, x)
    value = np.where(order % 2 == 1, size, -size)
    value = np.where(order == 0, special.psi(x), value)
    return np.where(valid, value, np.nan)


# -- operations ----------------------------------------------------------------------------------


def formula_row(
    name: str,
    arity: int,
    formula: Callable[..., Real],
    reference: Callable[..., Any] | None,
    derivative: tuple[Any, ...],
    facts: TestFacts,
) -> Elementwise:
    """An operation given by a formula; without a reference eager calls are compiled."""

    def unused(*arrays: np.ndarray) -> np.ndarray:
        raise AssertionError(f"{name} is compiled, also in eager calls")

    row = Elementwise(
        name,
        arity,
        accepts=FLOATS,
        scalar=kernel_rule(formula),
        reference=unused if reference is None else in_double(reference),
        derivative=derivative,
        stablehlo=lambda context, operands, outs: context.formula(formula, operands, outs),
        cost=64,
        facts=replace(facts, samples=formula_samples(arity)),
    )
    row.compile_eagerly = reference is None
    return row


def no_derivative(name: str, operand: str) -> Callable[..., Any]:
    """The derivative by an operand for which there is no closed form."""

    def rule(tangent: Any, out: Any, *operands: Any) -> Any:
        raise errors.MissingRule(name, f"derivative with respect to {operand}")

    return rule


def _gamma_density(a: Any, x: Any) -> Any:
    """dP/dx."""
    return exp(sub(sub(mul(sub(a, 1.0), log(x)), x), lgamma(a)))


def formula_samples(arity: int) -> Callable[[], list[tuple[list[ShapedArray], dict]]]:
    """One shape per dtype: formulas with loops take other compilers long."""
    rows = ((np.dtype(np.float32), (3, 4)), (np.dtype(np.float64), (33,)), (dtypes.bfloat16, ()))
    return lambda: [([ShapedArray(shape, dtype)] * arity, {}) for dtype, shape in rows]


_REACH = ((0.4, 4.0), (0.2, 6.0))
# Against SciPy in float64; a few hundred units are 1e-13.
_ULP = 256
# JAX evaluates these in the operands' own precision.
_JAX_ULP = 4096
_facts = TestFacts(domain=_REACH, ulp=_ULP, jax_ulp=_JAX_ULP)

igamma_p = formula_row(
    "igamma",
    2,
    igamma_formula,
    deferred("scipy.special", "gammainc"),
    (
        lambda t, out, a, x: mul(t, igamma_grad_a_p(a, x)),
        lambda t, out, a, x: mul(t, _gamma_density(a, x)),
    ),
    TestFacts(
        domain=_REACH,
        ulp=_ULP,
        jax_ulp=_JAX_ULP,
        excluded=(("second", "JAX has no second derivative by a either"),),
    ),
)
igammac_p = formula_row(
    "igammac",
    2,
    igammac_formula,
    deferred("scipy.special", "gammaincc"),
    (
        lambda t, out, a, x: neg(mul(t, igamma_grad_a_p(a, x))),
        lambda t, out, a, x: neg(mul(t, _gamma_density(a, x))),
    ),
    TestFacts(
        domain=_REACH,
        ulp=_ULP,
        jax_ulp=_JAX_ULP,
        excluded=(("second", "JAX has no second derivative by a either"),),
    ),
)
igamma_grad_a_p = formula_row(
    "igamma_grad_a",
    2,
    igamma_grad_a_formula,
    None,
    (
        no_derivative("igamma_grad_a", "a"),
        lambda t, out, a, x: mul(t, mul(_gamma_density(a, x), sub(log(x), digamma(a)))),
    ),
    TestFacts(
        domain=_REACH,
        ulp=_ULP,
        jax_ulp=_JAX_ULP,
        excluded=(("jvp", "by x only; JAX has none"),),
    ),
)
random_gamma_grad_p = formula_row(
    "random_gamma_grad",
    2,
    random_gamma_grad_formula,
    None,
    (no_derivative("random_gamma_grad", "a"), no_derivative("random_gamma_grad", "x")),
    TestFacts(
        domain=_REACH, ulp=_ULP, jax_ulp=_JAX_ULP, excluded=(("jvp", "JAX has none either"),)
    ),
)
zeta_p = formula_row(
    "zeta",
    2,
    zeta_formula,
    deferred("scipy.special", "zeta"),
    (
        no_derivative("zeta", "x"),
        lambda t, out, x, q: neg(mul(t, mul(x, zeta_p(add(x, 1.0), q)))),
    ),
    TestFacts(
        domain=((1.5, 6.0), (0.3, 6.0)),
        ulp=_ULP,
        jax_ulp=_JAX_ULP,
        excluded=(("jvp", "by q only; JAX has none"),),
    ),
)
polygamma_p = formula_row(
    "polygamma",
    2,
    polygamma_formula,
    _polygamma_reference,
    (
        no_derivative("polygamma", "m"),
        lambda t, out, m, x: mul(t, polygamma_p(add(m, 1.0), x)),
    ),
    TestFacts(
        domain=((0.0, 5.0), (0.3, 6.0)),
        ulp=_ULP,
        jax_ulp=_JAX_ULP,
        excluded=(("jvp", "by x only, at whole m; tests/ops/test_special.py"),),
    ),
)


# -- functions -----------------------------------------------------------------------------------


def igamma(a: Any, x: Any) -> Any:
    """Elementwise regularized lower incomplete gamma function P(a, x); NaN for negative operands.

    >>> igamma(1.0, 0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return igamma_p(a, x)


def igammac(a: Any, x: Any) -> Any:
    """Elementwise regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return igammac_p(a, x)


def igamma_grad_a(a: Any, x: Any) -> Any:
    """Elementwise derivative of `igamma` with respect to `a`."""
    return igamma_grad_a_p(a, x)


def random_gamma_grad(a: Any, x: Any) -> Any:
    """Elementwise derivative of a Gamma(a, 1) sample `x` with respect to `a`."""
    return random_gamma_grad_p(a, x)


def zeta(x: Any, q: Any) -> Any:
    """Elementwise Hurwitz zeta function, the sum of (q + n)^-x over n = 0, 1, ..."""
    return zeta_p(x, q)


def polygamma(m: Any, x: Any) -> Any:
    """Elementwise derivative of order `m` of digamma; NaN unless `m` is a whole number >= 0."""
    return polygamma_p(m, x)


__all__ = [
    "igamma",
    "igamma_grad_a",
    "igamma_grad_a_p",
    "igamma_p",
    "igammac",
    "igammac_p",
    "polygamma",
    "polygamma_p",
    "random_gamma_grad",
    "random_gamma_grad_p",
    "zeta",
    "zeta_p",
]
