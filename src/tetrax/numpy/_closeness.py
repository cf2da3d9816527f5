"""Comparing whole arrays: equal, or close within a tolerance."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.numpy._convert import asarray
from tetrax.numpy._promote import broadcast_array, convert, promote_args, promote_dtypes
from tetrax.numpy._typing import Array, ArrayLike
from tetrax.runtime.array import make_array

_BOOL = np.dtype(np.bool_)


def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Tell where two arrays agree within `atol + rtol * abs(b)`."""
    a, b = promote_args("isclose", a, b)
    if not dtypes.issubdtype(a.dtype, np.inexact):
        # Integers keep their exact values; the tolerance is taken in floating point.
        wide = dtypes.to_inexact_dtype(a.dtype)
        if a.dtype == np.bool_:
            return convert(lax.eq(a, b), _BOOL)
        equal = lax.eq(a, b)
        a, b = convert(a, wide), convert(b, wide)
    else:
        equal = lax.eq(a, b)
    distance, size = lax.abs(lax.sub(a, b)), lax.abs(b)
    relative, absolute = convert(rtol, size.dtype), convert(atol, size.dtype)
    shape = lax.broadcast_shapes(distance.shape, relative.shape, absolute.shape)
    bound = lax.add(
        broadcast_array(absolute, shape),
        lax.mul(broadcast_array(relative, shape), broadcast_array(size, shape)),
    )
    near = lax.le(broadcast_array(distance, shape), bound)
    finite = lax.bitwise_and(_finite(a), _finite(b))
    near = lax.bitwise_and(near, broadcast_array(finite, shape))
    result = lax.bitwise_or(near, broadcast_array(equal, shape))
    if equal_nan:
        both = lax.bitwise_and(lax.ne(a, a), lax.ne(b, b))
        result = lax.bitwise_or(result, broadcast_array(both, shape))
    return convert(result, _BOOL)


def _finite(x: Array) -> Array:
    size = lax.abs(x) if dtypes.issubdtype(x.dtype, np.complexfloating) else x
    return lax.is_finite(size)


def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Tell whether two arrays agree everywhere within `atol + rtol * abs(b)`."""
    close = isclose(a, b, rtol, atol, equal_nan)
    return lax.reduce_and(close, tuple(range(close.ndim)))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Array:
    """Tell whether two arrays have the same shape and elements."""
    try:
        a, b = asarray(a1), asarray(a2)
    except (TypeError, ValueError):
        return make_array(np.asarray(False))
    if a.shape != b.shape:
        return make_array(np.asarray(False))
    a, b = promote_dtypes(a, b)
    equal = convert(lax.eq(a, b), _BOOL)
    if equal_nan:
        both = lax.bitwise_and(lax.ne(a, a), lax.ne(b, b))
        equal = lax.bitwise_or(equal, convert(both, _BOOL))
    return lax.reduce_and(equal, tuple(range(equal.ndim)))


def array_equiv(a1: Any, a2: Any) -> Array:
    """Tell whether two arrays have the same elements after broadcasting."""
    try:
        a, b = promote_args("array_equiv", asarray(a1), asarray(a2))
    except (TypeError, ValueError):
        return make_array(np.asarray(False))
    equal = convert(lax.eq(a, b), _BOOL)
    return lax.reduce_and(equal, tuple(range(equal.ndim)))
