"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_args_inexact
from tetrax.scipy.special import gammaln, xlog1py, xlogy


def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """Return the logarithm of the probability of `k`."""
    k, n, p, loc = promote_args_inexact("nbinom.logpmf", k, n, p, loc)
    z = k - loc
    inside = z >= 0
    safe = jnp.where(inside, z, 0)
    choose = gammaln(safe + n) - gammaln(safe + 1) - gammaln(n)
    value = choose + xlogy(n, p) + xlog1py(safe, -p)
    return jnp.where(inside, value, -np.inf)


def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """Return the probability of `k`."""
    return jnp.exp(logpmf(k, n, p, loc))
