"""Limiting elements to a range."""

from __future__ import annotations

import numpy as np
from tetrax import dtypes
from tetrax.compiler.planned import planned
from tetrax.numpy._arithmetic import maximum, minimum
from tetrax.numpy._promote import check_arraylike, to_array
from tetrax.numpy._typing import Array, ArrayLike


@planned(3)
def clip(
    arr: ArrayLike | None = None,
    /,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
) -> Array:
    """Limit elements to a range; either end may be missing. The upper end wins where they cross.

    >>> clip(np.array([-2, 0, 5]), 0, 3)
    Array([0, 0, 3], dtype=int32)
    """
    if arr is None:
        raise ValueError("At least one argument must be provided to jax.numpy.clip.")
    check_arraylike("clip", *(x for x in (arr, min, max) if x is not None))
    result = to_array(arr)
    given = [to_array(x) for x in (arr, min, max) if x is not None]
    if any(dtypes.issubdtype(x.dtype, np.complexfloating) for x in given):
        raise ValueError(
            "Clip received a complex value either through the input or the min/max keywords. "
            "Complex values "
            "have no ordering and cannot be clipped. Take the real or the imaginary part first."
        )
    if min is not None:
        result = maximum(min, result)
    if max is not None:
        result = minimum(max, result)
    return result
