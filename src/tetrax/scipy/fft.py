"""Cosine transforms: `tetrax.scipy.fft`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.numpy._promote import as_inexact, canonicalize_axes

__all__ = ["dct", "dctn", "idct", "idctn"]


def _checked(name: str, x: Any, type: int, norm: str | None) -> Any:
    if type != 2:
        raise NotImplementedError(f"{name}: only type 2 is implemented, got type={type}.")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"{name}: norm must be None, 'backward' or 'ortho', got {norm!r}")
    x = as_inexact(name, x)
    if x.dtype.kind == "c":
        raise ValueError(f"{name} does not take complex numbers, got {x.dtype}")
    return x


def _fitted(x: Any, n: int | None) -> Any:
    """Cut or pad the last axis to length `n`."""
    size = x.shape[-1]
    if n is None or n == size:
        return x
    if n < size:
        return x[..., :n]
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, n - size)])


def _turns(size: int, sign: float, x: Any) -> Any:
    kind = np.complex128 if x.dtype == np.float64 else np.complex64
    return jnp.asarray(np.exp(sign * 0.5j * np.pi * np.arange(size) / size).astype(kind))


def _ortho(size: int, x: Any) -> Any:
    factors = np.full(size, math.sqrt(0.5 / size))
    factors[:1] = 0.5 / math.sqrt(size)
    return jnp.asarray(factors.astype(x.dtype))


def dct(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Any:
    """Return the discrete cosine transform of type 2 along an axis, its length set to `n`."""
    x = _fitted(jnp.moveaxis(_checked("dct", x, type, norm), axis, -1), n)
    size = x.shape[-1]
    spectrum = jnp.fft.fft(x, 2 * size)[..., :size]
    y = (2 * jnp.real(spectrum * _turns(size, -1.0, x))).astype(x.dtype)
    return jnp.moveaxis(y * _ortho(size, x) if norm == "ortho" else y, -1, axis)


def idct(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Any:
    """Return the inverse of `dct`."""
    x = _fitted(jnp.moveaxis(_checked("idct", x, type, norm), axis, -1), n)
    size = x.shape[-1]
    if norm == "ortho":
        x = x / _ortho(size, x)
    halved = x * jnp.asarray(np.where(np.arange(size) == 0, 1, 2).astype(x.dtype))
    y = jnp.fft.ifft(halved * _turns(size, 1.0, x), 2 * size)[..., :size]
    return jnp.moveaxis(jnp.real(y).astype(x.dtype), -1, axis)


def _over_axes(
    name: str, transform: Any, x: Any, s: Sequence[int] | None, axes: Any, norm: str | None
) -> Any:
    x = as_inexact(name, x)
    if axes is None and s is not None:
        axes = range(x.ndim - len(s), x.ndim)
    places = canonicalize_axes(None if axes is None else tuple(axes), x.ndim)
    sizes = [None] * len(places) if s is None else list(s)
    if len(sizes) != len(places):
        raise ValueError(f"{name}: {len(sizes)} sizes for {len(places)} axes")
    for place, size in zip(places, sizes, strict=True):
        x = transform(x, 2, size, place, norm)
    return x


def dctn(x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Return the cosine transform of type 2 along several axes."""
    _checked("dctn", x, type, norm)
    return _over_axes("dctn", dct, x, s, axes, norm)


def idctn(x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Return the inverse of `dctn`."""
    _checked("idctn", x, type, norm)
    return _over_axes("idctn", idct, x, s, axes, norm)
