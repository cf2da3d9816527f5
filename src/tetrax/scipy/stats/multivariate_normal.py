"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

from tetrax import lax
from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_dtypes_inexact


def logpdf(x: Any, mean: Any, cov: Any, allow_singular: Any = None) -> Any:
    """Return the logarithm of the density; the variables lie along the last axis of `x`."""
    if allow_singular is not None:
        raise NotImplementedError("allow_singular argument of multivariate_normal.logpdf")
    x, mean, cov = promote_dtypes_inexact(x, mean, cov)
    if mean.ndim == 0:
        return -0.5 * jnp.square(x - mean) / cov - 0.5 * (jnp.log(2 * math.pi) + jnp.log(cov))
    size = mean.shape[-1]
    if cov.ndim == 0:
        offset = x - mean
        total = jnp.sum(jnp.square(offset) / cov, axis=-1)
        return -0.5 * total - 0.5 * size * (math.log(2 * math.pi) + jnp.log(cov))
    if cov.ndim < 2 or cov.shape[-2:] != (size, size):
        raise ValueError(
            f"multivariate_normal.logpdf got incompatible shapes: mean {mean.shape}, "
            f"cov {cov.shape}"
        )
    factor = jnp.linalg.cholesky(cov)
    offset = x - mean
    outer = jnp.broadcast_shapes(offset.shape[:-1], factor.shape[:-2])
    offset = jnp.broadcast_to(offset, (*outer, size))
    factor = jnp.broadcast_to(factor, (*outer, size, size))
    y = lax.linalg.triangular_solve(factor, offset[..., None], left_side=True, lower=True)[..., 0]
    diagonal = jnp.diagonal(factor, axis1=-2, axis2=-1)
    constant = 0.5 * size * math.log(2 * math.pi) + jnp.sum(jnp.log(diagonal), axis=-1)
    return -0.5 * jnp.sum(y * y, axis=-1) - constant


def pdf(x: Any, mean: Any, cov: Any) -> Any:
    """Return the density."""
    return jnp.exp(logpdf(x, mean, cov))
