"""Interpolation, numerical derivatives and integrals, and phase unwrapping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.numpy._arithmetic import divide, floor_divide, remainder
from tetrax.numpy._cumulative import cumsum, diff
from tetrax.numpy._elementwise import constant_like
from tetrax.numpy._gather import take_positions
from tetrax.numpy._promote import (
    broadcast_array,
    canonicalize_axes,
    canonicalize_axis,
    check_arraylike,
    check_arraylike_or_none,
    convert,
    ensure_arraylike,
    promote_dtypes,
    promote_dtypes_inexact,
    to_array,
)
from tetrax.numpy._search import searchsorted
from tetrax.numpy._select import where
from tetrax.numpy._shapes import moveaxis, ravel
from tetrax.numpy._typing import Array, ArrayLike


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: Any = None,
    right: Any = None,
    period: ArrayLike | None = None,
) -> Array:
    """Interpolate linearly between points with ascending `xp`.

    Outside, the first and last values are kept, or `left` and `right` where given; "extrapolate"
    continues the first and last line. `period` makes the function periodic.

    >>> interp(0.5, np.array([0.0, 1.0]), np.array([0.0, 10.0]))
    Array(5., dtype=float32)
    """
    check_arraylike("interp", x, xp, fp)
    if np.shape(xp) != np.shape(fp) or np.ndim(xp) != 1:
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    points, knots = promote_dtypes_inexact(x, xp)
    (values,) = promote_dtypes_inexact(fp)
    points, knots, values = (convert(v, v.dtype) for v in (points, knots, values))
    if dtypes.issubdtype(knots.dtype, np.complexfloating):
        raise ValueError("jnp.interp: complex x values not supported.")
    if period is not None:
        points, knots, values = _periodic(points, knots, values, period)
    last = knots.shape[0] - 1
    if last == 0:
        result = broadcast_array(lax.squeeze(values, (0,)), points.shape)
    else:
        result = _between(points, knots, values, last)
    if period is None:
        result = _beyond(result, points, knots, values, left, right)
    return result


def _between(x: Array, xp: Array, fp: Array, last: int) -> Array:
    right = searchsorted(xp, x, side="right")
    right = lax.clamp(np.int32(1), right, np.int32(last))
    left = lax.sub(right, lax.full_like(right, 1))

    def at(values: Array, place: Array) -> Array:
        return lax.reshape(take_positions(values, ravel(place), 0), x.shape)

    width, rise = lax.sub(at(xp, right), at(xp, left)), lax.sub(at(fp, right), at(fp, left))
    tiny = np.spacing(np.asarray(dtypes.finfo(xp.dtype).eps, np.float64))
    flat = lax.le(lax.abs(width), constant_like(width, float(tiny)))
    safe = lax.select(flat, lax.full_like(width, 1), width)
    share = convert(lax.div(lax.sub(x, at(xp, left)), safe), fp.dtype)
    start = at(fp, left)
    return lax.select(flat, start, lax.add(start, lax.mul(share, rise)))


def _beyond(result: Array, x: Array, xp: Array, fp: Array, left: Any, right: Any) -> Array:
    for side, given in ((0, left), (-1, right)):
        if isinstance(given, str):
            if given != "extrapolate":
                raise ValueError(
                    f"the only valid string value of `left` and `right` is 'extrapolate', got "
                    f"{given!r}"
                )
            continue
        value = fp[side] if given is None else given
        outside = lax.lt(x, broadcast_array(xp[0], x.shape))
        if side == -1:
            outside = lax.gt(x, broadcast_array(xp[-1], x.shape))
        result = where(outside, value, result)
    return result


def _periodic(x: Array, xp: Array, fp: Array, period: ArrayLike) -> tuple[Array, Array, Array]:
    if np.ndim(period) != 0:
        raise ValueError(f"period must be a scalar; got {period}")
    length = convert(lax.abs(convert(period, xp.dtype)), xp.dtype)
    x, xp = remainder(x, length), remainder(xp, length)
    xp, fp = lax.sort((xp, fp), num_keys=1)
    size = xp.shape[0]
    first, last = lax.slice_in_dim(xp, 0, 1), lax.slice_in_dim(xp, size - 1, size)
    wide = broadcast_array(length, (1,))
    xp = lax.concatenate([lax.sub(last, wide), xp, lax.add(first, wide)], 0)
    fp = lax.concatenate([lax.slice_in_dim(fp, size - 1, size), fp, lax.slice_in_dim(fp, 0, 1)], 0)
    return x, xp, fp


# --------------------------------------------------------------------------- derivatives, integrals


def gradient(
    f: ArrayLike,
    *varargs: ArrayLike,
    axis: int | Sequence[int] | None = None,
    edge_order: int | None = None,
) -> Any:
    """Return the numerical derivative along each axis, central inside and one-sided at the edges.

    Spacings: none (one), a number for all axes, or per axis a number or the coordinates.
    """
    check_arraylike("gradient", f, *varargs)
    if edge_order is not None:
        raise NotImplementedError("The 'edge_order' argument to jnp.gradient is not supported.")
    a = promote_dtypes_inexact(f, *varargs)[0]
    a = convert(a, a.dtype)
    axes = canonicalize_axes(axis, a.ndim)
    if any(a.shape[i] < 2 for i in axes):
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least 2 elements "
            "are required."
        )
    spacings = _spacings(a, axes, varargs)
    results = [_derivative(a, spacing, i) for i, spacing in zip(axes, spacings, strict=True)]
    return results[0] if len(results) == 1 else results


def _spacings(a: Array, axes: tuple[int, ...], varargs: tuple[ArrayLike, ...]) -> list[Array]:
    if not varargs:
        return [lax.full((), 1, a.dtype)] * len(axes)
    given = [convert(to_array(v), a.dtype) for v in varargs]
    if len(given) == 1 and len(axes) > 1:
        if given[0].ndim:
            raise TypeError(f"Invalid number of spacing arguments {len(given)} for {axes=}")
        return given * len(axes)
    if len(given) != len(axes):
        raise TypeError(f"Invalid number of spacing arguments {len(given)} for {axes=}")
    for i, spacing in zip(axes, given, strict=True):
        if spacing.ndim > 1:
            raise ValueError("distances must be either scalars or 1d")
        if spacing.ndim and spacing.shape[0] != a.shape[i]:
            raise ValueError(
                "when 1d, distances must match the length of the corresponding dimension"
            )
    return given


def _derivative(a: Array, spacing: Array, axis: int) -> Array:
    size = a.shape[axis]

    def cut(start: int, stop: int) -> Array:
        return lax.slice_in_dim(a, start, stop, axis=axis)

    first, last = (
        lax.sub(cut(1, 2), cut(0, 1)),
        lax.sub(cut(size - 1, size), cut(size - 2, size - 1)),
    )
    before, here, after = cut(0, max(size - 2, 0)), cut(1, max(size - 1, 1)), cut(2, max(size, 2))
    if spacing.ndim == 0:
        step = constant_like(spacing, 2)
        inner = lax.div(lax.sub(after, before), _wide(lax.mul(spacing, step), after.shape))
        parts = [
            lax.div(first, _wide(spacing, first.shape)),
            inner,
            lax.div(last, _wide(spacing, last.shape)),
        ]
        return lax.concatenate(parts, axis)
    steps = diff(spacing)
    shape = tuple(size - 2 if i == axis else n for i, n in enumerate(a.shape))
    back = lax.broadcast_in_dim(lax.slice_in_dim(steps, 0, size - 2), shape, (axis,))
    forth = lax.broadcast_in_dim(lax.slice_in_dim(steps, 1, size - 1), shape, (axis,))
    # Weights that make the formula exact for parabolas on uneven points.
    total = lax.mul(lax.mul(back, forth), lax.add(back, forth))
    inner = lax.mul(lax.square(back), after)
    inner = lax.add(inner, lax.mul(lax.sub(lax.square(forth), lax.square(back)), here))
    inner = lax.div(lax.sub(inner, lax.mul(lax.square(forth), before)), total)
    parts = [
        lax.div(first, _wide(steps[0], first.shape)),
        inner,
        lax.div(last, _wide(steps[-1], last.shape)),
    ]
    return lax.concatenate(parts, axis)


def _wide(x: Array, shape: tuple[int, ...]) -> Array:
    return broadcast_array(x, shape)


def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """Integrate along an axis by the trapezoidal rule."""
    check_arraylike_or_none("trapezoid", y, x, dx)
    if x is None:
        (values,) = promote_dtypes_inexact(y)
        widths = convert(dx, values.dtype)
    else:
        values, places = promote_dtypes_inexact(y, x)
        widths = diff(places) if places.ndim == 1 else moveaxis(diff(places, axis=axis), axis, -1)
    values = moveaxis(values, axis, -1)
    size = values.shape[-1]
    last = values.ndim - 1
    sums = lax.add(
        lax.slice_in_dim(values, min(1, size), size, axis=last),
        lax.slice_in_dim(values, 0, max(size - 1, 0), axis=last),
    )
    sums, widths = promote_dtypes(sums, widths)
    shape = lax.broadcast_shapes(sums.shape, widths.shape)
    areas = lax.mul(broadcast_array(sums, shape), broadcast_array(widths, shape))
    total = lax.reduce_sum(convert(areas, areas.dtype), (len(shape) - 1,))
    return lax.mul(total, constant_like(total, 0.5))


def unwrap(
    p: ArrayLike,
    discont: ArrayLike | None = None,
    axis: int = -1,
    period: ArrayLike = 2 * np.pi,
) -> Array:
    """Undo the jumps of a periodic quantity by adding multiples of its period."""
    p = ensure_arraylike("unwrap", p)
    if dtypes.issubdtype(p.dtype, np.complexfloating):
        raise ValueError("jnp.unwrap does not support complex inputs.")
    if p.ndim == 0 or p.shape[axis] == 0:
        return p if p.ndim == 0 else convert(p, dtypes.result_type(p, period))
    axis = canonicalize_axis(axis, p.ndim)
    dtype = dtypes.result_type(p, period)
    values, length = convert(p, dtype), convert(period, dtype)
    if dtypes.issubdtype(dtype, np.integer):
        half = floor_divide(length, 2)
        ambiguous = lax.eq(remainder(length, 2), lax.full_like(length, 0))
    else:
        half, ambiguous = divide(length, 2), lax.full((), True, np.bool_)
    jumps = diff(values, axis=axis)
    low = lax.neg(half)
    wide_low = broadcast_array(low, jumps.shape)
    small = lax.add(remainder(lax.sub(jumps, wide_low), length), wide_low)
    # A jump of half a period up stays up.
    tie = lax.bitwise_and(lax.eq(small, wide_low), lax.gt(jumps, lax.full_like(jumps, 0)))
    tie = lax.bitwise_and(tie, broadcast_array(ambiguous, tie.shape))
    small = lax.select(tie, broadcast_array(half, small.shape), small)
    correction = lax.sub(small, jumps)
    limit = half if discont is None else convert(discont, dtype)
    keep = lax.lt(lax.abs(jumps), broadcast_array(limit, jumps.shape))
    correction = lax.select(keep, lax.full_like(correction, 0), correction)
    size = values.shape[axis]
    first = lax.slice_in_dim(values, 0, 1, axis=axis)
    rest = lax.slice_in_dim(values, 1, size, axis=axis)
    return lax.concatenate([first, lax.add(rest, cumsum(correction, axis=axis))], axis)
