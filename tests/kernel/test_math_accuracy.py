"""Elementary functions over the whole range of arguments: see `accuracy.py` for the references."""

from __future__ import annotations

import re

import mpmath
import pytest
from accuracy import (
    HARD_ANGLES,
    REFERENCES,
    SPECIAL,
    Long,
    errors,
    evaluate,
    exact_values,
    neighbours,
    reference,
    spread_32,
    spread_64,
    worst,
)
from ulp import evaluate as evaluate_pairs

import numpy as np
from tetrax.compiler.cpu.backend import kernel_llvm
from tetrax.ir import kernel as k

CORE = 2.0
"""What exp, log, sin, cos, tan, tanh, logistic, sqrt and erf promise."""
# units in the last place: largest errors found by the slow tests, rounded up
BOUNDS_32 = {
    "exp": 1.1,
    "exp2": 1.1,
    "expm1": 1.7,
    "log": 0.9,
    "log1p": 0.9,
    "sin": 1.6,
    "cos": 1.6,
    "tan": 0.51,
    "asin": 0.51,
    "acos": 0.51,
    "atan": CORE,
    "sinh": 0.51,
    "cosh": 0.51,
    "tanh": CORE,
    "asinh": 0.51,
    "acosh": 0.51,
    "atanh": 0.51,
    "cbrt": 0.51,
    "sqrt": 0.5,
    "rsqrt": 1.5,
    "logistic": 1.8,
    "erf": CORE,
    "erfc": 0.51,
    "erf_inv": 3.2,
}
BOUNDS_64 = {
    "exp": 1.1,
    "exp2": 1.1,
    "expm1": CORE,
    "log": 0.9,
    "log1p": 0.9,
    "sin": 0.9,
    "cos": 0.9,
    "tan": 1.1,
    "asin": 2.1,
    "acos": 1.2,
    "atan": CORE,
    "sinh": 1.8,
    "cosh": 1.6,
    "tanh": CORE,
    "asinh": 1.8,
    "acosh": 1.8,
    "atanh": CORE,
    "cbrt": 0.9,
    "sqrt": 0.51,
    "rsqrt": 1.6,
    "logistic": 1.8,
}
# by mpmath, so of fewer arguments
BOUNDS_64_SPECIAL = {"erf": 1.3, "erfc": 3.6, "erf_inv": 2.2}


@pytest.mark.parametrize("name", BOUNDS_32)
def test_f32(name):
    x = spread_32(1009)
    error, argument = worst(name, x, reference(name, x))
    assert error <= BOUNDS_32[name], argument


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDS_32)
def test_f32_densely(name):
    for start in range(16):
        x = spread_32(17 * 16, 17 * start)
        error, argument = worst(name, x, reference(name, x))
        assert error <= BOUNDS_32[name], argument


@pytest.mark.parametrize("name", BOUNDS_64)
def test_f64(name):
    x = spread_64(10_000)
    error, argument = worst(name, x, reference(name, x))
    assert error <= BOUNDS_64[name], argument


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDS_64)
def test_f64_densely(name):
    for seed in range(1, 5):
        x = spread_64(500_000, seed)
        error, argument = worst(name, x, reference(name, x))
        assert error <= BOUNDS_64[name], argument


def special_points(name: str, count: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    if name == "erf_inv":
        close = 1 - np.exp(rng.uniform(np.log(1e-16), 0, count))
        points = [rng.uniform(-1, 1, count), close, np.exp(rng.uniform(-300, 0, count))]
    else:
        points = [rng.uniform(-7, 28, count), rng.uniform(-1.5, 1.5, count)]
        points.append(np.exp(rng.uniform(-300, 0, count)))
    edges = neighbours((0.46875, 1.0, 5.92, 26.5, 27.226, 27.5), np.float64, 2)
    points = np.concatenate([*points, edges[np.isfinite(edges)]])
    return points[np.abs(points) < 1] if name == "erf_inv" else points


@pytest.mark.parametrize("name", BOUNDS_64_SPECIAL)
def test_f64_of_error_functions(name):
    x = special_points(name, 150)
    error, argument = worst(name, x, exact_values(name, x))
    assert error <= BOUNDS_64_SPECIAL[name], argument


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDS_64_SPECIAL)
def test_f64_of_error_functions_densely(name):
    x = special_points(name, 5000)
    error, argument = worst(name, x, exact_values(name, x))
    assert error <= BOUNDS_64_SPECIAL[name], argument


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*REFERENCES, *SPECIAL])
def test_scalar_code_computes_the_same(name, dtype):
    x = spread_32(4_000_037) if dtype == np.float32 else spread_64(200)
    one_at_a_time = evaluate(name, x, vector=False)
    in_vectors = evaluate(name, x)
    bits = f"u{x.itemsize}"
    same = one_at_a_time.view(bits) == in_vectors.view(bits)
    assert (same | (np.isnan(one_at_a_time) & np.isnan(in_vectors))).all()


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hard_angles(name, dtype):
    x = neighbours(HARD_ANGLES, dtype, 2)
    x = x[np.isfinite(x)]
    with mpmath.workprec(1300):
        values = [getattr(mpmath, name)(mpmath.mpf(float(v))) for v in x]
        exact = np.array([Long(float(v)) + Long(float(v - float(v))) for v in values])
    exact = np.where(exact == 0, np.copysign(0, x), exact)  # mpmath has no sign of zero
    found = errors(evaluate(name, x), exact)
    assert found.max() <= CORE, x[found.argmax()]


@pytest.mark.parametrize("name", REFERENCES)
def test_references_are_precise(name):
    x = spread_64(4)[:400]
    functions = {
        "exp2": lambda v: mpmath.mpf(2) ** v,
        "rsqrt": lambda v: 1 / mpmath.sqrt(v),
        "logistic": lambda v: 1 / (1 + mpmath.exp(-v)),
        "cbrt": lambda v: mpmath.sign(v) * mpmath.cbrt(abs(v)),
    }
    function = functions.get(name) or getattr(mpmath, name)
    with np.errstate(all="ignore"):
        wide = REFERENCES[name](x.astype(Long))
    kept = np.isfinite(wide) & (np.abs(wide) < 1e308) & (np.abs(wide) > 1e-290)
    with mpmath.workprec(1300):
        exact = [function(mpmath.mpf(float(v))) for v in x[kept]]
        # a long double is the sum of two doubles
        highs = wide[kept].astype(np.float64)
        lows = (wide[kept] - highs).astype(np.float64)
        for v, high, low, value in zip(x[kept], highs, lows, exact, strict=True):
            error = abs((mpmath.mpf(float(high)) + mpmath.mpf(float(low))) / value - 1)
            assert error < mpmath.mpf(2) ** -62, v


def test_log_gamma_of_positive_numbers():
    rng = np.random.default_rng(5)
    near = [1 + rng.normal(size=60) * 1e-3, 2 + rng.normal(size=60) * 1e-3]
    sizes = [np.exp(rng.uniform(-700, 700, 100)), np.exp(rng.uniform(-20, 7, 200))]
    x = np.concatenate([rng.uniform(0, 12, 400), *near, *sizes, [5e-324, 2.55e305]])
    with mpmath.workprec(200):
        exact = np.array([_two_doubles(mpmath.loggamma(mpmath.mpf(float(v)))) for v in x])
    found = errors(evaluate("lgamma", x), exact)
    assert found.max() <= 3, x[found.argmax()]


def test_log_gamma_of_negative_numbers_has_a_small_absolute_error():
    # it has zeros there, which no approximation keeps its relative precision beside
    rng = np.random.default_rng(6)
    x = -np.concatenate([rng.uniform(0, 30, 400), np.exp(rng.uniform(-700, 0, 100))])
    with mpmath.workprec(200):
        exact = np.array([float(mpmath.loggamma(mpmath.mpf(float(v))).real) for v in x])
    error = np.abs(evaluate("lgamma", x) - exact)
    assert (error <= 10 * 2.0**-53 * np.maximum(1, np.abs(exact))).all()


def _two_doubles(value: mpmath.mpf) -> np.longdouble:
    high = float(value)
    return Long(high) + Long(float(value - high))


# --- functions of two numbers ---


def pairs(dtype, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Random bits, common sizes, near multiples, and every pair of special values."""
    rng = np.random.default_rng(4)
    bits = rng.integers(0, 2 ** (8 * np.dtype(dtype).itemsize), (2, count), f"u{dtype().itemsize}")
    x, y = bits.view(dtype)
    info = np.finfo(dtype)
    points = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 3, info.max, info.tiny]
    points = np.array([*points, info.smallest_subnormal], dtype)
    grid = [part.ravel() for part in np.meshgrid(points, points)]
    sizes = rng.standard_normal((2, count)).astype(dtype) * np.array([[1000], [1]], dtype)
    with np.errstate(all="ignore"):
        near = [(y * dtype(7)), y], [x, x / dtype(3)]
    parts = [(x, y), sizes, *near, grid]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_are_exact(dtype):
    x, y = pairs(dtype, 20_000)
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)  # exact by definition
    actual = evaluate_pairs("rem", x, y)
    np.testing.assert_array_equal(actual, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "function", "bound"), [("atan2", np.arctan2, 2.1), ("pow", np.power, 1.3)]
)
def test_functions_of_two(name, function, bound, dtype):
    x, y = pairs(dtype, 20_000)
    if name == "pow":
        rng = np.random.default_rng(5)
        with np.errstate(all="ignore"):  # exponents with results of all sizes
            limit = np.log(float(np.finfo(dtype).max)) / np.log(np.abs(x.astype(np.float64)))
        y = np.where(rng.random(len(x)) < 0.8, limit * rng.uniform(-1.1, 1.02, len(x)), y)
        y = y.astype(dtype)
        x = np.where(rng.random(len(x)) < 0.8, np.abs(x), x)
    wide = np.float64 if dtype == np.float32 else Long
    with np.errstate(all="ignore"):
        exact = function(x.astype(wide), y.astype(wide))
    found = errors(evaluate_pairs(name, x, y), exact)
    assert found.max() <= bound, (x[found.argmax()], y[found.argmax()])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*k.TRANSCENDENTAL_UNARY, *k.TRANSCENDENTAL_BINARY, "rem"])
def test_nothing_calls_the_mathematics_library(name, dtype):
    kind = k.scalar_type(np.dtype(dtype))
    x, y = k.Buffer("x", kind, 64), k.Buffer("y", kind, 64, "out")
    i = k.index_variable("i", 64)
    loaded = k.load(x, i)
    one = name in k.TRANSCENDENTAL_UNARY
    value = k.unary(name, loaded) if one else k.binary(name, loaded, k.neg(loaded))
    text = kernel_llvm(k.Kernel("function", (x, y), (), k.loop(i, 64, k.store(y, i, value))))
    called = re.findall(r"call [^@]*@([\w.]+)\(", text)
    assert all(symbol.startswith(("llvm.", "tetrax_")) for symbol in called)
    assert "frem" not in text
