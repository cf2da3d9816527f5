"""Convolution and correlation of one-dimensional arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.numpy._promote import (
    check_arraylike,
    convert,
    promote_dtypes_inexact,
    to_array,
    user_dtype,
)
from tetrax.numpy._typing import Array, ArrayLike, DTypeLike, PrecisionLike


def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Convolve two one-dimensional arrays.

    Modes: "full" (every overlap), "same" (the size of the longer one), "valid" (whole overlaps
    only).
    """
    return _convolve("convolve", a, v, mode, precision, preferred_element_type)


def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Correlate two one-dimensional arrays: slide the second, conjugated, along the first."""
    return _convolve("correlate", a, v, mode, precision, preferred_element_type)


def _convolve(
    name: str, a: ArrayLike, v: ArrayLike, mode: str, precision: Any, preferred: DTypeLike
) -> Array:
    check_arraylike(name, a, v)
    x, y = to_array(a), to_array(v)
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(f"{name}() only support 1-dimensional inputs.")
    x, y = promote_dtypes_inexact(x, y)
    x, y = convert(x, x.dtype), convert(y, y.dtype)
    if x.shape[0] == 0 or y.shape[0] == 0:
        raise ValueError(f"{name}: inputs cannot be empty, got shapes {x.shape} and {y.shape}.")
    if name == "correlate":
        y = lax.conj(y) if dtypes.issubdtype(y.dtype, np.complexfloating) else y
    else:
        y = lax.rev(y, (0,))
    backwards = x.shape[0] < y.shape[0]
    if backwards:  # the longer one is the signal; turning the result round makes up for it
        x, y = lax.rev(y, (0,)), lax.rev(x, (0,))
        if name == "correlate":
            x, y = lax.rev(x, (0,)), lax.rev(y, (0,))
    target = None if preferred is None else user_dtype(preferred, name)
    result = _slid(x, y, _padding(mode, y.shape[0]), precision, target)
    return lax.rev(result, (0,)) if backwards and name == "correlate" else result


def _padding(mode: str, size: int) -> tuple[int, int]:
    if mode == "valid":
        return 0, 0
    if mode == "same":
        return size // 2, size - size // 2 - 1
    if mode == "full":
        return size - 1, size - 1
    raise ValueError("mode must be one of ['full', 'same', 'valid']")


def _slid(x: Array, y: Array, padding: tuple[int, int], precision: Any, target: Any) -> Array:
    """Slide `y` along `x` and sum the products."""
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        xr, xi, yr, yi = lax.real(x), lax.imag(x), lax.real(y), lax.imag(y)
        real = lax.sub(
            _slid(xr, yr, padding, precision, None), _slid(xi, yi, padding, precision, None)
        )
        imag = lax.add(
            _slid(xr, yi, padding, precision, None), _slid(xi, yr, padding, precision, None)
        )
        result = lax.complex(real, imag)
        return result if target is None else convert(result, target)
    result = lax.conv_general_dilated(
        lax.reshape(x, (1, 1, x.shape[0])),
        lax.reshape(y, (1, 1, y.shape[0])),
        window_strides=(1,),
        padding=[padding],
        precision=precision,
        preferred_element_type=target,
    )
    return lax.reshape(result, (result.shape[2],))
