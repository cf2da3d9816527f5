"""Scaled dot-product attention with bias, masks, sequence lengths and grouped heads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax import numpy as jnp
from tetrax.nn._softmax import logsumexp, softmax


@dataclass(frozen=True)
class _Mask:
    """What may be attended to: everything that no member forbids."""

    mask: Any
    is_causal: bool
    query_lengths: Any
    key_lengths: Any
    window: tuple[int, int] | None


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(query keyᵀ scale + bias) value, per head, over what the masks allow.

    query (batch, T, N, H); key and value (batch, S, K, H) where K divides N (heads in groups share
    a key); the batch axis may be missing. bias and mask (boolean) broadcast to (batch, N, T, S).
    `local_window_size` is one distance or (left, right). With `return_residual`, also the logarithm
    of the sums that softmax divides by, (batch, T, N). Raises ValueError for unfit shapes.
    """
    if implementation not in (None, "xla"):
        _refuse(implementation)
    query = jnp.asarray(query)
    out_shape = query.shape
    query, key, value, bias, mask = (_with_four_axes(x) for x in (query, key, value, bias, mask))
    query_lengths, key_lengths = (
        None if x is None else jnp.asarray(x) for x in (query_seq_lengths, key_value_seq_lengths)
    )
    batch, _, heads, width = key.shape
    _check(value, key.shape, key.dtype, "value")
    _check(query, (batch, -1, -1, width), key.dtype, "query")
    _check(mask, (-1,) * 4, np.dtype(bool), "mask")
    _check(bias, (-1,) * 4, None, "bias")
    _check(query_lengths, (batch,), np.dtype(np.int32), "query_seq_lengths")
    _check(key_lengths, (batch,), np.dtype(np.int32), "key_value_seq_lengths")
    if query.shape[2] % heads:
        raise ValueError(
            "The number of query heads must be a multiple of key/value heads, but got "
            f"{query.shape[2]} vs {heads}"
        )
    if isinstance(local_window_size, int):
        local_window_size = (local_window_size, local_window_size)
    limits = _Mask(mask, is_causal, query_lengths, key_lengths, local_window_size)
    scale = 1.0 / math.sqrt(width) if scale is None else scale
    out, residual = _attend(query, key, value, bias, limits, scale, return_residual)
    out = out.reshape(out_shape)
    return (out, residual.reshape(out_shape[:-1])) if return_residual else out


def _refuse(implementation: Any) -> None:
    if implementation == "cudnn":
        raise NotImplementedError(
            "implementation='cudnn' is not available: leave it out, or pass 'xla'"
        )
    raise ValueError(f"Unsupported implementation option: {implementation}")


def _with_four_axes(x: Any) -> Any:
    if x is None:
        return None
    x = jnp.asarray(x)
    return x if x.ndim >= 4 else jnp.expand_dims(x, tuple(range(4 - x.ndim)))


def _check(x: Any, shape: Sequence[int], dtype: Any, name: str) -> None:
    """Raises ValueError unless `x` has this shape (-1 fits any size) and dtype."""
    if x is None:
        return
    if x.ndim != len(shape):
        raise ValueError(f"{name} ndim should be {len(shape)}, but got {x.ndim}")
    if dtype is not None and x.dtype != dtype:
        raise ValueError(f"{name} dtype should be {dtype}, but got {x.dtype}")
    if any(want not in (-1, got) for want, got in zip(shape, x.shape, strict=True)):
        raise ValueError(f"{name} shape should be {list(shape)}: but got {x.shape}")


def _grouped(x: Any, groups: int, heads: int) -> Any:
    """(B, N, T, S) with the heads split into (heads, groups), or one head left to broadcast."""
    if x is None:
        return None
    batch, count, rows, columns = x.shape
    if count == 1:
        return x[:, :, None]
    if count != heads * groups:
        raise ValueError(f"bias and mask need 1 or {heads * groups} heads, got shape {x.shape}")
    return x.reshape(batch, heads, groups, rows, columns)


def _attend(
    query: Any, key: Any, value: Any, bias: Any, limits: _Mask, scale: float, residual: bool
) -> tuple[Any, Any]:
    """Attention with query heads in groups: axes b batch, t query, s key, k head, g group."""
    batch, length, count, width = query.shape
    heads = key.shape[2]
    groups = count // heads
    query = query.reshape(batch, length, heads, groups, width)
    wide = jnp.promote_types(query.dtype, np.float32)
    logits = jnp.einsum("btkgh,bskh->bkgts", query, key, preferred_element_type=wide)
    logits = logits * jnp.asarray(scale, logits.dtype)
    if bias is not None:
        logits = (logits + _grouped(bias, groups, heads)).astype(logits.dtype)
    allowed = _allowed(limits, logits.shape, groups, heads)
    if allowed is not None:
        # Not -inf: rows without anything allowed then stay finite.
        lowest = -0.7 * float(min(dtypes.finfo(wide).max, dtypes.finfo(np.float32).max))
        logits = jnp.where(allowed, logits, jnp.asarray(lowest, logits.dtype))
    logits = logits.astype(np.float32)
    weights = softmax(logits, axis=-1).astype(key.dtype)
    out = jnp.einsum("bkgts,bskh->btkgh", weights, value)
    if limits.query_lengths is not None:
        present = jnp.arange(length)[None, :] < limits.query_lengths[:, None]
        out = out * present[:, :, None, None, None].astype(out.dtype)
    out = out.reshape(batch, length, count, width)
    if not residual:
        return out, None
    sums = logsumexp(logits, axis=-1).astype(key.dtype)
    sums = jnp.moveaxis(sums, 3, 1).reshape(batch, length, count)
    return out, lax.stop_gradient(sums)


def _allowed(limits: _Mask, shape: tuple[int, ...], groups: int, heads: int) -> Any:
    """Where attention is allowed, broadcastable to (b, k, g, t, s); None for everywhere."""
    rows, columns = jnp.arange(shape[3]), jnp.arange(shape[4])
    parts = []
    if limits.mask is not None:
        parts.append(_grouped(limits.mask, groups, heads))
    if limits.is_causal:
        parts.append((rows[:, None] >= columns[None, :])[None, None, None])
    if limits.window is not None:
        left, right = limits.window
        near = (rows[:, None] <= columns[None, :] + left) & (
            rows[:, None] >= columns[None, :] - right
        )
        parts.append(near[None, None, None])
    if limits.query_lengths is not None:
        parts.append((rows[None, :] < limits.query_lengths[:, None])[:, None, None, :, None])
    if limits.key_lengths is not None:
        parts.append((columns[None, :] < limits.key_lengths[:, None])[:, None, None, None, :])
    if not parts:
        return None
    allowed = parts[0]
    for part in parts[1:]:
        allowed = allowed & part
    return allowed
