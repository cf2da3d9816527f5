"""Random bits, keys as array elements, and the generators with a state, against real JAX."""

from __future__ import annotations

import jax
import pytest

import numpy as np
import tetrax
from tetrax import lax, random
from tetrax import numpy as jnp

KINDS = ["RNG_DEFAULT", "RNG_THREE_FRY", "RNG_PHILOX"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), ()])
def test_rng_bit_generator(kind, dtype, shape):
    state = np.array([1, 2, 0xFFFFFFFF, 4], np.uint32)
    algorithm = lambda m: getattr(m.RandomAlgorithm, kind)
    draw = lambda m: lambda s: m.rng_bit_generator(s, shape, dtype, algorithm(m))
    want = draw(jax.lax)(state)
    for got in (draw(lax)(state), tetrax.jit(draw(lax))(state)):
        for x, y in zip(got, want, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("kind", KINDS)
def test_rng_bit_generator_in_64_bits(kind):
    with tetrax.enable_x64(True), jax.enable_x64(True):
        for state in (np.array([5, 2**40 + 7], np.uint64), np.array([1, 2, 3, 4], np.uint32)):
            draw = lambda m, state=state: m.rng_bit_generator(
                state, (5,), np.uint64, getattr(m.RandomAlgorithm, kind)
            )
            want = draw(jax.lax)
            for got in (draw(lax), tetrax.jit(lambda draw=draw: draw(lax))()):
                for x, y in zip(got, want, strict=True):
                    np.testing.assert_array_equal(x, y)


def test_rng_bit_generator_of_many_states():
    states = np.arange(12, dtype=np.uint32).reshape(3, 4)
    got = tetrax.vmap(lambda s: lax.rng_bit_generator(s, (3,)))(states)
    for i, state in enumerate(states):
        new, bits = lax.rng_bit_generator(state, (3,))
        np.testing.assert_array_equal(got[0][i], new)
        np.testing.assert_array_equal(got[1][i], bits)


def test_rng_uniform_stays_in_its_interval():
    x = np.asarray(lax.rng_uniform(2.0, 3.0, (1000,)))
    assert x.dtype == np.float32 and 2 <= x.min() < x.max() < 3
    y = np.asarray(tetrax.jit(lambda: lax.rng_uniform(0, 10, (1000,)))())
    assert set(y) == set(range(10))


def test_keys_are_elements_of_arrays():
    keys = random.split(random.key(0), 6)
    theirs = jax.random.split(jax.random.key(0), 6)
    cases = [
        lambda np_, k: k[2],
        lambda np_, k: k[::2],
        lambda np_, k: k.reshape(2, 3).T,
        lambda np_, k: np_.concatenate([k, k[:2]]),
        lambda np_, k: np_.where(np.arange(6) % 2 == 0, k, k[::-1]),
        lambda np_, k: np_.stack([k[0], k[1]]),
        lambda np_, k: np_.broadcast_to(k[0], (2, 2)),
        lambda np_, k: k.at[1].set(k[0]),
        lambda np_, k: k[np.array([3, 0, 0])],
    ]
    for case in cases:
        want = jax.random.key_data(case(jax.numpy, theirs))
        for got in (case(jnp, keys), tetrax.jit(lambda k, case=case: case(jnp, k))(keys)):
            np.testing.assert_array_equal(random.key_data(got), want)


def test_keys_in_loops():
    def body(key, _):
        key, subkey = random.split(key)
        return key, random.normal(subkey, (2,))

    def their_body(key, _):
        key, subkey = jax.random.split(key)
        return key, jax.random.normal(subkey, (2,))

    key, draws = lax.scan(body, random.key(3), None, length=4)
    their_key, want = jax.lax.scan(their_body, jax.random.key(3), None, length=4)
    np.testing.assert_array_equal(draws, want)
    np.testing.assert_array_equal(random.key_data(key), jax.random.key_data(their_key))


def test_keys_compare_and_wrap():
    key = random.key(5)
    assert bool(key == random.wrap_key_data(random.key_data(key)))
    assert not bool(key == random.key(6))
    with pytest.raises(TypeError):
        key + key


def test_misuse_is_explained():
    with pytest.raises(Exception, match="uint32"):
        lax.rng_bit_generator(np.zeros(3, np.uint32), (2,))
    with pytest.raises(TypeError, match="dtype"):
        lax.rng_bit_generator(np.zeros(4, np.uint32), (2,), np.int32)
