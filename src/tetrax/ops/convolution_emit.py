"""The loop nest of a large convolution: windows copied into a matrix, then library products.

Where there is padding or dilation the operand is first copied into a padded and spread-out scratch,
so that windows have no edges. Rows of the window matrix are places of the result, in the order of
its memory; columns are places of the window. Rows are taken in blocks that fit the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tetrax.ir import kernel
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_types import F32, ScalarType
from tetrax.ir.views import Stored, element_type
from tetrax.ops import axes as ax
from tetrax.ops.join import dilated, pad_slices
from tetrax.ops.nests import flat, vector_nest
from tetrax.ops.products import Matrix, Multiplier, joint_stride

# Elements of the window matrix at a time: it should stay in the second-level cache, but sums over
# many places (gradients of weights) need enough rows for a product to pay.
BLOCK_ELEMENTS = 1 << 16
LONG_BLOCK_ELEMENTS = 1 << 18
# Longer sums are formed in pieces of about half this length.
LONG_DEPTH = 2048


@dataclass(frozen=True)
class Axis:
    """One loop over places: its extent, and how far it moves in each array."""

    extent: int
    source: int
    target: int


@dataclass(frozen=True)
class Geometry:
    """A convolution by axes; spatial rows are in the order of the window's spec."""

    lhs_shape: tuple[int, ...]
    rhs_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    specs: Any
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    groups: int
    batch_groups: int

    @classmethod
    def of(
        cls, lhs: Sequence[int], rhs: Sequence[int], out: Sequence[int], params: dict
    ) -> Geometry:
        return cls(
            tuple(lhs),
            tuple(rhs),
            tuple(out),
            params["dimension_numbers"],
            params["window_strides"],
            params["padding"],
            params["lhs_dilation"],
            params["rhs_dilation"],
            params["feature_group_count"],
            params["batch_group_count"],
        )

    @property
    def spatial(self) -> range:
        return range(len(self.strides))

    @property
    def features(self) -> int:
        """Result features of one group."""
        count = self.rhs_shape[self.specs.rhs_spec[0]]
        return count // max(self.groups, self.batch_groups)


def emit_convolution(
    builder: KernelBuilder,
    geometry: Geometry,
    lhs: Stored,
    rhs: Stored,
    out: Stored,
    compute: ScalarType,
) -> None:
    """Store the convolution of `lhs` and `rhs`, computed in f32 or f64."""
    if 0 in out.shape:
        return
    lhs = _padded(builder, geometry, lhs, compute)
    rhs = _converted(builder, rhs, compute)
    _Windows(builder, geometry, lhs, rhs, out, compute).run()


def _padded(builder: KernelBuilder, geometry: Geometry, lhs: Stored, compute: ScalarType) -> Stored:
    """The operand with its padding and dilation written out, in the type computed in."""
    plain = all(row == (0, 0) for row in geometry.padding) and not any(
        step > 1 for step in geometry.lhs_dilation
    )
    if plain:
        return _converted(builder, lhs, compute)
    shape = list(lhs.shape)
    targets, sources = [slice(0, n, 1) for n in shape], [slice(0, n) for n in shape]
    for i in geometry.spatial:
        axis = geometry.specs.lhs_spec[2 + i]
        (low, high), step = geometry.padding[i], geometry.lhs_dilation[i]
        targets[axis], sources[axis] = pad_slices(lhs.shape[axis], low, high, step - 1)
        shape[axis] = low + high + dilated(lhs.shape[axis], step)
    scratch = Stored(builder.temporary(compute, ax.product(shape)), tuple(shape), _DTYPES[compute])
    with vector_nest(builder, (ax.product(shape),)) as (i,):
        builder.store(scratch.buffer, i, kernel.const(0, compute))
    counts = [source.stop - source.start for source in sources]
    if 0 in counts:
        return scratch
    source_strides, strides = ax.row_major_strides(lhs.shape), ax.row_major_strides(shape)
    first = sum(s.start * n for s, n in zip(sources, source_strides, strict=True))
    start = sum(t.start * n for t, n in zip(targets, strides, strict=True))
    steps = [n * (t.step or 1) for t, n in zip(targets, strides, strict=True)]
    with vector_nest(builder, counts) as index:
        value = builder.load(lhs.buffer, kernel.add(flat(index, source_strides), first))
        place = kernel.add(flat(index, steps), start)
        builder.store(scratch.buffer, place, kernel.convert(value, compute))
    return scratch


_DTYPES = {F32: np.dtype(np.float32), kernel.F64: np.dtype(np.float64)}


def _converted(builder: KernelBuilder, x: Stored, compute: ScalarType) -> Stored:
    """The array in the type computed in, copied only if it is another."""
    if element_type(x.dtype) is compute:
        return x
    size = ax.product(x.shape)
    scratch = Stored(builder.temporary(compute, size), x.shape, _DTYPES[compute])
    with vector_nest(builder, (size,)) as (i,):
        value = kernel.convert(builder.load(x.buffer, i), compute)
        builder.store(scratch.buffer, i, value)
    return scratch


class _Windows:
    """Blocks of the window matrix, and the products with the weights."""

    def __init__(
        self,
        builder: KernelBuilder,
        geometry: Geometry,
        lhs: Stored,
        rhs: Stored,
        out: Stored,
        compute: ScalarType,
    ) -> None:
        self.builder, self.geometry, self.compute = builder, geometry, compute
        self.lhs, self.rhs, self.out = lhs, rhs, out
        self.lhs_strides = ax.row_major_strides(lhs.shape)
        self.rhs_strides = ax.row_major_strides(rhs.shape)
        self.out_strides = ax.row_major_strides(out.shape)
        self.rows = self._row_axes()
        self.columns = self._column_axes()
        self.inner_depth = ax.product([axis.extent for axis in self.columns[1:]])
        self.column_block = self.columns[0].extent
        if self.column_block * self.inner_depth > LONG_DEPTH:
            self.column_block = max(1, LONG_DEPTH // 2 // self.inner_depth)
        self.depth = self.column_block * self.inner_depth
        self.outer, self.block = self._blocks()
        self.most_rows = self.block * ax.product([axis.extent for axis in self.inner_rows])
        n = geometry.features
        self.multiplier = Multiplier(builder, compute, self.most_rows, n, self.depth)
        self.matrix = builder.temporary(compute, self.most_rows * self.depth)
        self.weights = self._weights()
        self.result = None if self._direct() else builder.temporary(compute, self.most_rows * n)

    # -- layout --------------------------------------------------------------------------------

    def _row_axes(self) -> list[Axis]:
        """Batch and places of the result, in the order of the result's memory."""
        g, specs = self.geometry, self.geometry.specs
        axes = [
            Axis(
                self.out.shape[specs.out_spec[0]],
                self.lhs_strides[specs.lhs_spec[0]],
                self.out_strides[specs.out_spec[0]],
            )
        ]
        for i in g.spatial:
            axis = specs.out_spec[2 + i]
            source = self.lhs_strides[specs.lhs_spec[2 + i]] * g.strides[i]
            axes.append(Axis(self.out.shape[axis], source, self.out_strides[axis]))
        return sorted(axes, key=lambda axis: -axis.target)

    def _column_axes(self) -> list[Axis]:
        """Features and places of the window, in the order of the window's memory."""
        g, specs = self.geometry, self.geometry.specs
        feature = specs.rhs_spec[1]
        axes = [
            Axis(
                self.rhs.shape[feature],
                self.lhs_strides[specs.lhs_spec[1]],
                self.rhs_strides[feature],
            )
        ]
        for i in g.spatial:
            axis = specs.rhs_spec[2 + i]
            source = self.lhs_strides[specs.lhs_spec[2 + i]] * g.rhs_dilation[i]
            axes.append(Axis(self.rhs.shape[axis], source, self.rhs_strides[axis]))
        return sorted(axes, key=lambda axis: -axis.target)

    def _blocks(self) -> tuple[int, int]:
        """How many row axes are looped over outside, and how much of the next one at a time."""
        several = self.column_block < self.columns[0].extent
        limit = LONG_BLOCK_ELEMENTS if several else BLOCK_ELEMENTS
        for outer in range(len(self.rows)):
            inner = ax.product([axis.extent for axis in self.rows[outer + 1 :]])
            fitting = limit // max(1, inner * self.depth)
            if fitting >= 1 or outer == len(self.rows) - 1:
                return outer, max(1, min(fitting, self.rows[outer].extent))
        raise AssertionError("a convolution has at least a batch axis")

    @property
    def inner_rows(self) -> list[Axis]:
        """The row axes that a block holds in full."""
        return self.rows[self.outer + 1 :]

    def _along_rows(self) -> bool:
        """Whether the operand is read in order along rows rather than along columns."""
        columns = [axis for axis in self.columns if axis.extent > 1]
        rows = [axis for axis in self.rows[self.outer :] if axis.extent > 1]
        in_columns = bool(columns) and columns[-1].source == 1
        return not in_columns and bool(rows) and rows[-1].source == 1

    def _weights(self) -> Matrix:
        """The weights as a matrix with all columns' places as rows; copied where need be."""
        extents = [axis.extent for axis in self.columns]
        strides = [axis.target for axis in self.columns]
        feature = self.rhs_strides[self.geometry.specs.rhs_spec[0]]
        row = joint_stride(extents, strides)
        if row is not None:
            return Matrix(self.rhs.buffer, kernel.index(0), row, feature)
        features = self.rhs.shape[self.geometry.specs.rhs_spec[0]]
        copy = self.builder.temporary(self.compute, ax.product(extents) * features)
        with vector_nest(self.builder, (*extents, features)) as index:
            value = self.builder.load(self.rhs.buffer, flat(index, (*strides, feature)))
            place = flat(index, ax.row_major_strides((*extents, features)))
            self.builder.store(copy, place, value)
        return Matrix(copy, kernel.index(0), features, 1)

    def _feature_stride(self) -> int:
        return self.out_strides[self.geometry.specs.out_spec[1]]

    def _direct(self) -> bool:
        """Whether rows of the product are rows of the result's memory."""
        same_type = element_type(self.out.dtype) is self.compute
        return same_type and self._feature_stride() == 1 and self._row_stride() is not None

    def _row_stride(self) -> int | None:
        rows = self.rows[self.outer :]
        return joint_stride([a.extent for a in rows], [a.target for a in rows])

    # -- loops ---------------------------------------------------------------------------------

    def run(self) -> None:
        g, builder = self.geometry, self.builder
        count = max(g.groups, g.batch_groups)
        blocked = self.rows[self.outer]
        blocks = -(-blocked.extent // self.block)
        outer_axes = self.rows[: self.outer]
        with (
            builder.loop(count) as group,
            builder.nest([axis.extent for axis in outer_axes]) as outer,
            builder.loop(blocks) as turn,
        ):
            start = kernel.mul(turn, self.block)
            size: Any = self.block
            if blocked.extent % self.block:
                left = kernel.sub(kernel.index(blocked.extent), start)
                size = kernel.minimum(left, kernel.index(size))
            source = kernel.add(
                flat(outer, [axis.source for axis in outer_axes]),
                kernel.mul(start, blocked.source),
            )
            target = kernel.add(
                flat(outer, [axis.target for axis in outer_axes]),
                kernel.mul(start, blocked.target),
            )
            source = kernel.add(source, kernel.mul(group, self._group_stride()))
            feature = kernel.mul(group, g.features)
            target = kernel.add(target, kernel.mul(feature, self._feature_stride()))
            self._sum_of_products(source, feature, target, size)

    def _group_stride(self) -> int:
        """How far apart in the operand the groups begin."""
        g, specs = self.geometry, self.geometry.specs
        if g.batch_groups > 1:
            return self.lhs_strides[specs.lhs_spec[0]] * self.out.shape[specs.out_spec[0]]
        return self.lhs_strides[specs.lhs_spec[1]] * self.rhs.shape[specs.rhs_spec[1]]

    def _sum_of_products(self, source: Any, feature: Any, target: Any, size: Any) -> None:
        """All columns of one block of rows, a piece of the columns at a time."""
        builder, first = self.builder, self.columns[0]
        pieces = -(-first.extent // self.column_block)
        with builder.loop(pieces) as turn:
            start = kernel.mul(turn, self.column_block)
            width: Any = self.column_block
            if first.extent % width:
                left = kernel.sub(kernel.index(first.extent), start)
                width = kernel.minimum(left, kernel.index(width))
            begin = kernel.add(source, kernel.mul(start, first.source))
            self._copy_windows(begin, size, width)
            later = kernel.convert(kernel.gt(turn, kernel.index(0)), kernel.I32)
            self._multiply(feature, target, size, (start, width, later))
        if self.result is not None:
            self._write(target, size, self.geometry.features)

    def _copy_windows(self, source: Any, size: Any, width: Any) -> None:
        """Fill the window matrix with `size` places of the result and `width` of the window.

        Both count along the axis that is cut into blocks.
        """
        builder = self.builder
        inner = ax.product([axis.extent for axis in self.inner_rows])
        rows = [
            (size, self.rows[self.outer].source),
            *((a.extent, a.source) for a in self.inner_rows),
        ]
        columns = [(width, self.columns[0].source)]
        columns += [(axis.extent, axis.source) for axis in self.columns[1:]]
        row_steps = _steps([inner, *(a.extent for a in self.inner_rows)], inner)
        column_steps = _steps([axis.extent for axis in self.columns], self.inner_depth)
        if self._along_rows():
            loops = columns + rows
            steps = [n * self.most_rows for n in column_steps] + row_steps
        else:
            loops = rows + columns
            steps = [n * self.depth for n in row_steps] + column_steps
        extents, sources, steps = _merged([n for n, _ in loops], [s for _, s in loops], steps)
        with vector_nest(builder, extents) as index:
            value = builder.load(self.lhs.buffer, kernel.add(source, flat(index, sources)))
            builder.store(self.matrix, flat(index, steps), value)

    def _multiply(self, feature: Any, target: Any, size: Any, piece: tuple) -> None:
        """Multiply the window matrix by the weights of `piece` (start, width, whether to add)."""
        start, width, later = piece
        inner = ax.product([axis.extent for axis in self.inner_rows])
        count, n = kernel.mul(kernel.index(size), inner), self.geometry.features
        row, column = (1, self.most_rows) if self._along_rows() else (self.depth, 1)
        a = Matrix(self.matrix, kernel.index(0), row, column)
        depth = kernel.mul(kernel.index(width), self.inner_depth)
        b = self.weights.at(kernel.mul(feature, self.weights.column))
        b = b.at(kernel.mul(start, self.inner_depth * self.weights.row))
        if self.result is None:
            c = Matrix(self.out.buffer, target, self._row_stride() or 1, 1)
        else:
            c = Matrix(self.result, kernel.index(0), n, 1)
        self.multiplier.multiply(a, b, c, later, rows=count, depth=depth)

    def _write(self, target: Any, size: Any, n: int) -> None:
        """Copy the product to where the result has it."""
        assert self.result is not None
        inner_rows = self.inner_rows
        inner = ax.product([axis.extent for axis in inner_rows])
        extents = [size, *(axis.extent for axis in inner_rows), n]
        steps = [self.rows[self.outer].target, *(axis.target for axis in inner_rows)]
        sources = [s * n for s in _steps([inner, *(a.extent for a in inner_rows)], inner)] + [1]
        with vector_nest(self.builder, extents) as index:
            value = self.builder.load(self.result, flat(index, sources))
            place = kernel.add(target, flat(index, (*steps, self._feature_stride())))
            kind = element_type(self.out.dtype)
            self.builder.store(self.out.buffer, place, kernel.convert(value, kind))


def _steps(extents: Sequence[int], inner: int) -> list[int]:
    """Row-major steps of a block whose first axis has a run-time extent."""
    return [inner, *ax.row_major_strides(extents[1:])]


def _merged(
    extents: Sequence[Any], sources: Sequence[int], steps: Sequence[int]
) -> tuple[list[Any], list[int], list[int]]:
    """The same loops with neighbours made one where both arrays allow it, and none of one turn."""
    rows: list[tuple[Any, int, int]] = []
    for extent, source, step in zip(extents, sources, steps, strict=True):
        if isinstance(extent, int) and extent == 1:
            continue
        if rows and isinstance(extent, int):
            outer, outer_source, outer_step = rows[-1]
            if outer_source == extent * source and outer_step == extent * step:
                joined = kernel.mul(outer, extent) if not isinstance(outer, int) else outer * extent
                rows[-1] = (joined, source, step)
                continue
        rows.append((extent, source, step))
    if not rows:
        rows = [(1, 0, 0)]
    return [r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows]


__all__ = ["Geometry", "emit_convolution"]
