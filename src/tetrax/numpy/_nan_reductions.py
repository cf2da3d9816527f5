"""Reductions that leave NaN out of account."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.numpy._arithmetic import as_bool
from tetrax.numpy._promote import broadcast_array, check_no_out, convert, ensure_arraylike, to_array
from tetrax.numpy._reductions import (
    argmax,
    argmin,
    masked,
    max,
    min,
    prod,
    reduction_axes,
    sum,
    var,
)
from tetrax.numpy._typing import Array, ArrayLike, Axis, DTypeLike


def _numbers(a: Array, where: ArrayLike | None) -> Array:
    """Return the mask of elements that are numbers, inside the mask given."""
    mask = lax.eq(a, a)
    mask = convert(mask, np.dtype(np.bool_))
    if where is None:
        return mask
    given = as_bool(to_array(where))
    shape = lax.broadcast_shapes(mask.shape, given.shape)
    return lax.bitwise_and(broadcast_array(mask, shape), broadcast_array(given, shape))


def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Add elements along axes, NaN counted as zero."""
    check_no_out("nansum", out)
    a = ensure_arraylike("nansum", a)
    return sum(_without_nan(a, 0), axis, dtype, None, keepdims, initial, where)


def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Multiply elements along axes, NaN counted as one."""
    check_no_out("nanprod", out)
    a = ensure_arraylike("nanprod", a)
    return prod(_without_nan(a, 1), axis, dtype, None, keepdims, initial, where)


def _without_nan(a: Array, filler: Any) -> Array:
    if not dtypes.issubdtype(a.dtype, np.inexact):
        return a
    return lax.select(lax.ne(a, a), lax.full_like(a, filler), a)


def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the largest number along axes; NaN where there is none."""
    return _extreme("nanmax", max, -np.inf, a, axis, out, keepdims, initial, where)


def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the smallest number along axes; NaN where there is none."""
    return _extreme("nanmin", min, np.inf, a, axis, out, keepdims, initial, where)


def _extreme(
    name: str,
    reduce: Any,
    filler: float,
    a: ArrayLike,
    axis: Axis,
    out: None,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Array:
    check_no_out(name, out)
    a = ensure_arraylike(name, a)
    result = reduce(_without_nan(a, filler), axis, None, keepdims, initial, where)
    if not dtypes.issubdtype(a.dtype, np.inexact) or initial is not None:
        return result
    count = sum(_numbers(a, where), axis, keepdims=keepdims)
    return lax.select(lax.eq(count, lax.full_like(count, 0)), lax.full_like(result, np.nan), result)


def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """Average the numbers along axes; NaN where there are none."""
    check_no_out("nanmean", out)
    a = ensure_arraylike("nanmean", a)
    target = dtypes.to_inexact_dtype(a.dtype) if dtype is None else dtypes.dtype(dtype)
    numbers = _numbers(a, where)
    total = sum(_without_nan(a, 0), axis, target, None, keepdims, None, where)
    count = sum(numbers, axis, target, None, keepdims)
    return lax.div(total, broadcast_array(count, total.shape))


def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Return the variance of the numbers along axes."""
    check_no_out("nanvar", out)
    a = ensure_arraylike("nanvar", a)
    return _masked_variance(a, axis, dtype, ddof, keepdims, where, mean)


def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Return the standard deviation of the numbers along axes."""
    check_no_out("nanstd", out)
    a = ensure_arraylike("nanstd", a)
    return lax.sqrt(_masked_variance(a, axis, dtype, ddof, keepdims, where, mean))


def _masked_variance(
    a: Array, axis: Axis, dtype: DTypeLike, ddof: int, keepdims: bool, where: Any, mean: Any
) -> Array:
    numbers = _numbers(a, where)
    # NaN outside the mask must not reach the squares: its derivative would spread.
    return var(masked(a, numbers, 0), axis, dtype, None, ddof, keepdims, where=numbers, mean=mean)


def nanargmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Return the position of the largest number; -1 where there is none."""
    return _position("nanargmax", argmax, -np.inf, a, axis, out, keepdims)


def nanargmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Return the position of the smallest number; -1 where there is none."""
    return _position("nanargmin", argmin, np.inf, a, axis, out, keepdims)


def _position(
    name: str, find: Any, filler: float, a: ArrayLike, axis: Any, out: None, keepdims: bool | None
) -> Array:
    check_no_out(name, out)
    a = ensure_arraylike(name, a)
    if not dtypes.issubdtype(a.dtype, np.inexact):
        return find(a, axis, None, keepdims)
    result = find(_without_nan(a, filler), axis, None, keepdims)
    axes = reduction_axes(axis, a.ndim)
    none = lax.reduce_and(convert(lax.ne(a, a), np.dtype(np.bool_)), axes)
    none = lax.reshape(none, result.shape)
    return lax.select(none, lax.full_like(result, -1), result)
