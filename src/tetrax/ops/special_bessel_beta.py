"""Modified Bessel functions and the regularized incomplete beta function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tetrax._lazy import deferred
from tetrax.ops.arithmetic import add, div, mul, sign, sub
from tetrax.ops.base import TestFacts
from tetrax.ops.bits_and_compare import lt
from tetrax.ops.formulas import Real, chebyshev, function, loop, negligible, where
from tetrax.ops.select import select
from tetrax.ops.special import lgamma
from tetrax.ops.special_gamma import formula_row, no_derivative
from tetrax.ops.structure import full
from tetrax.ops.transcendental import exp, log, log1p
from tetrax.tracing.value import get_aval

_MOST_TERMS = 20000.0

# Chebyshev series, highest degree first: e^-x I0(x) and e^-x I1(x) / x for x in [0, 8], and
# sqrt(x) times the functions for 1/x in (0, 1/8]. Computed to 40 digits and rounded.
_I0E_NEAR = (
    -4.4153416464793395e-18,
    3.3307945188222384e-17,
    -2.431279846547955e-16,
    1.715391285555133e-15,
    -1.1685332877993451e-14,
    7.676185498604936e-14,
    -4.856446783111929e-13,
    2.95505266312964e-12,
    -1.726826291441556e-11,
    9.675809035373237e-11,
    -5.189795601635263e-10,
    2.6598237246823866e-09,
    -1.300025009986248e-08,
    6.046995022541919e-08,
    -2.670793853940612e-07,
    1.1173875391201037e-06,
    -4.4167383584587505e-06,
    1.6448448070728896e-05,
    -5.754195010082104e-05,
    0.00018850288509584165,
    -0.0005763755745385824,
    0.0016394756169413357,
    -0.004324309995050576,
    0.010546460394594998,
    -0.02373741480589947,
    0.04930528423967071,
    -0.09490109704804764,
    0.17162090152220877,
    -0.3046826723431984,
    0.6767952744094761,
)
_I0E_FAR = (
    1.193650890845982e-18,
    9.921475412173699e-19,
    -7.233180487874754e-18,
    -4.830504485944182e-18,
    4.46562142029676e-17,
    3.461222867697461e-17,
    -2.8276239805165836e-16,
    -3.425485619677219e-16,
    1.7725601330565263e-15,
    3.8116806693526224e-15,
    -9.554846698828307e-15,
    -4.150569347287222e-14,
    1.54008621752141e-14,
    3.8527783827421426e-13,
    7.180124451383666e-13,
    -1.7941785315068062e-12,
    -1.3215811840447713e-11,
    -3.1499165279632416e-11,
    1.1889147107846439e-11,
    4.94060238822497e-10,
    3.3962320257083865e-09,
    2.266668990498178e-08,
    2.0489185894690638e-07,
    2.8913705208347567e-06,
    6.889758346916825e-05,
    0.0033691164782556943,
    0.8044904110141088,
)
_I1E_NEAR = (
    -3.541581772542136e-19,
    2.7779141127610464e-18,
    -2.111421214358166e-17,
    1.5536319577362005e-16,
    -1.1055969477353862e-15,
    7.600684294735408e-15,
    -5.042185504727912e-14,
    3.223793365945575e-13,
    -1.9839743977649436e-12,
    1.1736186298890901e-11,
    -6.663489723502027e-11,
    3.625590281552117e-10,
    -1.8872497517228294e-09,
    9.381537386495773e-09,
    -4.445059128796328e-08,
    2.0032947535521353e-07,
    -8.568720264695455e-07,
    3.4702513081376785e-06,
    -1.3273163656039436e-05,
    4.781565107550054e-05,
    -0.00016176081582589674,
    0.0005122859561685758,
    -0.0015135724506312532,
    0.004156422944312888,
    -0.010564084894626197,
    0.024726449030626516,
    -0.05294598120809499,
    0.1026436586898471,
    -0.17641651835783406,
    0.25258718644363365,
)
_I1E_FAR = (
    -1.242193275194891e-18,
    -9.314178867326884e-19,
    7.517296310842105e-18,
    4.414348323071708e-18,
    -4.6503053684893586e-17,
    -3.209525921993424e-17,
    2.96262899764595e-16,
    3.3082023109209285e-16,
    -1.8803547755107825e-15,
    -3.8144030724370075e-15,
    1.0420276984128802e-14,
    4.272440016711951e-14,
    -2.1015418427726643e-14,
    -4.0835511110921974e-13,
    -7.198551776245908e-13,
    2.0356285441470896e-12,
    1.4125807436613782e-11,
    3.2526035830154884e-11,
    -1.8974958123505413e-11,
    -5.589743462196584e-10,
    -3.835380385964237e-09,
    -2.6314688468895196e-08,
    -2.512236237870209e-07,
    -3.882564808877691e-06,
    -0.00011058893876262371,
    -0.009761097491361469,
    0.7785762350182801,
)


# -- formulas ------------------------------------------------------------------------------------


def _bessel(x: Real, near: Sequence[float], far: Sequence[float], odd: bool) -> Real:
    size = function("abs", x)
    small = size <= 8.0
    inner = chebyshev(where(small, size, 8.0) * 0.25 - 1.0, near)
    safe = where(small, 8.0, size)
    outer = chebyshev(16.0 / safe - 1.0, far) / function("sqrt", safe)
    if not odd:
        return where(small, inner, outer)
    return where(small, inner * x, where(x < 0.0, -outer, outer))


def bessel_i0e_formula(x: Real) -> Real:
    """e^-|x| I0(x)."""
    return _bessel(x, _I0E_NEAR, _I0E_FAR, odd=False)


def bessel_i1e_formula(x: Real) -> Real:
    """e^-|x| I1(x)."""
    return _bessel(x, _I1E_NEAR, _I1E_FAR, odd=True)


def _beta_fraction(a: Real, b: Real, x: Real, active: Real) -> Real:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    one = x.constant(1.0)
    both = a + b
    first = 1.0 / (1.0 - both * x / (a + 1.0))

    def condition(m: Real, c: Real, d: Real, h: Real, change: Real) -> Real:
        return active & ~negligible(change - 1.0, one, 4e-16) & (m < _MOST_TERMS)

    def step(m: Real, c: Real, d: Real, h: Real, change: Real) -> list[Real]:
        m = m + 1.0
        place = a + m * 2.0
        even = m * (b - m) * x / ((place - 1.0) * place)
        d = 1.0 / (1.0 + even * d)
        c = 1.0 + even / c
        h = h * d * c
        odd = -((a + m) * (both + m) * x / (place * (place + 1.0)))
        d = 1.0 / (1.0 + odd * d)
        c = 1.0 + odd / c
        change = d * c
        return [m, c, d, h * change, change]

    start = [x.constant(0.0), one, first, first, x.constant(2.0)]
    return loop(start, condition, step)[3]


def betainc_formula(a: Real, b: Real, x: Real) -> Real:
    """I_x(a, b), or 1 - I_(1-x)(b, a) where that converges faster."""
    inside = (a > 0.0) & (b > 0.0) & (x > 0.0) & (x < 1.0)
    inside = inside & (a < math.inf) & (b < math.inf)
    turned = x > (a + 1.0) / (a + b + 2.0)
    scale = function("lgamma", a + b) - function("lgamma", a) - function("lgamma", b)
    scale = function("exp", a * function("log", x) + b * function("log1p", -x) + scale)
    first, second = where(turned, b, a), where(turned, a, b)
    fraction = _beta_fraction(first, second, where(turned, 1.0 - x, x), inside)
    value = fraction * scale / first
    value = where(turned, 1.0 - value, value)
    value = where((x <= 0.0) | b.equals(0.0) | a.equals(math.inf), 0.0, value)
    value = where((x >= 1.0) | a.equals(0.0) | b.equals(math.inf), 1.0, value)
    corner = (a.equals(0.0) & b.equals(0.0)) | (a.equals(math.inf) & b.equals(math.inf))
    valid = (a >= 0.0) & (b >= 0.0) & (x >= 0.0) & (x <= 1.0) & ~corner
    return where(valid, value, math.nan)


# -- operations ----------------------------------------------------------------------------------


def _i0e_slope(t: Any, out: Any, x: Any) -> Any:
    return mul(t, sub(bessel_i1e_p(x), mul(sign(x), out)))


def _i1e_slope(t: Any, out: Any, x: Any) -> Any:
    """e^-|x| (I0 - I1 / x), which is 1/2 at 0."""
    aval = get_aval(x)
    # Below this x + x^3 is x: the quotient has no digits left, its limit has all.
    tiny = lt(mul(x, x), full(aval.shape, 1e-16, aval.dtype))
    one = full(aval.shape, 1, aval.dtype)
    safe = select(tiny, one, x)
    slope = sub(bessel_i0e_p(x), mul(out, add(sign(x), div(one, safe))))
    return mul(t, select(tiny, full(aval.shape, 0.5, aval.dtype), slope))


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    scale = sub(lgamma(add(a, b)), add(lgamma(a), lgamma(b)))
    powers = add(mul(sub(a, 1.0), log(x)), mul(sub(b, 1.0), log1p(mul(x, -1.0))))
    return exp(add(powers, scale))


bessel_i0e_p = formula_row(
    "bessel_i0e",
    1,
    bessel_i0e_formula,
    deferred("scipy.special", "i0e"),
    (_i0e_slope,),
    TestFacts(domain=(-12.0, 12.0), ulp=8, jax_ulp=32),
)
bessel_i1e_p = formula_row(
    "bessel_i1e",
    1,
    bessel_i1e_formula,
    deferred("scipy.special", "i1e"),
    (_i1e_slope,),
    TestFacts(domain=(-12.0, 12.0), ulp=8, jax_ulp=32),
)
regularized_incomplete_beta_p = formula_row(
    "regularized_incomplete_beta",
    3,
    betainc_formula,
    deferred("scipy.special", "betainc"),
    (
        no_derivative("regularized_incomplete_beta", "a"),
        no_derivative("regularized_incomplete_beta", "b"),
        lambda t, out, a, b, x: mul(t, _beta_density(a, b, x)),
    ),
    TestFacts(
        domain=((0.4, 5.0), (0.4, 5.0), (0.05, 0.95)),
        ulp=256,
        jax_ulp=4096,
        excluded=(("jvp", "by x only, as in JAX; tests/ops/test_special.py"),),
    ),
)


# -- functions -----------------------------------------------------------------------------------


def bessel_i0e(x: Any) -> Any:
    """Elementwise e^-|x| I0(x), the modified Bessel function of order 0, scaled.

    >>> bessel_i0e(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return bessel_i0e_p(x)


def bessel_i1e(x: Any) -> Any:
    """Elementwise e^-|x| I1(x), the modified Bessel function of order 1, scaled."""
    return bessel_i1e_p(x)


def betainc(a: Any, b: Any, x: Any) -> Any:
    """Elementwise regularized incomplete beta function I_x(a, b); NaN outside its domain."""
    return regularized_incomplete_beta_p(a, b, x)


__all__ = [
    "bessel_i0e",
    "bessel_i0e_p",
    "bessel_i1e",
    "bessel_i1e_p",
    "betainc",
    "regularized_incomplete_beta_p",
]
