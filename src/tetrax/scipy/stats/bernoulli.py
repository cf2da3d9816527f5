"""The Bernoulli distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_args_inexact
from tetrax.scipy.special import xlog1py, xlogy


def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """Return the logarithm of the probability of `k`."""
    k, p, loc = promote_args_inexact("bernoulli.logpmf", k, p, loc)
    z = k - loc
    inside = (z == 0) | (z == 1)
    value = xlogy(z, p) + xlog1py(1 - z, -p)
    return jnp.where(inside, value, -np.inf)


def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """Return the probability of `k`."""
    return jnp.exp(logpmf(k, p, loc))


def cdf(k: Any, p: Any) -> Any:
    """Return the probability of a value up to `k`."""
    k, p = promote_args_inexact("bernoulli.cdf", k, p)
    valid = (p >= 0) & (p <= 1)
    value = jnp.where(k < 0, 0, jnp.where(k < 1, 1 - p, 1))
    return jnp.where(valid, value, np.nan)


def ppf(q: Any, p: Any) -> Any:
    """Return the value up to which the probability is `q`."""
    q, p = promote_args_inexact("bernoulli.ppf", q, p)
    valid = (p >= 0) & (p <= 1) & (q >= 0) & (q <= 1)
    value = jnp.where(q <= 1 - p, 0, 1).astype(q.dtype)
    return jnp.where(valid, value, np.nan)
