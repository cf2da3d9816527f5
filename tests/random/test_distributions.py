"""Distributions against JAX's, from the same keys.

Most formulas are exact or elementary; a tolerance beyond 2 ULP says that a transcendental function
is rounded differently, and `scale` that errors are absolute, relative to typical values.
"""

from __future__ import annotations

import jax
import pytest
from tests.random.streams import near, same

import numpy as np
import tetrax
from tetrax import random

F32 = np.float32
A = np.array([0.05, 0.5, 1.0, 3.0, 200.0], F32)


@pytest.mark.parametrize("shape", [(), (33,), (5000,)])
@pytest.mark.parametrize("name", ["exponential", "laplace", "logistic"])
def test_elementary_ones_are_exact(name, shape):
    same(lambda r, key: getattr(r, name)(key, shape))


def test_other_continuous_ones():
    near(lambda r, key: r.cauchy(key, (500,)), ulp=4)
    near(lambda r, key: r.pareto(key, np.array([0.5, 2.0], F32), (50, 2)), ulp=8)
    near(lambda r, key: r.weibull_min(key, 2.0, 1.5, (50,)), ulp=8)
    near(lambda r, key: r.triangular(key, -1.0, 0.5, 2.0, (50,)), ulp=4, scale=1.0)
    near(lambda r, key: r.rayleigh(key, np.array([0.5, 2.0], F32), (50, 2)), ulp=2)
    near(lambda r, key: r.wald(key, np.array([0.5, 2.0], F32), (50, 2)), ulp=64, scale=0.5)
    near(lambda r, key: r.maxwell(key, (50,)), ulp=4)
    near(lambda r, key: r.double_sided_maxwell(key, 0.5, 2.0, (50,)), ulp=8, scale=1.0)
    near(lambda r, key: r.lognormal(key, 0.5, (50,)), ulp=4)


@pytest.mark.parametrize("p", [0.01, 0.4, 0.9])
def test_geometric(p):
    same(lambda r, key: r.geometric(key, p, (200,)))


@pytest.mark.parametrize("a", [A[0], pytest.param(A[1], marks=pytest.mark.slow), A[3]])
def test_gamma(a):
    # pow(u, 1 / a) of the small parameters multiplies rounding errors by 1 / a
    near(lambda r, key: r.gamma(key, a, (40,)), ulp=4 + 4 / a)
    near(lambda r, key: r.loggamma(key, a, (40,)), ulp=4, scale=1.0)


def test_gamma_of_arrays_and_mapped_keys():
    near(lambda r, key: r.gamma(key, A), ulp=100)
    keys = random.split(random.key(3), 4)
    theirs = jax.random.split(jax.random.key(3), 4)
    got = tetrax.vmap(lambda k: random.loggamma(k, A))(keys)
    want = jax.vmap(lambda k: jax.random.loggamma(k, A))(theirs)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


MADE_OF_GAMMAS = {
    "beta": lambda r, key: r.beta(key, A, 2.0),
    "dirichlet": lambda r, key: r.dirichlet(key, A, (3,)),
    "t": lambda r, key: r.t(key, A[1:], (6, 4)),
    "chisquare": lambda r, key: r.chisquare(key, A[1:], (6, 4)),
    "f": lambda r, key: r.f(key, A[2:], A[2:], (3,)),
    "generalized_normal": lambda r, key: r.generalized_normal(key, 1.5, (20,)),
    "ball": lambda r, key: r.ball(key, 3, 2, (20,)),
}
QUICK = ("beta", "ball")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in MADE_OF_GAMMAS]
)
def test_made_of_gammas(name):
    near(MADE_OF_GAMMAS[name], ulp=64, scale=0.1)


@pytest.mark.parametrize("lam", [0.3, 9.9, 10.0, 1e4])
def test_poisson(lam):
    same(lambda r, key: r.poisson(key, lam, (60,)))


def test_poisson_of_arrays():
    lam = np.array([0.0, 1.0, np.nan, 40.0], F32)
    same(lambda r, key: r.poisson(key, lam))
    same(lambda r, key: r.poisson(key, lam, (5, 4), np.int16))


@pytest.mark.parametrize("n, p", [(10, 0.9), (1e5, 0.75)])
def test_binomial(n, p):
    same(lambda r, key: r.binomial(key, n, p, (60,)))


def test_binomial_with_invalid_parameters():
    n = np.array([10, -1, np.nan, np.inf, 10, 10], F32)
    p = np.array([0.2, 0.2, 0.2, 0.2, np.nan, -0.5], F32)
    same(lambda r, key: r.binomial(key, n, p))


def test_multinomial():
    p = np.array([0.2, 0.0, 0.5, 0.3], F32)
    same(lambda r, key: r.multinomial(key, 20, p))
    same(lambda r, key: r.multinomial(key, np.array([5.0, 300.0], F32), p, shape=(2, 4)))


def test_multivariate_normal():
    mean = np.array([1.0, 2.0, -1.0], F32)
    cov = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 0.5]], F32)
    near(lambda r, key: r.multivariate_normal(key, mean, cov, (7,)), ulp=16, scale=1.0)
    for method in ("svd", "eigh"):
        draws = random.multivariate_normal(random.key(0), mean, cov, (20000,), method=method)
        found = np.cov(np.asarray(draws).T)
        # 20000 samples: standard error of a covariance below 2 / sqrt(20000)
        np.testing.assert_allclose(found, cov, atol=5 * 2 / 20000**0.5)


@pytest.mark.parametrize("n, m", [(3, None), (3, 5), (5, 3)])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_orthogonal(n, m, dtype):
    near(lambda r, key: r.orthogonal(key, n, (2,), dtype, m), ulp=32, scale=1.0)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda k: random.exponential(k, dtype=np.int32), ValueError, "float dtype"),
        (lambda k: random.beta(k, np.float64(2.0), 1j), Exception, "cast"),
        (lambda k: random.dirichlet(k, 1.0), ValueError, "ndim >= 1"),
        (lambda k: random.multivariate_normal(k, 1.0, np.eye(2)), ValueError, "mean.ndim"),
        (lambda k: random.multivariate_normal(k, np.ones(2), np.eye(3)), ValueError, "cov.shape"),
        (lambda k: random.geometric(k, 0.5, dtype=np.float32), ValueError, "int dtype"),
        (lambda k: random.t(k, np.ones(3, F32), (2,)), ValueError, "hape"),
    ],
)
def test_misuse_is_explained(call, error, words):
    with pytest.raises(error, match=words):
        call(random.key(0))


@pytest.mark.parametrize("a", [0.3, 2.0])
@pytest.mark.parametrize("name", ["gamma", "loggamma"])
def test_gamma_derivatives(name, a):
    mine = tetrax.grad(lambda a: getattr(random, name)(random.key(0), a, (3,)).sum())
    theirs = jax.grad(lambda a: getattr(jax.random, name)(jax.random.key(0), a, (3,)).sum())
    np.testing.assert_allclose(mine(a), theirs(a), rtol=1e-5)
