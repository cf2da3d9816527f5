"""Reductions over segments: rows of an array, grouped by a number per row."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes, errors
from tetrax import numpy as jnp
from tetrax.tracing.trace import concrete_or_error

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def _lowest(dtype: np.dtype) -> Any:
    if dtype == np.bool_:
        return False
    return -np.inf if dtypes.issubdtype(dtype, np.inexact) else dtypes.iinfo(dtype).min


def _highest(dtype: np.dtype) -> Any:
    if dtype == np.bool_:
        return True
    return np.inf if dtypes.issubdtype(dtype, np.inexact) else dtypes.iinfo(dtype).max


# Method of `x.at[...]`, what an empty segment holds, how buckets are put together.
_KINDS: dict[str, tuple[str, Any, Any]] = {
    "segment_sum": ("add", lambda dtype: 0, jnp.sum),
    "segment_prod": ("multiply", lambda dtype: 1, jnp.prod),
    "segment_max": ("max", _lowest, jnp.max),
    "segment_min": ("min", _highest, jnp.min),
}


def _reduce(
    name: str,
    data: Any,
    segment_ids: Any,
    num_segments: int | None,
    indices_are_sorted: bool,
    unique_indices: bool,
    bucket_size: int | None,
    mode: Any,
) -> Any:
    method, empty, gather = _KINDS[name]
    data, ids = jnp.asarray(data), jnp.asarray(segment_ids)
    if num_segments is None:
        num_segments = int(np.max(np.asarray(ids), initial=-1)) + 1
    count = int(concrete_or_error(num_segments, errors.ConcretizationTypeError, name))
    if count < 0:
        raise ValueError(f"num_segments must be non-negative, got {count}")
    fill = empty(data.dtype)
    # Outside the range means dropped, on both sides; plain indexing would wrap negative numbers.
    wrapped = jnp.where(ids < 0, count, ids)

    def scattered(rows: Any, places: Any) -> Any:
        out = jnp.full((count, *data.shape[1:]), fill, data.dtype)
        return getattr(out.at[places], method)(
            rows,
            mode="drop" if mode is None else mode,
            indices_are_sorted=indices_are_sorted and bucket_size is None,
            unique_indices=unique_indices,
        )

    rows = ids.shape[0] if ids.ndim else 1
    if bucket_size is None or bucket_size >= rows:
        return scattered(data, wrapped)
    starts = range(0, rows, bucket_size)
    parts = [scattered(data[s : s + bucket_size], wrapped[s : s + bucket_size]) for s in starts]
    return gather(jnp.stack(parts), axis=0).astype(data.dtype)


def segment_sum(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Sum the rows of each segment; rows numbered outside `[0, num_segments)` are dropped.

    >>> segment_sum(np.array([1.0, 2.0, 3.0], np.float32), np.array([0, 1, 0]), 2)
    Array([4., 2.], dtype=float32)
    """
    return _reduce(
        "segment_sum", data, segment_ids, num_segments, indices_are_sorted, unique_indices,
        bucket_size, mode,
    )  # fmt: skip


def segment_prod(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Multiply the rows of each segment; an empty segment gives 1."""
    return _reduce(
        "segment_prod", data, segment_ids, num_segments, indices_are_sorted, unique_indices,
        bucket_size, mode,
    )  # fmt: skip


def segment_max(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return the largest row of each segment; an empty segment gives the lowest number."""
    return _reduce(
        "segment_max", data, segment_ids, num_segments, indices_are_sorted, unique_indices,
        bucket_size, mode,
    )  # fmt: skip


def segment_min(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return the smallest row of each segment; an empty segment gives the highest number."""
    return _reduce(
        "segment_min", data, segment_ids, num_segments, indices_are_sorted, unique_indices,
        bucket_size, mode,
    )  # fmt: skip
