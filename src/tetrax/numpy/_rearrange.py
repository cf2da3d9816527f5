"""Moving and repeating elements: flip, roll, rotate, repeat, tile, triangles, diagonals."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, errors, lax
from tetrax.compiler.planned import planned
from tetrax.numpy._creation import triangle
from tetrax.numpy._gather import take_positions
from tetrax.numpy._join import concatenate
from tetrax.numpy._promote import (
    broadcast_array,
    canonicalize_axes,
    canonicalize_axis,
    canonicalize_shape,
    check_arraylike,
    ensure_arraylike,
    to_array,
)
from tetrax.numpy._shapes import moveaxis, ravel
from tetrax.numpy._typing import Array, ArrayLike
from tetrax.tracing.trace import Tracer, concrete_or_error, is_concrete

# --------------------------------------------------------------------------- flip and rotate


@planned(1)
def flip(m: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Reverse the order of elements along one axis, several, or all."""
    m = ensure_arraylike("flip", m)
    return lax.rev(m, canonicalize_axes(axis, m.ndim))


def flipud(m: ArrayLike) -> Array:
    """Reverse the rows."""
    m = ensure_arraylike("flipud", m)
    if m.ndim < 1:
        raise ValueError("jnp.flipud input must be at least 1-dimensional.")
    return lax.rev(m, (0,))


def fliplr(m: ArrayLike) -> Array:
    """Reverse the columns."""
    m = ensure_arraylike("fliplr", m)
    if m.ndim < 2:
        raise ValueError("jnp.fliplr input must be at least 2-dimensional.")
    return lax.rev(m, (1,))


def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Rotate by k quarter turns, from the first axis of `axes` towards the second."""
    m = ensure_arraylike("rot90", m)
    if m.ndim < 2:
        raise ValueError("rot90 requires its first argument to have ndim at least two")
    first, second = (canonicalize_axis(axis, m.ndim) for axis in axes)
    if first == second:
        raise ValueError("Axes must be different")
    k = k % 4
    if k == 0:
        return m
    if k == 2:
        return lax.rev(m, (first, second))
    order = list(range(m.ndim))
    order[first], order[second] = order[second], order[first]
    if k == 1:
        return lax.transpose(lax.rev(m, (second,)), order)
    return lax.rev(lax.transpose(m, order), (second,))


# --------------------------------------------------------------------------- roll


@planned(1)
def roll(a: ArrayLike, shift: Any, axis: int | Sequence[int] | None = None) -> Array:
    """Shift elements along axes; those pushed out come back at the other end.

    >>> roll(np.arange(4), 1)
    Array([3, 0, 1, 2], dtype=int32)
    """
    check_arraylike("roll", a)
    a = to_array(a)
    if axis is None:
        return lax.reshape(roll(ravel(a), shift, 0), a.shape)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (operator.index(axis),)
    axes = tuple(canonicalize_axis(i, a.ndim) for i in axes)
    shifts = _shifts(shift, len(axes))
    if len(shifts) != len(axes):
        axes = tuple(np.broadcast_to(axes, len(shifts)).tolist())
    for amount, i in zip(shifts, axes, strict=True):
        a = _roll_one(a, amount, i)
    return a


def _shifts(shift: Any, count: int) -> list[Any]:
    if isinstance(shift, (tuple, list)):
        shifts = list(shift)
    elif np.ndim(shift) == 0:
        shifts = [shift]
    elif np.ndim(shift) == 1:
        shifts = [shift[i] for i in range(np.shape(shift)[0])]
    else:
        raise ValueError("'shift' and 'axis' arguments to roll must be scalars or 1D arrays")
    return shifts * count if len(shifts) == 1 else shifts


def _roll_one(a: Array, shift: Any, axis: int) -> Array:
    size = a.shape[axis]
    if size == 0:
        return a
    if is_concrete(shift):
        first = -int(shift) % size
        if first == 0:
            return a
        parts = [
            lax.slice_in_dim(a, first, size, axis=axis),
            lax.slice_in_dim(a, 0, first, axis=axis),
        ]
        return lax.concatenate(parts, axis)
    amount = lax.convert_element_type(shift, np.int32)
    amount = lax.rem(lax.add(lax.rem(amount, np.int32(size)), np.int32(size)), np.int32(size))
    doubled = lax.concatenate([a, a], axis)
    return lax.dynamic_slice_in_dim(doubled, lax.sub(np.int32(size), amount), size, axis)


# --------------------------------------------------------------------------- repeat and tile


def repeat(
    a: ArrayLike,
    repeats: Any,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Repeat elements along an axis, or of the flattened array.

    Counts that are traced need `total_repeat_length`, the size of the result along the axis: what
    is too long is cut, what is too short is filled with the last element.
    """
    check_arraylike("repeat", a)
    a = to_array(a)
    if axis is None:
        a, axis = ravel(a), 0
    if a.ndim == 0:
        a = lax.reshape(a, (1,))
    axis = canonicalize_axis(operator.index(axis), a.ndim)
    if total_repeat_length is None:
        result = _repeat_known(a, repeats, axis)
    else:
        result = _repeat_to_length(a, repeats, axis, operator.index(total_repeat_length))
    return result if out_sharding is None else lax.with_sharding_constraint(result, out_sharding)


def _repeat_known(a: Array, repeats: Any, axis: int) -> Array:
    if isinstance(repeats, Tracer):
        repeats = concrete_or_error(
            repeats,
            errors.ConcretizationTypeError,
            "When jit-compiling jnp.repeat, the total number of repeats must be static. To fix "
            "this, "
            "either specify a static value for `repeats`, or pass a static value to "
            "`total_repeat_length`.",
        )
    counts = np.asarray(repeats)
    if counts.size and counts.dtype.kind not in "iub":
        raise TypeError(f"repeat: the counts must be integers, got dtype {counts.dtype}")
    if counts.ndim > 1:
        raise ValueError("repeat: the counts must be a scalar or one-dimensional")
    size = a.shape[axis]
    counts = counts.reshape(-1)
    if counts.size == 1:
        count = max(int(counts[0]), 0)
        shape = (*a.shape[: axis + 1], count, *a.shape[axis + 1 :])
        kept = tuple(i for i in range(len(shape)) if i != axis + 1)
        merged = (*a.shape[:axis], size * count, *a.shape[axis + 1 :])
        return lax.reshape(lax.broadcast_in_dim(a, shape, kept), merged)
    if counts.size != size:
        raise ValueError(
            f"repeat: {counts.size} counts do not fit the axis {axis} of size {size}; shape "
            f"{a.shape}"
        )
    return take_positions(a, np.repeat(np.arange(size, dtype=np.int32), counts), axis)


def _repeat_to_length(a: Array, repeats: Any, axis: int, total: int) -> Array:
    size = a.shape[axis]
    counts = lax.convert_element_type(to_array(repeats), np.int32)
    counts = broadcast_array(lax.reshape(counts, (counts.size,)), (size,))
    if size == 0 or total == 0:
        shape = tuple(total if i == axis else n for i, n in enumerate(a.shape))
        if size == 0 and total:
            raise ValueError("repeat: an axis of size 0 has no element to repeat")
        return lax.full(shape, 0, a.dtype)
    ends = lax.cumsum(counts)
    # Output slot k shows the element whose span of ends covers it: count the ends not beyond k.
    slots = lax.broadcasted_iota(np.int32, (total, size), 0)
    passed = lax.ge(slots, lax.broadcast_in_dim(ends, (total, size), (1,)))
    chosen = lax.reduce_sum(lax.convert_element_type(passed, np.int32), (1,))
    return take_positions(a, lax.min(chosen, lax.full_like(chosen, size - 1)), axis)


@planned(1)
def tile(A: ArrayLike, reps: Any) -> Array:
    """Repeat the whole array along each axis.

    >>> tile(np.array([1, 2]), 2)
    Array([1, 2, 1, 2], dtype=int32)
    """
    a = ensure_arraylike("tile", A)
    counts = tuple(map(operator.index, reps if np.iterable(reps) else (reps,)))
    rank = max(a.ndim, len(counts))
    counts = (1,) * (rank - len(counts)) + counts
    sizes = (1,) * (rank - a.ndim) + a.shape
    if any(count < 0 for count in counts):
        raise ValueError(f"tile: negative counts {counts}")
    spread = tuple(n for pair in zip(counts, sizes, strict=True) for n in pair)
    kept = tuple(2 * (rank - a.ndim + i) + 1 for i in range(a.ndim))
    result = tuple(count * size for count, size in zip(counts, sizes, strict=True))
    return lax.reshape(lax.broadcast_in_dim(a, spread, kept), result)


def resize(a: ArrayLike, new_shape: Any) -> Array:
    """Return the elements in a new shape, repeated from the start where there are too few."""
    a = ensure_arraylike("resize", a)
    shape = canonicalize_shape(new_shape, "resize")
    if any(size < 0 for size in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    size = int(np.prod(shape, dtype=int))
    if a.size == 0 or size == 0:
        return lax.full(shape, 0, a.dtype)
    copies = -(-size // a.size)
    flat = ravel(a)
    repeated = concatenate([flat] * copies) if copies > 1 else flat
    return lax.reshape(lax.slice_in_dim(repeated, 0, size), shape)


# -------------------------------------------------------------------------- triangles and diagonals


@planned(1)
def tril(m: ArrayLike, k: int = 0) -> Array:
    """Keep the elements on and below the k-th diagonal; the others become zero."""
    m = ensure_arraylike("tril", m)
    if m.ndim < 2:
        raise ValueError("Argument to jax.numpy.tril must be at least 2D")
    mask = broadcast_array(triangle(m.shape[-2:], k), m.shape)
    return lax.select(mask, m, lax.full_like(m, 0))


@planned(1)
def triu(m: ArrayLike, k: int = 0) -> Array:
    """Keep the elements on and above the k-th diagonal; the others become zero."""
    m = ensure_arraylike("triu", m)
    if m.ndim < 2:
        raise ValueError("Argument to jax.numpy.triu must be at least 2D")
    mask = broadcast_array(triangle(m.shape[-2:], k - 1), m.shape)
    return lax.select(mask, lax.full_like(m, 0), m)


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return a diagonal of two axes, as the last axis of the result."""
    a = ensure_arraylike("diagonal", a)
    if a.ndim < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    offset = operator.index(offset)
    first, second = canonicalize_axis(axis1, a.ndim), canonicalize_axis(axis2, a.ndim)
    if first == second:
        raise ValueError("axis1 and axis2 cannot be the same")
    a = moveaxis(a, (first, second), (-2, -1))
    rows, columns = a.shape[-2:]
    size = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    start = max(-offset, 0) if size else 0
    steps = np.arange(size, dtype=np.int32)
    positions = np.stack([steps + start, steps + (max(offset, 0) if size else 0)], axis=1)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(a.ndim - 2)),
        collapsed_slice_dims=(a.ndim - 2, a.ndim - 1),
        start_index_map=(a.ndim - 2, a.ndim - 1),
    )
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    if size == 0:
        return lax.full((*a.shape[:-2], 0), 0, a.dtype)
    return lax.gather(a, positions, numbers, (*a.shape[:-2], 1, 1), mode=mode)


def diag(v: ArrayLike, k: int = 0) -> Array:
    """Return the k-th diagonal of a matrix, or the matrix with a vector on its k-th diagonal."""
    v = ensure_arraylike("diag", v)
    if v.ndim == 1:
        return _diagonal_matrix(v, k)
    if v.ndim == 2:
        return diagonal(v, k)
    raise ValueError("diag input must be 1d or 2d")


def _diagonal_matrix(v: Array, k: int) -> Array:
    k = operator.index(k)
    size = v.shape[0] + abs(k)
    padded = lax.pad(v, _zero(v), ((max(k, 0), max(-k, 0), 0),))
    columns = lax.broadcast_in_dim(padded, (size, size), (1,))
    i = lax.broadcasted_iota(np.int32, (size, size), 0)
    j = lax.broadcasted_iota(np.int32, (size, size), 1)
    on_diagonal = lax.eq(lax.add(i, np.int32(k)), j)
    return lax.select(on_diagonal, columns, lax.full_like(columns, 0))


def _zero(x: Array) -> Array:
    return lax.full_like(x, 0, shape=())


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """Return the matrix with the flattened argument on its k-th diagonal."""
    return _diagonal_matrix(ravel(ensure_arraylike("diagflat", v)), k)


def trace(
    a: ArrayLike,
    offset: int | ArrayLike = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: Any = None,
    out: None = None,
) -> Array:
    """Sum a diagonal of two axes."""
    a = ensure_arraylike("trace", a)
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.trace is not supported.")
    if a.ndim < 2:
        raise ValueError("trace requires an array of at least two dimensions.")
    target = a.dtype if dtype is None else dtypes.check_and_canonicalize_user_dtype(dtype, "trace")
    if dtype is None and (a.dtype == np.bool_ or dtypes.issubdtype(a.dtype, np.integer)):
        wide = dtypes.default_int_dtype()
        if dtypes.issubdtype(a.dtype, np.unsignedinteger):
            wide = dtypes.default_uint_dtype()
        target = wide if a.dtype.itemsize < wide.itemsize else a.dtype
    a = moveaxis(a, (canonicalize_axis(axis1, a.ndim), canonicalize_axis(axis2, a.ndim)), (-2, -1))
    i = lax.broadcasted_iota(np.int32, a.shape[-2:], 0)
    j = lax.broadcasted_iota(np.int32, a.shape[-2:], 1)
    shift = lax.convert_element_type(offset, np.int32)
    on_diagonal = broadcast_array(lax.eq(lax.add(i, shift), j), a.shape)
    kept = lax.select(on_diagonal, a, lax.full_like(a, 0))
    return lax.reduce_sum(lax.convert_element_type(kept, target), (a.ndim - 2, a.ndim - 1))
