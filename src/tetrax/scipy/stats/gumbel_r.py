"""The Gumbel distribution of maxima."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_args_inexact


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of the density."""
    x, loc, scale = promote_args_inexact("gumbel_r.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.where(scale > 0, -(z + jnp.exp(-z)) - jnp.log(scale), -np.inf)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the density."""
    return jnp.exp(logpdf(x, loc, scale))


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of `cdf`."""
    x, loc, scale = promote_args_inexact("gumbel_r.logcdf", x, loc, scale)
    return jnp.where(scale > 0, -jnp.exp((loc - x) / scale), -np.inf)


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the probability of a value up to `x`."""
    return jnp.exp(logcdf(x, loc, scale))


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the probability of a value above `x`."""
    x, loc, scale = promote_args_inexact("gumbel_r.sf", x, loc, scale)
    return jnp.where(scale > 0, -jnp.expm1(-jnp.exp((loc - x) / scale)), 0)


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of `sf`."""
    return jnp.log(sf(x, loc, scale))


def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the value up to which the probability is `p`."""
    p, loc, scale = promote_args_inexact("gumbel_r.ppf", p, loc, scale)
    inside = (p > 0) & (p < 1) & (scale > 0)
    safe = jnp.where(inside, p, 0.5)
    return jnp.where(inside, loc - scale * jnp.log(-jnp.log(safe)), np.nan)
