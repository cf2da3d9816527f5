"""`reduce_window` with any function: known ones by their operation, others place by place."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import errors, tree
from tetrax.ir.types import ShapedArray
from tetrax.ops.identities import largest, smallest
from tetrax.ops.join import dilated, number_like, pad, slice_
from tetrax.ops.select import select
from tetrax.ops.structure import broadcast_in_dim, full
from tetrax.ops.window import reduce_window_max_p, reduce_window_min_p, reduce_window_sum_p
from tetrax.ops.window_shapes import padtype_to_pads, windowed_shape
from tetrax.runtime.array import Array, as_value
from tetrax.tracing.staging import stage
from tetrax.tracing.value import get_aval

# What a function of two scalars is called when it is one operation -> the primitive for windows,
# and the initial value with which it applies.
_KNOWN = {
    "add": (reduce_window_sum_p, lambda dtype: 0),
    "add_any": (reduce_window_sum_p, lambda dtype: 0),
    "max": (reduce_window_max_p, smallest),
    "min": (reduce_window_min_p, largest),
}


def _known_operation(computation: Callable, initial: Any) -> Any:
    """The window primitive of a function that is a single operation, or None."""
    aval = ShapedArray((), get_aval(initial).dtype)
    closed, _ = stage(lambda x, y: ([computation(x, y)], None), [aval, aval])
    program = closed.program
    if len(program.eqns) != 1 or list(program.eqns[0].invars) != list(program.invars):
        return None
    primitive, start = _KNOWN.get(program.eqns[0].primitive.name, (None, None))
    if primitive is None or not isinstance(initial, Array):
        return None
    return primitive if initial._value == start(aval.dtype) else None


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """The elements of each window combined by `computation`, starting from `init_value`.

    `operand` may be a tree of arrays of one shape; then so are `init_value` and what `computation`
    takes and gives. `padding` is 'VALID', 'SAME' or (low, high) pairs.
    Functions other than add, max and min must work on arrays element by element.

    >>> from tetrax.ops.arithmetic import max as larger
    >>> reduce_window(np.arange(6, dtype="int32"), -1, larger, (2,), (2,))
    Array([1, 3, 5], dtype=int32)
    """
    leaves, structure = tree.flatten(operand)
    initial, init_structure = tree.flatten(init_value)
    if structure != init_structure or not leaves:
        raise errors.ShapeError("reduce_window: operand and init_value must have one structure")
    arrays = [as_value(x) for x in leaves]
    initial = [
        number_like(v, x.aval) if isinstance(v, bool | int | float | complex) else as_value(v)
        for v, x in zip(initial, arrays, strict=True)
    ]
    params = _window_params(arrays[0].shape, window_dimensions, window_strides, padding,
                            base_dilation, window_dilation)  # fmt: skip
    if len(arrays) == 1 and tree.structure(operand) == tree.structure(0):
        known = _known_operation(computation, initial[0])
        if known is not None:
            return known.bind(arrays[0], **params)

    def combine(xs: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
        out = computation(tree.unflatten(structure, xs), tree.unflatten(structure, ys))
        return tree.leaves(out)

    return tree.unflatten(structure, _by_places(arrays, initial, combine, params))


def _window_params(
    shape: Sequence[int],
    window: Sequence[int],
    strides: Any,
    padding: Any,
    base_dilation: Any,
    window_dilation: Any,
) -> dict:
    """Parameters with defaults filled in, as tuples of ints."""
    ones = (1,) * len(window)
    window, strides, base, inner = (
        tuple(int(n) for n in (ones if row is None else row))
        for row in (window, strides, base_dilation, window_dilation)
    )
    if isinstance(padding, str):
        spans = [dilated(n, gap) for n, gap in zip(window, inner, strict=True)]
        extents = [dilated(n, step) for n, step in zip(shape, base, strict=True)]
        padding = padtype_to_pads(extents, spans, strides, padding)
    return {
        "window_dimensions": window,
        "window_strides": strides,
        "padding": tuple((int(low), int(high)) for low, high in padding),
        "base_dilation": base,
        "window_dilation": inner,
    }


def _by_places(
    arrays: Sequence[Any], initial: Sequence[Any], combine: Callable, params: dict
) -> list[Any]:
    """One strided slice of the padded operands per place of the window, combined in order.

    Places in the padding are skipped.
    """
    window, strides = params["window_dimensions"], params["window_strides"]
    base, inner = params["base_dilation"], params["window_dilation"]
    shape = windowed_shape(arrays[0].shape, window, strides, params["padding"], base, inner)
    config = [
        (low, high, step - 1) for (low, high), step in zip(params["padding"], base, strict=True)
    ]
    padded = [pad(x, start, config) for x, start in zip(arrays, initial, strict=True)]
    mask = None
    if any(row != (0, 0, 0) for row in config):
        mask = pad(full(arrays[0].shape, True, np.bool_), full((), False, np.bool_), config)
    total = [broadcast_in_dim(start, shape, ()) for start in initial]
    if 0 in shape:
        return total
    for place in itertools.product(*(range(n) for n in window)):
        starts = [w * gap for w, gap in zip(place, inner, strict=True)]
        limits = [
            start + (count - 1) * stride + 1
            for start, count, stride in zip(starts, shape, strides, strict=True)
        ]
        new = combine(total, [slice_(x, starts, limits, strides) for x in padded])
        if mask is not None:
            inside = slice_(mask, starts, limits, strides)
            new = [select(inside, x, y) for x, y in zip(new, total, strict=True)]
        total = new
    return total


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The shape of a `reduce_window` with these arguments.

    >>> reduce_window_shape_tuple((5,), (2,), (1,), ((0, 0),))
    (4,)
    """
    params = _window_params(operand_shape, window_dimensions, window_strides, padding,
                            base_dilation, window_dilation)  # fmt: skip
    return windowed_shape(
        operand_shape,
        params["window_dimensions"],
        params["window_strides"],
        params["padding"],
        params["base_dilation"],
        params["window_dilation"],
    )


__all__ = ["reduce_window", "reduce_window_shape_tuple"]
