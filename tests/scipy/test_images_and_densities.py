"""Resized images and kernel density estimates against jax."""

from __future__ import annotations

import jax
import jax.image
import jax.scipy.stats
import pytest

import numpy as np
import tetrax
from tetrax import image, random
from tetrax.scipy import stats

IMAGE = np.random.default_rng(0).normal(size=(5, 7, 2)).astype(np.float32)
METHODS = ["nearest", "linear", "lanczos3", "lanczos5", "cubic", "bicubic-pytorch", "area"]


@pytest.mark.parametrize("method", METHODS)
def test_resize(method):
    for shape, antialias in (((3, 9, 2), True), ((3, 9, 2), False), ((8, 4, 2), False)):
        got = image.resize(IMAGE, shape, method, antialias=antialias)
        want = jax.image.resize(IMAGE, shape, method, antialias=antialias)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_scale_and_translate():
    scale, translation = np.float32([1.2, 0.7]), np.float32([0.3, -1])
    rest = ((6, 6, 2), (0, 1), scale, translation, "cubic")
    want = jax.image.scale_and_translate(IMAGE, *rest)
    np.testing.assert_allclose(image.scale_and_translate(IMAGE, *rest), want, 1e-5, 1e-5)
    with pytest.raises(ValueError, match="resize method"):
        image.resize(IMAGE, (5, 7, 2), "nonsense")


@pytest.mark.parametrize("bandwidth", [None, "silverman", 0.4])
def test_density_estimates(bandwidth):
    data = IMAGE[:, :, 0].reshape(-1)[:30].reshape(2, 15)
    weights = np.arange(1, 16).astype(np.float32)
    ours = stats.gaussian_kde(data, bandwidth, weights)
    theirs = jax.scipy.stats.gaussian_kde(data, bandwidth, weights)
    close = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(ours.pdf(data[:, :4]), theirs.pdf(data[:, :4]), **close)
    np.testing.assert_allclose(ours.integrate_kde(ours), theirs.integrate_kde(theirs), **close)
    got = tetrax.jit(lambda kde, x: kde.logpdf(x))(ours, data[:, :3])
    np.testing.assert_allclose(got, theirs.logpdf(data[:, :3]), **close)
    mean, covariance = np.zeros(2, np.float32), np.eye(2, dtype=np.float32)
    got = ours.integrate_gaussian(mean, covariance)
    np.testing.assert_allclose(got, theirs.integrate_gaussian(mean, covariance), **close)
    got = ours.resample(random.key(0), (4,))
    np.testing.assert_allclose(got, theirs.resample(jax.random.key(0), (4,)), **close)
    line, mirror = stats.gaussian_kde(data[0]), jax.scipy.stats.gaussian_kde(data[0])
    got = line.integrate_box_1d(-0.5, 1.0)
    np.testing.assert_allclose(got, mirror.integrate_box_1d(-0.5, 1.0), **close)
