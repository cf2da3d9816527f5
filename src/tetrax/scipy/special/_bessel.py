"""Bessel functions."""

from __future__ import annotations

from typing import Any

from tetrax import lax
from tetrax import numpy as jnp
from tetrax.numpy._promote import as_inexact


def i0e(x: Any) -> Any:
    """Return exp(-|x|) times the modified Bessel function of order 0."""
    return lax.bessel_i0e(as_inexact("i0e", x))


def i1e(x: Any) -> Any:
    """Return exp(-|x|) times the modified Bessel function of order 1."""
    return lax.bessel_i1e(as_inexact("i1e", x))


def i0(x: Any) -> Any:
    """Return the modified Bessel function of order 0."""
    x = as_inexact("i0", x)
    return jnp.exp(jnp.abs(x)) * lax.bessel_i0e(x)


def i1(x: Any) -> Any:
    """Return the modified Bessel function of order 1."""
    x = as_inexact("i1", x)
    return jnp.exp(jnp.abs(x)) * lax.bessel_i1e(x)
