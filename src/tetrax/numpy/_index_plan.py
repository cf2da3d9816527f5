"""From a parsed index to the operands of one gather or one scatter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.numpy._index_parse import NewAxis, ParsedIndex, Position, Span
from tetrax.numpy._promote import broadcast_array
from tetrax.numpy._typing import Array, Shape
from tetrax.tracing.value import Value


@dataclass(frozen=True)
class IndexPlan:
    """What one gather or scatter needs.

    `shape` is the result's shape without the axes of size one that `None` adds; those stand at
    `new_axes` of the final result.
    """

    start_indices: Any
    window_dims: tuple[int, ...]
    collapsed: tuple[int, ...]
    indexed_axes: tuple[int, ...]
    slice_sizes: Shape
    shape: Shape
    new_axes: tuple[int, ...]
    single: bool


@dataclass
class _ResultDim:
    """One axis of the result: a window of a source axis, or a batch axis of the indices."""

    size: int
    window_of: int | None = None
    span: Span | None = None


def plan_index(index: ParsedIndex, *, wrap_negative: bool = True) -> IndexPlan:
    """Decide how one gather or scatter carries out an index.

    A contiguous slice becomes a window with a fixed start, any other slice an index array of its
    own; integer arrays are broadcast together and stand where NumPy puts them.
    """
    arrays = index.positions
    batch = np.broadcast_shapes(*(entry.shape for entry in arrays)) if arrays else ()
    dims, new_axes = _result_dims(index, batch)
    batch_dims = [dim for dim in dims if dim.window_of is None]
    batch_shape = tuple(dim.size for dim in batch_dims)
    array_places = [i for i, dim in enumerate(batch_dims) if dim.span is None]

    components: dict[int, Any] = {}
    slice_sizes = [1] * len(index.shape)
    for entry in index.entries:
        if isinstance(entry, Position):
            value = _normalised(entry.value, index.shape[entry.axis], wrap_negative)
            rank = len(entry.shape)
            components[entry.axis] = (value, array_places[len(batch) - rank :])
        elif isinstance(entry, Span):
            if entry.step == 1:
                slice_sizes[entry.axis] = entry.count
                if not entry.whole:
                    components[entry.axis] = (np.int32(entry.start), [])
            else:
                place = next(i for i, dim in enumerate(batch_dims) if dim.span is entry)
                steps = entry.start + entry.step * np.arange(entry.count, dtype=np.int32)
                components[entry.axis] = (steps.astype(np.int32), [place])
    axes = tuple(sorted(components))
    return IndexPlan(
        start_indices=_stacked([components[axis] for axis in axes], batch_shape),
        window_dims=tuple(i for i, dim in enumerate(dims) if dim.window_of is not None),
        collapsed=tuple(sorted(_collapsed_axes(index))),
        indexed_axes=axes,
        slice_sizes=tuple(slice_sizes),
        shape=tuple(dim.size for dim in dims),
        new_axes=new_axes,
        single=not batch_shape,
    )


def _collapsed_axes(index: ParsedIndex) -> list[int]:
    return [
        entry.axis
        for entry in index.entries
        if isinstance(entry, Position) or (isinstance(entry, Span) and entry.step != 1)
    ]


def _result_dims(index: ParsedIndex, batch: Shape) -> tuple[list[_ResultDim], tuple[int, ...]]:
    """Lay out the result's axes; the index arrays go first where they do not stand together."""
    entries = index.entries
    places = [i for i, entry in enumerate(entries) if isinstance(entry, Position)]
    together = not places or places == list(range(places[0], places[-1] + 1))
    batch_dims = [_ResultDim(size) for size in batch]
    dims: list[_ResultDim | None] = [] if together else list(batch_dims)
    for i, entry in enumerate(entries):
        if isinstance(entry, NewAxis):
            dims.append(None)
        elif isinstance(entry, Span):
            window = entry.axis if entry.step == 1 else None
            dims.append(_ResultDim(entry.count, window, entry))
        elif together and i == places[0]:
            dims.extend(batch_dims)
    new_axes = tuple(i for i, dim in enumerate(dims) if dim is None)
    return [dim for dim in dims if dim is not None], new_axes


# --------------------------------------------------------------------------- index arrays


def _normalised(value: Any, size: int, wrap_negative: bool) -> Any:
    """Count negative indices from the end; a dtype too narrow to do so is widened first."""
    if isinstance(value, int):
        value = value + size if value < 0 and wrap_negative else value
        return np.int32(value) if -(2**31) <= value < 2**31 else np.int64(value)
    if isinstance(value, np.ndarray):
        wide = value.astype(np.int64)
        wide = np.where(wide < 0, wide + size, wide) if wrap_negative else wide
        limits = np.iinfo(np.int32)
        # What lies outside 32 bits lies outside the array as well, and must stay there.
        return np.clip(wide, limits.min, limits.max).astype(np.int32)
    if value.dtype.kind == "u" or not wrap_negative:
        return index_dtype(value)
    value = index_dtype(value)
    negative = lax.lt(value, value.dtype.type(0))
    return lax.select(negative, lax.add(value, value.dtype.type(size)), value)


def index_dtype(value: Array) -> Array:
    """Convert traced indices to 32 bits, or to 64 where their own dtype holds more."""
    wide = value.dtype.itemsize == 8 or (value.dtype == np.uint32)
    target = dtypes.canonicalize_dtype(np.dtype(np.int64)) if wide else np.dtype(np.int32)
    return lax.convert_element_type(value, target)


def _stacked(components: Sequence[tuple[Any, Sequence[int]]], batch_shape: Shape) -> Any:
    """Broadcast the index arrays of all axes and stack them along a last axis."""
    if not components:
        return np.zeros((*batch_shape, 0), np.int32)
    if not any(isinstance(value, Value) for value, _ in components):
        spread = [_spread_numpy(value, places, batch_shape) for value, places in components]
        return np.stack(spread, axis=-1).astype(np.int32)
    dtype = max((value.dtype for value, _ in components), key=lambda dtype: dtype.itemsize)
    columns = []
    for value, places in components:
        value = lax.convert_element_type(value, dtype)
        fitting = tuple(batch_shape[place] for place in places)
        value = broadcast_array(value, fitting)
        columns.append(
            lax.broadcast_in_dim(value, (*batch_shape, 1), tuple(places))
            if value.ndim
            else lax.full((*batch_shape, 1), value, dtype)
        )
    return columns[0] if len(columns) == 1 else lax.concatenate(columns, len(batch_shape))


def _spread_numpy(value: np.ndarray, places: Sequence[int], batch_shape: Shape) -> np.ndarray:
    shape = [1] * len(batch_shape)
    for place, size in zip(places, value.shape, strict=True):
        shape[place] = size
    return np.broadcast_to(np.reshape(value, shape), batch_shape)
