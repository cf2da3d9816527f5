"""Error functions and their inverse, log-gamma and digamma."""

from __future__ import annotations

from math import pi

from tetrax.compiler.cpu import vector_math_tables as tables
from tetrax.compiler.cpu.vector_math_base import (
    BIAS,
    INFINITY,
    NAN,
    copy_sign,
    horner,
    is_nan,
    number,
    polynomial,
    power_of_two,
    scale,
)
from tetrax.compiler.cpu.vector_math_exponential import exp_reduced, log
from tetrax.compiler.cpu.vector_math_trigonometric import sin, tan
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_operations import (
    absolute,
    add,
    bit_and,
    bit_or,
    compare,
    convert,
    div,
    external,
    fma,
    minimum,
    mul,
    neg,
    select,
    sub,
    unary,
    unlikely,
)
from tetrax.ir.kernel_types import F32, F64


def erf(x: Expr) -> Expr:
    """Error function: an odd polynomial near zero, 1 - erfc beyond."""
    size, z = absolute(x), mul(x, x)
    if x.type is F32:
        small = fma(size, polynomial(z, tables.ERF32), size)
        bounded = select(compare("gt", size, 4.0), number(4.0, x), size)
        p, bits = exp_reduced(polynomial(bounded, tables.LOGERFC32), bias=BIAS[F32])
        power = power_of_two(bits, F32)
        large = sub(sub(1.0, power, strict=True), mul(power, p))
        cut = 0.9375
    else:
        small = fma(size, polynomial(z, tables.ERF64), size)
        large = sub(1.0, _erfc_of_positive(size))
        cut = 1.0
    value = copy_sign(select(compare("lt", size, cut), small, large), x)
    return select(is_nan(x), x, value)


def _erfc_of_positive(size: Expr) -> Expr:
    """erfc for 0.45 <= size: e^(-x^2) times a polynomial, x^2 kept exactly."""
    bounded = select(compare("lt", size, 27.5), size, number(27.5, size))  # erfc is 0 there
    square = mul(bounded, bounded, strict=True)
    rest = fma(bounded, bounded, neg(square))
    p, bits = exp_reduced(neg(square), neg(rest), 2 * BIAS[F64])
    t = div(sub(bounded, 3.75), add(bounded, 3.75))
    factor = div(polynomial(t, tables.ERFCX64), fma(bounded, number(2.0, size), number(1.0, size)))
    return scale(fma(p, factor, factor), bits)


def erfc(x: Expr) -> Expr:
    """Complementary error function (f64), precise in its tail."""
    size, z = absolute(x), mul(x, x)
    small = fma(x, polynomial(z, tables.ERF64), x)
    tail = _erfc_of_positive(size)
    large = select(compare("lt", x, 0.0), sub(2.0, tail), tail)
    value = select(compare("lt", size, 0.46875), sub(1.0, small), large)
    return select(is_nan(x), x, value)


def erf_inv(x: Expr) -> Expr:
    """Inverse error function: polynomials in w = -log(1 - x^2), or in its root where w is large."""
    w = neg(log(mul(sub(1.0, x), add(x, 1.0))))
    root = unary("sqrt", w)
    if x.type is F32:
        near = polynomial(sub(w, 2.5), tables.ERFINV32A)
        far = polynomial(sub(minimum(root, 4.1), 3.0), tables.ERFINV32B)
        ratio = unlikely(compare("ge", w, 5.0), far, near)
    else:
        near = horner(sub(w, 3.125), tables.ERFINV64A)
        middle = horner(sub(root, 3.25), tables.ERFINV64B)
        far = horner(sub(root, 5.0), tables.ERFINV64C)
        outer = select(compare("lt", w, 16.0), middle, far)
        ratio = unlikely(compare("ge", w, 6.25), outer, near)
    value = mul(x, ratio)
    return select(compare("eq", absolute(x), 1.0), mul(x, INFINITY), value)


_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
)
_HALF_LOG_TWO_PI = 0.9189385332046728
_DIGAMMA = (
    1 / 12,
    -1 / 120,
    1 / 252,
    -1 / 240,
    1 / 132,
    -691 / 32760,
    1 / 12,
    -3617 / 8160,
)


def lgamma(x: Expr) -> Expr:
    """log |Gamma(x)|: f64 by the C library, f32 by Stirling's series in f64 after a shift by
    eight.
    """
    if x.type is F64:
        return external("lgamma", F64, x)
    wide = convert(x, F64)
    reflect = compare("lt", wide, 0.5)
    y = select(reflect, sub(1.0, wide), wide)
    low = compare("lt", y, 8.0)
    product = number(1.0, y)
    for step in range(8):
        product = mul(product, add(y, float(step)))
    z = select(low, add(y, 8.0), y)
    inverse = div(number(1.0, y), z)
    series = mul(inverse, polynomial(mul(inverse, inverse), _STIRLING))
    stirling = add(fma(sub(z, 0.5), log(z), neg(z)), add(series, _HALF_LOG_TWO_PI))
    value = sub(stirling, log(select(low, product, number(1.0, y))))
    fraction = sub(wide, unary("round_even", wide))
    sine = absolute(sin(mul(fraction, pi)))
    reflected = sub(neg(log(mul(sine, 1 / pi))), value)
    value = select(reflect, reflected, value)
    value = select(compare("eq", absolute(wide), INFINITY), number(INFINITY, y), value)
    pole = bit_and(reflect, compare("eq", fraction, 0.0))
    value = select(pole, number(INFINITY, y), value)
    root = bit_or(compare("eq", wide, 1.0), compare("eq", wide, 2.0))
    return convert(select(root, number(0.0, y), value), F32)


def digamma(x: Expr) -> Expr:
    """Derivative of log Gamma (f64): reflection, shift by ten, asymptotic series; NaN at its
    poles.
    """
    reflect = compare("le", x, 0.0)
    y = select(reflect, sub(1.0, x), x)
    shift = number(0.0, x)
    for step in range(0, 10, 2):
        # 1/(y+i) + 1/(y+i+1) in one division
        a = add(y, float(step))
        shift = add(shift, div(fma(a, number(2.0, x), number(1.0, x)), mul(a, add(a, 1.0))))
    low = compare("lt", y, 10.0)
    z = select(low, add(y, 10.0), y)
    inverse = div(number(1.0, x), z)
    square = mul(inverse, inverse)
    series = fma(square, polynomial(square, _DIGAMMA), mul(inverse, 0.5))
    value = sub(sub(log(z), series), select(low, shift, number(0.0, x)))
    fraction = sub(x, unary("round_even", x))
    reflected = sub(value, div(number(pi, x), tan(mul(fraction, pi))))
    value = select(reflect, reflected, value)
    pole = bit_and(reflect, compare("eq", fraction, 0.0))
    return select(pole, number(NAN, x), value)
