"""Continuous distributions that are a function of one or two uniform samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax import numpy as jnp
from tetrax.ops.sampling_math import sampling_log, sampling_log1p
from tetrax.random._arguments import (
    as_shape,
    check_castable,
    float_dtype,
    parameter,
    sampler,
    shape_of,
)
from tetrax.random._keys import check_key
from tetrax.random._uniform import draw_uniform


def exponential(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Exponential samples of mean 1."""
    typed, _ = check_key("exponential", key)
    return draw_exponential(typed, as_shape(shape), float_dtype("exponential", dtype))


@sampler(exact=True)
def _exponential(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    # u is in [0, 1), so the logarithm is finite.
    return lax.neg(sampling_log1p(lax.neg(draw_uniform(key, shape, dtype))))


def draw_exponential(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """`exponential` of a typed key."""
    return _exponential(key, shape=shape, dtype=dtype)


def laplace(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Standard Laplace samples."""
    typed, _ = check_key("laplace", key)
    return _laplace(typed, shape=as_shape(shape), dtype=float_dtype("laplace", dtype))


@sampler(exact=True)
def _laplace(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    lowest = -1.0 + float(dtypes.finfo(dtype).epsneg)
    u = draw_uniform(key, shape, dtype, lowest, 1.0)
    return lax.mul(lax.sign(u), sampling_log1p(lax.neg(lax.abs(u))))


def logistic(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Standard logistic samples."""
    typed, _ = check_key("logistic", key)
    return _logistic(typed, shape=as_shape(shape), dtype=float_dtype("logistic", dtype))


@sampler(exact=True)
def _logistic(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    u = draw_uniform(key, shape, dtype, float(dtypes.finfo(dtype).tiny), 1.0)
    return lax.sub(sampling_log(u), sampling_log1p(lax.neg(u)))


def cauchy(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Standard Cauchy samples."""
    typed, _ = check_key("cauchy", key)
    return _cauchy(typed, shape=as_shape(shape), dtype=float_dtype("cauchy", dtype))


@sampler()
def _cauchy(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    u = draw_uniform(key, shape, dtype, float(dtypes.finfo(dtype).eps), 1.0)
    return lax.tan(lax.mul(lax.sub(u, 0.5), np.asarray(math.pi, dtype)))


def pareto(
    key: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Pareto samples with shape parameter `b` and scale 1."""
    typed, _ = check_key("pareto", key)
    dtype = float_dtype("pareto", dtype)
    shape = shape_of("pareto", shape, b)
    check_castable("pareto", dtype, b)
    return _pareto(typed, b, shape=shape, dtype=dtype)


@sampler()
def _pareto(key: Any, b: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    return lax.exp(draw_exponential(key, shape, dtype) / parameter(b, dtype, shape))


def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None
) -> Any:
    """Weibull samples with the given scale and concentration; these broadcast against `shape`."""
    typed, _ = check_key("weibull_min", key)
    dtype = float_dtype("weibull_min", dtype)
    return _weibull_min(typed, scale, concentration, shape=as_shape(shape), dtype=dtype)


@sampler()
def _weibull_min(
    key: Any, scale: Any, concentration: Any, *, shape: tuple[int, ...], dtype: Any
) -> Any:
    u = draw_uniform(key, shape, dtype)
    return jnp.power(-sampling_log1p(-u), 1.0 / concentration) * scale


def triangular(
    key: Any,
    left: Any,
    mode: Any,
    right: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Samples from [left, right] with a density that rises to `mode` and falls from there."""
    typed, _ = check_key("triangular", key)
    dtype = float_dtype("triangular", dtype)
    shape = shape_of("triangular", shape, left, mode, right)
    check_castable("triangular", dtype, left, mode, right)
    return _triangular(typed, left, mode, right, shape=shape, dtype=dtype)


@sampler()
def _triangular(
    key: Any, left: Any, mode: Any, right: Any, *, shape: tuple[int, ...], dtype: Any
) -> Any:
    left, mode, right = (parameter(x, dtype, shape) for x in (left, mode, right))
    width = right - left
    u = draw_uniform(key, shape, dtype)
    rising = left + lax.sqrt(u * width * (mode - left))
    falling = right - lax.sqrt((1 - u) * width * (right - mode))
    return jnp.where(u < (mode - left) / width, rising, falling)


def geometric(
    key: Any, p: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """How many trials with success probability `p` it takes to succeed once: integers from 1 on."""
    typed, _ = check_key("geometric", key)
    dtype = dtypes.check_and_canonicalize_user_dtype(int if dtype is None else dtype)
    if not dtypes.issubdtype(dtype, np.integer):
        raise ValueError(f"dtype argument to `geometric` must be an int dtype, got {dtype}")
    shape = shape_of("geometric", shape, p)
    p = jnp.asarray(p)
    p = p.astype(dtypes.to_inexact_dtype(p.dtype))
    return _geometric(typed, p, shape=shape, dtype=dtype)


@sampler()
def _geometric(key: Any, p: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    u = draw_uniform(key, shape, p.dtype)
    u = jnp.where(u == 0, 1, u)
    failures = jnp.broadcast_to(sampling_log1p(-p), shape)
    return (lax.floor(lax.div(sampling_log(u), failures)) + 1).astype(dtype)
