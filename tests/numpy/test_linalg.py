"""Factorisations multiply back, solvers solve, and derivatives agree with finite differences."""

from __future__ import annotations

import jax
import jax.numpy
import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp

RANDOM = np.random.default_rng(7)
SQUARE = RANDOM.normal(size=(4, 4))
TALL = RANDOM.normal(size=(5, 3))
WIDE = RANDOM.normal(size=(3, 5))
COMPLEX = RANDOM.normal(size=(4, 4)) + 1j * RANDOM.normal(size=(4, 4))
STACK = RANDOM.normal(size=(2, 3, 3))
SINGULAR = np.outer([1.0, 2, 3, 4], [1.0, -1, 2, 0.5]) + np.diag([0, 0, 1.0, 2.0])
# Factorisations of small matrices in double precision: a few hundred roundings.
CLOSE = {"rtol": 1e-11, "atol": 1e-12}


@pytest.fixture(autouse=True)
def double_precision():
    with tetrax.enable_x64(True):
        yield


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


@pytest.mark.parametrize("a", [SQUARE, TALL, WIDE, COMPLEX, STACK], ids=str)
def test_qr_and_svd_multiply_back(a):
    q, r = map(np.asarray, jnp.linalg.qr(a))
    np.testing.assert_allclose(q @ r, a, **CLOSE)
    product = adjoint(q) @ q
    identity = np.broadcast_to(np.eye(q.shape[-1]), product.shape)
    np.testing.assert_allclose(product, identity, **CLOSE)
    u, s, vh = map(np.asarray, jnp.linalg.svd(a, full_matrices=False))
    np.testing.assert_allclose((u * s[..., None, :]) @ vh, a, **CLOSE)
    assert np.all(np.diff(s, axis=-1) <= 0)
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), **CLOSE)


@pytest.mark.parametrize("a", [SQUARE, COMPLEX, STACK], ids=str)
def test_eigenvectors(a):
    w, v = map(np.asarray, jnp.linalg.eig(a))
    np.testing.assert_allclose(a @ v, v * w[..., None, :], **CLOSE)
    hermitian = a + adjoint(a)
    w, v = map(np.asarray, jnp.linalg.eigh(hermitian))
    np.testing.assert_allclose((v * w[..., None, :]) @ adjoint(v), hermitian, **CLOSE)
    np.testing.assert_allclose(w, np.linalg.eigvalsh(hermitian), **CLOSE)
    u, s, vh = map(np.asarray, jnp.linalg.svd(hermitian, hermitian=True))
    np.testing.assert_allclose((u * s[..., None, :]) @ vh, hermitian, **CLOSE)


@pytest.mark.parametrize("a", [SQUARE, COMPLEX, STACK], ids=str)
def test_solving_and_determinants(a):
    b = RANDOM.normal(size=(*a.shape[:-1], 2))
    np.testing.assert_allclose(jnp.linalg.solve(a, b), np.linalg.solve(a, b), **CLOSE)
    np.testing.assert_allclose(jnp.linalg.inv(a), np.linalg.inv(a), **CLOSE)
    np.testing.assert_allclose(jnp.linalg.det(a), np.linalg.det(a), **CLOSE)
    for method in ("lu", "qr"):
        sign, logarithm = jnp.linalg.slogdet(a, method=method)
        np.testing.assert_allclose(sign, np.linalg.slogdet(a)[0], **CLOSE)
        np.testing.assert_allclose(logarithm, np.linalg.slogdet(a)[1], **CLOSE)
    positive = a @ adjoint(a) + np.eye(a.shape[-1])
    np.testing.assert_allclose(jnp.linalg.cholesky(positive), np.linalg.cholesky(positive), **CLOSE)
    upper = np.asarray(jnp.linalg.cholesky(positive, upper=True))
    np.testing.assert_allclose(adjoint(upper) @ upper, positive, **CLOSE)


@pytest.mark.parametrize("a", [TALL, WIDE, SINGULAR], ids=["tall", "wide", "singular"])
def test_pseudo_inverse_rank_and_least_squares(a):
    np.testing.assert_allclose(jnp.linalg.pinv(a), np.linalg.pinv(a, rcond=1e-13), **CLOSE)
    assert jnp.linalg.matrix_rank(a) == np.linalg.matrix_rank(a)
    b = RANDOM.normal(size=a.shape[0])
    np.testing.assert_allclose(
        jnp.linalg.lstsq(a, b)[0], np.linalg.lstsq(a, b, rcond=None)[0], **CLOSE
    )


def finite_difference(function, x, step=1e-6):
    slope = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[place] = step
        slope[place] = (float(function(x + shift)) - float(function(x - shift))) / (2 * step)
    return slope


FUNCTIONS = {
    "det": jnp.linalg.det,
    "slogdet": lambda a: jnp.linalg.slogdet(a)[1],
    "inv": lambda a: (jnp.linalg.inv(a) ** 2).sum(),
    "solve": lambda a: (jnp.linalg.solve(a, jnp.arange(4.0)) ** 2).sum(),
    "pinv": lambda a: (jnp.linalg.pinv(a[:, :2]) ** 2).sum(),
    "nuclear": lambda a: jnp.linalg.norm(a, "nuc"),
    "cholesky": lambda a: jnp.linalg.cholesky(a @ a.T + jnp.eye(4)).sum(),
    "eigvalsh": lambda a: (jnp.linalg.eigvalsh(a + a.T) ** 3).sum(),
    "qr": lambda a: (jnp.linalg.qr(a)[1] ** 2)[0].sum(),
    "lstsq": lambda a: (jnp.linalg.lstsq(a[:, :2], jnp.arange(4.0))[0] ** 2).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name):
    function = FUNCTIONS[name]
    # Central differences with this step are good to about eight digits of the largest entry.
    expected = finite_difference(function, SQUARE)
    got = tetrax.grad(function)(jnp.asarray(SQUARE))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def test_determinant_has_a_derivative_at_singular_matrices():
    rank3 = SQUARE.copy()
    rank3[3] = rank3[:3].sum(0)
    got = tetrax.grad(jnp.linalg.det)(jnp.asarray(rank3))
    np.testing.assert_allclose(got, finite_difference(np.linalg.det, rank3), rtol=1e-6, atol=1e-7)
    flat = tetrax.grad(jnp.linalg.det)(jnp.ones((4, 4)))
    np.testing.assert_allclose(flat, np.zeros((4, 4)), atol=1e-12)


@pytest.mark.parametrize("order", ["fro", "nuc", 1, 2, np.inf])
def test_norm_of_an_empty_matrix_is_zero(order):
    assert jnp.linalg.norm(jnp.zeros((0, 3)), ord=order) == 0


def test_roots_of_polynomials():
    zeros = np.array([0.5, -1.0, 2.0])
    found = np.sort(np.asarray(jnp.roots(np.poly(zeros))).real)
    np.testing.assert_allclose(found, np.sort(zeros), rtol=1e-10)
    padded = jnp.roots(jnp.array([0.0, 1.0, -3.0, 2.0]), strip_zeros=False)
    np.testing.assert_allclose(np.sort(np.asarray(padded).real)[:2], [1, 2], rtol=1e-10)
    assert np.isnan(np.asarray(padded)).sum() == 1
    fit = jnp.polyfit(jnp.arange(5.0), 3 * jnp.arange(5.0) ** 2 - 1, 2)
    np.testing.assert_allclose(fit, [3, 0, -1], atol=1e-10)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("order", [1, 2, np.inf, -np.inf])
def test_vector_norms_of_integers_have_the_dtypes_of_jax(dtype, order):
    x = np.array([1, 0, 1], dtype)
    with jax.enable_x64(True):
        expected = jax.numpy.linalg.vector_norm(x, ord=order)
    found = jnp.linalg.vector_norm(x, ord=order)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_the_norm_of_narrow_integers_does_not_wrap():
    assert jnp.linalg.vector_norm(np.full(4, 100, np.int8)) == 200
