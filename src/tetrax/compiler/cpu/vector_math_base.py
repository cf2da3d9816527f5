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
    if x.type is F64 and len(coefficients) > 4:
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


def nearest_integer(x: Expr, scale: float) -> tuple[Expr, Expr]:
    """(k, bits): the integer nearest to `x * scale` as a float, and as a signed integer.

    Adding 1.5 * 2^mantissa rounds and leaves the integer in the low bits; right for |x * scale|
    below 2^21 (2^50).
    """
    magic = number(1.5 * 2.0 ** (23 if x.type is F32 else 52), x)
    integer = I32 if x.type is F32 else I64
    shifted = fma(x, number(scale, x), magic)
    return sub(shifted, magic, strict=True), sub(bitcast(shifted, integer), bitcast(magic, integer))


def power_of_two(k: Expr, type: ScalarType) -> Expr:
    """2^k of an integer in the range of normal exponents."""
    bias, shift = (127, 23) if type is F32 else (1023, 52)
    return bitcast(shl(add(k, bias), shift), type)


def scale(x: Expr, k: Expr) -> Expr:
    """`x * 2^k` rounded once, for x near 1 and any k that gives 0, a denormal, a number or
    infinity.
    """
    if x.type is F32:
        half = shr_arithmetic(k, 1)
        first = mul(x, power_of_two(half, F32), strict=True)
        return mul(first, power_of_two(sub(k, half), F32), strict=True)
    # no 64-bit arithmetic shift in AVX2: move the exponent away from the ends of the range instead
    low = compare("lt", k, -1000)
    moved = power_of_two(add(k, select(low, const(100, I64), const(-2, I64))), F64)
    back = select(low, const(2.0**-100, F64), const(4.0, F64))
    return mul(mul(x, moved, strict=True), back, strict=True)


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
    "INFINITY",
    "NAN",
    "Pair",
    "absolute",
    "copy_sign",
    "exact_product",
    "exact_sum",
    "horner",
    "is_nan",
    "nearest_integer",
    "number",
    "polynomial",
    "power_of_two",
    "quick_sum",
    "scale",
    "split_exponent",
    "through_f64",
]
