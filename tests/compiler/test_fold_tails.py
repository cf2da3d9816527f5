"""Folds whose length fills no whole number of vectors: the last elements count once, and all do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import numpy as np
import tetrax
import tetrax.numpy as tnp

LENGTHS = (1, 7, 9, 31, 33, 41, 71, 1003)

FOLDS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (tnp.sum, np.sum),
    "sum of exponentials": (lambda x, **k: tnp.sum(tnp.exp(x), **k), lambda x: np.exp(x).sum()),
    "prod": (lambda x, **k: tnp.prod(1 + x / 10, **k), lambda x: (1 + x / 10).prod()),
    "max": (tnp.max, np.max),
    "min": (tnp.min, np.min),
}


@pytest.mark.parametrize("name", FOLDS)
def test_every_element_counts_once(name: str) -> None:
    ours, reference = FOLDS[name]
    rng = np.random.default_rng(3)
    for length in LENGTHS:
        rows = rng.uniform(-1, 1, (3, length)).astype(np.float32)
        expected = np.array([reference(row.astype(np.float64)) for row in rows])
        # rounding: each element to 1e-7 of itself, and the elements are below e in size
        tolerance = {"rtol": 1e-6, "atol": 1e-6 * length**0.5}
        np.testing.assert_allclose(tetrax.jit(ours)(rows[0]), expected[0], **tolerance)
        by_rows = tetrax.jit(lambda x: ours(x, axis=1))
        np.testing.assert_allclose(by_rows(rows), expected, **tolerance)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16"])
def test_integers_are_exact(dtype: str) -> None:
    rng = np.random.default_rng(4)
    for length in LENGTHS:
        x = rng.integers(0, 100, length).astype(dtype)
        total = tetrax.jit(lambda v: tnp.sum(v, dtype=v.dtype))(x)
        assert total == x.sum(dtype=dtype)
        assert tetrax.jit(tnp.max)(x) == x.max()


@pytest.mark.parametrize("length", LENGTHS)
def test_the_last_element_is_seen(length: int) -> None:
    x = np.zeros(length, np.float32)
    x[-1] = np.nan
    assert np.isnan(tetrax.jit(tnp.max)(x))
    assert np.isnan(tetrax.jit(lambda v: tnp.sum(tnp.exp(v)))(x))
    marked = np.zeros(length, bool)
    marked[-1] = True
    assert tetrax.jit(tnp.any)(marked)
    assert not tetrax.jit(tnp.all)(~marked)
