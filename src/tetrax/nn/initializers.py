"""Initial weights: functions `(key, shape, dtype) -> array`, most of them made by a factory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from tetrax import dtypes, random
from tetrax import numpy as jnp

Axes = int | Sequence[int]


@runtime_checkable
class Initializer(Protocol):
    """What makes initial weights from a key, a shape and a dtype."""

    def __call__(self, key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        raise NotImplementedError


def _initializer(draw: Callable[[Any, tuple[int, ...], Any], Any], default: Any) -> Initializer:
    """An initializer from `draw(key, shape, dtype)`, with a default dtype."""

    def init(key: Any, shape: Any, dtype: Any = default, out_sharding: Any = None) -> Any:
        dtype = dtypes.default_float_dtype() if dtype is None else dtype
        return draw(key, tuple(shape), dtypes.check_and_canonicalize_user_dtype(dtype))

    return init


def zeros(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """Zeros."""
    return jnp.zeros(shape, dtypes.default_float_dtype() if dtype is None else dtype)


def ones(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """Ones."""
    return jnp.ones(shape, dtypes.default_float_dtype() if dtype is None else dtype)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """An initializer that fills with `value`."""
    return _initializer(lambda key, shape, dtype: jnp.full(shape, value, dtype), dtype)


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer uniform in [0, scale)."""
    return _initializer(
        lambda key, shape, dtype: random.uniform(key, shape, dtype) * jnp.asarray(scale, dtype),
        dtype,
    )


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """A normal initializer."""
    return _initializer(
        lambda key, shape, dtype: random.normal(key, shape, dtype) * jnp.asarray(stddev, dtype),
        dtype,
    )


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
) -> Initializer:
    """A normal initializer without values beyond `lower` and `upper` standard deviations."""

    def draw(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        samples = random.truncated_normal(key, lower, upper, shape, dtype)
        return samples * jnp.asarray(stddev, dtype)

    return _initializer(draw, dtype)


def _size(shape: tuple[int, ...], axes: Axes) -> int:
    return shape[axes] if isinstance(axes, int) else math.prod(shape[axis] for axis in axes)


def _fans(
    shape: tuple[int, ...], in_axis: Axes, out_axis: Axes, batch_axis: Axes
) -> tuple[float, float]:
    """How many inputs each output sees, and how many outputs each input feeds."""
    if isinstance(in_axis, int) and in_axis == -2 and len(shape) <= 1:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor "
            "with default in_axis. Must be at least 2D or specify in_axis explicitly."
        )
    inputs, outputs = _size(shape, in_axis), _size(shape, out_axis)
    field = math.prod(shape) / inputs / outputs / _size(shape, batch_axis)
    return inputs * field, outputs * field


_MODES: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "fan_geo_avg": lambda fan_in, fan_out: (fan_in * fan_out) ** 0.5,
}
# Standard deviations of normal samples cut at 2, on the line and in the complex plane.
_CUT_REAL, _CUT_COMPLEX = 0.87962566103423978, 0.95311164380491208


def _draw_truncated_normal(key: Any, shape: tuple[int, ...], dtype: Any, variance: Any) -> Any:
    if not dtypes.issubdtype(dtype, np.complexfloating):
        samples = random.truncated_normal(key, -2, 2, shape, dtype)
        return samples * (jnp.sqrt(variance) / jnp.asarray(_CUT_REAL, dtype))
    radius_key, angle_key = random.split(key)
    part = np.zeros((), dtype).real.dtype
    mass = 1 - jnp.exp(jnp.asarray(-4, dtype))
    radius = jnp.sqrt(-jnp.log(1 - mass * random.uniform(radius_key, shape, part).astype(dtype)))
    angle = 2 * math.pi * random.uniform(angle_key, shape, part).astype(dtype)
    stddev = jnp.sqrt(variance) / jnp.asarray(_CUT_COMPLEX, dtype)
    return radius * jnp.exp(1j * angle) * stddev


def _draw_normal(key: Any, shape: tuple[int, ...], dtype: Any, variance: Any) -> Any:
    return random.normal(key, shape, dtype) * jnp.sqrt(variance)


def _draw_uniform(key: Any, shape: tuple[int, ...], dtype: Any, variance: Any) -> Any:
    if not dtypes.issubdtype(dtype, np.complexfloating):
        return random.uniform(key, shape, dtype, -1) * jnp.sqrt(3 * variance)
    radius_key, angle_key = random.split(key)
    part = np.zeros((), dtype).real.dtype
    radius = jnp.sqrt(2 * random.uniform(radius_key, shape, part)).astype(dtype)
    angle = 2 * math.pi * random.uniform(angle_key, shape, part).astype(dtype)
    return radius * jnp.exp(1j * angle) * jnp.sqrt(variance)


_DISTRIBUTIONS: dict[str, Callable[..., Any]] = {
    "truncated_normal": _draw_truncated_normal,
    "normal": _draw_normal,
    "uniform": _draw_uniform,
}


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """An initializer with variance scale / n, where n is the fan that `mode` names.

    Modes: fan_in, fan_out, fan_avg, fan_geo_avg. Distributions: truncated_normal, normal, uniform.
    Raises ValueError for another one when it is called.
    """

    def draw(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        fans = _fans(shape, in_axis, out_axis, batch_axis)
        if mode not in _MODES:
            raise ValueError(f"invalid mode for variance scaling initializer: {mode}")
        if distribution not in _DISTRIBUTIONS:
            raise ValueError(
                f"invalid distribution for variance scaling initializer: {distribution}"
            )
        variance = jnp.asarray(scale / _MODES[mode](*fans), dtype)
        return _DISTRIBUTIONS[distribution](key, shape, dtype, variance)

    return _initializer(draw, dtype)


def glorot_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Uniform, with variance 2 / (fan_in + fan_out) (Glorot and Bengio 2010)."""
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Truncated normal, with variance 2 / (fan_in + fan_out) (Glorot and Bengio 2010)."""
    return variance_scaling(
        1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype
    )


def lecun_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Uniform, with variance 1 / fan_in (LeCun et al. 1998)."""
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Truncated normal, with variance 1 / fan_in (LeCun et al. 1998)."""
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Uniform, with variance 2 / fan_in (He et al. 2015)."""
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Truncated normal, with variance 2 / fan_in (He et al. 2015)."""
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of matrices with orthogonal rows or columns, times `scale`.

    Axes other than `column_axis` are taken together. Raises ValueError below two axes.
    """

    def draw(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("orthogonal initializer requires at least a 2D shape")
        if 0 in shape:
            return jnp.zeros(shape, dtype)
        columns = shape[column_axis]
        rows = math.prod(shape) // columns
        matrix = random.orthogonal(key, rows, (), dtype, columns)
        others = tuple(int(n) for n in np.delete(shape, column_axis))
        matrix = jnp.moveaxis(matrix.reshape((*others, columns)), -1, column_axis)
        return jnp.asarray(scale, dtype) * matrix

    return _initializer(draw, dtype)


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of convolution kernels that are orthogonal at their centre, else 0.

    The last two axes are input and output features (Xiao et al. 2018). Raises ValueError unless
    there are 3 to 5 axes and no fewer outputs than inputs.
    """

    def draw(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        if len(shape) not in (3, 4, 5):
            raise ValueError("Delta orthogonal initializer requires a 3D, 4D or 5D shape.")
        if shape[-1] < shape[-2]:
            raise ValueError("`fan_in` must be less or equal than `fan_out`. ")
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        centre = tuple((n - 1) // 2 for n in shape[:-2])
        return jnp.zeros(shape, dtype).at[centre].set(matrix)

    return _initializer(draw, dtype)


__all__ = [
    "Initializer",
    "constant",
    "delta_orthogonal",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]
