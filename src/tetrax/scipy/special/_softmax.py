"""Softmax over all axes by default, as SciPy has it."""

from __future__ import annotations

from typing import Any

from tetrax import nn
from tetrax import numpy as jnp


def softmax(x: Any, /, *, axis: Any = None) -> Any:
    """Return e^x over its sum along `axis`, by default over all axes."""
    return nn.softmax(x, _axes(x, axis))


def log_softmax(x: Any, /, *, axis: Any = None) -> Any:
    """Return the logarithm of `softmax`."""
    return nn.log_softmax(x, _axes(x, axis))


def _axes(x: Any, axis: Any) -> Any:
    return tuple(range(jnp.ndim(x))) if axis is None else axis
