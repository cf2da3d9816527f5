"""New arrays of a given shape, and evenly spaced numbers."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from tetrax import dtypes, errors, lax
from tetrax.compiler.planned import planned
from tetrax.numpy._convert import placed
from tetrax.numpy._promote import (
    broadcast_array,
    canonicalize_axis,
    canonicalize_shape,
    check_arraylike,
    convert,
    ensure_arraylike,
    promote_dtypes,
    to_array,
    user_dtype,
)
from tetrax.numpy._typing import Array, ArrayLike, Device, DTypeLike, Shape
from tetrax.runtime.array import make_array
from tetrax.runtime.placement import sharding_for
from tetrax.tracing.trace import Tracer, concrete_or_error

# --------------------------------------------------------------------------- constant arrays


def _constant(
    name: str, shape: Any, value: Any, dtype: DTypeLike, device: Device, out_sharding: Any
) -> Array:
    dtype = user_dtype(float if dtype is None else dtype, name)
    return placed(lax.full(canonicalize_shape(shape, name), value, dtype), device, out_sharding)


@planned(0)
def zeros(
    shape: Any, dtype: DTypeLike = None, *, device: Device = None, out_sharding: Any = None
) -> Array:
    """Make an array of zeros.

    >>> zeros(3)
    Array([0., 0., 0.], dtype=float32)
    """
    if isinstance(shape, str):
        raise TypeError("expected sequence object with len >= 0 or a single integer")
    return _constant("zeros", shape, 0, dtype, device, out_sharding)


@planned(0)
def ones(
    shape: Any, dtype: DTypeLike = None, *, device: Device = None, out_sharding: Any = None
) -> Array:
    """Make an array of ones."""
    if isinstance(shape, str):
        raise TypeError("expected sequence object with len >= 0 or a single integer")
    return _constant("ones", shape, 1, dtype, device, out_sharding)


def empty(
    shape: Any, dtype: DTypeLike = None, *, device: Device = None, out_sharding: Any = None
) -> Array:
    """Make an array whose contents do not matter; they are zeros."""
    return _constant("empty", shape, 0, dtype, device, out_sharding)


@planned(0)
def full(
    shape: Any,
    fill_value: ArrayLike,
    dtype: DTypeLike = None,
    *,
    device: Device = None,
    out_sharding: Any = None,
) -> Array:
    """Make an array filled with a value, which may be an array that broadcasts to the shape.

    >>> full((2, 2), 7)
    Array([[7, 7],
           [7, 7]], dtype=int32, weak_type=True)
    """
    check_arraylike("full", fill_value)
    value = to_array(fill_value)
    if dtype is not None:
        value = convert(value, user_dtype(dtype, "full"))
    shape = canonicalize_shape(shape, "full")
    return placed(_filled(value, shape), device, out_sharding)


def _filled(value: Array, shape: Shape) -> Array:
    if value.ndim == 0:
        return lax.broadcast_in_dim(value, shape, ())
    if value.ndim > len(shape):
        raise ValueError(f"A fill value of shape {value.shape} does not broadcast to {shape}.")
    return broadcast_array(value, shape)


def _like(
    name: str,
    a: Any,
    value: ArrayLike,
    dtype: DTypeLike,
    shape: Any,
    device: Device,
    sharding: Any = None,
) -> Array:
    if not (hasattr(a, "dtype") and hasattr(a, "shape")):
        a = ensure_arraylike(name, a)
    check_arraylike(name, value)
    weak_type = dtype is None and dtypes.is_weakly_typed(a)
    target = dtypes.canonicalize_dtype(a.dtype, allow_extended_dtype=True)
    if dtype is not None:
        target = user_dtype(dtype, name)
    shape = tuple(a.shape) if shape is None else canonicalize_shape(shape, name)
    if device is None and sharding is None:
        device = sharding_for(a, shape)
    if np.ndim(value) == 0 and not weak_type:
        return placed(lax.full(shape, value, target), device, sharding)
    return placed(_filled(convert(value, target, weak_type), shape), device, sharding)


@planned(1)
def zeros_like(
    a: Any,
    dtype: DTypeLike = None,
    shape: Any = None,
    *,
    device: Device = None,
    out_sharding: Any = None,
) -> Array:
    """Make zeros of the shape and dtype of another array."""
    return _like("zeros_like", a, 0, dtype, shape, device, out_sharding)


@planned(1)
def ones_like(
    a: Any,
    dtype: DTypeLike = None,
    shape: Any = None,
    *,
    device: Device = None,
    out_sharding: Any = None,
) -> Array:
    """Make ones of the shape and dtype of another array."""
    return _like("ones_like", a, 1, dtype, shape, device, out_sharding)


def empty_like(
    prototype: Any, dtype: DTypeLike = None, shape: Any = None, *, device: Device = None
) -> Array:
    """Make an array of the shape and dtype of another one; its contents are zeros."""
    return _like("empty_like", prototype, 0, dtype, shape, device)


def full_like(
    a: Any,
    fill_value: ArrayLike,
    dtype: DTypeLike = None,
    shape: Any = None,
    *,
    device: Device = None,
    out_sharding: Any = None,
) -> Array:
    """Make an array of the shape and dtype of another one, filled with a value."""
    return _like("full_like", a, fill_value, dtype, shape, device, out_sharding)


# --------------------------------------------------------------------------- diagonals


@planned(0)
def eye(
    N: int, M: int | None = None, k: Any = 0, dtype: DTypeLike = None, *, device: Device = None
) -> Array:
    """Make a matrix with ones on the k-th diagonal.

    >>> eye(2, k=1)
    Array([[0., 1.],
           [0., 0.]], dtype=float32)
    """
    dtype = user_dtype(float if dtype is None else dtype, "eye")
    rows = canonicalize_shape(N, "argument of 'N' jnp.eye()")[0]
    columns = rows if M is None else canonicalize_shape(M, "argument of 'M' jnp.eye()")[0]
    offset = ensure_arraylike("eye", k)
    if not dtypes.issubdtype(offset.dtype, np.integer):
        raise ValueError(f"eye: k must be an integer, got {k!r}")
    i = lax.broadcasted_iota(np.int32, (rows, columns), 0)
    j = lax.broadcasted_iota(np.int32, (rows, columns), 1)
    offset = lax.convert_element_type(offset, np.int32)
    return placed(lax.convert_element_type(lax.eq(lax.add(i, offset), j), dtype), device)


def identity(n: int, dtype: DTypeLike = None) -> Array:
    """Make a square identity matrix."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None) -> Array:
    """Make a matrix with ones on and below the k-th diagonal."""
    dtype = user_dtype(np.float32 if dtype is None else dtype, "tri")
    return lax.convert_element_type(triangle((N, N if M is None else M), k), dtype)


def triangle(shape: Shape, k: int) -> Array:
    """Return a boolean matrix that is true on and below the k-th diagonal."""
    shape = canonicalize_shape(shape, "tri")
    i = lax.broadcasted_iota(np.int32, shape, 0)
    j = lax.broadcasted_iota(np.int32, shape, 1)
    return lax.ge(lax.add(i, convert(k, np.dtype(np.int32))), j)


# --------------------------------------------------------------------------- ranges


@planned(0)
def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: DTypeLike = None,
    *,
    device: Device = None,
    out_sharding: Any = None,
) -> Array:
    """Make numbers from `start` up to, not including, `stop`, in steps.

    The arguments must be known, since they decide the size.

    >>> arange(3)
    Array([0, 1, 2], dtype=int32)
    """
    if dtype is not None:
        dtype = user_dtype(dtype, "arange")
    names = ("start", "stop", "step") if stop is not None else ("stop", "stop", "step")
    bounds = [_known_bound(x, name) for x, name in zip((start, stop, step), names, strict=True)]
    if dtype is None:
        given = [x for x in bounds if x is not None]
        dtype = dtypes.result_type(*given)
    first, last, stride = (None if x is None else _as_number(x) for x in bounds)
    if last is None:
        first, last = 0, first
    if stride is None:
        stride = 1
    if stride == 0:
        raise ZeroDivisionError("jax.numpy.arange: the step must not be zero")
    if dtype == np.bool_:
        raise TypeError("jax.numpy.arange does not make booleans; convert with astype(bool)")
    return placed(_range(first, last, stride, dtype), device, out_sharding)


def _known_bound(x: Any, name: str) -> Any:
    if x is None:
        return None
    if isinstance(x, Tracer):
        where = f"It arose in the jnp.arange argument '{name}'"
        x = concrete_or_error(x, errors.ConcretizationTypeError, where)
    if np.ndim(x) != 0:
        raise ValueError(f"jax.numpy.arange: arguments must be scalars; got {name}={x}")
    check_arraylike("arange", x)
    if dtypes.issubdtype(dtypes.dtype(x), np.complexfloating):
        raise ValueError(
            "jnp.arange does not take complex start, stop or step: they have no order."
        )
    return x


def _as_number(x: Any) -> int | float:
    whole = dtypes.issubdtype(dtypes.dtype(x), np.integer) or dtypes.dtype(x) == np.bool_
    return int(x) if whole else float(x)


def _range(first: float, last: float, stride: float, dtype: np.dtype) -> Array:
    size = max(math.ceil((last - first) / stride), 0)
    if first == 0 and stride == 1:
        return lax.iota(dtype, size)
    whole = isinstance(first, int) and isinstance(stride, int)
    if whole and dtypes.issubdtype(dtype, np.integer) and dtype.itemsize >= 4:
        steps = lax.iota(dtype, size)
        scaled = (
            steps if stride == 1 else lax.mul(steps, make_array(np.asarray(stride).astype(dtype)))
        )
        return lax.add(scaled, make_array(np.asarray(first).astype(dtype)))
    # A known result of few elements or of a narrow dtype: NumPy's own rounding is the contract.
    wide = first + stride * np.arange(size, dtype=np.int64 if whole else np.float64)
    with np.errstate(all="ignore"):
        return make_array(np.asarray(wide).astype(dtype))


@planned(0)
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike = None,
    axis: int = 0,
    *,
    device: Device = None,
) -> Any:
    """Make `num` evenly spaced numbers from `start` to `stop`; the ends may be arrays.

    >>> linspace(0, 1, 3)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    check_arraylike("linspace", start, stop)
    num = _sample_count(num, "num of jnp.linspace")
    if dtype is None:
        dtype = dtypes.to_inexact_dtype(dtypes.result_type(start, stop))
    dtype = user_dtype(dtype, "linspace")
    computing = dtypes.to_inexact_dtype(dtypes.result_type(start, stop, dtype))
    first, last = convert(start, computing), convert(stop, computing)
    shape = lax.broadcast_shapes(first.shape, last.shape)
    first, last = broadcast_array(first, shape), broadcast_array(last, shape)
    intervals = num - 1 if endpoint else num
    distance = lax.sub(last, first)
    delta = (
        lax.div(distance, lax.full_like(distance, intervals))
        if intervals > 0
        else lax.full_like(distance, math.nan)
    )
    out = _interpolated(first, last, num, intervals, endpoint)
    axis = canonicalize_axis(axis, out.ndim)
    if axis:
        out = lax.transpose(out, (*range(1, axis + 1), 0, *range(axis + 1, out.ndim)))
    if dtypes.issubdtype(dtype, np.integer) and not dtypes.issubdtype(out.dtype, np.integer):
        out = lax.floor(out)
    out = placed(lax.convert_element_type(out, dtype), device)
    return (out, delta) if retstep else out


def _sample_count(num: Any, what: str) -> int:
    if isinstance(num, Tracer):
        num = concrete_or_error(num, errors.ConcretizationTypeError, f"It arose in {what}")
    try:
        count = int(num.__index__())
    except AttributeError as error:
        raise TypeError(f"{what} must be an integer, got {num!r}") from error
    if count < 0:
        raise ValueError(f"Number of samples, {count}, must be non-negative.")
    return count


def _interpolated(first: Array, last: Array, num: int, intervals: int, endpoint: bool) -> Array:
    """Weigh the two ends along a new first axis; the last sample is the end itself, exactly."""
    shape = (num, *first.shape)
    if num == 0:
        return lax.full(shape, 0, first.dtype)
    rows = tuple(range(1, len(shape)))
    if num == 1:
        return lax.expand_dims(first, (0,))
    weight_dtype = dtypes.finfo(first.dtype).dtype
    steps = lax.convert_element_type(lax.iota(np.int32, num), weight_dtype)
    if weight_dtype.itemsize < 4:  # too narrow to count in
        steps = lax.convert_element_type(lax.iota(np.int32, num), np.float32)
    weight = lax.div(steps, lax.full_like(steps, intervals))
    weight = lax.broadcast_in_dim(lax.convert_element_type(weight, first.dtype), shape, (0,))
    start, stop = (lax.broadcast_in_dim(x, shape, rows) for x in (first, last))
    inside = lax.add(
        lax.mul(start, lax.sub(lax.full_like(weight, 1), weight)), lax.mul(stop, weight)
    )
    if not endpoint:
        return inside
    return lax.concatenate([lax.slice_in_dim(inside, 0, num - 1), lax.expand_dims(last, (0,))], 0)


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike = None,
    axis: int = 0,
) -> Array:
    """Make `num` numbers, even on a logarithmic scale, from `base**start` to `base**stop`."""
    check_arraylike("logspace", start, stop, base)
    if dtype is None:
        dtype = dtypes.to_inexact_dtype(dtypes.result_type(start, stop))
    dtype = user_dtype(dtype, "logspace")
    computing = dtypes.to_inexact_dtype(dtypes.result_type(start, stop, dtype))
    exponents = linspace(
        convert(start, computing), convert(stop, computing), num, endpoint, axis=axis
    )
    bases = broadcast_array(convert(base, computing), exponents.shape)
    result = lax.pow(bases, exponents)
    return _rounded_to(result, dtype)


def _rounded_to(x: Array, dtype: np.dtype) -> Array:
    """Convert to the dtype; for integers, forgive a rounding error below a whole number."""
    if not dtypes.issubdtype(dtype, np.integer):
        return lax.convert_element_type(x, dtype)
    slack = lax.mul(lax.abs(x), lax.full_like(x, 8 * float(dtypes.finfo(x.dtype).eps)))
    return lax.convert_element_type(lax.floor(lax.add(x, slack)), dtype)


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike = None,
    axis: int = 0,
) -> Array:
    """Make `num` numbers of constant ratio from `start` to `stop`; both ends are exact."""
    check_arraylike("geomspace", start, stop)
    if dtype is None:
        dtype = dtypes.to_inexact_dtype(dtypes.result_type(start, stop))
    dtype = user_dtype(dtype, "geomspace")
    computing = dtypes.to_inexact_dtype(dtypes.result_type(start, stop, dtype))
    first, last = promote_dtypes(convert(start, computing), convert(stop, computing))
    shape = lax.broadcast_shapes(first.shape, last.shape)
    first, last = broadcast_array(first, shape), broadcast_array(last, shape)
    sign = lax.sign(first)
    ends = (lax.log(lax.div(end, sign)) for end in (first, last))
    exponents = linspace(*ends, num, endpoint, axis=0)
    steps = lax.mul(lax.exp(exponents), broadcast_array(sign, exponents.shape))
    steps = _with_exact_ends(steps, first, last if endpoint else None)
    axis = canonicalize_axis(axis, steps.ndim)
    if axis:
        steps = lax.transpose(steps, (*range(1, axis + 1), 0, *range(axis + 1, steps.ndim)))
    return _rounded_to(steps, dtype)


def _with_exact_ends(steps: Array, first: Array, last: Array | None) -> Array:
    num = steps.shape[0]
    if num == 0:
        return steps
    parts = [lax.expand_dims(first, (0,))]
    if num > 1:
        stop = num if last is None else num - 1
        parts.append(lax.slice_in_dim(steps, 1, stop))
        if last is not None:
            parts.append(lax.expand_dims(last, (0,)))
    return lax.concatenate(parts, 0)


# --------------------------------------------------------------------------- powers


def vander_powers(x: Array, count: int, *, increasing: bool) -> Array:
    """Return the matrix whose columns are powers of a vector."""
    exponents = np.arange(count, dtype=np.int32)
    if not increasing:
        exponents = exponents[::-1]
    columns = [lax.integer_pow(x, int(exponent)) for exponent in exponents]
    if not columns:
        return lax.full((x.shape[0], 0), 0, x.dtype)
    return lax.concatenate([lax.expand_dims(column, (1,)) for column in columns], 1)


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """Return the Vandermonde matrix: the powers of each element, highest first."""
    x = ensure_arraylike("vander", x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array")
    count = x.shape[0] if N is None else operator.index(N)
    if count < 0:
        raise ValueError("N must be nonnegative")
    return vander_powers(convert(x, x.dtype), count, increasing=increasing)
