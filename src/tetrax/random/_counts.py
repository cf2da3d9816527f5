"""Distributions of counts: Poisson, binomial, multinomial."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax import numpy as jnp
from tetrax.ops.fused import fma
from tetrax.ops.random_bits import random_split
from tetrax.ops.sampling_math import sampling_log, sampling_log1p
from tetrax.random._arguments import float_dtype, int_dtype, is_array, sampler, shape_of
from tetrax.random._keys import check_key, subkeys
from tetrax.random._uniform import draw_uniform

# -- Poisson -------------------------------------------------------------------------------------


def poisson(
    key: Any, lam: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Poisson samples of mean `lam`; -1 for a mean that is NaN or negative."""
    typed, _ = check_key("poisson", key)
    dtype = int_dtype(dtype)
    shape = shape_of("poisson", shape, lam)
    lam = jnp.broadcast_to(lax.convert_element_type(lam, np.float32), shape)
    return _poisson(typed, lam, shape=shape, dtype=dtype)


@sampler(loops=True)
def _poisson(key: Any, lam: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    small = jnp.isnan(lam) | (lam < 10)
    limit = int(dtypes.iinfo(dtype).max)
    by_products = _poisson_products(key, jnp.where(small, lam, 0.0), shape, dtype, limit)
    by_rejection = _poisson_rejection(key, jnp.where(small, 1e5, lam), shape, dtype, limit)
    samples = jnp.where(small, by_products, by_rejection)
    return jnp.where(lam == 0, jnp.zeros_like(samples), samples)


def _poisson_products(key: Any, lam: Any, shape: tuple, dtype: Any, limit: int) -> Any:
    """Knuth's method: how many uniforms have a product above e^-lam."""

    def more(state: Any) -> Any:
        turn, _, _, log_product = state
        return jnp.any(log_product > -lam) & (turn < limit)

    def turn(state: Any) -> Any:
        i, count, key, log_product = state
        key, subkey = subkeys(key)
        count = jnp.where(log_product > -lam, count + 1, count)
        u = draw_uniform(subkey, shape, np.dtype(np.float32))
        return i + 1, count, key, log_product + sampling_log(u)

    start = (0, jnp.zeros(shape, dtype), key, jnp.zeros(shape, np.float32))
    return (lax.while_loop(more, turn, start)[1] - 1).astype(dtype)


def _poisson_rejection(key: Any, lam: Any, shape: tuple, dtype: Any, limit: int) -> Any:
    """Transformed rejection with squeeze: W. Hörmann (1993), algorithm PTRS."""
    log_lam = lax.log(lam)
    b = 0.931 + 2.53 * lax.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    squeeze = 0.9277 - 3.6224 / (b - 2)

    def turn(state: Any) -> Any:
        i, samples, accepted, key = state
        key, u_key, v_key = subkeys(key, 3)
        u = draw_uniform(u_key, shape, lam.dtype) - 0.5
        v = draw_uniform(v_key, shape, lam.dtype)
        shifted = 0.5 - jnp.abs(u)
        k = lax.floor((2 * a / shifted + b) * u + lam + 0.43)
        s = lax.log(v * inverse_alpha / (a / (shifted * shifted) + b))
        t = -lam + k * log_lam - lax.lgamma(k + 1)
        quick = (shifted >= 0.07) & (v <= squeeze)
        hopeless = (k < 0) | ((shifted < 0.013) & (v > shifted))
        good = quick | (~hopeless & (s <= t))
        return i + 1, jnp.where(good, k, samples), accepted | good, key

    def more(state: Any) -> Any:
        return jnp.any(~state[2]) & (state[0] < limit)

    start = (0, jnp.full(shape, -1, lam.dtype), jnp.zeros(shape, bool), key)
    return lax.while_loop(more, turn, start)[1].astype(dtype)


# -- binomial ------------------------------------------------------------------------------------


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """How many of `n` trials with probability `p` succeed, as floats; NaN for invalid ones."""
    typed, _ = check_key("binomial", key)
    for name, x in (("n", n), ("p", p)):
        if not is_array(x):
            raise TypeError(f"binomial requires an array or number {name}, got {type(x)}")
    dtype = float_dtype("binomial", dtype)
    shape = shape_of("binomial", shape, n, p)
    p = jnp.asarray(p)
    p = p.astype(dtypes.to_inexact_dtype(p.dtype))
    n = jnp.broadcast_to(lax.convert_element_type(n, p.dtype), shape)
    return _binomial(typed, n, jnp.broadcast_to(p, shape), shape=shape, dtype=dtype)


@sampler(loops=True)
def _binomial(key: Any, count: Any, p: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    """Successes or failures, whichever are rarer, by inversion if few are expected."""
    rare = p < 0.5
    q = jnp.where(rare, p, 1.0 - p)
    bad_count = jnp.isnan(count) | (count < 0.0)
    bad = bad_count | jnp.isnan(q) | (q < 0.0)
    endless = jnp.isinf(count)
    q = jnp.where(jnp.isnan(q) | (q < 0.0), 0.01, q)
    few = bad_count | (count * q <= 10.0)
    count = jnp.floor(count)
    inverted = _by_inversion(key, jnp.where(few, count, 0.0), q, shape, dtype)
    rejected = _by_rejection(key, jnp.where(few, 1e4, count), jnp.where(few, 0.5, q), shape, dtype)
    samples = jnp.where(few, inverted, rejected)
    samples = jnp.where(bad, jnp.full_like(samples, np.nan), samples)
    samples = jnp.where(endless & ~bad, jnp.full_like(samples, np.inf), samples)
    kept = rare | bad_count | jnp.isnan(p) | endless
    return jnp.where(kept, samples, count.astype(dtype) - samples)


def _by_inversion(key: Any, count: Any, p: Any, shape: tuple, dtype: Any) -> Any:
    """How many geometric waiting times fit into `count` trials."""
    log_failure = sampling_log1p(-p)

    def more(state: Any) -> Any:
        return jnp.any(state[1] <= count)

    def turn(state: Any) -> Any:
        successes, trials, key = state
        subkey, key = subkeys(key)
        successes = jnp.where(trials <= count, successes + 1, successes)
        u = draw_uniform(subkey, shape, p.dtype)
        return successes, trials + jnp.ceil(sampling_log(u) / log_failure), key

    zero = jnp.zeros(shape, p.dtype)
    return (lax.while_loop(more, turn, (zero, zero, key))[0] - 1).astype(dtype)


_STIRLING_TAILS = (
    0.0810614667953272,
    0.0413406959554092,
    0.0276779256849983,
    0.02079067210376509,
    0.0166446911898211,
    0.0138761288230707,
    0.0118967099458917,
    0.010411265261972,
    0.00925546218271273,
    0.00833056343336287,
)


def _stirling_tail(k: Any) -> Any:
    """log k! minus Stirling's approximation: a table up to 9, a series beyond."""
    table = jnp.asarray(np.asarray(_STIRLING_TAILS, k.dtype))
    clipped = jnp.clip(k, 0.0, 9.0)
    square = (clipped + 1) * (clipped + 1)
    series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (clipped + 1)
    return jnp.where(k <= 9, table[jnp.floor(clipped).astype(np.int32)], series)


def _by_rejection(key: Any, count: Any, p: Any, shape: tuple, dtype: Any) -> Any:
    """Transformed rejection with squeeze: W. Hörmann (1993), algorithm BTRS."""
    deviation = jnp.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = count * p + 0.5
    squeeze = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = jnp.floor((count + 1) * p)

    def bound(k: Any) -> Any:
        left = count - mode + 1
        right = count - k + 1
        total = (mode + 0.5) * jnp.log((mode + 1) / (odds * left))
        total = total + (count + 1) * jnp.log(left / right)
        total = total + (k + 0.5) * jnp.log(odds * right / (k + 1))
        total = total + _stirling_tail(mode) + _stirling_tail(count - mode)
        return total - _stirling_tail(k) - _stirling_tail(count - k)

    def turn(state: Any) -> Any:
        samples, accepted, key = state
        key, u_key, v_key = subkeys(key, 3)
        u = draw_uniform(u_key, shape, p.dtype) - 0.5
        v = draw_uniform(v_key, shape, p.dtype)
        shifted = 0.5 - jnp.abs(u)
        quick = (shifted >= 0.07) & (v <= squeeze)
        k = jnp.floor(fma(2 * a / shifted + b, u, centre))
        hopeless = (k < 0) | (k > count)
        v = jnp.log(v * alpha / (a / (shifted * shifted) + b))
        good = quick | (~hopeless & (v <= bound(k)))
        return jnp.where(good, k, samples), accepted | good, key

    start = (jnp.full(shape, -1, p.dtype), jnp.zeros(shape, bool), key)
    done = lax.while_loop(lambda state: jnp.any(~state[1]), turn, start)
    return done[0].astype(dtype)


def multinomial(
    key: Any,
    n: Any,
    p: Any,
    *,
    shape: Any = None,
    dtype: Any = None,
    unroll: int | bool = 1,
) -> Any:
    """How `n` trials fall into categories with probabilities `p` (…, k): counts of that shape."""
    typed, _ = check_key("multinomial", key)
    n, p = jnp.asarray(n), jnp.asarray(p)
    common = dtypes.to_inexact_dtype(jnp.result_type(n, p))
    shape = p.shape if shape is None else tuple(shape)
    n = jnp.broadcast_to(n.astype(common), shape[:-1])
    p = jnp.moveaxis(jnp.broadcast_to(p.astype(common), shape), -1, 0)
    remaining = lax.cumsum(p, 0, reverse=True)
    ratios = p / jnp.where(remaining == 0, 1, remaining)

    def category(left: Any, step: Any) -> Any:
        ratio, subkey = step
        count = binomial(subkey, left, jnp.clip(ratio, 0, 1), dtype=left.dtype)
        return left - count, count

    keys = random_split(typed, (ratios.shape[0],))
    _, counts = lax.scan(category, n, (ratios, keys), unroll=unroll)
    return jnp.moveaxis(counts, 0, -1).astype(dtype or float)
