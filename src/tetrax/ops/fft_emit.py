"""The loop nest of a Fourier transform: the library's routines, block by block.

A transform of several axes does them one after another, the last one first: lines along the last
axis, then columns, in place. Transforms of an even number of real elements are of half as many
complex ones, with a step before or after; those of an odd number go through complex lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tetrax.ir import kernel
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_expr import Buffer, Expr
from tetrax.ir.kernel_statements import Address
from tetrax.ops import axes as ax
from tetrax.ops.fft_plan import (
    Transform,
    code_of,
    column_table_size,
    passes_of,
    radices_of,
    strip_of,
    table_sizes,
)

CHUNK = 4096
"""Numbers in a task of the step between complex and real spectra."""


@dataclass(frozen=True)
class Lines:
    """Lines in memory: how far they are apart, and where the first one begins; in scalars."""

    buffer: Buffer
    distance: int
    start: Any = 0

    def place(self, line: Any, within: Any = 0) -> Any:
        """Where a place in a line is."""
        return kernel.add(kernel.add(kernel.mul(line, self.distance), self.start), within)

    def from_line(self, line: Any) -> Lines:
        """The lines from one on."""
        return Lines(self.buffer, self.distance, self.place(line))

    def address(self, within: Any = 0) -> Address:
        """The address of a place in the first line."""
        return Address(self.buffer, kernel.add(kernel.index(self.start), within))


class FftEmitter:
    """A transform within one kernel."""

    def __init__(self, builder: KernelBuilder, transform: Transform, tables: Buffer) -> None:
        self.builder, self.transform, self.tables = builder, transform, tables
        self.element = tables.element
        self.plan, self.lanes = transform.plan, transform.plan.lanes
        sizes = table_sizes(self.plan)
        if transform.halves:
            sizes.append(transform.n // 2 + 1)
        sizes += [column_table_size(n) for _, n, _ in transform.extents]
        # in scalars
        self.places = [2 * sum(sizes[:at]) for at in range(len(sizes))]

    def run(self, source: Buffer, target: Buffer) -> None:
        """Transform all axes."""
        extents, inverse = self.transform.extents, self.transform.inverse
        places = self.places[len(self.places) - len(extents) :]
        if self.transform.real and inverse:
            for extent, place in zip(extents, places, strict=True):
                middle = source
                if source.mode != "temp":
                    middle = self.builder.temporary(self.element, 2 * ax.product(extent))
                self.columns(source, middle, extent, place, False)
                source = middle
            self.last_axis(source, target)
            return
        if self.transform.has_lines:
            self.last_axis(source, target)
            source = target
        for extent, place in zip(extents, places, strict=True):
            self.columns(source, target, extent, place, source is not target)
            source = target

    def last_axis(self, source: Buffer, target: Buffer) -> None:
        """Transform the lines along the last axis."""
        t = self.transform
        if not t.real:
            self._complex(source, target)
        elif t.halves:
            (self._from_halves if t.inverse else self._to_halves)(source, target)
        else:
            (self._from_spectrum if t.inverse else self._to_spectrum)(source, target)

    def _complex(self, source: Buffer, target: Buffer) -> None:
        n = self.transform.n
        with self.groups() as (first, count):
            self.lines(
                Lines(source, 2 * n).from_line(first), Lines(target, 2 * n).from_line(first), count
            )

    def _to_halves(self, source: Buffer, target: Buffer) -> None:
        """Real elements, seen as half as many complex ones, to half a spectrum."""
        half = self.transform.n // 2
        with self.groups() as (first, count):
            middle = self._middle(half)
            self.lines(Lines(source, 2 * half).from_line(first), middle, count)
            with self.builder.loop(count) as line:
                spectrum = Lines(target, 2 * half + 2).from_line(kernel.add(first, line))
                self._between("real", middle.from_line(line), spectrum, half + 1)

    def _from_halves(self, source: Buffer, target: Buffer) -> None:
        half = self.transform.n // 2
        with self.groups() as (first, count):
            middle = self._middle(half)
            with self.builder.loop(count) as line:
                spectrum = Lines(source, 2 * half + 2).from_line(kernel.add(first, line))
                self._between("unreal", spectrum, middle.from_line(line), half)
            self.lines(middle, Lines(target, 2 * half).from_line(first), count)

    def _between(self, name: str, source: Lines, target: Lines, count: int) -> None:
        """The step between complex and real spectra of one line, in chunks."""
        table = self.places[len(table_sizes(self.plan))]
        chunks = -(-count // CHUNK)
        with self.builder.loop(chunks, "parallel" if chunks > 1 else "serial") as chunk:
            start = kernel.mul(chunk, CHUNK)
            size = kernel.minimum(kernel.index(CHUNK), kernel.sub(count, start))
            self.call(
                name,
                *(source.address(), self.address(self.tables, table)),
                target.address(kernel.mul(start, 2)),
                *(min(CHUNK, count), self.transform.n // 2, start, size),
            )

    def _to_spectrum(self, source: Buffer, target: Buffer) -> None:
        """An odd number of real elements by complex lines."""
        builder, n = self.builder, self.transform.n
        half = n // 2 + 1
        with self.groups() as (first, count):
            middle, whole = self._middle(n), self._middle(n)
            with builder.loop(count) as line, builder.loop(n, "vector") as i:
                real = kernel.add(kernel.mul(kernel.add(first, line), n), i)
                place = middle.place(line, kernel.mul(i, 2))
                builder.store(middle.buffer, place, builder.load(source, real))
                builder.store(middle.buffer, kernel.add(place, 1), 0.0)
            self.lines(middle, whole, count)
            with builder.loop(count) as line, builder.loop(2 * half, "vector") as i:
                place = kernel.add(kernel.mul(kernel.add(first, line), 2 * half), i)
                builder.store(target, place, builder.load(whole.buffer, whole.place(line, i)))

    def _from_spectrum(self, source: Buffer, target: Buffer) -> None:
        builder, n = self.builder, self.transform.n
        half = n // 2 + 1
        with self.groups() as (first, count):
            middle, whole = self._middle(n), self._middle(n)
            with builder.loop(count) as line:
                start = kernel.mul(kernel.add(first, line), 2 * half)
                builder.store(middle.buffer, middle.place(line), builder.load(source, start))
                builder.store(middle.buffer, middle.place(line, 1), 0.0)
                with builder.loop(half - 1, "vector") as i:
                    near = kernel.add(start, kernel.mul(kernel.add(i, 1), 2))
                    re, im = builder.load(source, near), builder.load(source, kernel.add(near, 1))
                    for at, value in (
                        (kernel.add(i, 1), im),
                        (kernel.sub(n - 1, i), kernel.neg(im)),
                    ):
                        place = middle.place(line, kernel.mul(at, 2))
                        builder.store(middle.buffer, place, re)
                        builder.store(middle.buffer, kernel.add(place, 1), value)
            self.lines(middle, whole, count)
            with builder.loop(count) as line, builder.loop(n, "vector") as i:
                place = kernel.add(kernel.mul(kernel.add(first, line), n), i)
                value = builder.load(whole.buffer, whole.place(line, kernel.mul(i, 2)))
                builder.store(target, place, value)

    def _middle(self, n: int) -> Lines:
        """Scratch memory for a group of lines."""
        return Lines(self.builder.temporary(self.element, 2 * n * self.plan.group), 2 * n)

    # --- calls ---

    def call(self, name: str, *arguments: Any) -> None:
        wrapped = [kernel.index(a) if isinstance(a, int) else a for a in arguments]
        self.builder.call(f"tetrax_fft_{name}_{self.element.name}", *wrapped)

    def ends(self, scaled: bool) -> tuple[int, Expr]:
        """How a transform begins and ends: parts exchanged or not, and results scaled; inverse
        transforms of several axes are scaled once.
        """
        t = self.transform
        total = t.n * ax.product([n for _, n, _ in t.extents])
        scale = 1 / total if t.inverse and scaled else 1.0
        return int(t.inverse), kernel.const(scale, self.element)

    def table(self, at: int, offset: Any = 0) -> Address:
        return self.builder.address(self.tables, kernel.add(kernel.index(self.places[at]), offset))

    # --- lines ---

    @contextmanager
    def groups(self) -> Iterator[tuple[Any, Any]]:
        """(first line, number of lines) of what one turn of a loop does."""
        group, count = self.plan.group, self.transform.lines
        kind = "serial" if self.plan.kind == "split" else "parallel"
        with self.builder.loop(-(-count // group), kind) as at:
            first = kernel.mul(at, group)
            if count % group == 0:
                yield first, kernel.index(group)
            else:
                yield first, kernel.minimum(kernel.index(group), kernel.sub(count, first))

    def lines(self, source: Lines, target: Lines, count: Expr) -> None:
        """Transform a group of lines."""
        {"rows": self._rows, "line": self._line, "split": self._split}[self.plan.kind](
            source, target, count
        )

    def _rows(self, source: Lines, target: Lines, count: Expr) -> None:
        n, distances = self.plan.n, (source.distance // 2, target.distance // 2)
        self.call(
            "rows",
            *(source.address(), self.table(0), target.address()),
            *(n * self.lanes, count, *distances, n, *passes_of(n), *self.ends(True)),
        )

    def _line(self, source: Lines, target: Lines, count: Expr) -> None:
        n, m = self.plan.n, self.plan.second
        self.call(
            "line",
            *(source.address(), self.table(0), target.address()),
            *(n, m, *passes_of(m), *self.ends(True)),
        )

    def _split(self, source: Lines, target: Lines, count: Expr) -> None:
        width, first, second = self.lanes, self.plan.first, self.plan.second
        rows, cells = (-(-n // width) * width for n in (first, second))
        far = cells * 2 * width
        middle = self.builder.temporary(self.element, rows // width * far)
        size = strip_of(second, first, width)
        with self.builder.loop(-(-second // size), "parallel") as strip:
            self.call(
                "split",
                source.address(kernel.mul(strip, 2 * size)),
                *(self.table(0), self.table(1)),
                self.table(2, kernel.mul(strip, 2 * rows * (size // width))),
                self.address(middle, kernel.mul(strip, 2 * size * width)),
                *(first * size, self._columns(strip, size, second), second, first),
                *(code_of(radices_of(first) or ()), int(self.transform.inverse), far),
            )
        size = strip_of(first, second, width)
        scaled = self.ends(True)
        with self.builder.loop(-(-first // size), "parallel") as strip:
            self.call(
                "join",
                *(self.address(middle, kernel.mul(strip, size // width * far)), self.table(3)),
                target.address(kernel.mul(strip, 2 * size)),
                *(second * size, self._columns(strip, size, first), first, second),
                *(*passes_of(second), scaled[0], far, scaled[1]),
            )

    def _columns(self, strip: Any, size: int, columns: int) -> Any:
        """How many columns a strip has."""
        if columns % size == 0:
            return size
        return kernel.minimum(kernel.index(size), kernel.sub(columns, kernel.mul(strip, size)))

    def address(self, buffer: Buffer, offset: Any = 0) -> Address:
        return self.builder.address(buffer, offset)

    # --- columns ---

    def columns(
        self,
        source: Buffer,
        target: Buffer,
        extents: tuple[int, int, int],
        table: int,
        scaled: bool,
    ) -> None:
        """Transform the middle one of three axes."""
        outer, n, inner = extents
        size = strip_of(inner, n, self.lanes)
        strips = -(-inner // size)
        with self.builder.loop(outer * strips, "parallel") as turn:
            strip = kernel.rem(turn, strips)
            start = kernel.mul(kernel.div(turn, strips), 2 * n * inner)
            place = kernel.add(start, kernel.mul(strip, 2 * size))
            self.call(
                "columns",
                *(self.address(source, place), self.address(self.tables, table)),
                *(self.address(target, place), n * size, self._columns(strip, size, inner)),
                *(inner, inner, n, *passes_of(n), *self.ends(scaled)),
            )


__all__ = ["FftEmitter"]
