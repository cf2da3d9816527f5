"""The multinomial distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_args_inexact
from tetrax.scipy.special import gammaln, xlogy


def logpmf(x: Any, n: Any, p: Any) -> Any:
    """Return the logarithm of the probability of the counts `x`, -inf unless they sum to n."""
    x, n, p = promote_args_inexact("multinomial.logpmf", x, n, p)
    value = gammaln(n + 1) + jnp.sum(xlogy(x, p) - gammaln(x + 1), axis=-1)
    return jnp.where(jnp.sum(x) == n, value, -np.inf)


def pmf(x: Any, n: Any, p: Any) -> Any:
    """Return the probability of the counts `x`."""
    return jnp.exp(logpmf(x, n, p))
