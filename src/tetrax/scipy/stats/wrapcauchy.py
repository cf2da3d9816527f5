"""The wrapped Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_args_inexact


def logpdf(x: Any, c: Any) -> Any:
    """Return the logarithm of the density."""
    x, c = promote_args_inexact("wrapcauchy.logpdf", x, c)
    inside = (x >= 0) & (x <= 2 * math.pi) & (c > 0) & (c < 1)
    safe = jnp.where(inside, c, 0.5)
    value = jnp.log1p(-safe * safe) - jnp.log(
        2 * math.pi * (1 + safe * safe - 2 * safe * jnp.cos(x))
    )
    return jnp.where(inside, value, -np.inf)


def pdf(x: Any, c: Any) -> Any:
    """Return the density."""
    return jnp.exp(logpdf(x, c))
