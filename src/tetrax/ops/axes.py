"""Arithmetic on axes and dimensions, shared by shape and batching rules."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from tetrax import errors


def canonical_axis(axis: Any, ndim: int, what: str = "axis") -> int:
    """`axis` counted from the front. Raises ValueError when out of range."""
    try:
        axis = operator.index(axis)
    except TypeError:
        raise TypeError(f"{what} must be an integer, got {axis!r}") from None
    if not -ndim <= axis < ndim:
        raise ValueError(f"{what} {axis} is out of bounds for array of dimension {ndim}")
    return axis + ndim if axis < 0 else axis


def canonical_axes(axes: Any, ndim: int, what: str = "axis") -> tuple[int, ...]:
    """Several axes counted from the front. Raises ValueError for duplicates."""
    result = tuple(canonical_axis(axis, ndim, what) for axis in axes)
    if len(set(result)) != len(result):
        raise ValueError(f"duplicate value in {what}: {tuple(axes)}")
    return result


def canonical_shape(shape: Any, what: str = "shape") -> tuple[int, ...]:
    """A shape as a tuple of non-negative ints; an int means one axis."""
    if not isinstance(shape, Sequence) and not hasattr(shape, "__iter__"):
        shape = (shape,)
    result = []
    for extent in shape:
        try:
            result.append(operator.index(extent))
        except errors.TetraxError as error:
            raise errors.ConcretizationTypeError(
                extent, f"Shapes must be known while tracing; {what} was {tuple(shape)!r}."
            ) from error
        except TypeError:
            raise TypeError(
                f"Shapes must be 1D sequences of concrete values of integer type, got {shape!r}."
            ) from None
    if any(extent < 0 for extent in result):
        raise errors.ShapeError(f"{what} must have non-negative extents, got {tuple(result)}")
    return tuple(result)


def product(extents: Sequence[int]) -> int:
    return math.prod(extents)


def differing(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """The axes along which two shapes of one rank differ."""
    return [axis for axis, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]


def without(items: Sequence[Any], axes: Sequence[int]) -> tuple[Any, ...]:
    """`items` with the positions `axes` left out."""
    drop = set(axes)
    return tuple(item for i, item in enumerate(items) if i not in drop)


def insert(items: Sequence[Any], position: int, item: Any) -> tuple[Any, ...]:
    return (*items[:position], item, *items[position:])


def inverse_permutation(permutation: Sequence[int]) -> tuple[int, ...]:
    inverse = [0] * len(permutation)
    for position, axis in enumerate(permutation):
        inverse[axis] = position
    return tuple(inverse)


def move(ndim: int, source: int, destination: int) -> tuple[int, ...]:
    """The permutation that takes axis `source` to position `destination`."""
    order = [axis for axis in range(ndim) if axis != source]
    order.insert(destination, source)
    return tuple(order)


def replace(items: Sequence[Any], position: int, item: Any) -> tuple[Any, ...]:
    return (*items[:position], item, *items[position + 1 :])


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """How many elements apart the neighbours along each axis are."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def strides_in_order(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """The row-major strides of the axes `order` of an array of `shape`."""
    strides = row_major_strides(shape)
    return [strides[axis] for axis in order]
