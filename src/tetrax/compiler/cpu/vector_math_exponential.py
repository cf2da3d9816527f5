"""exp, log and their relatives, hyperbolic functions, cube root and reciprocal root."""

from __future__ import annotations

from tetrax.compiler.cpu import vector_math_tables as tables
from tetrax.compiler.cpu.vector_math_base import (
    BIAS,
    INFINITY,
    NAN,
    at_least,
    at_most,
    copy_sign,
    horner,
    nearest_integer,
    number,
    polynomial,
    power_of_two,
    powers_of_two,
    reciprocal_of_power,
    scale,
    split_exponent,
    with_sign,
)
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_operations import (
    absolute,
    add,
    compare,
    div,
    fma,
    mul,
    neg,
    select,
    sub,
    unary,
)
from tetrax.ir.kernel_types import F32, F64

LOG2_E = 1.4426950408889634
LN2 = {
    F32: (0.6931471824645996, -1.904654323148236e-09),
    F64: (0.6931471805599453, 2.3190468138462996e-17),
}
"""ln 2 as a float of each type, and what is missing."""
# with this many trailing zeros, k times the high part is exact for every exponent k
LN2_SHORT = {F32: (0.693359375, -2.12194440e-4), F64: (0.6931471803691238, 1.9082149292705877e-10)}
_EXP = {F32: tables.EXP32, F64: tables.EXP64}
_LOWEST = {F32: -104.0, F64: -745.2}
"""Where e^x is below half of the smallest denormal."""
_HIGHEST = {F32: 89.0, F64: 709.8}
"""Where e^x is above the largest number."""


def exp_reduced(x: Expr, low: Expr | None = None, bias: int = 0) -> tuple[Expr, Expr]:
    """(expm1(r), bits of `k + bias`) with `x + low = r + k ln 2` and |r| <= ln(2)/2."""
    k, bits = nearest_integer(x, LOG2_E, bias)
    high, rest = LN2[x.type]
    r = fma(k, number(-high, x), x)
    r = fma(k, number(-rest, x), r)
    if low is not None:
        r = add(r, low)
    return fma(mul(r, r), polynomial(r, _EXP[x.type]), r), bits


def _expm1_reduced_closely(x: Expr, bias: int) -> tuple[Expr, Expr]:
    """The same as `exp_reduced`, but expm1(r) is free of the rounding error of r."""
    k, bits = nearest_integer(x, LOG2_E, bias)
    high, rest = LN2[x.type]
    first = fma(k, number(-high, x), x)  # exact: the leading bits cancel
    second = mul(k, number(-rest, x), strict=True)
    r = add(first, second, strict=True)
    tail = fma(mul(r, r), horner(r, _EXP[x.type]), second)
    return add(first, tail, strict=True), bits


def exp_limited(x: Expr, low: Expr | None = None) -> Expr:
    """e^(x + low) for arguments that are at most a little outside the range of results."""
    p, bits = exp_reduced(x, low, 2 * BIAS[x.type])
    return scale(add(p, 1.0, strict=True), bits)


def exp(x: Expr) -> Expr:
    """e^x: e^r by a polynomial, times 2^k."""
    return exp_limited(at_least(at_most(x, _HIGHEST[x.type]), _LOWEST[x.type]))


def exp2(x: Expr) -> Expr:
    """2^x."""
    top, bottom = (129.0, -151.0) if x.type is F32 else (1025.0, -1076.0)
    x = at_least(at_most(x, top), bottom)
    k, bits = nearest_integer(x, 1.0, 2 * BIAS[x.type])
    fraction = sub(x, k, strict=True)
    high, rest = LN2[x.type]
    r = fma(fraction, number(rest, x), mul(fraction, number(high, x), strict=True))
    p = fma(mul(r, r), polynomial(r, _EXP[x.type]), r)
    return scale(add(p, 1.0, strict=True), bits)


def expm1(x: Expr) -> Expr:
    """e^x - 1 without cancellation: with 2^k = a b it is `a (b expm1(r) + (b - 1/a))`."""
    bounded = at_least(at_most(x, _HIGHEST[x.type]), -20.0 if x.type is F32 else -40.0)
    p, bits = exp_reduced(bounded, bias=2 * BIAS[x.type])
    a, b = powers_of_two(bits, x.type)
    difference = sub(b, reciprocal_of_power(a), strict=True)
    return copy_sign(mul(a, fma(b, p, difference)), x)


def _log_parts(m: Expr, e: Expr, correction: Expr | None) -> Expr:
    """log(m * 2^e), plus a correction that is small beside it."""
    f = sub(m, 1.0, strict=True)
    high, rest = LN2_SHORT[m.type]
    half_square = mul(mul(f, f), 0.5)
    if m.type is F32:
        tail = mul(mul(f, mul(f, f)), polynomial(f, tables.LOG32))
    else:
        s = div(f, add(f, 2.0))
        z = mul(s, s)
        tail = mul(s, add(half_square, mul(z, polynomial(z, tables.LOG64))))
    low = fma(e, number(rest, m), tail)
    if correction is not None:
        low = add(low, correction, strict=True)
    inner = sub(half_square, low, strict=True)
    return fma(e, number(high, m), sub(f, inner, strict=True))


def _log_domain(x: Expr, value: Expr) -> Expr:
    value = select(compare("eq", x, INFINITY), x, value)
    outside = select(compare("eq", x, 0.0), number(-INFINITY, x), number(NAN, x))
    return select(compare("gt", x, 0.0), value, outside)


def log(x: Expr) -> Expr:
    """Natural logarithm: exponent times ln 2 plus a polynomial of the mantissa."""
    m, e = split_exponent(x)
    return _log_domain(x, _log_parts(m, e, None))


def log1p(x: Expr) -> Expr:
    """log(1 + x): the rounding error of the sum is put back as a correction."""
    total = add(x, 1.0, strict=True)
    # whichever of x and 1 is larger, this is what rounding dropped
    large = compare("gt", absolute(x), 1.0)
    first, second = select(large, x, number(1.0, x)), select(large, number(1.0, x), x)
    lost = sub(second, sub(total, first, strict=True), strict=True)
    m, e = split_exponent(total)
    value = _log_domain(total, _log_parts(m, e, div(lost, total)))
    return copy_sign(select(compare("eq", x, total), _log_domain(x, value), value), x)


_SHIFT = {F32: 24, F64: 60}


def logistic(x: Expr) -> Expr:
    """1 / (1 + e^-x), numerator and denominator by 2^-24 (2^-60) smaller so that nothing
    overflows before the result is zero.
    """
    shift = _SHIFT[x.type]
    y = at_least(at_most(neg(x), -_LOWEST[x.type]), -60.0)
    p, bits = exp_reduced(y, bias=BIAS[x.type] - shift)
    power = power_of_two(bits, x.type)
    top = number(2.0**-shift, x)
    high = add(power, top, strict=True)
    low = sub(top, sub(high, power, strict=True), strict=True)  # what the sum dropped
    return div(top, add(high, fma(power, p, low), strict=True))


def tanh(x: Expr) -> Expr:
    """Hyperbolic tangent: (1 - e) / (1 + e) with e = exp(-2|x|)."""
    y = at_least(mul(absolute(x), -2.0), -20.0 if x.type is F32 else -44.0)
    reduced = exp_reduced if x.type is F32 else _expm1_reduced_closely
    p, bits = reduced(y, bias=BIAS[x.type])
    power = power_of_two(bits, x.type)
    top = fma(neg(power), p, sub(1.0, power, strict=True))
    bottom = fma(power, p, add(power, 1.0, strict=True))
    return with_sign(div(top, bottom), x)


def _half_exp(size: Expr) -> Expr:
    """e^size / 2 for size >= 0, infinite only where that is."""
    p, bits = exp_reduced(at_most(size, 710.5), bias=2 * BIAS[size.type] - 1)
    return scale(add(p, 1.0, strict=True), bits)


def sinh(x: Expr) -> Expr:
    """Hyperbolic sine (f64)."""
    size = absolute(x)
    z = mul(x, x)
    small = fma(mul(size, z), polynomial(z, tables.SINH64), size)
    half = _half_exp(size)
    large = sub(half, div(number(0.25, x), half))
    return copy_sign(select(compare("lt", size, 1.0), small, large), x)


def cosh(x: Expr) -> Expr:
    """Hyperbolic cosine (f64)."""
    half = _half_exp(absolute(x))
    return add(half, div(number(0.25, x), half))


def _log1p_or_log_of_double(argument: Expr, x: Expr, big: Expr) -> Expr:
    """log1p(argument), or log(2x) where x is so big that 1 does not count."""
    value = log1p(select(big, x, argument))
    return add(value, select(big, number(LN2[F64][0], x), number(0.0, x)))


def asinh(x: Expr) -> Expr:
    """Inverse hyperbolic sine (f64)."""
    size = absolute(x)
    square = mul(size, size)
    root = unary("sqrt", add(square, 1.0))
    argument = add(size, div(square, add(root, 1.0)))
    value = _log1p_or_log_of_double(argument, size, compare("gt", size, 2.0**500))
    return copy_sign(value, x)


def acosh(x: Expr) -> Expr:
    """Inverse hyperbolic cosine (f64); NaN below 1."""
    t = sub(x, 1.0)
    argument = add(t, unary("sqrt", fma(t, t, add(t, t))))
    value = _log1p_or_log_of_double(argument, x, compare("gt", x, 2.0**500))
    return select(compare("lt", x, 1.0), number(NAN, x), value)


def atanh(x: Expr) -> Expr:
    """Inverse hyperbolic tangent (f64)."""
    size = absolute(x)
    return copy_sign(mul(log1p(div(add(size, size), sub(1.0, size))), 0.5), x)


def cbrt(x: Expr) -> Expr:
    """Cube root (f64): a first value by exp and log, one step of Newton's method."""
    size = absolute(x)
    y = exp(mul(log(size), number(1.0 / 3.0, x)))
    error = sub(y, div(size, mul(y, y)))
    better = fma(error, number(-1.0 / 3.0, x), y)
    plain = compare("eq", mul(size, 0.0), size)  # zero; infinity and NaN compare unequal
    finite = compare("lt", size, INFINITY)
    value = select(plain, size, select(finite, better, size))
    return copy_sign(value, x)


def rsqrt(x: Expr) -> Expr:
    """1 / sqrt(x)."""
    return div(number(1.0, x), unary("sqrt", x))
