"""Changing shapes without changing elements: reshape, transpose, squeeze, broadcast."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import lax
from tetrax.compiler.planned import planned
from tetrax.numpy._promote import (
    broadcast_array,
    canonicalize_axes,
    canonicalize_axis,
    canonicalize_shape,
    check_arraylike,
    ensure_arraylike,
    to_array,
)
from tetrax.numpy._typing import Array, ArrayLike, Shape

# --------------------------------------------------------------------------- reshape


@planned(1)
def reshape(
    a: ArrayLike,
    shape: Any,
    order: str = "C",
    *,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Array:
    """Give an array a new shape of the same size; one size may be -1, to be worked out.

    >>> reshape(np.arange(6), (2, -1)).shape
    (2, 3)
    """
    del copy
    a = ensure_arraylike("reshape", a)
    return _ordered_reshape(a, resolve_shape(a, shape), order, out_sharding)


def resolve_shape(a: Array, shape: Any) -> Shape:
    """Return the shape asked for with -1 replaced; raise TypeError where the sizes do not agree."""
    sizes = list(_plain_sizes(shape))
    unknown = [i for i, size in enumerate(sizes) if isinstance(size, int) and size == -1]
    if len(unknown) > 1:
        raise TypeError(
            f"can only specify one unknown axis size with a `-1` value, got {tuple(sizes)}"
        )
    if unknown:
        known = math.prod(size for i, size in enumerate(sizes) if i != unknown[0])
        if known == 0 or a.size % known:
            raise TypeError(
                f"cannot reshape array of shape {a.shape} (size {a.size}) into shape "
                f"{tuple(sizes)}: "
                f"the size is not divisible by {known}"
            )
        sizes[unknown[0]] = a.size // known
    if math.prod(sizes) != a.size:
        raise TypeError(
            f"cannot reshape array of shape {a.shape} (size {a.size}) into shape {tuple(sizes)} "
            f"(size {math.prod(sizes)})"
        )
    return tuple(sizes)


def _plain_sizes(shape: Any) -> Sequence[int]:
    if np.ndim(shape) == 0 and hasattr(shape, "__index__"):
        return (operator.index(shape),)
    try:
        return tuple(operator.index(size) for size in shape)
    except TypeError:
        return canonicalize_shape(shape, "reshape")


def _ordered_reshape(a: Array, shape: Shape, order: str, out_sharding: Any = None) -> Array:
    if order == "C":
        if a.shape == shape and out_sharding is None:
            return a
        if out_sharding is None:
            return lax.reshape(a, shape)
        return lax.reshape(a, shape, out_sharding=out_sharding)
    if order == "F":
        reverse = tuple(range(a.ndim))[::-1]
        back = tuple(range(len(shape)))[::-1]
        return lax.transpose(lax.reshape(lax.transpose(a, reverse), shape[::-1]), back)
    if order == "A":
        raise NotImplementedError("np.reshape order=A is not implemented.")
    raise ValueError(f"Unexpected value for 'order' argument: {order}.")


@planned(1)
def ravel(a: ArrayLike, order: str = "C", *, out_sharding: Any = None) -> Array:
    """Flatten an array into one axis."""
    a = ensure_arraylike("ravel", a)
    if order == "K":
        raise NotImplementedError("Ravel not implemented for order='K'.")
    return _ordered_reshape(a, (a.size,), order, out_sharding)


# --------------------------------------------------------------------------- order of axes


@planned(1)
def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Reorder the axes; without `axes`, reverse them.

    >>> transpose(np.zeros((2, 3))).shape
    (3, 2)
    """
    a = ensure_arraylike("transpose", a)
    order = tuple(range(a.ndim))[::-1] if axes is None else tuple(axes)
    if len(order) != a.ndim:
        raise TypeError(f"transpose: axes {order} do not match an array of {a.ndim} axes")
    order = tuple(canonicalize_axis(axis, a.ndim) for axis in order)
    if len(set(order)) != len(order):
        raise TypeError(f"transpose: repeated axis in {tuple(axes or ())}")
    return a if order == tuple(range(a.ndim)) else lax.transpose(a, order)


def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """Reorder the axes; the array API's name for `transpose`."""
    return transpose(ensure_arraylike("permute_dims", a), axes)


@planned(1)
def matrix_transpose(x: ArrayLike, /) -> Array:
    """Exchange the last two axes."""
    x = ensure_arraylike("matrix_transpose", x)
    if x.ndim < 2:
        raise ValueError(
            f"x must be at least two-dimensional for matrix_transpose; got ndim={x.ndim}"
        )
    return lax.transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@planned(1)
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Exchange two axes."""
    a = ensure_arraylike("swapaxes", a)
    order = list(range(a.ndim))
    i, j = canonicalize_axis(axis1, a.ndim), canonicalize_axis(axis2, a.ndim)
    order[i], order[j] = order[j], order[i]
    return lax.transpose(a, order)


@planned(1)
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Move axes to new positions; the others keep their order.

    >>> moveaxis(np.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    a = ensure_arraylike("moveaxis", a)
    sources = canonicalize_axes(source, a.ndim)
    targets = canonicalize_axes(destination, a.ndim)
    if len(sources) != len(targets):
        raise ValueError(
            f"Inconsistent number of elements: {len(sources)} vs {len(targets)} "
            "(source and destination of moveaxis)"
        )
    order = [axis for axis in range(a.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return a if order == list(range(a.ndim)) else lax.transpose(a, order)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """Move one axis backwards until it stands before the axis `start`."""
    a = ensure_arraylike("rollaxis", a)
    start = operator.index(start)
    axis = canonicalize_axis(axis, a.ndim)
    if not -a.ndim <= start <= a.ndim:
        raise ValueError(f"start={start!r} must satisfy {-a.ndim}<=start<={a.ndim}")
    if start < 0:
        start += a.ndim
    if start > axis:
        start -= 1
    return moveaxis(a, axis, start)


# --------------------------------------------------------------------------- axes of size one


@planned(1)
def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Remove axes of size one: all, or those named."""
    a = ensure_arraylike("squeeze", a)
    if axis is None:
        axes = tuple(i for i, size in enumerate(a.shape) if size == 1)
    else:
        axes = canonicalize_axes(axis, a.ndim)
        wrong = [i for i in axes if a.shape[i] != 1]
        if wrong:
            raise ValueError(
                "cannot select an axis to squeeze out which has size not equal to one, "
                f"got shape={a.shape} and dimensions={tuple(wrong)}"
            )
    return lax.squeeze(a, axes) if axes else a


@planned(1)
def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """Add axes of size one at the positions given, counted in the result."""
    a = ensure_arraylike("expand_dims", a)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return lax.expand_dims(a, canonicalize_axes(tuple(axes), a.ndim + len(axes)))


def _at_least(name: str, arrays: tuple[ArrayLike, ...], grow: Any) -> Any:
    check_arraylike(name, *arrays)
    grown = [grow(to_array(x)) for x in arrays]
    return grown[0] if len(grown) == 1 else grown


def atleast_1d(*arys: ArrayLike) -> Any:
    """Make scalars one-dimensional; leave the rest alone."""
    return _at_least("atleast_1d", arys, lambda x: x if x.ndim else lax.reshape(x, (1,)))


def atleast_2d(*arys: ArrayLike) -> Any:
    """Give every array at least two axes, adding them in front."""
    return _at_least(
        "atleast_2d", arys, lambda x: x if x.ndim >= 2 else lax.broadcast_to_rank(x, 2)
    )


def atleast_3d(*arys: ArrayLike) -> Any:
    """Give every array at least three axes, as NumPy does: (n,) becomes (1, n, 1)."""
    positions = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}
    return _at_least(
        "atleast_3d", arys, lambda x: lax.expand_dims(x, positions[x.ndim]) if x.ndim < 3 else x
    )


# --------------------------------------------------------------------------- broadcasting


def broadcast_shapes(*shapes: Any) -> Shape:
    """Return the shape to which shapes broadcast.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    sizes = [canonicalize_shape(shape, "broadcast_shapes") for shape in shapes]
    rank = max(map(len, sizes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in sizes]
    result = []
    for column in zip(*padded, strict=True):
        others = {size for size in column if size != 1}
        if len(others) > 1:
            raise ValueError(f"Incompatible shapes for broadcasting: shapes={sizes}")
        result.append(others.pop() if others else 1)
    return tuple(result)


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """Broadcast arrays against each other, keeping their dtypes."""
    check_arraylike("broadcast_arrays", *args)
    arrays = [to_array(x) for x in args]
    shape = broadcast_shapes(*(x.shape for x in arrays))
    return [broadcast_array(x, shape) for x in arrays]


@planned(1)
def broadcast_to(array: ArrayLike, shape: Any, *, out_sharding: Any = None) -> Array:
    """Broadcast an array to a shape."""
    x = ensure_arraylike("broadcast_to", array)
    target = canonicalize_shape(shape, "broadcast_to")
    if x.ndim > len(target):
        raise ValueError(
            f"Cannot broadcast to shape with fewer dimensions: arr_shape={x.shape} shape={target}"
        )
    for size, wanted in zip(x.shape[::-1], target[::-1], strict=False):
        if size not in (1, wanted):
            raise ValueError(
                f"Incompatible shapes for broadcasting: {x.shape} and requested shape {target}"
            )
    result = broadcast_array(x, target)
    return result if out_sharding is None else lax.with_sharding_constraint(result, out_sharding)
