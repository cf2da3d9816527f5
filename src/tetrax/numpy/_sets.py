"""Arrays as sets: unique elements, union, intersection, difference, membership.

How many elements a result has depends on the values. Outside `jit` they are known; inside, the
size must be given, and places left over are filled.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from tetrax import dtypes, lax
from tetrax.numpy._at import scatter
from tetrax.numpy._gather import take_positions
from tetrax.numpy._join import concatenate
from tetrax.numpy._promote import (
    broadcast_array,
    canonicalize_axis,
    check_arraylike,
    convert,
    ensure_arraylike,
    promote_dtypes,
)
from tetrax.numpy._search import searchsorted
from tetrax.numpy._select import known_values, nonzero
from tetrax.numpy._shapes import moveaxis, ravel
from tetrax.numpy._typing import Array, ArrayLike

_BOOL = np.dtype(np.bool_)


class _UniqueAllResult(NamedTuple):
    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class _UniqueCountsResult(NamedTuple):
    values: Array
    counts: Array


class _UniqueInverseResult(NamedTuple):
    values: Array
    inverse_indices: Array


# --------------------------------------------------------------------------- unique


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """Return the distinct elements, sorted, or the distinct slices along an axis.

    Optionally also: where each first occurs, which one each element is, how often each occurs.
    Under `jit`, `size` is needed; places left over get `fill_value`, by default the smallest
    element.

    >>> unique(np.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    del sorted
    a = ensure_arraylike("unique", ar)
    shape = a.shape
    if axis is None:
        rows = lax.reshape(a, (a.size, 1))
    else:
        axis = canonicalize_axis(axis, a.ndim)
        moved = moveaxis(a, axis, 0)
        rows = lax.reshape(moved, (shape[axis], int(np.prod(moved.shape[1:], dtype=int))))
    alone = not (return_index or return_inverse or return_counts)
    if alone and rows.shape[1] == 1 and rows.shape[0]:
        # Without positions the sort takes half the time.
        order = None
        rows = lax.reshape(lax.sort(lax.reshape(rows, rows.shape[:1])), rows.shape)
        starts = _starts([lax.reshape(rows, rows.shape[:1])], equal_nan)
    else:
        order, starts = _sorted_groups(rows, equal_nan)
    count = int(known_values(starts, "unique").sum()) if size is None else operator.index(size)
    firsts, valid = _group_starts(starts, count)
    index = firsts if order is None else take_positions(order, firsts, 0)
    values = _filled_rows(take_positions(rows, index, 0), valid, fill_value, axis, shape)
    if alone:
        return values
    result: list[Array] = [values]
    index_dtype = dtypes.default_int_dtype()
    if return_index:
        result.append(convert(index, index_dtype))
    if return_inverse:
        result.append(_inverse(order, starts, shape if axis is None else None))
    if return_counts:
        result.append(_counts(starts, firsts, valid, index_dtype))
    return tuple(result)


def _sorted_groups(rows: Array, equal_nan: bool) -> tuple[Array, Array]:
    """Sort rows; return the order and, for each row in it, whether a new group starts there."""
    size, width = rows.shape
    places = lax.iota(np.int32, size)
    if size == 0 or width == 0:
        return places, lax.lt(places, lax.full_like(places, min(size, 1)))
    columns = [lax.index_in_dim(rows, i, 1, keepdims=False) for i in range(width)]
    *keys, order = lax.sort((*columns, places), num_keys=width)
    return order, _starts(keys, equal_nan)


def _starts(keys: Sequence[Array], equal_nan: bool) -> Array:
    """Tell for each place of sorted keys whether a new group starts there."""
    size = keys[0].shape[0]
    differs = None
    for key in keys:
        later, earlier = lax.slice_in_dim(key, 1, size), lax.slice_in_dim(key, 0, size - 1)
        new = lax.ne(later, earlier)
        if equal_nan and dtypes.issubdtype(key.dtype, np.inexact):
            both = lax.bitwise_and(lax.ne(later, later), lax.ne(earlier, earlier))
            new = lax.bitwise_and(new, lax.bitwise_not(both))
        new = convert(new, _BOOL)
        differs = new if differs is None else lax.bitwise_or(differs, new)
    return lax.concatenate([lax.full((1,), True, _BOOL), differs], 0)


def _group_starts(starts: Array, count: int) -> tuple[Array, Array]:
    """Return where the groups start, `count` of them, and which of these are real."""
    total = starts.shape[0]
    firsts = nonzero(starts, size=count, fill_value=total)[0]
    valid = lax.lt(firsts, lax.full_like(firsts, total))
    return lax.select(valid, firsts, lax.full_like(firsts, 0)), valid


def _filled_rows(
    values: Array, valid: Array, fill_value: Any, axis: int | None, shape: tuple[int, ...]
) -> Array:
    count = values.shape[0]
    if count:
        keep = lax.broadcast_in_dim(valid, values.shape, (0,))
        if fill_value is None:
            filler = broadcast_array(lax.slice_in_dim(values, 0, 1), values.shape)
        else:
            given = convert(fill_value, values.dtype)
            filler = broadcast_array(
                lax.reshape(given, (given.size,)) if given.ndim else given, values.shape
            )
        values = lax.select(keep, values, filler)
    if axis is None:
        return lax.reshape(values, (count,))
    others = shape[:axis] + shape[axis + 1 :]
    return moveaxis(lax.reshape(values, (count, *others)), 0, axis)


def _inverse(order: Array, starts: Array, shape: tuple[int, ...] | None) -> Array:
    dtype = dtypes.default_int_dtype()
    group = lax.sub(lax.cumsum(lax.convert_element_type(starts, dtype)), dtype.type(1))
    inverse = scatter(lax.full_like(group, 0), order, group, "set", unique_indices=True)
    return inverse if shape is None else lax.reshape(inverse, shape)


def _counts(starts: Array, firsts: Array, valid: Array, dtype: np.dtype) -> Array:
    """Count by the distance to the next start."""
    total = starts.shape[0]
    if firsts.size == 0:
        return lax.full((0,), 0, dtype)
    group = lax.sub(lax.cumsum(lax.convert_element_type(starts, dtype)), dtype.type(1))
    counts = scatter(
        lax.full((firsts.size,), 0, dtype), group, lax.full((total,), 1, dtype), "add", mode="drop"
    )
    return lax.select(valid, counts, lax.full_like(counts, 0))


def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueAllResult:
    """Return the distinct elements, their first positions, the inverse, and the counts."""
    found = unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    return _UniqueAllResult(*found)


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueCountsResult:
    """Return the distinct elements and how often each occurs."""
    found = unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    return _UniqueCountsResult(*found)


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueInverseResult:
    """Return the distinct elements and which one each element is."""
    found = unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    return _UniqueInverseResult(*found)


def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Return the distinct elements, sorted."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


# --------------------------------------------------------------------------- membership


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Tell which elements occur in another array."""
    del assume_unique
    check_arraylike("isin", element, test_elements)
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(f"invalid argument {method=}; expected 'auto', 'compare_all', ...")
    x, items = promote_dtypes(element, test_elements)
    items = ravel(items)
    if items.size == 0 or x.size == 0:
        return lax.full(x.shape, invert, _BOOL)
    if method == "compare_all" or (method == "auto" and items.size <= 16):
        shape = (*x.shape, items.size)
        wide = lax.broadcast_in_dim(x, shape, tuple(range(x.ndim)))
        equal = convert(lax.eq(wide, broadcast_array(items, shape)), _BOOL)
        found = lax.reduce_or(equal, (x.ndim,))
    else:
        found = _found_in(x, lax.sort(items), "scan" if method == "binary_search" else "sort")[0]
    return lax.bitwise_not(found) if invert else found


def _found_in(x: Array, ordered: Array, method: str = "sort") -> tuple[Array, Array]:
    """Tell which elements occur in a sorted array, and where the first equal one would be."""
    place = searchsorted(ordered, x, method=method)
    place = lax.min(place, lax.full_like(place, ordered.size - 1))
    neighbour = lax.reshape(take_positions(ordered, ravel(place), 0), x.shape)
    return convert(lax.eq(x, neighbour), _BOOL), place


# --------------------------------------------------------------------------- two sets


def _pair(name: str, ar1: ArrayLike, ar2: ArrayLike) -> tuple[Array, Array]:
    check_arraylike(name, ar1, ar2)
    first, second = promote_dtypes(ravel(ar1), ravel(ar2))
    return convert(first, first.dtype), convert(second, second.dtype)


def _distinct(a: Array) -> tuple[Array, Array, Array]:
    """Return an array sorted, the order, and which elements are the first of their kind."""
    order, starts = _sorted_groups(lax.reshape(a, (a.size, 1)), False)
    return take_positions(a, order, 0), order, starts


def _kept(
    name: str, values: Array, mask: Array, size: int | None, fill_value: Any
) -> tuple[Array, Array, Array]:
    """Return the values under a mask, their positions, and which of them are real."""
    count = int(known_values(mask, name).sum()) if size is None else operator.index(size)
    total = mask.shape[0]
    places = (
        nonzero(mask, size=count, fill_value=total)[0] if total else lax.full((count,), 0, np.int32)
    )
    valid = lax.lt(places, lax.full_like(places, total))
    places = lax.select(valid, places, lax.full_like(places, 0))
    kept = take_positions(values, places, 0)
    if count:
        filler = (
            lax.slice_in_dim(kept, 0, 1) if fill_value is None else convert(fill_value, kept.dtype)
        )
        kept = lax.select(valid, kept, broadcast_array(filler, kept.shape))
    return kept, places, valid


def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: Any = None
) -> Array:
    """Return the elements of either array, distinct and sorted."""
    first, second = _pair("union1d", ar1, ar2)
    return unique(concatenate([first, second]), size=size, fill_value=fill_value)


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Return the elements in both arrays, distinct and sorted, and optionally where they stand."""
    del assume_unique
    first, second = _pair("intersect1d", ar1, ar2)
    dtype = dtypes.default_int_dtype()
    values, order1, starts = _distinct(first)
    if first.size == 0 or second.size == 0:
        empty = lax.full((size or 0,), 0 if fill_value is None else fill_value, first.dtype)
        nowhere = (lax.full((size or 0,), n, dtype) for n in (first.size, second.size))
        return (empty, *nowhere) if return_indices else empty
    ordered2, order2, _ = _distinct(second)
    found, place2 = _found_in(values, ordered2)
    mask = lax.bitwise_and(starts, found)
    kept, places, valid = _kept("intersect1d", values, mask, size, fill_value)
    if not return_indices:
        return kept
    index1 = take_positions(order1, places, 0)
    index2 = take_positions(order2, take_positions(place2, places, 0), 0)
    sizes = (first.size, second.size)
    indices = (
        lax.select(valid, convert(index, dtype), lax.full((kept.shape[0],), n, dtype))
        for index, n in zip((index1, index2), sizes, strict=True)
    )
    return (kept, *indices)


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """Return the elements of the first array that are not in the second, distinct and sorted."""
    first, second = _pair("setdiff1d", ar1, ar2)
    if assume_unique:
        values, mask = first, isin(first, second, invert=True)
    else:
        values, _, starts = _distinct(first)
        mask = lax.bitwise_and(starts, isin(values, second, invert=True))
    filler = 0 if fill_value is None else fill_value
    return _kept("setdiff1d", values, mask, size, filler)[0]


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """Return the elements that are in one array only, distinct and sorted."""
    del assume_unique
    first, second = _pair("setxor1d", ar1, ar2)
    parts, masks = [], []
    for own, other in ((first, second), (second, first)):
        values, _, starts = _distinct(own)
        parts.append(values)
        masks.append(lax.bitwise_and(starts, isin(values, other, invert=True)))
    values, mask = lax.concatenate(parts, 0), lax.concatenate(masks, 0)
    rejected = lax.convert_element_type(lax.bitwise_not(mask), np.int32)
    rejected, values = lax.sort((rejected, values), num_keys=2)
    return _kept(
        "setxor1d", values, lax.eq(rejected, lax.full_like(rejected, 0)), size, fill_value
    )[0]
