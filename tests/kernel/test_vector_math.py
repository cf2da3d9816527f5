"""Elementary functions: precision against mpmath (bounds in ulp.py), and their special values."""

from __future__ import annotations

import pytest
import scipy.special
from accuracy import REFERENCES
from ulp import RANGES, evaluate, worst_error

import numpy as np

CASES = [
    pytest.param(name, dtype, draws, bound, id=f"{name}-{np.dtype(dtype).name}-{at}")
    for dtype, functions in RANGES.items()
    for name, cases in functions.items()
    for at, (draws, bound) in enumerate(cases)
]


@pytest.mark.parametrize(("name", "dtype", "draws", "bound"), CASES)
def test_error_stays_within_its_bound(name, dtype, draws, bound):
    error, arguments = worst_error(name, dtype, draws, 150)
    assert error <= bound, f"{error} units in the last place at {arguments}"


# functions and what gives their special values
ORACLES = {
    **{name: exact for name, exact in REFERENCES.items() if name != "sqrt"},
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "erf_inv": lambda x: np.copysign(scipy.special.erfinv(x), x),
    "logistic": scipy.special.expit,
    "lgamma": scipy.special.gammaln,
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, -1.5]


def edges(dtype):
    info = np.finfo(dtype)
    tiny = [info.smallest_subnormal, info.smallest_normal, info.max, info.eps]
    return np.array([*SPECIAL, *tiny, *(-np.array(tiny))], dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ORACLES)
def test_special_values(name, dtype):
    x = edges(dtype)
    with np.errstate(all="ignore"):
        expected = ORACLES[name](x)
    if name == "lgamma":  # gammaln says +inf where the real axis ends, and so do we
        expected = np.where(x == -np.inf, np.inf, expected)
        if dtype == np.float64:  # SciPy overflows at the smallest denormal, where it is -log(x)
            expected = np.where(np.abs(x) == 5e-324, 744.4400719213812, expected)
    actual = evaluate(name, x)
    # four units in the last place: the loosest bound of ulp.py; SciPy's own error is below one
    np.testing.assert_allclose(actual, expected, rtol=4 * np.finfo(dtype).eps)
    signs = (expected == 0) | np.isinf(expected)
    np.testing.assert_array_equal(np.signbit(actual[signs]), np.signbit(expected[signs]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "oracle"), [("pow", np.power), ("atan2", np.arctan2)])
def test_special_pairs(name, oracle, dtype):
    points = np.append(edges(dtype), np.array([3.0, -3.0, 1e9, 2.0**53, 1e-3], dtype))
    x, y = (grid.ravel() for grid in np.meshgrid(points, points))
    with np.errstate(all="ignore"):
        expected = oracle(x, y)
    actual = evaluate(name, x, y)
    np.testing.assert_allclose(
        actual, expected, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).smallest_subnormal
    )
    signs = (expected == 0) | np.isinf(expected)
    np.testing.assert_array_equal(np.signbit(actual[signs]), np.signbit(expected[signs]))


def test_digamma_special_values():
    x = np.array([0.0, -0.0, -1.0, -2.0, np.inf, np.nan, 1.0, 1.4616321449683623])
    expected = [np.nan, np.nan, np.nan, np.nan, np.inf, np.nan, -np.euler_gamma, 0.0]
    # at the root of digamma the error is absolute
    np.testing.assert_allclose(evaluate("digamma", x), expected, rtol=1e-15, atol=1e-15)
