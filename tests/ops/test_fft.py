"""Fourier transforms against real JAX and NumPy."""

from __future__ import annotations

import jax
import pytest
from tests.ops.jax_oracle import check, sample

import numpy as np
import tetrax
from tetrax import errors, lax

KINDS = ["FFT", "IFFT", "RFFT", "IRFFT"]
SIZES = [(1,), (2,), (7,), (8,), (33,), (4, 6), (3, 5), (2, 3, 4)]


def operand(kind, lengths, dtype="float32"):
    complex_dtype = {"float32": "complex64", "float64": "complex128"}[dtype]
    shape = (2, *lengths)
    if kind == "IRFFT":
        shape = (*shape[:-1], lengths[-1] // 2 + 1)
    return sample(*shape, dtype=dtype if kind == "RFFT" else complex_dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", SIZES, ids=str)
def test_transform(kind, lengths):
    x = operand(kind, lengths)
    check(lambda m, x: m.fft(x, kind, lengths), x, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_double_precision(kind):
    with tetrax.enable_x64(True), jax.enable_x64(True):
        x = operand(kind, (12,), "float64")
        check(lambda m, x: m.fft(x, kind, (12,)), x, rtol=1e-12, atol=1e-12)


def test_inverse():
    x = operand("FFT", (4, 6))
    back = lax.fft(lax.fft(x, lax.FftType.FFT, (4, 6)), lax.FftType.IFFT, (4, 6))
    np.testing.assert_allclose(back, x, rtol=1e-5, atol=1e-6)
    x = operand("RFFT", (7,))
    back = lax.fft(lax.fft(x, lax.FftType.RFFT, (7,)), lax.FftType.IRFFT, (7,))
    np.testing.assert_allclose(back, x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [10, 97, 1000, 1024, 2310, 4096])
def test_longer_ones_compiled(size):
    x = operand("FFT", (size,))
    got = tetrax.jit(lambda x: lax.fft(x, "fft", (size,)))(x)
    want = np.fft.fft(x.astype(np.complex128))
    # The error of a transform grows like eps log n, relative to the norm.
    assert np.abs(got - want).max() < 1e-6 * np.log2(size) * np.abs(want).max()


def test_real_numbers_become_complex():
    x = sample(6)
    check(lambda m, x: m.fft(x, "fft", (6,)), x, rtol=1e-5, atol=1e-5)


def test_no_lengths():
    x = sample(3, dtype="complex64")
    np.testing.assert_array_equal(lax.fft(x, "fft", ()), x)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: lax.fft(sample(4), "fft2", (4,)), ValueError, "Unknown FFT type"),
        (lambda: lax.fft(sample(4), 0, (4,)), TypeError, "Unknown FFT type"),
        (lambda: lax.fft(sample(4, dtype="complex64"), "rfft", (4,)), ValueError, "real valued"),
        (lambda: lax.fft(sample(4), "fft", (3,)), errors.ShapeError, "minor dimensions"),
        (lambda: lax.fft(sample(4), "fft", (4, 4)), errors.ShapeError, "at least as many"),
        (lambda: lax.fft(sample(3, 3), "irfft", (4, 4)), errors.ShapeError, "all except the last"),
    ],
)
def test_misuse_is_explained(call, error, words):
    with pytest.raises(error, match=words):
        call()
