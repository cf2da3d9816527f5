"""Products of vectors, matrices and tensors, all of them one `dot_general` each."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.compiler.planned import planned
from tetrax.numpy._promote import (
    broadcast_array,
    canonicalize_axis,
    check_arraylike,
    check_no_out,
    convert,
    promote_dtypes,
    to_array,
    user_dtype,
)
from tetrax.numpy._shapes import moveaxis, ravel
from tetrax.numpy._typing import Array, ArrayLike, DTypeLike, PrecisionLike


def _operands(
    name: str, a: ArrayLike, b: ArrayLike, preferred: DTypeLike
) -> tuple[Array, Array, np.dtype, bool]:
    """Return both operands in one dtype, and the dtype and weak type of the result."""
    check_arraylike(name, a, b)
    dtype, weak_type = dtypes.result_type(a, b, return_weak_type_flag=True)
    if preferred is not None:
        dtype, weak_type = user_dtype(preferred, name), False
    x, y = promote_dtypes(a, b)
    return x, y, dtype, weak_type


def _multiplied(x: Array, y: Array, dtype: np.dtype) -> Array:
    """Multiply elementwise, in the dtype of the result."""
    x, y = lax.convert_element_type(x, dtype), lax.convert_element_type(y, dtype)
    return lax.bitwise_and(x, y) if dtype == np.bool_ else lax.mul(x, y)


@planned(2)
def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
    out_sharding: Any = None,
) -> Array:
    """Contract the last axis of the first array with the second-to-last of the second.

    A scalar operand just multiplies.
    """
    x, y, dtype, weak_type = _operands("dot", a, b, preferred_element_type)
    if x.ndim == 0 or y.ndim == 0:
        return convert(_multiplied(x, y, dtype), dtype, weak_type)
    contracted = ((x.ndim - 1,), (max(y.ndim - 2, 0),))
    result = lax.dot_general(
        x,
        y,
        (contracted, ((), ())),
        precision=precision,
        preferred_element_type=dtype,
        out_sharding=out_sharding,
    )
    return convert(result, dtype, weak_type)


@planned(2)
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
    out_sharding: Any = None,
) -> Array:
    """Multiply matrices, broadcasting over leading axes; vectors count as rows or columns.

    >>> matmul(np.eye(2), np.array([1.0, 2.0]))
    Array([1., 2.], dtype=float32)
    """
    x, y, dtype, weak_type = _operands("matmul", a, b, preferred_element_type)
    for position, operand in enumerate((x, y)):
        if operand.ndim < 1:
            raise ValueError(
                f"matmul input operand {position} must have ndim at least 1, "
                f"but it has ndim {operand.ndim}"
            )
    left_vector, right_vector = x.ndim == 1, y.ndim == 1
    if x.shape[-1] != y.shape[0 if right_vector else -2]:
        raise TypeError(
            f"matmul: the last axis of the first array and the "
            f"{'only' if right_vector else 'second-to-last'} "
            f"axis of the second must have the same size, got shapes {x.shape} and {y.shape}"
        )
    result = _batched_product(x, y, left_vector, right_vector, precision, dtype, out_sharding)
    return convert(result, dtype, weak_type)


def _batched_product(
    x: Array,
    y: Array,
    left_vector: bool,
    right_vector: bool,
    precision: PrecisionLike,
    dtype: np.dtype,
    out_sharding: Any,
) -> Array:
    """Multiply stacks of matrices; a leading axis of size one joins the other operand's rows."""
    x_batch = x.shape[: max(x.ndim - 2, 0)]
    y_batch = y.shape[: max(y.ndim - 2, 0)]
    try:
        batch = np.broadcast_shapes(x_batch, y_batch)
    except ValueError:
        raise ValueError(
            f"matmul: the leading axes of shapes {x.shape} and {y.shape} do not broadcast"
        ) from None
    x_only, y_only, both = [], [], []
    x_squeezed, y_squeezed = [], []
    for place in range(len(batch)):
        i, j = place - len(batch) + len(x_batch), place - len(batch) + len(y_batch)
        if i >= 0 and (j < 0 or y_batch[j] == 1):
            x_only.append(place)
            if j >= 0:
                y_squeezed.append(j)
        elif j >= 0 and (i < 0 or x_batch[i] == 1):
            y_only.append(place)
            if i >= 0:
                x_squeezed.append(i)
        else:
            both.append(place)
    x = lax.squeeze(x, tuple(x_squeezed)) if x_squeezed else x
    y = lax.squeeze(y, tuple(y_squeezed)) if y_squeezed else y
    x_places = [place for place in range(len(batch)) if place in x_only or place in both]
    y_places = [place for place in range(len(batch)) if place in y_only or place in both]
    numbers = (
        ((x.ndim - 1,), (y.ndim - 1 if right_vector else y.ndim - 2,)),
        (tuple(x_places.index(p) for p in both), tuple(y_places.index(p) for p in both)),
    )
    result = lax.dot_general(
        x,
        y,
        numbers,
        precision=precision,
        preferred_element_type=dtype,
        out_sharding=out_sharding,
    )
    row = [] if left_vector else ["row"]
    column = [] if right_vector else ["column"]
    have: list[Any] = [*both, *x_only, *row, *y_only, *column]
    want: list[Any] = [*range(len(batch)), *row, *column]
    order = [have.index(name) for name in want]
    return result if order == sorted(order) else lax.transpose(result, order)


def vdot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Return the inner product of two flattened arrays, the first one conjugated."""
    check_arraylike("vdot", a, b)
    x = to_array(a)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        x = lax.conj(x)
    return dot(
        ravel(x), ravel(b), precision=precision, preferred_element_type=preferred_element_type
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
    check_arraylike("vecdot", x1, x2)
    x, y = to_array(x1), to_array(x2)
    x, y = moveaxis(x, axis, -1), moveaxis(y, axis, -1)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"vecdot: the axis sizes differ: shapes {np.shape(x1)} and {np.shape(x2)}")
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        x = lax.conj(x)
    product = matmul(
        lax.expand_dims(x, (x.ndim - 1,)),
        lax.expand_dims(y, (y.ndim,)),
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
    return lax.squeeze(product, (product.ndim - 2, product.ndim - 1))


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Multiply stacks of matrices by stacks of vectors."""
    check_arraylike("matvec", x1, x2)
    y = to_array(x2)
    product = matmul(x1, lax.expand_dims(y, (y.ndim,)))
    return lax.squeeze(product, (product.ndim - 1,))


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Multiply stacks of vectors, conjugated, by stacks of matrices."""
    check_arraylike("vecmat", x1, x2)
    x = to_array(x1)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        x = lax.conj(x)
    product = matmul(lax.expand_dims(x, (x.ndim - 1,)), x2)
    return lax.squeeze(product, (product.ndim - 2,))


def inner(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Contract the last axes of two arrays."""
    check_arraylike("inner", a, b)
    x, y = to_array(a), to_array(b)
    if x.ndim == 0 or y.ndim == 0:
        return dot(x, y, precision=precision, preferred_element_type=preferred_element_type)
    return tensordot(
        x, y, (-1, -1), precision=precision, preferred_element_type=preferred_element_type
    )


def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """Return the products of all pairs of elements of two flattened arrays."""
    check_no_out("outer", out)
    check_arraylike("outer", a, b)
    x, y = promote_dtypes(ravel(a), ravel(b))
    shape = (x.size, y.size)
    x, y = lax.broadcast_in_dim(x, shape, (0,)), broadcast_array(y, shape)
    return lax.bitwise_and(x, y) if x.dtype == np.bool_ else lax.mul(x, y)


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the Kronecker product: every element of the first array times the whole second one."""
    check_arraylike("kron", a, b)
    x, y = promote_dtypes(a, b)
    rank = max(x.ndim, y.ndim)
    x, y = lax.broadcast_to_rank(x, rank), lax.broadcast_to_rank(y, rank)
    spread = tuple(size for pair in zip(x.shape, y.shape, strict=True) for size in pair)
    wide_x = lax.broadcast_in_dim(x, spread, tuple(range(0, 2 * rank, 2)))
    wide_y = lax.broadcast_in_dim(y, spread, tuple(range(1, 2 * rank, 2)))
    product = lax.bitwise_and(wide_x, wide_y) if x.dtype == np.bool_ else lax.mul(wide_x, wide_y)
    return lax.reshape(product, tuple(m * n for m, n in zip(x.shape, y.shape, strict=True)))


def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: Any = 2,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
    out_sharding: Any = None,
) -> Array:
    """Contract several axes of two arrays: a number of last and first ones, or those listed."""
    x, y, dtype, weak_type = _operands("tensordot", a, b, preferred_element_type)
    contracted = _contracted_axes(x, y, axes)
    sizes = ([x.shape[i] for i in contracted[0]], [y.shape[i] for i in contracted[1]])
    if sizes[0] != sizes[1]:
        raise TypeError(
            f"tensordot: the contracted axes differ in size: shapes {x.shape} and {y.shape}, "
            f"axes {axes}"
        )
    result = lax.dot_general(
        x,
        y,
        (contracted, ((), ())),
        precision=precision,
        preferred_element_type=dtype,
        out_sharding=out_sharding,
    )
    return convert(result, dtype, weak_type)


def _contracted_axes(x: Array, y: Array, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if np.ndim(axes) == 0 and not isinstance(axes, (tuple, list)):
        count = operator.index(axes)
        if count > min(x.ndim, y.ndim):
            raise TypeError(
                f"Number of tensordot axes (axes {count}) exceeds input ranks ({x.shape} and "
                f"{y.shape})"
            )
        return tuple(range(x.ndim - count, x.ndim)), tuple(range(count))
    if len(axes) != 2:
        raise ValueError(
            "tensordot axes argument must be an int, a pair of ints, or a pair of lists"
        )
    first, second = (_axis_list(part) for part in axes)
    if len(first) != len(second):
        raise TypeError(
            f"tensordot requires axes lists of equal length, got {list(first)} and {list(second)}"
        )
    return (
        tuple(canonicalize_axis(i, x.ndim) for i in first),
        tuple(canonicalize_axis(i, y.ndim) for i in second),
    )


def _axis_list(axes: Any) -> Sequence[int]:
    if isinstance(axes, (tuple, list)):
        return axes
    return (axes,) if np.ndim(axes) == 0 else list(axes)
