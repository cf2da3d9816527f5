"""Values and derivatives where the direct formula fails, against NumPy, mpmath or mathematics."""

from __future__ import annotations

import mpmath
import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import errors

EPS = float(np.finfo(np.float32).eps)


# ------------------------------------------------------------------------------ special points


def test_sinc_has_every_derivative_at_zero():
    derivative = jnp.sinc
    # Even derivatives of sin(z)/z at 0 are (-1)^k / (2k + 1); each brings a factor pi.
    expected = [1.0, 0.0, -(np.pi**2) / 3, 0.0, np.pi**4 / 5]
    for value in expected:
        np.testing.assert_allclose(derivative(0.0), value, rtol=8 * EPS, atol=1e-6)
        derivative = tetrax.grad(derivative)


@pytest.mark.parametrize("x", [1e-6, 1e-3, 0.1, 0.159, 0.16, 0.5, 1.3, 7.25])
def test_sinc_and_its_slope(x):
    x = float(np.float32(x))
    z = mpmath.pi * x
    value = mpmath.sin(z) / z
    slope = (mpmath.cos(z) - value) / x
    np.testing.assert_allclose(jnp.sinc(x), float(value), rtol=8 * EPS, atol=4 * EPS)
    # The quotient form loses a digit near |z| = 1/2 by cancellation, no more.
    np.testing.assert_allclose(tetrax.grad(jnp.sinc)(x), float(slope), rtol=3e-6, atol=4e-6)


def test_logaddexp_at_infinity():
    inf = np.inf
    cases = [(-inf, -inf), (inf, inf), (inf, -inf), (-inf, 1.0), (1000.0, 1000.0), (3.0, -5.0)]
    for x, y in cases:
        np.testing.assert_allclose(jnp.logaddexp(x, y), np.logaddexp(x, y), rtol=4 * EPS)
    gradient = tetrax.grad(jnp.logaddexp, argnums=(0, 1))
    assert gradient(-inf, 1.0) == (0, 1)
    np.testing.assert_allclose(gradient(1000.0, 1000.0), (0.5, 0.5), rtol=4 * EPS)
    np.testing.assert_allclose(gradient(inf, inf), (0.5, 0.5))
    second = tetrax.grad(tetrax.grad(jnp.logaddexp))
    np.testing.assert_allclose(second(3.0, 3.0), 0.25, rtol=4 * EPS)


def test_hypot_neither_overflows_nor_underflows():
    for x, y in [(3e38, 1e38), (1e-30, 2e-30), (0.0, 0.0), (np.inf, np.nan), (-3.0, 4.0)]:
        expected = np.hypot(np.float32(x), np.float32(y))
        np.testing.assert_allclose(jnp.hypot(x, y), expected, rtol=4 * EPS)


def test_norm_is_flat_at_zero():
    np.testing.assert_array_equal(tetrax.grad(jnp.linalg.norm)(jnp.zeros(3)), np.zeros(3))
    gradient = tetrax.grad(lambda x: jnp.linalg.norm(x, axis=-1).sum())(
        jnp.array([[0.0, 0], [3, 4]])
    )
    np.testing.assert_allclose(gradient, [[0, 0], [0.6, 0.8]], rtol=4 * EPS)


def test_where_keeps_a_dangerous_branch_out():
    def root(x):
        safe = jnp.where(x > 0, x, 1.0)
        return jnp.where(x > 0, jnp.sqrt(safe), 0.0).sum()

    np.testing.assert_allclose(tetrax.grad(root)(jnp.array([0.0, 4.0])), [0, 0.25])


def test_variance_of_numbers_far_from_zero():
    x = np.float32(10000) + np.linspace(0, 1, 64, dtype=np.float32)
    exact = np.var(x.astype(np.float64))
    # Two passes: the error is that of the squares of small distances, not of large numbers.
    np.testing.assert_allclose(jnp.var(x), exact, rtol=1e-5)


def test_frexp_and_ldexp_are_inverse_and_exact():
    x = np.array([0.0, 1e-40, -1e-45, 1.5, 3e38, -7.25, np.inf, -np.inf, np.nan], np.float32)
    mantissa, exponent = jnp.frexp(x)
    expected, powers = np.frexp(x)
    np.testing.assert_array_equal(mantissa, expected)
    finite = np.isfinite(x)
    np.testing.assert_array_equal(np.asarray(exponent)[finite], powers[finite])
    np.testing.assert_array_equal(jnp.ldexp(mantissa, exponent), x)
    np.testing.assert_array_equal(
        jnp.ldexp(jnp.float32([1, 1, 1e-30, 1e30]), jnp.array([-140, 200, 120, -250])),
        np.ldexp(np.float32([1, 1, 1e-30, 1e30]), np.array([-140, 200, 120, -250])),
    )


def test_division_by_zero():
    x = np.float32([1, -1, 0])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(jnp.floor_divide(x, 0.0), np.floor_divide(x, np.float32(0)))
    np.testing.assert_array_equal(jnp.remainder(jnp.array([5, -5]), 0), [0, 0])


def test_bool_sums_count():
    mask = np.array([True, True, False])
    assert jnp.sum(mask) == 2 and jnp.sum(mask).dtype == np.int32
    assert jnp.mean(mask) == np.float32(2 / 3)


# ------------------------------------------------------------------------------ 64 bits


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


@pytest.mark.parametrize(
    "name",
    [
        *("exp", "log1p", "sin", "tanh", "sqrt", "cbrt", "arcsinh", "exp2", "expm1", "sinc"),
        *(
            "sum",
            "mean",
            "var",
            "std",
            "max",
            "median",
            "cumsum",
            "ptp",
            "nanstd",
            "gradient",
            "diff",
        ),
        *("sort", "argsort", "unique", "flip", "ravel", "tril", "cov", "corrcoef"),
    ],
)
def test_double_precision(name):
    x = np.abs(numbers(5)) if name in ("log1p", "sqrt") else numbers(5)
    if name in ("tril", "cov", "corrcoef"):
        x = numbers(3, 4)
    with tetrax.enable_x64(True):
        got = getattr(jnp, name)(jnp.asarray(x))
    expected = getattr(np, name)(x)
    assert got.dtype == expected.dtype
    # A few roundings of double precision.
    np.testing.assert_allclose(got, expected, rtol=1e-14, atol=1e-15)


# ------------------------------------------------------------------------------ dtype objects


def test_dtype_objects_are_dtypes_and_constructors():
    assert jnp.float32 == np.float32 and jnp.float32 == np.dtype("float32")
    assert np.dtype(jnp.bfloat16).name == "bfloat16"
    assert jnp.int8(3).dtype == np.int8
    assert jnp.bool is jnp.bool_ and jnp.int_ is jnp.int64
    assert isinstance(np.float32(1), jnp.float32) and not isinstance(jnp.ones(1), jnp.float32)
    assert {jnp.float32: 1}[np.float32] == 1
    assert jnp.issubdtype(jnp.bfloat16, jnp.floating)
    with pytest.raises(OverflowError, match="300"):
        jnp.int8(300)


def test_ndarray_is_the_class_of_arrays_and_tracers():
    seen = []
    tetrax.jit(lambda x: seen.append(isinstance(x, jnp.ndarray)) or x)(jnp.ones(2))
    assert seen == [True] and isinstance(jnp.ones(2), jnp.ndarray)
    assert not isinstance(np.ones(2), jnp.ndarray)


# ------------------------------------------------------------------------------ transformations


def test_functions_stage_and_map():
    x = numbers(3, 4).astype(np.float32)
    functions = [
        jnp.sort,
        jnp.median,
        jnp.var,
        lambda v: jnp.unique(v, size=5),
        lambda v: jnp.histogram(v, 4)[0],
        lambda v: jnp.interp(v, jnp.arange(3.0), jnp.arange(3.0) ** 2),
        lambda v: jnp.nonzero(v > 0, size=6, fill_value=-1),
        lambda v: jnp.pad(v, 2, "reflect"),
        lambda v: jnp.roll(v, v.astype(int)[0]),
        lambda v: v.at[0].add(v[1]),
        lambda v: jnp.polyval(v, 0.5),
        lambda v: jnp.einsum("i,j->ij", v, v),
    ]
    x = jnp.asarray(x)
    for function in functions:
        plain = [function(row) for row in x]
        staged = tetrax.jit(function)(x[0])
        mapped = tetrax.vmap(function)(x)
        for expected, got in zip(
            tetrax.tree.leaves(plain[0]), tetrax.tree.leaves(staged), strict=True
        ):
            np.testing.assert_allclose(got, expected, rtol=16 * EPS, atol=EPS)
        for leaf, parts in zip(
            tetrax.tree.leaves(mapped),
            zip(*(tetrax.tree.leaves(row) for row in plain), strict=True),
            strict=True,
        ):
            np.testing.assert_allclose(leaf, np.stack(parts), rtol=16 * EPS, atol=4 * EPS)


def test_concrete_only_functions_say_what_to_do():
    for function in (jnp.nonzero, jnp.unique, jnp.flatnonzero, jnp.argwhere):
        with pytest.raises(errors.ConcretizationTypeError, match="size"):
            tetrax.jit(function)(jnp.ones(3))
    with pytest.raises(errors.ConcretizationTypeError, match="length"):
        tetrax.jit(jnp.bincount)(jnp.arange(3))
    with pytest.raises(errors.ConcretizationTypeError, match="arange"):
        tetrax.jit(jnp.arange)(3)


def test_rank_promotion_can_be_refused():
    with tetrax.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="rank_promotion"):
        jnp.ones((2, 3)) + jnp.ones(3)
    with tetrax.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="rank promotion"):
        jnp.ones((2, 3)) + jnp.ones(3)


def test_strict_dtype_promotion():
    with tetrax.numpy_dtype_promotion("strict"):
        assert (jnp.float32(1) + 1.0).dtype == np.float32
        with pytest.raises(errors.TypePromotionError):
            jnp.float32(1) + jnp.int32(1)


@pytest.mark.parametrize("name", ["power", "floor_divide", "remainder", "fmod", "left_shift"])
def test_booleans_count_as_int32_in_64_bits_too(name):
    b = np.array([True, True])
    with tetrax.enable_x64(True):
        assert getattr(jnp, name)(b, b).dtype == np.int32
        assert jnp.power(jnp.asarray(b), 2).dtype == np.int32


def test_integers_round_and_turn_into_floats_of_default_width():
    with tetrax.enable_x64(True):
        for function in (jnp.rint, jnp.angle):
            assert function(np.array([1, 2], np.int8)).dtype == np.float64
