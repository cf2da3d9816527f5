"""Finding where values belong in sorted arrays, and counting them."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from tetrax import dtypes, errors, lax
from tetrax.numpy._arithmetic import less
from tetrax.numpy._at import scatter
from tetrax.numpy._gather import take_positions
from tetrax.numpy._promote import (
    broadcast_array,
    check_arraylike,
    convert,
    ensure_arraylike,
    promote_dtypes,
    to_array,
)
from tetrax.numpy._shapes import ravel
from tetrax.numpy._typing import Array, ArrayLike
from tetrax.tracing.trace import concrete_or_error

_BOOL = np.dtype(np.bool_)


def _before(x: Array, y: Array) -> Array:
    """Tell where `x` sorts before `y`: NaN sorts last."""
    smaller = less(x, y)
    if not dtypes.issubdtype(x.dtype, np.inexact):
        return convert(smaller, _BOOL)
    last = lax.bitwise_and(lax.eq(x, x), lax.ne(y, y))
    return convert(lax.bitwise_or(smaller, last), _BOOL)


def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str = "scan",
) -> Array:
    """Return the positions at which values go into a sorted array so that it stays sorted.

    Methods: "scan" and "scan_unrolled" search by halves, "sort" sorts both together, "compare_all"
    compares everything with everything. All give the same result.

    >>> searchsorted(np.array([1, 2, 2, 5]), 2)
    Array(1, dtype=int32)
    """
    check_arraylike("searchsorted", a, v)
    if side not in ("left", "right"):
        raise ValueError(f"invalid argument side={side!r}, expected 'left' or 'right'")
    if method not in _METHODS:
        raise ValueError(
            f"invalid argument method={method!r}, expected one of {', '.join(map(repr, _METHODS))}"
        )
    if np.ndim(a) != 1:
        raise ValueError("a should be 1-dimensional")
    haystack, needles = promote_dtypes(a, v)
    if sorter is not None:
        haystack = take_positions(haystack, ensure_arraylike("searchsorted", sorter), 0)
    dtype = np.dtype(np.int32)
    if haystack.size == 0:
        return lax.full(needles.shape, 0, dtype)
    haystack, needles = convert(haystack, haystack.dtype), convert(needles, needles.dtype)
    return _METHODS[method](haystack, needles, side == "left", dtype)


def _by_halves(a: Array, v: Array, left: bool, dtype: np.dtype) -> Array:
    low, high = lax.full(v.shape, 0, dtype), lax.full(v.shape, a.size, dtype)
    steps = math.ceil(math.log2(a.size + 1))

    def halve(_: Any, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = lax.div(lax.add(low, high), lax.full_like(low, 2))
        flat = take_positions(a, lax.min(ravel(middle), dtype.type(a.size - 1)), 0)
        probe = lax.reshape(flat, v.shape)
        go_right = _before(probe, v) if left else lax.bitwise_not(_before(v, probe))
        go_right = lax.bitwise_and(go_right, lax.lt(low, high))
        next_low = lax.select(go_right, lax.add(middle, lax.full_like(middle, 1)), low)
        return next_low, lax.select(go_right, high, middle)

    return lax.fori_loop(0, steps, halve, (low, high))[0]


def _by_sorting(a: Array, v: Array, left: bool, dtype: np.dtype) -> Array:
    flat = ravel(v)
    parts = [flat, a] if left else [a, flat]
    places = lax.iota(dtype, a.size + flat.size)
    order = lax.sort((lax.concatenate(parts, 0), places), num_keys=1)[1]
    first = dtype.type(0 if left else a.size)
    needle = lax.sub(order, lax.full_like(order, first))
    is_needle = lax.bitwise_and(
        lax.ge(needle, lax.full_like(needle, 0)), lax.lt(needle, lax.full_like(needle, flat.size))
    )
    passed = lax.cumsum(lax.convert_element_type(lax.bitwise_not(is_needle), dtype))
    target = lax.select(is_needle, needle, lax.full_like(needle, flat.size))
    found = scatter(lax.full((flat.size,), 0, dtype), target, passed, "set", mode="drop")
    return lax.reshape(found, v.shape)


def _by_comparing_all(a: Array, v: Array, left: bool, dtype: np.dtype) -> Array:
    shape = (*v.shape, a.size)
    items = broadcast_array(a, shape)
    values = lax.broadcast_in_dim(v, shape, tuple(range(v.ndim)))
    passed = _before(items, values) if left else lax.bitwise_not(_before(values, items))
    return lax.reduce_sum(lax.convert_element_type(passed, dtype), (v.ndim,))


_METHODS = {
    "scan": _by_halves,
    "scan_unrolled": _by_halves,
    "sort": _by_sorting,
    "compare_all": _by_comparing_all,
}


def digitize(
    x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None
) -> Array:
    """Return the number of the bin each value falls into; the bins may ascend or descend."""
    check_arraylike("digitize", x, bins)
    edges = to_array(bins)
    if edges.ndim != 1:
        raise ValueError(f"digitize: bins must be a 1-dimensional array; got {edges.shape}")
    how = "scan" if method is None else method
    if edges.shape[0] == 0:
        return lax.full(np.shape(x), 0, np.int32)
    side = "left" if right else "right"
    up = searchsorted(edges, x, side=side, method=how)
    down = searchsorted(lax.rev(edges, (0,)), x, side=side, method=how)
    ascends = lax.ge(edges[-1], edges[0])
    down = lax.sub(lax.full_like(down, edges.shape[0]), down)
    return lax.select(broadcast_array(ascends, up.shape), up, down)


def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Count, or add the weights of, each non-negative integer.

    The largest value decides the size: under `jit`, give the `length`; larger values are then
    left out.

    >>> bincount(np.array([1, 1, 3]))
    Array([0, 2, 0, 1], dtype=int32)
    """
    x = ensure_arraylike("bincount", x)
    if x.dtype == np.bool_:
        x = lax.convert_element_type(x, np.int32)
    if not dtypes.issubdtype(x.dtype, np.integer):
        raise TypeError(f"x argument to bincount must have an integer type; got {x.dtype}")
    if x.ndim != 1:
        raise ValueError("only 1-dimensional input supported.")
    minlength = operator.index(minlength)
    if length is None:
        known = np.asarray(
            concrete_or_error(
                x,
                errors.ConcretizationTypeError,
                "The error occurred because of argument 'x' of jnp.bincount. To avoid this "
                "error, pass a "
                "static `length` argument.",
            )
        )
        length = max(minlength, int(known.max(initial=-1)) + 1)
    else:
        length = operator.index(length)
    values: Any = np.int32(1)
    if weights is not None:
        values = ensure_arraylike("bincount", weights)
        if values.shape != x.shape:
            raise ValueError("shape of weights must match shape of x.")
    dtype = dtypes.default_int_dtype() if weights is None else values.dtype
    places = lax.max(x, lax.full_like(x, 0)) if dtypes.issubdtype(x.dtype, np.signedinteger) else x
    empty = lax.full((length,), 0, dtype)
    counts = scatter(empty, places, convert(values, dtype), "add", mode="drop")
    return counts if out_sharding is None else lax.with_sharding_constraint(counts, out_sharding)
