"""Sorting, and the order that sorts."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.compiler.planned import planned
from tetrax.numpy._promote import (
    canonicalize_axis,
    check_arraylike,
    convert,
    ensure_arraylike,
    to_array,
    user_dtype,
)
from tetrax.numpy._shapes import ravel
from tetrax.numpy._typing import Array, ArrayLike, DTypeLike


def _refuse_numpy_arguments(name: str, kind: None, order: None) -> None:
    if kind is not None:
        raise TypeError(
            f"'kind' argument to {name} is not supported. Use stable=True or stable=False to "
            f"specify "
            "sort stability."
        )
    if order is not None:
        raise TypeError(f"'order' argument to {name} is not supported.")


@planned(1)
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """Sort along an axis, NaN last (first when descending); `axis=None` flattens first.

    >>> sort(np.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    a = ensure_arraylike("sort", a)
    _refuse_numpy_arguments("sort", kind, order)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonicalize_axis(axis, a.ndim)
    ordered = lax.sort(a, dimension=axis, is_stable=stable)
    return lax.rev(ordered, (axis,)) if descending else ordered


@planned(1)
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DTypeLike = None,
) -> Array:
    """Return the positions that sort an array along an axis; equal elements keep their order."""
    a = ensure_arraylike("argsort", a)
    _refuse_numpy_arguments("argsort", kind, order)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonicalize_axis(axis, a.ndim)
    target = dtypes.default_int_dtype() if dtype is None else user_dtype(dtype, "argsort")
    places = lax.broadcasted_iota(target, a.shape, axis)
    if descending and stable:  # backwards twice, so that equal elements keep their order
        a, places = lax.rev(a, (axis,)), lax.rev(places, (axis,))
    found = lax.sort((a, places), dimension=axis, is_stable=stable, num_keys=1)[1]
    return lax.rev(found, (axis,)) if descending else found


def lexsort(keys: Any, axis: int = -1) -> Array:
    """Return the positions that sort by several keys, the last one first."""
    items = [to_array(key) for key in _keys(keys)]
    if not items:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    shape = items[0].shape
    if any(key.shape != shape for key in items):
        raise ValueError("all keys need to be the same shape")
    dtype = dtypes.default_int_dtype()
    if not shape:
        return lax.full((), 0, dtype)
    axis = canonicalize_axis(axis, len(shape))
    places = lax.broadcasted_iota(dtype, shape, axis)
    ordered = lax.sort((*items[::-1], places), dimension=axis, num_keys=len(items))
    return ordered[-1]


def _keys(keys: Any) -> Sequence[Any]:
    if isinstance(keys, (tuple, list)):
        check_arraylike("lexsort", *keys)
        return keys
    array = ensure_arraylike("lexsort", keys)
    return [lax.index_in_dim(array, i, 0, keepdims=False) for i in range(array.shape[0])]


def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Reorder so that the kth element stands where sorting would put it, smaller ones before it."""
    a = ensure_arraylike("partition", a)
    return lax.sort(a, dimension=_partition_axis(a, kth, axis), is_stable=False)


def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Return the positions that partition an array at its kth element."""
    a = ensure_arraylike("argpartition", a)
    return argsort(a, _partition_axis(a, kth, axis), dtype=np.int32)


def _partition_axis(a: Array, kth: int, axis: int) -> int:
    if dtypes.issubdtype(a.dtype, np.complexfloating):
        raise NotImplementedError("partition for complex dtype is not implemented.")
    axis = canonicalize_axis(axis, a.ndim)
    canonicalize_axis(operator.index(kth), a.shape[axis])
    return axis


def sort_complex(a: ArrayLike) -> Array:
    """Sort by real, then imaginary parts; the result is complex."""
    a = ensure_arraylike("sort_complex", a)
    ordered = lax.sort(a, dimension=canonicalize_axis(-1, a.ndim))
    return convert(ordered, dtypes.to_complex_dtype(a.dtype))
