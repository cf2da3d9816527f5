"""Normal samples and what is made of them one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax import numpy as jnp
from tetrax.ops.sampling_math import sampling_log
from tetrax.random._arguments import (
    as_shape,
    check_castable,
    float_dtype,
    parameter,
    sampler,
    shape_of,
)
from tetrax.random._keys import check_key, subkeys
from tetrax.random._uniform import draw_uniform, rademacher


def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Standard normal samples; complex ones have variance 1/2 in each part.

    Raises ValueError for a dtype that is neither float nor complex.
    """
    typed, _ = check_key("normal", key)
    return draw_normal(typed, as_shape(shape), float_dtype("normal", dtype, np.inexact))


@sampler(exact=True)
def _normal(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    if not dtypes.issubdtype(dtype, np.complexfloating):
        # The open interval: erf_inv is infinite at -1.
        low = np.nextafter(np.array(-1, dtype), np.array(0, dtype), dtype=dtype)
        samples = draw_uniform(key, shape, dtype, low, np.array(1, dtype))
        return lax.mul(np.array(math.sqrt(2), dtype), lax.erf_inv(samples))
    part = np.zeros((), dtype).real.dtype
    real, imaginary = (_normal(k, shape=shape, dtype=part) for k in subkeys(key))
    half = part.type(1) / part.type(math.sqrt(2))
    return lax.complex(real * half, imaginary * half)


def draw_normal(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """`normal` of a typed key."""
    return _normal(key, shape=shape, dtype=dtype)


def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Normal samples in the open interval (lower, upper)."""
    typed, _ = check_key("truncated_normal", key)
    dtype = float_dtype("truncated_normal", dtype)
    shape = shape_of("truncated_normal", shape, lower, upper)
    return _truncated_normal(typed, lower, upper, shape=shape, dtype=dtype)


@sampler()
def _truncated_normal(
    key: Any, lower: Any, upper: Any, *, shape: tuple[int, ...], dtype: Any
) -> Any:
    root = np.array(math.sqrt(2), dtype)
    lower, upper = (lax.convert_element_type(x, dtype) for x in (lower, upper))
    samples = draw_uniform(key, shape, dtype, lax.erf(lower / root), lax.erf(upper / root))
    samples = root * lax.erf_inv(samples)
    # Rounding could reach the bounds themselves, which are excluded.
    low = lax.nextafter(lax.stop_gradient(lower), np.array(np.inf, dtype))
    high = lax.nextafter(lax.stop_gradient(upper), np.array(-np.inf, dtype))
    return jnp.clip(samples, low, high)


_UNIT = np.float32(1)


def lognormal(
    key: Any,
    sigma: Any = _UNIT,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """e^x of normal samples x with standard deviation `sigma`."""
    typed, _ = check_key("lognormal", key)
    dtype = float_dtype("lognormal", dtype, np.inexact)
    shape = shape_of("lognormal", shape, sigma)
    check_castable("lognormal", dtype, sigma)
    return _lognormal(typed, sigma, shape=shape, dtype=dtype)


@sampler()
def _lognormal(key: Any, sigma: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    return lax.exp(draw_normal(key, shape, dtype) * parameter(sigma, dtype, shape))


def maxwell(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Lengths of normal vectors in three dimensions."""
    typed, _ = check_key("maxwell", key)
    return _maxwell(typed, shape=as_shape(shape), dtype=float_dtype("maxwell", dtype))


@sampler()
def _maxwell(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    vectors = draw_normal(key, (*shape, 3), dtype)
    return lax.sqrt(jnp.sum(vectors * vectors, -1))


def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Maxwell samples with a random sign, scaled and shifted.

    The result has shape `shape` followed by the shape of the parameters (twice it for shape ()).
    """
    typed, _ = check_key("double_sided_maxwell", key)
    dtype, shape = float_dtype("double_sided_maxwell", dtype), as_shape(shape)
    parameters = tuple(lax.broadcast_shapes(np.shape(loc), np.shape(scale)))
    shape = (shape or parameters) + parameters
    lengths_key, signs_key = subkeys(typed)
    lengths = maxwell(lengths_key, shape, dtype)
    return rademacher(signs_key, shape, dtype) * lengths * scale + loc


def rayleigh(
    key: Any, scale: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Lengths of normal vectors in two dimensions, times `scale`."""
    typed, _ = check_key("rayleigh", key)
    dtype = float_dtype("rayleigh", dtype)
    shape = shape_of("rayleigh", shape, scale)
    check_castable("rayleigh", dtype, scale)
    return _rayleigh(typed, scale, shape=shape, dtype=dtype)


@sampler()
def _rayleigh(key: Any, scale: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    logarithm = sampling_log(draw_uniform(key, shape, dtype))
    return parameter(scale, dtype, shape) * lax.sqrt(logarithm * -2)


def wald(
    key: Any, mean: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Inverse normal samples of the given mean and shape parameter 1 (Michael, Schucany, Haas)."""
    typed, _ = check_key("wald", key)
    dtype = float_dtype("wald", dtype)
    shape = shape_of("wald", shape, mean)
    check_castable("wald", dtype, mean)
    return _wald(typed, mean, shape=shape, dtype=dtype)


@sampler()
def _wald(key: Any, mean: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    normal_key, uniform_key = subkeys(key)
    mean = parameter(mean, dtype, shape)
    y = lax.square(draw_normal(normal_key, shape, dtype))
    mean_squared = lax.square(mean)
    root = lax.sqrt(4 * mean * y + mean_squared * lax.square(y))
    x = mean + mean_squared * y / 2 - mean / 2 * root
    accepted = draw_uniform(uniform_key, shape, dtype) <= mean / (mean + x)
    return jnp.where(accepted, x, mean_squared / x)
