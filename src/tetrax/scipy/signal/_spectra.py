"""Short-time Fourier transforms, spectral densities, trends."""

from __future__ import annotations

import itertools
from typing import Any

import scipy.signal

import numpy as np
from tetrax import lax
from tetrax import numpy as jnp
from tetrax.numpy._promote import as_inexact, canonicalize_axis


def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: Any = None
) -> Any:
    """Subtract the mean ("constant") or a line per piece between break points ("linear")."""
    if overwrite_data is not None:
        raise NotImplementedError("overwrite_data argument not implemented.")
    if type not in ("constant", "linear"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    x = as_inexact("detrend", data)
    if type == "constant":
        return x - jnp.mean(x, axis, keepdims=True)
    axis = canonicalize_axis(axis, x.ndim)
    x = jnp.moveaxis(x, axis, -1)
    size = x.shape[-1]
    ends = np.unique(np.concatenate([[0], np.atleast_1d(bp), [size]])).astype(int)
    if ends[0] < 0 or ends[-1] > size:
        raise ValueError("Breakpoints must be non-negative and less than length of data along axis")
    pieces = []
    for low, high in itertools.pairwise(ends):
        piece = x[..., low:high]
        line = np.stack([np.arange(1, high - low + 1) / (high - low), np.ones(high - low)], 1)
        # The projection onto lines, computed in double precision beforehand.
        onto = jnp.asarray((line @ np.linalg.pinv(line)).T.astype(x.dtype))
        pieces.append(piece - jnp.matmul(piece, onto, precision=lax.Precision.HIGHEST))
    return jnp.moveaxis(jnp.concatenate(pieces, -1), -1, axis)


def _window(window: Any, nperseg: int | None, size: int, default: int = 256) -> tuple[Any, int]:
    """Return the window as an array, and the length of a segment."""
    if isinstance(window, str | tuple):
        count = default if nperseg is None else int(nperseg)
        if count < 1:
            raise ValueError("nperseg must be a positive integer")
        count = min(count, size)
        return scipy.signal.get_window(window, count), count
    values = jnp.asarray(window)
    if values.ndim != 1:
        raise ValueError("window must be 1-D")
    if nperseg is not None and nperseg != values.shape[0]:
        raise ValueError("value specified for nperseg is different from length of window")
    if values.shape[0] > size:
        raise ValueError("window is longer than input signal")
    return values, values.shape[0]


def _overlap(noverlap: int | None, nperseg: int) -> int:
    overlap = nperseg // 2 if noverlap is None else int(noverlap)
    if overlap >= nperseg:
        raise ValueError("noverlap must be less than nperseg.")
    return overlap


_EXTENSIONS = {"even": "reflect", "odd": "reflect", "constant": "edge", "zeros": "constant"}


def _extended(x: Any, boundary: str | None, count: int) -> Any:
    if boundary is None:
        return x
    if boundary not in _EXTENSIONS:
        raise ValueError(f"Unknown boundary option {boundary!r}; one of {sorted(_EXTENSIONS)}")
    keywords = {"reflect_type": "odd"} if boundary == "odd" else {}
    pads = [(0, 0)] * (x.ndim - 1) + [(count, count)]
    return jnp.pad(x, pads, mode=_EXTENSIONS[boundary], **keywords)


def _trend_remover(detrending: Any) -> Any:
    if callable(detrending):
        return detrending
    return (lambda x: detrend(x, type=detrending)) if detrending else (lambda x: x)


def _segments(x: Any, nperseg: int, overlap: int) -> Any:
    step = nperseg - overlap
    starts = np.arange(0, x.shape[-1] - nperseg + 1, step)
    return x[..., starts[:, None] + np.arange(nperseg)[None, :]]


def _spectra(
    x: Any, window: Any, nperseg: int, overlap: int, nfft: int, detrending: Any, onesided: bool
) -> Any:
    """Return the transforms of all windowed segments, one segment a row."""
    rows = _trend_remover(detrending)(_segments(x, nperseg, overlap))
    rows = rows * window.astype(x.dtype)
    return jnp.fft.rfft(rows, nfft) if onesided else jnp.fft.fft(rows, nfft)


def _frequencies(nfft: int, fs: Any, onesided: bool, kind: Any) -> Any:
    make = np.fft.rfftfreq if onesided else np.fft.fftfreq
    return (jnp.asarray(make(nfft)) * fs).astype(kind)


def _length(nfft: int | None, nperseg: int) -> int:
    if nfft is None:
        return nperseg
    if nfft < nperseg:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    return int(nfft)


def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Any, Any, Any]:
    """Return frequencies, times and the Fourier transforms of overlapping segments."""
    x = as_inexact("stft", x)
    axis = canonicalize_axis(axis, x.ndim)
    x = jnp.moveaxis(x, axis, -1)
    values, nperseg = _window(window, nperseg, x.shape[-1])
    nfft, overlap = _length(nfft, nperseg), _overlap(noverlap, nperseg)
    kind = jnp.finfo(x.dtype).dtype
    x = _extended(x, boundary, nperseg // 2)
    if padded:
        missing = -(x.shape[-1] - nperseg) % (nperseg - overlap) % nperseg
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)])
    onesided = return_onesided and x.dtype.kind != "c"
    scaled = jnp.asarray(values)
    spectra = _spectra(x, scaled, nperseg, overlap, nfft, detrend, onesided)
    spectra = spectra / jnp.sum(scaled).astype(kind)
    times = nperseg / 2 + np.arange(spectra.shape[-2]) * (nperseg - overlap)
    times = jnp.asarray(times - (nperseg / 2 if boundary is not None else 0)) / fs
    result = jnp.moveaxis(spectra, -1, -2)
    if axis != x.ndim - 1:
        result = jnp.moveaxis(result, -2, axis)
    return _frequencies(nfft, fs, onesided, kind), times.astype(kind), result


def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Any, Any]:
    """Return times and the signal whose short-time Fourier transform is given."""
    Z = jnp.asarray(Zxx)
    if Z.ndim < 2:
        raise ValueError("Input stft must be at least 2d!")
    time_axis, freq_axis = (canonicalize_axis(a, Z.ndim) for a in (time_axis, freq_axis))
    if time_axis == freq_axis:
        raise ValueError("Must specify differing time and frequency axes!")
    Z = jnp.moveaxis(Z, (freq_axis, time_axis), (-1, -2))
    default = 2 * (Z.shape[-1] - 1) if input_onesided else Z.shape[-1]
    nperseg = default if nperseg is None else int(nperseg)
    if nfft is None:
        odd = input_onesided and nperseg == default + 1
        nfft = nperseg if odd else default
    values, nperseg = _window(window, nperseg, nperseg)
    overlap = _overlap(noverlap, nperseg)
    step = nperseg - overlap
    pieces = jnp.fft.irfft(Z, nfft) if input_onesided else jnp.fft.ifft(Z, nfft)
    pieces = pieces[..., :nperseg]
    scaled = jnp.asarray(values).astype(pieces.dtype)
    count = pieces.shape[-2]
    size = nperseg + (count - 1) * step
    places = np.arange(count)[:, None] * step + np.arange(nperseg)[None, :]
    rows = pieces * scaled * jnp.sum(scaled)
    x = jnp.zeros((*Z.shape[:-2], size), pieces.dtype).at[..., places].add(rows)
    weight = jnp.zeros(size, pieces.dtype).at[places].add(jnp.broadcast_to(scaled**2, places.shape))
    if boundary:
        x = x[..., nperseg // 2 : size - nperseg // 2]
        weight = weight[nperseg // 2 : size - nperseg // 2]
    x = x / jnp.where(jnp.abs(weight) > 1e-10, weight, 1)
    times = jnp.arange(x.shape[-1]) / fs
    if x.ndim > 1 and time_axis != Z.ndim - 1:
        place = time_axis - 1 if freq_axis < time_axis else time_axis
        x = jnp.moveaxis(x, -1, place)
    return times, x


def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """Return frequencies and the cross spectral density of two signals, by Welch's method."""
    same = y is None or y is x
    x = jnp.moveaxis(as_inexact("csd", x), axis, -1)
    y = x if same else jnp.moveaxis(as_inexact("csd", y), axis, -1)
    size = max(x.shape[-1], y.shape[-1])
    x, y = (jnp.pad(z, [(0, 0)] * (z.ndim - 1) + [(0, size - z.shape[-1])]) for z in (x, y))
    values, nperseg = _window(window, nperseg, size)
    nfft, overlap = _length(nfft, nperseg), _overlap(noverlap, nperseg)
    scaled = jnp.asarray(values)
    scales = {
        "density": lambda: 1 / (fs * jnp.sum(scaled**2)),
        "spectrum": lambda: 1 / jnp.sum(scaled) ** 2,
    }
    if scaling not in scales:
        raise ValueError(f"Unknown scaling: {scaling!r}; use 'density' or 'spectrum'")
    onesided = return_onesided and x.dtype.kind != "c" and y.dtype.kind != "c"
    first = _spectra(x, scaled, nperseg, overlap, nfft, detrend, onesided)
    second = first if same else _spectra(y, scaled, nperseg, overlap, nfft, detrend, onesided)
    kind = jnp.finfo(first.dtype).dtype
    power = jnp.conj(first) * second * scales[scaling]().astype(kind)
    if onesided:
        doubled = np.full(power.shape[-1], 2.0)
        doubled[0] = 1
        if nfft % 2 == 0:
            doubled[-1] = 1
        power = power * jnp.asarray(doubled.astype(kind))
    power = jnp.real(power) if same else power
    result = _averaged(power, average)
    return _frequencies(nfft, fs, onesided, kind), jnp.moveaxis(result, -1, axis)


def _averaged(power: Any, average: str) -> Any:
    """Combine the segments, which are rows."""
    if average == "mean":
        return jnp.mean(power, axis=-2)
    if average != "median":
        raise ValueError(f"average must be 'median' or 'mean', got {average}")
    later = 2.0 * np.arange(1, (power.shape[-2] - 1) // 2 + 1)
    bias = 1 + np.sum(1 / (later + 1) - 1 / later)
    if power.dtype.kind != "c":
        return jnp.median(power, axis=-2) / bias
    parts = (jnp.median(part, axis=-2) for part in (jnp.real(power), jnp.imag(power)))
    return lax.complex(*parts) / bias


def welch(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """Return frequencies and the power spectral density, averaged over overlapping segments."""
    return csd(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis,
        average,
    )  # fmt: skip
