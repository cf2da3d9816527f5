"""Putting arrays together and taking them apart: concatenate, stack, split, insert, delete."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, errors, lax
from tetrax.numpy._gather import take_positions
from tetrax.numpy._promote import (
    broadcast_array,
    canonicalize_axes,
    canonicalize_axis,
    check_arraylike,
    check_no_out,
    convert,
    ensure_arraylike,
    promote_dtypes,
    to_array,
    user_dtype,
)
from tetrax.numpy._shapes import atleast_1d, atleast_2d, atleast_3d, ravel
from tetrax.numpy._typing import Array, ArrayLike, DTypeLike
from tetrax.tracing.trace import Tracer, concrete_or_error
from tetrax.tracing.value import Value

# --------------------------------------------------------------------------- joining


def concatenate(arrays: Any, axis: int | None = 0, dtype: DTypeLike = None) -> Array:
    """Join arrays along an existing axis; with `axis=None`, flatten them first.

    >>> concatenate([np.zeros(1), np.ones(2)])
    Array([0., 1., 1.], dtype=float32)
    """
    items = _items("concatenate", arrays)
    if axis is None:
        return concatenate([ravel(x) for x in items], 0, dtype)
    if items[0].ndim == 0:
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    axis = canonicalize_axis(axis, items[0].ndim)
    items = promote_dtypes(*items)
    if dtype is not None:
        target = user_dtype(dtype, "concatenate")
        items = [convert(x, target) for x in items]
    return items[0] if len(items) == 1 else lax.concatenate(items, axis)


def _items(name: str, arrays: Any) -> list[Array]:
    if isinstance(arrays, (Value, np.ndarray)):
        arrays = to_array(arrays)
        if arrays.ndim == 0:
            raise ValueError("Zero-dimensional arrays cannot be concatenated.")
        items = [lax.index_in_dim(arrays, i, 0, keepdims=False) for i in range(arrays.shape[0])]
    else:
        items = list(arrays)
        check_arraylike(name, *items)
    if not items:
        raise ValueError(f"Need at least one array to {name}.")
    return [to_array(x) for x in items]


def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """Join arrays along an existing axis; the array API's name for `concatenate`."""
    return concatenate(arrays, axis)


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: DTypeLike = None) -> Array:
    """Join arrays of one shape along a new axis."""
    check_no_out("stack", out)
    items = _items("stack", arrays)
    shape = items[0].shape
    axis = canonicalize_axis(axis, len(shape) + 1)
    for x in items:
        if x.shape != shape:
            raise ValueError(
                f"All input arrays must have the same shape, got {shape} and {x.shape}."
            )
    return concatenate([lax.expand_dims(x, (axis,)) for x in items], axis, dtype)


def vstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Join arrays as rows: along the first axis, after making them two-dimensional."""
    return concatenate([atleast_2d(x) for x in _items("vstack", tup)], 0, dtype)


def hstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Join arrays side by side: along the second axis, or the first of one-dimensional arrays."""
    items = [atleast_1d(x) for x in _items("hstack", tup)]
    return concatenate(items, 0 if items[0].ndim == 1 else 1, dtype)


def dstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Join arrays in depth: along the third axis."""
    return concatenate([atleast_3d(x) for x in _items("dstack", tup)], 2, dtype)


def column_stack(tup: Any) -> Array:
    """Join one-dimensional arrays as columns, and matrices side by side."""
    items = [lax.reshape(x, (x.size, 1)) if x.ndim < 2 else x for x in _items("column_stack", tup)]
    return concatenate(items, 1)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Return a new array with values added at the end of an axis, or of the flattened array."""
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], 0)
    return concatenate([arr, values], axis)


def block(arrays: Any) -> Array:
    """Assemble an array from nested lists of blocks; innermost lists run along the last axis."""
    joined, depth = _block(arrays)
    return atleast_1d(joined) if depth else joined


def _block(x: Any) -> tuple[Array, int]:
    if isinstance(x, tuple):
        raise ValueError(f"jax.numpy.block does not allow tuples, got {x}")
    if not isinstance(x, list):
        return ensure_arraylike("block", x), 0
    parts = [_block(item) for item in x]
    if not parts:
        raise ValueError("List depths are mismatched: jax.numpy.block got an empty list")
    depths = {depth for _, depth in parts}
    if len(depths) > 1:
        raise ValueError("List depths are mismatched in jax.numpy.block")
    depth = depths.pop() + 1
    rank = max(depth, max(part.ndim for part, _ in parts))
    full = [_to_rank(part, rank) for part, _ in parts]
    return concatenate(full, axis=-depth), depth


def _to_rank(x: Array, rank: int) -> Array:
    return lax.broadcast_to_rank(x, rank) if x.ndim < rank else x


# --------------------------------------------------------------------------- splitting


def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Cut an array into equal parts, or at the indices given.

    >>> [x.tolist() for x in split(np.arange(4), 2)]
    [[0, 1], [2, 3]]
    """
    return _split("split", ary, indices_or_sections, axis)


def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Cut an array into nearly equal parts, or at the indices given."""
    return _split("array_split", ary, indices_or_sections, axis)


def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Cut an array along its first axis."""
    return _split("vsplit", ary, indices_or_sections, 0)


def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Cut an array along its second axis, or along its only one."""
    a = ensure_arraylike("hsplit", ary)
    return _split("hsplit", a, indices_or_sections, 0 if a.ndim == 1 else 1)


def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Cut an array along its third axis."""
    return _split("dsplit", ary, indices_or_sections, 2)


def _split(name: str, ary: ArrayLike, indices_or_sections: Any, axis: int) -> list[Array]:
    a = ensure_arraylike(name, ary)
    axis = canonicalize_axis(axis, a.ndim)
    size = a.shape[axis]
    if isinstance(indices_or_sections, Tracer):
        indices_or_sections = concrete_or_error(
            indices_or_sections,
            errors.ConcretizationTypeError,
            f"in jax.numpy.{name} argument 1: where to cut must be known",
        )
    if np.ndim(indices_or_sections) == 0:
        bounds = _equal_bounds(name, size, operator.index(indices_or_sections))
    else:
        cuts = [operator.index(i) for i in np.asarray(indices_or_sections)]
        cuts = [min(max(i + size if i < 0 else i, 0), size) for i in cuts]
        bounds = [0, *cuts, size]
    return [
        lax.slice_in_dim(a, start, max(start, stop), axis=axis)
        for start, stop in itertools.pairwise(bounds)
    ]


def _equal_bounds(name: str, size: int, sections: int) -> list[int]:
    if sections <= 0:
        raise ValueError("number sections must be larger than 0.")
    part, rest = divmod(size, sections)
    if rest and name != "array_split":
        raise ValueError(
            f"array split does not result in an equal division: {size} elements, {sections} "
            f"sections"
        )
    sizes = [part + 1] * rest + [part] * (sections - rest)
    return [0, *np.cumsum(sizes).tolist()]


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Take an array apart along an axis, into arrays without that axis."""
    x = ensure_arraylike("unstack", x)
    if x.ndim == 0:
        raise ValueError(
            "Unstack requires arrays with rank > 0, however a scalar array was passed."
        )
    axis = canonicalize_axis(axis, x.ndim)
    return tuple(lax.index_in_dim(x, i, axis, keepdims=False) for i in range(x.shape[axis]))


# --------------------------------------------------------------------------- insert and delete


def _known_positions(name: str, obj: Any, size: int) -> np.ndarray:
    """Return the positions an index object names on an axis, non-negative."""
    if isinstance(obj, slice):
        return np.arange(*obj.indices(size))
    if isinstance(obj, Tracer):
        obj = concrete_or_error(
            obj,
            errors.ConcretizationTypeError,
            f"in jnp.{name}: the index decides the result's shape",
        )
    positions = np.asarray(obj)
    if positions.dtype == np.bool_:
        if positions.shape != (size,):
            raise ValueError(f"{name}: a boolean index must have the length of the axis, {size}")
        positions = np.flatnonzero(positions)
    if positions.size == 0:
        return positions.astype(int)
    if not np.issubdtype(positions.dtype, np.integer):
        raise IndexError(
            f"{name}: the index must be of integer or boolean type, got {positions.dtype}"
        )
    return positions


def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """Insert values before the positions given, along an axis or in the flattened array."""
    check_arraylike("insert", arr, 0 if isinstance(obj, slice) else obj, values)
    a, new = to_array(arr), to_array(values)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonicalize_axis(axis, a.ndim)
    size = a.shape[axis]
    positions = _known_positions("insert", obj, size)
    single = positions.ndim == 0
    positions = np.where(positions < 0, positions + size, positions).reshape(-1)
    positions = np.clip(positions, 0, size)
    new = convert(new, a.dtype)
    if new.ndim < a.ndim:
        new = lax.broadcast_to_rank(new, a.ndim)
    if single and np.ndim(values) > 0:
        if np.ndim(values) < a.ndim or a.ndim == 1:
            new = _to_last_rank(to_array(values), a, axis)
            new = convert(new, a.dtype)
        positions = np.repeat(positions, new.shape[axis])
    shape = list(a.shape)
    shape[axis] = len(positions)
    new = broadcast_array(new, tuple(shape))
    order = np.argsort(positions, kind="stable")
    total = size + len(positions)
    taken = np.zeros(total, bool)
    targets = positions[order] + np.arange(len(positions))
    taken[targets] = True
    source = np.empty(total, np.int32)
    source[~taken] = np.arange(size)
    source[targets] = size + order
    return take_positions(lax.concatenate([a, new], axis), source, axis)


def _to_last_rank(values: Array, a: Array, axis: int) -> Array:
    """Give the values of one insertion the array's rank, aligned as NumPy does."""
    full = lax.broadcast_to_rank(values, a.ndim)
    order = list(range(1, a.ndim))
    order.insert(axis, 0)
    return lax.transpose(full, order) if a.ndim > 1 else full


def delete(
    arr: ArrayLike, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Array:
    """Remove the positions given, along an axis or from the flattened array.

    The index must be known, unless `assume_unique_indices` says how many positions go.
    """
    a = ensure_arraylike("delete", arr)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonicalize_axis(axis, a.ndim)
    size = a.shape[axis]
    one_by_one = isinstance(obj, Tracer) and (assume_unique_indices or obj.ndim == 0)
    if one_by_one and dtypes.issubdtype(obj.dtype, np.integer):
        return _delete_traced(a, obj, axis)
    positions = _known_positions("delete", obj, size)
    if positions.ndim == 0:
        canonicalize_axis(int(positions), size)
    outside = positions[(positions < -size) | (positions >= size)]
    if outside.size:
        raise IndexError(f"index {outside[0]} is out of bounds for axis {axis} with size {size}")
    kept = np.ones(size, bool)
    kept[positions] = False
    return take_positions(a, np.flatnonzero(kept), axis)


def _delete_traced(a: Array, obj: Array, axis: int) -> Array:
    """Delete distinct traced positions: the k-th survivor moves right past every deleted one."""
    size = a.shape[axis]
    deleted = lax.reshape(obj, (obj.size,))
    wrapped = lax.add(deleted, lax.full_like(deleted, size))
    deleted = lax.select(lax.lt(deleted, lax.full_like(deleted, 0)), wrapped, deleted)
    deleted = lax.clamp(deleted.dtype.type(0), deleted, deleted.dtype.type(size - 1))
    deleted = lax.sort(deleted)
    shifted = lax.sub(deleted, lax.iota(deleted.dtype, obj.size))
    kept = lax.iota(deleted.dtype, size - obj.size)
    shape = (kept.size, obj.size)
    passed = lax.le(
        lax.broadcast_in_dim(shifted, shape, (1,)), lax.broadcast_in_dim(kept, shape, (0,))
    )
    positions = lax.add(kept, lax.reduce_sum(lax.convert_element_type(passed, kept.dtype), (1,)))
    return take_positions(a, positions, axis)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Any = None) -> Array:
    """Cut zeros off the front ("f") and back ("b") of axes; the elements must be known.

    >>> trim_zeros(np.array([0, 1, 0]))
    Array([1], dtype=int32)
    """
    a = ensure_arraylike("trim_zeros", filt)
    axes = canonicalize_axes(axis, a.ndim)
    known = np.asarray(
        concrete_or_error(
            a, errors.ConcretizationTypeError, "Error arose in the `filt` argument of trim_zeros()"
        )
    )
    places = np.argwhere(known != 0)
    start, stop = [0] * a.ndim, list(a.shape)
    for i in axes:
        if not len(places):
            stop[i] = 0
            continue
        if "f" in trim.lower():
            start[i] = int(places[:, i].min())
        if "b" in trim.lower():
            stop[i] = int(places[:, i].max()) + 1
    return lax.slice(a, start, stop)
