"""`tetrax.scipy.linalg` against SciPy, with dtypes and gradients from `jax.scipy.linalg`."""

from __future__ import annotations

import jax
import jax.scipy.linalg
import pytest
import scipy.linalg

import numpy as np
import tetrax
from tetrax.scipy import linalg

RNG = np.random.default_rng(0)
SQUARE = RNG.normal(size=(4, 4)).astype(np.float32)
POSITIVE = (SQUARE @ SQUARE.T + 4 * np.eye(4)).astype(np.float32)
COMPLEX = (SQUARE + 1j * RNG.normal(size=(4, 4))).astype(np.complex64)
TALL = RNG.normal(size=(5, 3)).astype(np.float32)
VECTOR = np.float32([1.0, -2.0, 0.5, 3.0])
MATRIX = RNG.normal(size=(4, 2)).astype(np.float32)

# Single precision, small well-conditioned matrices: some tens of ulp.
RTOL, ATOL = 2e-4, 2e-5

CASES = {
    "cholesky": lambda m: m.cholesky(POSITIVE),
    "cholesky_lower": lambda m: m.cholesky(POSITIVE, lower=True),
    "cho_solve": lambda m: m.cho_solve(m.cho_factor(POSITIVE), VECTOR),
    "cho_solve_lower": lambda m: m.cho_solve(m.cho_factor(POSITIVE, lower=True), MATRIX),
    "det": lambda m: m.det(SQUARE),
    "inv": lambda m: m.inv(SQUARE),
    "solve": lambda m: m.solve(SQUARE, VECTOR),
    "solve_matrix": lambda m: m.solve(SQUARE, MATRIX),
    "solve_positive": lambda m: m.solve(POSITIVE, MATRIX, assume_a="pos"),
    "lu": lambda m: m.lu(TALL),
    "lu_wide": lambda m: m.lu(TALL.T),
    "lu_permuted": lambda m: m.lu(SQUARE, permute_l=True),
    "lu_solve": lambda m: m.lu_solve(m.lu_factor(SQUARE), MATRIX),
    "lu_solve_turned": lambda m: m.lu_solve(m.lu_factor(SQUARE), VECTOR, trans=1),
    "lu_solve_adjoint": lambda m: m.lu_solve(m.lu_factor(COMPLEX), VECTOR, trans=2),
    "qr": lambda m: m.qr(TALL),
    "qr_economic": lambda m: m.qr(TALL, mode="economic"),
    "svdvals": lambda m: m.svd(TALL, compute_uv=False),
    "eigvalsh": lambda m: m.eigh(POSITIVE, eigvals_only=True),
    "hessenberg": lambda m: m.hessenberg(SQUARE, calc_q=True),
    "polar": lambda m: m.polar(SQUARE),
    "polar_left": lambda m: m.polar(SQUARE, side="left"),
    "expm": lambda m: m.expm(SQUARE),
    "expm_large": lambda m: m.expm(SQUARE * 4),
    "expm_frechet": lambda m: m.expm_frechet(SQUARE, POSITIVE * 0.1),
    "solve_sylvester": lambda m: m.solve_sylvester(SQUARE, POSITIVE, SQUARE.T.copy()),
    "block_diag": lambda m: m.block_diag(TALL, VECTOR, SQUARE),
    "toeplitz": lambda m: m.toeplitz(VECTOR),
    "toeplitz_row": lambda m: m.toeplitz(VECTOR, TALL[:, 0]),
    "hankel": lambda m: m.hankel(VECTOR, TALL[:, 0]),
    "circulant": lambda m: m.circulant(VECTOR),
    "companion": lambda m: m.companion(VECTOR),
    "convolution_matrix": lambda m: m.convolution_matrix(VECTOR, 3),
    "convolution_matrix_same": lambda m: m.convolution_matrix(VECTOR, 3, mode="same"),
    "convolution_matrix_valid": lambda m: m.convolution_matrix(VECTOR, 6, mode="valid"),
    "dft": lambda m: m.dft(4, scale="sqrtn"),
    "fiedler": lambda m: m.fiedler(VECTOR),
    "fiedler_companion": lambda m: m.fiedler_companion(VECTOR),
    "hadamard": lambda m: m.hadamard(4),
    "helmert": lambda m: m.helmert(4),
    "hilbert": lambda m: m.hilbert(4),
    "invhilbert": lambda m: m.invhilbert(4),
    "pascal": lambda m: m.pascal(4),
    "invpascal": lambda m: m.invpascal(4, kind="lower"),
    "leslie": lambda m: m.leslie(np.float32([0.1, 2.0, 1.0]), np.float32([0.2, 0.8])),
    **{
        f"solve_triangular_{trans}_{lower}": (
            lambda m, trans=trans, lower=lower: m.solve_triangular(
                COMPLEX + 4 * np.eye(4, dtype=np.complex64), VECTOR, trans=trans, lower=lower
            )
        )
        for trans in (0, 1, "C")
        for lower in (False, True)
    },
}


def listed(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", CASES)
def test_like_scipy(name):
    for got, want in zip(
        listed(CASES[name](linalg)), listed(CASES[name](scipy.linalg)), strict=True
    ):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, RTOL, ATOL * max(1, np.abs(want).max()))


DTYPES = ["lu", "cholesky", "hessenberg", "block_diag", "dft", "hadamard", "hilbert", "toeplitz"]


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name):
    pairs = zip(listed(CASES[name](linalg)), listed(CASES[name](jax.scipy.linalg)), strict=True)
    assert all(got.dtype == want.dtype for got, want in pairs)


def test_functions_of_matrices():
    root = linalg.sqrtm(POSITIVE)
    np.testing.assert_allclose(root @ root, POSITIVE, rtol=1e-4, atol=1e-4)
    got = linalg.funm(POSITIVE, tetrax.numpy.log)
    np.testing.assert_allclose(got, scipy.linalg.logm(POSITIVE), rtol=1e-3, atol=1e-3)
    T, Z = linalg.schur(SQUARE)
    np.testing.assert_allclose(Z @ T @ Z.T, SQUARE, rtol=1e-4, atol=1e-5)
    T, Z = linalg.rsf2csf(T, Z)
    np.testing.assert_allclose(Z @ T @ Z.conj().T, SQUARE, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.tril(T, -1), 0, atol=1e-5)
    values, vectors = linalg.eigh_tridiagonal(VECTOR, VECTOR[:3])
    np.testing.assert_allclose(values, scipy.linalg.eigvalsh_tridiagonal(VECTOR, VECTOR[:3]), 1e-5)
    assert vectors.shape == (4, 4)


SCALARS = {
    "solve": lambda m, a, b: m.solve(a, b),
    "positive": lambda m, a, b: m.solve(a @ a.T + 2 * np.eye(4, dtype=a.dtype), b, assume_a="pos"),
    "cho_solve": lambda m, a, b: m.cho_solve(m.cho_factor(a @ a.T + 2 * np.eye(4)), b),
    "lu_solve": lambda m, a, b: m.lu_solve(m.lu_factor(a), b),
    "triangular": lambda m, a, b: m.solve_triangular(a, b, lower=True),
    "expm": lambda m, a, b: m.expm(a) @ b,
}


@pytest.mark.parametrize("name", SCALARS)
def test_gradients(name):
    a, b = SQUARE.astype(np.float64) + 2 * np.eye(4), MATRIX.astype(np.float64)
    with tetrax.enable_x64(True), jax.enable_x64(True):
        got = tetrax.grad(lambda a, b: SCALARS[name](linalg, a, b).sum(), (0, 1))(a, b)
        want = jax.grad(lambda a, b: SCALARS[name](jax.scipy.linalg, a, b).sum(), (0, 1))(a, b)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-8, atol=1e-10)


def test_batches():
    a = np.stack([POSITIVE, POSITIVE * 2])
    b = np.stack([MATRIX, MATRIX + 1])
    for assume in ("gen", "pos"):
        got = linalg.solve(a, b, assume_a=assume)
        np.testing.assert_allclose(got, np.linalg.solve(a, b), rtol=1e-4, atol=1e-5)
    got = linalg.cho_solve(linalg.cho_factor(a), b)
    np.testing.assert_allclose(got, np.linalg.solve(a, b), rtol=1e-4, atol=1e-5)
    got = linalg.expm(np.stack([SQUARE, SQUARE * 2]))
    np.testing.assert_allclose(got[1], scipy.linalg.expm(SQUARE * 2), rtol=1e-4, atol=1e-4)
    got = tetrax.vmap(lambda x: linalg.solve_triangular(POSITIVE, x))(MATRIX.T.copy())
    want = scipy.linalg.solve_triangular(POSITIVE, MATRIX).T
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_mistakes():
    with pytest.raises(ValueError, match="shape"):
        linalg.solve(TALL, VECTOR)
    with pytest.raises(ValueError, match="trans"):
        linalg.solve_triangular(SQUARE, VECTOR, trans=5)
    with pytest.raises(NotImplementedError):
        linalg.eigh(SQUARE, SQUARE)
