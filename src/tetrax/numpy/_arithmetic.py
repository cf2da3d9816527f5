"""Functions of two arrays, element by element: arithmetic, division, powers, comparisons, logic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.compiler.planned import planned
from tetrax.higher_order.custom_derivatives import custom_jvp
from tetrax.numpy._elementwise import constant_like
from tetrax.numpy._promote import (
    check_arraylike,
    convert,
    ensure_arraylike,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    promote_shapes,
    to_array,
)
from tetrax.numpy._typing import Array, ArrayLike
from tetrax.tracing.trace import is_concrete


def _is(x: Array, kind: type) -> bool:
    return dtypes.issubdtype(x.dtype, kind)


# --------------------------------------------------------------------------- plain arithmetic


@planned(2)
def add(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Add two arrays; booleans are combined by `or`."""
    x, y = promote_args("add", x, y)
    return lax.bitwise_or(x, y) if x.dtype == np.bool_ else lax.add(x, y)


@planned(2)
def subtract(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Subtract the second array from the first."""
    return lax.sub(*promote_args("subtract", x, y))


@planned(2)
def multiply(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Multiply two arrays; booleans are combined by `and`."""
    x, y = promote_args("multiply", x, y)
    return lax.bitwise_and(x, y) if x.dtype == np.bool_ else lax.mul(x, y)


@planned(1)
def negative(x: ArrayLike, /) -> Array:
    """Return the elements with the opposite sign."""
    return lax.neg(ensure_arraylike("negative", x))


@planned(2)
def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Divide the first array by the second; integers give floats."""
    return lax.div(*promote_args_inexact("divide", x1, x2))


@planned(2)
def true_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Divide the first array by the second; integers give floats."""
    return lax.div(*promote_args_inexact("true_divide", x1, x2))


# -------------------------------------------------------------------------- division with remainder


@planned(2)
def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Divide and round down, as Python's `//` does."""
    x1, x2 = promote_args_numeric("floor_divide", x1, x2)
    if _is(x1, np.unsignedinteger):
        return lax.div(x1, x2)
    if _is(x1, np.integer):
        quotient = lax.div(x1, x2)
        zero = constant_like(x1, 0)
        signs_differ = lax.ne(lax.sign(x1), lax.sign(x2))
        inexact = lax.ne(lax.rem(x1, x2), zero)
        down = lax.sub(quotient, constant_like(quotient, 1))
        return lax.select(lax.bitwise_and(signs_differ, inexact), down, quotient)
    if _is(x1, np.complexfloating):
        raise TypeError("floor_divide does not support complex-valued inputs")
    return _float_divmod(x1, x2)[0]


@planned(2)
def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the remainder of the division, with the sign of the divisor, as Python's `%` does."""
    x1, x2 = promote_args_numeric("remainder", x1, x2)
    x2 = _never_zero(x2)
    rest = lax.rem(x1, x2)
    zero = constant_like(rest, 0)
    signs_differ = lax.ne(lax.lt(rest, zero), lax.lt(x2, zero))
    adjust = lax.bitwise_and(signs_differ, lax.ne(rest, zero))
    return lax.select(adjust, lax.add(rest, x2), rest)


def _never_zero(divisor: Array) -> Array:
    """Replace zero by one in integer divisors: the remainder is then zero, as in NumPy."""
    if not _is(divisor, np.integer):
        return divisor
    is_zero = lax.eq(divisor, constant_like(divisor, 0))
    return lax.select(is_zero, lax.full_like(divisor, 1), divisor)


def mod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the remainder of the division; another name for `remainder`."""
    return remainder(x1, x2)


@planned(2)
def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the remainder of the division, with the sign of the dividend, as C does."""
    x1, x2 = promote_args_numeric("fmod", x1, x2)
    return lax.rem(x1, _never_zero(x2))


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """Return `floor_divide` and `remainder` together."""
    x1, x2 = promote_args_numeric("divmod", x1, x2)
    if _is(x1, np.integer):
        return floor_divide(x1, x2), remainder(x1, x2)
    return _float_divmod(x1, x2)


def _float_divmod(x1: Array, x2: Array) -> tuple[Array, Array]:
    rest = lax.rem(x1, x2)
    quotient = lax.div(lax.sub(x1, rest), x2)
    zero = constant_like(rest, 0)
    adjust = lax.bitwise_and(lax.ne(rest, zero), lax.ne(lax.sign(x2), lax.sign(rest)))
    rest = lax.select(adjust, lax.add(rest, x2), rest)
    quotient = lax.select(adjust, lax.sub(quotient, constant_like(quotient, 1)), quotient)
    rounded = lax.round(quotient, lax.RoundingMethod.TO_NEAREST_EVEN)
    # Division by zero has no remainder to subtract; the quotient is what `/` gives.
    by_zero = _broadcast(lax.eq(x2, constant_like(x2, 0)), rest.shape)
    return lax.select(by_zero, lax.div(x1, x2), rounded), rest


# --------------------------------------------------------------------------- powers


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Raise the first array to the power of the second.

    A known integer exponent becomes multiplications. Integers to negative powers are refused.

    >>> power(2, 10)
    Array(1024, dtype=int32, weak_type=True)
    """
    if type(x2) is int:
        return _known_power(x1, x2)
    check_arraylike("power", x1, x2)
    exponent = to_array(x2)
    if not (_is(exponent, np.integer) or exponent.dtype == np.bool_):
        return lax.pow(*promote_args_inexact("power", x1, x2))
    known = _known_integer(x2, exponent)
    if known is not None:
        return _known_power(x1, known)
    base = to_array(x1)
    if _is(base, np.inexact):
        if exponent.dtype == np.bool_:
            exponent = lax.convert_element_type(exponent, np.int32)
        return lax.pow(*promote_shapes("power", base, exponent))
    result = _integer_power(*promote_args_numeric("power", x1, x2))
    return _strong_unless_all_weak(result, x1, x2)


@planned(1)
def _known_power(x: ArrayLike, exponent: int) -> Array:
    """Raise to a power that is known; `exponent` must fit the default integer dtype."""
    check_arraylike("power", x, exponent)
    to_array(exponent)
    base = to_array(x)
    if base.dtype == np.bool_:
        base = lax.convert_element_type(base, np.int32)
    return lax.integer_pow(base, exponent)


def _known_integer(given: Any, exponent: Array) -> int | None:
    """Return an exponent that is one known integer, else None."""
    if isinstance(given, int):
        return int(given)
    return int(exponent) if exponent.ndim == 0 and is_concrete(exponent) else None


def _integer_power(base: Array, exponent: Array) -> Array:
    """Square and multiply; six bits of exponent suffice before any base but 0, 1, -1 overflows."""
    shape = lax.broadcast_shapes(base.shape, exponent.shape)
    base, exponent = _broadcast(base, shape), _broadcast(exponent, shape)
    one = constant_like(exponent, 1)
    result = lax.full_like(base, 1)
    for _ in range(6):
        odd = lax.eq(lax.bitwise_and(exponent, one), one)
        result = lax.select(odd, lax.mul(result, base), result)
        base = lax.mul(base, base)
        exponent = lax.shift_right_logical(exponent, one)
    return result


def pow(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Raise the first array to the power of the second; the array API's name for `power`."""
    return power(x1, x2)


def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Raise the first array to the power of the second, in floating point."""
    return lax.pow(*promote_args_inexact("float_power", x, y))


# --------------------------------------------------------------------------- two-argument functions


@planned(2)
def arctan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the angle of the point (x2, x1), between -pi and pi."""
    return _angle("arctan2", x1, x2)


def atan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the angle of the point (x2, x1); the array API's name for `arctan2`."""
    return _angle("atan2", x1, x2)


def _angle(name: str, x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the angle; for complex numbers, `-i log((x2 + i x1) / sqrt(x1^2 + x2^2))`."""
    x1, x2 = promote_args_inexact(name, x1, x2)
    if not _is(x1, np.complexfloating):
        return lax.atan2(x1, x2)
    turn = constant_like(x1, 1j)
    length = lax.sqrt(lax.add(lax.square(x1), lax.square(x2)))
    return lax.mul(lax.neg(turn), lax.log(lax.div(lax.add(x2, lax.mul(turn, x1)), length)))


@planned(2)
def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return `sqrt(x1**2 + x2**2)` without overflow; infinite where either side is."""
    given = (x1, x2)
    x1, x2 = promote_args_inexact("hypot", x1, x2)
    if _is(x1, np.complexfloating):
        raise ValueError(
            "jnp.hypot is not well defined for complex-valued inputs. "
            "Please convert to real values first, such as by using abs(x)"
        )
    x1, x2 = lax.abs(x1), lax.abs(x2)
    large, small = lax.max(x1, x2), lax.min(x1, x2)
    is_zero = lax.eq(large, constant_like(large, 0))
    ratio = lax.div(small, lax.select(is_zero, lax.full_like(large, 1), large))
    length = lax.mul(large, lax.sqrt(lax.add(lax.square(ratio), constant_like(ratio, 1))))
    infinity = constant_like(large, np.inf)
    is_infinite = lax.bitwise_or(lax.eq(x1, infinity), lax.eq(x2, infinity))
    result = lax.select(is_zero, large, length)
    result = lax.select(is_infinite, lax.full_like(result, np.inf), result)
    return _strong_unless_all_weak(result, *given)


def _strong_unless_all_weak(result: Array, *args: ArrayLike) -> Array:
    """Drop the weak type of a result that comes from mixed arguments."""
    if result.weak_type and not all(map(dtypes.is_weakly_typed, args)):
        return convert(result, result.dtype)
    return result


@planned(2)
def maximum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the larger of two elements; NaN where either is NaN."""
    return _extreme("maximum", x, y, lax.max, lax.gt)


@planned(2)
def minimum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the smaller of two elements; NaN where either is NaN."""
    return _extreme("minimum", x, y, lax.min, lax.lt)


def _extreme(name: str, x: ArrayLike, y: ArrayLike, real: Any, better: Any) -> Array:
    """Choose by the order of real numbers, or of complex ones by their parts."""
    x, y = promote_args(name, x, y)
    if not _is(x, np.complexfloating):
        return real(x, y)
    shape = lax.broadcast_shapes(x.shape, y.shape)
    x, y = _broadcast(x, shape), _broadcast(y, shape)
    return lax.select(lax.bitwise_or(_order(x, y, better), lax.ne(x, x)), x, y)


def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the larger of two elements, ignoring a NaN beside a number."""
    return _prefer_numbers("fmax", x1, x2, lax.gt)


def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the smaller of two elements, ignoring a NaN beside a number."""
    return _prefer_numbers("fmin", x1, x2, lax.lt)


def _prefer_numbers(name: str, x1: ArrayLike, x2: ArrayLike, better: Any) -> Array:
    x1, x2 = promote_args(name, x1, x2)
    shape = lax.broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = (_broadcast(x, shape) for x in (x1, x2))
    first = better(x1, x2) if not _is(x1, np.complexfloating) else _order(x1, x2, better)
    return lax.select(lax.bitwise_or(first, lax.ne(x2, x2)), x1, x2)


def _broadcast(x: Array, shape: tuple[int, ...]) -> Array:
    if x.shape == shape:
        return x
    return lax.broadcast_in_dim(x, shape, tuple(range(len(shape) - x.ndim, len(shape))))


def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return 0 below zero, 1 above, and the second argument at zero."""
    given = x1
    x1, x2 = promote_args_inexact("heaviside", x1, x2)
    shape = lax.broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = _broadcast(x1, shape), _broadcast(x2, shape)
    zero = constant_like(x1, 0)
    step = lax.select(lax.lt(x1, zero), lax.full_like(x1, 0), lax.full_like(x1, 1))
    result = lax.select(lax.eq(x1, zero), x2, step)
    return _strong_unless_all_weak(lax.select(lax.ne(x1, x1), x1, result), given)


# --------------------------------------------------------------------------- logarithms of sums


@custom_jvp
def _logaddexp(x1: Array, x2: Array) -> Array:
    if _is(x1, np.complexfloating):
        first_larger = lax.ge(lax.real(x1), lax.real(x2))
        large = lax.select(first_larger, x1, x2)
        distance = lax.select(first_larger, lax.sub(x2, x1), lax.sub(x1, x2))
        total = lax.add(large, lax.log1p(lax.exp(distance)))
        angle = lax.imag(total)
        turn = lax.full_like(angle, 2 * np.pi)
        turns = lax.round(lax.div(angle, turn), lax.RoundingMethod.TO_NEAREST_EVEN)
        return lax.complex(lax.real(total), lax.sub(angle, lax.mul(turns, turn)))
    large = lax.max(x1, x2)
    distance = lax.sub(x1, x2)
    total = lax.add(large, lax.log1p(lax.exp(lax.neg(lax.abs(distance)))))
    # Two equal infinities have no distance; their sum is the infinity itself.
    return lax.select(lax.ne(distance, distance), lax.add(x1, x2), total)


@_logaddexp.defjvp
def _logaddexp_jvp(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    out = _logaddexp(*primals)
    x1, x2 = primals
    if _is(x1, np.complexfloating):
        shares = [lax.exp(lax.sub(_finite_top(x), _finite_top(out))) for x in primals]
    else:
        # The logistic function of the distance keeps its precision where the result is large.
        infinite = lax.bitwise_and(lax.eq(x1, x2), lax.bitwise_not(lax.is_finite(x1)))
        distance = lax.select(infinite, lax.full_like(x1, 0), lax.sub(x1, x2))
        shares = [lax.logistic(distance), lax.logistic(lax.neg(distance))]
    parts = [lax.mul(t, share) for t, share in zip(tangents, shares, strict=True)]
    return out, lax.add(*parts)


def _finite_top(x: Array) -> Array:
    """Replace +inf by zero, so that the share of an infinite term is not NaN."""
    part = lax.real(x)
    return lax.select(lax.eq(part, constant_like(part, np.inf)), lax.full_like(x, 0), x)


@planned(2)
def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return `log(exp(x1) + exp(x2))` without overflow, with derivatives that hold at infinity."""
    x1, x2 = promote_args_inexact("logaddexp", x1, x2)
    shape = lax.broadcast_shapes(x1.shape, x2.shape)
    return _logaddexp(_broadcast(x1, shape), _broadcast(x2, shape))


def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return `log2(2**x1 + 2**x2)` without overflow."""
    given = (x1, x2)
    x1, x2 = promote_args_inexact("logaddexp2", x1, x2)
    scale = constant_like(x1, np.log(2.0))
    result = lax.div(logaddexp(lax.mul(x1, scale), lax.mul(x2, scale)), scale)
    return _strong_unless_all_weak(result, *given)


# --------------------------------------------------------------------------- comparisons


def _order(x: Array, y: Array, compare: Any) -> Array:
    """Order complex numbers by their real parts, then by their imaginary parts."""
    real_x, real_y = lax.real(x), lax.real(y)
    ties = lax.eq(real_x, real_y)
    shape = lax.broadcast_shapes(x.shape, y.shape)
    parts = (ties, compare(lax.imag(x), lax.imag(y)), compare(real_x, real_y))
    return lax.select(*(_broadcast(part, shape) for part in parts))


def _compare(name: str, x: ArrayLike, y: ArrayLike, compare: Any) -> Array:
    x, y = promote_args(name, x, y)
    return _order(x, y, compare) if _is(x, np.complexfloating) else compare(x, y)


@planned(2)
def equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where two arrays are equal."""
    return lax.eq(*promote_args("equal", x, y))


@planned(2)
def not_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where two arrays differ."""
    return lax.ne(*promote_args("not_equal", x, y))


@planned(2)
def less(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where the first array is below the second."""
    return _compare("less", x, y, lax.lt)


@planned(2)
def less_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where the first array is not above the second."""
    return _compare("less_equal", x, y, lax.le)


@planned(2)
def greater(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where the first array is above the second."""
    return _compare("greater", x, y, lax.gt)


@planned(2)
def greater_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where the first array is not below the second."""
    return _compare("greater_equal", x, y, lax.ge)


# --------------------------------------------------------------------------- logic


def as_bool(x: Array) -> Array:
    """Return which elements differ from zero."""
    return x if x.dtype == np.bool_ else lax.ne(x, constant_like(x, 0))


def _truths(name: str, x: ArrayLike, y: ArrayLike) -> Sequence[Array]:
    x, y = ensure_arraylike(name, x, y)
    return promote_shapes(name, as_bool(x), as_bool(y))


@planned(2)
def logical_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where both elements differ from zero."""
    return lax.bitwise_and(*_truths("logical_and", x, y))


@planned(2)
def logical_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where at least one element differs from zero."""
    return lax.bitwise_or(*_truths("logical_or", x, y))


@planned(2)
def logical_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where exactly one element differs from zero."""
    return lax.bitwise_xor(*_truths("logical_xor", x, y))


@planned(1)
def logical_not(x: ArrayLike, /) -> Array:
    """Tell where the element is zero."""
    return lax.bitwise_not(as_bool(ensure_arraylike("logical_not", x)))
