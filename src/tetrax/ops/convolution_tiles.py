"""The loop nest of a convolution: tiles straight from the image.

A block of the operand (some images, or some rows of one) is copied with its padding into a scratch
that fits the cache, channels last; without padding it is read where it is. A library routine then
computes the block's places of the result from tables of where windows begin and of what they
consist of, so stride and dilation are only numbers in tables. Weights are put into panels first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from tetrax.ir import kernel
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_expr import Buffer
from tetrax.ir.kernel_types import I32, I64, ScalarType
from tetrax.ir.views import Stored, element_type
from tetrax.ops import axes as ax
from tetrax.ops.convolution_blocks import Image, ImageBlock, Span, dot
from tetrax.ops.convolution_emit import Geometry
from tetrax.ops.convolution_phases import AxisPhase, Phase, axis_phases, phases_of
from tetrax.ops.nests import flat, vector_nest

BLOCK_ELEMENTS = 1 << 16
"""Elements of a block of the operand: about half of a second-level cache."""
LEAST_BLOCKS = 8
"""There are so many blocks if there can be, so that they can be shared between threads."""
PANEL_BYTES = 64


def suits_tiles(geometry: Geometry) -> bool:
    """Whether a convolution is computed from tiles; not where it is a plain product of matrices."""
    g = geometry
    if g.batch_groups > 1 or not g.strides:
        return False
    window = ax.product([g.rhs_shape[axis] for axis in g.specs.rhs_spec[2:]])
    return window > 1 or any(n > 1 for n in (*g.strides, *g.lhs_dilation))


def emit_tiles(
    builder: KernelBuilder,
    geometry: Geometry,
    lhs: Stored,
    rhs: Stored,
    out: Stored,
    compute: ScalarType,
) -> None:
    """Store the convolution of `lhs` and `rhs`, computed in f32 or f64, without batch groups."""
    if 0 in out.shape:
        return
    _Tiles(builder, geometry, lhs, rhs, out, compute).run()


class _Tiles:
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
        specs = geometry.specs
        lhs_strides = ax.strides_in_order(lhs.shape, specs.lhs_spec)
        rhs_strides = ax.strides_in_order(rhs.shape, specs.rhs_spec)
        out_strides = ax.strides_in_order(out.shape, specs.out_spec)
        self.lhs_image, self.lhs_channel, *self.lhs_steps = lhs_strides
        self.rhs_feature, self.rhs_channel, *self.rhs_steps = rhs_strides
        self.out_image, self.out_feature, *self.out_steps = out_strides
        self.images = lhs.shape[specs.lhs_spec[0]]
        self.channels = lhs.shape[specs.lhs_spec[1]]
        self.group_channels = rhs.shape[specs.rhs_spec[1]]
        self.features = geometry.features
        self.axes = self._axes()
        self.phases, self.empty = phases_of(self.axes)
        self.width = PANEL_BYTES // compute.bytes
        self.panels = -(-self.features // self.width)

    def _axes(self) -> list[list[AxisPhase]]:
        """The phases of each axis."""
        g = self.geometry
        return [
            axis_phases(
                self.out.shape[g.specs.out_spec[2 + i]],
                self.rhs.shape[g.specs.rhs_spec[2 + i]],
                g.strides[i],
                g.padding[i][0],
                g.lhs_dilation[i],
                g.rhs_dilation[i],
            )
            for i in g.spatial
        ]

    # --- what a block is ---

    @cached_property
    def spans(self) -> list[Span]:
        g = self.geometry
        sizes = [self.lhs.shape[axis] for axis in g.specs.lhs_spec[2:]]
        columns = list(zip(*self.phases, strict=True))
        return [Span.of(column, size) for column, size in zip(columns, sizes, strict=True)]

    @cached_property
    def move(self) -> int:
        """How far a place of the result along the first axis moves in the operand."""
        return self.phases[0][0].move

    @cached_property
    def most_rows(self) -> int:
        return max(phase[0].count for phase in self.phases)

    @cached_property
    def reach(self) -> int:
        """Rows of the operand that one row of the result needs."""
        return max(
            axis.begin - self.spans[0].low + axis.gap * (axis.window_count - 1) + 1
            for axis in (phase[0] for phase in self.phases)
        )

    @cached_property
    def row_elements(self) -> int:
        """Elements of one row of a block."""
        return ax.product([span.extent for span in self.spans[1:]]) * self.channels

    @cached_property
    def block(self) -> tuple[int, int]:
        """Images and rows of the result in a block: several images only if they are whole."""
        image = self.spans[0].extent * self.row_elements
        if image <= BLOCK_ELEMENTS and (self.images >= LEAST_BLOCKS or self.most_rows == 1):
            fitting = max(1, BLOCK_ELEMENTS // max(1, image))
            return max(1, min(fitting, self.images // LEAST_BLOCKS)), self.most_rows
        fitting = (BLOCK_ELEMENTS // max(1, self.row_elements) - self.reach) // self.move + 1
        pieces = max(1, -(-LEAST_BLOCKS // max(1, self.images)))
        pieces = max(pieces, -(-self.most_rows // max(1, fitting)))
        return 1, -(-self.most_rows // pieces)

    @cached_property
    def block_rows(self) -> int:
        """Rows of the operand that a block holds."""
        if self.block[1] == self.most_rows:
            return self.spans[0].extent
        return self.reach + self.move * (self.block[1] - 1)

    @cached_property
    def image(self) -> Image:
        """What is read of the operand."""
        return Image(
            self.lhs, self.lhs_image, self.lhs_channel, self.lhs_steps, self.channels, self.spans
        )

    # --- tables ---

    def table(self, extents: Sequence[int], steps: Sequence[int]) -> Buffer:
        """A buffer of offsets, row-major."""
        made = self.builder.temporary(I64, ax.product(extents))
        with self.builder.nest(extents) as index:
            place = flat(index, ax.row_major_strides(extents))
            self.builder.store(made, place, kernel.add(kernel.index(0), flat(index, steps)))
        return made

    def tables(self) -> None:
        """Where rows of the products begin, and the segments they consist of, for each phase."""
        images, rows = self.block
        made: dict[Any, Buffer] = {}

        def table(extents: Sequence[int], steps: Sequence[int]) -> Buffer:
            key = tuple(extents), tuple(steps)
            if key not in made:
                made[key] = self.table(*key)
            return made[key]

        self.rows, self.targets, self.segments = {}, {}, {}
        for phase in self.phases:
            extents = [images, rows, *(axis.count for axis in phase[1:])]
            moves = [axis.move * step for axis, step in zip(phase, self.source.steps, strict=True)]
            self.rows[phase] = table(extents, [self.source.size, *moves])
            self.targets[phase] = table(extents, self.target_steps(phase, extents))
            count = [axis.window_count for axis in phase]
            gaps = [axis.gap * step for axis, step in zip(phase, self.source.steps, strict=True)]
            if self.joined(phase):
                count, gaps = count[:-1] or [1], gaps[:-1] or [0]
            self.segments[phase] = table(count, gaps)

    def target_steps(self, phase: Phase, extents: Sequence[int]) -> list[int]:
        if not self.direct:
            return [n * self.features for n in ax.row_major_strides(extents)]
        steps = [axis.step * step for axis, step in zip(phase, self.out_steps, strict=True)]
        return [self.out_image, *steps]

    def joined(self, phase: Phase) -> bool:
        """Whether the last axis of the window is contiguous with the channels in the block."""
        return phase[-1].gap * self.source.steps[-1] == self.group_channels

    @cached_property
    def direct(self) -> bool:
        """Whether products are stored where the result has them."""
        same = element_type(self.out.dtype) is self.compute
        return same and (self.out_feature == 1 or self.features == 1)

    # --- weights ---

    def depth(self, phase: Phase) -> int:
        return ax.product([axis.window_count for axis in phase]) * self.group_channels

    def pack(self, phase: Phase) -> Buffer:
        """The phase's part of the window in panels of neighbouring features."""
        depth, width, builder = self.depth(phase), self.width, self.builder
        groups = self.geometry.groups
        panel = depth * width
        target = builder.temporary(self.compute, groups * self.panels * panel)
        counts = [axis.window_count for axis in phase]
        places = ax.row_major_strides([*counts, self.group_channels])
        steps = [axis.window_step * n for axis, n in zip(phase, self.rhs_steps, strict=True)]
        start = dot([axis.window_first for axis in phase], self.rhs_steps)
        whole, rest = divmod(self.features, width)
        for first, panels, columns in ((0, whole, width), (whole, 1, rest)):
            if not panels or not columns:
                continue
            extents = [groups, panels, *counts, self.group_channels, columns]
            sources = [
                self.features * self.rhs_feature,
                width * self.rhs_feature,
                *steps,
                self.rhs_channel,
                self.rhs_feature,
            ]
            targets = [self.panels * panel, panel, *(n * width for n in places), 1]
            with vector_nest(builder, extents) as index:
                source = kernel.add(flat(index, sources), start + first * width * self.rhs_feature)
                value = kernel.convert(builder.load(self.rhs.buffer, source), self.compute)
                builder.store(target, kernel.add(flat(index, targets), first * panel), value)
        return target

    # --- loops ---

    def run(self) -> None:
        for phase in self.empty:
            self.clear(phase)
        if not self.phases:
            return
        builder = self.builder
        images, rows = self.block
        last = (-(-self.most_rows // rows) - 1) * rows * self.move
        self.source = ImageBlock(builder, self.image, self.compute, images, self.block_rows, last)
        self.tables()
        weights = {phase: self.pack(phase) for phase in self.phases}
        self.result = None if self.direct else builder.temporary(self.compute, self.result_size())
        pieces = -(-self.most_rows // rows)
        blocks = -(-self.images // images) * pieces
        with builder.loop(blocks, "parallel") as turn:
            image = kernel.mul(kernel.div(turn, kernel.index(pieces)), images)
            row = kernel.mul(kernel.rem(turn, kernel.index(pieces)), rows)
            count: Any = kernel.index(images)
            if self.images % images:
                count = kernel.minimum(kernel.sub(kernel.index(self.images), image), count)
            self.source.fill(image, kernel.mul(row, self.move), count)
            with builder.loop(self.geometry.groups) as group:
                for phase in self.phases:
                    self.multiply(phase, weights[phase], group, (image, row, count))

    def result_size(self) -> int:
        images, rows = self.block
        places = max(ax.product([a.count for a in phase[1:]]) for phase in self.phases)
        return images * rows * places * self.features

    def clear(self, phase: Phase) -> None:
        """Zeros where no window meets an element."""
        total = self.features * self.geometry.groups
        extents = [self.images, *(axis.count for axis in phase), total]
        steps = [axis.step * n for axis, n in zip(phase, self.out_steps, strict=True)]
        start = dot([axis.first for axis in phase], self.out_steps)
        with vector_nest(self.builder, extents) as index:
            place = flat(index, [self.out_image, *steps, self.out_feature])
            zero = kernel.const(0, element_type(self.out.dtype))
            self.builder.store(self.out.buffer, kernel.add(place, start), zero)

    def multiply(
        self, phase: Phase, weights: Buffer, group: Any, block: tuple[Any, Any, Any]
    ) -> None:
        """The places of one phase and group in a block."""
        image, row, count = block
        rows = self.block[1]
        inner = ax.product([axis.count for axis in phase[1:]])
        if rows == self.most_rows:
            # whole images: the phase may have fewer rows than the tables
            height: Any = kernel.index(rows)
            if phase[0].count < rows:
                self.by_images(phase, weights, group, block)
                return
        else:
            left = kernel.sub(kernel.index(phase[0].count), row)
            height = kernel.maximum(kernel.minimum(left, kernel.index(rows)), kernel.index(0))
        places = kernel.mul(kernel.mul(count, height), inner)
        self.call(phase, weights, group, (image, row), places)
        if self.result is not None:
            self.write(phase, group, (image, row), (count, height))

    def by_images(
        self, phase: Phase, weights: Buffer, group: Any, block: tuple[Any, Any, Any]
    ) -> None:
        """As `multiply`, image by image."""
        image, row, count = block
        inner = ax.product([axis.count for axis in phase[1:]])
        height = phase[0].count
        with self.builder.loop(count) as i:
            start = (kernel.add(image, i), row)
            self.call(phase, weights, group, start, kernel.index(height * inner), i)
            if self.result is not None:
                one = (kernel.index(1), kernel.index(height))
                self.write(phase, group, start, one)

    def call(
        self,
        phase: Phase,
        weights: Buffer,
        group: Any,
        start: tuple[Any, Any],
        places: Any,
        image: Any = 0,
    ) -> None:
        """The products of `places` rows; `image` counts images in the scratch."""
        builder = self.builder
        begins = [axis.begin for axis in phase]
        source = self.source.begin(start[0], kernel.mul(start[1], self.move), begins, image)
        source = kernel.add(source, kernel.mul(group, self.group_channels))
        depth = self.depth(phase)
        length = self.group_channels * (phase[-1].window_count if self.joined(phase) else 1)
        builder.call(
            f"tetrax_conv_{self.compute.name}",
            builder.address(self.source.buffer, source),
            builder.address(self.rows[phase]),
            builder.address(self.targets[phase]),
            builder.address(self.segments[phase]),
            builder.address(weights, kernel.mul(group, self.panels * depth * self.width)),
            self.target(phase, group, start),
            places,
            *(kernel.index(n) for n in (self.features, depth // length, length, 1)),
            kernel.index(depth * self.width),
            kernel.const(0, I32),
        )

    def target(self, phase: Phase, group: Any, start: tuple[Any, Any]) -> Any:
        if self.result is not None:
            return self.builder.address(self.result)
        return self.builder.address(self.out.buffer, self.place(phase, group, start))

    def place(self, phase: Phase, group: Any, start: tuple[Any, Any]) -> Any:
        """Where the result has the first place of a block."""
        image, row = start
        first = dot([axis.first for axis in phase], self.out_steps)
        place = kernel.add(kernel.mul(image, self.out_image), first)
        place = kernel.add(place, kernel.mul(row, phase[0].step * self.out_steps[0]))
        return kernel.add(place, kernel.mul(group, self.features * self.out_feature))

    def write(
        self, phase: Phase, group: Any, start: tuple[Any, Any], size: tuple[Any, Any]
    ) -> None:
        """Copy products to where the result has them."""
        assert self.result is not None
        builder, kind = self.builder, element_type(self.out.dtype)
        extents = [*size, *(axis.count for axis in phase[1:]), self.features]
        known = [self.block[0], self.block[1], *extents[2:]]
        sources = ax.row_major_strides(known)
        steps = [axis.step * n for axis, n in zip(phase, self.out_steps, strict=True)]
        place = self.place(phase, group, start)
        with vector_nest(builder, extents) as index:
            value = builder.load(self.result, flat(index, sources))
            target = kernel.add(place, flat(index, [self.out_image, *steps, self.out_feature]))
            builder.store(self.out.buffer, target, kernel.convert(value, kind))


__all__ = ["emit_tiles"]
