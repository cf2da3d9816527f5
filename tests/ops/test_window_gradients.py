"""Gradients of pooling over images large enough to be shared, against real JAX and plain loops."""

from __future__ import annotations

import jax
import ml_dtypes
import pytest

import numpy as np
import tetrax
from tetrax.config import config

# name: (shape, window, strides, padding)
GEOMETRIES = {
    "side by side": ((5, 12, 14, 20), (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    "remainder": ((5, 13, 15, 19), (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    "overlapping": ((5, 13, 14, 19), (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0))),
    "features first": ((5, 9, 13, 14), (1, 1, 3, 3), (1, 1, 2, 2), "SAME"),
    "features first apart": ((5, 9, 14, 33), (1, 1, 2, 3), (1, 1, 2, 3), "VALID"),
    "apart": ((5, 13, 14, 19), (1, 2, 2, 1), (1, 3, 3, 1), "VALID"),
    "padded apart": ((5, 13, 14, 19), (1, 2, 2, 1), (1, 2, 2, 1), ((0, 0), (1, 2), (1, 0), (0, 0))),
    "cut off": ((5, 13, 14, 19), (1, 2, 2, 1), (1, 2, 2, 1), ((0, 0), (-1, 0), (2, -2), (0, 0))),
    "batch too": ((6, 13, 19), (2, 3, 1), (1, 2, 1), ((1, 0), (1, 1), (0, 0))),
    "line": ((600,), (2,), (2,), "VALID"),
    "large": ((3, 40, 7), (1, 17, 1), (1, 5, 1), "VALID"),
}  # fmt: skip


def pullback(library, start, operation: str, geometry, x, ct):
    run = lambda x: library.lax.reduce_window(x, start, getattr(library.lax, operation), *geometry)
    return library.vjp(run, x)[1](ct)[0]


def operands(name: str, dtype="float32"):
    """Values with many ties, and a cotangent with zeros of both signs."""
    shape, *geometry = GEOMETRIES[name]
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, shape).astype(dtype)
    out = jax.eval_shape(lambda x: jax.lax.reduce_window(x, -np.inf, jax.lax.max, *geometry),
                         np.zeros(shape, "float32"))  # fmt: skip
    ct = rng.integers(-2, 3, out.shape).astype(dtype)
    return x, np.where(ct == 2, np.asarray(-0.0, dtype), ct), geometry


def by_loops(geometry, operation: str, x, ct) -> np.ndarray:
    """The gradient of a maximum or minimum, window by window."""
    window, strides, padding = geometry
    out = np.zeros_like(x)
    for index in np.ndindex(*ct.shape):
        best = None
        for place in np.ndindex(*window):
            at = tuple(
                i * stride + w - low
                for i, w, stride, (low, _) in zip(index, place, strides, padding, strict=True)
            )
            if not all(0 <= i < n for i, n in zip(at, x.shape, strict=True)):
                continue
            if best is None or not (x[best] >= x[at] if operation == "max" else x[best] <= x[at]):
                best = at
        if best is not None:
            out[best] += ct[index]
    return out


@pytest.mark.parametrize("operation", ["max", "min", "add"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_as_jax(name: str, operation: str) -> None:
    """The values are small integers, so that sums are exact in any order."""
    x, ct, geometry = operands(name)
    start = {"max": -np.inf, "min": np.inf, "add": 0.0}[operation]
    if name == "cut off" and operation != "add":  # which JAX does not have
        want = by_loops(geometry, operation, x, ct)
    else:
        want = pullback(jax, start, operation, geometry, x, ct)
    got = tetrax.jit(lambda x, ct: pullback(tetrax, start, operation, geometry, x, ct))(x, ct)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_element_types(dtype: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x, ct, geometry = operands("overlapping", dtype)
    with tetrax.enable_x64(True):
        start = np.asarray(-np.inf, dtype)
        got = tetrax.jit(lambda x, ct: pullback(tetrax, start, "max", geometry, x, ct))(x, ct)
    assert got.dtype == dtype
    want = pullback(jax, -np.inf, "max", geometry, x.astype("float32"), ct.astype("float32"))
    np.testing.assert_array_equal(np.asarray(got, "float32"), np.asarray(want))


def test_nan_is_selected_and_infinities_stay() -> None:
    """Of a window's elements the last NaN or what follows it is selected, as in the plain rule."""
    x, ct, geometry = operands("overlapping")
    rng = np.random.default_rng(1)
    x[rng.random(x.shape) < 0.1] = np.nan
    x[rng.random(x.shape) < 0.1] = -np.inf
    ct[rng.random(ct.shape) < 0.1] = np.inf
    start = np.float32(-np.inf)
    got = tetrax.jit(lambda x, ct: pullback(tetrax, start, "max", geometry, x, ct))(x, ct)
    np.testing.assert_array_equal(np.asarray(got), by_loops(geometry, "max", x, ct))


@pytest.mark.parametrize("name", ["remainder", "overlapping", "padded apart"])
def test_same_bits_for_any_number_of_threads(name: str) -> None:
    x, ct, geometry = operands(name)
    x, ct = np.tile(x, (4, 1, 1, 2)), np.tile(ct, (4, 1, 1, 2)) * np.float32(0.1)
    both = ((-np.inf, "max"), (0.0, "add"))
    run = tetrax.jit(
        lambda x, ct: [pullback(tetrax, start, name, geometry, x, ct) for start, name in both]
    )
    results = []
    for threads in (1, 2, 7):
        with type(config).num_threads(threads):
            results.append([np.asarray(g).tobytes() for g in run(x, ct)])
    assert results[0] == results[1] == results[2]
