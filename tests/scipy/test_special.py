"""`tetrax.scipy.special` against `jax.scipy.special`, and SciPy in double precision."""

from __future__ import annotations

import jax
import jax.scipy.special
import pytest
import scipy.special

import numpy as np
import tetrax
from tetrax import lax
from tetrax.scipy import special

GRID = np.array([-8.0, -3.3, -1.0, -0.4, 0.0, 0.2, 0.7, 1.0, 1.9, 3.5, 12.0])
POSITIVE = np.array([0.02, 0.3, 0.9, 1.0, 1.7, 4.2, 9.0, 33.0])
UNIT = np.array([1e-6, 0.01, 0.2, 0.5, 0.77, 0.999])

UNARY = {
    "erf": GRID,
    "erfc": GRID,
    "erfcx": GRID,
    "erfinv": UNIT,
    "expit": GRID,
    "logit": UNIT,
    "ndtr": GRID,
    "ndtri": UNIT,
    "log_ndtr": np.array([-30.0, -9.0, -2.0, -0.1, 0.0, 0.3, 2.0, 7.0]),
    "exp1": np.array([0.01, 0.9, 1.9, 2.1, 7.0, 50.0]),
    "expi": np.array([-20.0, -3.0, -0.1, 0.1, 2.0, 39.0, 42.0]),
    "gammaln": np.array([-3.3, -0.4, *POSITIVE]),
    "gammasgn": np.array([-3.3, -2.5, -1.0, -0.5, 0.0, 2.0]),
    "gamma": np.array([-3.3, -0.4, 0.3, 1.0, 2.5, 6.0]),
    "factorial": np.array([-1.0, 0.0, 1.0, 3.5, 7.0]),
    "digamma": POSITIVE,
    "entr": np.array([-1.0, 0.0, *POSITIVE]),
}
BINARY = {
    "xlogy": (np.array([0.0, 0.0, 2.0, -1.5]), np.array([0.0, 2.0, 0.5, 3.0])),
    "xlog1py": (np.array([0.0, 0.0, 2.0, -1.5]), np.array([-1.0, 2.0, 0.5, 3.0])),
    "betaln": (np.array([0.1, 2.0, 5.5, 40.0, 1e-3]), np.array([3.0, 0.4, 90.0, 7.0, 1e4])),
    "beta": (np.array([0.1, 2.0, 5.5, 1.5]), np.array([3.0, 0.4, 2.0, 7.0])),
    "rel_entr": (np.array([0.0, 0.3, 2.0, 1.0]), np.array([0.5, 0.2, 4.0, 0.0])),
    "kl_div": (np.array([0.0, 0.3, 2.0]), np.array([0.5, 0.2, 4.0])),
    "boxcox": (np.array([0.5, 2.0, 3.0]), np.array([0.0, 1.5, -0.7])),
    "boxcox1p": (np.array([0.5, 2.0, 3.0]), np.array([0.0, 1.5, -0.7])),
    "comb": (np.array([5.0, 7.0, 3.0, 4.5]), np.array([2.0, 0.0, 4.0, 1.5])),
    "poch": (np.array([0.5, 2.0, 3.0]), np.array([0.0, 1.5, 2.0])),
}
LATER = {  # need operations of their own
    "gammainc": ("igamma", (POSITIVE[:5], POSITIVE[1:6])),
    "gammaincc": ("igammac", (POSITIVE[:5], POSITIVE[1:6])),
    "betainc": ("betainc", (POSITIVE[:6], POSITIVE[1:7], UNIT)),
    "polygamma": ("polygamma", (np.array([0, 1, 2]), np.array([0.5, 2.0, 7.0]))),
    "zeta": ("zeta", (np.array([1.5, 2.0, 5.0]), np.array([0.5, 1.0, 3.0]))),
    "i0e": ("bessel_i0e", (GRID,)),
    "i1e": ("bessel_i1e", (GRID,)),
    "i0": ("bessel_i0e", (GRID,)),
    "i1": ("bessel_i1e", (GRID,)),
}
CASES = {name: (x,) for name, x in UNARY.items()} | BINARY
CASES |= {name: args for name, (needed, args) in LATER.items() if hasattr(lax, needed)}
NO_DERIVATIVE = {"gammasgn", "polygamma", "zeta", "factorial", "gammainc", "gammaincc", "betainc"}


@pytest.mark.parametrize("name", CASES)
def test_like_jax(name):
    args = [x.astype(np.float32 if x.dtype.kind == "f" else np.int32) for x in CASES[name]]
    got, want = getattr(special, name)(*args), getattr(jax.scipy.special, name)(*args)
    assert got.dtype == want.dtype and got.weak_type == want.weak_type
    exact = getattr(scipy.special, name)(*[x.astype(np.float64) for x in args])
    # Float32 results of several roundings; either jax or the exact value may serve as the oracle.
    near = np.isclose(got, want, 2e-5, 1e-6, equal_nan=True)
    near |= np.isclose(got, exact, 2e-5, 1e-6, equal_nan=True)
    assert near.all(), (got, want, exact)


@pytest.mark.parametrize("name", CASES)
def test_double_precision(name):
    args = CASES[name]
    with tetrax.enable_x64(True):
        got = getattr(special, name)(*args)
        assert got.dtype == np.float64
    want = getattr(scipy.special, name)(*args)
    # Compositions lose a few digits to cancellation; 1e-11 keeps out float32 constants.
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", [name for name in CASES if name not in NO_DERIVATIVE])
def test_derivatives(name):
    args = [x[np.isfinite(x)] for x in CASES[name]]
    inner = {"i0": [POSITIVE], "entr": [POSITIVE], "rel_entr": [POSITIVE, POSITIVE + 1]}
    args = inner.get(name, args)
    if name in ("gamma", "gammaln", "comb", "xlogy", "xlog1py", "boxcox", "boxcox1p", "poch"):
        args = [np.array([0.7, 2.2, 3.1]), np.array([0.4, 1.3, 0.6])][: len(args)]

    def total(module):
        return lambda *xs: getattr(module, name)(*xs).sum()

    numbers = tuple(range(len(args)))
    with tetrax.enable_x64(True), jax.enable_x64(True):
        got = tetrax.grad(total(special), numbers)(*args)
        want = jax.grad(total(jax.scipy.special), numbers)(*args)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-7, atol=1e-9)


def test_tails_keep_their_digits():
    p = np.array([1e-300, 1e-100, 1e-20, 1e-8])
    with tetrax.enable_x64(True):
        np.testing.assert_allclose(special.ndtri(p), scipy.special.ndtri(p), rtol=1e-13)
        x = np.array([-1e4, -100.0, -40.0])
        np.testing.assert_allclose(special.log_ndtr(x), scipy.special.log_ndtr(x), rtol=1e-13)
        slope = tetrax.vmap(tetrax.grad(special.log_ndtr))(x)
        np.testing.assert_allclose(slope, -x, rtol=1e-3)  # the limit far in the tail
    np.testing.assert_array_equal(special.ndtri(np.float32([0, 1])), [-np.inf, np.inf])
    assert np.isnan(special.ndtri(np.float32(1.5)))


def test_several_dimensions_and_axes():
    a = np.float32([3.0, 4.5])
    np.testing.assert_allclose(
        special.multigammaln(a, 3), scipy.special.multigammaln(a, 3), rtol=1e-6
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(special.softmax(x), scipy.special.softmax(x), rtol=1e-6)
    np.testing.assert_allclose(special.log_softmax(x, axis=1), scipy.special.log_softmax(x, axis=1))
    np.testing.assert_allclose(special.logsumexp(x, axis=0), scipy.special.logsumexp(x, axis=0))
    np.testing.assert_allclose(special.bernoulli(20), scipy.special.bernoulli(20), rtol=1e-6)


def test_integers_become_floating_point():
    assert special.gammaln(3).dtype == np.float32
    assert special.ndtr(np.int32(0)) == 0.5
    with pytest.raises(TypeError, match="complex"):
        special.ndtr(1j)
