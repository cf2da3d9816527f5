"""How gather and scatter address an operand: dimension numbers, modes, and index arithmetic.

A scatter addresses its operand as the gather with the corresponding dimension numbers would, so
everything here speaks of gathers: *batch* axes of the result come from the indices, *offset* axes
from the window that is read (or written) at each index.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from tetrax import errors
from tetrax.ir import kernel
from tetrax.ir.kernel_types import BOOL, I64, U64
from tetrax.ir.layout import FactorsBuilder
from tetrax.ir.types import ShapedArray
from tetrax.ops import axes as ax


class GatherDimensionNumbers(NamedTuple):
    """Which axes of operand, indices and result of a gather correspond.

    Args:
        offset_dims: axes of the result that come from the window.
        collapsed_slice_dims: operand axes of window size 1 that the result lacks.
        start_index_map: the operand axis that each component of an index vector (the last axis of
            the indices) points into.
        operand_batching_dims: operand axes that run along with axes of the indices...
        start_indices_batching_dims: ... namely with these.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axes of operand, indices and updates of a scatter correspond.

    The counterparts in `GatherDimensionNumbers`, in order: offset_dims, collapsed_slice_dims,
    start_index_map, operand_batching_dims, start_indices_batching_dims.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


class GatherScatterMode(enum.Enum):
    """What happens to indices out of bounds.

    CLIP moves them to the nearest place where the whole window fits. FILL_OR_DROP reads a fill
    value, or writes nothing. PROMISE_IN_BOUNDS says that there are none (reads are clipped and
    writes dropped all the same). ONE_HOT is CLIP here.
    """

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()
    ONE_HOT = enum.auto()

    @staticmethod
    def from_any(s: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode that a name stands for; None is 'fill'. Raises ValueError for other names."""
        if isinstance(s, GatherScatterMode):
            return s
        if s not in _MODES:
            names = ", ".join(repr(name) for name in _MODES if name)
            raise ValueError(f'Unknown gather mode "{s}"; modes are {names}')
        return _MODES[s]


_MODES: dict[str | None, GatherScatterMode] = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}


def as_gather(dims: ScatterDimensionNumbers) -> GatherDimensionNumbers:
    """The gather that reads what a scatter writes."""
    return GatherDimensionNumbers(*(tuple(map(int, row)) for row in dims))


def as_scatter(dims: GatherDimensionNumbers) -> ScatterDimensionNumbers:
    """The scatter that writes what a gather reads."""
    return ScatterDimensionNumbers(*dims)


def window_sizes(
    dims: GatherDimensionNumbers, ndim: int, updates_shape: Sequence[int]
) -> tuple[int, ...]:
    """The window of a scatter, as one extent per operand axis."""
    window = iter([updates_shape[axis] for axis in dims.offset_dims])
    absent = {*dims.collapsed_slice_dims, *dims.operand_batching_dims}
    return tuple(1 if axis in absent else next(window, 1) for axis in range(ndim))


def result_shape(
    indices_shape: Sequence[int], dims: GatherDimensionNumbers, slice_sizes: Sequence[int]
) -> tuple[int, ...]:
    """The shape of what a gather reads."""
    absent = {*dims.collapsed_slice_dims, *dims.operand_batching_dims}
    window = iter([n for axis, n in enumerate(slice_sizes) if axis not in absent])
    batch = iter(indices_shape[:-1])
    rank = len(dims.offset_dims) + len(indices_shape) - 1
    return tuple(next(window if axis in dims.offset_dims else batch) for axis in range(rank))


def window_axes(dims: GatherDimensionNumbers, ndim: int) -> list[tuple[int, int]]:
    """The operand axes that windows have, each with its axis of what is read."""
    absent = {*dims.collapsed_slice_dims, *dims.operand_batching_dims}
    kept = [axis for axis in range(ndim) if axis not in absent]
    return list(zip(kept, dims.offset_dims, strict=True))


def factors(
    build: FactorsBuilder,
    operand: Sequence[int],
    indices: Sequence[int],
    dims: GatherDimensionNumbers,
    sizes: Sequence[int],
    across: str | None = None,
    located: str | None = None,
) -> list[list[int]]:
    """The axes of operand, indices and what is read or written, as factors.

    Windows that take an axis whole fit only where they begin at 0, on parts as on the whole. Index
    vectors may be cut apart if the outcome is put together again by `across` (not "" then), or if
    it is apart anyway. The operand may be cut along axes that indices point into if what parts give
    is put together by `located` (or needs not be, where that is "").
    """
    whole = [axis for axis, size in enumerate(operand) if sizes[axis] != size]
    own = build.axes(operand, whole)
    vectors = [build.new(n, whole=across == "", reduced=across or "") for n in indices[:-1]]
    vectors.append(build.new(indices[-1], whole=True))
    for axis in dims.start_index_map:
        if located is not None and axis in dims.collapsed_slice_dims:
            own[axis] = build.new(operand[axis], reduced=located, positional=True)
    for axis, place in zip(
        dims.operand_batching_dims, dims.start_indices_batching_dims, strict=True
    ):
        own[axis] = vectors[place] = build.new(operand[axis])
    batch = iter(vectors[:-1])
    windows = {place: axis for axis, place in window_axes(dims, len(operand))}
    rank = len(dims.offset_dims) + len(indices) - 1
    read = [
        next(batch)
        if place not in windows
        else own[axis]
        if sizes[axis := windows[place]] == operand[axis]
        else build.new(sizes[axis], whole=True)
        for place in range(rank)
    ]
    return [own, vectors, read]


def check(
    name: str,
    operand: ShapedArray,
    indices: ShapedArray,
    dims: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
) -> None:
    """Raises ShapeError with the first rule of dimension numbers that is broken."""
    problem = _problem(operand, indices, dims, slice_sizes)
    if problem:
        raise errors.ShapeError(
            f"{name}: {problem}. Got operand shape {operand.shape}, indices shape {indices.shape}, "
            f"{dims}, window sizes {tuple(slice_sizes)}"
        )


def _problem(
    operand: ShapedArray,
    indices: ShapedArray,
    dims: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
) -> str | None:
    batch_axes = dims.start_indices_batching_dims
    absent = (*dims.collapsed_slice_dims, *dims.operand_batching_dims)
    rank = len(dims.offset_dims) + indices.ndim - 1
    if indices.ndim == 0:
        return "indices need an axis of index vectors as their last"
    if indices.dtype.kind not in "iu" and indices.dtype.name not in ("int2", "int4", "uint4"):
        return f"indices must have an integer dtype, not {indices.dtype.name}"
    for row, bound, what in (
        (dims.offset_dims, rank, "offset_dims (update_window_dims)"),
        (dims.collapsed_slice_dims, operand.ndim, "collapsed_slice_dims (inserted_window_dims)"),
        (dims.operand_batching_dims, operand.ndim, "operand_batching_dims"),
    ):
        if list(row) != sorted(set(row)) or any(not 0 <= axis < bound for axis in row):
            return f"{what} must be increasing axes in [0, {bound})"
    mapped = dims.start_index_map
    if len(mapped) != indices.shape[-1]:
        return "start_index_map needs one axis per component of the index vectors"
    if len(set(mapped)) != len(mapped) or any(not 0 <= axis < operand.ndim for axis in mapped):
        return "start_index_map must name distinct operand axes"
    if len(set(absent)) != len(absent) or set(mapped) & set(dims.operand_batching_dims):
        return "operand_batching_dims must differ from collapsed and indexed axes"
    if len(batch_axes) != len(dims.operand_batching_dims):
        return "operand and indices need the same number of batching dimensions"
    if len(set(batch_axes)) != len(batch_axes) or any(
        not 0 <= axis < indices.ndim - 1 for axis in batch_axes
    ):
        return "batching dimensions of the indices must be distinct axes, and not the last"
    if any(
        operand.shape[a] != indices.shape[b]
        for a, b in zip(dims.operand_batching_dims, batch_axes, strict=True)
    ):
        return "batching dimensions of operand and indices must have equal sizes"
    if len(slice_sizes) != operand.ndim:
        return "window sizes must be one per operand axis"
    if len(slice_sizes) != len(dims.offset_dims) + len(absent):
        return "every operand axis must be an offset, a collapsed or a batching dimension"
    if any(slice_sizes[axis] > 1 for axis in dims.operand_batching_dims) or any(
        slice_sizes[axis] != 1 for axis in dims.collapsed_slice_dims
    ):
        return "collapsed and batching dimensions must have window size 1"
    if indices.size and any(
        not 0 <= n <= m for n, m in zip(slice_sizes, operand.shape, strict=True)
    ):
        return "window sizes must be within the operand's shape"
    return None


class IndexMap(NamedTuple):
    """One gather or scatter, for index arithmetic: `result_shape` is that of result or updates."""

    operand_shape: tuple[int, ...]
    result_shape: tuple[int, ...]
    dims: GatherDimensionNumbers
    slice_sizes: tuple[int, ...]

    @property
    def batch_axes(self) -> tuple[int, ...]:
        """The axes of the result that come from the indices."""
        return ax.without(range(len(self.result_shape)), self.dims.offset_dims)

    @property
    def offset_axis(self) -> dict[int, int]:
        """The result axis of each operand axis that is in the result's window."""
        absent = {*self.dims.collapsed_slice_dims, *self.dims.operand_batching_dims}
        present = [axis for axis in range(len(self.operand_shape)) if axis not in absent]
        return dict(zip(present, self.dims.offset_dims, strict=True))

    @property
    def batching_axis(self) -> dict[int, int]:
        """The result axis of each operand axis that runs along with the indices."""
        dims, batch_axes = self.dims, self.batch_axes
        pairs = zip(dims.operand_batching_dims, dims.start_indices_batching_dims, strict=True)
        return {a: batch_axes[b] for a, b in pairs}

    # -- with NumPy ----------------------------------------------------------------------------

    def numpy(self, indices: np.ndarray) -> tuple[list[Any], np.ndarray]:
        """Index arrays, one per operand axis, and which of them are in bounds.

        All broadcast to the shape of the result; indices are clipped.
        """
        rank = len(self.result_shape)
        rows: list[Any] = [np.zeros((1,) * rank, np.intp) for _ in self.operand_shape]
        batch_shape = [1] * rank
        for axis in self.batch_axes:
            batch_shape[axis] = self.result_shape[axis]
        inside = np.ones(batch_shape, bool)
        for component, axis in enumerate(self.dims.start_index_map):
            start = _wide(indices[..., component]).reshape(batch_shape)
            bound = self.operand_shape[axis] - self.slice_sizes[axis]
            inside = inside & (start >= 0) & (start <= bound)
            rows[axis] = np.clip(start, 0, max(bound, 0))
        for axis, target in (*self.offset_axis.items(), *self.batching_axis.items()):
            line = [1] * rank
            line[target] = self.result_shape[target]
            rows[axis] = rows[axis] + np.arange(self.result_shape[target]).reshape(line)
        return rows, inside

    # -- in kernels ----------------------------------------------------------------------------

    def starts(self, components: Sequence[Any], clip: bool = True) -> tuple[dict[int, Any], Any]:
        """Start positions by operand axis, clipped or as they are, and whether all of them were in
        bounds.
        """
        inside = kernel.const(True, BOOL)
        rows = {}
        for axis, component in zip(self.dims.start_index_map, components, strict=True):
            start = as_index(component)
            bound = self.operand_shape[axis] - self.slice_sizes[axis]
            inside = kernel.bit_and(inside, _is_within(start, bound))
            clipped = kernel.maximum(kernel.minimum(start, bound), kernel.index(0))
            rows[axis] = clipped if clip else start
        return rows, inside

    def operand_index(self, starts: dict[int, Any], index: Sequence[Any]) -> tuple[Any, ...]:
        """The operand's index behind an index of the result."""
        full = [starts.get(axis, kernel.index(0)) for axis in range(len(self.operand_shape))]
        for axis, target in (*self.offset_axis.items(), *self.batching_axis.items()):
            full[axis] = kernel.add(full[axis], index[target])
        return tuple(full)


def _wide(indices: np.ndarray) -> np.ndarray:
    if indices.dtype == np.uint64:
        return np.minimum(indices, np.uint64(2**62)).astype(np.int64)
    return indices.astype(np.int64)


def _is_within(start: Any, bound: int) -> Any:
    """Whether 0 <= start <= bound; one comparison without signs where both are open."""
    above, below = kernel.ge(start, kernel.index(0)), kernel.le(start, kernel.index(bound))
    if bound < 0 or kernel.is_const(above) or kernel.is_const(below):
        return kernel.bit_and(above, below)
    return kernel.le(kernel.bitcast(start, U64), kernel.const(bound, U64))


def as_index(value: Any) -> Any:
    """An integer scalar as an i64; what is too large for one stays large."""
    if value.type is U64:
        value = kernel.minimum(value, kernel.const(2**62, U64))
    return kernel.convert(value, I64)


__all__ = [
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "IndexMap",
    "ScatterDimensionNumbers",
    "as_gather",
    "as_index",
    "as_scatter",
    "check",
    "result_shape",
    "window_sizes",
]
