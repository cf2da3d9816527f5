"""What an index means: NumPy's index expressions as a list of entries, one per axis they touch."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tetrax import dtypes, errors
from tetrax.numpy._convert import asarray
from tetrax.numpy._typing import Array, Shape
from tetrax.tracing.trace import Tracer, concrete_or_error, is_concrete
from tetrax.tracing.value import Value


@dataclass(frozen=True)
class NewAxis:
    """`None`: an axis of size one in the result."""


@dataclass(frozen=True)
class Span:
    """A slice of an axis: `count` positions from `start` in steps, or the whole axis."""

    axis: int
    start: int
    step: int
    count: int
    whole: bool


@dataclass(frozen=True)
class Position:
    """An integer, or an array of integers, on an axis."""

    axis: int
    value: Any  # int, np.ndarray or Value

    @property
    def shape(self) -> Shape:
        return () if isinstance(self.value, int) else tuple(self.value.shape)


Entry = NewAxis | Span | Position


@dataclass(frozen=True)
class ParsedIndex:
    """The entries of an index, in order, on an array whose shape is `shape`.

    A boolean scalar adds an axis of size one to the array before indexing; so `shape` may have more
    axes than the array itself.
    """

    shape: Shape
    entries: tuple[Entry, ...]

    @property
    def positions(self) -> list[Position]:
        return [entry for entry in self.entries if isinstance(entry, Position)]


def parse_index(index: Any, shape: Shape) -> ParsedIndex:
    """Read an index expression for an array of the given shape.

    Raises TypeError or IndexError, naming the part of the index that cannot be used.
    """
    items = [_classify(item, place) for place, item in enumerate(_as_tuple(index))]
    items = _fill_ellipsis(items, shape)
    entries: list[Entry] = []
    sizes: list[int] = []
    source = 0
    for place, item in enumerate(items):
        if item is None:
            entries.append(NewAxis())
        elif isinstance(item, (bool, np.bool_)):
            entries.append(Position(len(sizes), np.zeros(int(item), np.int32)))
            sizes.append(1)
        elif isinstance(item, _Mask):
            for positions in item.positions(shape, source, place):
                entries.append(Position(len(sizes), positions))
                sizes.append(shape[source])
                source += 1
        else:
            entries.append(_axis_entry(item, len(sizes), shape[source], place))
            sizes.append(shape[source])
            source += 1
    return ParsedIndex(tuple(sizes), tuple(entries))


# --------------------------------------------------------------------------- single items


class _Mask:
    """A boolean array of at least one axis, whose elements are known."""

    def __init__(self, mask: np.ndarray) -> None:
        self.mask = mask

    def positions(self, shape: Shape, source: int, place: int) -> tuple[np.ndarray, ...]:
        expected = shape[source : source + self.mask.ndim]
        if tuple(self.mask.shape) != tuple(expected):
            raise IndexError(
                f"boolean index did not match shape of indexed array in index {place}: "
                f"got {self.mask.shape}, expected {expected} (an array of shape {shape})"
            )
        return tuple(part.astype(np.int32) for part in np.nonzero(self.mask))


def _as_tuple(index: Any) -> tuple[Any, ...]:
    if isinstance(index, tuple):
        return index
    if isinstance(index, list):
        kind = "tuple" if any(isinstance(item, (list, tuple, slice)) for item in index) else "array"
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed; "
            f"use `arr[{kind}(seq)]` instead of `arr[seq]`."
        )
    return (index,)


def _classify(item: Any, place: int) -> Any:
    """Return an item as None, Ellipsis, bool, int, slice, integer array or `_Mask`."""
    if item is None or item is Ellipsis or isinstance(item, (slice, bool, np.bool_)):
        return item
    if isinstance(item, (int, np.integer)):
        return int(item)
    if isinstance(item, str):
        raise TypeError(f"JAX does not support string indexing; got idx={item!r}")
    if isinstance(item, Value):
        return _classify_value(item)
    if isinstance(item, (list, tuple)):
        item = _sequence(item)
        if isinstance(item, Value):
            return _classify_value(item)
    if isinstance(item, (np.ndarray, np.generic, float, complex)):
        return _classify_numpy(np.asarray(item))
    if hasattr(item, "__jax_array__"):
        return _classify_value(asarray(item))
    if hasattr(item, "__index__"):
        return operator.index(item)
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean "
        "arrays "
        f"are valid indices. Got {item!r} at place {place}"
    )


def _sequence(item: Sequence[Any]) -> Any:
    if not len(item):
        return np.zeros(np.shape(item), np.int32)
    if any(isinstance(element, Value) for element in item):
        return asarray(item)
    made = np.asarray(item)
    return asarray(item) if made.dtype == object else made


def _classify_numpy(item: np.ndarray) -> Any:
    if item.dtype == np.bool_:
        return bool(item) if item.ndim == 0 else _Mask(item)
    _check_integer(item.dtype)
    return int(item) if item.ndim == 0 else item


def _classify_value(item: Array) -> Any:
    if item.dtype == np.bool_:
        known = concrete_or_error(item, errors.NonConcreteBooleanIndexError)
        return _classify_numpy(np.asarray(known))
    _check_integer(item.dtype)
    if is_concrete(item):
        known = concrete_or_error(item, errors.TracerIntegerConversionError)
        return _classify_numpy(np.asarray(known))
    return item


def _check_integer(dtype: Any) -> None:
    if not dtypes.issubdtype(dtype, np.integer):
        raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {dtype}")


# --------------------------------------------------------------------------- axes


def _fill_ellipsis(items: list[Any], shape: Shape) -> list[Any]:
    """Replace the ellipsis, or the missing end, by whole axes."""
    used = 0
    for item in items:
        if isinstance(item, _Mask):
            used += item.mask.ndim
        elif not (item is None or item is Ellipsis or isinstance(item, (bool, np.bool_))):
            used += 1
    if used > len(shape):
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but {used} were indexed"
        )
    places = [place for place, item in enumerate(items) if item is Ellipsis]
    if len(places) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    rest = [slice(None)] * (len(shape) - used)
    if not places:
        return [*items, *rest]
    return [*items[: places[0]], *rest, *items[places[0] + 1 :]]


def _axis_entry(item: Any, axis: int, size: int, place: int) -> Entry:
    if isinstance(item, slice):
        return _span(item, axis, size, place)
    return Position(axis, item)


def _span(item: slice, axis: int, size: int, place: int) -> Span:
    if item.start is None and item.stop is None and item.step is None:
        return Span(axis, 0, 1, size, True)
    bounds = (item.start, item.stop, item.step)
    if any(isinstance(bound, Tracer) and not is_concrete(bound) for bound in bounds):
        raise IndexError(
            f"Slice entries must be static integers. Got {item} at position {place}. The size "
            f"of the "
            "result must be known: to cut a piece of known size at a traced position, use "
            "lax.dynamic_slice or lax.dynamic_slice_in_dim; to select by a condition, jnp.where."
        )
    start, stop, step = (None if bound is None else operator.index(bound) for bound in bounds)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    first, last, stride = slice(start, stop, step).indices(size)
    count = len(range(first, last, stride))
    return Span(axis, first if count else 0, stride, count, count == size and stride == 1)
