"""The von Mises distribution."""

from __future__ import annotations

import math
from typing import Any

from tetrax import lax
from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_args_inexact


def logpdf(x: Any, kappa: Any) -> Any:
    """Return the logarithm of the density."""
    x, kappa = promote_args_inexact("vonmises.logpdf", x, kappa)
    return kappa * (jnp.cos(x) - 1) - jnp.log(2 * math.pi * lax.bessel_i0e(kappa))


def pdf(x: Any, kappa: Any) -> Any:
    """Return the density."""
    return jnp.exp(logpdf(x, kappa))
