"""The loop nest of a scatter: over index vectors, inside them over the window.

Many sums are shared between threads in one of two ways, which sizes alone choose. Where the result
is small, every task adds a share of the updates to copies of its own, and the copies are added up
in order. Otherwise, where windows are long, every task writes its own columns of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tetrax.ir import kernel
from tetrax.ir.kernel_types import BOOL, I64
from tetrax.ir.views import Stored, is_complex
from tetrax.ops import axes as ax
from tetrax.ops import index_maps
from tetrax.ops.index_maps import (
    GatherScatterMode,
    IndexMap,
    ScatterDimensionNumbers,
    as_gather,
)
from tetrax.ops.nests import (
    Combine,
    combined,
    flat,
    load_scalar,
    store_scalar,
    vector_nest,
)

MANY_UPDATES = 1 << 16
"""Elements of updates from which threads share the work."""
LONG_WINDOW = 32
"""Windows of so many columns are divided between tasks."""
FEW_TASKS, SMALL_TASKS = 2, 4
SMALL_RESULT = 1 << 14
"""Results of fewer elements can have several copies a task, so that updates of one element that
follow each other need not wait.
"""
LARGEST_NEAR_COPY = 1 << 16
"""Results of more elements do not stay in the near caches in several copies; long windows are then
better divided into columns.
"""
LARGEST_COPY = 1 << 22
"""Results of more elements have no copies at all."""
INTERLEAVED = 4


@dataclass(frozen=True)
class _Copies:
    """Private copies of the result: `count` of them, `turns` for every task in turn."""

    memory: Stored
    tasks: int
    turns: int
    size: int

    def offset(self, task: Any, turn: int) -> Any:
        return kernel.mul(kernel.add(kernel.mul(task, self.turns), turn), self.size)


class ScatterWriter:
    """Emits the loops of one scatter."""

    def __init__(
        self,
        builder: Any,
        combine: Combine | None,
        where: IndexMap,
        mode: GatherScatterMode,
        is_sum: bool = False,
        counts_from_end: bool = False,
    ) -> None:
        self.builder, self.combine, self.where, self.mode = builder, combine, where, mode
        self.is_sum, self.counts_from_end = is_sum, counts_from_end
        self.spare: Any = None

    def write(self, indices: Stored, updates: Stored, out: Stored) -> None:
        batch = [updates.shape[axis] for axis in self.where.batch_axes]
        window = [updates.shape[axis] for axis in self.where.dims.offset_dims]
        if is_complex(out.dtype) and self.combine is not None:
            self.spare = (self.builder.temporary(out.buffer.element, 1), 0)
        many = ax.product(updates.shape) >= MANY_UPDATES and self.spare is None
        if many and batch and self._has_room(updates, out, batch):
            self._by_copies(indices, updates, out, batch, window)
        elif many and window and window[-1] >= LONG_WINDOW and window[-1] % FEW_TASKS == 0:
            self._by_columns(indices, updates, out, batch, window)
        else:
            with self.builder.nest(batch) as position:
                self._vector(indices, updates, out, position, window)

    # -- sharing -------------------------------------------------------------------------------

    def _by_columns(
        self,
        indices: Stored,
        updates: Stored,
        out: Stored,
        batch: Sequence[int],
        window: Sequence[int],
    ) -> None:
        width = window[-1] // FEW_TASKS
        narrow = [*window[:-1], width]
        with self.builder.loop(FEW_TASKS, "parallel") as task:
            start = kernel.mul(task, width)
            with self.builder.nest(batch) as position:
                self._vector(indices, updates, out, position, narrow, start)

    def _has_room(self, updates: Stored, out: Stored, batch: Sequence[int]) -> bool:
        """Whether copies cost little beside the updates."""
        plain = out.buffer.element.is_float or out.buffer.element.is_integer
        size, many = ax.product(out.shape), ax.product(updates.shape)
        short = many < LONG_WINDOW * ax.product(batch)
        return (
            self.is_sum
            and plain
            and size <= (LARGEST_COPY if short else LARGEST_NEAR_COPY)
            and batch[0] >= 4 * SMALL_TASKS * INTERLEAVED
            and many >= (4 if size <= LARGEST_NEAR_COPY else 8) * size
        )

    def _by_copies(
        self,
        indices: Stored,
        updates: Stored,
        out: Stored,
        batch: Sequence[int],
        window: Sequence[int],
    ) -> None:
        builder, size = self.builder, ax.product(out.shape)
        small = size <= SMALL_RESULT
        tasks, turns = (SMALL_TASKS, INTERLEAVED) if small else (FEW_TASKS, 1)
        memory = builder.temporary(out.buffer.element, tasks * turns * size)
        copies = _Copies(Stored(memory, out.shape, out.dtype), tasks, turns, size)
        share = -(-batch[0] // tasks)
        # Apart from the tasks, which are few: what is inside them is not shared any further.
        with builder.loop(tasks * turns * size, "vector") as i:
            builder.store(memory, i, kernel.const(0, memory.element))
        with builder.loop(tasks, "parallel") as task:
            first = kernel.mul(task, share)
            end = kernel.minimum(kernel.add(first, share), kernel.index(batch[0]))
            count = kernel.sub(end, first)
            self._rows(indices, updates, copies, task, first, count, batch[1:], window)
        with builder.loop(size, "vector") as i:
            total = builder.load(out.buffer, i)
            for copy in range(tasks * turns):
                total = kernel.add(total, builder.load(memory, kernel.add(i, copy * size)))
            builder.store(out.buffer, i, total)

    def _rows(
        self,
        indices: Stored,
        updates: Stored,
        copies: _Copies,
        task: Any,
        first: Any,
        count: Any,
        inner: Sequence[int],
        window: Sequence[int],
    ) -> None:
        """A task's share of the updates, turn by turn into each of its copies."""
        builder = self.builder
        groups = kernel.div(count, kernel.index(copies.turns))
        with builder.loop(groups) as group:
            for turn in range(copies.turns):
                row = kernel.add(first, kernel.add(kernel.mul(group, copies.turns), turn))
                base = copies.offset(task, turn)
                with builder.nest(inner) as rest:
                    self._vector(indices, updates, copies.memory, (row, *rest), window, base=base)
        done = kernel.mul(groups, copies.turns)
        with builder.loop(kernel.sub(count, done)) as last, builder.nest(inner) as rest:
            row = kernel.add(first, kernel.add(done, last))
            base = copies.offset(task, 0)
            self._vector(indices, updates, copies.memory, (row, *rest), window, base=base)

    # -- one index vector ----------------------------------------------------------------------

    def _vector(
        self,
        indices: Stored,
        updates: Stored,
        out: Stored,
        batch: Sequence[Any],
        window: Sequence[int],
        column: Any = None,
        base: Any = None,
    ) -> None:
        """The window at one index vector; `column` is where in its last axis to begin, `base` where
        the result lies in memory.
        """
        builder, where = self.builder, self.where
        steps = ax.row_major_strides(indices.shape)
        row = flat(batch, steps[:-1])
        count = len(where.dims.start_index_map)
        vector = [builder.load(indices.buffer, kernel.add(row, i)) for i in range(count)]
        if self.counts_from_end:
            vector = [
                self._from_end(index, out.shape[axis])
                for index, axis in zip(vector, where.dims.start_index_map, strict=True)
            ]
        clip = self.mode is GatherScatterMode.CLIP
        starts, inside = where.starts(vector, clip)  # what is out of bounds is not used else
        if clip:
            inside = kernel.const(True, BOOL)
        with ExitStack() as stack:
            if not kernel.is_const(inside):
                stack.enter_context(builder.when(inside))
            kind = "serial" if self.spare else "vector"
            inner = list(stack.enter_context(vector_nest(builder, window, kind)))
            if column is not None:
                inner[-1] = kernel.add(inner[-1], column)
            index: list[Any] = [None] * len(updates.shape)
            axes = (*where.batch_axes, *where.dims.offset_dims)
            for axis, variable in zip(axes, (*batch, *inner), strict=True):
                index[axis] = variable
            self._element(updates, out, index, starts, base)

    def _from_end(self, index: Any, extent: int) -> Any:
        wide = kernel.convert(index, I64)
        return kernel.select(kernel.lt(wide, 0), kernel.add(wide, extent), wide)

    def _element(
        self, updates: Stored, out: Stored, index: list[Any], starts: dict[int, Any], base: Any
    ) -> None:
        source = flat(index, ax.row_major_strides(updates.shape))
        position = self.where.operand_index(starts, index)
        target = flat(position, ax.row_major_strides(out.shape))
        if base is not None:
            target = kernel.add(target, base)
        value = load_scalar(self.builder, updates, source)
        if self.combine is not None:
            value = combined(self.combine, load_scalar(self.builder, out, target), value)
        store_scalar(self.builder, out, target, value, self.spare)


def index_map(
    operand_shape: Sequence[int], updates_shape: Sequence[int], dims: ScatterDimensionNumbers
) -> IndexMap:
    """The index arithmetic of a scatter."""
    as_read = as_gather(dims)
    sizes = index_maps.window_sizes(as_read, len(operand_shape), updates_shape)
    return IndexMap(tuple(operand_shape), tuple(updates_shape), as_read, sizes)
