"""Elementary functions of complex scalars, built of real ones; real operands pass through.

Formulas: W. Kahan, "Branch cuts for complex elementary functions" (1987), arranged so that
infinities and signed zeros come out as C99 Annex G asks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tetrax.ir import kernel as k
from tetrax.ir import scalar as s
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.scalar import Complex, Scalar


def _real_or(name: str) -> Callable[[Callable[[Complex], Complex]], Callable[[Scalar], Scalar]]:
    """Real operands take the kernel operation `name`, complex ones the decorated formula."""

    def decorate(formula: Callable[[Complex], Complex]) -> Callable[[Scalar], Scalar]:
        def function(x: Scalar) -> Scalar:
            return formula(x) if isinstance(x, Complex) else k.unary(name, x)

        function.__name__ = name
        function.__doc__ = formula.__doc__
        return function

    return decorate


def _c(value: float, like: Expr) -> Expr:
    return const(value, like.type)


def _u(name: str, x: Expr) -> Expr:
    return k.unary(name, x)


def hypot(x: Expr, y: Expr) -> Expr:
    """sqrt(x² + y²) without overflow; infinite if either is."""
    a, b = k.absolute(x), k.absolute(y)
    large, small = k.maximum(a, b), k.minimum(a, b)
    ratio = k.div(small, large)
    value = k.mul(large, _u("sqrt", k.add(_c(1.0, x), k.mul(ratio, ratio))))
    value = k.select(k.eq(large, _c(0.0, x)), large, value)
    infinite = _c(math.inf, x)
    return k.select(k.bit_or(k.eq(a, infinite), k.eq(b, infinite)), infinite, value)


def absolute(x: Scalar) -> Expr:
    """The modulus."""
    return hypot(x.re, x.im) if isinstance(x, Complex) else k.absolute(x)


def divide(x: Scalar, y: Scalar) -> Scalar:
    """Quotient; Smith's algorithm, with the infinities of C99."""
    if not (isinstance(x, Complex) and isinstance(y, Complex)):
        return k.div(x, y)  # type: ignore[arg-type]
    swap = k.lt(k.absolute(y.re), k.absolute(y.im))
    large, small = k.select(swap, y.im, y.re), k.select(swap, y.re, y.im)
    ratio = k.div(small, large)
    scale = k.add(large, k.mul(small, ratio))
    re = k.select(swap, k.add(k.mul(x.re, ratio), x.im), k.add(x.re, k.mul(x.im, ratio)))
    im = k.select(swap, k.sub(k.mul(x.im, ratio), x.re), k.sub(x.im, k.mul(x.re, ratio)))
    zero = k.bit_and(k.eq(y.re, _c(0.0, y.re)), k.eq(y.im, _c(0.0, y.re)))
    return Complex(
        k.select(zero, k.div(x.re, y.re), k.div(re, scale)),
        k.select(zero, k.div(x.im, y.re), k.div(im, scale)),
    )


def _scaled(factor: Expr, angle: Expr) -> Complex:
    """factor * (cos angle + i sin angle), with 0 * inf as 0 in the imaginary part at angle 0."""
    zero = k.eq(angle, _c(0.0, angle))
    im = k.select(zero, angle, k.mul(factor, _u("sin", angle)))
    return Complex(k.mul(factor, _u("cos", angle)), im)


@_real_or("exp")
def exp(x: Complex) -> Complex:
    """e^x."""
    # exp(-inf + i y) is 0 whatever y is.
    vanishing = k.eq(x.re, _c(-math.inf, x.re))
    angle = k.select(k.bit_and(vanishing, k.logical_not(k.is_finite(x.im))), _c(0.0, x.im), x.im)
    return _scaled(_u("exp", x.re), angle)


@_real_or("exp2")
def exp2(x: Complex) -> Complex:
    """2^x."""
    factor = _c(math.log(2.0), x.re)
    return _scaled(_u("exp2", x.re), k.mul(x.im, factor))


@_real_or("expm1")
def expm1(x: Complex) -> Complex:
    """e^x - 1 without cancellation near 0."""
    half = _u("sin", k.mul(x.im, _c(0.5, x.re)))
    cosine_less_one = k.mul(_c(-2.0, x.re), k.mul(half, half))
    grown = _u("expm1", x.re)
    re = k.add(k.add(grown, cosine_less_one), k.mul(grown, cosine_less_one))
    im = k.mul(k.add(grown, _c(1.0, x.re)), _u("sin", x.im))
    return Complex(re, k.select(k.eq(x.im, _c(0.0, x.im)), x.im, im))


def _log_modulus(x: Complex) -> Expr:
    """log |x|, accurate near |x| = 1."""
    a, b = k.absolute(x.re), k.absolute(x.im)
    large, small = k.maximum(a, b), k.minimum(a, b)
    one = _c(1.0, x.re)
    # |x|² - 1 = (large - 1)(large + 1) + small², which is exact enough near the unit circle.
    excess = k.add(k.mul(k.sub(large, one), k.add(large, one)), k.mul(small, small))
    near = k.bit_and(k.gt(large, _c(0.5, x.re)), k.lt(large, _c(2.0, x.re)))
    close = k.mul(_c(0.5, x.re), _u("log1p", excess))
    return k.select(near, close, _u("log", hypot(x.re, x.im)))


@_real_or("log")
def log(x: Complex) -> Complex:
    """Principal logarithm; the cut is the negative real axis."""
    return Complex(_log_modulus(x), k.binary("atan2", x.im, x.re))


@_real_or("log1p")
def log1p(x: Complex) -> Complex:
    """log(1 + x)."""
    one = _c(1.0, x.re)
    shifted = Complex(k.add(x.re, one), x.im)
    # |1 + x|² - 1 = x.re (2 + x.re) + x.im²
    excess = k.add(k.mul(x.re, k.add(x.re, _c(2.0, x.re))), k.mul(x.im, x.im))
    small = k.bit_and(k.lt(k.absolute(x.re), _c(0.5, x.re)), k.lt(k.absolute(x.im), _c(0.5, x.re)))
    near = k.mul(_c(0.5, x.re), _u("log1p", excess))
    re = k.select(small, near, _log_modulus(shifted))
    return Complex(re, k.binary("atan2", x.im, shifted.re))


@_real_or("sinh")
def sinh(x: Complex) -> Complex:
    """(e^x - e^-x) / 2."""
    re = k.mul(_u("sinh", x.re), _u("cos", x.im))
    im = k.mul(_u("cosh", x.re), _u("sin", x.im))
    zero_im = k.eq(x.im, _c(0.0, x.im))
    return Complex(
        k.select(k.eq(x.re, _c(0.0, x.re)), k.mul(x.re, _u("cos", x.im)), re),
        k.select(zero_im, x.im, im),
    )


@_real_or("cosh")
def cosh(x: Complex) -> Complex:
    """(e^x + e^-x) / 2."""
    re = k.mul(_u("cosh", x.re), _u("cos", x.im))
    im = k.mul(_u("sinh", x.re), _u("sin", x.im))
    return Complex(re, k.select(k.eq(x.im, _c(0.0, x.im)), k.mul(x.re, x.im), im))


@_real_or("tanh")
def tanh(x: Complex) -> Complex:
    """sinh x / cosh x, without overflow."""
    # Beyond 20 the real part is +-1 to the last bit in either precision.
    limit = _c(20.0, x.re)
    re2 = k.mul(_c(2.0, x.re), k.maximum(k.minimum(x.re, limit), k.neg(limit)))
    im2 = k.mul(_c(2.0, x.re), x.im)
    scale = k.add(_u("cosh", re2), _u("cos", im2))
    small = k.select(k.eq(x.im, _c(0.0, x.im)), x.im, k.div(_u("sin", im2), scale))
    return Complex(k.div(_u("sinh", re2), scale), small)


def _times_i(x: Complex) -> Complex:
    return Complex(k.neg(x.im), x.re)


def _times_minus_i(x: Complex) -> Complex:
    return Complex(x.im, k.neg(x.re))


@_real_or("sin")
def sin(x: Complex) -> Complex:
    """Sine, as -i sinh(i x)."""
    return _times_minus_i(sinh(_times_i(x)))  # type: ignore[arg-type]


@_real_or("cos")
def cos(x: Complex) -> Complex:
    """Cosine, as cosh(i x)."""
    return cosh(_times_i(x))  # type: ignore[return-value]


@_real_or("tan")
def tan(x: Complex) -> Complex:
    """Tangent, as -i tanh(i x)."""
    return _times_minus_i(tanh(_times_i(x)))  # type: ignore[arg-type]


@_real_or("sqrt")
def sqrt(x: Complex) -> Complex:
    """Principal square root; the cut is the negative real axis."""
    half = _c(0.5, x.re)
    modulus = hypot(x.re, x.im)
    # Halving before the sum keeps it finite for the largest operands.
    t = _u("sqrt", k.add(k.mul(half, modulus), k.mul(half, k.absolute(x.re))))
    other = k.div(k.mul(half, k.absolute(x.im)), t)
    other = k.select(k.eq(t, _c(0.0, x.re)), t, other)
    negative = k.lt(x.re, _c(0.0, x.re))
    re, im = k.select(negative, other, t), k.select(negative, t, other)
    infinite = k.eq(k.absolute(x.im), _c(math.inf, x.re))
    re = k.select(infinite, k.absolute(x.im), re)
    im = k.select(infinite, k.absolute(x.im), im)
    return Complex(re, k.binary("copysign", im, x.im))


@_real_or("rsqrt")
def rsqrt(x: Complex) -> Complex:
    """1 / sqrt(x)."""
    return divide(s.constant(1.0, x), sqrt(x))  # type: ignore[return-value]


@_real_or("logistic")
def logistic(x: Complex) -> Complex:
    """1 / (1 + e^-x)."""
    one = s.constant(1.0, x)
    return divide(one, s.add(one, exp(s.neg(x))))  # type: ignore[return-value]


@_real_or("asin")
def asin(x: Complex) -> Complex:
    """Inverse of sin (Kahan): cuts on the real axis beyond +-1."""
    one = s.constant(1.0, x)
    minus, plus = sqrt(s.sub(one, x)), sqrt(s.add(one, x))
    re = k.binary("atan2", x.re, s.mul(minus, plus).re)  # type: ignore[union-attr]
    im = _u("asinh", s.mul(s.conj(minus), plus).im)  # type: ignore[union-attr]
    return Complex(re, im)


@_real_or("asinh")
def asinh(x: Complex) -> Complex:
    """Inverse of sinh, as -i asin(i x)."""
    return _times_minus_i(asin(_times_i(x)))  # type: ignore[arg-type]


@_real_or("acos")
def acos(x: Complex) -> Complex:
    """Inverse of cos (Kahan)."""
    one = s.constant(1.0, x)
    minus, plus = sqrt(s.sub(one, x)), sqrt(s.add(one, x))
    re = k.mul(_c(2.0, x.re), k.binary("atan2", minus.re, plus.re))  # type: ignore[union-attr]
    im = _u("asinh", s.mul(s.conj(plus), minus).im)  # type: ignore[union-attr]
    return Complex(re, im)


@_real_or("acosh")
def acosh(x: Complex) -> Complex:
    """Inverse of cosh (Kahan): cut on the real axis below 1."""
    one = s.constant(1.0, x)
    minus, plus = sqrt(s.sub(x, one)), sqrt(s.add(x, one))
    re = _u("asinh", s.mul(s.conj(minus), plus).re)  # type: ignore[union-attr]
    im = k.mul(_c(2.0, x.re), k.binary("atan2", minus.im, plus.re))  # type: ignore[union-attr]
    return Complex(re, im)


@_real_or("atanh")
def atanh(x: Complex) -> Complex:
    """Inverse of tanh: cuts on the real axis beyond +-1."""
    one, two = _c(1.0, x.re), _c(2.0, x.re)
    im2 = k.mul(x.im, x.im)
    near = k.sub(one, x.re)
    ratio = k.div(k.mul(_c(4.0, x.re), x.re), k.add(k.mul(near, near), im2))
    re = k.mul(_c(0.25, x.re), _u("log1p", ratio))
    denominator = k.sub(k.mul(near, k.add(one, x.re)), im2)
    im = k.div(k.binary("atan2", k.mul(two, x.im), denominator), two)
    return Complex(re, im)


@_real_or("atan")
def atan(x: Complex) -> Complex:
    """Inverse of tan, as -i atanh(i x)."""
    return _times_minus_i(atanh(_times_i(x)))  # type: ignore[arg-type]


def power(x: Scalar, y: Scalar) -> Scalar:
    """x^y, principal value; 0^0 is 1."""
    if not (isinstance(x, Complex) and isinstance(y, Complex)):
        return k.binary("pow", x, y)  # type: ignore[arg-type]
    value = exp(s.mul(y, log(x)))
    zero = s.constant(0.0, x)
    value = s.select(s.eq(x, zero), zero, value)
    return s.select(s.eq(y, s.constant(0.0, y)), s.constant(1.0, x), value)
