"""sin, cos, tan and their inverses.

Arguments are reduced by multiples of pi/2 kept in three parts. Beyond LIMIT that loses precision,
so those rare lanes call a routine for one number, which reduces any argument.
"""

from __future__ import annotations

from math import pi

from tetrax.compiler.cpu import vector_math_tables as tables
from tetrax.compiler.cpu.vector_math_base import (
    INFINITY,
    Pair,
    copy_sign,
    is_nan,
    nearest_integer,
    number,
    polynomial,
    quick_sum,
)
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_operations import (
    absolute,
    add,
    bit_and,
    bit_or,
    bit_xor,
    bitcast,
    compare,
    convert,
    div,
    external,
    fma,
    logical_not,
    mul,
    neg,
    select,
    shl,
    sub,
    unary,
    unlikely,
)
from tetrax.ir.kernel_types import F32, F64, I32, I64

HALF_PI = {
    F32: (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    F64: (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
}
LIMIT = {F32: 40000.0, F64: 1.0e6}
_SIN = {F32: tables.SIN32, F64: tables.SIN64}
_COS = {F32: tables.COS32, F64: tables.COS64}
_ATAN = {F32: tables.ATAN32, F64: tables.ATAN64}


def _angle(x: Expr) -> tuple[Expr, Expr, Expr]:
    """(high, low, quadrant) with `x = high + low + quadrant * pi/2`."""
    k, quadrant = nearest_integer(x, 2.0 / pi)  # of the quadrant only two bits are used
    first, second, third = (number(-part, x) for part in HALF_PI[x.type])
    r = fma(k, first, x)  # exact: the leading bits cancel
    high = fma(k, second, r)
    low = fma(k, third, fma(k, second, sub(r, high, strict=True)))
    return high, low, quadrant


def _reduced(x: Expr) -> tuple[Expr, Expr, Expr]:
    """(sin r, cos r, quadrant) with `x = r + quadrant * pi/2`."""
    if x.type is F64:
        (sine, _), (cosine, _), quadrant = _reduced_pairs(x)
        return sine, cosine, quadrant
    k, quadrant = nearest_integer(x, 2.0 / pi)
    r = x
    for part in HALF_PI[F32]:
        r = fma(k, number(-part, x), r)
    z = mul(r, r)
    sine = fma(mul(r, z), polynomial(z, _SIN[F32]), r)
    cosine = fma(mul(z, z), polynomial(z, _COS[F32]), fma(z, number(-0.5, x), number(1.0, x)))
    return sine, cosine, quadrant


def _reduced_pairs(x: Expr) -> tuple[Pair, Pair, Expr]:
    """(sin r, cos r, quadrant) of f64, the values with their last rounding errors."""
    high, low, quadrant = _angle(x)
    z = mul(high, high)
    half = mul(z, 0.5)
    tail = fma(mul(high, z), polynomial(z, _SIN[F64]), mul(low, sub(1.0, half)))
    near = sub(1.0, half, strict=True)
    dropped = sub(sub(1.0, near, strict=True), half, strict=True)
    rest = fma(mul(z, z), polynomial(z, _COS[F64]), neg(mul(high, low)))
    return quick_sum(high, tail), quick_sum(near, add(dropped, rest, strict=True)), quadrant


def _odd(quadrant: Expr) -> Expr:
    return compare("ne", bit_and(quadrant, 1), 0)


def _with_sign(value: Expr, quadrant: Expr) -> Expr:
    """Negated in quadrants 2 and 3."""
    integer, shift = (I32, 30) if value.type is F32 else (I64, 62)
    sign = shl(bit_and(quadrant, 2), shift)
    return bitcast(bit_xor(bitcast(value, integer), sign), value.type)


def _or_far(symbol: str, x: Expr, usual: Expr) -> Expr:
    far = logical_not(compare("le", absolute(x), LIMIT[x.type]))
    return unlikely(far, convert(external(symbol, F64, convert(x, F64)), x.type), usual)


def sin(x: Expr) -> Expr:
    """Sine."""
    sine, cosine, quadrant = _reduced(x)
    value = _with_sign(select(_odd(quadrant), cosine, sine), quadrant)
    value = select(compare("eq", x, 0.0), x, value)
    return _or_far("tetrax_sin_far", x, value)


def cos(x: Expr) -> Expr:
    """Cosine."""
    sine, cosine, quadrant = _reduced(x)
    value = _with_sign(select(_odd(quadrant), sine, cosine), add(quadrant, 1))
    return _or_far("tetrax_cos_far", x, value)


def tan(x: Expr) -> Expr:
    """Tangent, as a quotient of sine and cosine."""
    if x.type is F32:
        sine, cosine, quadrant = _reduced(convert(x, F64))
        odd = _odd(quadrant)
        quotient = div(select(odd, cosine, sine), select(odd, neg(sine), cosine))
        value = convert(quotient, F32)
    else:
        value = _tan_of_pairs(*_reduced_pairs(x))
    value = select(compare("eq", x, 0.0), x, value)
    return _or_far("tetrax_tan_far", x, value)


def _tan_of_pairs(sine: Pair, cosine: Pair, quadrant: Expr) -> Expr:
    """The quotient, and what the roundings of numerator, denominator and quotient dropped."""
    odd = _odd(quadrant)
    top, top_low = (select(odd, c, s) for s, c in zip(sine, cosine, strict=True))
    bottom, bottom_low = (select(odd, neg(s), c) for s, c in zip(sine, cosine, strict=True))
    quotient = div(top, bottom)
    minus = neg(quotient)
    error = add(fma(minus, bottom_low, fma(minus, bottom, top)), top_low, strict=True)
    return add(quotient, div(error, bottom), strict=True)


def sin_of_quadrant(x: Expr) -> Expr:
    """Sine for |x| up to about pi/2."""
    sine, cosine, quadrant = _reduced(x)
    return _with_sign(select(_odd(quadrant), cosine, sine), quadrant)


def tan_of_quadrant(x: Expr) -> Expr:
    """Tangent of f64 for |x| up to about pi/2."""
    return _tan_of_pairs(*_reduced_pairs(x))


def _asin_parts(x: Expr) -> tuple[Expr, Expr]:
    """(|x| <= 1/2, asin of |x| or of sqrt((1 - |x|) / 2))."""
    size = absolute(x)
    small = compare("le", size, 0.5)
    z = select(small, mul(x, x), mul(sub(1.0, size), 0.5))
    root = select(small, size, unary("sqrt", z))
    return small, fma(mul(root, z), polynomial(z, tables.ASIN64), root)


def asin(x: Expr) -> Expr:
    """Inverse sine (f64); NaN outside [-1, 1]."""
    small, value = _asin_parts(x)
    high, low, _ = HALF_PI[F64]
    other = sub(number(high, x), sub(add(value, value), number(low, x), strict=True), strict=True)
    return copy_sign(select(small, value, other), x)


def acos(x: Expr) -> Expr:
    """Inverse cosine (f64); NaN outside [-1, 1]."""
    small, value = _asin_parts(x)
    high, low, _ = HALF_PI[F64]
    signed = copy_sign(value, x)
    middle = sub(number(high, x), sub(signed, number(low, x), strict=True), strict=True)
    double = add(value, value)
    left = sub(number(2 * high, x), sub(double, number(2 * low, x), strict=True), strict=True)
    return select(small, middle, select(compare("lt", x, 0.0), left, double))


def _atan_of_quotient(top: Expr, bottom: Expr) -> Expr:
    """atan(top / bottom) for 0 <= top, 0 < bottom, in one division."""
    middle = compare("gt", top, mul(bottom, 0.4142135623730951))
    far = compare("gt", mul(top, 0.4142135623730951), bottom)
    a = select(far, neg(bottom), select(middle, sub(top, bottom), top))
    b = select(far, top, select(middle, add(top, bottom), bottom))
    y = div(a, b)
    z = mul(y, y)
    high, low, _ = HALF_PI[top.type]
    zero = number(0.0, top)
    base = select(far, number(high, top), select(middle, number(high / 2, top), zero))
    rest = select(far, number(low, top), select(middle, number(low / 2, top), zero))
    tail = fma(mul(y, z), polynomial(z, _ATAN[top.type]), rest)
    return add(base, add(y, tail, strict=True), strict=True)


def atan(x: Expr) -> Expr:
    """Inverse tangent."""
    return copy_sign(_atan_of_quotient(absolute(x), number(1.0, x)), x)


def atan2(y: Expr, x: Expr) -> Expr:
    """Angle of the point (x, y), with the signs of zeros and infinities as C has them."""
    integer = I32 if x.type is F32 else I64
    top, bottom = absolute(y), absolute(x)
    swap = compare("gt", top, bottom)
    small, large = select(swap, bottom, top), select(swap, top, bottom)
    # both zero or both infinite: their quotient stands for 0 and 1
    small = select(compare("eq", small, INFINITY), number(1.0, x), small)
    endless = compare("eq", large, INFINITY)
    large = select(
        endless, select(compare("eq", small, 1.0), _one_if_both(top, bottom, x), large), large
    )
    large = select(compare("eq", large, 0.0), number(1.0, x), large)
    huge = compare("gt", large, 2.0 ** (100 if x.type is F32 else 1000))
    factor = select(huge, number(2.0**-10, x), number(1.0, x))
    angle = _atan_of_quotient(mul(small, factor), mul(large, factor))
    negative = compare("lt", bitcast(x, integer), 0)
    high, low, _ = HALF_PI[x.type]
    zero = number(0.0, x)
    flip = select(swap, logical_not(negative), negative)
    base = select(swap, number(high, x), select(negative, number(2 * high, x), zero))
    rest = select(swap, number(low, x), select(negative, number(2 * low, x), zero))
    value = add(base, add(select(flip, neg(angle), angle), rest, strict=True), strict=True)
    broken = bit_or(is_nan(x), is_nan(y))
    return select(broken, add(x, y), copy_sign(value, y))


def _one_if_both(top: Expr, bottom: Expr, x: Expr) -> Expr:
    """1 where both sides are infinite, infinity where only the larger is."""
    return select(compare("eq", top, bottom), number(1.0, x), number(INFINITY, x))
