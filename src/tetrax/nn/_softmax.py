"""Sums of exponentials, softmax and standardization, with masks."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from tetrax import lax
from tetrax import numpy as jnp
from tetrax.higher_order.custom_derivatives import custom_jvp
from tetrax.nn._arguments import as_array, as_inexact, check_arrays


def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """log of the sum of b e^a over `axis`, without overflow.

    With `return_sign`, the logarithm of the absolute value and the sign. A sum of nothing but
    e^-inf is -inf, with gradient 0: it does not change with what the infinities were made of.

    >>> bool(logsumexp(np.array([1000.0, 1000.0], np.float32)) > 1000)
    True
    """
    check_arrays("logsumexp", a)
    if where is not None:
        a = jnp.where(where, a, 0)
    if b is not None:
        a, b = (as_inexact("logsumexp", x) for x in (a, b))
        a, b = _promoted(a, b)
        a = jnp.where(b != 0, a, -np.inf)
    else:
        a = as_inexact("logsumexp", a)
    top = jnp.max(jnp.real(a), axis=axis, keepdims=True, where=where, initial=-np.inf)
    nothing = top == -np.inf
    top = lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0))
    exponentials = jnp.exp(a - top.astype(a.dtype))
    if b is not None:
        exponentials = exponentials * b
    total = jnp.sum(exponentials, axis=axis, keepdims=True, where=where)
    sign = lax.sign(total)
    if return_sign or not jnp.iscomplexobj(a):
        total = jnp.abs(total)
    safe = jnp.where(nothing, 1, total)
    out = jnp.where(nothing, -np.inf, jnp.log(safe) + top.astype(safe.dtype))
    if not return_sign and b is not None and not jnp.iscomplexobj(out):
        out = jnp.where(sign < 0, np.nan, out)
    if not keepdims:
        out, sign = (_without_axes(x, a.ndim, axis) for x in (out, sign))
    return (out, sign) if return_sign else out


def _promoted(a: Any, b: Any) -> tuple[Any, Any]:
    dtype = jnp.result_type(a, b)
    return jnp.broadcast_arrays(a.astype(dtype), b.astype(dtype))


def _without_axes(x: Any, rank: int, axis: Any) -> Any:
    axes = range(rank) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    return jnp.squeeze(x, tuple(axes))


def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False) -> Any:
    """log of the mean of e^x over `axis`."""
    total = logsumexp(x, axis=axis, where=where, keepdims=keepdims)
    if where is None:
        counted = jnp.ones_like(x, dtype=total.dtype)
    else:
        counted = jnp.broadcast_to(where, jnp.shape(x)).astype(total.dtype)
    return total - jnp.log(jnp.sum(counted, axis=axis, keepdims=keepdims))


def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """log of `softmax`, precise where that is nearly 0; -inf where masked."""
    x = as_array("log_softmax", x)
    top = jnp.max(x, axis, where=where, initial=-np.inf, keepdims=True)
    kept = x if where is None else jnp.where(where, x, -np.inf)
    shifted = kept - lax.stop_gradient(top)
    total = jnp.sum(jnp.exp(shifted), axis, where=where, keepdims=True)
    result = shifted - jnp.log(total)
    return result if where is None else jnp.where(where, result, -np.inf)


def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """e^x over its sum along `axis` (one or several); 0 where masked.

    >>> softmax(np.array([0.0, 0.0], np.float32))
    Array([0.5, 0.5], dtype=float32)
    """
    check_arrays("softmax", x)
    axis = tuple(axis) if isinstance(axis, list) else axis
    return _softmax(x, axis, where)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _softmax(x: Any, axis: Any, where: Any) -> Any:
    top = jnp.max(x, axis, where=where, initial=-np.inf, keepdims=True)
    kept = x if where is None else jnp.where(where, x, -np.inf)
    exponentials = jnp.exp(kept - top)
    result = exponentials / jnp.sum(exponentials, axis, where=where, keepdims=True)
    return result if where is None else jnp.where(where, result, 0)


@_softmax.defjvp
def _softmax_jvp(axis: Any, primals: Any, tangents: Any) -> Any:
    # y (t - <y, t>): fewer operations than the quotient rule, and no cancellation of large terms.
    x, where = primals
    t = tangents[0]
    y = _softmax(x, axis, where)
    return y, y * (t - jnp.sum(y * t, axis, where=where, keepdims=True))


def standardize(
    x: Any,
    axis: Any = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
    *,
    algorithm: str = "fast",
) -> Any:
    """(x - mean) / sqrt(variance + epsilon), with both taken over `axis` unless given.

    The variance is the mean square minus the square of the mean ("fast", and then cut at 0) or the
    mean squared difference ("stable").
    """
    check_arrays("standardize", x)
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        variance = _variance(x, axis, mean, where, algorithm)
    return jnp.subtract(x, mean) * lax.rsqrt(variance + epsilon)


def _variance(x: Any, axis: Any, mean: Any, where: Any, algorithm: str) -> Any:
    if algorithm == "stable":
        return jnp.mean(jnp.square(jnp.subtract(x, mean)), axis, keepdims=True, where=where)
    if algorithm == "fast":
        squares = jnp.mean(jnp.square(x), axis, keepdims=True, where=where)
        return jnp.clip(squares - jnp.square(mean), 0)
    raise ValueError(f"Unknown algorithm '{algorithm}'. Expected 'fast' or 'stable'.")
