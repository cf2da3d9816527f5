"""Blocks of a convolution's operand, copied with their padding into a scratch, channels last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tetrax.ir import kernel
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_expr import Buffer
from tetrax.ir.kernel_types import ScalarType
from tetrax.ir.views import Stored, element_type
from tetrax.ops import axes as ax
from tetrax.ops.convolution_phases import AxisPhase
from tetrax.ops.nests import flat, vector_nest


@dataclass(frozen=True)
class Span:
    """The elements of the operand along an axis that windows meet: `extent` from `low` on."""

    low: int
    extent: int
    size: int

    @classmethod
    def of(cls, phases: Sequence[AxisPhase], size: int) -> Span:
        low = min(phase.begin for phase in phases)
        return cls(low, max(phase.last for phase in phases) - low + 1, size)

    @property
    def inside(self) -> bool:
        """Whether the operand has all of them."""
        return self.low >= 0 and self.low + self.extent <= self.size

    @property
    def margins(self) -> tuple[int, int, int]:
        """How many lie before, in and behind the operand."""
        before = min(self.extent, max(0, -self.low))
        end = min(self.extent, max(before, self.size - self.low))
        return before, end - before, self.extent - end


def dot(places: Sequence[int], steps: Sequence[int]) -> int:
    """The offset of a constant place."""
    return sum(place * step for place, step in zip(places, steps, strict=True))


@dataclass(frozen=True)
class Image:
    """The operand: distances between images, channels and spatial places, and what is met of it."""

    stored: Stored
    image: int
    channel: int
    steps: list[int]
    channels: int
    spans: list[Span]

    def readable(self, compute: ScalarType) -> bool:
        """Whether nothing has to be copied for channels to be neighbours and edges to be inside."""
        return (
            all(span.inside for span in self.spans)
            and (self.channel == 1 or self.channels == 1)
            and element_type(self.stored.dtype) is compute
        )


class ImageBlock:
    """Some rows of some images: in a scratch of their own, or where the operand has them.

    `last` is the furthest row of the span at which a block begins; `copied` asks for a scratch.
    """

    def __init__(
        self,
        builder: KernelBuilder,
        image: Image,
        compute: ScalarType,
        images: int,
        rows: int,
        last: int,
        copied: bool = False,
    ) -> None:
        self.builder, self.image, self.compute = builder, image, compute
        self.rows, self.last = rows, last
        self.spans = image.spans
        self.scratch: Buffer | None = None
        self.steps, self.size = image.steps, image.image
        if copied or not image.readable(compute):
            extents = [rows, *(span.extent for span in self.spans[1:]), image.channels]
            self.steps, self.size = ax.row_major_strides(extents)[:-1], ax.product(extents)
            self.scratch = builder.temporary(compute, images * self.size)

    @property
    def buffer(self) -> Buffer:
        """Where the block is read."""
        return self.scratch or self.image.stored.buffer

    def begin(self, image: Any, row: Any, places: Sequence[int], number: Any = 0) -> Any:
        """The offset of the element at `places` of `image`, in a block from `row` of the span on.

        Along the first axis places count from that row; `number` counts the block's images.
        """
        if self.scratch is None:
            start = kernel.mul(kernel.index(image), self.size)
            start = kernel.add(start, kernel.mul(kernel.index(row), self.steps[0]))
            return kernel.add(start, dot(places, self.steps))
        within = [place - span.low for place, span in zip(places, self.spans, strict=True)]
        return kernel.add(kernel.mul(kernel.index(number), self.size), dot(within, self.steps))

    def fill(self, image: Any, row: Any, count: Any) -> None:
        """Copy `count` images from `image` on, from `row` of the span on, if need be."""
        if self.scratch is None:
            return
        builder, span = self.builder, self.spans[0]
        begin, step = kernel.add(row, span.low), self.steps[0]
        with builder.nest((count, self.rows)) as (i, j):
            at = kernel.add(begin, j)
            target = kernel.add(kernel.mul(i, self.size), kernel.mul(j, step))
            source = kernel.mul(kernel.add(image, i), self.image.image)
            source = kernel.add(source, kernel.mul(at, self.image.steps[0]))
            if span.low >= 0 and span.low + self.last + self.rows <= span.size:
                self.copy_axis(1, source, target)
                return
            inside = kernel.bit_and(
                kernel.ge(at, kernel.index(0)), kernel.lt(at, kernel.index(span.size))
            )
            with builder.when(inside):
                self.copy_axis(1, source, target)
            with builder.otherwise():
                self.zeros(target, step)

    def copy_axis(self, axis: int, source: Any, target: Any) -> None:
        """One row along `axis` and the axes behind it, with zeros before and behind."""
        builder = self.builder
        if axis == len(self.spans):
            self.copy_elements(source, target, [(self.image.channels, self.image.channel, 1)])
            return
        step, span = self.steps[axis], self.spans[axis]
        before, middle, behind = span.margins
        self.zeros(target, before * step)
        self.zeros(kernel.add(target, (before + middle) * step), behind * step)
        stride = self.image.steps[axis]
        source = kernel.add(source, (span.low + before) * stride)
        target = kernel.add(target, before * step)
        if axis == len(self.spans) - 1:
            rows = [(middle, stride, step), (self.image.channels, self.image.channel, 1)]
            if stride == step and self.image.channel == 1:
                rows = [(middle * step, 1, 1)]
            self.copy_elements(source, target, rows)
            return
        with builder.loop(middle) as i:
            begin = kernel.add(source, kernel.mul(i, stride))
            self.copy_axis(axis + 1, begin, kernel.add(target, kernel.mul(i, step)))

    def copy_elements(self, source: Any, target: Any, rows: Sequence[tuple]) -> None:
        assert self.scratch is not None
        extents, sources, steps = zip(*rows, strict=True)
        if 0 in extents:
            return
        with vector_nest(self.builder, extents) as index:
            value = self.builder.load(
                self.image.stored.buffer, kernel.add(source, flat(index, sources))
            )
            place = kernel.add(target, flat(index, steps))
            self.builder.store(self.scratch, place, kernel.convert(value, self.compute))

    def zeros(self, target: Any, size: int) -> None:
        assert self.scratch is not None
        if size:
            with self.builder.loop(size, "vector") as i:
                zero = kernel.const(0, self.compute)
                self.builder.store(self.scratch, kernel.add(target, i), zero)


__all__ = ["Image", "ImageBlock", "Span", "dot"]
