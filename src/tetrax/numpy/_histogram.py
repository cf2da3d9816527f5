"""Histograms of one or several variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.numpy._at import scatter
from tetrax.numpy._convert import asarray
from tetrax.numpy._creation import linspace
from tetrax.numpy._cumulative import diff
from tetrax.numpy._promote import (
    broadcast_array,
    check_arraylike,
    check_arraylike_or_none,
    convert,
    promote_dtypes_inexact,
    to_array,
)
from tetrax.numpy._reductions import max as max_
from tetrax.numpy._reductions import min as min_
from tetrax.numpy._search import searchsorted
from tetrax.numpy._shapes import ravel
from tetrax.numpy._typing import Array, ArrayLike


def histogram_bin_edges(
    a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None
) -> Array:
    """Return the edges of the bins that `histogram` would use."""
    del weights
    if isinstance(bins, str):
        raise TypeError(f"histogram: the bins must be a number or edges; got the rule {bins!r}")
    check_arraylike("histogram_bin_edges", a, *(() if np.ndim(bins) else (bins,)))
    if np.ndim(bins) == 1:
        return convert(asarray(bins), dtypes.to_inexact_dtype(dtypes.dtype(a)))
    data = ravel(promote_dtypes_inexact(a)[0])
    if range is None:
        low, high = min_(data), max_(data)
    else:
        if np.shape(range) != (2,):
            raise ValueError(f"`range` must be either None or a sequence of scalars, got {range}")
        low, high = convert(to_array(range[0]), data.dtype), convert(to_array(range[1]), data.dtype)
    low, high = convert(low, data.dtype), convert(high, data.dtype)
    same = lax.eq(low, high)
    half = lax.full_like(low, 0.5)
    start, stop = (
        lax.select(same, lax.sub(low, half), low),
        lax.select(same, lax.add(high, half), high),
    )
    return linspace(start, stop, bins + 1, dtype=data.dtype)


def histogram(
    a: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """Count elements per bin; the last bin includes its upper edge.

    Returns the counts (sums of weights, or densities) and the edges.
    """
    check_arraylike_or_none("histogram", a, weights)
    if weights is not None and np.shape(weights) != np.shape(a):
        raise ValueError("weights should have the same shape as a.")
    (data,) = promote_dtypes_inexact(a)
    values = lax.full(data.shape, 1, data.dtype)
    if weights is not None:
        data, values = promote_dtypes_inexact(a, weights)
    edges = histogram_bin_edges(a, bins, range)
    counts = _counted(ravel(data), ravel(values), convert(edges, data.dtype))
    if density:
        counts, widths = promote_dtypes_inexact(counts, diff(edges))
        total = lax.reduce_sum(counts, (0,))
        counts = lax.div(lax.div(counts, widths), broadcast_array(total, counts.shape))
    return counts, edges


def _counted(data: Array, values: Array, edges: Array) -> Array:
    bin_count = edges.shape[0] - 1
    place = _bin_numbers(data, edges)
    inside = lax.bitwise_and(
        lax.ge(data, broadcast_array(edges[0], data.shape)),
        lax.le(data, broadcast_array(edges[-1], data.shape)),
    )
    place = lax.select(inside, place, lax.full_like(place, bin_count))
    return scatter(lax.full((bin_count,), 0, values.dtype), place, values, "add", mode="drop")


def _bin_numbers(data: Array, edges: Array) -> Array:
    """Return the bin of each element, the last edge counted into the last bin."""
    place = searchsorted(edges, data, side="right")
    at_end = lax.eq(data, broadcast_array(edges[-1], data.shape))
    place = lax.select(at_end, lax.full_like(place, edges.shape[0] - 1), place)
    return lax.sub(place, lax.full_like(place, 1))


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """Count pairs in a grid of bins; returns the counts and the edges along both axes."""
    check_arraylike("histogram2d", x, y)
    first, second = promote_dtypes_inexact(x, y)
    sample = lax.concatenate([lax.expand_dims(ravel(part), (1,)) for part in (first, second)], 1)
    if (isinstance(bins, (list, tuple)) or np.ndim(bins)) and len(bins) not in (1, 2):
        bins = [asarray(bins)] * 2
    counts, edges = histogramdd(sample, bins, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """Count points in a grid of bins, one axis per column of the sample."""
    points = _points(sample)
    count, rank = points.shape
    if range is not None and len(range) != rank:
        raise ValueError(f"range must have one entry per dimension; got {len(range)} for {rank}")
    per_axis = _bins_per_axis(bins, rank)
    edges, places, inside = [], [], None
    for i, axis_bins in enumerate(per_axis):
        column = lax.index_in_dim(points, i, 1, keepdims=False)
        axis_edges = histogram_bin_edges(column, axis_bins, None if range is None else range[i])
        edges.append(axis_edges)
        own = convert(axis_edges, points.dtype)
        places.append(_bin_numbers(column, own))
        fits = lax.bitwise_and(
            lax.ge(column, broadcast_array(own[0], column.shape)),
            lax.le(column, broadcast_array(own[-1], column.shape)),
        )
        inside = fits if inside is None else lax.bitwise_and(inside, fits)
    shape = tuple(axis_edges.shape[0] - 1 for axis_edges in edges)
    flat = places[0]
    for place, size in zip(places[1:], shape[1:], strict=True):
        flat = lax.add(lax.mul(flat, lax.full_like(flat, size)), place)
    total = math.prod(shape)
    flat = lax.select(inside, flat, lax.full_like(flat, total))
    values = _sample_weights(weights, count)
    counts = scatter(lax.full((total,), 0, values.dtype), flat, values, "add", mode="drop")
    counts = lax.reshape(counts, shape)
    if density:
        counts = _densities(counts, edges)
    return counts, edges


def _points(sample: Any) -> Array:
    if isinstance(sample, (list, tuple)):
        columns = promote_dtypes_inexact(*(ravel(part) for part in sample))
        return lax.concatenate([lax.expand_dims(column, (1,)) for column in columns], 1)
    (points,) = promote_dtypes_inexact(to_array(sample))
    if points.ndim == 1:
        return lax.expand_dims(points, (1,))
    if points.ndim != 2:
        raise ValueError(f"The sample must be a matrix of points, got shape {points.shape}")
    return points


def _bins_per_axis(bins: Any, rank: int) -> list[Any]:
    if not isinstance(bins, (list, tuple)) and np.ndim(bins) == 0:
        return [bins] * rank
    if len(bins) != rank:
        raise ValueError("should be a bin for each dimension.")
    return list(bins)


def _sample_weights(weights: ArrayLike | None, count: int) -> Array:
    if weights is None:
        return lax.full((count,), 1, dtypes.default_int_dtype())
    given = to_array(weights)
    if given.shape != (count,):
        raise ValueError("should have one weight for each sample.")
    return given


def _densities(counts: Array, edges: list[Array]) -> Array:
    computing = dtypes.to_inexact_dtype(dtypes.result_type(counts, *edges))
    counts = convert(counts, computing)
    total = lax.reduce_sum(counts, tuple(range(counts.ndim)))
    counts = lax.div(counts, broadcast_array(total, counts.shape))
    for axis, axis_edges in enumerate(edges):
        widths = convert(diff(axis_edges), computing)
        counts = lax.div(counts, lax.broadcast_in_dim(widths, counts.shape, (axis,)))
    return counts
