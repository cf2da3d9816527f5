"""Reductions: sums, products, extremes, means, variances, and the positions of extremes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax import dtypes, errors, lax
from tetrax.compiler.planned import planned
from tetrax.numpy._arithmetic import as_bool
from tetrax.numpy._promote import (
    broadcast_array,
    canonicalize_axes,
    canonicalize_axis,
    check_arraylike,
    check_arraylike_or_none,
    check_no_out,
    convert,
    ensure_arraylike,
    to_array,
    user_dtype,
)
from tetrax.numpy._typing import Array, ArrayLike, Axis, DTypeLike, Shape
from tetrax.tracing.trace import Tracer, concrete_or_error
from tetrax.tracing.value import Value

# --------------------------------------------------------------------------- shared machinery


def _is(x: Array, kind: type) -> bool:
    return dtypes.issubdtype(x.dtype, kind)


def reduction_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """Return the axes of a reduction; `axis` must be known."""
    if isinstance(axis, Value):
        if isinstance(axis, Tracer):
            axis = concrete_or_error(
                axis, errors.ConcretizationTypeError, "axis argument of a reduction"
            )
        axis = np.asarray(axis).tolist()
    if isinstance(axis, float):
        raise TypeError(f"a reduction axis must be an integer, got {axis!r}")
    return canonicalize_axes(tuple(axis) if isinstance(axis, list) else axis, rank)


def kept_shape(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """Return the shape with the reduced axes kept as ones."""
    return tuple(1 if i in axes else size for i, size in enumerate(shape))


def _finish(result: Array, shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Array:
    return lax.reshape(result, kept_shape(shape, axes)) if keepdims and axes else result


def masked(a: Array, where: ArrayLike | None, filler: Any) -> Array:
    """Replace the elements outside a mask, which may broadcast, by a neutral value."""
    if where is None:
        return a
    mask = as_bool(to_array(where))
    shape = lax.broadcast_shapes(a.shape, mask.shape)
    a = broadcast_array(a, shape)
    return lax.select(broadcast_array(mask, shape), a, lax.full_like(a, filler))


def _wide_integer(dtype: np.dtype) -> np.dtype:
    """Return the dtype in which NumPy sums integers: never narrower than the default one."""
    if dtype == np.bool_:
        return dtypes.default_int_dtype()
    unsigned = dtypes.issubdtype(dtype, np.unsignedinteger)
    if not unsigned and not dtypes.issubdtype(dtype, np.integer):
        return dtype
    default = dtypes.default_uint_dtype() if unsigned else dtypes.default_int_dtype()
    return default if dtypes.itemsize_bits(dtype) < dtypes.itemsize_bits(default) else dtype


def computation_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype to accumulate in: float32 for the narrower floats."""
    if dtypes.issubdtype(dtype, np.floating) and dtypes.itemsize_bits(dtype) < 32:
        return np.dtype(np.float32)
    return dtype


def _accumulate(
    name: str,
    reduce: Callable[..., Array],
    combine: Callable[..., Array],
    identity: int,
    a: ArrayLike,
    axis: Axis,
    dtype: DTypeLike,
    out: None,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
    promote_integers: bool,
) -> Array:
    """Sum or multiply along axes."""
    check_no_out(name, out)
    check_arraylike_or_none(name, a, initial, where)
    a = to_array(a)
    if dtype is not None:
        target = user_dtype(dtype, name)
    else:
        target = _wide_integer(a.dtype) if promote_integers or a.dtype == np.bool_ else a.dtype
    axes = reduction_axes(axis, a.ndim)
    a = masked(convert(a, computation_dtype(target)), where, identity)
    result = _finish(reduce(a, axes), a.shape, axes, keepdims)
    if initial is not None:
        result = combine(result, convert(initial, result.dtype))
    return convert(result, target)


# --------------------------------------------------------------------------- sums and products


@planned(1)
def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Add elements along axes; narrow integers are summed in the default integer dtype.

    >>> sum(np.ones((2, 3)), axis=0)
    Array([2., 2., 2.], dtype=float32)
    """
    return _accumulate(
        "sum",
        lax.reduce_sum,
        lax.add,
        0,
        a,
        axis,
        dtype,
        out,
        keepdims,
        initial,
        where,
        promote_integers,
    )


@planned(1)
def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Multiply elements along axes; narrow integers are multiplied in the default integer dtype."""
    return _accumulate(
        "prod",
        lax.reduce_prod,
        lax.mul,
        1,
        a,
        axis,
        dtype,
        out,
        keepdims,
        initial,
        where,
        promote_integers,
    )


# --------------------------------------------------------------------------- extremes


def _lowest(dtype: np.dtype) -> Any:
    if dtypes.issubdtype(dtype, np.integer):
        return dtypes.iinfo(dtype).min
    return -np.inf if dtypes.supports_inf(dtype) else dtypes.finfo(dtype).min


def _highest(dtype: np.dtype) -> Any:
    if dtypes.issubdtype(dtype, np.integer):
        return dtypes.iinfo(dtype).max
    return np.inf if dtypes.supports_inf(dtype) else dtypes.finfo(dtype).max


def _extreme(
    name: str,
    a: ArrayLike,
    axis: Axis,
    out: None,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Array:
    check_no_out(name, out)
    check_arraylike_or_none(name, a, initial, where)
    a = to_array(a)
    if where is not None and initial is None:
        raise ValueError(
            f"reduction operation {name} does not have an identity, so to use a where mask one "
            f"has to "
            "specify 'initial'"
        )
    axes = reduction_axes(axis, a.ndim)
    if initial is None and math.prod(a.shape[i] for i in axes) == 0:
        raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
    a = convert(a, a.dtype)
    largest = name == "max"
    if a.dtype == np.bool_:
        reduce, filler = (lax.reduce_or, False) if largest else (lax.reduce_and, True)
    else:
        reduce = lax.reduce_max if largest else lax.reduce_min
        filler = (_lowest if largest else _highest)(a.dtype)
    masked_a = masked(a, where, filler)
    result = _finish(reduce(masked_a, axes), masked_a.shape, axes, keepdims)
    if initial is not None:
        result = (lax.max if largest else lax.min)(result, convert(initial, result.dtype))
    return result


@planned(1)
def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the largest elements along axes; NaN where there is one."""
    return _extreme("max", a, axis, out, keepdims, initial, where)


@planned(1)
def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the smallest elements along axes; NaN where there is one."""
    return _extreme("min", a, axis, out, keepdims, initial, where)


def amax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the largest elements along axes; another name for `max`."""
    return _extreme("max", a, axis, out, keepdims, initial, where)


def amin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the smallest elements along axes; another name for `min`."""
    return _extreme("min", a, axis, out, keepdims, initial, where)


def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Return the distance from the smallest to the largest element along axes."""
    check_no_out("ptp", out)
    a = ensure_arraylike("ptp", a)
    return lax.sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


# --------------------------------------------------------------------------- logic


def _logical(
    name: str,
    reduce: Callable[..., Array],
    neutral: bool,
    a: ArrayLike,
    axis: Axis,
    out: None,
    keepdims: bool,
    where: ArrayLike | None,
) -> Array:
    check_no_out(name, out)
    check_arraylike_or_none(name, a, where)
    a = to_array(a)
    axes = reduction_axes(axis, a.ndim)
    truth = masked(convert(as_bool(a), np.dtype(np.bool_)), where, neutral)
    return _finish(reduce(truth, axes), truth.shape, axes, keepdims)


@planned(1)
def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Tell whether all elements along axes differ from zero."""
    return _logical("all", lax.reduce_and, True, a, axis, out, keepdims, where)


@planned(1)
def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Tell whether any element along axes differs from zero."""
    return _logical("any", lax.reduce_or, False, a, axis, out, keepdims, where)


def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Count the elements along axes that differ from zero."""
    a = ensure_arraylike("count_nonzero", a)
    return sum(convert(as_bool(a), np.dtype(np.bool_)), axis=axis, keepdims=keepdims)


# --------------------------------------------------------------------------- means and variances


def element_count(
    shape: Shape, axes: tuple[int, ...], where: ArrayLike | None, dtype: np.dtype
) -> Array:
    """Count the elements that go into each result, in a dtype."""
    if where is None:
        return lax.full((), math.prod(shape[i] for i in axes), dtype)
    mask = broadcast_array(as_bool(to_array(where)), shape)
    counting = computation_dtype(dtype)
    return lax.reduce_sum(lax.convert_element_type(mask, counting), axes)


@planned(1)
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Average elements along axes; NaN where there are none."""
    check_no_out("mean", out)
    check_arraylike_or_none("mean", a, where)
    a = to_array(a)
    target = dtypes.to_inexact_dtype(a.dtype) if dtype is None else user_dtype(dtype, "mean")
    computing = computation_dtype(dtypes.to_inexact_dtype(target))
    axes = reduction_axes(axis, a.ndim)
    shape = a.shape if where is None else lax.broadcast_shapes(a.shape, np.shape(where))
    total = lax.reduce_sum(masked(convert(a, computing), where, 0), axes)
    count = element_count(shape, axes, where, computing)
    result = lax.div(total, broadcast_array(convert(count, computing), total.shape))
    return convert(_finish(result, shape, axes, keepdims), target)


def _variance_dtypes(a: Array, dtype: DTypeLike, name: str) -> tuple[np.dtype, np.dtype]:
    """Return the dtype to compute a variance in, and the dtype of the result."""
    if dtype is None:
        inexact = dtypes.to_inexact_dtype(a.dtype)
        real = dtypes.finfo(inexact).dtype
        return computation_dtype(inexact), real
    target = user_dtype(dtype, name)
    if _is(a, np.complexfloating) and not dtypes.issubdtype(target, np.complexfloating):
        raise ValueError(
            f"jax.numpy.{name} does not support a real dtype argument when computing the "
            f"variance of an "
            "array of complex values. Take the real and imaginary parts first."
        )
    computing = dtypes.to_inexact_dtype(dtypes.promote_types(a.dtype, target))
    return computation_dtype(computing), target


@planned(1)
def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Return the variance along axes, from the squared distances to the mean (two passes)."""
    return _variance("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


def _variance(
    name: str,
    a: ArrayLike,
    axis: Axis,
    dtype: DTypeLike,
    out: None,
    ddof: Any,
    keepdims: bool,
    where: ArrayLike | None,
    mean: ArrayLike | None,
    correction: float | None,
) -> Array:
    check_no_out(name, out)
    check_arraylike_or_none(name, a, where, mean)
    if correction is not None:
        if not (isinstance(ddof, int) and ddof == 0):
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    a = to_array(a)
    computing, target = _variance_dtypes(a, dtype, name)
    axes = reduction_axes(axis, a.ndim)
    shape = a.shape if where is None else lax.broadcast_shapes(a.shape, np.shape(where))
    count = element_count(shape, axes, where, dtypes.finfo(computing).dtype)
    squares, real = _squared_distances(a, axes, where, mean, computing)
    total = lax.reduce_sum(masked(squares, where, 0), axes)
    freedom = lax.sub(convert(count, real), lax.convert_element_type(ddof, real))
    freedom = broadcast_array(freedom, total.shape)
    positive = lax.gt(freedom, lax.full_like(freedom, 0))
    safe = lax.select(positive, freedom, lax.full_like(freedom, 1))
    result = lax.select(positive, lax.div(total, safe), lax.full_like(total, np.nan))
    result = _finish(result, shape, axes, keepdims)
    return _to_result_dtype(result, target)


def _squared_distances(
    a: Array, axes: tuple[int, ...], where: ArrayLike | None, center: Any, computing: np.dtype
) -> tuple[Array, np.dtype]:
    a = convert(a, computing)
    if center is None:
        center = mean(a, axes, computing, keepdims=True, where=where)
    shape = a.shape if where is None else lax.broadcast_shapes(a.shape, np.shape(where))
    distance = lax.sub(
        broadcast_array(a, shape), broadcast_array(convert(center, computing), shape)
    )
    if dtypes.issubdtype(computing, np.complexfloating):
        squares = lax.add(lax.square(lax.real(distance)), lax.square(lax.imag(distance)))
        return squares, squares.dtype
    return lax.square(distance), computing


def _to_result_dtype(result: Array, target: np.dtype) -> Array:
    if dtypes.issubdtype(target, np.complexfloating):
        return lax.complex(result, lax.full_like(result, 0))
    return convert(result, target)


@planned(1)
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Return the standard deviation along axes."""
    if dtype is not None and not dtypes.issubdtype(user_dtype(dtype, "std"), np.inexact):
        raise ValueError(f"dtype argument to jnp.std must be inexact; got {dtype}")
    return lax.sqrt(_variance("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction))


# --------------------------------------------------------------------------- positions of extremes


@planned(1)
def argmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Return the position of the largest element, the first of several; NaN is largest."""
    return _position("argmax", lax.argmax, a, axis, out, keepdims)


@planned(1)
def argmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Return the position of the smallest element, the first of several; NaN is smallest."""
    return _position("argmin", lax.argmin, a, axis, out, keepdims)


def _position(
    name: str, find: Callable[..., Array], a: ArrayLike, axis: Any, out: None, keepdims: bool | None
) -> Array:
    check_arraylike(name, a)
    check_no_out(name, out)
    a = to_array(a)
    rank = a.ndim
    if axis is None:
        a, axis, kept = lax.reshape(a, (a.size,)), 0, (1,) * rank
    else:
        axis = canonicalize_axis(axis, rank)
        kept = kept_shape(a.shape, (axis,))
    if a.shape[axis] == 0:
        raise ValueError(f"attempt to get {name} of an empty sequence")
    a = convert(a, a.dtype)
    if _is(a, np.complexfloating):
        result = _complex_position(name, a, axis)
    else:
        result = find(a, axis, dtypes.default_int_dtype())
    return lax.reshape(result, kept) if keepdims else result


def _complex_position(name: str, a: Array, axis: int) -> Array:
    """Find the first complex extreme: of the elements equal to it, the one of lowest position."""
    best = (max if name == "argmax" else min)(a, axis, keepdims=True)
    best = lax.broadcast_in_dim(best, a.shape, tuple(range(a.ndim)))
    hit = lax.bitwise_or(lax.eq(a, best), lax.ne(a, a))
    return lax.argmax(hit, axis, dtypes.default_int_dtype())
