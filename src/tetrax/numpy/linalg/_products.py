"""Products of matrices and vectors, and parts of matrices."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

from tetrax.numpy import _contract
from tetrax.numpy._creation import eye
from tetrax.numpy._einsum import einsum
from tetrax.numpy._products import cross as _cross
from tetrax.numpy._promote import broadcast_array, check_arraylike, ensure_arraylike, to_array
from tetrax.numpy._rearrange import diagonal as _diagonal
from tetrax.numpy._rearrange import trace as _trace
from tetrax.numpy._shapes import matrix_transpose as _matrix_transpose
from tetrax.numpy._typing import Array, ArrayLike, DTypeLike, PrecisionLike
from tetrax.numpy.linalg._solve import inv


def matmul(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Multiply matrices, broadcasting over leading axes."""
    return _contract.matmul(
        x1, x2, precision=precision, preferred_element_type=preferred_element_type
    )


def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axes: Any = 2,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
    out_sharding: Any = None,
) -> Array:
    """Contract several axes of two arrays."""
    return _contract.tensordot(
        x1,
        x2,
        axes=axes,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Return the inner products along an axis, the first array conjugated."""
    return _contract.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the products of all pairs of elements of two vectors."""
    x, y = ensure_arraylike("jnp.linalg.outer", x1, x2)
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are x1.ndim={x.ndim} x2.ndim={y.ndim}"
        )
    return _contract.outer(x, y)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Return the cross products of vectors of three elements along an axis."""
    x, y = ensure_arraylike("jnp.linalg.cross", x1, x2)
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, "
            f"but they have sizes {x.shape[axis]} and {y.shape[axis]} along axis {axis}"
        )
    return _cross(x, y, axis=axis)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """Exchange the last two axes."""
    return _matrix_transpose(x)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Return the diagonals of the last two axes."""
    return _diagonal(x, offset=offset, axis1=-2, axis2=-1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike = None) -> Array:
    """Sum the diagonals of the last two axes."""
    return _trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


def matrix_power(a: ArrayLike, n: int) -> Array:
    """Raise a square matrix to an integer power by repeated squaring."""
    x = ensure_arraylike("jnp.linalg.matrix_power", a)
    if x.ndim < 2:
        raise TypeError(f"{x.ndim}-dimensional array given. Array must be at least two-dimensional")
    if x.shape[-2] != x.shape[-1]:
        raise TypeError("Last 2 dimensions of the array must be square")
    try:
        exponent = operator.index(n)
    except TypeError as error:
        raise TypeError(f"exponent must be an integer, got {n}") from error
    if exponent == 0:
        return broadcast_array(eye(x.shape[-2], dtype=x.dtype), x.shape)
    if exponent < 0:
        x, exponent = inv(x), -exponent
    result: Array | None = None
    while True:
        if exponent & 1:
            result = x if result is None else _contract.matmul(result, x)
        exponent >>= 1
        if not exponent:
            return result
        x = _contract.matmul(x, x)


def multi_dot(arrays: Sequence[ArrayLike], *, precision: PrecisionLike = None) -> Array:
    """Multiply a chain of matrices in the cheapest order; the first and last may be vectors."""
    check_arraylike("jnp.linalg.multi_dot", *arrays)
    items = [to_array(x) for x in arrays]
    if len(items) < 2:
        raise ValueError(f"multi_dot requires at least two arrays; got len(arrays)={len(items)}")
    if items[0].ndim not in (1, 2) or items[-1].ndim not in (1, 2):
        raise ValueError("multi_dot: the first and the last array must have 1 or 2 dimensions")
    if any(x.ndim != 2 for x in items[1:-1]):
        raise ValueError(
            f"multi_dot: the arrays between first and last must be matrices, got shapes "
            f"{[x.shape for x in items]}"
        )
    operands: list[Any] = []
    for place, x in enumerate(items):
        names = [place, place + 1]
        if x.ndim == 1:
            names = [1] if place == 0 else [place]
        operands += [x, names]
    output = [0] if items[0].ndim == 2 else []
    output += [len(items)] if items[-1].ndim == 2 else []
    if any(a.shape[-1] != b.shape[0] for a, b in itertools.pairwise(items)):
        raise ValueError(f"multi_dot: shapes {[x.shape for x in items]} do not chain")
    return einsum(*operands, output, optimize="auto", precision=precision)
