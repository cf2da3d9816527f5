"""pow: exp(y log x) with the logarithm to twice the precision, and C's table of special cases."""

from __future__ import annotations

from tetrax.compiler.cpu import vector_math_tables as tables
from tetrax.compiler.cpu.vector_math_base import (
    INFINITY,
    NAN,
    Pair,
    at_least,
    at_most,
    copy_sign,
    exact_product,
    exact_sum,
    is_nan,
    number,
    polynomial,
    quick_sum,
    split_exponent,
)
from tetrax.compiler.cpu.vector_math_exponential import LN2_SHORT, exp, exp_limited, log
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
    logical_not,
    mul,
    neg,
    select,
    sub,
    unary,
)
from tetrax.ir.kernel_types import F32, F64

_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)


def log_pair(x: Expr) -> Pair:
    """log(x) as a pair, to about 2^-65 relative, for positive finite f64 x."""
    m, e = split_exponent(x)
    f = sub(m, 1.0, strict=True)
    d, d_low = quick_sum(number(2.0, x), f)
    s = div(f, d)
    remainder = sub(fma(neg(s), d, f), mul(s, d_low), strict=True)
    s_low = div(remainder, d)
    z, z_low = exact_product(s, s)
    z_low = fma(add(s, s), s_low, z_low)
    # log m = 2 s + s q,  q = z (2/3 + z rest(z))
    high, low = _TWO_THIRDS
    q, q_low = exact_product(z, number(high, x))
    q_low = fma(z, number(low, x), fma(z_low, number(high, x), q_low))
    q, carry = quick_sum(q, mul(mul(z, z), polynomial(z, tables.POWLOG64)))
    q_low = add(q_low, carry, strict=True)
    p, p_low = exact_product(s, q)
    p_low = fma(s, q_low, fma(s_low, q, p_low))
    total, carry = quick_sum(add(s, s), p)
    low_part = add(add(carry, p_low, strict=True), add(s_low, s_low), strict=True)
    ln2, ln2_low = LN2_SHORT[F64]  # e times the short part is exact
    whole, carry = exact_sum(mul(e, number(ln2, x), strict=True), total)
    low_part = add(fma(e, number(ln2_low, x), low_part), carry, strict=True)
    return quick_sum(whole, low_part)


def _power_of_positive(x: Expr, y: Expr) -> Expr:
    """x^y for positive finite f64 x."""
    high, low = log_pair(x)
    product, error = exact_product(y, high)
    error = fma(y, low, error)
    # beyond the range of results the error of a product is meaningless, and may be NaN
    inside = compare("le", absolute(product), 746.0)
    error = select(inside, error, number(0.0, x))
    return exp_limited(at_least(at_most(product, 710.0), -746.0), error)


def power(x: Expr, y: Expr) -> Expr:
    """x^y with C's special cases."""
    size = absolute(x)
    if x.type is F32:
        wide = mul(convert(y, F64), log(convert(size, F64)))
        magnitude = convert(exp(wide), F32)
    else:
        magnitude = _power_of_positive(size, y)
    one, zero, infinity = number(1.0, x), number(0.0, x), number(INFINITY, x)
    rising = compare("gt", y, 0.0)
    at_zero = select(rising, zero, infinity)
    at_infinity = select(rising, infinity, zero)
    magnitude = select(compare("eq", size, 0.0), at_zero, magnitude)
    magnitude = select(compare("eq", size, INFINITY), at_infinity, magnitude)
    endless = compare("eq", absolute(y), INFINITY)
    grows = compare("eq", compare("gt", size, 1.0), rising)
    magnitude = select(endless, select(grows, infinity, zero), magnitude)
    magnitude = select(compare("eq", size, 1.0), one, magnitude)
    whole = compare("eq", unary("trunc", y), y)
    half = mul(y, 0.5)
    odd = bit_and(whole, compare("ne", unary("trunc", half), half))
    value = select(odd, copy_sign(magnitude, x), magnitude)
    undefined = bit_and(
        compare("lt", x, 0.0), bit_and(compare("gt", size, 0.0), logical_not(whole))
    )
    undefined = bit_and(undefined, compare("lt", size, INFINITY))
    value = select(undefined, number(NAN, x), value)
    value = select(bit_or(is_nan(x), is_nan(y)), add(x, y), value)
    return select(bit_or(compare("eq", y, 0.0), compare("eq", x, 1.0)), one, value)
