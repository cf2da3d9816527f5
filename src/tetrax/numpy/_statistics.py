"""Averages, quantiles, covariances."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.numpy._elementwise import constant_like
from tetrax.numpy._gather import take_positions
from tetrax.numpy._join import concatenate
from tetrax.numpy._promote import (
    broadcast_array,
    canonicalize_axes,
    check_arraylike,
    check_arraylike_or_none,
    convert,
    promote_dtypes_inexact,
    to_array,
    user_dtype,
)
from tetrax.numpy._reductions import kept_shape, mean
from tetrax.numpy._reductions import sum as sum_
from tetrax.numpy._shapes import atleast_2d
from tetrax.numpy._typing import Array, ArrayLike, Axis, DTypeLike

_BOOL = np.dtype(np.bool_)


# --------------------------------------------------------------------------- average


def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """Return the weighted average along axes; with `returned`, the sum of weights as well."""
    check_arraylike_or_none("average", a, weights)
    x = to_array(a)
    if weights is None:
        result = mean(x, axis=axis, keepdims=keepdims)
        axes = canonicalize_axes(axis, x.ndim)
        total = lax.full_like(result, math.prod(x.shape[i] for i in axes))
        return (result, total) if returned else result
    w = to_array(weights)
    x, w = promote_dtypes_inexact(x, w)
    x, w = convert(x, x.dtype), convert(w, w.dtype)
    if x.shape != w.shape:
        w = _aligned_weights(x, w, axis)
    total = sum_(w, axis=axis, keepdims=keepdims)
    result = lax.div(sum_(lax.mul(x, w), axis=axis, keepdims=keepdims), total)
    return (result, total) if returned else result


def _aligned_weights(x: Array, w: Array, axis: Axis) -> Array:
    if axis is None:
        raise ValueError("Axis must be specified when shapes of a and weights differ.")
    axes = canonicalize_axes(axis, x.ndim)
    if w.ndim != len(axes) or w.shape != tuple(x.shape[i] for i in axes):
        raise ValueError(
            f"Shape of weights {w.shape} must be consistent with the shape of a {x.shape} along "
            f"the "
            f"specified axis {axis}."
        )
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    return lax.broadcast_in_dim(lax.transpose(w, order), x.shape, tuple(sorted(axes)))


# --------------------------------------------------------------------------- quantiles


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Return the values below which given fractions of the elements lie; NaN where there is one.

    Methods: linear, lower, higher, midpoint, nearest, inverted_cdf (the only one with weights).

    >>> quantile(np.arange(5), 0.25)
    Array(1., dtype=float32)
    """
    return _quantile("quantile", a, q, axis, out, overwrite_input, method, keepdims, weights, False)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Return the values below which given fractions of the numbers lie, NaN left out of account."""
    return _quantile(
        "nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights, True
    )


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Return the values below which given percentages of the elements lie."""
    fractions = _hundredths("percentile", q)
    result = _quantile(
        "percentile", a, fractions, axis, out, overwrite_input, method, keepdims, weights, False
    )
    return result if out_sharding is None else lax.with_sharding_constraint(result, out_sharding)


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Return the values below which given percentages of the numbers lie."""
    fractions = _hundredths("nanpercentile", q)
    return _quantile(
        "nanpercentile", a, fractions, axis, out, overwrite_input, method, keepdims, weights, True
    )


def _hundredths(name: str, q: ArrayLike) -> Array:
    check_arraylike(name, q)
    (percent,) = promote_dtypes_inexact(q)
    return lax.div(percent, constant_like(percent, 100.0))


def median(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Return the middle value along axes; NaN where there is one."""
    return _quantile("median", a, 0.5, axis, out, overwrite_input, "linear", keepdims, None, False)


def nanmedian(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Return the middle of the numbers along axes."""
    return _quantile(
        "nanmedian", a, 0.5, axis, out, overwrite_input, "linear", keepdims, None, True
    )


def _quantile(
    name: str,
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis,
    out: None,
    overwrite_input: bool,
    method: str,
    keepdims: bool,
    weights: ArrayLike | None,
    skip_nan: bool,
) -> Array:
    check_arraylike_or_none(name, a, q, weights)
    if overwrite_input or out is not None:
        raise ValueError(f"jax.numpy.{name} does not support overwrite_input=True or out != None")
    if method not in _METHODS:
        raise ValueError(
            "method can only be 'linear', 'lower', 'higher', 'midpoint', 'nearest' or "
            "'inverted_cdf'"
        )
    if weights is not None and method != "inverted_cdf":
        raise NotImplementedError(
            f"{method} doesn't support weights. Only method 'inverted_cdf' supports weights."
        )
    x, fractions = _quantile_operands(a, q)
    axes = canonicalize_axes(axis, x.ndim)
    kept = kept_shape(x.shape, axes)
    rows, w = _rows(x, axes), None
    if weights is not None:
        w = _weight_rows(to_array(weights), x, axes, rows)
    flat = fractions if fractions.ndim else lax.reshape(fractions, (1,))
    result = _row_quantiles(rows, flat, method, w, skip_nan)
    outer = rows.shape[:-1]
    result = lax.reshape(result, (*fractions.shape, *outer))
    if keepdims:
        result = lax.reshape(result, (*fractions.shape, *kept))
    return convert(result, dtypes.to_inexact_dtype(to_array(a).dtype))


def _quantile_operands(a: ArrayLike, q: ArrayLike) -> tuple[Array, Array]:
    x, fractions = to_array(a), to_array(q)
    if fractions.ndim > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {fractions.shape}")
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        raise ValueError(
            "quantile does not support complex input, as the operation is poorly defined."
        )
    dtype = dtypes.to_inexact_dtype(x.dtype)
    computing = np.dtype(np.float32) if dtypes.itemsize_bits(dtype) < 32 else dtype
    return convert(x, computing), convert(fractions, computing)


def _rows(x: Array, axes: tuple[int, ...]) -> Array:
    """Move the reduced axes to the end and merge them into one."""
    rest = [i for i in range(x.ndim) if i not in axes]
    moved = lax.transpose(x, (*rest, *axes))
    outer = tuple(x.shape[i] for i in rest)
    return lax.reshape(moved, (*outer, math.prod(x.shape[i] for i in axes)))


def _weight_rows(w: Array, x: Array, axes: tuple[int, ...], rows: Array) -> Array:
    w = convert(w, rows.dtype)
    if w.shape == x.shape:
        return _rows(w, axes)
    if w.ndim == len(axes) and w.shape == tuple(x.shape[i] for i in axes):
        return broadcast_array(lax.reshape(w, (w.size,)), rows.shape)
    raise ValueError(
        f"weights of shape {w.shape} do not fit a of shape {x.shape} along axes {axes}"
    )


def _row_quantiles(
    rows: Array, q: Array, method: str, weights: Array | None, skip_nan: bool
) -> Array:
    """Return, for each fraction (first axis), the quantile of each row."""
    size = rows.shape[-1]
    outer = rows.shape[:-1]
    shape = (q.shape[0], *outer)
    if size == 0:
        return lax.full(shape, np.nan, rows.dtype)
    is_nan = convert(lax.ne(rows, rows), _BOOL)
    last = (rows.ndim - 1,)
    if weights is not None:
        result = _weighted(rows, q, weights, is_nan, skip_nan)
    else:
        ordered = lax.sort(rows, dimension=rows.ndim - 1)
        counts = lax.full(outer, size, rows.dtype)
        if skip_nan:
            numbers = lax.convert_element_type(lax.bitwise_not(is_nan), rows.dtype)
            counts = lax.reduce_sum(numbers, last)
        result = _METHODS[method](ordered, _wide(q, shape), broadcast_array(counts, shape))
        if skip_nan:
            none = broadcast_array(lax.eq(counts, lax.full_like(counts, 0)), shape)
            result = lax.select(none, lax.full_like(result, np.nan), result)
    if not skip_nan:
        spoilt = broadcast_array(lax.reduce_or(is_nan, last), shape)
        result = lax.select(spoilt, lax.full_like(result, np.nan), result)
    return result


def _wide(q: Array, shape: tuple[int, ...]) -> Array:
    return lax.broadcast_in_dim(q, shape, (0,))


def _pick(ordered: Array, position: Array) -> Array:
    """Take, from each row, the element at a position given per fraction and row."""
    size = ordered.shape[-1]
    count = position.shape[0]
    place = lax.convert_element_type(
        lax.clamp(
            lax.full((), 0, position.dtype), position, lax.full((), size - 1, position.dtype)
        ),
        np.int32,
    )
    rows = math.prod(ordered.shape[:-1])
    flat = lax.reshape(ordered, (rows * size,))
    starts = lax.mul(lax.iota(np.int32, rows), np.int32(size))
    places = lax.add(
        lax.reshape(place, (count, rows)), lax.broadcast_in_dim(starts, (count, rows), (1,))
    )
    taken = take_positions(flat, lax.reshape(places, (count * rows,)), 0)
    return lax.reshape(taken, position.shape)


def _neighbours(q: Array, counts: Array) -> tuple[Array, Array, Array]:
    """Return the positions on either side of each fraction, and how far it is to the second."""
    top = lax.sub(counts, lax.full_like(counts, 1))
    exact = lax.mul(q, top)
    low, high = lax.floor(exact), lax.ceil(exact)
    zero = lax.full_like(low, 0)
    top = lax.max(top, zero)
    return lax.clamp(zero, low, top), lax.clamp(zero, high, top), lax.sub(exact, lax.floor(exact))


def _linear(ordered: Array, q: Array, counts: Array) -> Array:
    low, high, weight = _neighbours(q, counts)
    below, above = _pick(ordered, low), _pick(ordered, high)
    # Two equal neighbours stay as they are, infinities included.
    between = lax.add(
        lax.mul(below, lax.sub(lax.full_like(weight, 1), weight)), lax.mul(above, weight)
    )
    same = lax.bitwise_or(lax.eq(below, above), lax.eq(weight, lax.full_like(weight, 0)))
    return lax.select(same, below, between)


def _lower(ordered: Array, q: Array, counts: Array) -> Array:
    return _pick(ordered, _neighbours(q, counts)[0])


def _higher(ordered: Array, q: Array, counts: Array) -> Array:
    return _pick(ordered, _neighbours(q, counts)[1])


def _nearest(ordered: Array, q: Array, counts: Array) -> Array:
    low, high, weight = _neighbours(q, counts)
    near_low = lax.le(weight, lax.full_like(weight, 0.5))
    return lax.select(near_low, _pick(ordered, low), _pick(ordered, high))


def _midpoint(ordered: Array, q: Array, counts: Array) -> Array:
    low, high, _ = _neighbours(q, counts)
    below, above = _pick(ordered, low), _pick(ordered, high)
    middle = lax.mul(lax.add(below, above), lax.full_like(below, 0.5))
    return lax.select(lax.eq(below, above), below, middle)


def _inverted_cdf(ordered: Array, q: Array, counts: Array) -> Array:
    position = lax.sub(lax.ceil(lax.mul(q, counts)), lax.full_like(q, 1))
    return _pick(ordered, lax.max(position, lax.full_like(position, 0)))


_METHODS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "linear": _linear,
    "lower": _lower,
    "higher": _higher,
    "nearest": _nearest,
    "midpoint": _midpoint,
    "inverted_cdf": _inverted_cdf,
}


def _weighted(rows: Array, q: Array, weights: Array, is_nan: Array, skip_nan: bool) -> Array:
    """Find the first element at which the summed weights reach each fraction of the total."""
    if skip_nan:
        weights = lax.select(is_nan, lax.full_like(weights, 0), weights)
    axis = rows.ndim - 1
    ordered, w = lax.sort((rows, weights), dimension=axis, num_keys=1)
    reached = lax.cumsum(w, axis)
    total = lax.index_in_dim(reached, rows.shape[-1] - 1, axis, keepdims=False)
    shape = (q.shape[0], *rows.shape)
    goal = lax.mul(
        _wide(q, (q.shape[0], *total.shape)), broadcast_array(total, (q.shape[0], *total.shape))
    )
    goal = lax.broadcast_in_dim(goal, shape, tuple(range(len(shape) - 1)))
    short = lax.lt(broadcast_array(reached, shape), goal)
    weightless = broadcast_array(lax.le(reached, lax.full_like(reached, 0)), shape)
    passed = lax.bitwise_or(short, weightless)
    position = lax.reduce_sum(lax.convert_element_type(passed, rows.dtype), (len(shape) - 1,))
    return _pick(ordered, position)


# --------------------------------------------------------------------------- covariance


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike = None,
) -> Array:
    """Estimate the covariance matrix of variables, one per row (per column with `rowvar=False`)."""
    check_arraylike_or_none("cov", m, y, fweights, aweights)
    data = _observations(m, y, rowvar, dtype)
    if ddof is None:
        ddof = 0 if bias else 1
    count = data.shape[1]
    w = _observation_weights(count, fweights, aweights, data.dtype)
    if w is None:
        center = mean(data, axis=1, keepdims=True)
        freedom = lax.full((), count - ddof, data.dtype)
        total = None
    else:
        total = lax.reduce_sum(w, (0,))
        weighted = lax.mul(data, broadcast_array(w, data.shape))
        center = lax.div(
            lax.expand_dims(lax.reduce_sum(weighted, (1,)), (1,)),
            broadcast_array(total, (data.shape[0], 1)),
        )
        freedom = _freedom(total, w, aweights, ddof)
    distance = lax.sub(data, lax.broadcast_in_dim(center, data.shape, (0, 1)))
    scaled = distance if w is None else lax.mul(distance, broadcast_array(w, distance.shape))
    other = lax.conj(distance) if dtypes.issubdtype(data.dtype, np.complexfloating) else distance
    product = lax.dot_general(scaled, other, (((1,), (1,)), ((), ())))
    result = lax.div(product, broadcast_array(freedom, product.shape))
    return lax.squeeze(result, tuple(i for i, size in enumerate(result.shape) if size == 1))


def _observations(m: ArrayLike, y: ArrayLike | None, rowvar: bool, dtype: DTypeLike) -> Array:
    parts = [to_array(m)] if y is None else [to_array(m), to_array(y)]
    if any(part.ndim > 2 for part in parts):
        raise ValueError("m and y must have at most 2 dimensions")
    if dtype is not None:
        target = user_dtype(dtype, "cov")
        parts = [convert(part, target) for part in parts]
    parts = promote_dtypes_inexact(*parts)
    rows = []
    for part in parts:
        matrix = atleast_2d(part)
        if not rowvar and part.ndim == 2:
            matrix = lax.transpose(matrix, (1, 0))
        rows.append(convert(matrix, matrix.dtype))
    return concatenate(rows, axis=0)


def _observation_weights(count: int, fweights: Any, aweights: Any, dtype: np.dtype) -> Array | None:
    result = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        w = to_array(given)
        if w.ndim > 1:
            raise RuntimeError(f"cannot handle multidimensional {name}")
        if w.shape and w.shape[0] != count:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if name == "fweights" and not dtypes.issubdtype(w.dtype, np.integer):
            raise TypeError("fweights must be integer.")
        w = convert(broadcast_array(lax.abs(w), (count,)), dtype)
        result = w if result is None else lax.mul(result, w)
    return result


def _freedom(total: Array, w: Array, aweights: Any, ddof: int) -> Array:
    if ddof == 0:
        return total
    if aweights is None:
        return lax.sub(total, lax.full_like(total, ddof))
    own = convert(to_array(aweights), w.dtype)
    share = lax.div(lax.reduce_sum(lax.mul(w, broadcast_array(lax.abs(own), w.shape)), (0,)), total)
    return lax.sub(total, lax.mul(lax.full_like(total, ddof), share))


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike = None
) -> Array:
    """Return the matrix of correlation coefficients, between -1 and 1."""
    check_arraylike_or_none("corrcoef", x, y)
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return lax.div(c, c)
    size = c.shape[0]
    variances = _main_diagonal(c)
    deviation = lax.sqrt(lax.real(variances) if variances.dtype.kind == "c" else variances)
    deviation = convert(deviation, c.dtype)
    c = lax.div(c, lax.broadcast_in_dim(deviation, (size, size), (0,)))
    c = lax.div(c, lax.broadcast_in_dim(deviation, (size, size), (1,)))
    if c.dtype.kind == "c":
        return lax.complex(_clipped(lax.real(c)), _clipped(lax.imag(c)))
    return _clipped(c)


def _main_diagonal(c: Array) -> Array:
    size = c.shape[0]
    return take_positions(lax.reshape(c, (size * size,)), np.arange(size) * (size + 1), 0)


def _clipped(x: Array) -> Array:
    return lax.clamp(lax.full((), -1, x.dtype), x, lax.full((), 1, x.dtype))
