"""Samples that need matrix decompositions."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from tetrax import dtypes, errors, lax
from tetrax import numpy as jnp
from tetrax.random._arguments import as_shape, check_shape, float_dtype, sampler
from tetrax.random._keys import check_key
from tetrax.random._normal import draw_normal
from tetrax.tracing.trace import concrete_or_error

_METHODS = ("svd", "eigh", "cholesky")


def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Any = None,
    dtype: Any = None,
    method: str = "cholesky",
    *,
    out_sharding: Any = None,
) -> Any:
    """Normal vectors of the given mean (…, n) and covariance (…, n, n); result shape + (n,).

    `method` names the factorization of the covariance: for singular ones "svd" or "eigh".
    """
    typed, _ = check_key("multivariate_normal", key)
    if method not in _METHODS:
        raise ValueError("method must be one of {'svd', 'eigh', 'cholesky'}")
    mean, cov = jnp.asarray(mean), jnp.asarray(cov)
    common = dtypes.to_inexact_dtype(jnp.result_type(mean, cov))
    mean, cov = mean.astype(common), cov.astype(common)
    dtype = float_dtype("multivariate_normal", mean.dtype if dtype is None else dtype)
    if mean.ndim < 1:
        raise ValueError("multivariate_normal requires mean.ndim >= 1, got mean.ndim == 0")
    if cov.ndim < 2:
        raise ValueError(f"multivariate_normal requires cov.ndim >= 2, got cov.ndim == {cov.ndim}")
    size = mean.shape[-1]
    if cov.shape[-2:] != (size, size):
        raise ValueError(
            f"multivariate_normal requires cov.shape == (..., n, n) for n={size}, but got "
            f"cov.shape == {cov.shape}."
        )
    if shape is None:
        shape = tuple(lax.broadcast_shapes(mean.shape[:-1], cov.shape[:-2]))
    else:
        shape = as_shape(shape)
        check_shape("normal", shape, mean.shape[:-1], cov.shape[:-2])
    return _multivariate_normal(typed, mean, cov, shape=shape, dtype=dtype, method=method)


@sampler()
def _multivariate_normal(
    key: Any, mean: Any, cov: Any, *, shape: tuple[int, ...], dtype: Any, method: str
) -> Any:
    if method == "svd":
        u, s, _ = jnp.linalg.svd(cov)
        factor = u * jnp.sqrt(s[..., None, :])
    elif method == "eigh":
        values, vectors = jnp.linalg.eigh(cov)
        factor = vectors * jnp.sqrt(values[..., None, :])
    else:
        factor = jnp.linalg.cholesky(cov)
    samples = draw_normal(key, (*shape, mean.shape[-1]), dtype)
    return mean + jnp.einsum("...ij,...j->...i", factor, samples)


def orthogonal(
    key: Any,
    n: int,
    shape: Any = (),
    dtype: Any = None,
    m: int | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Orthogonal (unitary, for a complex dtype) matrices, uniform over all of them.

    Shape shape + (n, m), with m = n by default; rows or columns are orthonormal, whichever fit.
    """
    shape = as_shape(shape)
    typed, _ = check_key("orthogonal", key)
    dtype = float_dtype("orthogonal", dtype, np.inexact)
    n, m = (_concrete_int(size) for size in (n, n if m is None else m))
    return _orthogonal(typed, shape=shape, dtype=dtype, n=n, m=m)


@sampler()
def _orthogonal(key: Any, *, shape: tuple[int, ...], dtype: Any, n: int, m: int) -> Any:
    """The orthogonal factor of a normal matrix, with signs that make it uniform (Mezzadri 2006)."""
    q, r = jnp.linalg.qr(draw_normal(key, (*shape, max(n, m), min(n, m)), dtype))
    signs = jnp.sign(jnp.diagonal(r, axis1=-2, axis2=-1))
    q = q * signs[..., None, :]
    return jnp.swapaxes(q, -1, -2) if n < m else q


def _concrete_int(x: Any) -> int:
    what = "The error occurred in random.orthogonal()"
    return operator.index(concrete_or_error(x, errors.TracerIntegerConversionError, what))
