"""The Poisson distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_args_inexact
from tetrax.scipy.special import gammaincc, gammaln, xlogy


def logpmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """Return the logarithm of the probability of `k`."""
    k, mu, loc = promote_args_inexact("poisson.logpmf", k, mu, loc)
    z = k - loc
    inside = (z >= 0) & (jnp.round(z) == z)
    safe = jnp.where(inside, z, 0)
    value = xlogy(safe, mu) - gammaln(safe + 1) - mu
    return jnp.where(inside, value, -np.inf)


def pmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """Return the probability of `k`."""
    return jnp.exp(logpmf(k, mu, loc))


def cdf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """Return the probability of a value up to `k`."""
    k, mu, loc = promote_args_inexact("poisson.cdf", k, mu, loc)
    z = k - loc
    safe = jnp.floor(jnp.where(z >= 0, z, 0))
    return jnp.where(z >= 0, gammaincc(safe + 1, mu), 0)


def entropy(mu: Any, loc: Any = 0) -> Any:
    """Return the entropy in nats; an asymptotic series serves from mu = 100 on."""
    mu, _ = promote_args_inexact("poisson.entropy", mu, loc)
    small = jnp.where(mu > 100, 1, mu)
    k = jnp.arange(_TERMS, dtype=mu.dtype).reshape(_TERMS, *(1,) * jnp.ndim(mu))
    log_p = xlogy(k, small) - gammaln(k + 1) - small
    total = -jnp.sum(jnp.exp(log_p) * jnp.where(log_p > -np.inf, log_p, 0), axis=0)
    inverse = 1 / jnp.where(mu > 100, mu, 100)
    tail = inverse * (1 / 12 + inverse * (1 / 24 + inverse * (19 / 360)))
    large = 0.5 * (math.log(2 * math.pi * math.e) + jnp.log(jnp.where(mu > 100, mu, 100))) - tail
    value = jnp.where(mu > 100, large, jnp.where(mu == 0, 0, total))
    return jnp.where(mu >= 0, value, np.nan)


_TERMS = 256  # covers mu = 100 by more than 15 standard deviations
