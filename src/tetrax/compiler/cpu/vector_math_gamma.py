"""Log-gamma and digamma."""

from __future__ import annotations

from math import pi

from tetrax.compiler.cpu import vector_math_tables as tables
from tetrax.compiler.cpu.vector_math_base import (
    INFINITY,
    NAN,
    exact_product,
    horner,
    is_nan,
    number,
    polynomial,
)
from tetrax.compiler.cpu.vector_math_exponential import log
from tetrax.compiler.cpu.vector_math_power import log_pair
from tetrax.compiler.cpu.vector_math_trigonometric import sin_of_quadrant, tan_of_quadrant
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_operations import (
    absolute,
    add,
    bit_and,
    bit_or,
    compare,
    convert,
    div,
    fma,
    mul,
    neg,
    select,
    sub,
    unary,
    unlikely,
)
from tetrax.ir.kernel_types import F32, F64

_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
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
    """log |Gamma(x)|.

    Beside the zeros on the negative axis only the absolute error is small.
    """
    return _lgamma_32(x) if x.type is F32 else _lgamma_64(x)


def _lgamma_64(x: Expr) -> Expr:
    size = absolute(x)
    value = _lgamma_of_positive(size)
    # Gamma(x) Gamma(-x) = -pi / (x sin pi x)
    fraction = sub(size, unary("round_even", size), strict=True)
    sine = absolute(sin_of_quadrant(mul(fraction, pi)))
    mirrored = sub(neg(log(mul(mul(size, sine), 1 / pi))), value, strict=True)
    mirrored = select(compare("eq", fraction, 0.0), number(INFINITY, x), mirrored)
    # where size^2 might be denormal Gamma(-x) is as large as Gamma(x)
    mirrored = select(compare("lt", size, 2.0**-60), value, mirrored)
    value = unlikely(compare("lt", x, 0.0), mirrored, value)
    return select(compare("eq", size, INFINITY), size, value)


def _lgamma_of_positive(x: Expr) -> Expr:
    """f64: from 8 on Stirling's series, below it a polynomial around 2 and the logarithm of the
    factors between.
    """
    far = compare("ge", x, 8.0)
    # from 3/4 below to 1/4 above 2: just below 3/2 the logarithm would cancel what remains
    whole = unary("round_even", add(x, 0.25))
    below = sub(x, whole, strict=True)
    product = number(1.0, x)
    for step in range(1, 7):
        factor = select(compare("ge", whole, 2.0 + step), sub(x, float(step)), number(1.0, x))
        product = mul(product, factor)
    to_two = select(compare("lt", whole, 1.0), mul(x, add(x, 1.0)), x)
    down = compare("lt", whole, 2.0)
    product = select(down, to_two, product)
    # the logarithm of zero or infinity is left out, and taken from x below
    inside = bit_and(compare("gt", x, 0.0), compare("lt", x, INFINITY))
    high, low = log_pair(select(inside, select(far, x, product), number(1.0, x)))
    polynomial_part = mul(below, horner(below, tables.LGAMMA64))
    sign = select(down, number(-1.0, x), number(1.0, x))
    near = fma(sign, high, fma(sign, low, polynomial_part))
    inverse = div(number(1.0, x), x)
    series = mul(inverse, polynomial(mul(inverse, inverse), _STIRLING))
    # (x - 1/2) (log x - 1), without cancellation
    factor = sub(x, 0.5)
    rest = add(series, _HALF_LOG_TWO_PI - 0.5)
    large, error = exact_product(factor, sub(high, 1.0, strict=True))
    stirling = add(large, add(error, fma(factor, low, rest)), strict=True)
    stirling = select(compare("eq", large, INFINITY), large, stirling)
    value = select(far, stirling, near)
    return select(inside, value, select(is_nan(x), x, number(INFINITY, x)))


def _lgamma_32(x: Expr) -> Expr:
    """Stirling's series in f64 after a shift by eight."""
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
    sine = absolute(sin_of_quadrant(mul(fraction, pi)))
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
    reflected = sub(value, div(number(pi, x), tan_of_quadrant(mul(fraction, pi))))
    value = select(reflect, reflected, value)
    pole = bit_and(reflect, compare("eq", fraction, 0.0))
    return select(pole, number(NAN, x), value)
