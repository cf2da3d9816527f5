"""Summaries of samples: most frequent value, ranks, standard error."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from tetrax import dtypes, lax
from tetrax import numpy as jnp
from tetrax.numpy._promote import as_inexact, ensure_arraylike


class ModeResult(NamedTuple):
    """What `mode` returns."""

    mode: Any
    count: Any


def _check_policy(name: str, policy: str) -> None:
    if policy == "omit":
        raise NotImplementedError(f"{name}: nan_policy='omit' is not supported, use 'propagate'.")
    if policy != "propagate":
        raise ValueError(f"{name}: unknown nan_policy {policy!r}; use 'propagate'.")


def mode(
    a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """Return the most frequent value along an axis (the smallest of several), and how often.

    >>> mode(np.array([2, 1, 2], np.int32)).mode
    Array(2, dtype=int32)
    """
    _check_policy("mode", nan_policy)
    x = ensure_arraylike("mode", a)
    rank = x.ndim
    if axis is None:
        x, place = x.reshape(-1), 0
    else:
        place = axis % rank
    kind = dtypes.canonicalize_dtype(np.dtype(np.int64))
    x = jnp.moveaxis(x, place, -1)
    if x.shape[-1] == 0:
        value, count = jnp.full(x.shape[:-1], np.nan), jnp.zeros(x.shape[:-1], kind)
    else:
        ordered = jnp.sort(x, axis=-1)
        places = jnp.arange(x.shape[-1])
        same = ordered[..., 1:] == ordered[..., :-1]
        if dtypes.issubdtype(x.dtype, np.inexact):
            same = same | (jnp.isnan(ordered[..., 1:]) & jnp.isnan(ordered[..., :-1]))
        first = jnp.pad(~same, [(0, 0)] * (x.ndim - 1) + [(1, 0)], constant_values=True)
        start = lax.cummax(jnp.where(first, places, 0), axis=x.ndim - 1)
        length = (places - start + 1).astype(kind)
        best = jnp.argmax(length, axis=-1, keepdims=True)
        value = jnp.take_along_axis(ordered, best, axis=-1)[..., 0]
        count = jnp.max(length, axis=-1)
    if keepdims:
        where = tuple(range(rank)) if axis is None else (place,)
        value, count = jnp.expand_dims(value, where), jnp.expand_dims(count, where)
    return ModeResult(value, count)


def rankdata(
    a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Any:
    """Return the rank of each element, from 1.

    `method` says what equal elements get: "average", "min", "max", "dense" or "ordinal".
    """
    _check_policy("rankdata", nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f"unknown method '{method}'")
    x = jnp.ravel(ensure_arraylike("rankdata", a)) if axis is None else jnp.asarray(a)
    place = 0 if axis is None else axis
    x = jnp.moveaxis(x, place, -1)
    size = x.shape[-1]
    order = jnp.argsort(x, axis=-1, stable=True)
    back = jnp.argsort(order, axis=-1, stable=True)
    float_kind = dtypes.to_inexact_dtype(back.dtype)
    if method == "ordinal":
        return jnp.moveaxis((back + 1).astype(float_kind), -1, place)
    ordered = jnp.take_along_axis(x, order, axis=-1)
    first = jnp.pad(
        ordered[..., 1:] != ordered[..., :-1],
        [(0, 0)] * (x.ndim - 1) + [(min(size, 1), 0)],
        constant_values=True,
    )
    places = jnp.arange(size)
    lowest = lax.cummax(jnp.where(first, places, 0), axis=x.ndim - 1) + 1
    last = jnp.roll(first, -1, axis=-1)
    highest = lax.cummin(jnp.where(last, places, size), axis=x.ndim - 1, reverse=True) + 1
    ranks = {
        "dense": jnp.cumsum(first, axis=-1),
        "min": lowest,
        "max": highest,
        "average": (lowest + highest) / 2,
    }[method]
    ranks = jnp.take_along_axis(ranks.astype(float_kind), back, axis=-1)
    return jnp.moveaxis(ranks, -1, place)


def sem(
    a: Any,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """Return the standard error of the mean."""
    x = as_inexact("sem", a)
    size = x.size if axis is None else x.shape[axis]
    if nan_policy == "propagate":
        return jnp.std(x, axis, ddof=ddof, keepdims=keepdims) / jnp.sqrt(size).astype(x.dtype)
    if nan_policy == "omit":
        count = jnp.sum(~jnp.isnan(x), axis, keepdims=keepdims)
        return jnp.nanstd(x, axis, ddof=ddof, keepdims=keepdims) / jnp.sqrt(count.astype(x.dtype))
    raise ValueError(f"sem: unknown nan_policy {nan_policy!r}; use 'propagate' or 'omit'.")
