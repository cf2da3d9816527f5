"""Activation functions, elementwise; the derivatives at kinks are JAX's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tetrax import lax
from tetrax import numpy as jnp
from tetrax.higher_order.custom_derivatives import custom_jvp
from tetrax.nn._arguments import as_array, as_inexact, check_arrays


def identity(x: Any) -> Any:
    """`x` itself."""
    return as_array("identity", x)


@custom_jvp
def relu(x: Any) -> Any:
    """max(x, 0); its derivative at 0 is 0.

    >>> relu(np.array([-1.0, 2.0], np.float32))
    Array([0., 2.], dtype=float32)
    """
    return jnp.maximum(x, 0)


relu.defjvps(lambda t, out, x: lax.select(x > 0, t, lax.full_like(t, 0)))


@custom_jvp
def relu6(x: Any) -> Any:
    """min(max(x, 0), 6); its derivative at 0 and 6 is 0."""
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


relu6.defjvps(lambda t, out, x: lax.select((x > 0) & (x < 6), t, lax.full_like(t, 0)))


def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + sqrt(x² + b)) / 2, a smooth relu without exponentials."""
    x, b = as_array("squareplus", x), as_array("squareplus", b)
    return (x + jnp.sqrt(jnp.square(x) + b)) / 2


def softplus(x: Any) -> Any:
    """log(1 + e^x), without overflow.

    >>> softplus(1000.0)
    Array(1000., dtype=float32, weak_type=True)
    """
    return jnp.logaddexp(x, 0)


def sparse_plus(x: Any) -> Any:
    """0 below -1, x above 1, and (x + 1)² / 4 between."""
    x = as_array("sparse_plus", x)
    return jnp.where(x <= -1.0, 0.0, jnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


def soft_sign(x: Any) -> Any:
    """x / (|x| + 1)."""
    x = as_array("soft_sign", x)
    return x / (jnp.abs(x) + 1)


def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x)."""
    return lax.logistic(x)


def sparse_sigmoid(x: Any) -> Any:
    """0 below -1, 1 above 1, and (x + 1) / 2 between."""
    return 0.5 * jnp.clip(as_array("sparse_sigmoid", x) + 1.0, 0.0, 2.0)


def silu(x: Any) -> Any:
    """x times its sigmoid."""
    x = as_array("silu", x)
    return x * sigmoid(x)


swish = silu


def mish(x: Any) -> Any:
    """x tanh(softplus(x))."""
    x = as_array("mish", x)
    return x * jnp.tanh(softplus(x))


def log_sigmoid(x: Any) -> Any:
    """log(1 / (1 + e^-x)), precise where the sigmoid is nearly 0."""
    return -softplus(-as_array("log_sigmoid", x))


def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x where positive, alpha (e^x - 1) elsewhere."""
    x = as_array("elu", x)
    # expm1 of large positive x would overflow, and spoil the derivative of the branch not taken.
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, 0.0, x)))


def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Any:
    """x where not negative, negative_slope x elsewhere."""
    x = as_array("leaky_relu", x)
    return jnp.where(x >= 0, x, negative_slope * x)


def hard_tanh(x: Any) -> Any:
    """x clipped to [-1, 1]."""
    x = as_array("hard_tanh", x)
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x))


def celu(x: Any, alpha: Any = 1.0) -> Any:
    """x where positive, alpha (e^(x / alpha) - 1) elsewhere."""
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


def selu(x: Any) -> Any:
    """`elu` scaled so that layers keep mean 0 and variance 1 (Klambauer et al. 2017)."""
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def gelu(x: Any, approximate: bool = True) -> Any:
    """x times the normal distribution function, by its tanh approximation or exactly."""
    x = as_inexact("gelu", x)
    if not approximate:
        root_half = np.sqrt(0.5).astype(x.dtype)
        return (0.5 * x * lax.erfc(-x * root_half)).astype(x.dtype)
    slope = np.sqrt(2 / math.pi).astype(x.dtype)
    return x * (0.5 * (1.0 + jnp.tanh(slope * (x + 0.044715 * (x**3)))))


def glu(x: Any, axis: int = -1) -> Any:
    """The first half of `x` along `axis`, gated by the sigmoid of the second.

    Raises ValueError unless the axis has an even size.
    """
    x = as_array("glu", x)
    if x.shape[axis] % 2:
        raise ValueError(f"glu: axis size must be divisible by 2, got axis {axis} of {x.shape}")
    first, second = jnp.split(x, 2, axis)
    return first * sigmoid(second)


def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6."""
    return relu6(as_array("hard_sigmoid", x) + 3.0) / 6.0


def hard_silu(x: Any) -> Any:
    """x times its `hard_sigmoid`."""
    x = as_array("hard_silu", x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


def tanh(x: Any, /) -> Any:
    """Hyperbolic tangent."""
    return jnp.tanh(x)


@custom_jvp
def log1mexp(x: Any) -> Any:
    """log(1 - e^-x) for x > 0, precise near 0 and for large x."""
    check_arrays("log1mexp", x)
    return jnp.where(x < math.log(2.0), jnp.log(-jnp.expm1(-x)), jnp.log1p(-jnp.exp(-x)))


log1mexp.defjvps(lambda t, out, x: t / jnp.expm1(x))
