"""Reading elements: `x[index]`, `x.at[index].get(...)`, `take`, `take_along_axis`.

An index without arrays is carried out by slices; one traced integer by a dynamic slice;
everything else by one gather. Positions outside the array are moved to its edge unless a mode
says otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.numpy._index_eager import is_direct, read
from tetrax.numpy._index_parse import NewAxis, ParsedIndex, Position, Span, parse_index
from tetrax.numpy._index_plan import IndexPlan, index_dtype, plan_index
from tetrax.numpy._promote import (
    canonicalize_axis,
    check_arraylike,
    check_no_out,
    to_array,
)
from tetrax.numpy._shapes import ravel
from tetrax.numpy._typing import Array, ArrayLike, Shape

Mode = lax.GatherScatterMode

_MODES = {
    None: None,
    "fill": Mode.FILL_OR_DROP,
    "drop": Mode.FILL_OR_DROP,
    "clip": Mode.CLIP,
    "promise_in_bounds": Mode.PROMISE_IN_BOUNDS,
}


def gather_mode(mode: Any) -> Any:
    """Return the mode a user named, as the enumeration; raise ValueError for an unknown name."""
    if isinstance(mode, Mode):
        return mode
    if mode not in _MODES:
        raise ValueError(f'Unknown gather mode "{mode}"')
    return _MODES[mode]


# --------------------------------------------------------------------------- x[index]


def getitem(x: Array, index: Any) -> Array:
    """Return `x[index]` by NumPy's rules."""
    if is_direct(x):
        found = read(x, index)
        if found is not None:
            return found
    return get(x, index)


def get(
    x: Array,
    index: Any,
    *,
    mode: Any = None,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    wrap_negative_indices: bool = True,
) -> Array:
    """Return the elements at an index; `mode` says what happens to positions outside the array."""
    parsed = parse_index(index, x.shape)
    if x.shape != parsed.shape:
        x = lax.reshape(x, parsed.shape)
    chosen = gather_mode(mode)
    moves_inside = chosen is not Mode.FILL_OR_DROP and wrap_negative_indices
    if moves_inside and all(entry.shape == () for entry in parsed.positions):
        return _sliced(x, parsed)
    x, parsed = _slice_first(x, parsed)
    _check_not_empty(parsed)
    plan = plan_index(parsed, wrap_negative=wrap_negative_indices)
    taken = _gathered(x, plan, chosen, fill_value, indices_are_sorted, unique_indices)
    return lax.expand_dims(taken, plan.new_axes) if plan.new_axes else taken


def _gathered(
    x: Array, plan: IndexPlan, mode: Any, fill_value: Any, is_sorted: bool, unique: bool
) -> Array:
    if not plan.indexed_axes:
        return x
    numbers = lax.GatherDimensionNumbers(
        offset_dims=plan.window_dims,
        collapsed_slice_dims=plan.collapsed,
        start_index_map=plan.indexed_axes,
    )
    if any(size == 0 for size in plan.shape):
        return lax.full(plan.shape, 0, x.dtype)
    return lax.gather(
        x,
        plan.start_indices,
        numbers,
        plan.slice_sizes,
        unique_indices=unique or plan.single,
        indices_are_sorted=is_sorted or plan.single,
        mode=Mode.PROMISE_IN_BOUNDS if mode is None else mode,
        fill_value=fill_value,
    )


def _check_not_empty(index: ParsedIndex) -> None:
    for entry in index.positions:
        if index.shape[entry.axis] == 0 and np.prod(entry.shape, dtype=int) > 0:
            raise IndexError(f"index is out of bounds for axis {entry.axis} with size 0")


def _sliced(x: Array, index: ParsedIndex) -> Array:
    """Carry out an index of slices and single integers."""
    _check_not_empty(index)
    spans: list[Span] = []
    dropped: list[int] = []
    starts: dict[int, Array] = {}
    for entry in index.entries:
        if isinstance(entry, Span):
            spans.append(entry)
        elif isinstance(entry, Position):
            dropped.append(entry.axis)
            size = index.shape[entry.axis]
            if isinstance(entry.value, int):
                place = entry.value + size if entry.value < 0 else entry.value
                spans.append(Span(entry.axis, min(max(place, 0), size - 1), 1, 1, size == 1))
            else:
                spans.append(Span(entry.axis, 0, 1, size, True))
                starts[entry.axis] = entry.value
    x = slice_spans(x, spans)
    if starts:
        x = _sliced_at(x, starts)
    if dropped:
        x = lax.squeeze(x, tuple(dropped))
    new_axes = _new_axes(index)
    return lax.expand_dims(x, new_axes) if new_axes else x


def _new_axes(index: ParsedIndex) -> tuple[int, ...]:
    kept = [entry for entry in index.entries if not isinstance(entry, Position)]
    return tuple(i for i, entry in enumerate(kept) if isinstance(entry, NewAxis))


def _sliced_at(x: Array, starts: dict[int, Array]) -> Array:
    """Take one element at traced positions of some axes, the whole of the others."""
    positions = {axis: index_dtype(value) for axis, value in starts.items()}
    dtype = max((value.dtype for value in positions.values()), key=lambda dtype: dtype.itemsize)
    begin: list[Any] = [dtype.type(0)] * x.ndim
    sizes = list(x.shape)
    for axis, value in positions.items():
        begin[axis], sizes[axis] = lax.convert_element_type(value, dtype), 1
    return lax.dynamic_slice(x, begin, sizes)


def slice_spans(x: Array, spans: list[Span]) -> Array:
    """Cut slices out of an array, backwards ones too."""
    if all(span.whole for span in spans):
        return x
    start, stop, step = [0] * x.ndim, list(x.shape), [1] * x.ndim
    backwards = []
    for span in spans:
        if span.count == 0:
            start[span.axis] = stop[span.axis] = 0
            continue
        first, last = span.start, span.start + span.step * (span.count - 1)
        if span.step < 0:
            first, last = last, first
            if span.count > 1:
                backwards.append(span.axis)
        start[span.axis], stop[span.axis] = first, last + 1
        step[span.axis] = abs(span.step) if span.count > 1 else 1
    if start != [0] * x.ndim or stop != list(x.shape) or any(size != 1 for size in step):
        x = lax.slice(x, start, stop, None if all(size == 1 for size in step) else step)
    return lax.rev(x, tuple(backwards)) if backwards else x


def _slice_first(x: Array, index: ParsedIndex) -> tuple[Array, ParsedIndex]:
    """Carry out the slices of a mixed index, leaving whole axes to the gather."""
    spans = [entry for entry in index.entries if isinstance(entry, Span) and not entry.whole]
    if not spans:
        return x, index
    x = slice_spans(x, spans)
    entries = tuple(
        Span(entry.axis, 0, 1, entry.count, True) if isinstance(entry, Span) else entry
        for entry in index.entries
    )
    return x, ParsedIndex(x.shape, entries)


# --------------------------------------------------------------------------- take


def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    """Take elements along an axis, or of the flattened array.

    Modes: "fill" (default) gives NaN, or the smallest integer, for positions outside the array;
    "clip" moves them to the edge; "wrap" counts around; "promise_in_bounds" says there are none.
    """
    check_no_out("take", out)
    check_arraylike("take", a, indices)
    a, positions = to_array(a), to_array(indices)
    if not dtypes.issubdtype(positions.dtype, np.integer):
        raise ValueError(f"take requires integer indices, got dtype {positions.dtype}")
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonicalize_axis(axis, a.ndim)
    size = a.shape[axis]
    if size == 0 and positions.size:
        raise IndexError("cannot do a non-empty jnp.take() from an empty axis.")
    if mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.take is not supported.")
    chosen: Any = "fill" if mode is None else mode
    if mode == "wrap":
        positions, chosen = _wrapped(positions, size), "promise_in_bounds"
    elif mode == "clip":
        positions, chosen = _clipped(positions, size), "promise_in_bounds"
    index = (slice(None),) * axis + (positions,)
    return get(
        a,
        index,
        mode=chosen,
        fill_value=fill_value,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
    )


def _wrapped(positions: Array, size: int) -> Array:
    positions = _at_least_int32(positions)
    count = positions.dtype.type(max(size, 1))
    return lax.rem(lax.add(lax.rem(positions, count), count), count)


def _clipped(positions: Array, size: int) -> Array:
    positions = _at_least_int32(positions)
    return lax.clamp(positions.dtype.type(0), positions, positions.dtype.type(max(size - 1, 0)))


def _at_least_int32(positions: Array) -> Array:
    narrow = positions.dtype.itemsize < 4
    return lax.convert_element_type(positions, np.int32) if narrow else positions


def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: Any = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """Take one element per index along an axis; the other axes of array and indices correspond."""
    check_arraylike("take_along_axis", arr, indices)
    a, positions = to_array(arr), to_array(indices)
    if not dtypes.issubdtype(positions.dtype, np.integer):
        raise TypeError(f"take_along_axis indices must be of integer type, got {positions.dtype}")
    if axis is None:
        if positions.ndim != 1:
            raise ValueError(
                f"take_along_axis indices must be 1D if axis=None, got shape {positions.shape}"
            )
        a, axis = ravel(a), 0
    if a.ndim != positions.ndim:
        raise ValueError(
            f"indices and arr must have the same number of dimensions; {positions.ndim} vs. "
            f"{a.ndim}"
        )
    axis = canonicalize_axis(axis, a.ndim)
    index = along_axis_index(a.shape, positions, axis)
    if 0 in a.shape and positions.size == 0:
        return lax.full(_along_shape(a.shape, positions.shape, axis), 0, a.dtype)
    return get(
        a,
        index,
        mode="fill" if mode is None else mode,
        fill_value=fill_value,
        wrap_negative_indices=True if wrap_negative_indices is None else wrap_negative_indices,
    )


def _along_shape(shape: Shape, positions: Shape, axis: int) -> Shape:
    others = np.broadcast_shapes(
        tuple(1 if i == axis else size for i, size in enumerate(shape)),
        tuple(1 if i == axis else size for i, size in enumerate(positions)),
    )
    return tuple(positions[axis] if i == axis else size for i, size in enumerate(others))


def along_axis_index(shape: Shape, positions: Array, axis: int) -> tuple[Any, ...]:
    """Return the index that pairs each position along an axis with its own place on the others."""
    index: list[Any] = []
    for i, size in enumerate(shape):
        if i == axis:
            index.append(positions)
            continue
        if size != positions.shape[i] and 1 not in (size, positions.shape[i]):
            raise ValueError(
                f"take_along_axis: shapes {shape} and {positions.shape} do not broadcast along "
                f"axis {i}"
            )
        places = np.arange(size, dtype=np.int32)
        index.append(places.reshape(tuple(-1 if k == i else 1 for k in range(len(shape)))))
    return tuple(index)
