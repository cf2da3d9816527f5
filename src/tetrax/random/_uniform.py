"""Bits, uniform samples, integers, and what is decided by one uniform sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax import numpy as jnp
from tetrax.ops.fused import fma
from tetrax.ops.random_bits import random_bits
from tetrax.random._arguments import (
    as_shape,
    check_shape,
    float_dtype,
    int_dtype,
    sampler,
    shape_of,
)
from tetrax.random._keys import check_key, subkeys


def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Uniform bits as unsigned integers (by default of 32 bits; 64 where x64 is enabled).

    >>> from tetrax.random import key
    >>> bits(key(0), (2,)).dtype.name
    'uint32'
    """
    typed, _ = check_key("bits", key)
    if dtype is None:
        dtype = dtypes.default_uint_dtype()
    else:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype)
    if not dtypes.issubdtype(dtype, np.unsignedinteger):
        raise ValueError(f"dtype argument to `bits` must be an unsigned int dtype, got {dtype}")
    return random_bits(typed, dtype.itemsize * 8, as_shape(shape))


def uniform(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    minval: Any = 0.0,
    maxval: Any = 1.0,
    *,
    out_sharding: Any = None,
) -> Any:
    """Floats uniform in [minval, maxval); the bounds broadcast to `shape`."""
    typed, _ = check_key("uniform", key)
    return draw_uniform(typed, as_shape(shape), float_dtype("uniform", dtype), minval, maxval)


def draw_uniform(
    key: Any, shape: tuple[int, ...], dtype: Any, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """`uniform` of a typed key."""
    if isinstance(minval, float) and isinstance(maxval, float) and (minval, maxval) == (0.0, 1.0):
        return _unit_uniform(key, shape=shape, dtype=dtype)
    return _uniform(key, minval, maxval, shape=shape, dtype=dtype)


@sampler(exact=True)
def _unit_uniform(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    """Random mantissas under the exponent of 1, minus 1."""
    info = dtypes.finfo(dtype)
    if info.bits not in (8, 16, 32, 64):
        raise TypeError(f"uniform only accepts 8-, 16-, 32-, or 64-bit dtypes, got {dtype}.")
    drawn = 8 if info.nmant < 8 else info.bits
    unsigned = np.dtype(f"uint{info.bits}")
    mantissas = random_bits(key, drawn, shape)
    if drawn != info.bits:
        mantissas = lax.convert_element_type(mantissas, unsigned)
    one = np.ones((), dtype)
    mantissas = lax.shift_right_logical(mantissas, unsigned.type(drawn - info.nmant))
    mantissas = lax.bitwise_or(mantissas, one.view(unsigned))
    return lax.sub(lax.bitcast_convert_type(mantissas, dtype), one)


@sampler(exact=True)
def _uniform(key: Any, minval: Any, maxval: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    minval = lax.broadcast_to_rank(lax.convert_element_type(minval, dtype), len(shape))
    maxval = lax.broadcast_to_rank(lax.convert_element_type(maxval, dtype), len(shape))
    floats = _unit_uniform(key, shape=shape, dtype=dtype)
    width, low = jnp.broadcast_to(maxval - minval, shape), jnp.broadcast_to(minval, shape)
    return lax.max(low, fma(floats, width, low))


def randint(
    key: Any,
    shape: Any,
    minval: Any,
    maxval: Any,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Integers uniform in [minval, maxval); the bounds broadcast to `shape`.

    Raises TypeError for a dtype that is not an integer one.
    """
    typed, _ = check_key("randint", key)
    dtype, shape = int_dtype(dtype), as_shape(shape)
    if not dtypes.issubdtype(dtype, np.integer):
        raise TypeError(f"randint only accepts integer dtypes, got {dtype}")
    info = dtypes.iinfo(dtype)
    drawn = dtype
    if info.bits < 32:
        drawn = np.dtype(np.int32)
        minval = jnp.clip(jnp.asarray(minval).astype(drawn), int(info.min), int(info.max))
        maxval = jnp.clip(jnp.asarray(maxval).astype(drawn), int(info.min), int(info.max) + 1)
    check_shape("randint", shape, np.shape(minval), np.shape(maxval))
    minval, maxval = (_as_integers(x) for x in (minval, maxval))
    samples = _randint(typed, minval, maxval, shape=shape, dtype=drawn)
    return lax.convert_element_type(samples, dtype)


def _as_integers(x: Any) -> Any:
    x = jnp.asarray(x)
    return x if dtypes.issubdtype(x.dtype, np.integer) else x.astype(int)


def _clipped(x: Any, dtype: Any) -> Any:
    """`x` in another integer dtype, clipped to its range."""
    own, other = dtypes.iinfo(x.dtype), dtypes.iinfo(dtype)
    low, high = max(own.min, other.min), min(own.max, other.max)
    bounds = [jnp.asarray(np.asarray(value, x.dtype)) for value in (low, high)]
    return lax.convert_element_type(jnp.clip(x, *bounds), dtype)


@sampler(exact=True)
def _randint(key: Any, minval: Any, maxval: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    """Two words per sample, reduced modulo the span: the bias is below 2^-nbits."""
    info = dtypes.iinfo(dtype)
    unsigned = np.dtype(f"uint{info.bits}")
    top = _clipped(jnp.asarray(np.asarray(info.max, dtype)), maxval.dtype)
    beyond = lax.gt(maxval, lax.broadcast(top, maxval.shape))
    minval, maxval = _clipped(minval, dtype), _clipped(maxval, dtype)
    span = (maxval - minval).astype(unsigned)
    span = jnp.where(maxval <= minval, unsigned.type(1), span)
    # maxval beyond the dtype was clipped to its largest value, which then is not excluded.
    span = jnp.where(beyond & (maxval > minval), span + unsigned.type(1), span)
    multiplier = lax.rem(lax.full_like(span, 2 ** (info.bits // 2)), span)
    multiplier = lax.rem(multiplier * multiplier, span)
    high, low = (random_bits(k, info.bits, shape) for k in subkeys(key))
    span, multiplier = jnp.broadcast_to(span, shape), jnp.broadcast_to(multiplier, shape)
    offset = lax.rem(lax.rem(high, span) * multiplier + lax.rem(low, span), span)
    return jnp.broadcast_to(minval, shape) + lax.convert_element_type(offset, dtype)


def bernoulli(
    key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low", *, out_sharding: Any = None
) -> Any:
    """Booleans that are True with probability `p`.

    Mode "high" draws twice the bits, for probabilities below 1e-7. Raises TypeError unless `p` is
    a float.
    """
    if mode not in ("high", "low"):
        raise ValueError(f"got {mode=}, expected 'high' or 'low'")
    typed, _ = check_key("bernoulli", key)
    dtype = dtypes.dtype(p, canonicalize=True)
    if not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {dtype}.")
    p = lax.convert_element_type(p, dtype)
    return _bernoulli(typed, p, shape=shape_of("bernoulli", shape, p), mode=mode)


@sampler(exact=True)
def _bernoulli(key: Any, p: Any, *, shape: tuple[int, ...], mode: str) -> Any:
    if mode == "low":
        return lax.lt(draw_uniform(key, shape, p.dtype), jnp.broadcast_to(p, shape))
    drawn = draw_uniform(key, (2, *shape), p.dtype)
    # The second sample resolves what the mantissa of the first cannot.
    fine = drawn[1] * 2 ** -dtypes.finfo(p.dtype).nmant
    return fine < p - drawn[0]


def rademacher(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """-1 or 1 with equal probability."""
    typed, _ = check_key("rademacher", key)
    dtype = int_dtype(dtype)
    heads = bernoulli(typed, 0.5, as_shape(shape)).astype(dtype)
    return (2 * heads - 1).astype(dtype)
