"""Resizing and moving images."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import lax
from tetrax import numpy as jnp
from tetrax.numpy._promote import as_inexact, canonicalize_axes

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """How values between samples are made."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """Return the method of a name such as "bilinear" or "lanczos3"."""
        if s not in _NAMES:
            raise ValueError(f'Unknown resize method "{s}"; one of {sorted(_NAMES)}')
        return _NAMES[s]


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    "linear": ResizeMethod.LINEAR,
    "bilinear": ResizeMethod.LINEAR,
    "trilinear": ResizeMethod.LINEAR,
    "triangle": ResizeMethod.LINEAR,
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    "cubic": ResizeMethod.CUBIC,
    "bicubic": ResizeMethod.CUBIC,
    "tricubic": ResizeMethod.CUBIC,
    "cubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "area": ResizeMethod.AREA,
}


def _cubic(a: float) -> Any:
    """Return Keys' cubic kernel with the slope `a` at distance 1."""

    def kernel(x: Any) -> Any:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return jnp.where(x >= 2, 0, jnp.where(x >= 1, far, near))

    return kernel


def _lanczos(radius: float) -> Any:
    def kernel(x: Any) -> Any:
        return jnp.where(x > radius, 0, jnp.sinc(x) * jnp.sinc(x / radius))

    return kernel


_KERNELS = {
    ResizeMethod.LINEAR: lambda x: jnp.maximum(0, 1 - x),
    ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0),
    ResizeMethod.CUBIC: _cubic(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _cubic(-0.75),
}


def _kernel_weights(
    size: int, places: Any, step: Any, method: ResizeMethod, antialias: bool
) -> Any:
    """Return the kernel between all samples (rows) and new places (columns)."""
    # PyTorch's steeper kernel serves without antialiasing only, and continues the edges outward.
    outside = 2 if method is ResizeMethod.CUBIC_PYTORCH and not antialias else 0
    if method is ResizeMethod.CUBIC_PYTORCH and antialias:
        method = ResizeMethod.CUBIC
    width = jnp.maximum(step, 1) if antialias else jnp.ones_like(step)
    samples = jnp.arange(-outside, size + outside, dtype=step.dtype)
    raw = _KERNELS[method](jnp.abs(places[None, :] - samples[:, None]) / width)
    if not outside:
        return raw
    nearest = jnp.clip(jnp.arange(-outside, size + outside), 0, size - 1)
    return jnp.zeros((size, raw.shape[1]), raw.dtype).at[nearest].add(raw)


def _overlaps(size: int, new_size: int, step: Any, translation: Any) -> Any:
    """Return the length of each sample (rows) that lies in each new one (columns)."""
    left = jnp.arange(new_size, dtype=step.dtype) * step - translation * step
    low = jnp.arange(size, dtype=step.dtype)[:, None]
    return jnp.maximum(0, jnp.minimum(left + step, low + 1) - jnp.maximum(left, low))


def _weights(
    size: int, new_size: int, scale: Any, translation: Any, method: ResizeMethod, antialias: bool
) -> Any:
    """Return how much each sample (row) counts in each new one (column)."""
    step = 1 / scale
    places = (jnp.arange(new_size, dtype=step.dtype) + 0.5) * step - translation * step - 0.5
    if method is ResizeMethod.AREA:
        raw = _overlaps(size, new_size, step, translation)
    else:
        raw = _kernel_weights(size, places, step, method, antialias)
    total = jnp.sum(raw, axis=0, keepdims=True)
    enough = jnp.abs(total) > 1000 * float(np.finfo(np.float32).eps)
    scaled = jnp.where(enough, raw / jnp.where(total == 0, 1, total), 0)
    inside = (places >= -0.5) & (places <= size - 0.5)
    return jnp.where(inside[None, :], scaled, 0)


def _as_method(method: Any) -> ResizeMethod:
    return ResizeMethod.from_string(method) if isinstance(method, str) else method


def _apply(
    x: Any, shape: Any, axes: Any, scale: Any, translation: Any, method: Any, rest: Any
) -> Any:
    antialias, precision = rest
    for i, axis in enumerate(axes):
        weights = _weights(
            x.shape[axis], shape[axis], scale[i], translation[i], method, antialias
        ).astype(x.dtype)
        product = jnp.tensordot(x, weights, axes=((axis,), (0,)), precision=precision)
        x = jnp.moveaxis(product, -1, axis)
    return x


def scale_and_translate(
    image: Any,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: Any,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Any:
    """Scale and move an image along some axes into an array of a shape; 0 outside the image.

    `scale` and `translation` hold a number per axis and may be traced: `new = old scale +
    translation`. With `antialias`, shrinking averages.
    """
    x = as_inexact("scale_and_translate", image)
    shape = tuple(int(size) for size in shape)
    if len(shape) != x.ndim:
        raise ValueError(f"shape must have length {x.ndim}, as the image has; got {shape}")
    found = _as_method(method)
    if found is ResizeMethod.NEAREST:
        raise ValueError(f"Nearest neighbor resampling is not supported here, got {method}")
    axes = canonicalize_axes(tuple(spatial_dims), x.ndim)
    changed = [i for i in range(x.ndim) if i not in axes and shape[i] != x.shape[i]]
    if changed:
        raise ValueError(f"The sizes of axes {changed} change but are not in spatial_dims {axes}")
    scale, translation = (jnp.asarray(v, jnp.finfo(x.dtype).dtype) for v in (scale, translation))
    rest = (antialias, precision)
    return _apply(x, shape, axes, scale, translation, found, rest)


def resize(
    image: Any,
    shape: Sequence[int],
    method: Any,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Any:
    """Resize an image of any number of axes; `method` is a `ResizeMethod` or its name.

    >>> resize(np.float32([0, 2]), (4,), "linear")
    Array([0. , 0.5, 1.5, 2. ], dtype=float32)
    """
    shape = tuple(int(size) for size in shape)
    found = _as_method(method)
    x = jnp.asarray(image) if found is ResizeMethod.NEAREST else as_inexact("resize", image)
    if len(shape) != x.ndim:
        raise ValueError(f"shape must have length {x.ndim}, as the image has; got {shape}")
    axes = [i for i in range(x.ndim) if shape[i] != x.shape[i]]
    if found is ResizeMethod.NEAREST:
        for axis in axes:
            size, new_size = x.shape[axis], shape[axis]
            # The sample at the centre of each new one, in whole numbers so that it is exact.
            places = (2 * np.arange(new_size) + 1) * size // (2 * new_size)
            x = jnp.take(x, places, axis=axis)
        return x
    kind = jnp.finfo(x.dtype).dtype
    scale = jnp.asarray([shape[i] / x.shape[i] for i in axes], kind)
    return _apply(x, shape, axes, scale, jnp.zeros_like(scale), found, (antialias, precision))
