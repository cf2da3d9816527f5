"""The normal distribution on [a, b] (in units of `scale` from `loc`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_args_inexact
from tetrax.scipy.special import log_ndtr


def _log_difference(high: Any, low: Any) -> Any:
    """Return log(exp(high) - exp(low)) for high >= low."""
    gap = jnp.minimum(low - high, 0)
    safe = jnp.where(low > -np.inf, gap, -1)
    return high + jnp.where(low > -np.inf, jnp.log(-jnp.expm1(safe)), 0)


def _log_mass(a: Any, b: Any) -> Any:
    """Return the logarithm of the normal probability of [a, b], seen from the nearer tail."""
    flip = a > 0
    low, high = jnp.where(flip, -b, a), jnp.where(flip, -a, b)
    return _log_difference(log_ndtr(high), log_ndtr(low))


def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of the density."""
    x, a, b, loc, scale = promote_args_inexact("truncnorm.logpdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    normal = -0.5 * (z * z + math.log(2 * math.pi))
    value = normal - jnp.log(scale) - _log_mass(a, b)
    value = jnp.where((z < a) | (z > b), -np.inf, value)
    return jnp.where(a >= b, np.nan, value)


def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the density."""
    return jnp.exp(logpdf(x, a, b, loc, scale))


def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of `cdf`."""
    x, a, b, loc, scale = promote_args_inexact("truncnorm.logcdf", x, a, b, loc, scale)
    z = jnp.clip((x - loc) / scale, a, b)
    value = _log_mass(a, z) - _log_mass(a, b)
    value = jnp.where(z <= a, -np.inf, jnp.where(z >= b, 0, value))
    return jnp.where(a >= b, np.nan, value)


def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the probability of a value up to `x`."""
    return jnp.exp(logcdf(x, a, b, loc, scale))


def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of `sf`."""
    x, a, b, loc, scale = promote_args_inexact("truncnorm.logsf", x, a, b, loc, scale)
    z = jnp.clip((x - loc) / scale, a, b)
    value = _log_mass(z, b) - _log_mass(a, b)
    value = jnp.where(z <= a, 0, jnp.where(z >= b, -np.inf, value))
    return jnp.where(a >= b, np.nan, value)


def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the probability of a value above `x`."""
    return jnp.exp(logsf(x, a, b, loc, scale))
