"""Running sums and products, with and without NaN, and differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.compiler.planned import planned
from tetrax.numpy._join import concatenate
from tetrax.numpy._promote import (
    broadcast_array,
    canonicalize_axis,
    check_no_out,
    convert,
    ensure_arraylike,
    to_array,
    user_dtype,
)
from tetrax.numpy._reductions import computation_dtype
from tetrax.numpy._shapes import ravel
from tetrax.numpy._typing import Array, ArrayLike, DTypeLike


def _cumulative(
    name: str,
    scan: Callable[..., Array],
    a: ArrayLike,
    axis: Any,
    dtype: DTypeLike,
    out: None,
    nan_filler: int | None = None,
) -> Array:
    a = ensure_arraylike(name, a)
    check_no_out(name, out)
    if axis is None or a.ndim == 0:
        if axis is not None:
            canonicalize_axis(axis, max(a.ndim, 1))
        a, axis = ravel(a), 0
    axis = canonicalize_axis(axis, a.ndim)
    if nan_filler is not None and dtypes.issubdtype(a.dtype, np.inexact):
        a = lax.select(lax.ne(a, a), lax.full_like(a, nan_filler), a)
    if dtype is not None:
        target = user_dtype(dtype, name)
    else:
        target = dtypes.default_int_dtype() if a.dtype == np.bool_ else a.dtype
    return convert(scan(convert(a, computation_dtype(target)), axis), target)


@planned(1)
def cumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None
) -> Array:
    """Return the running sum along an axis, or of the flattened array.

    >>> cumsum(np.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    return _cumulative("cumsum", lax.cumsum, a, axis, dtype, out)


@planned(1)
def cumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None
) -> Array:
    """Return the running product along an axis, or of the flattened array."""
    return _cumulative("cumprod", lax.cumprod, a, axis, dtype, out)


def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None
) -> Array:
    """Return the running sum along an axis, NaN counted as zero."""
    return _cumulative("nancumsum", lax.cumsum, a, axis, dtype, out, 0)


def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None
) -> Array:
    """Return the running product along an axis, NaN counted as one."""
    return _cumulative("nancumprod", lax.cumprod, a, axis, dtype, out, 1)


def _array_api_cumulative(
    name: str,
    scan: Callable[..., Array],
    neutral: int,
    x: ArrayLike,
    axis: int | None,
    dtype: DTypeLike,
    include_initial: bool,
) -> Array:
    x = ensure_arraylike(name, x)
    if x.ndim == 0:
        raise ValueError("The input must be non-scalar to take a cumulative sum or product.")
    if axis is None:
        if x.ndim > 1:
            raise ValueError(
                f"The input array has rank {x.ndim}, however axis was not set to an explicit "
                f"value. The "
                "axis argument is only optional for one-dimensional arrays."
            )
        axis = 0
    axis = canonicalize_axis(axis, x.ndim)
    if dtype is None and dtypes.issubdtype(x.dtype, np.integer):
        default = dtypes.default_int_dtype()
        if dtypes.issubdtype(x.dtype, np.unsignedinteger):
            default = dtypes.default_uint_dtype()
        dtype = default if x.dtype.itemsize < default.itemsize else x.dtype
    result = _cumulative(name, scan, x, axis, dtype, None)
    if include_initial:
        shape = tuple(1 if i == axis else size for i, size in enumerate(result.shape))
        result = lax.concatenate([lax.full(shape, neutral, result.dtype), result], axis)
    return result


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike = None,
    include_initial: bool = False,
) -> Array:
    """Return the running sum along an axis, optionally starting from zero."""
    return _array_api_cumulative("cumulative_sum", lax.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike = None,
    include_initial: bool = False,
) -> Array:
    """Return the running product along an axis, optionally starting from one."""
    return _array_api_cumulative("cumulative_prod", lax.cumprod, 1, x, axis, dtype, include_initial)


# --------------------------------------------------------------------------- differences


def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """Return the n-th differences of neighbours along an axis.

    >>> diff(np.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    a = ensure_arraylike("diff", a)
    if n == 0:
        return a
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if a.ndim == 0:
        raise ValueError(f"diff requires input that is at least one dimensional; got {a}")
    axis = canonicalize_axis(axis, a.ndim)
    edge = tuple(1 if i == axis else size for i, size in enumerate(a.shape))
    parts = [a]
    if prepend is not None:
        parts.insert(0, _edge(prepend, edge))
    if append is not None:
        parts.append(_edge(append, edge))
    a = concatenate(parts, axis) if len(parts) > 1 else a
    for _ in range(n):
        size = a.shape[axis]
        later = lax.slice_in_dim(a, min(1, size), size, axis=axis)
        earlier = lax.slice_in_dim(a, 0, max(size - 1, 0), axis=axis)
        a = lax.ne(later, earlier) if a.dtype == np.bool_ else lax.sub(later, earlier)
    return a


def _edge(x: ArrayLike, shape: tuple[int, ...]) -> Array:
    x = to_array(x)
    return broadcast_array(x, shape) if x.ndim == 0 else x


def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """Return the differences of neighbours in the flattened array, with optional ends."""
    a = ravel(ensure_arraylike("ediff1d", ary))
    result = diff(a)
    if to_begin is not None:
        result = concatenate(
            [convert(ravel(ensure_arraylike("ediff1d", to_begin)), a.dtype), result]
        )
    if to_end is not None:
        result = concatenate([result, convert(ravel(ensure_arraylike("ediff1d", to_end)), a.dtype)])
    return result
