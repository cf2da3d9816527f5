"""The rows: one small program each, written for any library with JAX's API, and in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """`program(lib)` gives a function of `inputs`; `numpy` is how a NumPy user would write it."""

    name: str
    program: Callable[[Any], Callable[..., Any]]
    inputs: Callable[[np.random.Generator], tuple[Any, ...]]
    numpy: Callable[..., Any] | None = None


def _normal(*shape: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    return lambda rng: (rng.standard_normal(shape).astype(np.float32),)


def _gelu(lib: Any) -> Callable[..., Any]:
    jnp = lib.numpy
    return lambda x: 0.5 * x * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def _softmax(lib: Any) -> Callable[..., Any]:
    return lambda x: lib.nn.softmax(x, axis=-1)


def _softmax_numpy(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _lorenz(lib: Any) -> Callable[..., Any]:
    jnp, lax = lib.numpy, lib.lax

    def step(state: Any, _: None) -> tuple[Any, None]:
        x, y, z = state
        return (
            x + 0.01 * 10 * (y - x),
            y + 0.01 * (x * (28 - z) - y),
            z + 0.01 * (x * y - 8 / 3 * z),
        ), None

    return lambda s: jnp.stack(lax.scan(step, (s[0], s[1], s[2]), None, length=10_000)[0])


def _mlp_gradient(lib: Any) -> Callable[..., Any]:
    jnp = lib.numpy

    def loss(w1: Any, w2: Any, x: Any) -> Any:
        return (jnp.tanh(x @ w1) @ w2).sum()

    return lib.grad(loss, argnums=(0, 1))


def _mlp_inputs(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return tuple(
        rng.standard_normal(shape).astype(np.float32)
        for shape in ((784, 512), (512, 10), (128, 784))
    )


ROWS = (
    Row(
        "gelu 1M",
        _gelu,
        _normal(1_000_000),
        lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))),
    ),
    Row("softmax 1000x1000", _softmax, _normal(1000, 1000), _softmax_numpy),
    Row("sum 10M", lambda lib: lambda x: lib.numpy.sum(x), _normal(10_000_000), np.sum),
    Row("cumsum 10M", lambda lib: lambda x: lib.numpy.cumsum(x), _normal(10_000_000), np.cumsum),
    Row("matmul 512", lambda lib: lambda x: x @ x, _normal(512, 512), lambda x: x @ x),
    Row("sort 1M", lambda lib: lambda x: lib.numpy.sort(x), _normal(1_000_000), np.sort),
    Row("MLP gradient", _mlp_gradient, _mlp_inputs),
    Row("Lorenz, 10k steps of a scan", _lorenz, lambda rng: (np.ones(3, np.float32),)),
)
