"""Special functions given by formulas: values, ends of their domains, derivatives."""

from __future__ import annotations

import jax
import mpmath
import pytest

import numpy as np
import tetrax
import tetrax.numpy as tnp
from scipy import special
from tetrax import lax

RNG = np.random.default_rng(0)
SIZE = 500


@pytest.fixture(autouse=True)
def x64():
    with tetrax.enable_x64(True), jax.enable_x64(True):
        yield


def spread(low: float, high: float) -> np.ndarray:
    return np.exp(RNG.uniform(np.log(low), np.log(high), SIZE))


A = spread(0.05, 200.0)
X = A * np.exp(RNG.normal(0.0, 1.0, SIZE))
CASES = {
    "igamma": (special.gammainc, (A, X)),
    "igammac": (special.gammaincc, (A, X)),
    "zeta": (special.zeta, (RNG.uniform(1.01, 20.0, SIZE), spread(0.05, 50.0))),
    "polygamma": (special.polygamma, (RNG.integers(0, 8, SIZE) * 1.0, spread(0.05, 50.0))),
    "bessel_i0e": (special.i0e, (RNG.normal(0.0, 20.0, SIZE),)),
    "bessel_i1e": (special.i1e, (RNG.normal(0.0, 20.0, SIZE),)),
    "betainc": (special.betainc, (spread(0.1, 50.0), spread(0.1, 50.0), RNG.uniform(0, 1, SIZE))),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_values(name, dtype):
    """float32 is computed in float64, so one rounding remains; the condition of the exponentials
    at these sizes makes 1e-12 of float64's 2e-16. Values below 1e-30 lose digits to subnormals."""
    reference, operands = CASES[name]
    operands = [x.astype(dtype) for x in operands]
    expected = reference(*(x.astype(np.float64) for x in operands))
    kept = np.abs(expected) > 1e-30
    found = np.asarray(tetrax.jit(getattr(lax, name))(*operands), np.float64)
    rtol = 1.2e-7 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found[kept], expected[kept], rtol=rtol)


ENDS = np.array([0.0, 1.0, np.inf, -1.0, np.nan, 2.5, -1.5])


@pytest.mark.parametrize("name", ["igamma", "igammac", "zeta"])
def test_ends_of_domains(name):
    x, y = (v.ravel() for v in np.meshgrid(ENDS, ENDS))
    if name == "zeta":
        # Beside NaN and infinite exponents SciPy gives what it computes, not what it means.
        kept = np.isfinite(x) & ~np.isnan(y)
        x, y = x[kept], y[kept]
    found = tetrax.jit(getattr(lax, name))(x, y)
    np.testing.assert_allclose(found, CASES[name][0](x, y), rtol=1e-12)


def test_ends_of_betainc():
    for a, b, x in [(2, 3, 0), (2, 3, 1), (2, 3, -0.1), (2, 3, 1.1), (-1, 3, 0.5), (0.5, 0.5, 0.5)]:
        operands = [np.float64(v) for v in (a, b, x)]
        np.testing.assert_allclose(lax.betainc(*operands), special.betainc(*operands), rtol=1e-12)


@pytest.mark.parametrize("a,x", [(0.3, 0.1), (2.0, 2.5), (7.5, 9.0), (30.0, 25.0), (200.0, 190.0)])
def test_derivatives_by_a(a, x):
    """Against differences in 40 digits."""
    with mpmath.workdps(40):
        slope = mpmath.diff(lambda t: mpmath.gammainc(t, 0, x, regularized=True), a)
        density = mpmath.mpf(x) ** (a - 1) * mpmath.exp(-x) / mpmath.gamma(a)
        slope, sample_slope = float(slope), float(-slope / density)
    a, x = np.float64(a), np.float64(x)
    np.testing.assert_allclose(lax.igamma_grad_a(a, x), slope, rtol=1e-12)
    np.testing.assert_allclose(tetrax.grad(lax.igamma)(a, x), slope, rtol=1e-12)
    np.testing.assert_allclose(tetrax.grad(lax.igammac)(a, x), -slope, rtol=1e-12)
    np.testing.assert_allclose(lax.random_gamma_grad(a, x), sample_slope, rtol=1e-12)


def test_derivatives_against_jax():
    """JAX's own errors are some 1e-9 in float64."""
    a, b, x = np.float64(2.5), np.float64(1.5), np.float64(0.3)
    pairs = [
        (lambda lib: lib.igamma, (a, x), 1),
        (lambda lib: lib.igammac, (a, x), 0),
        (lambda lib: lib.betainc, (a, b, x), 2),
        (lambda lib: lib.bessel_i0e, (x,), 0),
        (lambda lib: lib.bessel_i1e, (x,), 0),
        (lambda lib: lib.digamma, (x,), 0),
    ]
    for of, operands, argnum in pairs:
        found = tetrax.grad(of(lax), argnum)(*operands)
        expected = jax.grad(of(jax.lax), argnum)(*operands)
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    found = tetrax.grad(lambda x: lax.polygamma(np.float64(2), x))(x)
    np.testing.assert_allclose(found, special.polygamma(3, 0.3), rtol=1e-12)
    found = tetrax.grad(lambda q: lax.zeta(np.float64(2.5), q))(x)
    np.testing.assert_allclose(found, -2.5 * special.zeta(3.5, 0.3), rtol=1e-12)


def test_bessel_slopes_at_zero():
    zero = np.float64(0.0)
    assert float(tetrax.grad(lax.bessel_i1e)(zero)) == 0.5
    assert float(tetrax.grad(lambda x: lax.bessel_i0e(x))(zero)) == 0.0


def test_missing_derivatives_say_so():
    x = np.float64(0.5)
    with pytest.raises(NotImplementedError, match="regularized_incomplete_beta"):
        tetrax.grad(lax.betainc)(x, x, x)
    with pytest.raises(NotImplementedError, match="polygamma"):
        tetrax.grad(lax.polygamma)(x, x)


def test_batches_stop_element_by_element():
    a, x = A[:20], X[:20]
    alone = [lax.igamma(p, q) for p, q in zip(a, x, strict=True)]
    np.testing.assert_allclose(tetrax.vmap(lax.igamma)(a, x), tnp.stack(alone), rtol=1e-14)
    compiled = tetrax.jit(lax.igamma)
    alone = [compiled(p, q) for p, q in zip(a, x, strict=True)]
    np.testing.assert_allclose(compiled(a, x), tnp.stack(alone), rtol=1e-14)
