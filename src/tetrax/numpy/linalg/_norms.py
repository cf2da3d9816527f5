"""Norms of vectors and matrices, and condition numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.numpy._arithmetic import divide, float_power, power
from tetrax.numpy._elementwise import constant_like
from tetrax.numpy._promote import (
    as_inexact,
    canonicalize_axes,
    canonicalize_axis,
    convert,
    ensure_arraylike,
)
from tetrax.numpy._reductions import any as any_
from tetrax.numpy._reductions import max as max_
from tetrax.numpy._reductions import min as min_
from tetrax.numpy._reductions import sum as sum_
from tetrax.numpy._select import where
from tetrax.numpy._shapes import moveaxis, ravel
from tetrax.numpy._typing import Array, ArrayLike, Axis
from tetrax.numpy.linalg._decompose import inexact_matrix, svd
from tetrax.numpy.linalg._solve import inv


def norm(x: ArrayLike, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """Return a vector norm over one axis, or a matrix norm over two.

    Without `axis` and `ord`, the 2-norm of all elements. The derivative of the 2-norm at zero is
    zero.

    >>> norm(np.array([3.0, 4.0]))
    Array(5., dtype=float32)
    """
    a = as_inexact("jnp.linalg.norm", x)
    a = convert(a, a.dtype)
    if axis is None:
        if ord is None:
            return _root_of_squares(a, tuple(range(a.ndim)), keepdims)
        axes = tuple(range(a.ndim))
    else:
        axes = canonicalize_axes(axis, a.ndim)
    if len(axes) == 1:
        return _vector_norm(a, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(a, ord, axes, keepdims)
    raise ValueError(
        f"Improper number of axes for norm: {axis=}. Pass one axis to compute a vector-norm, or "
        f"two axes to "
        "compute a matrix-norm."
    )


def _squares(a: Array) -> Array:
    if dtypes.issubdtype(a.dtype, np.complexfloating):
        return lax.add(lax.square(lax.real(a)), lax.square(lax.imag(a)))
    return lax.square(a)


def _root_of_squares(a: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    total = sum_(_squares(a), axis=axes, keepdims=keepdims)
    # The root has an infinite slope at zero; the norm's own subgradient there is zero.
    is_zero = lax.eq(total, lax.full_like(total, 0))
    root = lax.sqrt(lax.select(is_zero, lax.full_like(total, 1), total))
    return lax.select(is_zero, lax.full_like(root, 0), root)


def _vector_norm(a: Array, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    if ord is None or (not isinstance(ord, str) and _known(ord) == 2):
        return _root_of_squares(a, axes, keepdims)
    if isinstance(ord, str):
        raise ValueError(f"Invalid order '{ord}' for vector norm.")
    order = _known(ord)
    if order == np.inf:
        return max_(_size(a), axis=axes, keepdims=keepdims, initial=0)
    if order == -np.inf:
        return min_(_size(a), axis=axes, keepdims=keepdims)
    if order == 0:
        nonzero = lax.ne(a, lax.full_like(a, 0))
        return sum_(nonzero, axis=axes, dtype=dtypes.finfo(a.dtype).dtype, keepdims=keepdims)
    if order == 1:
        return sum_(_size(a), axis=axes, keepdims=keepdims)
    return _power_norm(_size(a), ord, axes, keepdims)


def _size(a: Array) -> Array:
    return a if a.dtype == np.bool_ else lax.abs(a)


def _known(ord: Any) -> Any:
    return ord if isinstance(ord, (int, float, np.generic)) else None


def _power_norm(size: Array, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    order = convert(ord, size.dtype)
    total = sum_(power(size, ord if isinstance(ord, int) else order), axis=axes, keepdims=keepdims)
    inverse = lax.div(constant_like(order, 1), order)
    is_zero = lax.eq(total, lax.full_like(total, 0))
    safe = lax.select(is_zero, lax.full_like(total, 1), total)
    positive = lax.gt(order, lax.full_like(order, 0))
    at_zero = where(positive, lax.full_like(total, 0), lax.full_like(total, np.inf))
    return lax.select(is_zero, at_zero, float_power(safe, inverse))


def _matrix_norm(a: Array, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    row, column = axes
    if ord in (None, "fro", "f"):
        return _root_of_squares(a, axes, keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        summed, left = (row, column) if ord in (1, -1) else (column, row)
        sums = sum_(lax.abs(a), axis=summed, keepdims=True)
        if ord in (1, np.inf):
            result = max_(sums, axis=left, keepdims=True, initial=0)
        else:
            result = min_(sums, axis=left, keepdims=True)
        return result if keepdims else lax.squeeze(result, tuple(sorted(axes)))
    if ord in ("nuc", 2, -2):
        values = svd(moveaxis(a, axes, (-2, -1)), compute_uv=False)
        if ord == "nuc":
            result = sum_(values, axis=-1)
        elif ord == 2:
            result = max_(values, axis=-1, initial=0)
        else:
            result = min_(values, axis=-1)
        return lax.expand_dims(result, tuple(sorted(axes))) if keepdims else result
    raise ValueError(f"Invalid order '{ord}' for matrix norm.")


def vector_norm(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: Any = 2
) -> Array:
    """Return a vector norm over one axis or several, of all elements without `axis`."""
    a = _for_vector_norm(x, ord)
    if ord is None or (not isinstance(ord, str) and _known(ord) == 2):
        return _root_of_squares(a, canonicalize_axes(axis, a.ndim), keepdims)
    if axis is None:
        result = _vector_norm(ravel(a), ord, (0,), False)
        return lax.reshape(result, (1,) * a.ndim) if keepdims else result
    return _vector_norm(a, ord, canonicalize_axes(axis, a.ndim), keepdims)


def _for_vector_norm(x: ArrayLike, ord: Any) -> Array:
    """The array in the dtype to compute in: integers stay so for sums and extremes, and become
    floats of default width for the others.
    """
    a = ensure_arraylike("jnp.linalg.vector_norm", x)
    if dtypes.issubdtype(a.dtype, np.inexact):
        return convert(a, a.dtype)
    exact = not isinstance(ord, str) and _known(ord) in (1, np.inf, -np.inf)
    return convert(a, a.dtype if exact else dtypes.default_float_dtype())


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Return a matrix norm over the last two axes."""
    a = as_inexact("jnp.linalg.matrix_norm", x)
    axes = (canonicalize_axis(-2, a.ndim), canonicalize_axis(-1, a.ndim))
    return _matrix_norm(convert(a, a.dtype), ord, axes, keepdims)


def cond(x: ArrayLike, p: Any = None) -> Array:
    """Return the condition number for a norm, by default from the singular values."""
    given = ensure_arraylike("jnp.linalg.cond", x)
    if given.ndim < 2:
        raise ValueError(
            f"jnp.linalg.cond: input array must be at least 2D; got arr.shape={given.shape}"
        )
    if 0 in given.shape[-2:]:
        raise ValueError(f"jnp.linalg.cond: input array must not be empty; got shape {given.shape}")
    a = inexact_matrix("cond", given)
    if p in (None, 2, -2):
        s = svd(a, compute_uv=False)
        first = lax.index_in_dim(s, 0, s.ndim - 1, keepdims=False)
        last = lax.index_in_dim(s, s.shape[-1] - 1, s.ndim - 1, keepdims=False)
        result = divide(last, first) if p == -2 else divide(first, last)
    else:
        if a.shape[-1] != a.shape[-2]:
            raise ValueError(
                f"jnp.linalg.cond: for {p=}, array must be square; got arr.shape={a.shape}"
            )
        axes = (a.ndim - 2, a.ndim - 1)
        result = lax.mul(_matrix_norm(a, p, axes, False), _matrix_norm(inv(a), p, axes, False))
    # A NaN that does not come from the matrix comes from dividing zero by zero: it is singular.
    spoilt = any_(lax.ne(a, a), axis=(-2, -1))
    singular = lax.bitwise_and(lax.ne(result, result), lax.bitwise_not(spoilt))
    return lax.select(singular, lax.full_like(result, np.inf), result)
