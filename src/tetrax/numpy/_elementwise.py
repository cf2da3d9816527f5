"""Functions of one array, element by element: exponentials, trigonometry, rounding, parts."""

from __future__ import annotations

import numpy as np
from tetrax import dtypes, lax
from tetrax.compiler.planned import planned
from tetrax.numpy._promote import (
    as_inexact,
    check_no_out,
    ensure_arraylike,
    promote_dtypes_inexact,
    scalar_beside,
)
from tetrax.numpy._typing import Array, ArrayLike

_LOG_2 = float(np.log(2.0))
_LOG_10 = float(np.log(10.0))


def _is(x: Array, kind: type) -> bool:
    return dtypes.issubdtype(x.dtype, kind)


def constant_like(x: Array, value: complex) -> Array:
    """Return a constant of the dtype and weak type of `x`, for use beside it in an operation."""
    return scalar_beside(x, value, x.weak_type)


def plain_constant(x: Array, value: complex) -> Array:
    """Return a constant of the dtype of `x` that leaves no result weakly typed."""
    return scalar_beside(x, value)


# ------------------------------------------------------------------------- exponentials, logarithms


@planned(1)
def exp(x: ArrayLike, /) -> Array:
    """Return the exponential of each element.

    >>> exp(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return lax.exp(as_inexact("exp", x))


@planned(1)
def exp2(x: ArrayLike, /) -> Array:
    """Return 2 to the power of each element."""
    return lax.exp2(as_inexact("exp2", x))


@planned(1)
def expm1(x: ArrayLike, /) -> Array:
    """Return `exp(x) - 1`, accurate where `x` is small."""
    return lax.expm1(as_inexact("expm1", x))


@planned(1)
def log(x: ArrayLike, /) -> Array:
    """Return the natural logarithm of each element; NaN for negative reals."""
    return lax.log(as_inexact("log", x))


@planned(1)
def log1p(x: ArrayLike, /) -> Array:
    """Return `log(1 + x)`, accurate where `x` is small."""
    return lax.log1p(as_inexact("log1p", x))


@planned(1)
def log2(x: ArrayLike, /) -> Array:
    """Return the logarithm to base 2 of each element."""
    x = as_inexact("log2", x)
    return lax.div(lax.log(x), plain_constant(x, _LOG_2))


@planned(1)
def log10(x: ArrayLike, /) -> Array:
    """Return the logarithm to base 10 of each element."""
    x = as_inexact("log10", x)
    return lax.div(lax.log(x), plain_constant(x, _LOG_10))


@planned(1)
def sqrt(x: ArrayLike, /) -> Array:
    """Return the square root of each element; NaN for negative reals."""
    return lax.sqrt(as_inexact("sqrt", x))


@planned(1)
def cbrt(x: ArrayLike, /) -> Array:
    """Return the real cube root of each element."""
    return lax.cbrt(as_inexact("cbrt", x))


@planned(1)
def square(x: ArrayLike, /) -> Array:
    """Return the square of each element."""
    x = ensure_arraylike("square", x)
    if x.dtype == np.bool_:
        x = lax.convert_element_type(x, np.int32)
    return lax.square(x)


@planned(1)
def reciprocal(x: ArrayLike, /) -> Array:
    """Return `1 / x`, in floating point."""
    return lax.integer_pow(as_inexact("reciprocal", x), -1)


# --------------------------------------------------------------------------- trigonometry


@planned(1)
def sin(x: ArrayLike, /) -> Array:
    """Return the sine of each element, in radians."""
    return lax.sin(as_inexact("sin", x))


@planned(1)
def cos(x: ArrayLike, /) -> Array:
    """Return the cosine of each element, in radians."""
    return lax.cos(as_inexact("cos", x))


@planned(1)
def tan(x: ArrayLike, /) -> Array:
    """Return the tangent of each element, in radians."""
    return lax.tan(as_inexact("tan", x))


@planned(1)
def arcsin(x: ArrayLike, /) -> Array:
    """Return the inverse sine of each element, between -pi/2 and pi/2."""
    return lax.asin(as_inexact("arcsin", x))


@planned(1)
def arccos(x: ArrayLike, /) -> Array:
    """Return the inverse cosine of each element, between 0 and pi."""
    return lax.acos(as_inexact("arccos", x))


@planned(1)
def arctan(x: ArrayLike, /) -> Array:
    """Return the inverse tangent of each element, between -pi/2 and pi/2."""
    return lax.atan(as_inexact("arctan", x))


@planned(1)
def sinh(x: ArrayLike, /) -> Array:
    """Return the hyperbolic sine of each element."""
    return lax.sinh(as_inexact("sinh", x))


@planned(1)
def cosh(x: ArrayLike, /) -> Array:
    """Return the hyperbolic cosine of each element."""
    return lax.cosh(as_inexact("cosh", x))


@planned(1)
def tanh(x: ArrayLike, /) -> Array:
    """Return the hyperbolic tangent of each element."""
    return lax.tanh(as_inexact("tanh", x))


@planned(1)
def arcsinh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic sine of each element."""
    return lax.asinh(as_inexact("arcsinh", x))


@planned(1)
def arccosh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic cosine of each element."""
    return lax.acosh(as_inexact("arccosh", x))


@planned(1)
def arctanh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic tangent of each element."""
    return lax.atanh(as_inexact("arctanh", x))


def acos(x: ArrayLike, /) -> Array:
    """Return the inverse cosine; the array API's name for `arccos`."""
    return lax.acos(as_inexact("acos", x))


def acosh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic cosine; the array API's name for `arccosh`."""
    return lax.acosh(as_inexact("acosh", x))


def asin(x: ArrayLike, /) -> Array:
    """Return the inverse sine; the array API's name for `arcsin`."""
    return lax.asin(as_inexact("asin", x))


def asinh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic sine; the array API's name for `arcsinh`."""
    return lax.asinh(as_inexact("asinh", x))


def atan(x: ArrayLike, /) -> Array:
    """Return the inverse tangent; the array API's name for `arctan`."""
    return lax.atan(as_inexact("atan", x))


def atanh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic tangent; the array API's name for `arctanh`."""
    return lax.atanh(as_inexact("atanh", x))


def deg2rad(x: ArrayLike, /) -> Array:
    """Convert degrees to radians."""
    x = as_inexact("deg2rad", x)
    return lax.mul(x, constant_like(x, np.pi / 180))


def rad2deg(x: ArrayLike, /) -> Array:
    """Convert radians to degrees."""
    x = as_inexact("rad2deg", x)
    return lax.mul(x, constant_like(x, 180 / np.pi))


def degrees(x: ArrayLike, /) -> Array:
    """Convert radians to degrees."""
    return rad2deg(x)


def radians(x: ArrayLike, /) -> Array:
    """Convert degrees to radians."""
    return deg2rad(x)


# --------------------------------------------------------------------------- signs and rounding


@planned(1)
def abs(x: ArrayLike, /) -> Array:
    """Return the absolute value of each element, real also for complex input."""
    x = ensure_arraylike("abs", x)
    if x.dtype == np.bool_ or _is(x, np.unsignedinteger):
        return x
    return lax.abs(x)


def absolute(x: ArrayLike, /) -> Array:
    """Return the absolute value of each element."""
    return abs(x)


def fabs(x: ArrayLike, /) -> Array:
    """Return the absolute value of each element, in floating point; complex input is refused."""
    x = as_inexact("fabs", x)
    if _is(x, np.complexfloating):
        raise TypeError("ufunc 'fabs' does not support complex dtypes")
    return lax.abs(x)


def positive(x: ArrayLike, /) -> Array:
    """Return the elements as they are."""
    return ensure_arraylike("positive", x)


@planned(1)
def sign(x: ArrayLike, /) -> Array:
    """Return -1, 0 or 1 by the sign of each element; `x / abs(x)` for complex elements."""
    return lax.sign(ensure_arraylike("sign", x))


def signbit(x: ArrayLike, /) -> Array:
    """Tell where the sign bit is set: below zero, and at -0.0."""
    x = ensure_arraylike("signbit", x)
    if _is(x, np.complexfloating):
        raise ValueError(f"jax.numpy.signbit is not well defined for {x.dtype}")
    if x.dtype == np.bool_ or _is(x, np.unsignedinteger):
        return lax.full_like(x, False, dtype=np.bool_)
    if _is(x, np.signedinteger):
        return lax.lt(lax.convert_element_type(x, x.dtype), x.dtype.type(0))
    bits = lax.bitcast_convert_type(x, np.dtype(f"int{x.dtype.itemsize * 8}"))
    return lax.lt(bits, bits.dtype.type(0))


@planned(1)
def floor(x: ArrayLike, /) -> Array:
    """Round each element down to an integer, keeping its dtype."""
    x = ensure_arraylike("floor", x)
    return x if x.dtype == np.bool_ or _is(x, np.integer) else lax.floor(x)


@planned(1)
def ceil(x: ArrayLike, /) -> Array:
    """Round each element up to an integer, keeping its dtype."""
    x = ensure_arraylike("ceil", x)
    return x if x.dtype == np.bool_ or _is(x, np.integer) else lax.ceil(x)


@planned(1)
def trunc(x: ArrayLike) -> Array:
    """Round each element towards zero, keeping its dtype."""
    x = ensure_arraylike("trunc", x)
    if x.dtype == np.bool_ or _is(x, np.integer):
        return x
    return lax.select(lax.lt(x, constant_like(x, 0)), lax.ceil(x), lax.floor(x))


def rint(x: ArrayLike, /) -> Array:
    """Round each element to the nearest integer, halves to even; integers become floats."""
    x = ensure_arraylike("rint", x)
    if x.dtype == np.bool_ or _is(x, np.integer):
        return lax.convert_element_type(x, dtypes.default_float_dtype())
    return _round_to_even(x)


def _round_to_even(x: Array) -> Array:
    if _is(x, np.complexfloating):
        return lax.complex(_round_to_even(lax.real(x)), _round_to_even(lax.imag(x)))
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


@planned(1)
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Round to a number of decimals, halves to even.

    >>> round(2.675, 2)
    Array(2.68, dtype=float32, weak_type=True)
    """
    a = ensure_arraylike("round", a)
    check_no_out("round", out)
    if _is(a, np.integer):
        if decimals < 0:
            raise NotImplementedError("integer np.round not implemented for decimals < 0")
        return a
    if a.dtype == np.bool_:
        raise ValueError("round does not accept booleans; convert them with astype first")
    if _is(a, np.complexfloating):
        return lax.complex(round(lax.real(a), decimals), round(lax.imag(a), decimals))
    if decimals == 0:
        return _round_to_even(a)
    wide = lax.convert_element_type(a, np.float32) if a.dtype.itemsize < 4 else a
    factor = constant_like(wide, 10.0 ** np.abs(decimals))
    scaled = lax.mul(wide, factor) if decimals > 0 else lax.div(wide, factor)
    rounded = _round_to_even(scaled)
    result = lax.div(rounded, factor) if decimals > 0 else lax.mul(rounded, factor)
    return result if wide is a else lax.convert_element_type(result, a.dtype)


def around(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Round to a number of decimals; another name for `round`."""
    return round(a, decimals, out)


# --------------------------------------------------------------------------- complex numbers


@planned(1)
def real(val: ArrayLike, /) -> Array:
    """Return the real part of each element."""
    val = ensure_arraylike("real", val)
    return lax.real(val) if _is(val, np.complexfloating) else val


@planned(1)
def imag(val: ArrayLike, /) -> Array:
    """Return the imaginary part of each element; zeros for real input."""
    val = ensure_arraylike("imag", val)
    return lax.imag(val) if _is(val, np.complexfloating) else lax.full_like(val, 0)


@planned(1)
def conjugate(x: ArrayLike, /) -> Array:
    """Return the complex conjugate of each element."""
    x = ensure_arraylike("conjugate", x)
    return lax.conj(x) if _is(x, np.complexfloating) else x


def conj(x: ArrayLike, /) -> Array:
    """Return the complex conjugate of each element."""
    return conjugate(x)


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Return the angle of each complex element to the positive real axis."""
    z = ensure_arraylike("angle", z)
    if _is(z, np.complexfloating):
        first, second = lax.real(z), lax.imag(z)
    else:
        # as in JAX, scalars too take the default width
        keeps = _is(z, np.inexact) and z.ndim > 0
        first = z if keeps else lax.convert_element_type(z, dtypes.default_float_dtype())
        second = lax.full_like(first, 0)
    result = lax.atan2(second, first)
    return rad2deg(result) if deg else result


def iscomplex(x: ArrayLike) -> Array:
    """Tell which elements have an imaginary part."""
    i = imag(x)
    return lax.ne(i, constant_like(i, 0))


def isreal(x: ArrayLike) -> Array:
    """Tell which elements have no imaginary part."""
    i = imag(x)
    return lax.eq(i, constant_like(i, 0))


# --------------------------------------------------------------------------- special values


@planned(1)
def isfinite(x: ArrayLike, /) -> Array:
    """Tell which elements are neither infinite nor NaN."""
    x = ensure_arraylike("isfinite", x)
    if _is(x, np.floating):
        return lax.is_finite(x)
    if _is(x, np.complexfloating):
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return lax.full_like(x, True, dtype=np.bool_)


@planned(1)
def isinf(x: ArrayLike, /) -> Array:
    """Tell which elements are infinite."""
    x = ensure_arraylike("isinf", x)
    if _is(x, np.floating):
        size = lax.abs(x)
        return lax.eq(size, plain_constant(size, np.inf))
    if _is(x, np.complexfloating):
        return lax.bitwise_or(isinf(lax.real(x)), isinf(lax.imag(x)))
    return lax.full_like(x, False, dtype=np.bool_)


@planned(1)
def isnan(x: ArrayLike, /) -> Array:
    """Tell which elements are NaN."""
    x = ensure_arraylike("isnan", x)
    return lax.ne(x, x)


def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Tell which elements are positive infinity."""
    return _is_infinity("isposinf", x, np.inf, out)


def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Tell which elements are negative infinity."""
    return _is_infinity("isneginf", x, -np.inf, out)


def _is_infinity(name: str, x: ArrayLike, infinity: float, out: None) -> Array:
    x = ensure_arraylike(name, x)
    check_no_out(name, out)
    if _is(x, np.complexfloating):
        raise ValueError("isposinf/isneginf are not well defined for complex types")
    if not _is(x, np.floating):
        return lax.full_like(x, False, dtype=np.bool_)
    return lax.eq(x, plain_constant(x, infinity))


def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """Replace NaN by zero and infinities by the largest finite numbers, or by the numbers given."""
    del copy
    x = ensure_arraylike("nan_to_num", x)
    if _is(x, np.complexfloating):
        parts = (nan_to_num(part, True, nan, posinf, neginf) for part in (lax.real(x), lax.imag(x)))
        return lax.complex(*parts)
    if not _is(x, np.floating):
        return x
    x = lax.convert_element_type(x, x.dtype)
    info = dtypes.finfo(x.dtype)
    replacements = (
        (lax.ne(x, x), nan),
        (lax.eq(x, constant_like(x, np.inf)), info.max if posinf is None else posinf),
        (lax.eq(x, constant_like(x, -np.inf)), info.min if neginf is None else neginf),
    )
    for where, value in replacements:
        filler = lax.convert_element_type(ensure_arraylike("nan_to_num", value), x.dtype)
        filler = lax.broadcast_in_dim(filler, x.shape, tuple(range(x.ndim - filler.ndim, x.ndim)))
        x = lax.select(where, filler, x)
    return x


# --------------------------------------------------------------------------- sinc and Bessel


def sinc(x: ArrayLike, /) -> Array:
    """Return `sin(pi x) / (pi x)`, 1 at zero, with correct derivatives of every order there."""
    x = as_inexact("sinc", x)
    z = lax.mul(x, constant_like(x, np.pi))
    near = lax.lt(lax.abs(z), lax.full((), 0.5, lax.abs(z).dtype))
    zeros, ones = lax.full_like(z, 0), lax.full_like(z, 1)
    # The quotient loses its derivatives to cancellation near zero; the series does not.
    small = lax.select(near, z, zeros)
    large = lax.select(near, ones, z)
    return lax.select(near, _sinc_series(lax.square(small)), lax.div(lax.sin(large), large))


def _sinc_series(square_of_z: Array) -> Array:
    """Sum `(-z**2)**k / (2 k + 1)!` by Horner's rule, to full precision for |z| <= 1/2."""
    total = lax.full_like(square_of_z, 1)
    is_double = dtypes.finfo(square_of_z.dtype).bits == 64
    for k in range(10 if is_double else 6, 0, -1):
        step = lax.mul(square_of_z, constant_like(square_of_z, -1.0 / (2 * k * (2 * k + 1))))
        total = lax.add(lax.mul(step, total), constant_like(step, 1))
    return total


def i0(x: ArrayLike) -> Array:
    """Return the modified Bessel function of the first kind and order zero; real input only."""
    x = promote_dtypes_inexact(ensure_arraylike("i0", x))[0]
    if not _is(x, np.floating):
        raise ValueError(f"Unsupported input type to jax.numpy.i0: {x.dtype}")
    return lax.mul(lax.exp(lax.abs(x)), lax.bessel_i0e(x))
