"""The chi-squared distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_args_inexact
from tetrax.scipy.special import gammainc, gammaincc, gammaln, xlogy


def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of the density."""
    x, df, loc, scale = promote_args_inexact("chi2.logpdf", x, df, loc, scale)
    z = (x - loc) / scale
    inside = x >= loc
    safe = jnp.where(inside, z, 1)
    half = 0.5 * df
    value = xlogy(half - 1, safe) - 0.5 * safe - gammaln(half) - math.log(2) * half - jnp.log(scale)
    return jnp.where(inside, value, -np.inf)


def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the density."""
    return jnp.exp(logpdf(x, df, loc, scale))


def cdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the probability of a value up to `x`."""
    x, df, loc, scale = promote_args_inexact("chi2.cdf", x, df, loc, scale)
    return gammainc(0.5 * df, jnp.clip(0.5 * (x - loc) / scale, 0))


def logcdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of `cdf`."""
    return jnp.log(cdf(x, df, loc, scale))


def sf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the probability of a value above `x`."""
    x, df, loc, scale = promote_args_inexact("chi2.sf", x, df, loc, scale)
    return gammaincc(0.5 * df, jnp.clip(0.5 * (x - loc) / scale, 0))


def logsf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of `sf`."""
    return jnp.log(sf(x, df, loc, scale))
