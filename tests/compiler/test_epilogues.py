"""Kernels that become the epilogue of a product: which do, and that the values stay right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import numpy as np
import tetrax
import tetrax.numpy as tnp
from tetrax.config import config

SIZES = [(200, 300, 150), (1000, 257, 133), (64, 500, 2048), (1, 1100, 1100)]


def bias(x: Any, w: Any, b: Any) -> Any:
    return tnp.maximum(x @ w + b, 0)


def before_and_after(x: Any, w: Any, b: Any) -> Any:
    y = x @ w + b
    return y, tnp.where(y > 0, y, 0.1 * y)


def product_too(x: Any, w: Any, b: Any) -> Any:
    y = x @ w
    return y, y * y


def residual(x: Any, w: Any, b: Any) -> Any:
    return (x @ w) * b + tnp.arange(x.shape[0])[:, None]


def of_two(x: Any, w: Any, b: Any) -> Any:
    return (x @ w) - (x * 2) @ w + b


def looped(x: Any, w: Any, b: Any) -> Any:
    return tetrax.lax.fori_loop(0, 3, lambda _, y: tnp.minimum(x @ (w * 0.1) + y, 1), b + x @ w)


FUSED = {f.__name__: f for f in (bias, before_and_after, product_too, residual, of_two, looped)}
APART = {
    "another order": lambda x, w, b: (x @ w)[::-1] + 1,
    "sums": lambda x, w, b: (x @ w + b).sum(1),
    "shifted": lambda x, w, b: tnp.roll(x @ w, 1, 1),
    "softmax": lambda x, w, b: tetrax.nn.softmax(x @ w + b),
    "long": lambda x, w, b: tnp.tanh(x @ w),
    "small": lambda x, w, b: tnp.maximum(x[:10, :10] @ w[:10] + b, 0),
}


def _operands(m: int, k: int, n: int) -> list[np.ndarray]:
    generator = np.random.default_rng(m)
    return [generator.normal(size=s).astype(np.float32) for s in ((m, k), (k, n), (n,))]


def _kernels(f: Callable[..., Any], *args: Any) -> str:
    return tetrax.jit(f).lower(*args).as_text("kernels")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", FUSED)
def test_values(name: str, size: tuple[int, int, int]) -> None:
    x, w, b = _operands(*size)
    f = FUSED[name]
    # in float64, by operations that know nothing of kernels
    with tetrax.experimental.enable_x64(), tetrax.disable_jit():
        expected = f(*(tnp.asarray(a.astype(np.float64)) for a in (x, w, b)))
    results = {}
    for threads in (1, 2, 7):
        with type(config).num_threads(threads):
            results[threads] = tetrax.jit(f)(x, w, b)
    scale = size[1]  # an element is a sum of so many products of normal numbers
    for found in results.values():
        for mine, wanted, first in zip(
            *map(tetrax.tree.leaves, (found, expected, results[1])), strict=True
        ):
            np.testing.assert_allclose(mine, wanted, rtol=1e-4, atol=3e-7 * scale)
            np.testing.assert_array_equal(mine, first)


@pytest.mark.parametrize("name", FUSED)
def test_what_is_done_to_elements_is_part_of_the_product(name: str) -> None:
    assert "tetrax_gemm_then_f32" in _kernels(FUSED[name], *_operands(200, 300, 150))


@pytest.mark.parametrize("name", APART)
def test_what_is_not(name: str) -> None:
    assert "tetrax_gemm_then" not in _kernels(APART[name], *_operands(200, 300, 150))


def test_a_product_that_nobody_else_reads_has_no_memory() -> None:
    alone = _kernels(bias, *_operands(200, 300, 150))
    assert alone.count("out f32[30000]") == 1
    both = _kernels(product_too, *_operands(200, 300, 150))
    assert both.count("out f32[30000]") == 2


def test_gradients_and_tokens() -> None:
    """Several axes of rows, and the products of the derivative."""
    x, w, b = _operands(256, 128, 64)

    def loss(lib: Any, x: Any, w: Any, b: Any) -> Any:
        y = lib.maximum(lib.einsum("bsd,df->bsf", x.reshape(8, 32, 128), w) + b, 0)
        return (y * y).sum()

    value, (dw, db) = tetrax.jit(tetrax.value_and_grad(lambda w, b: loss(tnp, x, w, b), (0, 1)))(
        w, b
    )
    wide = [a.astype(np.float64) for a in (x, w, b)]
    active = np.maximum(wide[0] @ wide[1] + wide[2], 0)
    np.testing.assert_allclose(value, (active**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(dw, wide[0].T @ (2 * active), rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(db, (2 * active).sum(0), rtol=1e-4)
