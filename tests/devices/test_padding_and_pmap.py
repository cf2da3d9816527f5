"""`pmap` in training, with static and donated arguments; axes that devices do not divide."""

from __future__ import annotations

import functools

import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import lax


def test_training_as_on_one_device():
    """Twenty steps of data-parallel descent on four devices, and on one with all rows."""
    devices = tetrax.local_devices()[:4]
    source = np.random.default_rng(0)
    w = source.standard_normal((4, 1)).astype(np.float32)
    x = source.standard_normal((4, 8, 4)).astype(np.float32)
    y = np.sin(x.sum(-1, keepdims=True))
    loss = lambda w, x, y: ((jnp.tanh(x @ w) - y) ** 2).mean()

    @functools.partial(
        tetrax.pmap,
        axis_name="rows",
        devices=devices,
        static_broadcasted_argnums=3,
        donate_argnums=0,
    )
    def update(w, x, y, rate: float):
        value, gradient = tetrax.value_and_grad(loss)(w, x, y)
        return w - rate * lax.pmean(gradient, "rows"), lax.pmean(value, "rows")

    spread, alone = tetrax.device_put_replicated(jnp.asarray(w), devices), jnp.asarray(w)
    for _ in range(20):
        spread, value = update(spread, x, y, 0.1)
        expected, gradient = tetrax.value_and_grad(loss)(alone, x.reshape(-1, 4), y.reshape(-1, 1))
        alone = alone - 0.1 * gradient
        # float32, means of means: a few units in the last place a step.
        np.testing.assert_allclose(value, np.full(4, expected), rtol=1e-5)
    np.testing.assert_allclose(spread, np.broadcast_to(alone, (4, 4, 1)), rtol=1e-5, atol=1e-6)


def test_static_arguments_between_others():
    f = tetrax.pmap(
        lambda x, n, y: x * n + y, static_broadcasted_argnums=(1,), in_axes=(0, None, 1)
    )
    x, y = np.arange(4.0, dtype=np.float32), np.arange(8.0, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(f(x, 3, y), x[:, None] * 3 + y.T)
    np.testing.assert_array_equal(f(x, 4, y), x[:, None] * 4 + y.T)


@pytest.mark.parametrize("rows", [1, 3, 4, 10])
@pytest.mark.parametrize("split", [False, True])
def test_means_stay_exact(rows, split):
    values = np.arange(1.0, rows + 1, dtype=np.float32)
    padded, mask = tetrax.pad_to_devices({"v": values}, 4, split=split)
    assert mask.sum() == rows
    if split:
        mean = tetrax.pmap(
            lambda v, m: lax.psum((v * m).sum(), "i") / lax.psum(m.sum(), "i"), axis_name="i"
        )(padded["v"], mask)
        np.testing.assert_array_equal(mean, np.full(4, values.mean()))
    back = tetrax.unpad(padded, rows, split=split)
    np.testing.assert_array_equal(back["v"], values)


def test_padding_says_what_is_wrong():
    with pytest.raises(ValueError, match=r"whose axis 0 has one size, got \[2, 3\]"):
        tetrax.pad_to_devices([np.ones(2), np.ones(3)], 4)
    with pytest.raises(ValueError, match="a positive number of devices, got 0"):
        tetrax.pad_to_devices(np.ones(2), 0)
    with pytest.raises(ValueError, match=r"size 9 \(of x\), but there are only 8 devices.*16"):
        tetrax.pmap(lambda x: x)(np.ones(9))
