"""Permutations, choices, and categories by Gumbel's trick."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, errors, lax
from tetrax import numpy as jnp
from tetrax.ops.random_bits import random_bits
from tetrax.ops.sampling_math import sampling_log, sampling_log1p
from tetrax.random._arguments import as_shape, check_shape, float_dtype, is_array, sampler
from tetrax.random._keys import check_key, subkeys
from tetrax.random._uniform import draw_uniform, randint
from tetrax.tracing.trace import concrete_or_error

_MODES = ("highest", "high", "low")


def gumbel(
    key: Any, shape: Any = (), dtype: Any = None, mode: Any = None, *, out_sharding: Any = None
) -> Any:
    """Standard Gumbel samples, -log(-log(u)).

    Mode "high" (or "highest") draws twice the bits, which makes rare categories right.
    """
    typed, _ = check_key("gumbel", key)
    dtype = float_dtype("gumbel", dtype)
    mode = "low" if mode is None else mode
    if mode not in _MODES:
        raise ValueError(f"Must provide valid mode for gumbel got: {mode}")
    return _gumbel(typed, shape=as_shape(shape), dtype=dtype, mode=mode)


@sampler(exact=True)
def _gumbel(key: Any, *, shape: tuple[int, ...], dtype: Any, mode: str) -> Any:
    info = dtypes.finfo(dtype)
    if mode == "low":
        u = draw_uniform(key, shape, dtype, float(info.tiny), 1.0)
        return lax.neg(sampling_log(lax.neg(sampling_log(u))))
    if mode == "highest" and dtype == np.float32:
        return _finest_gumbel(key, shape)
    drawn = draw_uniform(key, (2, *shape), dtype)
    high, low = drawn[0], drawn[1]
    u = jnp.where(high >= 0.5, high, high + 2 ** (-info.nmant) * low + info.tiny)
    return -sampling_log(-sampling_log1p(-u))


def _finest_gumbel(key: Any, shape: tuple[int, ...]) -> Any:
    """From 64 bits per float32 sample, of which small values keep 23 leading ones."""
    bits = random_bits(key, 32, (2, *shape))
    high, low = bits[0], bits[1]
    below_half = high < np.uint32(1 << 31)
    # The other half is mirrored: minus the 64-bit number, two's complement word by word.
    mirrored_high = ~high + (~low == np.uint32(0xFFFFFFFF)).astype(np.uint32)
    mirrored_low = ~low + np.uint32(1)
    x = _fraction_of_words(
        jnp.where(below_half, high, mirrored_high), jnp.where(below_half, low, mirrored_low)
    )
    lower = -sampling_log(-sampling_log1p(-x))
    return jnp.where(below_half, lower, -sampling_log(-sampling_log(x)))


def _fraction_of_words(high: Any, low: Any) -> Any:
    """The 64-bit number over 2^64 as float32, truncated; 0 becomes the smallest exponent."""
    high_zeros, low_zeros = lax.clz(high), lax.clz(low)
    in_low = high_zeros == 32
    rest = jnp.where(
        in_low,
        lax.shift_left(low, low_zeros),
        lax.shift_right_logical(low, np.uint32(32) - high_zeros),
    )
    mantissa = lax.shift_left(high, high_zeros) | rest
    mantissa = lax.shift_right_logical(mantissa, lax.full_like(mantissa, 8)) & np.uint32(0x7FFFFF)
    exponent = np.uint32(126) - jnp.where(in_low, np.uint32(32) + low_zeros, high_zeros)
    exponent = lax.shift_left(exponent, lax.full_like(exponent, 23)) & np.uint32(0x3FC00000)
    return lax.bitcast_convert_type(exponent | mantissa, np.float32)


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Indices along `axis`, with probabilities softmax(logits).

    `shape` ends with the shape of `logits` without `axis`; what stands before counts samples.
    Without replacement those are different. Raises ValueError if there are not enough categories.
    """
    typed, _ = check_key("categorical", key)
    if not is_array(logits):
        raise TypeError(f"categorical requires an array of logits, got {type(logits)}")
    logits = jnp.asarray(logits)
    axis = _canonical_axis(axis, logits.ndim)
    batch = logits.shape[:axis] + logits.shape[axis + 1 :]
    if shape is None:
        shape = batch
    else:
        shape = as_shape(shape)
        check_shape("categorical", shape, batch)
    prefix = shape[: len(shape) - len(batch)]
    if replace:
        return _with_replacement(typed, logits, axis, prefix, shape[len(prefix) :], mode)
    return _without_replacement(typed, logits, axis, prefix, batch, mode)


def _with_replacement(
    key: Any, logits: Any, axis: int, prefix: tuple, batch: tuple, mode: Any
) -> Any:
    drawn = (*prefix, *batch[:axis], logits.shape[axis], *batch[axis:])
    noise = gumbel(key, drawn, logits.dtype, mode)
    return jnp.argmax(noise + logits, axis=len(prefix) + axis)


def _without_replacement(
    key: Any, logits: Any, axis: int, prefix: tuple, batch: tuple, mode: Any
) -> Any:
    count = math.prod(prefix)
    if count > logits.shape[axis]:
        raise ValueError(
            f"Number of samples without replacement ({count}) cannot exceed number of categories "
            f"({logits.shape[axis]})."
        )
    noisy = logits + gumbel(key, logits.shape, logits.dtype, mode)
    _, indices = lax.top_k(jnp.moveaxis(noisy, axis, -1), count)
    return jnp.moveaxis(indices, -1, 0).reshape((*prefix, *batch))


def permutation(
    key: Any, x: Any, axis: int = 0, independent: bool = False, *, out_sharding: Any = None
) -> Any:
    """`x` with its slices along `axis` in random order; an integer stands for arange(x).

    With `independent`, every vector along the axis has an order of its own.
    """
    typed, _ = check_key("permutation", key)
    if not is_array(x):
        raise TypeError(f"permutation requires an array or an integer, got {type(x)}")
    axis = _canonical_axis(axis, np.ndim(x) or 1)
    if not np.ndim(x):
        if not dtypes.issubdtype(dtypes.dtype(x), np.integer):
            raise TypeError("x must be an integer or at least 1-dimensional")
        count = _concrete_int(x, "argument x of random.permutation()")
        return _shuffle(typed, jnp.arange(count), shape=(count,), axis=0)
    x = jnp.asarray(x)
    if independent or x.ndim == 1:
        return _shuffle(typed, x, shape=x.shape, axis=axis)
    count = x.shape[axis]
    order = _shuffle(typed, jnp.arange(count), shape=(count,), axis=0)
    return jnp.take(x, order, axis, unique_indices=True)


@sampler(exact=True)
def _shuffle(key: Any, x: Any, *, shape: tuple[int, ...], axis: int) -> Any:
    """Sort by random words, so often that ties between words do not matter."""
    size = math.prod(shape)
    rounds = math.ceil(3 * np.log(max(1, size)) / np.log(2**32 - 1))
    for _ in range(rounds):
        key, subkey = subkeys(key)
        _, x = lax.sort_key_val(random_bits(subkey, 32, shape), x, axis)
    return x


def choice(
    key: Any,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: Any = None,
) -> Any:
    """Samples from the slices of `a` along `axis` (of arange(a) for an integer `a`).

    `p` are probabilities, one for each slice. Raises ValueError where there are too few slices.
    """
    typed, _ = check_key("choice", key)
    if not isinstance(shape, Sequence):
        raise TypeError(f"shape argument of random.choice must be a sequence, got {shape}")
    if not is_array(a):
        raise TypeError(f"choice requires an array or an integer, got {type(a)}")
    array, shape = jnp.asarray(a), as_shape(shape)
    if array.ndim:
        axis = _canonical_axis(axis, array.ndim)
        available = array.shape[axis]
    else:
        available = _concrete_int(a, "argument a of random.choice()")
    wanted = math.prod(shape)
    if wanted == 0:
        return jnp.zeros(shape, array.dtype)
    if available <= 0:
        raise ValueError("a must be greater than 0 unless no samples are taken")
    if not replace and wanted > available:
        raise ValueError(
            f"Cannot take a larger sample (size {wanted}) than population (size {available}) when "
            "'replace=False'"
        )
    if p is None and not replace:
        mixed = permutation(typed, array if array.ndim else available, axis if array.ndim else 0)
        result = lax.slice_in_dim(mixed, 0, wanted, axis=axis if array.ndim else 0)
    else:
        chosen = _chosen(typed, available, shape, replace, p, mode)
        result = jnp.take(array, chosen, axis) if array.ndim else chosen
    return result.reshape(
        array.shape[:axis] + shape + array.shape[axis + 1 :] if array.ndim else shape
    )


def _chosen(
    key: Any, available: int, shape: tuple[int, ...], replace: bool, p: Any, mode: Any
) -> Any:
    """Positions of the chosen slices."""
    if p is None:
        return randint(key, shape, 0, available)
    if not is_array(p):
        raise TypeError(f"choice requires an array of probabilities, got {type(p)}")
    p = jnp.asarray(p)
    p = p.astype(dtypes.to_inexact_dtype(p.dtype))
    if p.shape != (available,):
        raise ValueError(
            "p must be None or a 1D vector with the same size as a.shape[axis]. "
            f"p has shape {p.shape} and a.shape[axis] is {available}."
        )
    if replace:
        cumulative = jnp.cumsum(p)
        drawn = cumulative[-1] * (1 - draw_uniform(key, shape, cumulative.dtype))
        return jnp.searchsorted(cumulative, drawn).astype(int)
    noisy = gumbel(key, (available,), p.dtype, mode) + jnp.log(p)
    return lax.top_k(noisy, k=math.prod(shape))[1].astype(int)


def _concrete_int(x: Any, what: str) -> int:
    return operator.index(concrete_or_error(x, errors.TracerIntegerConversionError, what))


def _canonical_axis(axis: int, rank: int) -> int:
    axis = operator.index(axis)
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {rank}")
    return axis % rank
