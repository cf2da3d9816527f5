"""Decompositions and solvers against real JAX's; both call LAPACK, so factors agree up to rounding.

Tolerances are some tens of float32 units (1e-5): matrices here have condition numbers below 100.
"""

from __future__ import annotations

import jax
import pytest
from tests.ops.jax_oracle import check, sample

import numpy as np
import tetrax
from tetrax import errors, lax
from tetrax import numpy as jnp

DTYPES = ["float32", "complex64"]
RECTANGLES = [
    ((3, 3), "float32"),
    ((2, 4, 3), "float32"),
    ((5, 3), "complex64"),
    ((3, 5), "complex64"),
]
SQUARES = [((1, 1), "float32"), ((2, 4, 4), "float32"), ((3, 3), "complex64")]
CLOSE = {"rtol": 2e-4, "atol": 5e-5}


def hermitian(*shape, dtype="float32"):
    """Well separated eigenvalues, positive definite."""
    x = sample(*shape, dtype=dtype, seed=3)
    product = x @ np.swapaxes(x.conj(), -1, -2) + np.diag(np.arange(1.0, shape[-1] + 1))
    return product.astype(dtype)


def triangular(*shape, dtype="float32"):
    x = sample(*shape, dtype=dtype, seed=4)
    return (np.tril(x) + 3 * np.eye(shape[-1])).astype(dtype)


@pytest.mark.parametrize(("shape", "dtype"), SQUARES)
def test_cholesky(shape, dtype):
    x = hermitian(*shape, dtype=dtype)
    check(lambda m, x: m.linalg.cholesky(x), x, vmap=False, **CLOSE)
    check(lambda m, x: m.linalg.cholesky(x, symmetrize_input=False), x, vmap=False, **CLOSE)


def test_cholesky_of_an_indefinite_matrix_is_nan():
    x = np.stack([np.eye(3), np.diag([1.0, -1.0, 1.0])]).astype(np.float32)
    for run in (lax.linalg.cholesky, tetrax.jit(lax.linalg.cholesky)):
        factor = np.asarray(run(x))
        np.testing.assert_array_equal(factor[0], np.eye(3))
        assert np.isnan(factor[1][np.tril_indices(3)]).all()


def test_cholesky_update():
    upper = np.triu(triangular(4, 4).T)
    w = sample(4)
    check(lambda m, r, w: m.linalg.cholesky_update(r, w), upper, w, differentiate=[], vmap=False)


@pytest.mark.parametrize("left_side", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("float32", {}),
        ("float32", {"unit_diagonal": True, "transpose_a": True}),
        ("complex64", {"transpose_a": True, "conjugate_a": True}),
    ],
)
def test_triangular_solve(dtype, left_side, lower, options):
    a = triangular(4, 4, dtype=dtype)
    a = a if lower else a.T.copy()
    b = sample(4, 2, dtype=dtype) if left_side else sample(2, 4, dtype=dtype)
    case = lambda m, a, b: m.linalg.triangular_solve(
        a, b, left_side=left_side, lower=lower, **options
    )
    check(case, a, b, **CLOSE)


def test_triangular_solve_of_batches_and_vectors():
    a, b = triangular(2, 4, 4), sample(2, 4, 3)
    check(
        lambda m, a, b: m.linalg.triangular_solve(a, b, left_side=True, lower=True), a, b, **CLOSE
    )
    a, b = triangular(4, 4), sample(4)
    for left in (True, False):
        case = lambda m, a, b, left=left: m.linalg.triangular_solve(
            a, b, left_side=left, lower=True
        )
        check(case, a, b, vmap=False, **CLOSE)


def test_singular_triangular_solve():
    a, b = np.diag([1.0, 0.0]).astype(np.float32), np.ones((2, 1), np.float32)
    out = np.asarray(lax.linalg.triangular_solve(a, b, left_side=True, lower=True))
    assert out[0, 0] == 1 and not np.isfinite(out[1, 0])


@pytest.mark.parametrize(("shape", "dtype"), RECTANGLES)
def test_lu(shape, dtype):
    x = sample(*shape, dtype=dtype)
    check(lambda m, x: list(m.linalg.lu(x)), x, differentiate=[], vmap=False, **CLOSE)
    # Integer results have no cotangents: derivatives of the factors alone.
    factors = lambda m, x: m.linalg.lu(x)[0]
    check(factors, x, vmap=len(shape) == 2 and shape[0] == 3, **CLOSE)


@pytest.mark.parametrize("pivots", [[0, 1, 2], [2, 2, 3], [1, 1, 2]])
def test_pivots_to_permutation(pivots):
    pivots = np.array([pivots, [0, 3, 3]], np.int32)
    check(lambda m, p: m.linalg.lu_pivots_to_permutation(p, 4), pivots, vmap=False)


@pytest.mark.parametrize(("shape", "dtype"), RECTANGLES)
@pytest.mark.parametrize("full_matrices", [True, False])
def test_qr(shape, dtype, full_matrices):
    x = sample(*shape, dtype=dtype)
    case = lambda m, x: list(m.linalg.qr(x, full_matrices=full_matrices))
    check(case, x, vmap=False, **CLOSE)


def test_qr_with_pivoting():
    x = sample(5, 3)
    case = lambda m, x: list(m.linalg.qr(x, pivoting=True, full_matrices=False))
    check(case, x, differentiate=[], vmap=False, **CLOSE)
    q, r, p = lax.linalg.qr(x, pivoting=True, full_matrices=False)
    np.testing.assert_allclose(np.asarray(q @ r), x[:, np.asarray(p)], rtol=1e-5, atol=1e-6)
    derivable = lambda m, x: list(m.linalg.qr(x, pivoting=True, full_matrices=False))[:2]
    check(derivable, x, vmap=False, **CLOSE)


@pytest.mark.parametrize("dtype", DTYPES)
def test_householder_products(dtype):
    x, c = sample(5, 3, dtype=dtype), sample(5, 2, dtype=dtype)
    packed, factors = lax.linalg.geqrf(x)
    q = np.asarray(lax.linalg.householder_product(packed, factors))
    np.testing.assert_allclose(q.conj().T @ q, np.eye(3), atol=2e-6)
    np.testing.assert_allclose(q @ np.triu(np.asarray(packed)[:3]), x, atol=2e-6)
    packed, factors = np.asarray(packed), np.asarray(factors)
    case = lambda m, a, t: m.linalg.householder_product(a, t)
    check(case, packed, factors, differentiate=[], vmap=False, **CLOSE)
    for left in (True, False):
        for transpose in (True, False):
            case = lambda m, a, t, c, left=left, transpose=transpose: m.linalg.ormqr(
                a, t, c, left=left, transpose=transpose
            )
            operand = c if left else c.T.copy()
            check(case, packed, factors, operand, differentiate=[], vmap=False, **CLOSE)


@pytest.mark.parametrize(("shape", "dtype"), SQUARES)
def test_eigh(shape, dtype):
    x = hermitian(*shape, dtype=dtype)
    lower = dtype == "float32"
    check(lambda m, x: list(m.linalg.eigh(x, lower=lower)), x, vmap=False, **CLOSE)


def test_eigh_of_a_range():
    x = hermitian(4, 4)
    vectors, values = lax.linalg.eigh(x, subset_by_index=(1, 3))
    everything = lax.linalg.eigh(x)
    np.testing.assert_array_equal(values, everything[1][1:3])
    np.testing.assert_array_equal(vectors, everything[0][:, 1:3])


def rotation(size):
    return np.linalg.qr(np.random.default_rng(0).normal(size=(size, size)))[0]


@pytest.mark.parametrize("rotate", [False, True])
def test_eigh_derivatives_where_eigenvalues_are_equal(rotate):
    q = rotation(3) if rotate else np.eye(3)
    x = (q @ np.diag([5.0, 2.0, 2.0]) @ q.T).astype(np.float32)

    def top(x):
        v = jnp.linalg.eigh(x)[1][:, -1]
        return v[0] * v[1]

    # First-order perturbation of the simple eigenvalue 5: the others count by their projector.
    v = q[:, 0]
    others = np.eye(3) - np.outer(v, v)
    dv = others / (5 - 2)
    want = np.outer(v[1] * dv[0] + v[0] * dv[1], v)
    want = (want + want.T) / 2
    np.testing.assert_allclose(tetrax.grad(top)(x), want, atol=2e-5)
    total = lambda x: (jnp.linalg.eigh(x)[0] ** 3).sum()
    np.testing.assert_allclose(tetrax.grad(total)(x), 3 * x @ x, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tridiagonal(dtype):
    x = hermitian(4, 4, dtype=dtype)
    case = lambda m, x: list(m.linalg.tridiagonal(x))
    check(case, x, differentiate=[], vmap=False, **CLOSE)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eig(dtype):
    x = sample(4, 4, dtype=dtype, seed=5)
    check(lambda m, x: list(m.linalg.eig(x)), x, differentiate=[], vmap=False, **CLOSE)
    values = lambda m, x: m.linalg.eig(
        x, compute_left_eigenvectors=False, compute_right_eigenvectors=False
    )[0]
    check(values, x, vmap=False, **CLOSE)
    vectors = lambda m, x: list(m.linalg.eig(x, enable_eigvec_derivs=True))
    check(vectors, x, vmap=False, rtol=1e-3, atol=5e-4)


def test_eigenvector_derivatives_must_be_asked_for():
    with pytest.raises(NotImplementedError, match="enable_eigvec_derivs"):
        tetrax.jvp(lambda x: lax.linalg.eig(x)[1], (sample(3, 3),), (sample(3, 3),))


@pytest.mark.parametrize("dtype", DTYPES)
def test_schur_and_hessenberg(dtype):
    x = sample(4, 4, dtype=dtype, seed=5)
    check(lambda m, x: list(m.linalg.schur(x)), x, differentiate=[], vmap=False, **CLOSE)
    check(lambda m, x: list(m.linalg.hessenberg(x)), x, differentiate=[], vmap=False, **CLOSE)


@pytest.mark.parametrize(("shape", "dtype"), RECTANGLES)
def test_svd(shape, dtype):
    x = sample(*shape, dtype=dtype)
    for full in (True, False):
        case = lambda m, x, full=full: list(m.linalg.svd(x, full_matrices=full))
        differentiate = None if not full or shape == (3, 3) else []
        check(case, x, differentiate=differentiate, vmap=False, **CLOSE)
    check(lambda m, x: m.linalg.svd(x, compute_uv=False), x, vmap=False, **CLOSE)


@pytest.mark.parametrize("x", [2 * np.eye(3), np.zeros((3, 3)), np.diag([3.0, 1.0, 1.0, 0.0])])
def test_svd_derivatives_where_singular_values_are_equal(x):
    x = x.astype(np.float32)
    weights = sample(*x.shape)

    def rebuilt(x):
        u, s, vh = jnp.linalg.svd(x, full_matrices=False)
        return (((u * s) @ vh) * weights).sum()

    gradient = np.asarray(tetrax.grad(rebuilt)(x))
    assert np.isfinite(gradient).all()
    if np.linalg.matrix_rank(x) == len(x):
        np.testing.assert_allclose(gradient, weights, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 3), (5, 3)])
def test_polar_decomposition(shape):
    x = sample(*shape)
    u, h, _, converged = lax.linalg.qdwh(x)
    np.testing.assert_allclose(np.asarray(u @ h), x, atol=1e-5)
    np.testing.assert_allclose(np.asarray(u.T @ u), np.eye(3), atol=1e-5)
    assert converged and np.linalg.eigvalsh(np.asarray(h)).min() > -1e-5


@pytest.mark.parametrize("dtype", DTYPES)
def test_tridiagonal_solve(dtype):
    dl, du = sample(5, dtype=dtype), sample(5, dtype=dtype, seed=1)
    dl[0], du[-1] = 0, 0
    d, b = (sample(5, dtype=dtype, seed=2) + 4).astype(dtype), sample(5, 2, dtype=dtype, seed=3)
    case = lambda m, *xs: m.linalg.tridiagonal_solve(*xs)
    check(case, dl, d, du, b, **CLOSE)


def test_symmetric_product():
    a, c = sample(3, 4), sample(3, 3)
    case = lambda m, a, c: m.linalg.symmetric_product(a, c, alpha=0.5, beta=2.0)
    check(case, a, c, differentiate=[], vmap=False, **CLOSE)
    both = lambda m, a, c: m.linalg.symmetric_product(a, c, symmetrize_output=True)
    check(both, a, c, differentiate=[], vmap=False, **CLOSE)


EMPTY = {
    "cholesky": lambda m, x: m.linalg.cholesky(x),
    "lu": lambda m, x: list(m.linalg.lu(x)),
    "qr": lambda m, x: list(m.linalg.qr(x)),
    "eigh": lambda m, x: list(m.linalg.eigh(x)),
    "svd": lambda m, x: list(m.linalg.svd(x)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_matrices(name):
    for shape in ((0, 0), (0, 3, 3), (2, 0, 0)):
        check(EMPTY[name], np.zeros(shape, np.float32), differentiate=[], vmap=False)


def test_vmap_over_decompositions():
    x = hermitian(3, 4, 4)
    for run in (lax.linalg.cholesky, lambda y: lax.linalg.eigh(y)[1]):
        np.testing.assert_allclose(tetrax.vmap(run)(x), run(x), rtol=1e-6)
    moved = np.moveaxis(x, 0, -1)
    got = tetrax.vmap(lax.linalg.cholesky, in_axes=2)(moved)
    np.testing.assert_allclose(got, lax.linalg.cholesky(x), rtol=1e-6)


def test_half_precision_is_computed_in_single():
    x = hermitian(3, 3).astype(np.float16)
    factor = lax.linalg.cholesky(x)
    assert factor.dtype == np.float16
    np.testing.assert_allclose(np.asarray(factor @ factor.T), x, rtol=2e-2)


def test_second_derivatives():
    x = hermitian(3, 3)
    cases = [
        lambda m, x: m.linalg.cholesky(x),
        lambda m, x: list(m.linalg.eigh(x)),
        lambda m, x: list(m.linalg.svd(x, full_matrices=False)),
    ]
    for case in cases:
        total = lambda m, x, case=case: sum((y * y * y).sum() for y in _list(case(m, x)))
        mine = tetrax.grad(lambda y, total=total: total(lax, y))
        theirs = jax.grad(lambda y, total=total: total(jax.lax, y))
        direction = sample(3, 3)
        got = tetrax.jvp(mine, (x,), (direction,))[1]
        want = jax.jvp(theirs, (x,), (direction,))[1]
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-2)


def _list(x):
    return x if isinstance(x, list) else [x]


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: lax.linalg.cholesky(sample(3, 4)), "square"),
        (lambda: lax.linalg.eigh(sample(3, 4), symmetrize_input=False), "square"),
        (lambda: lax.linalg.lu(sample(3)), "rank at least 2"),
        (lambda: lax.linalg.triangular_solve(sample(3, 3), sample(4, 4)), "Incompatible"),
        (lambda: lax.linalg.householder_product(sample(2, 3), sample(2)), "rows"),
    ],
)
def test_misuse_is_explained(call, words):
    with pytest.raises(errors.ShapeError, match=words):
        call()
