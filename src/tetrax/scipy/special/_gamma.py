"""Gamma and beta functions and what is made of them."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax import numpy as jnp
from tetrax.higher_order.custom_derivatives import custom_jvp
from tetrax.numpy._promote import as_inexact, promote_args_inexact


def gammaln(x: Any) -> Any:
    """Return the logarithm of the absolute value of the gamma function."""
    x = as_inexact("gammaln", x)
    if x.dtype.kind == "c":
        raise ValueError("gammaln does not support complex-valued inputs.")
    return lax.lgamma(x)


def loggamma(x: Any) -> Any:
    """Return the logarithm of the gamma function, nan where that is negative."""
    x = as_inexact("loggamma", x)
    if x.dtype.kind == "c":
        raise ValueError("loggamma does not support complex-valued inputs.")
    return jnp.where(gammasgn(x) > 0, lax.lgamma(x), np.nan)


def gammasgn(x: Any) -> Any:
    """Return the sign of the gamma function, nan at its negative poles."""
    x = as_inexact("gammasgn", x)
    floor = jnp.floor(x)
    odd = jnp.floor(floor / 2) * 2 != floor
    sign = jnp.where((x < 0) & odd, -1.0, 1.0)
    sign = jnp.where(x == 0, jnp.copysign(1.0, x), sign)
    pole = ((x < 0) & (x == floor)) | jnp.isnan(x)
    return jnp.where(pole, np.nan, sign).astype(x.dtype)


def gamma(x: Any) -> Any:
    """Return the gamma function."""
    x = as_inexact("gamma", x)
    return gammasgn(x) * jnp.exp(lax.lgamma(x))


def factorial(n: Any, exact: bool = False) -> Any:
    """Return n! as a floating-point number, 0 below 0."""
    if exact:
        raise NotImplementedError("factorial with exact=True")
    n = as_inexact("factorial", n)
    return jnp.where(n < 0, 0, jnp.exp(lax.lgamma(n + 1)))


def comb(N: Any, k: Any, *, repetition: bool = False) -> Any:
    """Return the number of ways to choose k of N, as a floating-point number."""
    N, k = promote_args_inexact("comb", N, k)
    if repetition:
        value = comb(N + k - 1, k)
        return jnp.where((N == 0) & (k == 0), 1, value)
    possible = (k >= 0) & (N >= 0) & (k <= N)
    safe_n, safe_k = jnp.where(possible, N, 1), jnp.where(possible, k, 0)
    value = jnp.exp(-jnp.log1p(safe_n) - betaln(safe_n - safe_k + 1, safe_k + 1))
    return jnp.where(possible, value, 0)


def _stirling_rest(z: Any) -> Any:
    """Return lgamma(z) - ((z - 1/2) log z - z + log(2 pi) / 2) for z >= 8."""
    y = 1 / (z * z)
    terms = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
    total = jnp.zeros_like(z)
    for term in reversed(terms):
        total = total * y + term
    return total / z


def betaln(a: Any, b: Any) -> Any:
    """Return the logarithm of the absolute value of the beta function."""
    a, b = promote_args_inexact("betaln", a, b)
    a, b = jnp.minimum(a, b), jnp.maximum(a, b)
    big = (b >= 8) & (a > -1)
    large = jnp.where(big, b, 8)
    small = jnp.where(big, a, 1)
    total = small + large
    # lgamma(b) - lgamma(a + b) without the cancellation of their leading parts
    difference = small * (1 - jnp.log(total)) - (large - 0.5) * jnp.log1p(small / large)
    difference = difference + _stirling_rest(large) - _stirling_rest(total)
    plain = lax.lgamma(b) - lax.lgamma(a + b)
    return lax.lgamma(a) + jnp.where(big, difference, plain)


def beta(a: Any, b: Any) -> Any:
    """Return the beta function, gamma(a) gamma(b) / gamma(a + b)."""
    a, b = promote_args_inexact("beta", a, b)
    sign = gammasgn(a) * gammasgn(b) * gammasgn(a + b)
    return sign * jnp.exp(betaln(a, b))


def betainc(a: Any, b: Any, x: Any) -> Any:
    """Return the regularized incomplete beta function."""
    return lax.betainc(*_alike("betainc", a, b, x))


def gammainc(a: Any, x: Any) -> Any:
    """Return the regularized lower incomplete gamma function."""
    return lax.igamma(*_alike("gammainc", a, x))


def gammaincc(a: Any, x: Any) -> Any:
    """Return the regularized upper incomplete gamma function."""
    return lax.igammac(*_alike("gammaincc", a, x))


def _alike(name: str, *args: Any) -> Any:
    return jnp.broadcast_arrays(*promote_args_inexact(name, *args))


def digamma(x: Any) -> Any:
    """Return the derivative of `gammaln`."""
    return lax.digamma(as_inexact("digamma", x))


def polygamma(n: Any, x: Any) -> Any:
    """Return the n-th derivative of `digamma`, for integers n."""
    if not dtypes.issubdtype(dtypes.dtype(n), np.integer):
        raise ValueError(
            f"Argument `n` to polygamma must be of integer type. Got dtype {dtypes.dtype(n)}."
        )
    return lax.polygamma(*_alike("polygamma", n, x))


def zeta(x: Any, q: Any = None) -> Any:
    """Return the Hurwitz zeta function, the sum of (k + q)**-x over k >= 0."""
    if q is None:
        raise NotImplementedError("zeta without q: pass q=1 for the Riemann zeta function.")
    return lax.zeta(*_alike("zeta", x, q))


def multigammaln(a: Any, d: Any) -> Any:
    """Return the logarithm of the gamma function of `d` dimensions."""
    d = operator.index(d)
    a = as_inexact("multigammaln", a)
    constant = d * (d - 1) / 4 * math.log(math.pi)
    halves = jnp.expand_dims(a, -1) - jnp.arange(d, dtype=a.dtype) / 2
    return jnp.sum(lax.lgamma(halves), axis=-1) + constant


@custom_jvp
def _poch(z: Any, m: Any) -> Any:
    sign = gammasgn(z + m) * gammasgn(z)
    value = sign * jnp.exp(lax.lgamma(z + m) - lax.lgamma(z))
    return jnp.where(m == 0, 1, value).astype(z.dtype)


@_poch.defjvp
def _poch_jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    (z, m), (tz, tm) = primals, tangents
    value = _poch(z, m)
    end = lax.digamma(z + m)
    return value, value * ((end - lax.digamma(z)) * tz + end * tm)


def poch(z: Any, m: Any) -> Any:
    """Return gamma(z + m) / gamma(z)."""
    return _poch(*_alike("poch", z, m))


def bernoulli(n: int) -> Any:
    """Return the Bernoulli numbers B0 to Bn.

    >>> bernoulli(2)
    Array([ 1.        , -0.5       ,  0.16666667], dtype=float32)
    """
    n = operator.index(n)
    if n < 0:
        raise ValueError("n must be a non-negative integer.")
    numbers = np.zeros(n + 1)
    numbers[:2] = (1.0, -0.5)[: n + 1]
    for k in range(2, n + 1, 2):
        zeta_value = sum(float(i) ** -k for i in range(1, 60)) if k > 8 else _EVEN_ZETA[k]
        sign = -1.0 if k % 4 == 0 else 1.0
        numbers[k] = sign * 2 * zeta_value * math.exp(math.lgamma(k + 1) - k * _LOG_TWO_PI)
    return jnp.asarray(numbers)


_LOG_TWO_PI = math.log(2 * math.pi)
_EVEN_ZETA = {
    2: math.pi**2 / 6,
    4: math.pi**4 / 90,
    6: math.pi**6 / 945,
    8: math.pi**8 / 9450,
}
