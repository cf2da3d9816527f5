"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.numpy._promote import ensure_arraylike, promote_dtypes_inexact
from tetrax.scipy.special import gammaln, xlogy


def logpdf(x: Any, alpha: Any) -> Any:
    """Return the logarithm of the density; categories lie along the first axis of `x`.

    The last category may be left out: it is what the others lack to 1.
    """
    x, alpha = promote_dtypes_inexact(*ensure_arraylike("dirichlet.logpdf", x, alpha))
    if alpha.ndim != 1:
        raise ValueError(f"`alpha` must be one-dimensional; got alpha.shape={alpha.shape}")
    if x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ValueError(
            "`x` must have either the same number of entries as `alpha` or one entry fewer; "
            f"got x.shape={x.shape}, alpha.shape={alpha.shape}"
        )
    if x.shape[0] != alpha.shape[0]:
        x = jnp.concatenate([x, 1 - jnp.sum(x, axis=0, keepdims=True)])
    inside = jnp.all(x > 0, axis=0) & (jnp.abs(jnp.sum(x, axis=0) - 1) < 1e-6)
    constant = jnp.sum(gammaln(alpha)) - gammaln(jnp.sum(alpha))
    power = alpha.reshape(-1, *(1,) * (x.ndim - 1)) - 1
    return jnp.where(inside, jnp.sum(xlogy(power, x), axis=0) - constant, -np.inf)


def pdf(x: Any, alpha: Any) -> Any:
    """Return the density."""
    return jnp.exp(logpdf(x, alpha))
