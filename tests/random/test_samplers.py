"""Samples against JAX's: bits, integers and uniforms exactly, normal ones within 2 ULP."""

from __future__ import annotations

import jax
import jax.numpy
import pytest
from tests.random.streams import near, same

import numpy as np
import tetrax
from tetrax import random

SHAPES = [(), (0,), (3, 5), (5000,)]
FLOATS = ["float32", "float16", "bfloat16"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", None])
def test_bits(shape, dtype):
    same(lambda r, key: r.bits(key, shape, dtype))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform(shape, dtype):
    same(lambda r, key: r.uniform(key, shape, dtype))


@pytest.mark.parametrize("bounds", [(-1.3, 2.9), (0.1, 0.7), (2, 5), (3.0, 1.0)])
@pytest.mark.parametrize("shape", [(33,), (5000,)])
def test_uniform_between_bounds_is_rounded_as_in_jax(shape, bounds):
    same(lambda r, key: r.uniform(key, shape, minval=bounds[0], maxval=bounds[1]))


def test_uniform_with_array_bounds():
    low = np.linspace(-3, 2, 5, dtype=np.float32)
    same(lambda r, key: r.uniform(key, (4, 5), minval=low, maxval=2.5))


def test_64_bits():
    with tetrax.enable_x64(True), jax.enable_x64(True):
        same(lambda r, key: r.bits(key, (9,)))
        same(lambda r, key: r.uniform(key, (9,)))
        same(lambda r, key: r.uniform(key, (500,), minval=-0.3, maxval=1.1))
        same(lambda r, key: r.randint(key, (50,), -(10**12), 10**15))
        same(lambda r, key: r.permutation(key, 20))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", None])
@pytest.mark.parametrize("bounds", [(0, 10), (5, 5), (0, 127), (0, 128)])
def test_randint(dtype, bounds):
    same(lambda r, key: r.randint(key, (3, 11), *bounds, dtype))


@pytest.mark.parametrize("bounds", [(-100, 2**31 - 1), (-(2**31), 2**31 - 1)])
def test_randint_over_the_whole_range(bounds):
    same(lambda r, key: r.randint(key, (50,), *bounds))


def test_randint_with_array_bounds():
    low = np.arange(-2, 3, dtype=np.int32)
    same(lambda r, key: r.randint(key, (6, 5), low, 2.9))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_normal(shape, dtype):
    same(lambda r, key: r.normal(key, shape, dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_normal_in_narrow_floats(dtype):
    near(lambda r, key: r.normal(key, (64,), dtype))


def test_normal_in_double_precision():
    with tetrax.enable_x64(True), jax.enable_x64(True):
        # JAX's own erf_inv is off by some hundred ULP here, so digits are compared.
        near(lambda r, key: r.normal(key, (500,)), ulp=2000)


@pytest.mark.parametrize("bounds", [(-1.0, 2.0), (0.5, 0.6), (-10.0, 10.0)])
def test_truncated_normal(bounds):
    near(lambda r, key: r.truncated_normal(key, *bounds, (50,)), ulp=16)


@pytest.mark.parametrize("mode", ["low", "high"])
def test_bernoulli(mode):
    same(lambda r, key: r.bernoulli(key))
    same(lambda r, key: r.bernoulli(key, 0.3, (6, 5), mode=mode))
    p = np.linspace(0, 1, 5, dtype=np.float32)
    same(lambda r, key: r.bernoulli(key, p, (4, 5), mode))
    same(lambda r, key: r.bernoulli(key, p, mode=mode))


@pytest.mark.parametrize("dtype", ["int32", "float32", None])
def test_rademacher(dtype):
    same(lambda r, key: r.rademacher(key, (9,), dtype))


@pytest.mark.parametrize("mode", ["low", "high", "highest"])
def test_gumbel(mode):
    same(lambda r, key: r.gumbel(key, (200,), mode=mode))


@pytest.mark.parametrize("axis", [-1, 0])
def test_categorical(axis):
    logits = np.random.default_rng(0).normal(size=(4, 5, 6)).astype(np.float32)
    rest = tuple(np.delete(logits.shape, axis))
    same(lambda r, key: r.categorical(key, logits, axis))
    same(lambda r, key: r.categorical(key, logits, axis, (3, *rest)))
    same(lambda r, key: r.categorical(key, logits, axis, (3, *rest), replace=False))
    same(lambda r, key: r.categorical(key, logits, axis, mode="high"))


def test_categorical_of_a_vector():
    same(lambda r, key: r.categorical(key, np.zeros(9, np.float32)))
    same(lambda r, key: r.categorical(key, np.zeros(9, np.float32), shape=(20,)))


@pytest.mark.parametrize("x", [0, 1, 7, 300, np.arange(12.0).reshape(4, 3)])
def test_permutation(x):
    if not np.ndim(x):
        same(lambda r, key: r.permutation(key, x))
        return
    x = x.astype(np.float32)
    for axis in (0, 1, -1):
        same(lambda r, key, axis=axis: r.permutation(key, x, axis))
        same(lambda r, key, axis=axis: r.permutation(key, x, axis, independent=True))


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("with_p", [True, False])
def test_choice(replace, with_p):
    p = np.array([0.1, 0.2, 0.0, 0.4, 0.25, 0.05], np.float32) if with_p else None
    table = np.arange(36.0, dtype=np.float32).reshape(6, 6)
    same(lambda r, key: r.choice(key, 6, (), replace, p))
    same(lambda r, key: r.choice(key, 6, (2, 2), replace, p))
    for axis in (0, 1):
        same(lambda r, key, axis=axis: r.choice(key, table, (2, 2), replace, p, axis))


def test_keys_of_both_kinds_give_the_same_samples():
    for typed in (True, False):
        same(lambda r, key: r.uniform(key, (4,)), typed=typed)
        same(lambda r, key: r.key_data(r.split(key, (2, 3))), typed=typed)
        same(lambda r, key: r.key_data(r.fold_in(key, 12345)), typed=typed)
        same(lambda r, key: r.key_data(r.clone(key)), typed=typed)


def test_original_layout():
    with tetrax.threefry_partitionable(False), jax.threefry_partitionable(False):
        for dtype in ("uint8", "uint16", "uint32"):
            same(lambda r, key, dtype=dtype: r.bits(key, (7,), dtype))
        same(lambda r, key: r.key_data(r.split(key, 3)))
        same(lambda r, key: r.permutation(key, 30))


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1, 2**31, 2**32 + 5, -3])
def test_seeds(seed):
    np.testing.assert_array_equal(random.PRNGKey(seed), jax.random.PRNGKey(seed))
    data = random.key_data(random.key(seed))
    np.testing.assert_array_equal(data, jax.random.key_data(jax.random.key(seed)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32"])
def test_seeds_of_other_types(dtype):
    seed = np.array(-1 if dtype[0] == "i" else 200, dtype)
    np.testing.assert_array_equal(random.PRNGKey(seed), jax.random.PRNGKey(seed))


def test_vmap_gives_each_key_its_own_samples():
    for case in (
        lambda r, k: r.normal(k, (3,)),
        lambda r, k: r.randint(k, (3,), 0, 9),
        lambda r, k: r.permutation(k, 5),
        lambda r, k: r.key_data(r.split(k)),
        lambda r, k: r.categorical(k, np.zeros(5, np.float32)),
    ):
        keys, theirs = random.split(random.key(1), 4), jax.random.split(jax.random.key(1), 4)
        want = jax.vmap(lambda k, case=case: case(jax.random, k))(theirs)
        got = tetrax.vmap(lambda k, case=case: case(random, k))(keys)
        np.testing.assert_allclose(got, want, rtol=3e-7)


def test_uniform_is_differentiable_in_its_bounds():
    def spread(r, key, low, high):
        return r.uniform(key, (8,), minval=low, maxval=high).sum()

    want = jax.grad(lambda a, b: spread(jax.random, jax.random.key(0), a, b), (0, 1))(0.5, 2.0)
    got = tetrax.grad(lambda a, b: spread(random, random.key(0), a, b), (0, 1))(0.5, 2.0)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda k: random.uniform(k, dtype=np.int32), ValueError, "float dtype"),
        (lambda k: random.normal(k, dtype=np.int32), ValueError, "float or complex"),
        (lambda k: random.bits(k, dtype=np.int32), ValueError, "unsigned"),
        (lambda k: random.randint(k, (2,), 0, 3, np.float32), TypeError, "integer dtypes"),
        (lambda k: random.uniform(0), TypeError, "PRNG key"),
        (lambda k: random.uniform(np.zeros(3, np.uint32)), TypeError, "key data"),
        (lambda k: random.uniform(random.split(k)), ValueError, "single key"),
        (lambda k: random.bernoulli(k, 1), TypeError, "floating"),
        (lambda k: random.bernoulli(k, np.ones(3, np.float32), (2,)), ValueError, "hape"),
        (lambda k: random.key(1.5), TypeError, "integer"),
        (lambda k: random.key(k), TypeError, "PRNG key"),
        (lambda k: random.key(0, impl="nonsense"), ValueError, "unrecognized"),
        (lambda k: random.choice(k, 3, (5,), replace=False), ValueError, "larger sample"),
        (lambda k: random.choice(k, 0, (5,)), ValueError, "greater than 0"),
        (lambda k: random.choice(k, 3, p=np.ones(2, np.float32)), ValueError, "same size"),
        (lambda k: random.permutation(k, 2.5), TypeError, "integer"),
        (lambda k: random.fold_in(k, np.arange(2)), TypeError, "scalar"),
        (lambda k: random.gumbel(k, mode="x"), ValueError, "mode"),
    ],
)
def test_misuse_is_explained(call, error, words):
    with pytest.raises(error, match=words):
        call(random.key(0))
