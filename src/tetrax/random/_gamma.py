"""The gamma distribution and what is made of it."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from tetrax import errors, lax
from tetrax import numpy as jnp
from tetrax.random._arguments import (
    as_shape,
    check_castable,
    check_shape,
    float_dtype,
    parameter,
    shape_of,
)
from tetrax.random._continuous import draw_exponential
from tetrax.random._gamma_rule import random_gamma_p
from tetrax.random._keys import check_key, subkeys
from tetrax.random._normal import draw_normal
from tetrax.random._uniform import rademacher
from tetrax.tracing.trace import concrete_or_error


def gamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Gamma samples with shape parameter `a` and scale 1; differentiable in `a`."""
    return _gamma_samples("gamma", key, a, shape, dtype, log_space=False)


def loggamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Logarithms of gamma samples, which for small `a` are too small for floats."""
    return _gamma_samples("loggamma", key, a, shape, dtype, log_space=True)


def _gamma_samples(name: str, key: Any, a: Any, shape: Any, dtype: Any, log_space: bool) -> Any:
    typed, _ = check_key(name, key)
    dtype = float_dtype("gamma", dtype)
    shape = shape_of("gamma", shape, a)
    return random_gamma_p.bind(typed, parameter(a, dtype, shape), log_space=log_space)


def beta(
    key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Beta samples with parameters `a` and `b`."""
    typed, _ = check_key("beta", key)
    dtype = float_dtype("beta", dtype)
    check_castable("beta", dtype, a, b)
    shape = shape_of("beta", shape, a, b)
    a, b = parameter(a, dtype, shape), parameter(b, dtype, shape)
    a_key, b_key = subkeys(typed)
    log_x, log_y = loggamma(a_key, a, shape, dtype), loggamma(b_key, b, shape, dtype)
    # x / (x + y) without underflow of both
    larger = lax.max(log_x, log_y)
    x, y = lax.exp(log_x - larger), lax.exp(log_y - larger)
    return x / (x + y)


def dirichlet(
    key: Any, alpha: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Dirichlet samples with concentrations `alpha` (…, n): vectors that sum to 1."""
    typed, _ = check_key("dirichlet", key)
    dtype = float_dtype("dirichlet", dtype)
    if np.ndim(alpha) < 1:
        raise ValueError("dirichlet requires alpha.ndim >= 1, got alpha.ndim == 0")
    alpha = lax.convert_element_type(alpha, dtype)
    if shape is None:
        shape = alpha.shape[:-1]
    else:
        shape = as_shape(shape)
        check_shape("dirichlet", shape, alpha.shape[:-1])
    logarithms = loggamma(typed, alpha, (*shape, alpha.shape[-1]), dtype)
    top = lax.stop_gradient(jnp.max(logarithms, -1, keepdims=True))
    samples = jnp.exp(logarithms - top)
    return samples / jnp.sum(samples, -1, keepdims=True)


def t(key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Student's t samples with `df` degrees of freedom."""
    typed, _ = check_key("t", key)
    dtype = float_dtype("t", dtype)
    shape = shape_of("t", shape, df)
    check_castable("t", dtype, df)
    half = parameter(df, dtype, shape) / 2
    normal_key, gamma_key = subkeys(typed)
    return draw_normal(normal_key, shape, dtype) * jnp.sqrt(
        half / gamma(gamma_key, half, shape, dtype)
    )


def chisquare(
    key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Chi-square samples with `df` degrees of freedom."""
    typed, _ = check_key("chisquare", key)
    dtype = float_dtype("chisquare", dtype)
    shape = shape_of("chisquare", shape, df)
    check_castable("chisquare", dtype, df)
    half = parameter(df, dtype, shape) / 2
    return lax.exp(loggamma(typed, half, shape, dtype)) * 2


def f(
    key: Any,
    dfnum: Any,
    dfden: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """F samples with `dfnum` and `dfden` degrees of freedom."""
    typed, _ = check_key("f", key)
    dtype = float_dtype("f", dtype)
    shape = shape_of("f", shape, dfnum, dfden)
    check_castable("f", dtype, dfnum, dfden)
    numerator, denominator = (parameter(x, dtype, shape) for x in (dfnum, dfden))
    denominator_key, numerator_key = subkeys(typed)
    above = chisquare(numerator_key, numerator, shape, dtype) / numerator
    return above / (chisquare(denominator_key, denominator, shape, dtype) / denominator)


def generalized_normal(
    key: Any, p: float, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Samples with density proportional to e^(-|x|^p)."""
    typed, _ = check_key("generalized_normal", key)
    dtype, shape = float_dtype("generalized_normal", dtype), as_shape(shape)
    gamma_key, sign_key = subkeys(typed)
    lengths = gamma(gamma_key, 1 / p, shape, dtype)
    return rademacher(sign_key, shape, dtype) * lengths ** (1 / p)


def ball(
    key: Any,
    d: int,
    p: float = 2,
    shape: Any = (),
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Points uniform in the unit ball of the `p`-norm in `d` dimensions: shape + (d,)."""
    typed, _ = check_key("ball", key)
    dtype, shape = float_dtype("ball", dtype), as_shape(shape)
    what = "The error occurred in random.ball()"
    d = operator.index(concrete_or_error(d, errors.TracerIntegerConversionError, what))
    direction_key, radius_key = subkeys(typed)
    directions = generalized_normal(direction_key, p, (*shape, d), dtype)
    radii = draw_exponential(radius_key, shape, dtype)
    norms = (jnp.sum(jnp.abs(directions) ** p, -1) + radii) ** (1 / p)
    return directions / norms[..., None]


__all__ = [
    "ball",
    "beta",
    "chisquare",
    "dirichlet",
    "f",
    "gamma",
    "generalized_normal",
    "loggamma",
    "t",
]
