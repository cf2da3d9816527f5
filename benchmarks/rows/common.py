"""What rows share: random inputs, and gradients as a PyTorch user takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def generator() -> np.random.Generator:
    """The source of every row's inputs, always in the same state."""
    return np.random.default_rng(0)


def normal(*shape: int, dtype: Any = np.float32) -> Array:
    """Standard normal numbers."""
    return generator().standard_normal(shape).astype(dtype)


def normals(*shapes: tuple[int, ...], scale: float = 1.0) -> tuple[Array, ...]:
    """One array of normal numbers per shape, all different."""
    source = generator()
    return tuple((scale * source.standard_normal(shape)).astype(np.float32) for shape in shapes)


def uniform(*shape: int, low: float = 0.0, high: float = 1.0, dtype: Any = np.float32) -> Array:
    """Uniform numbers in an interval."""
    return generator().uniform(low, high, shape).astype(dtype)


def integers(*shape: int, below: int) -> Array:
    """32-bit integers from 0 up to a bound."""
    return generator().integers(0, below, shape).astype(np.int32)


def size_in_bytes(*arrays: Array) -> float:
    """Bytes of arrays together."""
    return float(sum(array.nbytes for array in arrays))


def torch_gradient(torch: Any, loss: Callable[..., Any], *inputs: Any) -> tuple[Any, ...]:
    """The loss's gradient with respect to every input, by autograd."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    return torch.autograd.grad(loss(*leaves), leaves)
