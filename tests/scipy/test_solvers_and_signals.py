"""Iterative solvers, minimization, signals, transforms and images against SciPy."""

from __future__ import annotations

import jax
import jax.scipy.ndimage
import jax.scipy.signal
import jax.scipy.sparse.linalg
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.ndimage
import scipy.optimize
import scipy.signal

import numpy as np
import tetrax
from tetrax import numpy as jnp
from tetrax.scipy import cluster, fft, integrate, ndimage, optimize, signal, sparse

RNG = np.random.default_rng(1)
SQUARE = RNG.normal(size=(6, 6)).astype(np.float32)
POSITIVE = (SQUARE @ SQUARE.T / 6 + np.eye(6)).astype(np.float32)
GENERAL = (SQUARE / 3 + 2 * np.eye(6)).astype(np.float32)
VECTOR = RNG.normal(size=6).astype(np.float32)
SIGNAL = RNG.normal(size=300).astype(np.float32)


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_krylov_solvers(name):
    solver = getattr(sparse.linalg, name)
    A = POSITIVE if name == "cg" else GENERAL
    want = np.linalg.solve(A, VECTOR)
    x, info = solver(A, VECTOR, tol=1e-6)
    assert info is None
    np.testing.assert_allclose(x, want, rtol=1e-4, atol=1e-5)
    x, _ = tetrax.jit(lambda b: solver(lambda v: A @ v, b, tol=1e-6, M=lambda v: v / 2))(VECTOR)
    np.testing.assert_allclose(x, want, rtol=1e-4, atol=1e-5)
    got = tetrax.grad(lambda b: solver(lambda v: A @ v, b, tol=1e-6)[0].sum())(VECTOR)
    np.testing.assert_allclose(got, np.linalg.solve(A.T, np.ones(6)), rtol=1e-4, atol=1e-5)


def test_solve_for_a_tree():
    b = {"a": VECTOR, "b": np.float32(3)}
    x, _ = sparse.linalg.cg(lambda t: {"a": POSITIVE @ t["a"], "b": 2 * t["b"]}, b)
    np.testing.assert_allclose(x["a"], np.linalg.solve(POSITIVE, VECTOR), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(x["b"], 1.5, rtol=1e-4)
    with pytest.raises(ValueError, match="structure"):
        sparse.linalg.cg(lambda t: t, b, VECTOR)


def test_bfgs():
    def rosenbrock(x):
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    with tetrax.enable_x64(True):
        found = optimize.minimize(rosenbrock, np.zeros(3), method="BFGS")
        assert bool(found.success) and int(found.status) == 0
        np.testing.assert_allclose(found.x, np.ones(3), rtol=1e-6)
        assert int(found.nit) < 100
        found = optimize.minimize(rosenbrock, np.zeros(3), method="BFGS", options={"maxiter": 2})
        assert not bool(found.success) and int(found.nit) == 2


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("sizes", [((9,), (4,)), ((4,), (9,)), ((5, 6), (2, 3)), ((4, 4), (3, 3))])
def test_convolutions(mode, sizes):
    x, y = (RNG.normal(size=size).astype(np.float32) for size in sizes)
    for name in ("convolve", "correlate"):
        got = getattr(signal, name)(x, y, mode)
        want = getattr(jax.scipy.signal, name)(x, y, mode)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=name)
    if not (mode == "valid" and sizes[0] < sizes[1]):
        got = signal.fftconvolve(x, y, mode)
        np.testing.assert_allclose(got, scipy.signal.fftconvolve(x, y, mode), 1e-4, 1e-5)
    if x.ndim == 2:
        got = signal.convolve2d(x, y, mode)
        np.testing.assert_allclose(got, scipy.signal.convolve2d(x, y, mode), 1e-4, 1e-5)


def test_spectra():
    for keywords in ({}, {"nperseg": 64, "noverlap": 48, "window": "hamming"}):
        for got, want in zip(
            signal.stft(SIGNAL, 2.0, **keywords),
            scipy.signal.stft(SIGNAL, 2.0, **keywords),
            strict=True,
        ):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        Z = scipy.signal.stft(SIGNAL, 2.0, **keywords)[2]
        times, x = signal.istft(Z, 2.0, **keywords)
        want_times, want = scipy.signal.istft(Z, 2.0, **keywords)
        np.testing.assert_allclose(x, want, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(times, want_times, rtol=1e-5)
        for average in ("mean", "median"):
            got = signal.welch(SIGNAL, average=average, **keywords)
            want = scipy.signal.welch(SIGNAL, average=average, **keywords)
            np.testing.assert_allclose(got[1], want[1], rtol=1e-3, atol=1e-5)
        got = signal.csd(SIGNAL, SIGNAL[::-1].copy(), **keywords)[1]
        want = scipy.signal.csd(SIGNAL, SIGNAL[::-1].copy(), **keywords)[1]
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)
    for keywords in ({}, {"type": "constant"}, {"bp": [100, 200]}):
        want = scipy.signal.detrend(SIGNAL, **keywords)
        np.testing.assert_allclose(signal.detrend(SIGNAL, **keywords), want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("norm", [None, "ortho"])
@pytest.mark.parametrize("n", [None, 4, 9])
def test_cosine_transforms(norm, n):
    x = SQUARE
    for name in ("dct", "idct"):
        got = getattr(fft, name)(x, n=n, axis=0, norm=norm)
        want = getattr(scipy.fft, name)(x, n=n, axis=0, norm=norm)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fft.dctn(x, norm=norm), scipy.fft.dctn(x, norm=norm), 1e-4, 1e-4)
    np.testing.assert_allclose(fft.idctn(x, norm=norm), scipy.fft.idctn(x, norm=norm), 1e-4, 1e-4)


@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
@pytest.mark.parametrize("order", [0, 1])
def test_interpolation_in_images(mode, order):
    places = [np.float32([-2.2, -0.3, 0.4, 2.7, 5.9]), np.float32([1.2, 3.3, 4.9, 6.1, 0.0])]
    got = ndimage.map_coordinates(SQUARE, places, order, mode, cval=0.5)
    want = jax.scipy.ndimage.map_coordinates(SQUARE, places, order, mode, cval=0.5)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    image = np.arange(12, dtype=np.int32).reshape(3, 4)
    got = ndimage.map_coordinates(image, places, order, mode)
    np.testing.assert_array_equal(
        got, jax.scipy.ndimage.map_coordinates(image, places, order, mode)
    )


def test_codes_and_integrals():
    got, want = cluster.vq.vq(SQUARE, SQUARE[:2]), scipy.cluster.vq.vq(SQUARE, SQUARE[:2])
    np.testing.assert_array_equal(got[0], want[0])
    np.testing.assert_allclose(got[1], want[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        integrate.trapezoid(VECTOR, dx=2.0), np.trapezoid(VECTOR, dx=2.0), 1e-5
    )
