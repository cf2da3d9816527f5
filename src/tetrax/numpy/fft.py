"""Discrete Fourier transforms."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.compiler.planned import planned
from tetrax.numpy._convert import placed
from tetrax.numpy._elementwise import conj
from tetrax.numpy._promote import (
    canonicalize_axes,
    canonicalize_axis,
    check_arraylike,
    convert,
    ensure_arraylike,
    to_array,
    user_dtype,
)
from tetrax.numpy._rearrange import roll
from tetrax.numpy._shapes import moveaxis
from tetrax.numpy._typing import Array, ArrayLike, Device, DTypeLike
from tetrax.runtime.array import make_array

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

Sizes = Sequence[int] | None
_MOST_AXES_AT_ONCE = 3


# --------------------------------------------------------------------------- shared machinery


def _transform(
    name: str, kind: lax.FftType, a: ArrayLike, s: Sizes, axes: Any, norm: str | None
) -> Array:
    check_arraylike(f"jnp.fft.{name}", a)
    x = to_array(a)
    if s is not None and any(size is not None and size < 1 for size in s):
        raise ValueError(f"Shape should be non-negative and non-zero, got s={tuple(s)}")
    if axes is None:
        axes = tuple(range(x.ndim)) if s is None else tuple(range(x.ndim - len(s), x.ndim))
    if len({axis % x.ndim if x.ndim else axis for axis in axes}) != len(axes):
        raise ValueError(f"jnp.fft.{name} does not support repeated axes. Got axes {tuple(axes)}.")
    if s is not None and len(s) != len(axes):
        raise ValueError(f"jnp.fft.{name}: s {tuple(s)} and axes {tuple(axes)} differ in length")
    axes = canonicalize_axes(tuple(axes), x.ndim)
    if not axes:
        return _in_complex(x) if kind in (lax.FftType.FFT, lax.FftType.IFFT) else x
    x = _prepared(x, kind)
    x = moveaxis(x, axes, tuple(range(x.ndim - len(axes), x.ndim)))
    sizes = _sizes(x, kind, s, len(axes))
    x = _fitted(x, kind, sizes)
    x = _run(x, kind, sizes)
    x = moveaxis(x, tuple(range(x.ndim - len(axes), x.ndim)), axes)
    scale = _scale(kind, sizes, norm)
    return x if scale == 1 else lax.mul(x, lax.full_like(x, scale, shape=()))


def _in_complex(x: Array) -> Array:
    return convert(x, dtypes.to_complex_dtype(dtypes.to_inexact_dtype(x.dtype)))


def _prepared(x: Array, kind: lax.FftType) -> Array:
    """Convert to the dtype that the transform wants; half precision is computed in single."""
    if kind is not lax.FftType.RFFT:
        return _in_complex(x)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        raise ValueError(f"only real valued inputs supported for rfft, got dtype {x.dtype}")
    real = dtypes.to_inexact_dtype(x.dtype)
    return convert(x, np.dtype(np.float32) if dtypes.itemsize_bits(real) < 32 else real)


def _sizes(x: Array, kind: lax.FftType, s: Sizes, count: int) -> tuple[int, ...]:
    own = list(x.shape[x.ndim - count :])
    if kind is lax.FftType.IRFFT:
        own[-1] = max(0, 2 * (own[-1] - 1))
    if s is None:
        return tuple(own)
    return tuple(
        default if size is None else operator.index(size)
        for size, default in zip(s, own, strict=True)
    )


def _fitted(x: Array, kind: lax.FftType, sizes: tuple[int, ...]) -> Array:
    """Cut or pad the transformed axes to the sizes asked for."""
    wanted = list(sizes)
    if kind is lax.FftType.IRFFT:
        wanted[-1] = sizes[-1] // 2 + 1
    first = x.ndim - len(wanted)
    shape = (*x.shape[:first], *wanted)
    if shape == x.shape:
        return x
    x = lax.slice(
        x, [0] * x.ndim, [min(have, want) for have, want in zip(x.shape, shape, strict=True)]
    )
    padding = [(0, want - have, 0) for have, want in zip(x.shape, shape, strict=True)]
    return lax.pad(x, lax.full((), 0, x.dtype), padding)


def _run(x: Array, kind: lax.FftType, sizes: tuple[int, ...]) -> Array:
    """Transform the last axes, at most three at once; real transforms do the last axis apart."""
    if len(sizes) <= _MOST_AXES_AT_ONCE:
        return lax.fft(x, kind, sizes)
    leading = tuple(range(x.ndim - len(sizes), x.ndim - 1))
    if kind is lax.FftType.RFFT:
        return _each_axis(lax.fft(x, kind, sizes[-1:]), lax.FftType.FFT, leading)
    if kind is lax.FftType.IRFFT:
        return lax.fft(_each_axis(x, lax.FftType.IFFT, leading), kind, sizes[-1:])
    return _each_axis(x, kind, (*leading, x.ndim - 1))


def _each_axis(x: Array, kind: lax.FftType, axes: tuple[int, ...]) -> Array:
    for axis in axes:
        moved = moveaxis(x, axis, -1)
        x = moveaxis(lax.fft(moved, kind, moved.shape[-1:]), -1, axis)
    return x


def _scale(kind: lax.FftType, sizes: tuple[int, ...], norm: str | None) -> float:
    """Return the factor that turns the usual scaling (inverse divided by size) into another one."""
    total = math.prod(sizes)
    forward = kind in (lax.FftType.FFT, lax.FftType.RFFT)
    if norm is None or norm == "backward" or total == 0:
        return 1
    if norm == "ortho":
        return 1 / math.sqrt(total) if forward else math.sqrt(total)
    if norm == "forward":
        return 1 / total if forward else total
    raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')


def _one_axis(
    name: str, kind: lax.FftType, a: ArrayLike, n: int | None, axis: Any, norm: str | None
) -> Array:
    if isinstance(axis, (tuple, list)) or axis is None:
        raise ValueError(
            f"jax.numpy.fft.{name} does not support multiple axes. Please use "
            f"jax.numpy.fft.{name}n. "
            f"Got axis = {axis!r}."
        )
    if np.ndim(a) == 0:
        canonicalize_axis(axis, 0)
    return _transform(name, kind, a, None if n is None else (n,), (axis,), norm)


def _two_axes(
    name: str, transform: Callable[..., Array], a: ArrayLike, s: Sizes, axes: Any, norm: Any
) -> Array:
    if len(axes) != 2:
        raise ValueError(f"jax.numpy.fft.{name} only supports 2 axes. Got axes = {axes!r}.")
    return transform(a, s, axes, norm)


# --------------------------------------------------------------------------- complex transforms


@planned(1)
def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the discrete Fourier transform along an axis.

    `n` cuts or pads the axis first. `norm` is "backward" (default), "ortho" or "forward".
    """
    return _one_axis("fft", lax.FftType.FFT, a, n, axis, norm)


@planned(1)
def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the inverse discrete Fourier transform along an axis."""
    return _one_axis("ifft", lax.FftType.IFFT, a, n, axis, norm)


@planned(1)
def fftn(a: ArrayLike, s: Sizes = None, axes: Any = None, norm: str | None = None) -> Array:
    """Return the discrete Fourier transform along several axes."""
    return _transform("fftn", lax.FftType.FFT, a, s, axes, norm)


@planned(1)
def ifftn(a: ArrayLike, s: Sizes = None, axes: Any = None, norm: str | None = None) -> Array:
    """Return the inverse discrete Fourier transform along several axes."""
    return _transform("ifftn", lax.FftType.IFFT, a, s, axes, norm)


@planned(1)
def fft2(a: ArrayLike, s: Sizes = None, axes: Any = (-2, -1), norm: str | None = None) -> Array:
    """Return the discrete Fourier transform along two axes."""
    return _two_axes("fft2", fftn, a, s, axes, norm)


@planned(1)
def ifft2(a: ArrayLike, s: Sizes = None, axes: Any = (-2, -1), norm: str | None = None) -> Array:
    """Return the inverse discrete Fourier transform along two axes."""
    return _two_axes("ifft2", ifftn, a, s, axes, norm)


# --------------------------------------------------------------------------- real transforms


@planned(1)
def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the non-negative frequencies of the transform of real data."""
    return _one_axis("rfft", lax.FftType.RFFT, a, n, axis, norm)


@planned(1)
def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the real data whose `rfft` is given; `n` is their number, by default even."""
    return _one_axis("irfft", lax.FftType.IRFFT, a, n, axis, norm)


@planned(1)
def rfftn(a: ArrayLike, s: Sizes = None, axes: Any = None, norm: str | None = None) -> Array:
    """Return the transform of real data along several axes, half of the last one."""
    return _transform("rfftn", lax.FftType.RFFT, a, s, axes, norm)


@planned(1)
def irfftn(a: ArrayLike, s: Sizes = None, axes: Any = None, norm: str | None = None) -> Array:
    """Return the real data whose `rfftn` is given."""
    return _transform("irfftn", lax.FftType.IRFFT, a, s, axes, norm)


@planned(1)
def rfft2(a: ArrayLike, s: Sizes = None, axes: Any = (-2, -1), norm: str | None = None) -> Array:
    """Return the transform of real data along two axes, half of the last one."""
    return _two_axes("rfft2", rfftn, a, s, axes, norm)


@planned(1)
def irfft2(a: ArrayLike, s: Sizes = None, axes: Any = (-2, -1), norm: str | None = None) -> Array:
    """Return the real data whose `rfft2` is given."""
    return _two_axes("irfft2", irfftn, a, s, axes, norm)


_OPPOSITE_NORM = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _opposite(norm: str | None) -> str:
    if norm not in _OPPOSITE_NORM:
        raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    return _OPPOSITE_NORM[norm]


@planned(1)
def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the real transform of data with Hermitian symmetry, given by its first half."""
    return irfft(conj(a), n, axis, _opposite(norm))


@planned(1)
def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the inverse of `hfft`: half of the Hermitian spectrum of real data."""
    return conj(rfft(a, n, axis, _opposite(norm)))


# --------------------------------------------------------------------------- frequencies and shifts


def fftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike = None, device: Device = None) -> Array:
    """Return the frequencies of `fft` for `n` samples at a distance `d`."""
    count = _count("fftfreq", n)
    steps = np.concatenate([np.arange((count + 1) // 2), np.arange(-(count // 2), 0)])
    return _frequencies(steps, count, d, dtype, device, "fftfreq")


def rfftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike = None, device: Device = None
) -> Array:
    """Return the frequencies of `rfft` for `n` samples at a distance `d`."""
    count = _count("rfftfreq", n)
    return _frequencies(np.arange(count // 2 + 1), count, d, dtype, device, "rfftfreq")


def _count(name: str, n: Any) -> int:
    if isinstance(n, (list, tuple)):
        raise ValueError(
            f"The n argument of jax.numpy.fft.{name} only takes an int. Got n = {list(n)}."
        )
    return operator.index(n)


def _frequencies(
    steps: np.ndarray, count: int, d: ArrayLike, dtype: DTypeLike, device: Device, name: str
) -> Array:
    if isinstance(d, (list, tuple)):
        raise ValueError(
            f"The d argument of jax.numpy.fft.{name} only takes a single value. Got d = {list(d)}."
        )
    target = dtypes.default_float_dtype() if dtype is None else user_dtype(dtype, f"fft.{name}")
    numbers = make_array(steps.astype(target))
    width = convert(ensure_arraylike(name, d), target)
    span = lax.mul(width, lax.full_like(width, count))
    return placed(lax.div(numbers, lax.broadcast_in_dim(span, numbers.shape, ())), device)


def fftshift(x: ArrayLike, axes: Any = None) -> Array:
    """Move the zero frequency to the middle."""
    return _shifted("fftshift", x, axes, lambda size: size // 2)


def ifftshift(x: ArrayLike, axes: Any = None) -> Array:
    """Undo `fftshift`."""
    return _shifted("ifftshift", x, axes, lambda size: -(size // 2))


def _shifted(name: str, x: ArrayLike, axes: Any, amount: Callable[[int], int]) -> Array:
    array = ensure_arraylike(name, x)
    places = canonicalize_axes(axes, array.ndim)
    return roll(array, [amount(array.shape[axis]) for axis in places], places)
