"""Exponential integrals."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import lax
from tetrax import numpy as jnp
from tetrax.higher_order.custom_derivatives import custom_jvp
from tetrax.numpy._promote import as_inexact


def _power_series(x: Any, terms: int) -> Any:
    """Return the sum of x**k / (k k!) from k = 1."""

    def step(k: Any, carry: Any) -> Any:
        total, power = carry
        n = k.astype(x.dtype)
        power = power * x / n
        return total + power / n, power

    start = (jnp.zeros_like(x), jnp.ones_like(x))
    return lax.fori_loop(np.int32(1), np.int32(terms), step, start)[0]


@custom_jvp
def _exp1(x: Any) -> Any:
    near = jnp.clip(x, 0.0, 2.0)
    small = -np.euler_gamma - jnp.log(near) - _power_series(-near, 40)
    far = jnp.maximum(x, 2.0)
    terms = np.int32(60)

    def step(i: Any, tail: Any) -> Any:
        k = (terms - i).astype(x.dtype)
        return far + (2 * k - 1) - k * k / tail

    tail = lax.fori_loop(np.int32(0), terms, step, far + 2.0 * 60 + 1)
    large = jnp.exp(-far) / tail
    value = jnp.where(x <= 2, small, jnp.where(x == np.inf, 0, large))
    return jnp.where(x < 0, np.nan, value)


@_exp1.defjvp
def _exp1_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    return _exp1(x), -jnp.exp(-x) / x * t


def exp1(x: Any) -> Any:
    """Return the integral of exp(-t) / t from x to infinity, for positive x."""
    return _exp1(as_inexact("exp1", x))


@custom_jvp
def _expi(x: Any) -> Any:
    near = jnp.clip(x, 0.0, 40.0)
    small = np.euler_gamma + jnp.log(near) + _power_series(near, 170)
    far = jnp.maximum(x, 40.0)
    series = jnp.ones_like(far)
    for k in range(30, 0, -1):
        series = 1 + k / far * series
    large = jnp.exp(far) / far * series
    positive = jnp.where(x <= 40, small, jnp.where(x == np.inf, np.inf, large))
    return jnp.where(x < 0, -_exp1(jnp.abs(x)), positive)


@_expi.defjvp
def _expi_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    return _expi(x), jnp.exp(x) / x * t


def expi(x: Any) -> Any:
    """Return the principal value of the integral of exp(t) / t from -infinity to x."""
    return _expi(as_inexact("expi", x))
