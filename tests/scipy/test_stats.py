"""`tetrax.scipy.stats` against `jax.scipy.stats`, and SciPy in double precision."""

from __future__ import annotations

import importlib

import jax
import pytest
import scipy.stats

import numpy as np
import tetrax
from tetrax import lax
from tetrax.scipy import stats

LINE = np.array([-6.0, -1.2, -0.3, 0.0, 0.4, 1.0, 2.5, 9.0])
UNIT = np.array([-0.1, 0.0, 0.1, 0.5, 0.9, 1.0, 1.2])
COUNTS = np.array([-1.0, 0.0, 1.0, 2.0, 5.0, 8.0])
INSIDE = np.array([0.01, 0.2, 0.5, 0.93])

PLACED = {"loc": 0.3, "scale": 1.7}
DENSITY = "logpdf pdf"
ALL = "logpdf pdf cdf logcdf sf logsf"
# Distribution -> functions, points, shape parameters, and whether loc and scale are there.
CASES = {
    "norm": (ALL, LINE, {}, PLACED),
    "uniform": ("logpdf pdf cdf", LINE, {}, PLACED),
    "laplace": ("logpdf pdf cdf", LINE, {}, PLACED),
    "expon": (ALL, LINE, {}, PLACED),
    "cauchy": (ALL, LINE, {}, PLACED),
    "logistic": ("logpdf pdf cdf sf", LINE, {}, PLACED),
    "gumbel_r": (ALL, LINE, {}, PLACED),
    "gumbel_l": (ALL, LINE[:-1], {}, PLACED),
    "t": (DENSITY, LINE, {"df": 3.5}, PLACED),
    "beta": (ALL, UNIT, {"a": 2.0, "b": 3.5}, PLACED),
    "gamma": (ALL, LINE, {"a": 2.3}, PLACED),
    "chi2": (ALL, LINE, {"df": 2.6}, PLACED),
    "pareto": (ALL, LINE, {"b": 2.3}, PLACED),
    "truncnorm": (ALL, LINE, {"a": -1.0, "b": 2.0}, PLACED),
    "gennorm": ("logpdf pdf cdf", LINE, {"beta": 1.4}, {}),
    "vonmises": (DENSITY, LINE, {"kappa": 1.3}, {}),
    "wrapcauchy": (DENSITY, LINE, {"c": 0.4}, {}),
    "bernoulli": ("logpmf pmf", COUNTS, {"p": 0.3}, {"loc": 1.0}),
    "geom": ("logpmf pmf", COUNTS, {"p": 0.3}, {"loc": 1.0}),
    "binom": ("logpmf pmf", COUNTS, {"n": 6.0, "p": 0.3}, {"loc": 1.0}),
    "nbinom": ("logpmf pmf", COUNTS, {"n": 6.0, "p": 0.3}, {"loc": 1.0}),
    "betabinom": ("logpmf pmf", COUNTS, {"n": 6.0, "a": 2.0, "b": 0.7}, {"loc": 1.0}),
    "poisson": ("logpmf pmf cdf", COUNTS, {"mu": 2.4}, {"loc": 1.0}),
}
NEEDS = {
    **{("beta", name): "betainc" for name in ("cdf", "logcdf", "sf", "logsf")},
    **{(d, name): "igamma" for d in ("gamma", "chi2") for name in ("cdf", "logcdf")},
    **{(d, name): "igammac" for d in ("gamma", "chi2") for name in ("sf", "logsf")},
    ("gennorm", "cdf"): "igamma",
    ("poisson", "cdf"): "igammac",
    ("vonmises", "logpdf"): "bessel_i0e",
    ("vonmises", "pdf"): "bessel_i0e",
}
FUNCTIONS = [
    (distribution, name)
    for distribution, (names, *_) in CASES.items()
    for name in names.split()
    if hasattr(lax, NEEDS.get((distribution, name), "exp"))
]


def arguments(distribution, dtype):
    _, points, shapes, place = CASES[distribution]
    return points.astype(dtype), {k: np.asarray(v, dtype) for k, v in (shapes | place).items()}


@pytest.mark.parametrize("distribution,name", FUNCTIONS)
def test_like_jax_and_scipy(distribution, name):
    ours = getattr(getattr(stats, distribution), name)
    theirs = getattr(importlib.import_module(f"jax.scipy.stats.{distribution}"), name)
    x, keywords = arguments(distribution, np.float32)
    got, want = ours(x, **keywords), theirs(x, **keywords)
    assert got.dtype == want.dtype and got.shape == want.shape
    # Float32: a few roundings, and cancellation where probabilities are near 1.
    np.testing.assert_allclose(got, want, rtol=5e-5, atol=2e-6)
    x, keywords = arguments(distribution, np.float64)
    with tetrax.enable_x64(True):
        got = ours(x, **keywords)
        assert got.dtype == np.float64
    with np.errstate(all="ignore"):
        want = getattr(getattr(scipy.stats, distribution), name)(x, **keywords)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


# jax cannot differentiate its own Gumbel densities in `scale`.
DIFFERENTIABLE = [
    d for d, n in FUNCTIONS if n in ("logpdf", "logpmf") and not d.startswith("gumbel")
]


@pytest.mark.parametrize("distribution", DIFFERENTIABLE)
def test_gradients(distribution):
    name = "logpdf" if "logpdf" in CASES[distribution][0] else "logpmf"
    x, keywords = arguments(distribution, np.float64)
    names = [key for key in keywords if key not in ("loc", "n")]
    mirror = importlib.import_module(f"jax.scipy.stats.{distribution}")

    def total(module, where):
        def run(values):
            density = getattr(module, name)(x, **(keywords | values))
            return where(np.isfinite(reference), density, 0.0).sum()

        return run

    values = {key: keywords[key] for key in names}
    with tetrax.enable_x64(True), jax.enable_x64(True):
        reference = np.asarray(getattr(mirror, name)(x, **keywords))
        got = tetrax.grad(total(getattr(stats, distribution), tetrax.numpy.where))(values)
        want = jax.grad(total(mirror, jax.numpy.where))(values)
    for key in names:
        if np.isfinite(want[key]):  # jax gives nan where its own masked branch does
            np.testing.assert_allclose(got[key], want[key], rtol=1e-7, atol=1e-9, err_msg=key)
        assert np.isfinite(got[key])


PPF = ["norm", "expon", "cauchy", "logistic", "gumbel_r", "gumbel_l", "uniform", "pareto"]


@pytest.mark.parametrize("distribution", PPF)
def test_quantiles(distribution):
    _, keywords = arguments(distribution, np.float64)
    module, mirror = getattr(stats, distribution), getattr(scipy.stats, distribution)
    with tetrax.enable_x64(True):
        got = module.ppf(INSIDE, **keywords)
        np.testing.assert_allclose(got, mirror.ppf(INSIDE, **keywords), rtol=1e-12)
        if hasattr(module, "isf"):
            got = module.isf(INSIDE, **keywords)
            np.testing.assert_allclose(got, mirror.isf(INSIDE, **keywords), rtol=1e-12)


def test_bernoulli_steps():
    k = np.float32([-1, 0, 0.5, 1, 2])
    np.testing.assert_allclose(stats.bernoulli.cdf(k, 0.3), jax.scipy.stats.bernoulli.cdf(k, 0.3))
    q = np.float32([0.0, 0.3, 0.8, 1.0])
    np.testing.assert_allclose(stats.bernoulli.ppf(q, 0.3), jax.scipy.stats.bernoulli.ppf(q, 0.3))


def test_poisson_entropy():
    mu = np.array([0.0, 0.3, 4.0, 40.0, 300.0])
    with tetrax.enable_x64(True):
        got = stats.poisson.entropy(mu)
    np.testing.assert_allclose(got, scipy.stats.poisson(mu).entropy(), rtol=1e-6)


def test_several_variables():
    x = np.float32([[0.2, 0.5], [1.0, -1.0]])
    mean, cov = np.float32([0.1, 0.2]), np.float32([[2.0, 0.3], [0.3, 1.0]])
    want = scipy.stats.multivariate_normal.logpdf(x, mean, cov)
    np.testing.assert_allclose(stats.multivariate_normal.logpdf(x, mean, cov), want, rtol=1e-5)
    batched = np.broadcast_to(cov, (2, 2, 2))
    np.testing.assert_allclose(stats.multivariate_normal.logpdf(x, mean, batched), want, rtol=1e-5)
    p = np.float32([0.2, 0.3, 0.5])
    alpha = np.float32([1.5, 2.0, 0.7])
    want = scipy.stats.dirichlet.logpdf(p.astype(np.float64) / p.sum(dtype=np.float64), alpha)
    np.testing.assert_allclose(stats.dirichlet.logpdf(p, alpha), want, rtol=1e-5)
    np.testing.assert_allclose(stats.dirichlet.logpdf(p[:-1], alpha), want, rtol=1e-5)
    counts = np.int32([1, 2, 3])
    want = scipy.stats.multinomial.logpmf(counts, 6, p.astype(np.float64))
    np.testing.assert_allclose(stats.multinomial.logpmf(counts, 6, p), want, rtol=1e-5)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_summaries(axis):
    x = np.array([[3, 1, 1, 2], [2, 2, 1, 3], [3, 1, 3, 3]], np.int32)
    for keepdims in (False, True):
        got, want = (
            stats.mode(x, axis, keepdims=keepdims),
            scipy.stats.mode(x, axis, keepdims=keepdims),
        )
        np.testing.assert_array_equal(got.mode, want.mode)
        np.testing.assert_array_equal(got.count, want.count)
    for method in ("average", "min", "max", "dense", "ordinal"):
        got = stats.rankdata(x, method, axis=axis)
        np.testing.assert_array_equal(got, scipy.stats.rankdata(x, method, axis=axis))
        assert got.dtype == jax.scipy.stats.rankdata(x, method, axis=axis).dtype
    np.testing.assert_allclose(stats.sem(x, axis), scipy.stats.sem(x, axis), rtol=1e-6)
