"""Polynomials as arrays of coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes, errors, lax
from tetrax.numpy import linalg
from tetrax.numpy._arithmetic import divide
from tetrax.numpy._contract import dot, outer
from tetrax.numpy._creation import vander_powers
from tetrax.numpy._promote import (
    broadcast_array,
    check_arraylike,
    check_arraylike_or_none,
    convert,
    ensure_arraylike,
    promote_dtypes,
    promote_dtypes_inexact,
    to_array,
)
from tetrax.numpy._shapes import atleast_1d
from tetrax.numpy._signal import convolve
from tetrax.numpy._typing import Array, ArrayLike
from tetrax.tracing.trace import concrete_or_error


def _coefficients(name: str, *polynomials: ArrayLike) -> list[Array]:
    check_arraylike(name, *polynomials)
    return [atleast_1d(p) for p in polynomials]


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """Evaluate a polynomial by Horner's rule; `unroll` is how many steps are written out at once.

    >>> polyval(np.array([1, 0, 2]), 3)
    Array(11, dtype=int32)
    """
    check_arraylike("polyval", p, x)
    coefficients, points = promote_dtypes(p, x)
    if coefficients.ndim != 1 and coefficients.ndim < 1:
        raise ValueError(f"polyval: p must have at least one axis, got shape {coefficients.shape}")
    shape = lax.broadcast_shapes(coefficients.shape[1:], points.shape)
    points = broadcast_array(points, shape)

    def step(total: Array, coefficient: Array) -> tuple[Array, None]:
        return lax.add(lax.mul(total, points), broadcast_array(coefficient, shape)), None

    start = convert(lax.full(shape, 0, coefficients.dtype), coefficients.dtype)
    points = convert(points, coefficients.dtype)
    coefficients = convert(coefficients, coefficients.dtype)
    return lax.scan(step, start, coefficients, unroll=min(unroll, max(coefficients.shape[0], 1)))[0]


def _padded(p: Array, size: int) -> Array:
    return lax.pad(p, lax.full((), 0, p.dtype), ((size - p.shape[0], 0, 0),))


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Add two polynomials."""
    first, second = promote_dtypes(*_coefficients("polyadd", a1, a2))
    size = max(first.shape[0], second.shape[0])
    return lax.add(_padded(first, size), _padded(second, size))


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Subtract the second polynomial from the first."""
    first, second = promote_dtypes(*_coefficients("polysub", a1, a2))
    size = max(first.shape[0], second.shape[0])
    return lax.sub(_padded(first, size), _padded(second, size))


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """Multiply two polynomials; dropping leading zeros first needs known coefficients."""
    first, second = _coefficients("polymul", a1, a2)
    if trim_leading_zeros and (first.shape[0] > 1 or second.shape[0] > 1):
        first, second = _trimmed("polymul", first), _trimmed("polymul", second)
    first = first if first.shape[0] else lax.full((1,), 0, first.dtype)
    second = second if second.shape[0] else lax.full((1,), 0, second.dtype)
    return convolve(first, second, mode="full")


def _trimmed(name: str, p: Array) -> Array:
    known = _known(name, p)
    first = int(np.argmax(known != 0)) if np.any(known != 0) else len(known) - 1
    return lax.slice_in_dim(p, max(first, 0), p.shape[0])


def _known(name: str, p: Array) -> np.ndarray:
    where = f"jnp.{name} looks for zero coefficients, which must be known"
    return np.asarray(concrete_or_error(p, errors.ConcretizationTypeError, where))


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """Divide polynomials; returns quotient and remainder."""
    dividend, divisor = promote_dtypes_inexact(*_coefficients("polydiv", u, v))
    dividend, divisor = convert(dividend, dividend.dtype), convert(divisor, divisor.dtype)
    steps = dividend.shape[0] - divisor.shape[0] + 1
    if steps <= 0:
        return lax.full((1,), 0, dividend.dtype), dividend
    lead = divisor[0]
    rest, quotient = dividend, []
    width = divisor.shape[0]
    for k in range(steps):
        factor = lax.div(rest[k], lead)
        quotient.append(lax.reshape(factor, (1,)))
        piece = lax.slice_in_dim(rest, k, k + width)
        piece = lax.sub(piece, lax.mul(broadcast_array(factor, (width,)), divisor))
        rest = lax.dynamic_update_slice(rest, piece, (np.int32(k),))
    if trim_leading_zeros:
        rest = _trimmed("polydiv", rest)
    return lax.concatenate(quotient, 0), rest


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """Return the m-th derivative of a polynomial."""
    (coefficients,) = promote_dtypes_inexact(*_coefficients("polyder", p))
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    size = coefficients.shape[0]
    if m == 0:
        return coefficients
    powers = np.arange(size, dtype=np.float64)[::-1][: max(size - m, 0)]
    factors = np.ones_like(powers)
    for k in range(m):
        factors = factors * (powers - k)
    kept = lax.slice_in_dim(coefficients, 0, max(size - m, 0))
    return lax.mul(convert(kept, kept.dtype), convert(factors, kept.dtype))


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """Return the m-th antiderivative of a polynomial, with integration constants `k`."""
    check_arraylike_or_none("polyint", p, k)
    constants = to_array(0 if k is None else k)
    coefficients, constants = promote_dtypes_inexact(atleast_1d(p), constants)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    if m == 0:
        return coefficients
    constants = atleast_1d(constants)
    if constants.shape[0] == 1:
        constants = broadcast_array(constants, (m,))
    if constants.shape != (m,):
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    extended = lax.concatenate([coefficients, constants], 0)
    size = extended.shape[0]
    divisors = np.ones(size)
    for j in range(1, m + 1):
        powers = np.arange(size, dtype=np.float64)[::-1] - m
        divisors *= np.maximum(powers + j, 1)
    return lax.div(convert(extended, extended.dtype), convert(divisors, extended.dtype))


def poly(seq_of_zeros: ArrayLike) -> Array:
    """Return the polynomial with the zeros given, or the characteristic polynomial of a matrix."""
    check_arraylike("poly", seq_of_zeros)
    (zeros,) = promote_dtypes_inexact(atleast_1d(seq_of_zeros))
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] and zeros.shape[0]:
        zeros = linalg.eigvals(zeros)
    if zeros.ndim != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    zeros = convert(zeros, zeros.dtype)
    if zeros.shape[0] == 0:
        return lax.full((), 1, zeros.dtype)
    result = lax.full((1,), 1, zeros.dtype)
    for i in range(zeros.shape[0]):
        factor = lax.concatenate(
            [lax.full((1,), 1, zeros.dtype), lax.neg(lax.slice_in_dim(zeros, i, i + 1))], 0
        )
        result = convolve(result, factor, mode="full")
    return result


# --------------------------------------------------------------------------- roots


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """Return the zeros of a polynomial, complex.

    Leading zero coefficients lower the degree and so the number of roots: under `jit`, pass
    `strip_zeros=False`, and NaN stands for the roots that are missing.
    """
    (coefficients,) = promote_dtypes_inexact(*_coefficients("roots", p))
    if coefficients.ndim != 1:
        raise ValueError("p must be a rank-1 array.")
    coefficients = convert(coefficients, coefficients.dtype)
    if coefficients.shape[0] < 2:
        return lax.full((0,), 0, dtypes.to_complex_dtype(coefficients.dtype))
    if strip_zeros:
        return _stripped_roots(coefficients)
    return _roots_with_leading_zeros(coefficients)


def _stripped_roots(p: Array) -> Array:
    known = _known("roots", p)
    found = np.flatnonzero(known)
    complex_dtype = dtypes.to_complex_dtype(p.dtype)
    if not len(found):
        return lax.full((0,), 0, complex_dtype)
    first, last = int(found[0]), int(found[-1])
    trailing = p.shape[0] - 1 - last
    result = _companion_roots(lax.slice_in_dim(p, first, last + 1))
    return lax.concatenate([result, lax.full((trailing,), 0, complex_dtype)], 0)


def _companion_roots(p: Array) -> Array:
    complex_dtype = dtypes.to_complex_dtype(p.dtype)
    size = p.shape[0] - 1
    if size == 0:
        return lax.full((0,), 0, complex_dtype)
    below = np.eye(size, k=-1)
    companion = convert(below, p.dtype)
    first_row = lax.div(lax.neg(lax.slice_in_dim(p, 1, size + 1)), broadcast_array(p[0], (size,)))
    companion = lax.dynamic_update_slice(
        companion, lax.reshape(first_row, (1, size)), (np.int32(0), np.int32(0))
    )
    return convert(linalg.eigvals(companion), complex_dtype)


def _roots_with_leading_zeros(p: Array) -> Array:
    """Move leading zeros to the end, where they become zero roots, and replace those by NaN."""
    size = p.shape[0]
    is_zero = lax.eq(p, lax.full_like(p, 0))
    leading = lax.cumprod(lax.convert_element_type(is_zero, np.int32))
    count = lax.reduce_sum(leading, (0,))
    count = lax.min(count, np.int32(size - 1))
    doubled = lax.concatenate([p, lax.full_like(p, 0)], 0)
    shifted = lax.dynamic_slice(doubled, (count,), (size,))
    found = _companion_roots(shifted)
    order = lax.sort(
        (lax.neg(lax.abs(found)), lax.iota(np.int32, size - 1)), num_keys=1, is_stable=True
    )[1]
    found = found[order]
    keep = lax.lt(
        lax.iota(np.int32, size - 1),
        broadcast_array(lax.sub(np.int32(size - 1), count), (size - 1,)),
    )
    return lax.select(keep, found, lax.full_like(found, complex(np.nan, np.nan)))


# --------------------------------------------------------------------------- least squares


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: Any = False,
) -> Any:
    """Fit a polynomial of a degree to points by least squares.

    With `full`, also returns residuals, rank, singular values and cutoff; with `cov`, the
    covariance matrix of the coefficients.
    """
    check_arraylike_or_none("polyfit", x, y, w)
    points, values = promote_dtypes_inexact(x, y)
    points, values = convert(points, points.dtype), convert(values, values.dtype)
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if points.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if points.size == 0:
        raise TypeError("expected non-empty vector for x")
    if values.ndim < 1 or values.ndim > 2:
        raise TypeError("expected 1D or 2D array for y")
    if points.shape[0] != values.shape[0]:
        raise TypeError("expected x and y to have same length")
    if rcond is None:
        rcond = points.shape[0] * float(dtypes.finfo(points.dtype).eps)
    matrix = vander_powers(points, deg + 1, increasing=False)
    if w is not None:
        matrix, values = _weighted(matrix, values, w)
    scale = lax.sqrt(lax.reduce_sum(lax.square(lax.abs(matrix)), (0,)))
    scaled = lax.div(matrix, lax.broadcast_in_dim(convert(scale, matrix.dtype), matrix.shape, (1,)))
    result, residuals, rank, singular = linalg.lstsq(scaled, values, rcond)
    scale = convert(scale, result.dtype)
    result = lax.div(result, lax.broadcast_in_dim(scale, result.shape, (0,)))
    if full:
        return result, residuals, rank, singular, rcond
    if not cov:
        return result
    return result, _fit_covariance(scaled, scale, residuals, values, deg, cov)


def _weighted(matrix: Array, values: Array, w: ArrayLike) -> tuple[Array, Array]:
    weights = ensure_arraylike("polyfit", w)
    if weights.ndim != 1:
        raise TypeError("expected a 1-d array for weights")
    if weights.shape[0] != values.shape[0]:
        raise TypeError("expected w and y to have the same length")
    weights = convert(weights, matrix.dtype)
    column = lax.broadcast_in_dim(weights, values.shape, (0,))
    return lax.mul(matrix, lax.broadcast_in_dim(weights, matrix.shape, (0,))), lax.mul(
        values, column
    )


def _fit_covariance(
    scaled: Array, scale: Array, residuals: Array, values: Array, deg: int, cov: Any
) -> Array:
    base = linalg.inv(dot(lax.transpose(scaled, (1, 0)), scaled))
    base = divide(base, outer(scale, scale))
    if isinstance(cov, str) and cov == "unscaled":
        return base
    count = values.shape[0]
    if count <= deg + 1:
        raise ValueError(
            "the number of data points must exceed order to scale the covariance matrix"
        )
    factor = lax.div(residuals, lax.full_like(residuals, count - deg - 1))
    if values.ndim == 1:
        return lax.mul(base, broadcast_array(lax.reshape(factor, ()), base.shape))
    shape = (*base.shape, factor.shape[0])
    return lax.mul(
        lax.broadcast_in_dim(base, shape, (0, 1)), lax.broadcast_in_dim(factor, shape, (2,))
    )
