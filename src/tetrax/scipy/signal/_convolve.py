"""Convolution and correlation in any number of dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import lax
from tetrax import numpy as jnp
from tetrax.numpy._promote import (
    canonicalize_axes,
    check_arraylike,
    promote_dtypes_inexact,
)

_MODES = ("full", "same", "valid")


def _check_mode(name: str, mode: str) -> None:
    if mode not in _MODES:
        raise ValueError(f"{name}: mode must be one of {_MODES}, got {mode!r}")


def _flipped(x: Any) -> Any:
    return jnp.flip(x, tuple(range(x.ndim)))


def _direct(name: str, x: Any, y: Any, mode: str, precision: Any) -> Any:
    """Convolve directly; `y` is turned round here."""
    if x.ndim != y.ndim:
        raise ValueError(f"{name}: in1 and in2 must have one rank, got {x.shape} and {y.shape}")
    if 0 in x.shape or 0 in y.shape:
        raise ValueError(f"zero-size arrays not supported in {name}, got {x.shape} and {y.shape}")
    if mode == "valid" and not all(a >= b for a, b in zip(x.shape, y.shape, strict=True)):
        if not all(a <= b for a, b in zip(x.shape, y.shape, strict=True)):
            raise ValueError(
                f"{name}: in valid mode one input must hold the other in all axes, got "
                f"{x.shape} and {y.shape}"
            )
        x, y = y, x
    pads = {
        "valid": [(0, 0)] * x.ndim,
        "same": [(n // 2, n - n // 2 - 1) for n in y.shape],
        "full": [(n - 1, n - 1) for n in y.shape],
    }[mode]
    result = lax.conv_general_dilated(
        x[None, None], _flipped(y)[None, None], (1,) * x.ndim, pads, precision=precision
    )
    return result[0, 0]


def _pair(name: str, in1: Any, in2: Any) -> Any:
    check_arraylike(name, in1, in2)
    return promote_dtypes_inexact(in1, in2)


def convolve(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None
) -> Any:
    """Convolve two arrays of one rank; `method` is "direct" (also for "auto") or "fft".

    >>> convolve(np.float32([1, 2]), np.float32([1, 1]))
    Array([1., 3., 2.], dtype=float32)
    """
    _check_mode("convolve", mode)
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    if method not in ("auto", "direct"):
        raise ValueError(f"Got {method=}; expected 'auto', 'fft', or 'direct'.")
    return _direct("convolve", *_pair("convolve", in1, in2), mode, precision)


def correlate(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None
) -> Any:
    """Correlate two arrays of one rank: convolve with the second turned round and conjugated."""
    x, y = _pair("correlate", in1, in2)
    return convolve(x, _flipped(jnp.conj(y)), mode, method, precision)


def _check_plane(name: str, boundary: str, fillvalue: Any, x: Any, y: Any) -> None:
    if boundary != "fill" or not isinstance(fillvalue, int | float) or fillvalue != 0:
        raise NotImplementedError(f"{name}() only supports boundary='fill', fillvalue=0")
    if np.ndim(x) != 2 or np.ndim(y) != 2:
        raise ValueError(f"{name}() only supports {2}-dimensional inputs.")


def convolve2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Any:
    """Convolve two matrices, zeros around the first."""
    _check_plane("convolve2d", boundary, fillvalue, in1, in2)
    return convolve(in1, in2, mode, "direct", precision)


def correlate2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Any:
    """Correlate two matrices, zeros around the first."""
    _check_plane("correlate2d", boundary, fillvalue, in1, in2)
    return correlate(in1, in2, mode, "direct", precision)


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """Convolve along axes by the Fourier transform."""
    _check_mode("fftconvolve", mode)
    x, y = _pair("fftconvolve", in1, in2)
    if x.ndim != y.ndim:
        raise ValueError(f"fftconvolve: in1 and in2 must have one rank: {x.shape}, {y.shape}")
    places = canonicalize_axes(axes, x.ndim)
    first, second = x.shape, y.shape
    sizes = [first[i] + second[i] - 1 for i in places]
    real = x.dtype.kind != "c"
    forward, backward = (jnp.fft.rfftn, jnp.fft.irfftn) if real else (jnp.fft.fftn, jnp.fft.ifftn)
    full = backward(forward(x, sizes, places) * forward(y, sizes, places), sizes, places)
    if mode == "full":
        return full
    for i in places:
        if mode == "same":
            size = first[i]
        else:
            size = max(first[i], second[i]) - min(first[i], second[i]) + 1
        begin = (full.shape[i] - size) // 2
        full = lax.slice_in_dim(full, begin, begin + size, axis=i)
    return full
