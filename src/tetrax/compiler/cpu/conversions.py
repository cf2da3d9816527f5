"""Narrow floats (f16, bf16, the f8 family, f4) as integer arithmetic on their bits.

Reading one is exact. Writing one rounds to nearest even exactly once, whatever is written: values
from f64 and from wide integers pass through f32 rounded to odd, which a second rounding cannot
spoil. Overflow and NaN are those of ml_dtypes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tetrax.ir.kernel_constants import const, const_from_bits
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
    mul,
    select,
    shl,
    shr_logical,
    sub,
)
from tetrax.ir.kernel_types import (
    BF16,
    F4E2M1FN,
    F8E3M4,
    F8E4M3,
    F8E4M3B11FNUZ,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    F16,
    F32,
    F64,
    U32,
    U64,
    ScalarType,
    unsigned_of,
)


@dataclass(frozen=True)
class Format:
    """A narrow floating-point format.

    `specials` is 'ieee' (infinities and NaNs at the top exponent), 'fn' (no infinity; all ones is
    NaN), 'fnuz' (no infinity, no negative zero; the sign bit alone is NaN) or 'finite' (neither;
    overflow saturates).
    """

    exponent: int
    mantissa: int
    bias: int
    specials: str

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.mantissa)

    @property
    def largest(self) -> int:
        """Bits of the largest finite value."""
        top = self.sign - 1
        if self.specials == "ieee":
            return (((1 << self.exponent) - 1) << self.mantissa) - 1
        return top - 1 if self.specials == "fn" else top

    @property
    def overflow(self) -> int:
        """Bits that a value too large becomes: infinity, NaN, or the largest."""
        if self.specials == "ieee":
            return ((1 << self.exponent) - 1) << self.mantissa
        return {"fn": self.sign - 1, "fnuz": self.sign, "finite": self.largest}[self.specials]

    @property
    def nan(self) -> int:
        """Bits of NaN, without sign."""
        if self.specials == "ieee":
            return self.overflow | (1 << (self.mantissa - 1))
        return {"fn": self.sign - 1, "fnuz": self.sign, "finite": self.sign}[self.specials]


FORMATS: dict[ScalarType, Format] = {
    F16: Format(5, 10, 15, "ieee"),
    BF16: Format(8, 7, 127, "ieee"),
    F8E3M4: Format(3, 4, 3, "ieee"),
    F8E4M3: Format(4, 3, 7, "ieee"),
    F8E5M2: Format(5, 2, 15, "ieee"),
    F8E4M3FN: Format(4, 3, 7, "fn"),
    F8E4M3FNUZ: Format(4, 3, 8, "fnuz"),
    F8E4M3B11FNUZ: Format(4, 3, 11, "fnuz"),
    F8E5M2FNUZ: Format(5, 2, 16, "fnuz"),
    F4E2M1FN: Format(2, 1, 1, "finite"),
}


def expand_conversion(value: Expr, to: ScalarType, native_half: bool) -> Expr:
    """A conversion written out where it involves a narrow float."""
    source = value.type
    if source.is_storage:
        if native_half and source is F16:
            wide = convert(value, F32)
        else:
            wide = widen(value)
        return wide if to is F32 else expand_conversion(wide, to, native_half)
    if not to.is_storage:
        return convert(value, to)
    single = _to_f32_for_rounding(value)
    return convert(single, F16) if native_half and to is F16 else narrow(single, to)


# --- reading ---


def widen(value: Expr) -> Expr:
    """The f32 that a narrow float stands for."""
    if value.type is F8E8M0FNU:
        return _widen_exponent(value)
    form = FORMATS[value.type]
    bits = convert(bitcast(value, unsigned_of(value.type.bits)), U32)
    magnitude = bit_and(bits, form.sign - 1)
    sign = shl(bit_and(bits, form.sign), 31 - form.exponent - form.mantissa)
    shifted = shl(magnitude, 23 - form.mantissa)
    if form.bias == 127:
        return bitcast(bit_or(shifted, sign), F32)  # bf16: the upper half of an f32
    # the exponent is put right by a multiplication, which is exact and also makes denormals normal
    scaled = mul(bitcast(shifted, F32), const(2.0 ** (127 - form.bias), F32), strict=True)
    result = bitcast(bit_or(bitcast(scaled, U32), sign), F32)
    nan = const_from_bits(0x7FC00000, F32)
    if form.specials == "ieee":
        special = compare("ge", magnitude, form.overflow)
        return select(special, bitcast(bit_or(bit_or(shifted, 0x7F800000), sign), F32), result)
    if form.specials == "fn":
        signed_nan = bitcast(bit_or(sign, 0x7FC00000), F32)
        return select(compare("eq", magnitude, form.nan), signed_nan, result)
    if form.specials == "fnuz":
        return select(compare("eq", bits, form.nan), nan, result)
    return result


def _widen_exponent(value: Expr) -> Expr:
    """f8e8m0fnu holds an exponent and nothing else; its lowest one is an f32 denormal."""
    bits = convert(bitcast(value, unsigned_of(8)), U32)
    plain = bitcast(shl(bits, 23), F32)
    lowest = const_from_bits(1 << 22, F32)
    value = select(compare("eq", bits, 0), lowest, plain)
    return select(compare("eq", bits, 255), const_from_bits(0x7FC00000, F32), value)


# --- writing ---


def _to_f32_for_rounding(value: Expr) -> Expr:
    """An f32 that rounds to any narrow float as the value itself would."""
    source = value.type
    if source is F32:
        return value
    if source.is_bool or (source.is_integer and source.bits <= 16):
        return convert(value, F32)
    if source.is_integer:
        value = convert(value, F64) if source.bits == 32 else _wide_integer(value)
    return _round_to_odd(value)


def _wide_integer(value: Expr) -> Expr:
    """A 64-bit integer as f64: what does not fit into 53 bits is remembered in the lowest of
    them.
    """
    negative = compare("lt", value, 0)
    magnitude = bitcast(absolute(value), U64)
    dropped = compare("ne", bit_and(magnitude, 0x7FF), 0)
    kept = bit_or(bit_and(magnitude, ~0x7FF), select(dropped, const(0x800, U64), const(0, U64)))
    exact = select(compare("ge", magnitude, 1 << 53), kept, magnitude)
    size = convert(exact, F64)
    return select(negative, mul(size, -1.0), size)


def _round_to_odd(value: Expr) -> Expr:
    """An f64 as f32: if it does not fit, the neighbour whose last bit is set."""
    nearest = convert(value, F32)
    back = convert(nearest, F64)
    bits = bitcast(nearest, U32)
    inexact = compare("lt", absolute(back), absolute(value))
    too_far = compare("gt", absolute(back), absolute(value))
    even = compare("eq", bit_and(bits, 1), 0)
    up, down = add(bits, 1), sub(bits, 1)
    moved = select(inexact, up, select(too_far, down, bits))
    return bitcast(select(even, moved, bits), F32)


def narrow(value: Expr, to: ScalarType) -> Expr:
    """An f32 rounded to a narrow float."""
    if to is F8E8M0FNU:
        return _narrow_exponent(value)
    form = FORMATS[to]
    bits = bitcast(value, U32)
    sign = shr_logical(bit_and(bits, 1 << 31), 31 - form.exponent - form.mantissa)
    magnitude = bit_and(bits, 0x7FFFFFFF)
    drop = 23 - form.mantissa
    odd = bit_and(shr_logical(magnitude, drop), 1)
    rounded = shr_logical(add(magnitude, add(odd, (1 << (drop - 1)) - 1)), drop)
    encoded = sub(rounded, (127 - form.bias) << form.mantissa)
    if form.bias != 127:
        # below the smallest normal number: adding 2^23 steps lets the machine round to a multiple
        # of a step
        steps = const(2.0 ** (1 - form.bias - form.mantissa + 23), F32)
        total = add(bitcast(magnitude, F32), steps, strict=True)
        denormal = sub(bitcast(total, U32), bitcast(steps, U32))
        smallest = const((128 - form.bias) << 23, U32)
        encoded = select(compare("lt", magnitude, smallest), denormal, encoded)
        large = compare("ge", magnitude, (form.bias + 129) << 23)  # rebiasing has wrapped round
        encoded = select(large, const(form.sign, U32), encoded)
    encoded = select(compare("gt", encoded, form.largest), const(form.overflow, U32), encoded)
    encoded = select(compare("gt", magnitude, 0x7F800000), const(form.nan, U32), encoded)
    if form.specials == "fnuz":
        signed = bit_or(encoded, sign)
        encoded = select(compare("eq", encoded, 0), encoded, signed)  # there is no negative zero
    else:
        encoded = bit_xor(encoded, sign)
    return bitcast(convert(encoded, unsigned_of(to.bits)), to)


def _narrow_exponent(value: Expr) -> Expr:
    """f32 to f8e8m0fnu: the nearest power of two, NaN for what is not positive or too large."""
    bits = bitcast(value, U32)
    # halves go up, but for the one below the smallest normal f32, as in ml_dtypes
    half = select(compare("ge", bits, 1 << 23), const(1 << 22, U32), const((1 << 22) - 1, U32))
    encoded = shr_logical(add(bits, half), 23)
    bad = bit_or(compare("eq", bits, 0), compare("ge", bits, 0x7F800000))  # 0, inf, NaN, negative
    encoded = select(bad, const(255, U32), encoded)
    return bitcast(convert(encoded, unsigned_of(8)), F8E8M0FNU)
