"""Building blocks of the elementary functions: polynomials, powers of two, exact sums and products.

Everything is written in kernel expressions, so one text serves scalars and vectors. `strict`
operations must round as written: they are never fused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tetrax.ir.kernel_constants import const, const_from_bits
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_operations import (
    absolute,
    add,
    bit_and,
    bit_or,
    bitcast,
    compare,
    convert,
    fma,
    mul,
    neg,
    select,
    shl,
    shr_arithmetic,
    shr_logical,
    sub,
)
from tetrax.ir.kernel_types import F32, F64, I32, I64, ScalarType

INFINITY = float("inf")
NAN = float("nan")


def number(value: float, like: Expr) -> Expr:
    """A constant of an expression's type."""
    return const(value, like.type)


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """A polynomial, lowest power first: Horner's scheme for f32, pairs (Estrin's) for f64."""
    if len(coefficients) > 4:
        return _estrin(x, [number(c, x) for c in coefficients])
    return horner(x, coefficients)


def horner(x: Expr, coefficients: Sequence[float]) -> Expr:
    """A polynomial by Horner's scheme: slower than pairs, and more precise where |x| exceeds 1."""
    total = number(coefficients[-1], x)
    for coefficient in reversed(coefficients[:-1]):
        total = fma(total, x, number(coefficient, x))
    return total


def _estrin(x: Expr, terms: list[Expr]) -> Expr:
    while len(terms) > 1:
        paired = [fma(terms[i + 1], x, terms[i]) for i in range(0, len(terms) - 1, 2)]
        terms = paired + terms[len(paired) * 2 :]
        x = mul(x, x)
    return terms[0]


def nearest_integer(x: Expr, scale: float, bias: int = 0) -> tuple[Expr, Expr]:
    """(k, bits): the integer nearest to `x * scale` as a float, and an integer whose low ten
    (twelve) bits are those of `k + bias`; what stands above them is to be shifted or masked away.

    Adding 1.5 * 2^mantissa rounds and leaves the integer in the low bits; right for |x * scale|
    below 2^21 (2^50).
    """
    magic = number(1.5 * 2.0 ** (23 if x.type is F32 else 52) + bias, x)
    shifted = fma(x, number(scale, x), magic)
    return sub(shifted, magic, strict=True), bitcast(shifted, I32 if x.type is F32 else I64)


BIAS = {F32: 127, F64: 1023}
"""What the exponent field of 1 holds."""
_MANTISSA_BITS = {F32: 23, F64: 52}


def power_of_two(bits: Expr, type: ScalarType) -> Expr:
    """2^k for `bits` of `k + BIAS`, k in the range of normal exponents."""
    return bitcast(shl(bits, _MANTISSA_BITS[type]), type)


def powers_of_two(bits: Expr, type: ScalarType) -> tuple[Expr, Expr]:
    """Two factors of 2^k for `bits` of `k + 2 * BIAS`, which may leave the range of exponents."""
    half = shr_logical(bits, 1)
    return power_of_two(half, type), power_of_two(sub(bits, half), type)


def scale(x: Expr, bits: Expr) -> Expr:
    """`x * 2^k` rounded once, for x near 1, `bits` of `k + 2 * BIAS`, and any k that gives 0, a
    denormal, a number or infinity.
    """
    first, second = powers_of_two(bits, x.type)
    return mul(mul(x, first, strict=True), second, strict=True)


def reciprocal_of_power(x: Expr) -> Expr:
    """1 / x for a power of two."""
    integer = I32 if x.type is F32 else I64
    whole = const(2 * BIAS[x.type] << _MANTISSA_BITS[x.type], integer)
    return bitcast(sub(whole, bitcast(x, integer)), x.type)


def at_most(x: Expr, limit: float) -> Expr:
    """The smaller of x and a limit; NaN stays."""
    # in this order it is one machine instruction
    return select(compare("lt", number(limit, x), x), number(limit, x), x)


def at_least(x: Expr, limit: float) -> Expr:
    """The larger of x and a limit; NaN stays."""
    return select(compare("gt", number(limit, x), x), number(limit, x), x)


def split_exponent(x: Expr) -> tuple[Expr, Expr]:
    """(m, e) with `x = m * 2^e` and sqrt(1/2) <= m < sqrt(2), e as a float; for positive finite
    x.
    """
    if x.type is F32:
        return _split_exponent_32(x)
    small = compare("lt", x, number(2.0**-1022, x))
    x = select(small, mul(x, number(2.0**54, x)), x)
    lowest = const_from_bits(0x3FE6A09E667F3BCD, F64)  # sqrt(1/2)
    moved = add(bitcast(x, I64), sub(bitcast(const(1.0, F64), I64), bitcast(lowest, I64)))
    mantissa = add(bit_and(moved, (1 << 52) - 1), bitcast(lowest, I64))
    # the exponent as a float without an i64 conversion: put it into the bits of 2^52
    biased = bit_or(shr_logical(moved, 52), bitcast(const(2.0**52, F64), I64))
    offset = select(small, number(2.0**52 + 1023 + 54, x), number(2.0**52 + 1023, x))
    return bitcast(mantissa, F64), sub(bitcast(biased, F64), offset, strict=True)


def _split_exponent_32(x: Expr) -> tuple[Expr, Expr]:
    small = compare("lt", x, number(2.0**-126, x))
    x = select(small, mul(x, number(2.0**25, x)), x)
    lowest = const_from_bits(0x3F3504F3, F32)
    moved = add(bitcast(x, I32), sub(bitcast(const(1.0, F32), I32), bitcast(lowest, I32)))
    mantissa = add(bit_and(moved, (1 << 23) - 1), bitcast(lowest, I32))
    exponent = sub(shr_arithmetic(moved, 23), select(small, const(127 + 25, I32), const(127, I32)))
    return bitcast(mantissa, F32), convert(exponent, F32)


def copy_sign(magnitude: Expr, sign: Expr) -> Expr:
    """The magnitude with another value's sign."""
    integer = I32 if sign.type is F32 else I64
    top = integer.minimum
    bits = bit_and(bitcast(magnitude, integer), integer.maximum)
    return bitcast(bit_or(bits, bit_and(bitcast(sign, integer), top)), sign.type)


def with_sign(magnitude: Expr, sign: Expr) -> Expr:
    """A magnitude that is not negative with another value's sign."""
    integer = I32 if sign.type is F32 else I64
    top = bit_and(bitcast(sign, integer), integer.minimum)
    return bitcast(bit_or(bitcast(magnitude, integer), top), sign.type)


def is_nan(x: Expr) -> Expr:
    """Whether a value is NaN."""
    return compare("ne", x, x)


def through_f64(function: Callable[..., Expr]) -> Callable[..., Expr]:
    """A function that computes f32 results in f64, where that is precise enough to round once."""

    def apply(*args: Expr) -> Expr:
        if args[0].type is F64:
            return function(*args)
        return convert(function(*(convert(arg, F64) for arg in args)), F32)

    return apply


# --- pairs (high, low) whose sum is a value to about twice the precision ---

Pair = tuple[Expr, Expr]


def exact_product(a: Expr, b: Expr) -> Pair:
    """`a * b` as a pair, without error."""
    high = mul(a, b, strict=True)
    return high, fma(a, b, neg(high))


def quick_sum(a: Expr, b: Expr) -> Pair:
    """`a + b` as a pair, without error, for |a| >= |b|."""
    high = add(a, b, strict=True)
    return high, sub(b, sub(high, a, strict=True), strict=True)


def exact_sum(a: Expr, b: Expr) -> Pair:
    """`a + b` as a pair, without error."""
    high = add(a, b, strict=True)
    other = sub(high, a, strict=True)
    own = sub(high, other, strict=True)
    return high, add(sub(a, own, strict=True), sub(b, other, strict=True), strict=True)


__all__ = [
    "BIAS",
    "INFINITY",
    "NAN",
    "Pair",
    "absolute",
    "at_least",
    "at_most",
    "copy_sign",
    "exact_product",
    "exact_sum",
    "horner",
    "is_nan",
    "nearest_integer",
    "number",
    "polynomial",
    "power_of_two",
    "powers_of_two",
    "quick_sum",
    "reciprocal_of_power",
    "scale",
    "split_exponent",
    "through_f64",
    "with_sign",
]
