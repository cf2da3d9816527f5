"""Decompositions of our own routines against their definitions, and against NumPy and SciPy.

Backward errors of Householder and Cholesky methods are a modest multiple of n eps in theory and of
sqrt(n) eps in practice (Higham, "Accuracy and Stability", chapters 10 and 19): the limits are
20 + 4 sqrt(n) units of the matrix's largest element.
"""

from __future__ import annotations

import pytest
import scipy.linalg
from scipy.linalg import lapack

import numpy as np
import tetrax
from tetrax import lax

DTYPES = ["float32", "float64"]
# Around registers, blocks of 32 columns, and what is cut for threads.
SIZES = [*range(1, 10), 16, 17, 31, 32, 33, 63, 64, 65, 66, 127, 129, 200]
RECTANGLES = [(2, 1), (1, 7), (40, 3), (3, 40), (65, 64), (64, 65), (33, 100), (200, 37)]


@pytest.fixture(autouse=True)
def wide_types():
    with tetrax.enable_x64(True):
        yield


def matrix(*shape, dtype="float32", seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def positive(n, dtype="float32"):
    x = matrix(n, n, dtype="float64")
    return (x @ x.T / n + np.eye(n)).astype(dtype)


def symmetric(n, dtype="float32"):
    x = matrix(n, n, dtype="float64")
    return ((x + x.T) / 2).astype(dtype)


def run(function, *arguments, **options):
    """The compiled function's results as arrays."""
    outs = tetrax.jit(lambda *xs: function(*xs, **options))(*arguments)
    return np.asarray(outs) if hasattr(outs, "shape") else [np.asarray(out) for out in outs]


def assert_close(actual, wanted, size, scale=None):
    """Agreement within the limit of this file."""
    scale = np.abs(wanted).max() if scale is None else scale
    limit = (20 + 4 * size**0.5) * np.finfo(actual.dtype).eps * scale
    assert np.abs(actual.astype(np.float64) - wanted).max() <= limit


def assert_orthonormal(q, scale=1.0):
    assert_close(q.T @ q, np.eye(q.shape[1]), max(q.shape), scale)


def check_qr(x, full):
    q, r = run(lax.linalg.qr, x, full_matrices=full)
    assert q.dtype == r.dtype == x.dtype
    assert_close(q @ r, x, max(x.shape))
    assert_orthonormal(q)
    np.testing.assert_array_equal(np.tril(r, -1), 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_qr(dtype):
    for n in SIZES:
        check_qr(matrix(n, n, dtype=dtype), False)
    for shape in RECTANGLES:
        for full in (True, False):
            check_qr(matrix(*shape, dtype=dtype), full)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reflections_are_those_of_lapack(dtype):
    reference = lapack.sgeqrf if dtype == "float32" else lapack.dgeqrf
    for shape in [(5, 5), (40, 33), (33, 40), (70, 66)]:
        x = matrix(*shape, dtype=dtype)
        packed, taus = run(lax.linalg.geqrf, x)
        wanted = reference(x)
        np.testing.assert_allclose(packed, wanted[0], rtol=0, atol=2e3 * np.finfo(dtype).eps)
        np.testing.assert_allclose(taus, wanted[1], rtol=0, atol=2e3 * np.finfo(dtype).eps)
        if shape[0] >= shape[1]:
            q = run(lax.linalg.householder_product, packed, taus)
            assert_close(q @ np.triu(packed[: shape[1]]), x, shape[0])


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_product_with_reflections(left, transpose):
    packed, taus = run(lax.linalg.geqrf, matrix(70, 40))
    q = scipy.linalg.qr(matrix(70, 40))[0]
    c = matrix(70, 9) if left else matrix(9, 70)
    out = run(lax.linalg.ormqr, packed, taus, c, left=left, transpose=transpose)
    q = q.T if transpose else q
    assert_close(out, q @ c if left else c @ q, 70)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_scaled_matrices(dtype, factor):
    x = matrix(50, 40, dtype=dtype) * np.asarray(factor, dtype)
    check_qr(x, True)
    s = symmetric(50, dtype) * np.asarray(factor, dtype)
    check_eigh(s)
    p = positive(50, dtype) * np.asarray(factor, dtype)
    lower = run(lax.linalg.cholesky, p)
    assert_close(lower @ lower.T, p, 50)


def test_extreme_numbers_in_f64():
    x = matrix(20, 12, dtype="float64")
    for factor in (1e-300, 1e300):
        check_qr(x * factor, False)
    x[:, 3] *= 1e-250
    x[:, 4] *= 1e150
    q, _ = run(lax.linalg.qr, x, full_matrices=False)
    assert_orthonormal(q)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rank_deficient_matrices(dtype):
    x = matrix(60, 5, dtype=dtype) @ matrix(5, 50, dtype=dtype)
    check_qr(x, False)
    check_qr(np.zeros((40, 33), dtype), True)
    x[:, 7] = 0
    check_qr(x, True)


def test_what_is_not_finite_spreads_and_ends():
    x = matrix(70, 70)
    x[40, 20] = np.nan
    q, r = run(lax.linalg.qr, x)
    assert np.isnan(r[-1, -1])
    assert np.isnan(q).any()
    x[40, 20] = np.inf
    assert not np.isfinite(run(lax.linalg.qr, x)[1]).all()
    for bad in (np.nan, np.inf):
        s = symmetric(40)
        s[9, 8] = s[8, 9] = bad
        for out in run(lax.linalg.eigh, s):
            assert np.isnan(out).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky(dtype):
    for n in [*SIZES, 257]:
        x = positive(n, dtype)
        out = run(lax.linalg.cholesky, np.tril(x), symmetrize_input=False)
        assert_close(out @ out.T, x, n)
        np.testing.assert_array_equal(np.triu(out, 1), 0)


def test_cholesky_of_a_batch_with_an_indefinite_matrix():
    good = positive(100)
    bad = good.copy()
    bad[70, 70] = -1
    out = run(lax.linalg.cholesky, np.stack([good, bad, good]))
    assert_close(out[0] @ out[0].T, good, 100)
    np.testing.assert_array_equal(out[0], out[2])
    assert np.isnan(out[1][np.tril_indices(100)]).all()
    np.testing.assert_array_equal(np.triu(out[1], 1), 0)


def check_eigh(x, lower=True):
    n = x.shape[0]
    half = np.tril(x) if lower else np.triu(x)
    vectors, values = run(lax.linalg.eigh, half, lower=lower, symmetrize_input=False)
    scale = np.linalg.norm(x, 2)
    assert (np.diff(values) >= 0).all()
    assert_close(values, np.linalg.eigvalsh(x.astype(np.float64)), n, scale)
    assert_close(x @ vectors, vectors * values, n, scale)
    assert_orthonormal(vectors)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh(dtype):
    for n in [*SIZES, 257]:
        check_eigh(symmetric(n, dtype))
    for n in (1, 2, 5, 33, 100):
        check_eigh(symmetric(n, dtype), lower=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh_of_special_matrices(dtype):
    n = 130
    check_eigh(np.zeros((n, n), dtype))
    check_eigh(np.eye(n, dtype=dtype) * 3)
    check_eigh(np.ones((n, n), dtype))
    check_eigh(np.diag(np.arange(n, 0, -1.0)).astype(dtype))
    check_eigh(scipy.linalg.invhilbert(8).astype(dtype))
    low = matrix(n, 3, dtype=dtype)
    check_eigh(low @ low.T)
    check_eigh(scipy.linalg.toeplitz([2, -1, *[0] * 258]).astype(dtype))
    glued = scipy.linalg.block_diag(*[np.diag(np.abs(np.arange(21) - 10.0))] * 12)
    glued += np.eye(252, k=1) + np.eye(252, k=-1)
    check_eigh(glued.astype(dtype))
    blocks = scipy.linalg.block_diag(symmetric(60, dtype), symmetric(70, dtype)).astype(dtype)
    check_eigh(blocks)
    check_eigh((np.eye(n, k=1) + np.eye(n, k=-1)).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_lu(dtype):
    reference = lapack.sgetrf if dtype == "float32" else lapack.dgetrf
    wide = [(65, 300), (33, 100), (32, 33), (7, 60), (70, 97)]
    for shape in [*((n, n) for n in SIZES), *RECTANGLES, *wide, (300, 65)]:
        x = matrix(*shape, dtype=dtype)
        factors, pivots, order = run(lax.linalg.lu, x)
        wanted = reference(x)[1]
        np.testing.assert_array_equal(pivots, wanted)
        k = min(shape)
        lower = np.tril(factors[:, :k], -1) + np.eye(shape[0], k, dtype=dtype)
        assert_close(lower @ np.triu(factors[:k]), x[order], max(shape))


def test_lu_of_special_matrices():
    for x in (np.zeros((40, 40)), np.ones((50, 40)), np.eye(70)[::-1], -np.eye(70)):
        factors, pivots, order = run(lax.linalg.lu, np.ascontiguousarray(x, np.float32))
        k = x.shape[1]
        np.testing.assert_array_equal(np.sort(order), np.arange(len(x)))
        lower = np.tril(factors[:, :k], -1) + np.eye(len(x), k)
        np.testing.assert_array_equal(lower @ np.triu(factors[:k]), x[order])
    for bad in (np.nan, np.inf):
        x = matrix(80, 80)
        x[:, 33] = bad
        factors, pivots, order = run(lax.linalg.lu, x)
        assert (pivots >= np.arange(80)).all()
        assert (pivots < 80).all()
        assert np.isnan(factors[-1, -1])


def test_solve():
    a, b = positive(200), matrix(200)
    x = run(lambda a, b: tetrax.numpy.linalg.solve(a, b), a, b)
    assert_close(a @ x, b, 200, np.abs(b).max() * np.linalg.cond(a))


# Our own path begins at 48 rows and columns; tall ones go through QR, wide ones are transposed.
SVD_SHAPES = [(3, 5), (47, 50), (48, 48), (49, 48), (48, 49), (66, 65), (100, 60), (60, 100)]
SVD_SHAPES += [(2, 64, 50), (2, 50, 64), (300, 50), (129, 129)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SVD_SHAPES)
def test_svd(dtype, shape):
    x = matrix(*shape, dtype=dtype)
    wanted = np.linalg.svd(x.astype(np.float64), compute_uv=False)
    size, k = max(shape), min(shape[-2:])
    for full in (False, True):
        u, s, v = run(lax.linalg.svd, x, full_matrices=full)
        assert u.dtype == s.dtype == v.dtype == x.dtype
        assert_close(s, wanted, size)
        assert_close((u[..., :k] * s[..., None, :]) @ v[..., :k, :], x, size, wanted.max())
        for one, other in zip(
            u.reshape(-1, *u.shape[-2:]), v.reshape(-1, *v.shape[-2:]), strict=True
        ):
            assert_orthonormal(one)
            assert_orthonormal(other.T)
    assert_close(run(lax.linalg.svd, x, compute_uv=False), wanted, size)


@pytest.mark.parametrize("dtype", DTYPES)
def test_svd_of_special_matrices(dtype):
    low = matrix(80, 4, dtype=dtype) @ matrix(4, 70, dtype=dtype)
    for x in (low, np.zeros((60, 60), dtype), np.eye(60, dtype=dtype), np.ones((50, 70), dtype)):
        for factor in (1, 1e-30, 1e30):
            y = x * np.asarray(factor, dtype)
            u, s, v = run(lax.linalg.svd, y, full_matrices=False)
            scale = np.abs(y).max() * max(y.shape)
            assert_close((u * s) @ v, y, 80, scale)
            # equal elements are rounded alike: errors grow as n, not as its square root
            assert_orthonormal(u, scale=4)
            assert_orthonormal(v.T, scale=4)
    for bad in (np.nan, np.inf):
        y = low.copy()
        y[50, 60] = bad
        for out in run(lax.linalg.svd, y):
            assert np.isnan(out).all()


def test_batches():
    x = matrix(3, 40, 35)
    q, r = run(lax.linalg.qr, x, full_matrices=False)
    for i in range(3):
        single = run(lax.linalg.qr, x[i], full_matrices=False)
        np.testing.assert_array_equal(q[i], single[0])
        np.testing.assert_array_equal(r[i], single[1])
    s = np.stack([symmetric(70), positive(70)])
    vectors, values = run(lax.linalg.eigh, s)
    for i in range(2):
        assert_close(s[i] @ vectors[i], vectors[i] * values[i], 70, np.abs(values[i]).max())


def outcomes():
    """Bits of all decompositions of matrices that are shared between threads."""
    x = matrix(300, 300)
    outs = [*run(lax.linalg.qr, x), run(lax.linalg.cholesky, positive(300))]
    outs += run(lax.linalg.lu, x)
    # the values of `svd` are LAPACK's: its threads round differently, ours do not
    return [*outs, *run(lax.linalg.eigh, symmetric(300))]


def test_threads_do_not_change_bits():
    before = tetrax.config.num_threads
    try:
        found = []
        for threads in (1, 2, 7):
            tetrax.config.update("num_threads", threads)
            found.append(outcomes())
    finally:
        tetrax.config.update("num_threads", before)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


# -- what LAPACK computes inside compiled programs: the eager reference is SciPy's wrapper of it --


def check_compiled(function, *arguments, rtol=1e-3, **options):
    compiled = run(function, *arguments, **options)
    eager = function(*arguments, **options)
    several = isinstance(eager, (list, tuple))
    for a, b in zip(*((x if several else [x]) for x in (compiled, eager)), strict=True):
        b = np.asarray(b)
        assert a.dtype == b.dtype
        scale = np.abs(b[np.isfinite(b)]).max(initial=1)
        np.testing.assert_allclose(a, b, rtol=0, atol=rtol * scale)


ALL_DTYPES = [*DTYPES, "complex64", "complex128"]


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 6, 6), (40, 40), (0, 0)])
def test_general_matrices(dtype, shape):
    x = matrix(*shape, dtype=dtype)
    if dtype.startswith("complex"):
        x = (x + 1j * matrix(*shape, seed=1)).astype(dtype)
    for left, right in ((True, True), (False, True), (False, False)):
        options = {"compute_left_eigenvectors": left, "compute_right_eigenvectors": right}
        check_compiled(lax.linalg.eig, x, **options)
    # single elements of a Schur form depend on rounding: the decomposition does not
    form, vectors = run(lax.linalg.schur, x)
    back = vectors @ form @ np.swapaxes(vectors.conj(), -1, -2)
    np.testing.assert_allclose(back, x, atol=1e-4)
    np.testing.assert_allclose(np.tril(form, -2), 0, atol=0)
    check_compiled(lax.linalg.hessenberg, x)
    if x.size:
        hermitian = (x + np.swapaxes(x.conj(), -1, -2)).astype(dtype)
        for lower in (True, False):
            check_compiled(lax.linalg.tridiagonal, hermitian, lower=lower)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_general_matrices_that_are_not_finite(bad):
    x = np.stack([matrix(9, 9), matrix(9, 9, seed=1)])
    x[1, 3, 4] = bad
    for function in (lax.linalg.eig, lax.linalg.schur):
        for out in run(function, x):
            assert np.isfinite(out[0]).all()
            assert np.isnan(out[1]).all()


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("n", [1, 2, 3, 50])
def test_tridiagonal_systems(dtype, batch, n):
    dl, d, du = (matrix(*batch, n, dtype=dtype, seed=i) for i in range(3))
    b = matrix(*batch, n, 2, dtype=dtype)
    # large elements off the diagonal need pivots
    check_compiled(lax.linalg.tridiagonal_solve, dl * 5, d, du, b, perturb_singular=False)


def test_singular_tridiagonal_systems():
    zero = np.zeros((2, 4), np.float32)
    d = np.stack([np.ones(4, np.float32), zero[0]])
    out = run(lax.linalg.tridiagonal_solve, zero, d, zero, np.ones((2, 4, 1), np.float32))
    np.testing.assert_array_equal(out[0], 1)
    assert np.isnan(out[1]).all()


def test_permutations_that_swaps_leave():
    for pivots in ([[0, 1, 2], [3, 3, 4]], [2, 1, 2]):
        pivots = np.asarray(pivots, np.int32)
        check_compiled(lax.linalg.lu_pivots_to_permutation, pivots, permutation_size=5)
