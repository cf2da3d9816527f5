"""Student's t distribution."""

from __future__ import annotations

import math
from typing import Any

from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_args_inexact
from tetrax.scipy.special import gammaln


def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the logarithm of the density."""
    x, df, loc, scale = promote_args_inexact("t.logpdf", x, df, loc, scale)
    z = (x - loc) / scale
    half = 0.5 * (df + 1)
    constant = gammaln(half) - gammaln(0.5 * df) - 0.5 * jnp.log(math.pi * df) - jnp.log(scale)
    return constant - half * jnp.log1p(z * z / df)


def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Return the density."""
    return jnp.exp(logpdf(x, df, loc, scale))
