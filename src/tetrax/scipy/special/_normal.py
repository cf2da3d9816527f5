"""Error functions and the distribution function of the normal distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tetrax import lax
from tetrax import numpy as jnp
from tetrax.higher_order.custom_derivatives import custom_jvp
from tetrax.numpy._promote import as_inexact

_ROOT_HALF = math.sqrt(0.5)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)


def erf(x: Any) -> Any:
    """Return the error function."""
    return lax.erf(as_inexact("erf", x))


def erfc(x: Any) -> Any:
    """Return 1 - erf(x), with all digits where it is small."""
    return lax.erfc(as_inexact("erfc", x))


def erfinv(x: Any) -> Any:
    """Return the inverse of the error function on [-1, 1]."""
    return lax.erf_inv(as_inexact("erfinv", x))


@custom_jvp
def _erfcx(x: Any) -> Any:
    single = jnp.finfo(x.dtype).bits <= 32
    far = 5.0 if single else 12.0
    near = jnp.clip(x, -30.0, far)
    # exp(near**2), the square split so that its rounding is not blown up by the exponential.
    coarse = jnp.round(near * 16) / 16
    near_value = jnp.exp(coarse * coarse) * lax.erfc(near)
    near_value = near_value * jnp.exp((near - coarse) * (near + coarse))
    z = jnp.maximum(x, far)
    inverse = 0.5 / (z * z)
    series = jnp.ones_like(z)
    for k in range(8 if single else 12, 0, -1):
        series = 1 - (2 * k - 1) * inverse * series
    return jnp.where(x > far, series / (z * math.sqrt(math.pi)), near_value)


@_erfcx.defjvp
def _erfcx_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    value = _erfcx(x)
    return value, (2 * x * value - 2 / math.sqrt(math.pi)) * t


def erfcx(x: Any) -> Any:
    """Return exp(x**2) * erfc(x), which neither overflows nor underflows for positive x."""
    return _erfcx(as_inexact("erfcx", x))


@custom_jvp
def _ndtr(x: Any) -> Any:
    w = x * _ROOT_HALF
    z = jnp.abs(w)
    tail = 0.5 * lax.erfc(z)
    middle = 0.5 + 0.5 * lax.erf(w)
    return jnp.where(z < _ROOT_HALF, middle, jnp.where(w > 0, 1 - tail, tail))


@_ndtr.defjvp
def _ndtr_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    return _ndtr(x), jnp.exp(-0.5 * x * x - _LOG_ROOT_TWO_PI) * t


def _floating(name: str, x: Any) -> Any:
    x = as_inexact(name, x)
    if x.dtype.kind == "c":
        raise TypeError(f"{name} does not support complex numbers, got dtype {x.dtype}")
    return x


def ndtr(x: Any) -> Any:
    """Return the probability that a standard normal variable is below `x`.

    >>> float(ndtr(0.0))
    0.5
    """
    return _ndtr(_floating("ndtr", x))


@custom_jvp
def _log_ndtr(x: Any) -> Any:
    low = jnp.minimum(x, 0.0)
    tail = jnp.log(0.5 * _erfcx(-low * _ROOT_HALF)) - 0.5 * low * low
    high = jnp.log1p(-0.5 * lax.erfc(jnp.maximum(x, 0.0) * _ROOT_HALF))
    return jnp.where(x < 0, tail, high)


@_log_ndtr.defjvp
def _log_ndtr_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    low = jnp.minimum(x, 0.0)
    tail = math.sqrt(2 / math.pi) / _erfcx(-low * _ROOT_HALF)
    high = jnp.exp(-0.5 * jnp.square(jnp.maximum(x, 0.0)) - _LOG_ROOT_TWO_PI) / _ndtr(x)
    return _log_ndtr(x), jnp.where(x < 0, tail, high) * t


def log_ndtr(x: Any, series_order: int = 3) -> Any:
    """Return log(ndtr(x)), accurate far in the left tail.

    `series_order` is checked but without effect: all digits are computed.
    """
    if not isinstance(series_order, int):
        raise TypeError("series_order must be a Python integer.")
    if not 0 <= series_order <= 30:
        raise ValueError(f"series_order must be between 0 and 30, got {series_order}.")
    return _log_ndtr(_floating("log_ndtr", x))


@custom_jvp
def _ndtri(p: Any) -> Any:
    lower = p <= 0.5
    q = jnp.where(lower, p, 1 - p)  # exact: 1 - p for p in [0.5, 1]
    inside = (q > 0) & (q <= 0.5)
    safe = jnp.where(inside, q, 0.25)
    log_q = jnp.log(safe)
    # A rational start (Abramowitz and Stegun 26.2.23, error 5e-4), then Halley on log ndtr.
    r = jnp.sqrt(-2 * log_q)
    top = 2.515517 + r * (0.802853 + r * 0.010328)
    bottom = 1 + r * (1.432788 + r * (0.189269 + r * 0.001308))
    x = jnp.minimum(top / bottom - r, 0.0)
    for _ in range(2):
        slope = math.sqrt(2 / math.pi) / _erfcx(-x * _ROOT_HALF)
        error = _log_ndtr(x) - log_q
        # Second derivative of log ndtr: -slope (x + slope).
        x = x - error / slope / (1 + 0.5 * error * (x + slope) / slope)
    # Near the middle the logarithm has lost digits; erf_inv has them all.
    x = jnp.where(safe > 0.1, math.sqrt(2) * lax.erf_inv(2 * safe - 1), x)
    edge = jnp.where(q == 0, -np.inf, np.nan)
    x = jnp.where(inside, x, edge)
    return jnp.where(lower, x, -x).astype(p.dtype)


@_ndtri.defjvp
def _ndtri_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (p,), (t,) = primals, tangents
    x = _ndtri(p)
    return x, jnp.exp(0.5 * x * x + _LOG_ROOT_TWO_PI) * t


def ndtri(p: Any) -> Any:
    """Return the x below which a standard normal variable is with probability `p`."""
    return _ndtri(_floating("ndtri", p))
