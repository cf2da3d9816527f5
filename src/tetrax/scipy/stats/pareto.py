"""The Pareto distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_args_inexact


def logpdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of the density."""
    x, b, loc, scale = promote_args_inexact("pareto.logpdf", x, b, loc, scale)
    z = (x - loc) / scale
    inside = z >= 1
    safe = jnp.where(inside, z, 1)
    value = jnp.log(b) - (b + 1) * jnp.log(safe) - jnp.log(scale)
    return jnp.where(inside, value, -np.inf)


def pdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the density."""
    return jnp.exp(logpdf(x, b, loc, scale))


def cdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the probability of a value up to `x`."""
    x, b, loc, scale = promote_args_inexact("pareto.cdf", x, b, loc, scale)
    z = (x - loc) / scale
    inside = z >= 1
    safe = jnp.where(inside, z, 1)
    return jnp.where(inside, -jnp.expm1(-b * jnp.log(safe)), 0)


def logcdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of `cdf`."""
    x, b, loc, scale = promote_args_inexact("pareto.logcdf", x, b, loc, scale)
    z = (x - loc) / scale
    inside = z > 1
    safe = jnp.where(inside, z, 2)
    return jnp.where(inside, jnp.log(-jnp.expm1(-b * jnp.log(safe))), -np.inf)


def sf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the probability of a value above `x`."""
    x, b, loc, scale = promote_args_inexact("pareto.sf", x, b, loc, scale)
    z = (x - loc) / scale
    inside = z >= 1
    safe = jnp.where(inside, z, 1)
    return jnp.where(inside, jnp.exp(-b * jnp.log(safe)), 1)


def logsf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of `sf`."""
    x, b, loc, scale = promote_args_inexact("pareto.logsf", x, b, loc, scale)
    z = (x - loc) / scale
    inside = z >= 1
    safe = jnp.where(inside, z, 1)
    return jnp.where(inside, -b * jnp.log(safe), 0)


def ppf(q: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the value up to which the probability is `q`."""
    q, b, loc, scale = promote_args_inexact("pareto.ppf", q, b, loc, scale)
    inside = (q >= 0) & (q <= 1)
    value = loc + scale * jnp.exp(-jnp.log1p(-q) / b)
    return jnp.where(inside, value, np.nan)
