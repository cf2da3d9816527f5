"""Compiled sums of many f32 numbers are at least as right as NumPy's pairwise ones."""

from __future__ import annotations

import math

import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp

SIZE = 10_000_000
EPS = float(np.finfo(np.float32).eps)
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_long_sum_is_as_right_as_that_of_numpy(seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(SIZE, np.float32)
    exact = math.fsum(x.tolist())
    error = abs(float(tetrax.jit(jnp.sum)(x)) - exact)
    # formed in doubles: what is left is the rounding of the result
    assert error <= max(abs(float(x.sum()) - exact), EPS / 2 * abs(exact))
    assert error <= EPS / 2 * abs(exact) * 1.001
    mean = float(tetrax.jit(jnp.mean)(x))
    assert abs(mean - exact / SIZE) <= 1.001 * EPS * abs(exact / SIZE)


def test_a_sum_of_functions_is_as_right() -> None:
    x = np.random.default_rng(0).standard_normal(SIZE // 10, np.float32)
    values = tetrax.jit(jnp.exp)(x)
    exact = math.fsum(np.asarray(values).tolist())
    total = float(tetrax.jit(lambda x: jnp.sum(jnp.exp(x)))(x))
    assert abs(total - exact) <= EPS / 2 * exact * 1.001


def test_a_sum_in_doubles_keeps_its_rounding_errors() -> None:
    x = np.random.default_rng(0).standard_normal(SIZE // 10, np.float32)
    exact = math.fsum(x.tolist())
    with tetrax.enable_x64(True):
        total = float(tetrax.jit(lambda x: jnp.sum(x.astype(np.float64)))(x))
    # NumPy's pairwise sums grow by a unit every time the length doubles
    assert abs(total - exact) <= 20 * 2.0**-53 * float(np.sqrt(len(x)))


def test_a_product_of_few_rounds_once_a_factor() -> None:
    x = np.random.default_rng(0).uniform(0.5, 2, (1000, 12)).astype(np.float32)
    exact = x.astype(np.float64).prod(axis=1)
    products = np.asarray(tetrax.jit(lambda x: jnp.prod(x, axis=1))(x))
    assert (np.abs(products - exact) <= 12 * EPS / 2 * exact).all()


@pytest.mark.parametrize("size", [1000, 1_000_000])
def test_the_error_of_running_sums_is_small(size: int) -> None:
    x = np.random.default_rng(0).standard_normal(size, np.float32)
    exact = np.cumsum(x.astype(np.float64))
    found = np.abs(np.asarray(tetrax.jit(jnp.cumsum)(x)) - exact).max()
    serial = np.abs(np.cumsum(x) - exact).max()  # NumPy adds one after the other
    assert found <= serial
