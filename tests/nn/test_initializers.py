"""Initializers against JAX's, from the same keys."""

from __future__ import annotations

import jax
import pytest

import numpy as np
from tetrax import nn, random

FACTORIES = [
    "glorot_uniform",
    "glorot_normal",
    "lecun_uniform",
    "lecun_normal",
    "he_uniform",
    "he_normal",
    "xavier_uniform",
    "kaiming_normal",
]


def compare(make, shape, *rest, rtol=3e-6, atol=0.0):
    got = make(nn.initializers)(random.key(3), shape, *rest)
    want = make(jax.nn.initializers)(jax.random.key(3), shape, *rest)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", FACTORIES)
def test_scaled_by_fans(name):
    compare(lambda i: getattr(i, name)(), (4, 6))
    compare(lambda i: getattr(i, name)(in_axis=0, out_axis=(1, 2)), (4, 6, 3))
    # JAX keeps intermediate results of float16 in float32: some units of 1e-3 apart.
    compare(lambda i: getattr(i, name)(batch_axis=0, dtype=np.float16), (3, 4, 6), rtol=2e-2)


@pytest.mark.parametrize("mode", ["fan_in", "fan_out", "fan_avg", "fan_geo_avg"])
@pytest.mark.parametrize("distribution", ["truncated_normal", "normal", "uniform"])
def test_variance_scaling(mode, distribution):
    compare(lambda i: i.variance_scaling(1.5, mode, distribution), (4, 6))
    compare(lambda i: i.variance_scaling(1.5, mode, distribution), (4, 6), np.complex64, atol=1e-6)


def test_simple_ones():
    compare(lambda i: i.zeros, (2, 3))
    compare(lambda i: i.ones, (2, 3), np.int32)
    compare(lambda i: i.constant(2.5), (3,))
    compare(lambda i: i.normal(0.3), (7,))
    compare(lambda i: i.uniform(0.3), (7,))
    compare(lambda i: i.truncated_normal(0.3, lower=-1.0, upper=2.0), (7,))


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (2, 3, 4), (0, 4)])
def test_orthogonal(shape):
    compare(lambda i: i.orthogonal(2.0), shape, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 3, 5), (2, 3, 4, 4), (3, 1, 2, 2, 3)])
def test_delta_orthogonal(shape):
    compare(lambda i: i.delta_orthogonal(), shape, rtol=1e-4, atol=1e-5)


def test_misuse():
    key = random.key(0)
    with pytest.raises(ValueError, match="at least 2D"):
        nn.initializers.lecun_normal()(key, (3,))
    with pytest.raises(ValueError, match="invalid mode"):
        nn.initializers.variance_scaling(1.0, "fan", "normal")(key, (3, 3))
    with pytest.raises(ValueError, match="invalid distribution"):
        nn.initializers.variance_scaling(1.0, "fan_in", "cauchy")(key, (3, 3))
    with pytest.raises(ValueError, match="at least a 2D"):
        nn.initializers.orthogonal()(key, (3,))
    assert isinstance(nn.initializers.zeros, nn.initializers.Initializer)
