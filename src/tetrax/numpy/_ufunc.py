"""`ufunc`: an elementwise function with reductions, running reductions, outer products, updates."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax import lax
from tetrax.numpy._arithmetic import as_bool
from tetrax.numpy._at import scatter
from tetrax.numpy._convert import asarray
from tetrax.numpy._gather import take_positions
from tetrax.numpy._indexing import get
from tetrax.numpy._promote import (
    broadcast_array,
    canonicalize_axis,
    check_no_out,
    convert,
    ensure_arraylike,
    user_dtype,
)
from tetrax.numpy._reductions import reduction_axes
from tetrax.numpy._shapes import moveaxis, ravel
from tetrax.numpy._typing import Array, ArrayLike, DTypeLike
from tetrax.numpy._vectorize import vectorize


class ufunc:
    """A function of scalars that works element by element on arrays.

    Made by `frompyfunc`, or with ready-made methods for the built-in functions: `reduce`,
    `accumulate`, `at` and `reduceat`, which otherwise run the function step by step.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: Callable[..., Any] | None = None,
        reduceat: Callable[..., Any] | None = None,
    ) -> None:
        self.__name__ = name or func.__name__
        self.__doc__ = func.__doc__
        self.__wrapped__ = func
        self._func = func
        self._call = call or vectorize(func)
        self._reduce = reduce
        self._accumulate = accumulate
        self._at = at
        self._reduceat = reduceat
        self._nin = operator.index(nin)
        self._nout = operator.index(nout)
        self._nargs = self._nin if nargs is None else operator.index(nargs)
        self._identity = identity

    nin = property(lambda self: self._nin, doc="The number of inputs.")
    nout = property(lambda self: self._nout, doc="The number of outputs.")
    nargs = property(lambda self: self._nargs, doc="The number of arguments.")
    identity = property(lambda self: self._identity, doc="The neutral element, or None.")

    def __call__(self, *args: ArrayLike, out: None = None, where: None = None) -> Any:
        check_no_out(self.__name__, out)
        if where is not None:
            raise NotImplementedError(f"where argument of {self}")
        return self._call(*args)

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"

    def __hash__(self) -> int:
        return hash((type(self), self._func, self.__name__, self._nin, self._nout))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and (self._func, self.__name__, self._nin, self._nout) == (
            other._func,
            other.__name__,
            other._nin,
            other._nout,
        )

    # ----------------------------------------------------------------------- reduce

    def _check_binary(self, method: str) -> None:
        if self.nin != 2:
            raise ValueError(f"{method} only supported for binary ufuncs")
        if self.nout != 1:
            raise ValueError(f"{method} only supported for functions returning a single value")

    def reduce(
        self,
        a: ArrayLike,
        axis: Any = 0,
        dtype: DTypeLike = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """Combine the elements along axes, from first to last."""
        self._check_binary("reduce")
        check_no_out(f"{self.__name__}.reduce()", out)
        if initial is not None and np.ndim(initial):
            raise ValueError(f"initial must be a scalar, got shape {np.shape(initial)}")
        if where is not None and initial is None and self.identity is None:
            raise ValueError(
                f"reduction operation {self.__name__!r} does not have an identity, so to use a "
                f"where "
                "mask one has to specify 'initial'."
            )
        if self._reduce is not None:
            return self._reduce(
                a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
            )
        return self._reduce_stepwise(a, axis, dtype, keepdims, initial, where)

    def _reduce_stepwise(
        self, a: Any, axis: Any, dtype: DTypeLike, keepdims: bool, initial: Any, where: Any
    ) -> Array:
        x = ensure_arraylike(f"{self.__name__}.reduce", a)
        axes = reduction_axes(axis, x.ndim)
        kept = tuple(1 if i in axes else size for i, size in enumerate(x.shape))
        rows = _merged_first(x, axes)
        mask = (
            None if where is None else _merged_first(broadcast_array(asarray(where), x.shape), axes)
        )
        target = self._result_dtype(rows, dtype)
        rows = convert(rows, target)
        start = initial if initial is not None else self.identity
        if start is None or (initial is None and mask is None and rows.shape[0]):
            if rows.shape[0] == 0:
                raise ValueError(
                    f"zero-size array to reduction operation {self.__name__} which has no identity"
                )
            total, rest = lax.index_in_dim(rows, 0, 0, keepdims=False), 1
        else:
            total, rest = broadcast_array(convert(start, target), rows.shape[1:]), 0

        def step(i: Any, total: Array) -> Array:
            item = lax.dynamic_index_in_dim(rows, i, 0, keepdims=False)
            combined = convert(self._call(total, item), target)
            if mask is None:
                return combined
            allowed = as_bool(lax.dynamic_index_in_dim(mask, i, 0, keepdims=False))
            return lax.select(allowed, combined, total)

        if rest < rows.shape[0]:
            total = lax.fori_loop(rest, rows.shape[0], step, total)
        return lax.reshape(total, kept) if keepdims else total

    def _result_dtype(self, x: Array, dtype: DTypeLike) -> np.dtype:
        """Return the dtype of a running result: the one asked for, or what the function makes."""
        if dtype is not None:
            return user_dtype(dtype, self.__name__)
        sample = lax.full((), 0, x.dtype)
        return self._call(sample, sample).dtype

    # ----------------------------------------------------------------------- accumulate

    def accumulate(
        self, a: ArrayLike, axis: int = 0, dtype: DTypeLike = None, out: None = None
    ) -> Array:
        """Return the running combination of elements along an axis."""
        self._check_binary("accumulate")
        check_no_out(f"{self.__name__}.accumulate()", out)
        x = ensure_arraylike(f"{self.__name__}.accumulate", a)
        if x.ndim == 0:
            raise ValueError("accumulate: array must have at least one axis")
        axis = canonicalize_axis(axis, x.ndim)
        if self._accumulate is not None:
            return self._accumulate(x, axis=axis, dtype=dtype)
        target = self._result_dtype(x, dtype)
        rows = moveaxis(convert(x, target), axis, 0)
        if rows.shape[0] == 0:
            return moveaxis(rows, 0, axis)

        def step(total: Array, item: Array) -> tuple[Array, Array]:
            combined = convert(self._call(total, item), target)
            return combined, combined

        first = lax.index_in_dim(rows, 0, 0, keepdims=False)
        rest = lax.slice_in_dim(rows, 1, rows.shape[0])
        _, later = lax.scan(step, first, rest)
        return moveaxis(lax.concatenate([lax.expand_dims(first, (0,)), later], 0), 0, axis)

    # ----------------------------------------------------------------------- at

    def at(
        self,
        a: ArrayLike,
        indices: Any,
        b: ArrayLike | None = None,
        /,
        *,
        inplace: bool = True,
    ) -> Array:
        """Return a copy with the function applied at positions, once per time they are named."""
        if inplace:
            raise NotImplementedError(
                "Because JAX arrays are immutable, jnp.ufunc.at() cannot operate inplace like "
                "np.ufunc.at(). "
                "Instead, you can pass inplace=False and capture the result; e.g.\n"
                f">>> arr = jnp.{self.__name__}.at(arr, ind, val, inplace=False)"
            )
        x = ensure_arraylike(f"{self.__name__}.at", a)
        if self._at is not None:
            return self._at(x, indices, b)
        return self._at_stepwise(x, indices, b)

    def _at_stepwise(self, x: Array, indices: Any, b: Any) -> Array:
        index = indices if isinstance(indices, tuple) else (indices,)
        parts = [asarray(part) for part in index]
        shape = lax.broadcast_shapes(*(part.shape for part in parts))
        places = [ravel(broadcast_array(part, shape)) for part in parts]
        rest = x.shape[len(parts) :]
        count = math.prod(shape)
        values = None
        if b is not None:
            full = broadcast_array(convert(asarray(b), x.dtype), (*shape, *rest))
            values = lax.reshape(full, (count, *rest))

        def step(i: Any, x: Array) -> Array:
            here = tuple(lax.dynamic_index_in_dim(part, i, 0, keepdims=False) for part in places)
            old = get(x, here)
            if values is None:
                new = self._call(old)
            else:
                new = self._call(old, lax.dynamic_index_in_dim(values, i, 0, keepdims=False))
            return scatter(x, here, convert(new, x.dtype), "set")

        return lax.fori_loop(0, count, step, convert(x, x.dtype))

    # ----------------------------------------------------------------------- reduceat, outer

    def reduceat(
        self,
        a: ArrayLike,
        indices: Any,
        axis: int = 0,
        dtype: DTypeLike = None,
        out: None = None,
    ) -> Array:
        """Reduce the pieces of an axis that start at the positions given."""
        self._check_binary("reduceat")
        check_no_out(f"{self.__name__}.reduceat()", out)
        x = ensure_arraylike(f"{self.__name__}.reduceat", a)
        starts = ensure_arraylike(f"{self.__name__}.reduceat", indices)
        if x.ndim == 0:
            raise ValueError("reduceat: a must have 1 or more dimension")
        if starts.ndim != 1:
            raise ValueError("reduceat: indices must be one-dimensional")
        axis = canonicalize_axis(axis, x.ndim)
        target = self._result_dtype(x, dtype)
        rows = moveaxis(convert(x, target), axis, 0)
        starts = lax.convert_element_type(starts, np.int32)
        result = take_positions(rows, starts, 0)
        size, count = rows.shape[0], starts.shape[0]
        ends = lax.concatenate(
            [lax.slice_in_dim(starts, 1, count), lax.full((1,), size, np.int32)], 0
        )

        def step(i: Any, total: Array) -> Array:
            item = lax.dynamic_index_in_dim(rows, i, 0, keepdims=True)
            combined = convert(self._call(total, broadcast_array(item, total.shape)), target)
            place = lax.convert_element_type(i, np.int32)
            wide = broadcast_array(place, (count,))
            inside = lax.bitwise_and(lax.gt(wide, starts), lax.lt(wide, ends))
            return lax.select(lax.broadcast_in_dim(inside, total.shape, (0,)), combined, total)

        result = lax.fori_loop(0, size, step, result) if count else result
        return moveaxis(result, 0, axis)

    def outer(self, A: ArrayLike, B: ArrayLike, /) -> Array:
        """Apply the function to all pairs of elements."""
        self._check_binary("outer")
        x, y = ensure_arraylike(f"{self.__name__}.outer", A, B)
        wide = lax.reshape(x, (*x.shape, *(1,) * y.ndim))
        return self._call(wide, broadcast_array(y, (*(1,) * x.ndim, *y.shape)))


def _merged_first(x: Array, axes: tuple[int, ...]) -> Array:
    """Move axes to the front and merge them into one."""
    rest = [i for i in range(x.ndim) if i not in axes]
    moved = lax.transpose(x, (*axes, *rest))
    size = math.prod(x.shape[i] for i in axes)
    return lax.reshape(moved, (size, *(x.shape[i] for i in rest)))


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """Make a ufunc from a function of scalars.

    >>> frompyfunc(lambda x, y: x + y, 2, 1, identity=0).reduce(np.arange(4))
    Array(6, dtype=int32)
    """
    return ufunc(func, nin, nout, identity=identity)
