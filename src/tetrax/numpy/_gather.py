"""Taking elements at positions along an axis that are known to lie inside it."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import lax
from tetrax.numpy._typing import Array
from tetrax.tracing.value import Value


def take_positions(x: Array, positions: Any, axis: int) -> Array:
    """Take positions, a one-dimensional array of integers within bounds, along an axis."""
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(i for i in range(x.ndim) if i != axis),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    sizes = tuple(1 if i == axis else size for i, size in enumerate(x.shape))
    if isinstance(positions, Value):
        start = lax.expand_dims(positions, (1,))
    else:
        start = np.asarray(positions, np.int32)[:, None]
    if x.shape[axis] == 0:  # no position lies inside; there can be none to take
        return lax.full((*x.shape[:axis], start.shape[0], *x.shape[axis + 1 :]), 0, x.dtype)
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return lax.gather(x, start, numbers, sizes, mode=mode)
