"""Between indices of several axes and positions in the flattened array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, errors, lax
from tetrax.numpy._promote import (
    broadcast_array,
    canonicalize_shape,
    check_arraylike,
    convert,
    ensure_arraylike,
    to_array,
    user_dtype,
)
from tetrax.numpy._typing import Array, ArrayLike, DTypeLike
from tetrax.tracing.trace import concrete_or_error


def unravel_index(indices: ArrayLike, shape: Any) -> tuple[Array, ...]:
    """Return the index along each axis of positions in the flattened array.

    Positions outside are moved to the nearest end.
    """
    place = ensure_arraylike("unravel_index", indices)
    if not dtypes.issubdtype(place.dtype, np.integer):
        raise TypeError(f"unravel_index: indices must be integers, got {place.dtype}")
    sizes = canonicalize_shape(shape, "unravel_index")
    total = math.prod(sizes)
    wrapped = lax.add(place, lax.full_like(place, total, shape=()))
    place = lax.select(lax.lt(place, lax.full_like(place, 0)), wrapped, place)
    low, high = lax.full_like(place, 0), lax.full_like(place, max(total - 1, 0))
    place = lax.clamp(low, place, high)
    result: list[Array] = []
    for size in sizes[::-1]:
        divisor = lax.full_like(place, max(size, 1))
        result.append(lax.rem(place, divisor))
        place = lax.div(place, divisor)
    return tuple(result[::-1])


def ravel_multi_index(
    multi_index: Sequence[ArrayLike],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: DTypeLike = None,
) -> Array:
    """Return the positions in the flattened array of indices along each axis.

    Modes for indices outside: "raise" (they must be known), "clip", "wrap".
    """
    if len(multi_index) != len(dims):
        raise ValueError(f"len(multi_index)={len(multi_index)} != len(dims)={len(dims)}")
    sizes = canonicalize_shape(tuple(dims), "ravel_multi_index")
    check_arraylike("ravel_multi_index", *multi_index)
    arrays = [to_array(x) for x in multi_index]
    if not all(dtypes.issubdtype(x.dtype, np.integer) for x in arrays):
        raise TypeError("only int indices permitted")
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError(f"invalid mode={mode!r}. Expected 'raise', 'wrap', or 'clip'.")
    if dtype is None:
        target = dtypes.result_type(*arrays) if arrays else dtypes.default_int_dtype()
    else:
        target = user_dtype(dtype, "ravel_multi_index")
    placed = [
        _inside(convert(x, target), size, mode) for x, size in zip(arrays, sizes, strict=True)
    ]
    if order == "F":
        strides = np.cumprod((1, *sizes[:-1]))
    elif order == "C":
        strides = np.cumprod((1, *sizes[1:][::-1]))[::-1]
    else:
        raise ValueError(f"invalid order={order!r}. Expected 'C' or 'F'")
    shape = lax.broadcast_shapes(*(x.shape for x in placed)) if placed else ()
    result = lax.full(shape, 0, target)
    for x, stride in zip(placed, strides, strict=True):
        step = lax.mul(broadcast_array(x, shape), lax.full(shape, int(stride), target))
        result = lax.add(result, step)
    return result


def _inside(x: Array, size: int, mode: str) -> Array:
    if mode == "raise":
        known = np.asarray(
            concrete_or_error(
                x,
                errors.ConcretizationTypeError,
                "The error occurred because ravel_multi_index was jit-compiled with "
                "mode='raise'. Use "
                "mode='wrap' or mode='clip' instead.",
            )
        )
        if np.any((known < 0) | (known >= size)):
            raise ValueError("invalid entry in coordinates array")
        return x
    if mode == "clip":
        return lax.clamp(lax.full_like(x, 0), x, lax.full_like(x, size - 1))
    count = lax.full_like(x, size)
    return lax.rem(lax.add(lax.rem(x, count), count), count)
