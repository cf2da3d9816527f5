"""The geometric distribution, from 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_args_inexact
from tetrax.scipy.special import xlog1py


def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """Return the logarithm of the probability of `k`."""
    k, p, loc = promote_args_inexact("geom.logpmf", k, p, loc)
    z = k - loc
    return jnp.where(z <= 0, -np.inf, xlog1py(z - 1, -p) + jnp.log(p))


def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """Return the probability of `k`."""
    return jnp.exp(logpmf(k, p, loc))
