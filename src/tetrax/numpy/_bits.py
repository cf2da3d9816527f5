"""Bitwise functions, and functions that take floating-point numbers apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tetrax import dtypes, lax
from tetrax.compiler.planned import planned
from tetrax.numpy._creation import arange
from tetrax.numpy._elementwise import constant_like, trunc
from tetrax.numpy._promote import (
    as_inexact,
    canonicalize_axis,
    check_arraylike,
    check_no_out,
    convert,
    ensure_arraylike,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    promote_shapes,
)
from tetrax.numpy._typing import Array, ArrayLike


def _is(x: Array, kind: type) -> bool:
    return dtypes.issubdtype(x.dtype, kind)


# --------------------------------------------------------------------------- bitwise


@planned(2)
def bitwise_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Combine the bits of two integer or boolean arrays by `and`."""
    return lax.bitwise_and(*promote_args("bitwise_and", x, y))


@planned(2)
def bitwise_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Combine the bits of two integer or boolean arrays by `or`."""
    return lax.bitwise_or(*promote_args("bitwise_or", x, y))


@planned(2)
def bitwise_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Combine the bits of two integer or boolean arrays by exclusive `or`."""
    return lax.bitwise_xor(*promote_args("bitwise_xor", x, y))


@planned(1)
def invert(x: ArrayLike, /) -> Array:
    """Invert every bit; for booleans, `not`."""
    return lax.bitwise_not(ensure_arraylike("invert", x))


def bitwise_not(x: ArrayLike, /) -> Array:
    """Invert every bit; another name for `invert`."""
    return lax.bitwise_not(ensure_arraylike("bitwise_not", x))


def bitwise_invert(x: ArrayLike, /) -> Array:
    """Invert every bit; the array API's name for `invert`."""
    return lax.bitwise_not(ensure_arraylike("bitwise_invert", x))


@planned(2)
def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Shift bits to the left."""
    return lax.shift_left(*promote_args_numeric("left_shift", x, y))


def bitwise_left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Shift bits to the left; the array API's name for `left_shift`."""
    return lax.shift_left(*promote_args_numeric("bitwise_left_shift", x, y))


@planned(2)
def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Shift bits to the right, filling with the sign bit of signed integers."""
    x1, x2 = promote_args_numeric("right_shift", x1, x2)
    if _is(x1, np.unsignedinteger):
        return lax.shift_right_logical(x1, x2)
    return lax.shift_right_arithmetic(x1, x2)


def bitwise_right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Shift bits to the right; the array API's name for `right_shift`."""
    return right_shift(x1, x2)


def bitwise_count(x: ArrayLike, /) -> Array:
    """Count the set bits in the absolute value of each element."""
    x = ensure_arraylike("bitwise_count", x)
    if x.dtype == np.bool_:
        return lax.convert_element_type(x, np.uint8)
    size = lax.abs(x) if _is(x, np.signedinteger) else x
    return lax.convert_element_type(lax.population_count(size), np.uint8)


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Pack groups of eight booleans into bytes along an axis, padding with zeros."""
    a = ensure_arraylike("packbits", a)
    if not (a.dtype == np.bool_ or _is(a, np.integer)):
        raise TypeError("Expected an input array of integer or boolean data type")
    _check_bit_order(bitorder)
    bits = lax.convert_element_type(lax.ne(a, constant_like(a, 0)), np.uint8)
    if axis is None:
        bits, axis = lax.reshape(bits, (a.size,)), 0
    axis = canonicalize_axis(axis, bits.ndim)
    missing = -bits.shape[axis] % 8
    padding = [(0, missing if i == axis else 0, 0) for i in range(bits.ndim)]
    bits = lax.pad(bits, np.uint8(0), padding)
    shape = bits.shape
    grouped = lax.reshape(bits, (*shape[:axis], shape[axis] // 8, 8, *shape[axis + 1 :]))
    shifts = _bit_positions(bitorder, grouped.ndim, axis + 1)
    placed = lax.shift_left(
        grouped, lax.broadcast_in_dim(shifts, grouped.shape, range(grouped.ndim))
    )
    return lax.reduce_sum(placed, (axis + 1,))


def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """Unpack bytes into zeros and ones along an axis."""
    a = ensure_arraylike("unpackbits", a)
    if a.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    _check_bit_order(bitorder)
    if axis is None:
        a, axis = lax.reshape(a, (a.size,)), 0
    axis = canonicalize_axis(axis, a.ndim)
    shape = (*a.shape[: axis + 1], 8, *a.shape[axis + 1 :])
    kept = tuple(i for i in range(len(shape)) if i != axis + 1)
    shifts = lax.broadcast_in_dim(
        _bit_positions(bitorder, len(shape), axis + 1), shape, range(len(shape))
    )
    spread = lax.broadcast_in_dim(a, shape, kept)
    bits = lax.bitwise_and(lax.shift_right_logical(spread, shifts), np.uint8(1))
    result = lax.reshape(bits, (*a.shape[:axis], a.shape[axis] * 8, *a.shape[axis + 1 :]))
    if count is None:
        return result
    size = result.shape[axis]
    wanted = size + count if count < 0 else count
    if wanted <= size:
        return lax.slice_in_dim(result, 0, max(wanted, 0), axis=axis)
    padding = [(0, wanted - size if i == axis else 0, 0) for i in range(result.ndim)]
    return lax.pad(result, np.uint8(0), padding)


def _check_bit_order(bitorder: str) -> None:
    if bitorder not in ("little", "big"):
        raise ValueError("'order' must be either 'little' or 'big'")


def _bit_positions(bitorder: str, rank: int, axis: int) -> Array:
    positions = arange(8, dtype=np.uint8)
    if bitorder == "big":
        positions = lax.rev(positions, (0,))
    return lax.reshape(positions, tuple(8 if i == axis else 1 for i in range(rank)))


# --------------------------------------------------------------------------- integers


def _integers(name: str, x1: ArrayLike, x2: ArrayLike) -> Sequence[Array]:
    """Return two arguments in one integer dtype, weak only if both are."""
    check_arraylike(name, x1, x2)
    if not dtypes.issubdtype(dtypes.result_type(x1, x2), np.integer):
        raise ValueError(f"Arguments to jax.numpy.{name} must be integers.")
    weak_type = all(map(dtypes.is_weakly_typed, (x1, x2)))
    return [convert(x, x.dtype, weak_type) for x in promote_args(name, x1, x2)]


def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the greatest common divisor of each pair of integers."""
    x1, x2 = _integers("gcd", x1, x2)
    shape = lax.broadcast_shapes(x1.shape, x2.shape)
    axes = [tuple(range(len(shape) - x.ndim, len(shape))) for x in (x1, x2)]
    sizes = [x if _is(x, np.unsignedinteger) else lax.abs(x) for x in (x1, x2)]
    pair = tuple(lax.broadcast_in_dim(x, shape, dims) for x, dims in zip(sizes, axes, strict=True))

    def unfinished(state: tuple[Array, Array]) -> Array:
        y = state[1]
        return lax.reduce_or(lax.ne(y, lax.full_like(y, 0)), tuple(range(y.ndim)))

    def euclid(state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, y = state
        running = lax.ne(y, lax.full_like(y, 0))
        rest = lax.rem(x, lax.select(running, y, lax.full_like(y, 1)))
        return lax.select(running, y, x), lax.select(running, rest, y)

    return lax.while_loop(unfinished, euclid, pair)[0]


def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the least common multiple of each pair of integers."""
    x1, x2 = _integers("lcm", x1, x2)
    divisor = gcd(x1, x2)
    is_zero = lax.eq(divisor, lax.full_like(divisor, 0))
    safe = lax.select(is_zero, lax.full_like(divisor, 1), divisor)
    product = lax.mul(x1, lax.div(lax.broadcast_to_rank(x2, safe.ndim), safe))
    multiple = product if _is(product, np.unsignedinteger) else lax.abs(product)
    return lax.select(is_zero, lax.full_like(multiple, 0), multiple)


# --------------------------------------------------------------------------- floating point


def nextafter(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the number next to the first argument in the direction of the second."""
    return lax.nextafter(*promote_args_inexact("nextafter", x, y))


def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the size of the first argument with the sign of the second."""
    x1, x2 = promote_args_inexact("copysign", x1, x2)
    if _is(x1, np.complexfloating):
        raise TypeError("copysign does not support complex-valued inputs")
    shape = lax.broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = (
        lax.broadcast_in_dim(x, shape, tuple(range(len(shape) - x.ndim, len(shape))))
        for x in (x1, x2)
    )
    bits = np.dtype(f"int{x1.dtype.itemsize * 8}")
    is_negative = lax.lt(lax.bitcast_convert_type(x2, bits), bits.type(0))
    size = lax.abs(x1)
    return lax.select(is_negative, lax.neg(size), size)


def spacing(x: ArrayLike, /) -> Array:
    """Return the distance from each element to the next one away from zero."""
    x = as_inexact("spacing", x)
    if _is(x, np.complexfloating):
        raise ValueError("jnp.spacing is not defined for complex inputs.")
    x = lax.convert_element_type(x, x.dtype)
    is_negative = lax.lt(x, constant_like(x, 0))
    target = lax.select(is_negative, lax.full_like(x, -np.inf), lax.full_like(x, np.inf))
    return lax.sub(lax.nextafter(x, target), x)


def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """Return the fractional and the whole part of each element, both with its sign."""
    x = as_inexact("modf", x)
    check_no_out("modf", out)
    whole = trunc(x)
    infinite = lax.eq(lax.abs(x), constant_like(x, np.inf))
    fraction = lax.select(infinite, lax.full_like(x, 0), lax.sub(x, whole))
    return copysign(fraction, x), whole


def _layout(dtype: np.dtype) -> tuple[np.dtype, int, int]:
    """Return the unsigned dtype of a float's width, its mantissa bits and its exponent bias."""
    info = dtypes.finfo(dtype)
    return np.dtype(f"uint{dtype.itemsize * 8}"), int(info.nmant), int(1 - info.minexp)


def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Split each element into a mantissa between 1/2 and 1 and a power of two."""
    x = as_inexact("frexp", x)
    if _is(x, np.complexfloating):
        raise TypeError("frexp does not support complex-valued inputs")
    x = lax.convert_element_type(x, x.dtype)
    unsigned, mantissa_bits, bias = _layout(x.dtype)
    tiny = lax.lt(lax.abs(x), constant_like(x, float(dtypes.finfo(x.dtype).tiny)))
    lift = mantissa_bits + 1  # brings subnormal numbers into the normal range
    normal = lax.select(tiny, lax.mul(x, constant_like(x, 2.0**lift)), x)
    field = 2 * bias + 1
    bits = lax.bitcast_convert_type(normal, unsigned)
    raw = lax.bitwise_and(
        lax.shift_right_logical(bits, unsigned.type(mantissa_bits)), unsigned.type(field)
    )
    exponent = lax.sub(lax.convert_element_type(raw, np.int32), np.int32(bias - 1))
    exponent = lax.select(tiny, lax.sub(exponent, np.int32(lift)), exponent)
    others = np.iinfo(unsigned).max ^ (field << mantissa_bits)
    kept = lax.bitwise_and(bits, unsigned.type(others))
    half = unsigned.type((bias - 1) << mantissa_bits)
    mantissa = lax.bitcast_convert_type(lax.bitwise_or(kept, half), x.dtype)
    plain = lax.bitwise_and(lax.is_finite(x), lax.ne(x, constant_like(x, 0)))
    return lax.select(plain, mantissa, x), lax.select(plain, exponent, lax.full_like(exponent, 0))


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return `x1 * 2**x2`, exact wherever the result can be represented."""
    x1, x2 = ensure_arraylike("ldexp", x1, x2)
    if _is(x1, np.complexfloating) or not (_is(x2, np.integer) or x2.dtype == np.bool_):
        raise ValueError(f"ldexp not supported for input types {(x1.dtype, x2.dtype)}")
    x1, x2 = promote_shapes("ldexp", x1, x2)
    x1 = lax.convert_element_type(x1, dtypes.to_inexact_dtype(x1.dtype))
    x2 = lax.convert_element_type(x2, np.int32)
    # One factor may overflow where the result does not: multiply in three bounded steps.
    _, mantissa_bits, bias = _layout(x1.dtype)
    limit = bias - 1
    whole = lax.clamp(np.int32(-3 * limit), x2, np.int32(3 * limit))
    result = x1
    for steps_left in (3, 2, 1):
        step = lax.div(whole, np.int32(steps_left))
        whole = lax.sub(whole, step)
        result = lax.mul(result, _power_of_two(step, x1.dtype, mantissa_bits, bias))
    return result


def _power_of_two(exponent: Array, dtype: np.dtype, mantissa_bits: int, bias: int) -> Array:
    integer = np.dtype(f"int{dtype.itemsize * 8}")
    field = lax.convert_element_type(lax.add(exponent, np.int32(bias)), integer)
    return lax.bitcast_convert_type(lax.shift_left(field, integer.type(mantissa_bits)), dtype)
