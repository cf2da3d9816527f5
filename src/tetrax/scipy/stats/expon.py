"""The exponential distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_args_inexact


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of the density."""
    x, loc, scale = promote_args_inexact("expon.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.where(x < loc, -np.inf, -z - jnp.log(scale))


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the density."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the probability of a value up to `x`."""
    x, loc, scale = promote_args_inexact("expon.cdf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.where(x < loc, 0, -jnp.expm1(-z))


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of `cdf`."""
    x, loc, scale = promote_args_inexact("expon.logcdf", x, loc, scale)
    z = (x - loc) / scale
    safe = jnp.where(x > loc, z, 1)
    return jnp.where(x > loc, jnp.log(-jnp.expm1(-safe)), -np.inf)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the probability of a value above `x`."""
    x, loc, scale = promote_args_inexact("expon.sf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.where(x < loc, 1, jnp.exp(-z))


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of `sf`."""
    x, loc, scale = promote_args_inexact("expon.logsf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.where(x < loc, 0, -z)


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the value up to which the probability is `q`."""
    q, loc, scale = promote_args_inexact("expon.ppf", q, loc, scale)
    inside = (q >= 0) & (q <= 1)
    return jnp.where(inside, loc - scale * jnp.log1p(-q), np.nan)
