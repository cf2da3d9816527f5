"""Grids and index helpers: meshgrid, indices, ix_, r_, c_, mgrid, ogrid, triangles of indices."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.numpy._convert import asarray
from tetrax.numpy._creation import arange, linspace, ones
from tetrax.numpy._join import concatenate, stack
from tetrax.numpy._promote import (
    canonicalize_shape,
    check_arraylike,
    convert,
    ensure_arraylike,
    promote_dtypes,
    to_array,
    user_dtype,
)
from tetrax.numpy._select import nonzero
from tetrax.numpy._shapes import atleast_1d
from tetrax.numpy._typing import Array, ArrayLike, DTypeLike
from tetrax.runtime.array import make_array

# --------------------------------------------------------------------------- grids


def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """Return coordinate grids from coordinate vectors.

    `indexing="xy"` lets the first vector run along the second axis, "ij" along the first.
    """
    check_arraylike("meshgrid", *xi)
    if not copy:
        raise ValueError("jax.numpy.meshgrid only supports copy=True")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")
    arrays = [to_array(x) for x in xi]
    if any(x.ndim != 1 for x in arrays):
        raise ValueError(
            f"Arguments to jax.numpy.meshgrid must be 1D, got shapes {[x.shape for x in arrays]}"
        )
    rank = len(arrays)
    axes = list(range(rank))
    if indexing == "xy" and rank >= 2:
        axes[0], axes[1] = 1, 0
    shape = [0] * rank
    for axis, x in zip(axes, arrays, strict=True):
        shape[axis] = x.shape[0]
    grids = []
    for axis, x in zip(axes, arrays, strict=True):
        target = [1] * rank if sparse else shape
        if sparse:
            target[axis] = x.shape[0]
        grids.append(lax.broadcast_in_dim(x, tuple(target), (axis,)))
    return grids


def indices(dimensions: Sequence[int], dtype: DTypeLike = None, sparse: bool = False) -> Any:
    """Return, for each axis of a shape, the index along it: stacked, or a tuple when sparse."""
    target = user_dtype(int if dtype is None else dtype, "indices")
    shape = canonicalize_shape(tuple(dimensions), "indices")
    rank = len(shape)
    grids = []
    for axis, size in enumerate(shape):
        full = tuple(size if i == axis else 1 for i in range(rank)) if sparse else shape
        grids.append(lax.broadcast_in_dim(lax.iota(target, size), full, (axis,)))
    if sparse:
        return tuple(grids)
    return stack(grids, 0) if grids else lax.full((0,), 0, target)


def fromfunction(
    function: Callable[..., Array], shape: Any, *, dtype: DTypeLike = float, **kwargs: Any
) -> Array:
    """Call a function with the index along each axis, as arrays of the shape."""
    sizes = canonicalize_shape(shape, "fromfunction")
    target = user_dtype(dtype, "fromfunction")
    grids = [
        lax.broadcast_in_dim(lax.iota(target, size), sizes, (axis,))
        for axis, size in enumerate(sizes)
    ]
    return function(*grids, **kwargs)


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Return index arrays that select the cross product of the positions given."""
    check_arraylike("ix_", *args)
    rank = len(args)
    result = []
    for axis, arg in enumerate(args):
        x = to_array(arg)
        if x.ndim != 1:
            raise ValueError(
                f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {x.shape}"
            )
        if x.dtype == np.bool_:
            raise NotImplementedError("Boolean arguments to jax.numpy.ix_ are not implemented")
        if x.size == 0:
            x = convert(x, dtypes.default_int_dtype())
        result.append(lax.reshape(x, tuple(x.shape[0] if i == axis else 1 for i in range(rank))))
    return tuple(result)


# --------------------------------------------------------------------------- indices of parts


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of an array of `ndim` axes of size `n`."""
    size, rank = operator.index(n), operator.index(ndim)
    if size < 0:
        raise ValueError(f"n argument to diag_indices must be nonnegative, got {size}")
    if rank < 0:
        raise ValueError(f"ndim argument to diag_indices must be nonnegative, got {rank}")
    return (lax.iota(dtypes.default_int_dtype(), size),) * rank


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of an array."""
    a = ensure_arraylike("diag_indices_from", arr)
    if a.ndim < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(a.shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(a.shape[0], a.ndim)


def _index_arrays(found: tuple[np.ndarray, ...]) -> tuple[Array, Array]:
    dtype = dtypes.default_int_dtype()
    rows, columns = (make_array(part.astype(dtype)) for part in found)
    return rows, columns


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the indices on and below the k-th diagonal of an n by m matrix."""
    return _index_arrays(np.tril_indices(operator.index(n), operator.index(k), m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the indices on and above the k-th diagonal of an n by m matrix."""
    return _index_arrays(np.triu_indices(operator.index(n), operator.index(k), m))


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Return the indices on and below the k-th diagonal of a matrix."""
    shape = np.shape(arr)
    if len(shape) != 2:
        raise ValueError("Only 2-D inputs are accepted")
    return tril_indices(shape[0], k, shape[1])


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Return the indices on and above the k-th diagonal of a matrix."""
    shape = np.shape(arr)
    if len(shape) != 2:
        raise ValueError("Only 2-D inputs are accepted")
    return triu_indices(shape[0], k, shape[1])


def mask_indices(
    n: int, mask_func: Callable[..., Array], k: int = 0, *, size: int | None = None
) -> tuple[Array, ...]:
    """Return the indices at which a masking function, such as `triu`, keeps a matrix of ones."""
    return nonzero(mask_func(ones((n, n)), k), size=size)


# --------------------------------------------------------------------------- bracket notation


def _slice_to_array(item: slice) -> Array:
    """Turn `start:stop:step` into a range, or, with an imaginary step, into a number of points."""
    start = 0 if item.start is None else item.start
    step = 1 if item.step is None else item.step
    if item.stop is None:
        raise ValueError("a slice in bracket notation needs its stop")
    if isinstance(step, complex) or np.iscomplexobj(step):
        return linspace(start, item.stop, int(abs(step)))
    return arange(start, item.stop, step)


class _Grid:
    """`mgrid` and `ogrid`: coordinate grids from slices in square brackets."""

    def __init__(self, name: str, sparse: bool) -> None:
        self._name = name
        self._sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _slice_to_array(key)
        vectors = promote_dtypes(*(_slice_to_array(item) for item in key))
        grids = meshgrid(*vectors, indexing="ij", sparse=self._sparse)
        if self._sparse:
            return grids
        return stack(grids, 0) if grids else lax.full((0,), 0, np.float32)

    def __repr__(self) -> str:
        return f"jnp.{self._name}"


class _Concatenator:
    """`r_` and `c_`: arrays joined along an axis, written in square brackets."""

    def __init__(self, name: str, axis: int, rank: int, place: int) -> None:
        self._name = name
        self._defaults = (axis, rank, place)

    def __getitem__(self, key: Any) -> Array:
        items = key if isinstance(key, tuple) else (key,)
        axis, rank, place = self._defaults
        column = False
        if items and isinstance(items[0], str):
            axis, rank, place, column = self._directive(items[0])
            items = items[1:]
        parts = []
        for item in items:
            if isinstance(item, str):
                raise ValueError("string directive must be placed at the beginning")
            array = _slice_to_array(item) if isinstance(item, slice) else asarray(item)
            parts.append(_raised(array, rank, place))
        if column:
            parts = [_as_matrix(part, "c") for part in parts]
        return concatenate(parts, axis)

    def _directive(self, text: str) -> tuple[int, int, int, bool]:
        axis, rank, place = self._defaults
        if text in ("r", "c"):
            raise_as_matrix = text == "c"
            return (axis if not raise_as_matrix else 0), max(rank, 1), place, raise_as_matrix
        numbers = text.split(",")
        try:
            values = [int(number) for number in numbers]
        except ValueError:
            raise ValueError(
                f"could not understand directive {text!r} of jnp.{self._name}"
            ) from None
        if len(values) > 3:
            raise ValueError(f"could not understand directive {text!r} of jnp.{self._name}")
        axis = values[0]
        rank = values[1] if len(values) > 1 else rank
        place = values[2] if len(values) > 2 else place
        return axis, rank, place, False

    def __repr__(self) -> str:
        return f"jnp.{self._name}"


def _raised(x: Array, rank: int, place: int) -> Array:
    """Give an array at least `rank` axes; its own stand from `place` on (-1: last)."""
    x = atleast_1d(x) if rank < 2 else x
    missing = rank - x.ndim
    if missing <= 0:
        return x
    own = x.ndim
    start = missing if place < 0 else min(place, missing)
    shape = [1] * rank
    for i in range(own):
        shape[start + i] = x.shape[i]
    return lax.reshape(x, tuple(shape))


def _as_matrix(x: Array, kind: str) -> Array:
    if x.ndim >= 2:
        return x
    return lax.reshape(x, (x.size, 1) if kind == "c" else (1, x.size))


class _IndexExpression:
    """`s_` and `index_exp`: the index expression itself."""

    def __init__(self, always_tuple: bool) -> None:
        self._always_tuple = always_tuple

    def __getitem__(self, item: Any) -> Any:
        return (item,) if self._always_tuple and not isinstance(item, tuple) else item


mgrid = _Grid("mgrid", sparse=False)
ogrid = _Grid("ogrid", sparse=True)
r_ = _Concatenator("r_", 0, 1, -1)
c_ = _Concatenator("c_", -1, 2, 0)
s_ = _IndexExpression(always_tuple=False)
index_exp = _IndexExpression(always_tuple=True)
