"""Logarithmic and logistic functions, entropies."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import lax
from tetrax import numpy as jnp
from tetrax.higher_order.custom_derivatives import custom_jvp
from tetrax.numpy._promote import as_inexact, promote_args_inexact


@custom_jvp
def _logit(x: Any) -> Any:
    return jnp.log(x / (1 - x))


@_logit.defjvp
def _logit_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    return _logit(x), t / (x * (1 - x))


def logit(x: Any) -> Any:
    """Return log(x / (1 - x)), the inverse of `expit`."""
    return _logit(as_inexact("logit", x))


def expit(x: Any) -> Any:
    """Return the logistic function 1 / (1 + exp(-x)).

    >>> float(expit(0.0))
    0.5
    """
    return lax.logistic(as_inexact("expit", x))


@custom_jvp
def _xlogy(x: Any, y: Any) -> Any:
    zero = x == 0
    return jnp.where(zero, jnp.zeros_like(x * y), x * jnp.log(jnp.where(zero, 1, y)))


@_xlogy.defjvp
def _xlogy_jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    (x, y), (tx, ty) = primals, tangents
    value = _xlogy(x, y)
    return value, (tx * jnp.log(y) + ty * x / y).astype(value.dtype)


def xlogy(x: Any, y: Any) -> Any:
    """Return x log(y), 0 where x is 0."""
    return _xlogy(*promote_args_inexact("xlogy", x, y))


@custom_jvp
def _xlog1py(x: Any, y: Any) -> Any:
    zero = x == 0
    return jnp.where(zero, jnp.zeros_like(x * y), x * jnp.log1p(jnp.where(zero, 0, y)))


@_xlog1py.defjvp
def _xlog1py_jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    (x, y), (tx, ty) = primals, tangents
    value = _xlog1py(x, y)
    return value, (tx * jnp.log1p(y) + ty * x / (1 + y)).astype(value.dtype)


def xlog1py(x: Any, y: Any) -> Any:
    """Return x log(1 + y), 0 where x is 0."""
    return _xlog1py(*promote_args_inexact("xlog1py", x, y))


@custom_jvp
def _xlogx(x: Any) -> Any:
    return _xlogy(x, x)


@_xlogx.defjvp
def _xlogx_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    return _xlogx(x), t * (jnp.log(x) + 1)


def entr(x: Any) -> Any:
    """Return the entropy -x log(x), 0 at 0, -inf below."""
    x = as_inexact("entr", x)
    return jnp.where(x < 0, jnp.full_like(x, -np.inf), -_xlogx(x))


def rel_entr(p: Any, q: Any) -> Any:
    """Return p log(p / q), 0 where p is 0, inf where either is negative or q alone is 0."""
    p, q = promote_args_inexact("rel_entr", p, q)
    both = (p > 0) & (q > 0)
    zero = (p == 0) & (q >= 0)
    safe_p, safe_q = jnp.where(both, p, 1), jnp.where(both, q, 1)
    value = safe_p * (jnp.log(safe_p) - jnp.log(safe_q))
    return jnp.where(both, value, jnp.where(zero, 0, np.inf).astype(value.dtype))


def kl_div(p: Any, q: Any) -> Any:
    """Return p log(p / q) - p + q."""
    p, q = promote_args_inexact("kl_div", p, q)
    return rel_entr(p, q) - p + q


def boxcox(x: Any, lmbda: Any) -> Any:
    """Return (x**lmbda - 1) / lmbda, and log(x) where lmbda is 0."""
    x, lmbda = promote_args_inexact("boxcox", x, lmbda)
    zero = lmbda == 0
    safe = jnp.where(zero, 1, lmbda)
    return jnp.where(zero, jnp.log(x), jnp.expm1(safe * jnp.log(x)) / safe)


def boxcox1p(x: Any, lmbda: Any) -> Any:
    """Return ((1 + x)**lmbda - 1) / lmbda, and log(1 + x) where lmbda is 0."""
    x, lmbda = promote_args_inexact("boxcox1p", x, lmbda)
    zero = lmbda == 0
    safe = jnp.where(zero, 1, lmbda)
    return jnp.where(zero, jnp.log1p(x), jnp.expm1(safe * jnp.log1p(x)) / safe)
