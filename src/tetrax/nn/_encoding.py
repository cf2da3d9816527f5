"""One-hot encoding, of values along a new axis or across a mapped one."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np
from tetrax import dtypes, errors, lax
from tetrax import numpy as jnp
from tetrax.tracing.trace import concrete_or_error


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: Any = -1) -> Any:
    """1 at the position that `x` names along a new axis of size `num_classes`, 0 elsewhere.

    Values outside the range give zeros. `axis` may name a mapped axis of that size.

    >>> one_hot(np.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    what = "The error arose in nn.one_hot argument `num_classes`."
    num_classes = operator.index(
        concrete_or_error(num_classes, errors.TracerIntegerConversionError, what)
    )
    x = jnp.asarray(x)
    if not dtypes.issubdtype(x.dtype, np.integer):
        warnings.warn(
            f"one_hot input should be integer-typed; got dtype={x.dtype}",
            DeprecationWarning,
            stacklevel=2,
        )
    dtype = dtypes.default_float_dtype() if dtype is None else dtype
    try:
        position = operator.index(axis)
    except TypeError:
        return _across(x, num_classes, dtype, axis)
    rank = x.ndim + 1
    if not -rank <= position < rank:
        raise ValueError(f"axis {position} is out of bounds for array of dimension {rank}")
    position %= rank
    shape = [1] * x.ndim
    shape.insert(position, num_classes)
    classes = lax.broadcasted_iota(x.dtype, shape, position)
    return (lax.expand_dims(x, (position,)) == classes).astype(dtype)


def _across(x: Any, num_classes: int, dtype: Any, name: Any) -> Any:
    """The slice of a one-hot encoding that belongs to this index of a mapped axis."""
    size = lax.axis_size(name)
    if num_classes != size:
        raise ValueError(
            f"Expected num_classes to match the size of axis {name}, but {num_classes} != {size}"
        )
    return (x == lax.axis_index(name)).astype(dtype)
