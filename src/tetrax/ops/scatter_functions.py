"""The public scatter functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tetrax.ops import index_maps
from tetrax.ops.gather import gather
from tetrax.ops.index_maps import GatherScatterMode, ScatterDimensionNumbers, as_gather
from tetrax.ops.scatter import (
    Scatter,
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from tetrax.runtime.array import as_value

CLIP = GatherScatterMode.CLIP


def _scatter(
    primitive: Scatter,
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: str | GatherScatterMode | None,
) -> Any:
    dims = ScatterDimensionNumbers(*(tuple(map(int, row)) for row in dimension_numbers))
    return primitive.bind(
        as_value(operand),
        as_value(scatter_indices),
        as_value(updates),
        update_jaxpr=None,
        update_consts=(),
        dimension_numbers=dims,
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any(mode),
    )


def scatter(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """`operand` with windows at run-time indices replaced by `updates`.

    Of several updates of one element the last one counts. Updates out of bounds are dropped, or
    with mode='clip' moved inside. Raises ShapeError for dimension numbers that do not fit.

    >>> import numpy as np
    >>> rows = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter(np.zeros(3, "float32"), np.array([[2], [0]]), np.ones(2, "float32"), rows)
    Array([1., 0., 1.], dtype=float32)
    """
    flags = (indices_are_sorted, unique_indices, mode)
    return _scatter(scatter_p, operand, scatter_indices, updates, dimension_numbers, *flags)


def scatter_add(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """`operand` with `updates` added at run-time indices; see `scatter`."""
    flags = (indices_are_sorted, unique_indices, mode)
    return _scatter(scatter_add_p, operand, scatter_indices, updates, dimension_numbers, *flags)


def scatter_sub(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """`operand` with `updates` subtracted at run-time indices; see `scatter`."""
    flags = (indices_are_sorted, unique_indices, mode)
    return _scatter(scatter_sub_p, operand, scatter_indices, updates, dimension_numbers, *flags)


def scatter_mul(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """`operand` multiplied by `updates` at run-time indices; see `scatter`."""
    flags = (indices_are_sorted, unique_indices, mode)
    return _scatter(scatter_mul_p, operand, scatter_indices, updates, dimension_numbers, *flags)


def scatter_min(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """The smaller of `operand` and `updates` at run-time indices; see `scatter`."""
    flags = (indices_are_sorted, unique_indices, mode)
    return _scatter(scatter_min_p, operand, scatter_indices, updates, dimension_numbers, *flags)


def scatter_max(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """The larger of `operand` and `updates` at run-time indices; see `scatter`."""
    flags = (indices_are_sorted, unique_indices, mode)
    return _scatter(scatter_max_p, operand, scatter_indices, updates, dimension_numbers, *flags)


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """`operand` with `func`, an elementwise function, applied once to the elements indexed.

    `update_shape` is the shape that updates would have. See `scatter`.
    """
    operand, indices = as_value(operand), as_value(scatter_indices)
    dims = as_gather(dimension_numbers)
    sizes = index_maps.window_sizes(dims, operand.ndim, tuple(update_shape))
    updates = func(gather(operand, indices, dims, sizes, mode=CLIP))
    flags = (indices_are_sorted, unique_indices, mode)
    return _scatter(scatter_p, operand, indices, updates, dimension_numbers, *flags)


__all__ = [
    "scatter",
    "scatter_add",
    "scatter_apply",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_sub",
]
