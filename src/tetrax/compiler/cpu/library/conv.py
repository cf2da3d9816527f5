"""Products over places of an image: what convolutions are made of.

    void tetrax_conv_f32(ptr a, ptr rows, ptr targets, ptr segments, ptr b, ptr c, i64 count,
                         i64 n, i64 segs, i64 length, i64 a_step, i64 b_panel, i32 accumulate)

computes, for each r below `count` and each column j below `n`,

    c[targets[r] + j] = sum over segments s and p < length of
                        a[rows[r] + segments[s] + p a_step] * B[s length + p, j]

or adds that sum to what is in c. A row of the product is thus a place of the result, and a segment
a part of the window whose elements are evenly spaced. Tables hold i64 offsets in elements. B comes
in panels of as many columns as 64 bytes hold, `b_panel` elements apart. Every element is summed in
the order of the segments.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.gemm_text import ROWS, Function, Shape
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_types import I64, ScalarType

PANEL_BYTES = 64
"""Width of a panel of B, whatever the registers are."""
UNROLL = 4
"""Steps of a segment per turn where they lie side by side. Others take one: further ones would each
need six addresses in registers.
"""

_TILE_ARGUMENTS = (
    ("ptr", "a"),
    ("ptr", "rows"),
    ("ptr", "targets"),
    ("ptr", "segments"),
    ("ptr", "b"),
    ("ptr", "c"),
    ("i64", "count"),
    ("i64", "columns"),
    ("i64", "segs"),
    ("i64", "length"),
    ("i64", "a_step"),
    ("i32", "accumulate"),
)
_TILE_PARAMETERS = ", ".join(f"{kind} %{name}" for kind, name in _TILE_ARGUMENTS)
_PARAMETERS = (
    "ptr %a, ptr %rows, ptr %targets, ptr %segments, ptr %b, ptr %c, i64 %count, i64 %n, "
    "i64 %segs, i64 %length, i64 %a_step, i64 %b_panel, i32 %accumulate"
)
_OFFSET = "i64"


def conv_symbol(type: ScalarType) -> str:
    """The routine's name."""
    return f"tetrax_conv_{type}"


def conv_module(type: ScalarType, target: Target) -> str:
    """The LLVM module of the routine with its tiles."""
    shape = Shape.of(type, target)
    tiles = [
        _Tile(shape, masked, unit).text() for masked in (False, True) for unit in (True, False)
    ]
    return "\n".join([*tiles, _Entry(shape).text()])


def _tile_symbol(type: ScalarType, masked: bool, unit: bool) -> str:
    width, step = "part" if masked else "full", "unit" if unit else "step"
    return f"tetrax_conv_tile_{type}_{width}_{step}"


class _Entry(Function):
    """Cuts the columns into tiles."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, conv_symbol(shape.type))

    def text(self) -> str:
        self.unit = self.test("eq", "%a_step", 1)
        self.loop("%n", self.shape.columns, self.panel)
        return self.finished(_PARAMETERS, linkage="")

    def panel(self, j: str) -> None:
        width = PANEL_BYTES // self.type.bytes
        within = self.emit(f"and i64 {j}, {width - 1}")
        start = self.plus(self.times(self.over(j, width), "%b_panel"), within)
        left = self.minus("%n", j)
        values = {"b": self.at("%b", start), "c": self.at("%c", j), "columns": left}

        def run(masked: bool, unit: bool) -> None:
            self.call(
                _tile_symbol(self.type, masked, unit),
                *(f"{kind} {values.get(name, f'%{name}')}" for kind, name in _TILE_ARGUMENTS),
            )

        def tiles(masked: bool) -> None:
            self.branch(self.unit, lambda: run(masked, True), lambda: run(masked, False))

        full = self.test("sge", left, self.shape.columns)
        self.branch(full, lambda: tiles(False), lambda: tiles(True))


class _Tile(Function):
    """Strips of 6 rows by two registers; in the last strip the last row is computed repeatedly."""

    def __init__(self, shape: Shape, masked: bool, unit: bool) -> None:
        super().__init__(shape, _tile_symbol(shape.type, masked, unit))
        self.masked, self.unit = masked, unit
        self.cells = [(r, v) for r in range(ROWS) for v in range(shape.vectors)]

    def text(self) -> str:
        self.masks = self.column_masks() if self.masked else []
        self.last = self.minus("%count", 1)
        self.whole = self.emit(f"and i64 %length, {-UNROLL}") if self.unit else "0"
        self.keep = self.emit("icmp ne i32 %accumulate, 0")
        self.loop("%count", ROWS, self.strip)
        return self.finished(_TILE_PARAMETERS)

    def strip(self, first: str) -> None:
        places = [self.smaller(self.plus(first, r), self.last) for r in range(ROWS)]
        self.rows = [self.entry("%rows", place) for place in places]
        targets = [self.at("%c", self.entry("%targets", place)) for place in places]
        for target in targets:
            # rows of C are needed after the loops: fetch them now
            self.prefetch(target, write=True)
        state = [("ptr", "%b")] + [(self.vector, "zeroinitializer")] * len(self.cells)
        final = self.carried_loop("%segs", 1, state, self.segment)
        sums = dict(zip(self.cells, final[1:], strict=True))
        self.branch(
            self.keep,
            lambda: self.finish(targets, sums, True),
            lambda: self.finish(targets, sums, False),
        )

    def entry(self, table: str, place: str) -> str:
        pointer = self.at(table, place, I64)
        return self.emit(f"load {_OFFSET}, ptr {pointer}, align 8")

    def segment(self, s: str, carried: list[str]) -> list[str]:
        b, *texts = carried
        kinds = ["ptr", "ptr"] + [self.vector] * len(texts)
        state = [self.at("%a", self.entry("%segments", s)), b, *texts]
        loops = [(self.whole, UNROLL, "0")] if self.unit else []
        for stop, count, start in (*loops, ("%length", 1, self.whole)):
            pairs = list(zip(kinds, state, strict=True))
            state = self.carried_loop(stop, count, pairs, self.steps(count), start=start)
        return state[1:]

    def steps(self, count: int):
        """The body of a loop over a segment that takes several steps a turn."""

        def body(_: str, carried: list[str]) -> list[str]:
            a, b, *texts = carried
            for _step in range(count):
                texts = self.step(a, b, texts)
                a = self.at(a, 1 if self.unit else "%a_step")
                b = self.at(b, PANEL_BYTES // self.type.bytes)
            return [a, b, *texts]

        return body

    def step(self, a: str, b: str, sums: list[str]) -> list[str]:
        """A row of B into registers, then one value of each row of A times it."""
        vectors = self.shape.vectors
        row = [self.fetch(b, v) for v in range(vectors)]
        result = []
        for r in range(ROWS):
            one = self.load(self.at(a, self.rows[r]))
            first = self.emit(f"insertelement {self.vector} poison, {self.scalar} {one}, i64 0")
            wide = self.shuffled(first, "poison", [0] * self.lanes)
            result += [self.fma(wide, row[v], sums[r * vectors + v]) for v in range(vectors)]
        return result

    def finish(self, targets: list[str], sums: dict[tuple[int, int], str], add: bool) -> None:
        """Store the sums; a repeated row must be read before it is written."""
        if add:
            old = {(r, v): self.fetch(targets[r], v) for r, v in self.cells}
            sums = {
                cell: self.emit(f"fadd {self.vector} {old[cell]}, {total}")
                for cell, total in sums.items()
            }
        for (r, v), total in sums.items():
            self.put(targets[r], v, total)

    def fetch(self, pointer: str, v: int) -> str:
        place = self.at(pointer, v * self.lanes) if v else pointer
        if not self.masked:
            return self.load(place, self.vector)
        return self.emit(
            f"call {self.vector} @llvm.masked.load.{self.suffix}.p0(ptr {self.align} {place}, "
            f"<{self.lanes} x i1> {self.masks[v]}, {self.vector} zeroinitializer)"
        )

    def put(self, pointer: str, v: int, text: str) -> None:
        place = self.at(pointer, v * self.lanes) if v else pointer
        if not self.masked:
            self.store(text, place, self.vector)
            return
        self.call(
            f"llvm.masked.store.{self.suffix}.p0",
            f"{self.vector} {text}",
            f"ptr {self.align} {place}",
            f"<{self.lanes} x i1> {self.masks[v]}",
        )

    def column_masks(self) -> list[str]:
        lanes, masks = self.lanes, []
        kind = f"<{lanes} x i64>"
        first = self.emit(f"insertelement {kind} poison, i64 %columns, i64 0")
        wide = self.emit(
            f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer"
        )
        for v in range(self.shape.vectors):
            numbers = ", ".join(f"i64 {v * lanes + lane}" for lane in range(lanes))
            masks.append(self.emit(f"icmp slt {kind} <{numbers}>, {wide}"))
        return masks


__all__ = ["PANEL_BYTES", "conv_module", "conv_symbol"]
