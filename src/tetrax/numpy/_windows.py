"""Window functions."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from tetrax import dtypes, errors, lax
from tetrax.numpy._elementwise import i0
from tetrax.numpy._promote import convert, ensure_arraylike
from tetrax.numpy._typing import Array, ArrayLike
from tetrax.runtime.array import make_array
from tetrax.tracing.trace import concrete_or_error


def _points(name: str, M: Any) -> int:
    where = f"M argument of jnp.{name}"
    return operator.index(concrete_or_error(M, errors.ConcretizationTypeError, where))


def _window(values: np.ndarray) -> Array:
    return make_array(values.astype(dtypes.default_float_dtype()))


def bartlett(M: int) -> Array:
    """Return the triangular window with zeros at the ends."""
    return _window(np.bartlett(_points("bartlett", M)))


def blackman(M: int) -> Array:
    """Return the Blackman window."""
    return _window(np.blackman(_points("blackman", M)))


def hamming(M: int) -> Array:
    """Return the Hamming window."""
    return _window(np.hamming(_points("hamming", M)))


def hanning(M: int) -> Array:
    """Return the Hann window."""
    return _window(np.hanning(_points("hanning", M)))


def kaiser(M: int, beta: ArrayLike) -> Array:
    """Return the Kaiser window of a shape parameter, which may be traced."""
    count = _points("kaiser", M)
    dtype = dtypes.default_float_dtype()
    if count <= 1:
        return lax.full((max(count, 0),), 1, dtype)
    shape = convert(ensure_arraylike("kaiser", beta), dtype)
    distance = (np.arange(count) - (count - 1) / 2.0) / ((count - 1) / 2.0)
    arc = make_array(np.sqrt(np.clip(1 - distance**2, 0, None)).astype(dtype))
    scaled = lax.mul(lax.broadcast_in_dim(shape, (count,), ()), arc)
    return lax.div(i0(scaled), lax.broadcast_in_dim(i0(shape), (count,), ()))
