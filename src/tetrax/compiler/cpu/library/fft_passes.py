"""Passes over panels, and what brings numbers into panels and out of them, as LLVM text.

A transform of n = r m numbers is a pass of butterflies of r numbers, m apart, and r transforms of m
numbers (Stockham's order: what a pass writes is in order at the end, with no permutation). With s
for what is done already a pass reads cell q + s (p + m k) for k < r and writes cell
q + s (r p + k), times the twiddle w^(p k), for all q < s and p < m. Twiddles are scalars, those of
p = 0 are left out.
"""

from __future__ import annotations

from collections.abc import Callable

from tetrax.compiler.cpu.library.fft_text import ComplexFunction, Pair
from tetrax.compiler.cpu.library.gemm_text import Shape

OUTER_RADICES = (2, 3, 4, 5, 8)
"""Numbers whose passes can also read from memory, or write there."""

Read = Callable[[str], Pair]


class Pass(ComplexFunction):
    """From panel to panel."""

    def __init__(self, shape: Shape, radix: int) -> None:
        super().__init__(shape, f"pass_{radix}")
        self.radix = radix

    def text(self) -> str:
        self.gap = self.times(self.times("%m", "%s"), 2 * self.lanes)
        self.step = self.times("%s", 2 * self.lanes)
        self.columns("%in", "%out", None)

        def later(p: str) -> None:
            done = self.times(p, self.step)
            factors = self.twiddles(p)
            target = self.at("%out", self.times(done, self.radix))
            self.columns(self.at("%in", done), target, factors)

        self.loop("%m", 1, later, start="1")
        return self.finished("ptr noalias %in, ptr noalias %out, ptr noalias %tw, i64 %m, i64 %s")

    def twiddles(self, p: str) -> list[Pair]:
        """The factors of one p > 0."""
        count = 2 * (self.radix - 1)
        place = self.at("%tw", self.times(self.minus(p, 1), count))
        return [self.load_repeated(self.element(place, k)) for k in range(self.radix - 1)]

    def columns(self, source: str, target: str, factors: list[Pair] | None) -> None:
        def column(q: str) -> None:
            place, out = self.cell(source, q), self.cell(target, q)
            x = [self.load_cell(self.at(place, self.times(self.gap, k))) for k in range(self.radix)]
            for k, y in enumerate(twiddled(self, self.butterfly(x), factors)):
                self.store_cell(self.at(out, self.times(self.step, k)), y)

        self.loop("%s", 1, column)


def twiddled(function: ComplexFunction, y: list[Pair], factors: list[Pair] | None) -> list[Pair]:
    """Results of a butterfly times their factors, the first of which is 1."""
    if factors is None:
        return y
    rest = [function.times_pair(a, w) for a, w in zip(y[1:], factors, strict=True)]
    return [y[0], *rest]


class First(Pass):
    """The first pass (s = 1) of columns in memory, whose rows are `row` numbers apart: of several
    neighbouring blocks, to panels that are `pitch` scalars apart. Where rows are a large power of
    two apart, lines of 64 bytes come four times as fast if four are read together.
    """

    def __init__(self, shape: Shape, radix: int, swapped: bool) -> None:
        super().__init__(shape, radix)
        self.swapped = swapped
        self.name = first_name(radix, swapped)

    def text(self) -> str:
        self.step = self.times("%row", 2)
        self.gap = self.times(self.step, "%m")
        self.butterflies("0", None)
        self.loop("%m", 1, lambda p: self.butterflies(p, self.twiddles(p)), start="1")
        return self.finished(
            "ptr %in, ptr noalias %out, ptr noalias %tw, i64 %m, i64 %row, i64 %ahead, "
            "i64 %blocks, i64 %pitch"
        )

    def butterflies(self, p: str, factors: list[Pair] | None) -> None:
        start = self.at("%in", self.times(p, self.step))
        target = self.cell("%out", self.times(p, self.radix))

        def block(c: str) -> None:
            place = self.cell(start, c)
            places = [self.at(place, self.times(self.gap, k)) for k in range(self.radix)]
            for source in places:
                self.prefetch(self.at(source, "%ahead"))
            x = [self.load_elements(source) for source in places]
            x = [pair.swapped if self.swapped else pair for pair in x]
            out = self.at(target, self.times(c, "%pitch"))
            for k, y in enumerate(twiddled(self, self.butterfly(x), factors)):
                self.store_cell(self.cell(out, k), y)

        self.loop("%blocks", 1, block)


class Last(Pass):
    """The last pass (m = 1), of several blocks to memory; swapped ones are scaled."""

    def __init__(self, shape: Shape, radix: int, swapped: bool) -> None:
        super().__init__(shape, radix)
        self.swapped = swapped
        self.name = last_name(radix, swapped)

    def text(self) -> str:
        self.gap = self.times("%s", 2 * self.lanes)
        step = self.times("%row", 2)
        far = self.times(step, "%s")
        scale = self.repeated("%scale")

        def column(q: str) -> None:
            start, out = self.cell("%in", q), self.at("%out", self.times(q, step))

            def block(c: str) -> None:
                place, target = self.at(start, self.times(c, "%pitch")), self.cell(out, c)
                cells = [self.at(place, self.times(self.gap, k)) for k in range(self.radix)]
                targets = [self.at(target, self.times(far, k)) for k in range(self.radix)]
                for line in targets:
                    self.prefetch(self.at(line, "%ahead"), write=True)
                x = [self.load_cell(cell) for cell in cells]
                for line, y in zip(targets, self.butterfly(x), strict=True):
                    if self.swapped:
                        y = Pair(self.product(y.im, scale), self.product(y.re, scale))
                    self.store_elements(line, y)

            self.loop("%blocks", 1, block)

        self.loop("%s", 1, column)
        return self.finished(
            f"ptr noalias %in, ptr %out, i64 %s, i64 %row, i64 %ahead, {self.scalar} %scale, "
            "i64 %blocks, i64 %pitch"
        )


def first_name(radix: int, swapped: bool) -> str:
    return f"first_{radix}{'_swapped' if swapped else ''}"


def last_name(radix: int, swapped: bool) -> str:
    return f"last_{radix}{'_swapped' if swapped else ''}"


class Front(ComplexFunction):
    """The first pass within one line of W m numbers, W the lanes of a cell: cell p of the panel has
    results p W to p W + W - 1 of it. The last lanes overlap those before. Twiddles are cells.
    """

    def __init__(self, shape: Shape, swapped: bool) -> None:
        super().__init__(shape, f"front{'_swapped' if swapped else ''}")
        self.swapped = swapped

    def text(self) -> str:
        width = self.lanes
        last = self.minus("%m", width)

        def block(p: str) -> None:
            start = self.smaller(p, last)
            place = self.element("%in", start)
            step = self.times("%m", 2)
            ahead = self.element("%in", self.times(self.plus("%m", p), width))
            for line in range(width):
                self.prefetch(self.element(ahead, line * width))
            x = [self.load_elements(self.at(place, self.times(step, k))) for k in range(width)]
            x = [pair.swapped if self.swapped else pair for pair in x]
            y = self.butterfly(x)
            table = self.at("%tw", self.times(p, 2 * (width - 1)))
            factors = [self.load_cell(self.cell(table, k)) for k in range(width - 1)]
            write_turned(self, twiddled(self, y, factors), self.cell("%out", start))

        self.loop("%m", width, block)
        return self.finished("ptr %in, ptr noalias %out, ptr noalias %tw, i64 %m")


def write_turned(function: ComplexFunction, cells: list[Pair], target: str) -> None:
    """Store a square of cells by its columns: the lanes' number `j` becomes cell `j`, whose lanes
    are the cells in the lanes' order.
    """
    order = function.order
    columns = [
        function.turned_square([getattr(cells[row], part) for row in order])
        for part in ("re", "im")
    ]
    for j, (re, im) in enumerate(zip(*columns, strict=True)):
        function.store_cell(function.cell(target, order[j]), Pair(re, im))


class Turn(ComplexFunction):
    """The middle of a transform of n1 n2 numbers: cells of one panel of n1, times twiddles, become
    lanes of cells in panels of n2, which are `far` scalars apart.

    A twiddle is a product of one that depends on the lane and one that depends on the block. There
    are `count` panels, `pitch` scalars apart, of neighbouring blocks.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "turn")

    def text(self) -> str:
        width = self.lanes
        whole = self.times(self.rounded_up("%n", width), width)

        def rows(k: str) -> None:
            target = self.at("%out", self.times(self.over(k, width), "%far"))

            def block(c: str) -> None:
                source = self.at("%in", self.times(c, "%pitch"))
                factors = self.element("%blocks", self.times(c, whole))
                cells = []
                for i in range(width):
                    row = self.plus(k, i)
                    lane = self.load_cell(self.cell("%lanes", row))
                    both = self.times_pair(lane, self.load_repeated(self.element(factors, row)))
                    cells.append(self.times_pair(self.load_cell(self.cell(source, row)), both))
                write_turned(self, cells, self.cell(target, self.times(c, width)))

            self.loop("%count", 1, block)

        self.loop("%n", width, rows)
        return self.finished(
            "ptr noalias %in, ptr noalias %out, ptr noalias %lanes, ptr noalias %blocks, i64 %n, "
            "i64 %far, i64 %count, i64 %pitch"
        )


class Columns(ComplexFunction):
    """Neighbouring columns in memory to panels, or back; `re` is where real parts stand in a cell
    of 2 W scalars.
    """

    def __init__(self, shape: Shape, back: bool, masked: bool) -> None:
        way, width = "put" if back else "get", "some" if masked else "all"
        super().__init__(shape, f"{way}_columns_{width}")
        self.back, self.masked = back, masked

    def text(self) -> str:
        masks = self.element_masks("%lanes") if self.masked else [None, None]
        im = self.minus(self.lanes, "%re")
        scale = self.repeated("%scale") if self.back else ""

        def one(n: str, c: str) -> None:
            cell = self.at(self.cell("%panel", n), self.times(c, "%pitch"))
            place = self.at("%memory", self.times(self.times(n, "%row"), 2))
            place = self.cell(place, c)
            parts = self.at(cell, "%re"), self.at(cell, im)
            if self.back:
                texts = [self.product(self.load(part, self.vector), scale) for part in parts]
                self.store_elements(place, Pair(*texts), masks)
                return
            pair = self.load_elements(place, masks)
            self.store(pair.re, parts[0], self.vector)
            self.store(pair.im, parts[1], self.vector)

        self.loop("%n", 1, lambda n: self.loop("%blocks", 1, lambda c: one(n, c)))
        scaled = f", {self.scalar} %scale" if self.back else ""
        return self.finished(
            "ptr %memory, ptr noalias %panel, i64 %row, i64 %n, i64 %lanes, i64 %re, "
            f"i64 %blocks, i64 %pitch{scaled}"
        )


class Rows(ComplexFunction):
    """Rows in memory, `row` numbers apart, to the lanes of a panel, or back. Where there are fewer
    rows than lanes the last one is done repeatedly; short rows go element by element.
    """

    def __init__(self, shape: Shape, back: bool) -> None:
        super().__init__(shape, f"{'put' if back else 'get'}_rows")
        self.back = back

    def text(self) -> str:
        width = self.lanes
        last = self.minus("%lanes", 1)
        self.im = self.minus(width, "%re")
        self.scale = self.repeated("%scale") if self.back else ""
        self.rows = [
            self.element("%memory", self.times(self.smaller(str(lane), last), "%row"))
            for lane in range(width)
        ]
        short = self.test("slt", "%n", width)
        self.branch(short, lambda: self.loop("%n", 1, self.single), self.blocks)
        scaled = f", {self.scalar} %scale" if self.back else ""
        return self.finished(
            f"ptr %memory, ptr noalias %panel, i64 %row, i64 %n, i64 %lanes, i64 %re{scaled}"
        )

    def single(self, n: str) -> None:
        cell = self.cell("%panel", n)
        for lane, row in enumerate(self.rows):
            place = self.element(row, n)
            for part, offset in (("%re", 0), (self.im, 1)):
                inside, outside = self.at(self.at(cell, part), lane), self.at(place, offset)
                if self.back:
                    value = self.load(inside)
                    self.store(self.emit(f"fmul {self.scalar} {value}, %scale"), outside)
                else:
                    self.store(self.load(outside), inside)

    def blocks(self) -> None:
        last = self.minus("%n", self.lanes)

        def block(n: str) -> None:
            start = self.smaller(n, last)
            cell = self.cell("%panel", start)
            places = [self.element(row, start) for row in self.rows]
            (self.put if self.back else self.get)(cell, places)

        self.loop("%n", self.lanes, block)

    def get(self, cell: str, places: list[str]) -> None:
        pairs = [self.load_elements(place) for place in places]
        for part, offset in (("re", "%re"), ("im", self.im)):
            for j, text in enumerate(self.turned_square([getattr(p, part) for p in pairs])):
                target = self.at(self.cell(cell, self.order[j]), offset)
                self.store(text, target, self.vector)

    def put(self, cell: str, places: list[str]) -> None:
        columns = []
        for offset in ("%re", self.im):
            texts = [
                self.load(self.at(self.cell(cell, element), offset), self.vector)
                for element in self.order
            ]
            columns.append(self.turned_square([self.product(x, self.scale) for x in texts]))
        for place, re, im in zip(places, *columns, strict=True):
            self.store_elements(place, Pair(re, im))
