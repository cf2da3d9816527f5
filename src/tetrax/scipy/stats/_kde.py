"""Kernel density estimates."""

from __future__ import annotations

import math
from typing import Any

from tetrax import numpy as jnp
from tetrax import random, tree_util
from tetrax.numpy._promote import promote_dtypes_inexact
from tetrax.scipy.linalg import cho_factor, solve_triangular
from tetrax.scipy.special import logsumexp, ndtr


@tree_util.register_pytree_node_class
class gaussian_kde:
    """A density estimated from samples: one Gaussian around each.

    `dataset` has shape (dimensions, samples) or (samples,); `bw_method` is "scott" (default),
    "silverman", a number, or a function of the estimate.
    """

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        data = jnp.atleast_2d(promote_dtypes_inexact(jnp.asarray(dataset))[0])
        if data.dtype.kind == "c":
            raise NotImplementedError("gaussian_kde does not support complex data")
        if data.size < 2:
            raise ValueError("`dataset` input should have multiple elements.")
        d, n = data.shape
        if weights is None:
            shares = jnp.full(n, 1 / n, data.dtype)
        else:
            shares = jnp.asarray(weights, data.dtype)
            if shares.shape != (n,):
                raise ValueError(f"gaussian_kde: {n} samples, weights of shape {shares.shape}")
            shares = shares / jnp.sum(shares)
        self.dataset, self.weights = data, shares
        self.neff = 1 / jnp.sum(shares**2)
        factor = self._factor(bw_method, d)
        covariance = jnp.atleast_2d(jnp.cov(data, bias=False, aweights=shares))
        self.covariance = covariance * factor**2
        self.inv_cov = jnp.linalg.inv(covariance) / factor**2

    def _factor(self, bw_method: Any, d: int) -> Any:
        if callable(bw_method):
            return bw_method(self)
        if bw_method is None or bw_method == "scott":
            return jnp.power(self.neff, -1 / (d + 4))
        if isinstance(bw_method, str):
            if bw_method == "silverman":
                return jnp.power(self.neff * (d + 2) / 4, -1 / (d + 4))
            raise ValueError(f"`bw_method` should be 'scott', 'silverman' or a number: {bw_method}")
        return bw_method

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """Return the arrays."""
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> gaussian_kde:
        """Put the arrays together again."""
        kde = cls.__new__(cls)
        kde.neff, kde.dataset, kde.weights, kde.covariance, kde.inv_cov = children
        return kde

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.dataset.shape[1]

    def evaluate(self, points: Any) -> Any:
        """Return the density at points of shape (dimensions, points)."""
        return jnp.exp(self.logpdf(points))

    def __call__(self, points: Any) -> Any:
        """Return the density at points."""
        return self.evaluate(points)

    def pdf(self, x: Any) -> Any:
        """Return the density at points."""
        return self.evaluate(x)

    def logpdf(self, x: Any) -> Any:
        """Return the logarithm of the density at points."""
        points = self._points(x)
        return _log_density(self.dataset, self.weights, points, self.covariance)

    def _points(self, x: Any) -> Any:
        points = jnp.atleast_2d(jnp.asarray(x, self.dataset.dtype))
        if points.shape[0] != self.d:
            if points.shape == (1, self.d):
                return points.T
            raise ValueError(
                f"points have dimension {points.shape[0]}, dataset has dimension {self.d}"
            )
        return points

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """Return the integral of the density times a normal one."""
        mean = jnp.atleast_1d(jnp.asarray(mean)).reshape(self.d, 1)
        total = self.covariance + jnp.atleast_2d(jnp.asarray(cov))
        return jnp.exp(_log_density(self.dataset, self.weights, mean, total))[0]

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """Return the probability between two bounds, in one dimension."""
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        width = jnp.sqrt(self.covariance[0, 0])
        low, high = ((bound - self.dataset[0]) / width for bound in (low, high))
        return jnp.sum(self.weights * (ndtr(high) - ndtr(low)))

    def integrate_kde(self, other: gaussian_kde) -> Any:
        """Return the integral of the product with another estimate."""
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        total = self.covariance + other.covariance
        logs = _log_density(self.dataset, self.weights, other.dataset, total)
        return jnp.sum(jnp.exp(logs) * other.weights)

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """Draw samples, of shape (dimensions, *shape)."""
        choice, noise = random.split(key)
        chosen = random.choice(choice, self.n, shape=shape, p=self.weights)
        zero = jnp.zeros(self.d, self.dataset.dtype)
        moved = random.multivariate_normal(noise, zero, self.covariance, shape=shape)
        return self.dataset[:, chosen] + jnp.moveaxis(moved, -1, 0)

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Any:
        """Not available."""
        raise NotImplementedError("only 1D box integrations are supported; use `integrate_box_1d`")

    def set_bandwidth(self, bw_method: Any = None) -> Any:
        """Not available."""
        raise NotImplementedError("dynamically changing the bandwidth method is not supported")


def _log_density(samples: Any, weights: Any, points: Any, covariance: Any) -> Any:
    """Return the log density at `points` of Gaussians around `samples`."""
    factor, _ = cho_factor(covariance, lower=True)
    whiten = solve_triangular(factor, samples, lower=True)
    placed = solve_triangular(factor, points, lower=True)
    squared = jnp.sum((whiten[:, :, None] - placed[:, None, :]) ** 2, axis=0)
    constant = 0.5 * samples.shape[0] * math.log(2 * math.pi)
    constant = constant + jnp.sum(jnp.log(jnp.diag(factor)))
    return logsumexp(-0.5 * squared, axis=0, b=weights[:, None]) - constant
