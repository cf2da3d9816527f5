"""The cross product."""

from __future__ import annotations

import numpy as np
from tetrax import lax
from tetrax.numpy._promote import (
    broadcast_array,
    canonicalize_axis,
    ensure_arraylike,
    promote_dtypes,
)
from tetrax.numpy._shapes import moveaxis
from tetrax.numpy._typing import Array, ArrayLike


def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """Return the cross products of vectors of two or three elements.

    Two vectors of two elements give the third component alone, as a number.

    >>> cross(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
    Array([0., 0., 1.], dtype=float32)
    """
    x, y = promote_dtypes(*ensure_arraylike("cross", a, b))
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ValueError("Dimension must be either 2 or 3 for cross product")
    flat = x.shape[-1] == 2 and y.shape[-1] == 2
    outer = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    xs, ys = _components(x, outer), _components(y, outer)

    def component(i: int, j: int) -> Array:
        return lax.sub(lax.mul(xs[i], ys[j]), lax.mul(xs[j], ys[i]))

    if flat:
        return component(0, 1)
    parts = [component(1, 2), component(2, 0), component(0, 1)]
    last = len(outer)
    result = lax.concatenate([lax.expand_dims(part, (last,)) for part in parts], last)
    return moveaxis(result, -1, canonicalize_axis(axisc, result.ndim))


def _components(x: Array, outer: tuple[int, ...]) -> list[Array]:
    """Return the three components, zero for one that is missing."""
    last = x.ndim - 1
    parts = [
        broadcast_array(lax.index_in_dim(x, i, last, keepdims=False), outer)
        for i in range(x.shape[-1])
    ]
    return parts if len(parts) == 3 else [*parts, lax.full(outer, 0, x.dtype)]
