"""Convolution and spectra of signals: `tetrax.scipy.signal`."""

from __future__ import annotations

from tetrax.scipy.signal._convolve import (
    convolve,
    convolve2d,
    correlate,
    correlate2d,
    fftconvolve,
)
from tetrax.scipy.signal._spectra import csd, detrend, istft, stft, welch

__all__ = [
    "convolve",
    "convolve2d",
    "correlate",
    "correlate2d",
    "csd",
    "detrend",
    "fftconvolve",
    "istft",
    "stft",
    "welch",
]
