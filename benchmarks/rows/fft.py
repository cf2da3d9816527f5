"""Fourier transforms of complex64."""

from __future__ import annotations

import scipy.fft

import numpy as np
from benchmarks.row import Case, Row
from benchmarks.rows.common import Array, normals, size_in_bytes


def _signal(*shape: int) -> Array:
    real, imaginary = normals(shape, shape)
    return (real + 1j * imaginary).astype(np.complex64)


def fft(shape: tuple[int, ...]) -> Case:
    """Transforms along the last axis."""
    x = _signal(*shape)
    return Case(
        program=lambda lib: lib.numpy.fft.fft,
        inputs=(x,),
        numpy=scipy.fft.fft,
        torch=lambda torch: torch.fft.fft,
        flops=5.0 * x.size * np.log2(shape[-1]),
        bytes=2 * size_in_bytes(x),
    )


def fft2(n: int) -> Case:
    """A two-dimensional transform."""
    x = _signal(n, n)
    return Case(
        program=lambda lib: lib.numpy.fft.fft2,
        inputs=(x,),
        numpy=scipy.fft.fft2,
        torch=lambda torch: torch.fft.fft2,
        flops=10.0 * x.size * np.log2(n),
        bytes=4 * size_in_bytes(x),
    )


ROWS = (
    Row("fft_2_20", "fft", fft, {"shape": (2**20,)}, {"shape": (64,)}),
    Row("fft2_1024", "fft", fft2, {"n": 1024}, {"n": 16}),
    Row("fft_4096x256", "fft", fft, {"shape": (4096, 256)}, {"shape": (3, 32)}),
)
