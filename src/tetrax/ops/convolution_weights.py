"""The loop nest of a convolution with few places and long sums: the gradient of weights.

What is the batch of this convolution are the channels of images, what are its features are the
images. Rows of the products are (place of the result, channel), and the sum runs
over places of the images, a block of them at a time. Blocks are dealt out to parts, each with sums
of its own, which are added up in order at the end; a part's rows may be split between tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tetrax.ir import kernel
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_expr import Buffer
from tetrax.ir.kernel_types import I32, I64, ScalarType
from tetrax.ir.views import Stored, element_type
from tetrax.ops import axes as ax
from tetrax.ops.convolution_blocks import Image, ImageBlock, Span
from tetrax.ops.convolution_emit import Geometry
from tetrax.ops.convolution_phases import AxisPhase, Phase, axis_phases, phases_of
from tetrax.ops.nests import flat, vector_nest

BLOCK_DEPTH = 256
"""About so many places are summed at a time: a panel of the other operand stays in the nearest
cache.
"""
BLOCK_ELEMENTS = 1 << 16
TASKS = 8
MOST_SUMS = 1 << 20
"""Elements that all parts together may have."""
PANEL_BYTES = 64
STRIP = 6


def suits_weights(geometry: Geometry) -> bool:
    """Whether sums are long, and the operand's batch axis lies within its feature axis, as it does
    where an operation's own operand and result swap these axes for the gradient.
    """
    g = geometry
    if g.groups > 1 or not g.strides:
        return False
    batch, feature, *_ = (ax.row_major_strides(g.lhs_shape)[axis] for axis in g.specs.lhs_spec)
    places = ax.product([g.out_shape[axis] for axis in g.specs.out_spec[2:]])
    window = ax.product([g.rhs_shape[axis] for axis in g.specs.rhs_spec[2:]])
    return batch < feature and window > 1 and places <= window


def emit_weights(
    builder: KernelBuilder,
    geometry: Geometry,
    lhs: Stored,
    rhs: Stored,
    out: Stored,
    compute: ScalarType,
) -> None:
    """Store the convolution of `lhs` and `rhs`, computed in f32 or f64, with one feature group."""
    if 0 in out.shape:
        return
    _Weights(builder, geometry, lhs, rhs, out, compute).run()


class _Weights:
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
        g, specs = geometry, geometry.specs
        lhs_channel, lhs_image, *lhs_steps = ax.strides_in_order(lhs.shape, specs.lhs_spec)
        self.rhs_feature, self.rhs_image, *self.rhs_steps = ax.strides_in_order(
            rhs.shape, specs.rhs_spec
        )
        self.out_channel, self.out_feature, *self.out_steps = ax.strides_in_order(
            out.shape, specs.out_spec
        )
        self.images = lhs.shape[specs.lhs_spec[1]]
        channels = lhs.shape[specs.lhs_spec[0]]
        self.channels = channels // g.batch_groups
        self.features = g.features
        self.all_features = g.features * g.batch_groups
        self.places = [out.shape[axis] for axis in specs.out_spec[2:]]
        self.phases = phases_of([self.axis(i) for i in g.spatial])[0]
        self.width = PANEL_BYTES // compute.bytes
        self.panels = -(-self.features // self.width)
        self.rows = ax.product(self.places) * self.channels
        if self.phases:
            sizes = [lhs.shape[axis] for axis in specs.lhs_spec[2:]]
            columns = zip(*self.phases, strict=True)
            spans = [Span.of(c, size) for c, size in zip(columns, sizes, strict=True)]
            self.image = Image(lhs, lhs_image, lhs_channel, lhs_steps, channels, spans)

    def axis(self, i: int) -> list[AxisPhase]:
        g = self.geometry
        window = self.rhs.shape[g.specs.rhs_spec[2 + i]]
        return axis_phases(
            self.places[i],
            window,
            g.strides[i],
            g.padding[i][0],
            g.lhs_dilation[i],
            g.rhs_dilation[i],
        )

    # --- how the work is cut ---

    def cut(self) -> None:
        """Rows of a block, blocks of a part, parts, and the pieces of a part's rows."""
        heights = [phase[0].window_count for phase in self.phases]
        inner = max(ax.product([a.window_count for a in phase[1:]]) for phase in self.phases)
        self.gap = self.phases[0][0].gap
        self.reach = 1 + max(
            phase[0].begin - self.image.spans[0].low + phase[0].move * (phase[0].count - 1)
            for phase in self.phases
        )
        row = ax.product([span.extent for span in self.image.spans[1:]]) * self.image.channels
        fitting = (BLOCK_ELEMENTS // max(1, row) - self.reach) // self.gap + 1
        height = max(1, min(max(heights), BLOCK_DEPTH // max(1, inner), fitting))
        self.pieces = -(-max(heights) // height)
        self.height = -(-max(heights) // self.pieces)
        self.units = self.images * self.pieces
        size = self.rows * self.all_features
        parts = max(1, min(TASKS, MOST_SUMS // size, self.units))
        self.each = -(-self.units // parts)
        self.parts = -(-self.units // self.each)
        self.splits = max(1, min(-(-TASKS // self.parts), self.rows // (4 * STRIP)))

    # --- tables ---

    def table(
        self, extents: Sequence[int], steps: Sequence[int], pieces: tuple[int, int] = (1, 0)
    ) -> Buffer:
        """A buffer of offsets, row-major.

        With `pieces`, (rows, distance), those of the nth piece of so many rows count from where n
        times that distance for each of its rows leads.
        """
        each, distance = pieces
        made = self.builder.temporary(I64, ax.product(extents))
        with self.builder.nest(extents) as index:
            place = flat(index, ax.row_major_strides(extents))
            piece = kernel.mul(kernel.div(place, kernel.index(each)), each * distance)
            self.builder.store(made, place, kernel.sub(flat(index, steps), piece))
        return made

    def tables(self, phase: Phase) -> tuple[Buffer, Buffer, Buffer]:
        """Where rows begin and end up, and what the sums consist of."""
        steps = self.block.steps
        counts = [*(axis.count for axis in phase), self.channels]
        moves = [axis.move * step for axis, step in zip(phase, steps, strict=True)]
        rows = self.table(counts, [*moves, 1])
        row = self.channels * self.all_features
        places = [n * row for n in ax.row_major_strides(self.places)]
        targets = [axis.step * n for axis, n in zip(phase, places, strict=True)]
        segments = [(axis.window_count, axis.gap * n) for axis, n in zip(phase, steps, strict=True)]
        segments[0] = (self.height, segments[0][1])
        extents, gaps = zip(*(segments[:-1] or [(1, 0)]), strict=True)
        each = self.piece(phase)
        targets = self.table(counts, [*targets, self.all_features], (each, self.all_features))
        return rows, targets, self.table(extents, gaps)

    def piece(self, phase: Phase) -> int:
        """Rows of a phase that a task has: whole strips."""
        total = ax.product([axis.count for axis in phase]) * self.channels
        return -(-total // (self.splits * STRIP)) * STRIP

    # --- loops ---

    def run(self) -> None:
        builder = self.builder
        size = self.rows * self.all_features
        if not self.phases or 0 in self.rhs.shape or 0 in self.lhs.shape:
            self.parts, self.sums = 1, builder.temporary(self.compute, size)
            with builder.loop(size, "vector") as i:
                builder.store(self.sums, i, kernel.const(0, self.compute))
            self.finish(size)
            return
        self.cut()
        rows = self.reach + self.gap * (self.height - 1)
        last = (self.pieces - 1) * self.height * self.gap
        # tiles step over channels: memory far away is read better by a copy
        self.block = ImageBlock(builder, self.image, self.compute, 1, rows, last, copied=True)
        made = {phase: self.tables(phase) for phase in self.phases}
        self.sums = builder.temporary(self.compute, self.parts * size)
        depth = max(ax.product([a.window_count for a in p[1:]]) for p in self.phases) * self.height
        self.packed = builder.temporary(self.compute, self.panels * self.width * depth)
        with vector_nest(builder, (self.parts, size)) as (part, i):
            place = kernel.add(kernel.mul(part, size), i)
            builder.store(self.sums, place, kernel.const(0, self.compute))
        with builder.loop(self.parts * self.splits, "parallel") as task:
            part = kernel.div(task, kernel.index(self.splits))
            split = kernel.rem(task, kernel.index(self.splits))
            first = kernel.mul(part, self.each)
            left = kernel.sub(kernel.index(self.units), first)
            with builder.loop(kernel.minimum(left, kernel.index(self.each))) as turn:
                unit = kernel.add(first, turn)
                image = kernel.div(unit, kernel.index(self.pieces))
                row = kernel.mul(kernel.rem(unit, kernel.index(self.pieces)), self.height)
                self.block.fill(image, kernel.mul(row, self.gap), kernel.index(1))
                with builder.loop(self.geometry.batch_groups) as group:
                    for phase in self.phases:
                        where = kernel.mul(part, size), split, group
                        self.products(phase, made[phase], (image, row), where)
        self.finish(size)

    def products(
        self, phase: Phase, tables: Sequence[Buffer], start: tuple[Any, Any], where: Sequence[Any]
    ) -> None:
        """Add a block's products to the sums: of one phase and group, for one piece of the rows."""
        builder, (image, row), (part, split, group) = self.builder, start, where
        rows, targets, segments = tables
        *_, last = phase
        left = kernel.sub(kernel.index(phase[0].window_count), row)
        height = kernel.maximum(kernel.minimum(left, kernel.index(self.height)), kernel.index(0))
        inner = ax.product([axis.window_count for axis in phase[1:]])
        self.pack(phase, image, row, height, group)
        total = ax.product([axis.count for axis in phase]) * self.channels
        each = self.piece(phase)
        first = kernel.mul(split, each)
        count = kernel.minimum(kernel.sub(kernel.index(total), first), kernel.index(each))
        begins = [axis.begin for axis in phase]
        source = self.block.begin(image, kernel.mul(row, self.gap), begins)
        source = kernel.add(source, kernel.mul(group, self.channels))
        place = sum(
            axis.first * n for axis, n in zip(phase, ax.row_major_strides(self.places), strict=True)
        )
        target = kernel.add(part, place * self.channels * self.all_features)
        target = kernel.add(target, kernel.mul(group, self.features))
        target = kernel.add(target, kernel.mul(first, self.all_features))
        if len(phase) == 1:
            segs, length = kernel.index(1), height
        else:
            segs = kernel.mul(height, inner // last.window_count)
            length = kernel.index(last.window_count)
        with builder.when(kernel.gt(count, kernel.index(0))):
            builder.call(
                f"tetrax_conv_{self.compute.name}",
                builder.address(self.block.buffer, source),
                builder.address(rows, first),
                builder.address(targets, first),
                builder.address(segments),
                builder.address(self.packed),
                builder.address(self.sums, target),
                count,
                kernel.index(self.features),
                segs,
                length,
                kernel.index(last.gap * self.block.steps[-1]),
                kernel.index(self.height * inner * self.width),
                kernel.const(1, I32),
            )

    def pack(self, phase: Phase, image: Any, row: Any, height: Any, group: Any) -> None:
        """A block of the other operand in panels of neighbouring features."""
        counts = [axis.window_count for axis in phase[1:]]
        inner, width = ax.product(counts), self.width
        steps = [axis.window_step * n for axis, n in zip(phase, self.rhs_steps, strict=True)]
        start = sum(axis.window_first * n for axis, n in zip(phase, self.rhs_steps, strict=True))
        base = kernel.add(kernel.mul(image, self.rhs_image), kernel.mul(row, steps[0]))
        base = kernel.add(base, kernel.mul(group, self.features * self.rhs_feature))
        whole, rest = divmod(self.features, width)
        panel = self.height * inner * width
        places = [n * width for n in ax.row_major_strides([self.height, *counts])]
        for first, panels, columns in ((0, whole, width), (whole, 1, rest)):
            if not panels or not columns:
                continue
            offset = kernel.add(base, start + first * width * self.rhs_feature)
            sources = [*steps, width * self.rhs_feature, self.rhs_feature]
            # place by place: the operand is then read as it lies in memory
            with vector_nest(self.builder, (height, *counts, panels, columns)) as index:
                source = kernel.add(offset, flat(index, sources))
                value = kernel.convert(self.builder.load(self.rhs.buffer, source), self.compute)
                target = kernel.add(flat(index, (*places, panel, 1)), first * panel)
                self.builder.store(self.packed, target, value)

    def finish(self, size: int) -> None:
        """The sum of the parts, where the result has it."""
        builder = self.builder
        extents = [*self.places, self.channels, self.all_features]
        with vector_nest(builder, extents) as index:
            place = flat(index, ax.row_major_strides(extents))
            total = builder.load(self.sums, place)
            for part in range(1, self.parts):
                total = kernel.add(total, builder.load(self.sums, kernel.add(place, part * size)))
            *places, channel, feature = index
            target = flat(places, self.out_steps)
            target = kernel.add(target, kernel.mul(channel, self.out_channel))
            target = kernel.add(target, kernel.mul(feature, self.out_feature))
            value = kernel.convert(total, element_type(self.out.dtype))
            builder.store(self.out.buffer, target, value)


__all__ = ["emit_weights", "suits_weights"]
