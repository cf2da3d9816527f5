"""Comparison of random samples with real JAX's, from the same keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

import numpy as np
import tetrax
from tetrax import random


def pair(case: Callable[..., Any], seed: int = 7, typed: bool = True) -> tuple[Any, Any, Any]:
    """`case(random, key)` eagerly, compiled, and by JAX, as NumPy arrays."""
    mine = random.key(seed) if typed else random.PRNGKey(seed)
    theirs = jax.random.key(seed) if typed else jax.random.PRNGKey(seed)
    eager = case(random, mine)
    compiled = tetrax.jit(lambda key: case(random, key))(mine)
    want = case(jax.random, theirs)
    assert eager.dtype == want.dtype and eager.shape == want.shape, (eager.aval, want.aval)
    assert compiled.dtype == want.dtype and compiled.shape == want.shape
    assert eager.weak_type == want.weak_type
    return np.asarray(eager), np.asarray(compiled), np.asarray(want)


def same(case: Callable[..., Any], **options: Any) -> None:
    """Bit for bit what JAX gives."""
    eager, compiled, want = pair(case, **options)
    np.testing.assert_array_equal(eager, want)
    np.testing.assert_array_equal(compiled, want)


def near(case: Callable[..., Any], ulp: float = 2, scale: float = 0.0, **options: Any) -> None:
    """Within `ulp` units in the last place of JAX's values, or of `scale` where that is larger."""
    eager, compiled, want = pair(case, **options)
    for got in (eager, compiled):
        assert_ulp(got, want, ulp, scale)


def assert_ulp(got: np.ndarray, want: np.ndarray, ulp: float, scale: float = 0.0) -> None:
    if want.dtype.kind == "c":
        assert_ulp(got.real, want.real, ulp, scale)
        assert_ulp(got.imag, want.imag, ulp, scale)
        return
    if want.dtype.kind != "f" or want.dtype.itemsize < 4:
        eps = float(jax.numpy.finfo(want.dtype).eps)
        got, want = got.astype(np.float64), want.astype(np.float64)
        unit = eps * np.maximum(np.abs(want), max(scale, 1e-30))
    else:
        # JAX flushes denormal numbers to zero on CPUs.
        scale = max(scale, float(np.finfo(want.dtype).tiny) / np.finfo(want.dtype).eps)
        unit = np.spacing(np.maximum(np.abs(want), np.asarray(scale, want.dtype)))
    with np.errstate(invalid="ignore"):
        error = np.abs(got.astype(np.float64) - want) / unit
    bad = ~(error <= ulp) & ~((got == want) | (np.isnan(got) & np.isnan(want)))
    assert not bad.any(), (np.nanmax(np.where(bad, error, 0)), got[bad][:5], want[bad][:5])
