"""Padding, in every mode of NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax import dtypes, errors, lax
from tetrax.numpy._elementwise import round as round_
from tetrax.numpy._promote import (
    broadcast_array,
    check_arraylike,
    convert,
    ensure_arraylike,
    to_array,
)
from tetrax.numpy._reductions import max as max_
from tetrax.numpy._reductions import mean
from tetrax.numpy._reductions import min as min_
from tetrax.numpy._statistics import median
from tetrax.numpy._typing import Array, ArrayLike
from tetrax.tracing.trace import Tracer, concrete_or_error

_ALLOWED_OPTIONS = {
    "constant": {"constant_values"},
    "edge": set(),
    "empty": set(),
    "linear_ramp": {"end_values"},
    "maximum": {"stat_length"},
    "mean": {"stat_length"},
    "median": {"stat_length"},
    "minimum": {"stat_length"},
    "reflect": {"reflect_type"},
    "symmetric": {"reflect_type"},
    "wrap": set(),
}


def pad(array: ArrayLike, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """Add elements before and after those of each axis.

    `pad_width` is one number, a pair for all axes, one pair per axis, or a dict from axis to
    either. Modes: constant, edge, empty, linear_ramp, maximum, mean, median, minimum, reflect,
    symmetric, wrap, or a function as for `numpy.pad`.

    >>> pad(np.array([1, 2]), 1)
    Array([0, 1, 2, 0], dtype=int32)
    """
    a = ensure_arraylike("pad", array)
    widths = _pad_widths(pad_width, a.ndim)
    if callable(mode):
        return _pad_by_function(a, widths, mode, kwargs)
    if mode not in _ALLOWED_OPTIONS:
        raise NotImplementedError(f"Unimplemented padding mode '{mode}' for np.pad.")
    unknown = set(kwargs) - _ALLOWED_OPTIONS[mode]
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    if all(width == (0, 0) for width in widths):
        return a
    return _MODES[mode](a, widths, mode, kwargs)


Widths = list[tuple[int, int]]


def _pad_widths(pad_width: Any, rank: int) -> Widths:
    if isinstance(pad_width, dict):
        by_axis = {axis % rank: width for axis, width in pad_width.items()}
        pad_width = [by_axis.get(axis, (0, 0)) for axis in range(rank)]
        pad_width = [(w, w) if np.ndim(w) == 0 else w for w in pad_width]
    if isinstance(pad_width, Tracer):
        pad_width = concrete_or_error(
            pad_width, errors.ConcretizationTypeError, "pad_width argument of jnp.pad"
        )
    widths = np.asarray(pad_width)
    if widths.size and not np.issubdtype(widths.dtype, np.integer):
        raise TypeError("`pad_width` must be of integral type.")
    pairs = _pairs(widths, rank, "pad_width")
    if np.any(pairs < 0):
        raise ValueError("index can't contain negative values")
    return [(int(before), int(after)) for before, after in pairs]


def _pairs(values: np.ndarray, rank: int, name: str) -> np.ndarray:
    """Broadcast a number, a pair, or one entry per axis to a pair per axis."""
    try:
        if values.ndim == 2 and values.shape == (rank, 1):
            return np.broadcast_to(values, (rank, 2))
        return np.broadcast_to(values, (rank, 2))
    except ValueError:
        raise ValueError(
            f"jnp.pad: {name} with shape {values.shape} does not fit an array of {rank} axes; "
            "valid shapes are (), (1,), (2,), (ndim, 1), (ndim, 2)"
        ) from None


def _array_pairs(values: Any, rank: int, name: str) -> list[tuple[Array, Array]]:
    """The same for values that may be traced."""
    if isinstance(values, (list, tuple)) and any(np.ndim(item) == 0 for item in values) is False:
        values = [tuple(item) if not isinstance(item, np.ndarray) else item for item in values]
    flat: Array = (
        to_array(np.asarray(values)) if isinstance(values, (list, tuple)) else to_array(values)
    )
    check_arraylike("pad", flat)
    if flat.ndim <= 1 or flat.shape in ((rank, 2), (rank, 1), (1, 2), (1, 1)):
        if flat.ndim == 1 and flat.shape[0] not in (1, 2):
            raise ValueError(f"jnp.pad: {name} with shape {flat.shape} does not fit {rank} axes")
        full = broadcast_array(flat, (rank, 2))
        return [(full[i, 0], full[i, 1]) for i in range(rank)]
    raise ValueError(f"jnp.pad: {name} with shape {flat.shape} does not fit {rank} axes")


# --------------------------------------------------------------------------- pieces along an axis


def _cut(a: Array, start: int, stop: int, axis: int) -> Array:
    return lax.slice_in_dim(a, start, stop, axis=axis)


def _wide(piece: Array, width: int, axis: int) -> Array:
    """Repeat a piece of size one along an axis."""
    shape = tuple(width if i == axis else size for i, size in enumerate(piece.shape))
    return lax.broadcast_in_dim(piece, shape, tuple(range(piece.ndim)))


def _joined(before: Array, a: Array, after: Array, axis: int) -> Array:
    parts = [part for part in (before, a, after) if part.shape[axis]]
    return parts[0] if len(parts) == 1 else lax.concatenate(parts, axis)


# --------------------------------------------------------------------------- modes


def _pad_constant(a: Array, widths: Widths, mode: str, options: dict[str, Any]) -> Array:
    value = options.get("constant_values", 0)
    if np.ndim(value) == 0 and not isinstance(value, (list, tuple)):
        filler = convert(to_array(value), a.dtype)
        return lax.pad(
            convert(a, a.dtype), filler, [(before, after, 0) for before, after in widths]
        )
    values = _array_pairs(value, a.ndim, "constant_values")
    a = convert(a, a.dtype)
    for axis, (before, after) in enumerate(widths):
        first, last = (convert(x, a.dtype) for x in values[axis])
        a = lax.pad(a, first, [(before if i == axis else 0, 0, 0) for i in range(a.ndim)])
        a = lax.pad(a, last, [(0, after if i == axis else 0, 0) for i in range(a.ndim)])
    return a


def _pad_edge(a: Array, widths: Widths, mode: str, options: dict[str, Any]) -> Array:
    for axis, (before, after) in enumerate(widths):
        size = a.shape[axis]
        if size == 0:
            if before + after:
                raise ValueError(
                    f"jnp.pad: axis {axis} is empty and cannot be extended in mode '{mode}'"
                )
            continue
        first, last = _cut(a, 0, 1, axis), _cut(a, size - 1, size, axis)
        a = _joined(_wide(first, before, axis), a, _wide(last, after, axis), axis)
    return a


def _pad_wrap(a: Array, widths: Widths, mode: str, options: dict[str, Any]) -> Array:
    for axis, (before, after) in enumerate(widths):
        size = a.shape[axis]
        if size == 0:
            if before + after:
                raise ValueError(
                    f"jnp.pad: axis {axis} is empty and cannot be extended in mode '{mode}'"
                )
            continue
        copies = -(-before // size), -(-after // size)
        wide = lax.concatenate([a] * (copies[0] + 1 + copies[1]), axis)
        start = copies[0] * size - before
        a = _cut(wide, start, start + before + size + after, axis)
    return a


def _pad_reflect(a: Array, widths: Widths, mode: str, options: dict[str, Any]) -> Array:
    kind = options.get("reflect_type", "even")
    if kind not in ("even", "odd"):
        raise ValueError(f"reflect_type must be 'even' or 'odd', got {kind!r}")
    for axis, (before, after) in enumerate(widths):
        if not a.shape[axis]:
            if before + after:
                raise ValueError(
                    f"jnp.pad: axis {axis} is empty and cannot be extended in mode '{mode}'"
                )
            continue
        a = _reflected(a, before, axis, mode, kind)
        a = lax.rev(_reflected(lax.rev(a, (axis,)), after, axis, mode, kind, before), (axis,))
    return a


def _reflected(a: Array, width: int, axis: int, mode: str, kind: str, already: int = 0) -> Array:
    """Extend the front of an axis by mirror images, as often as it takes.

    `already` elements at the far end were added before and do not take part in the reflection.
    """
    skip = 1 if mode == "reflect" else 0
    while width:
        size = a.shape[axis]
        own = size - already
        if own == 1 and skip:  # nothing to mirror: the element itself is repeated
            front = _cut(a, 0, 1, axis)
            return _joined(_wide(front, width, axis), a, _cut(a, 0, 0, axis), axis)
        step = min(width, own - skip)
        mirror = lax.rev(_cut(a, skip, skip + step, axis), (axis,))
        if kind == "odd":
            edge = _wide(_cut(a, 0, 1, axis), step, axis)
            mirror = lax.sub(lax.add(edge, edge), mirror)
        a = lax.concatenate([mirror, a], axis)
        width -= step
    return a


def _pad_empty(a: Array, widths: Widths, mode: str, options: dict[str, Any]) -> Array:
    return _pad_constant(a, widths, mode, {})


def _pad_linear_ramp(a: Array, widths: Widths, mode: str, options: dict[str, Any]) -> Array:
    ends = _array_pairs(options.get("end_values", 0), a.ndim, "end_values")
    for axis, (before, after) in enumerate(widths):
        size = a.shape[axis]
        first, last = _cut(a, 0, 1, axis), _cut(a, size - 1, size, axis)
        front = _ramp(ends[axis][0], first, before, axis)
        back = lax.rev(_ramp(ends[axis][1], last, after, axis), (axis,))
        a = _joined(front, a, back, axis)
    return a


def _ramp(end: Array, edge: Array, width: int, axis: int) -> Array:
    """Go from an end value, in equal steps, to just before the edge."""
    shape = tuple(width if i == axis else size for i, size in enumerate(edge.shape))
    computing = dtypes.to_inexact_dtype(edge.dtype)
    steps = lax.broadcasted_iota(np.int32, shape, axis)
    real = dtypes.finfo(computing).dtype
    fraction = lax.div(lax.convert_element_type(steps, real), lax.full(shape, max(width, 1), real))
    fraction = lax.convert_element_type(fraction, computing)
    start = broadcast_array(convert(end, computing), shape)
    stop = lax.broadcast_in_dim(convert(edge, computing), shape, tuple(range(edge.ndim)))
    values = lax.add(start, lax.mul(fraction, lax.sub(stop, start)))
    if dtypes.issubdtype(edge.dtype, np.integer):
        values = lax.floor(values)
    return lax.convert_element_type(values, edge.dtype)


_STATISTICS: dict[str, Callable[..., Array]] = {
    "maximum": max_,
    "minimum": min_,
    "mean": mean,
    "median": median,
}


def _pad_statistic(a: Array, widths: Widths, mode: str, options: dict[str, Any]) -> Array:
    given = options.get("stat_length")
    lengths = None if given is None else _pairs(np.asarray(given), a.ndim, "stat_length")
    for axis, (before, after) in enumerate(widths):
        size = a.shape[axis]
        first, last = (size, size) if lengths is None else map(int, lengths[axis])
        if min(first, last) <= 0:
            raise ValueError(f"stat_length of 0 yields no value for padding in mode '{mode}'")
        front = _statistic(_cut(a, 0, min(first, size), axis), mode, axis, a.dtype)
        back = _statistic(_cut(a, size - min(last, size), size, axis), mode, axis, a.dtype)
        a = _joined(_wide(front, before, axis), a, _wide(back, after, axis), axis)
    return a


def _statistic(piece: Array, mode: str, axis: int, dtype: np.dtype) -> Array:
    value = _STATISTICS[mode](piece, axis=axis, keepdims=True)
    if dtypes.issubdtype(dtype, np.integer) and value.dtype != dtype:
        value = round_(value)
    return convert(value, dtype)


_MODES: dict[str, Callable[[Array, Widths, str, dict[str, Any]], Array]] = {
    "constant": _pad_constant,
    "edge": _pad_edge,
    "empty": _pad_empty,
    "linear_ramp": _pad_linear_ramp,
    "maximum": _pad_statistic,
    "mean": _pad_statistic,
    "median": _pad_statistic,
    "minimum": _pad_statistic,
    "reflect": _pad_reflect,
    "symmetric": _pad_reflect,
    "wrap": _pad_wrap,
}


def _pad_by_function(
    a: Array, widths: Widths, function: Callable[..., Any], options: dict[str, Any]
) -> Array:
    """Let a function fill in each vector along each axis; it returns the vector changed."""
    padded = _pad_constant(a, widths, "constant", {})
    for axis in range(a.ndim):
        size = padded.shape[axis]
        others = [i for i in range(padded.ndim) if i != axis]
        order = [*others, axis]
        rows = lax.transpose(padded, order)
        outer = rows.shape[:-1]
        flat = lax.reshape(rows, (int(np.prod(outer, dtype=int)), size))
        done = [
            convert(to_array(function(flat[i], widths[axis], axis, options)), padded.dtype)
            for i in range(flat.shape[0])
        ]
        if done:
            flat = lax.concatenate([lax.expand_dims(row, (0,)) for row in done], 0)
        back = [order.index(i) for i in range(padded.ndim)]
        padded = lax.transpose(lax.reshape(flat, (*outer, size)), back)
    return padded
