"""Integrals of sampled functions: `tetrax.scipy.integrate`."""

from __future__ import annotations

from typing import Any

from tetrax import numpy as jnp

__all__ = ["trapezoid"]


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Return the integral along an axis by the trapezoidal rule.

    >>> float(trapezoid(jnp.array([1.0, 2.0, 3.0])))
    4.0
    """
    return jnp.trapezoid(y, x, dx, axis)
