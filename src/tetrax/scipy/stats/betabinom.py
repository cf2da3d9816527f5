"""The beta-binomial distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_args_inexact
from tetrax.scipy.special import betaln


def logpmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
    """Return the logarithm of the probability of `k`."""
    k, n, a, b, loc = promote_args_inexact("betabinom.logpmf", k, n, a, b, loc)
    z = jnp.floor(k) - loc
    inside = (z >= 0) & (z <= n)
    safe = jnp.where(inside, z, 0)
    choose = -jnp.log1p(n) - betaln(n - safe + 1, safe + 1)
    value = choose + betaln(safe + a, n - safe + b) - betaln(a, b)
    value = jnp.where(inside, value, -np.inf)
    return jnp.where((n >= 0) & (a > 0) & (b > 0), value, np.nan)


def pmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
    """Return the probability of `k`."""
    return jnp.exp(logpmf(k, n, a, b, loc))
