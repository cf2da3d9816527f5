"""Register tiles of the matrix product, as LLVM text.

A tile function computes strips of `rows` rows x (`vectors` full registers) elements of C, one below
the other, over the range of k it is given:

    void tile(i64 k, ptr a, i64 a_row, i64 a_step, i64 a_strip, ptr b, i64 b_step,
              ptr c, i64 c_row, i64 columns, i64 strips, i32 accumulate)

One value of A is repeated across a register and multiplied with `vectors` registers of a row of B.
Strides are in elements: between rows, between steps of k, between strips. Columns of b and c are
contiguous. The part variant, one register wide, computes only the first `columns` columns; the
packed variant knows how packed strips and panels lie in memory and ignores the strides of a and b.
"""

from __future__ import annotations

from dataclasses import dataclass

from tetrax.compiler.cpu.library.gemm_text import ROWS, Function, Shape
from tetrax.ir.kernel_types import ScalarType

UNROLL = 4
"""Steps of k per turn of the main loop."""

TILE_PARAMETERS = (
    "i64 %k, ptr %a, i64 %a_row, i64 %a_step, i64 %a_strip, ptr %b, i64 %b_step, "
    "ptr %c, i64 %c_row, i64 %columns, i64 %strips, i32 %accumulate"
)


def tile_symbol(type: ScalarType, rows: int, vectors: int, variant: str) -> str:
    """The name of a tile's function."""
    return f"tetrax_tile_{type}_{rows}x{vectors}_{variant}"


@dataclass(frozen=True)
class Tile:
    """Rows and registers per row of a tile, and its variant: full, part or packed."""

    shape: Shape
    rows: int
    vectors: int
    variant: str = "full"

    @property
    def columns(self) -> int:
        """Columns of a full tile."""
        return self.shape.lanes * self.vectors

    @property
    def symbol(self) -> str:
        """The name of the tile's function."""
        return f"tetrax_tile_{self.shape.type}_{self.rows}x{self.vectors}_{self.variant}"

    def text(self) -> str:
        """The function."""
        return _Tile(self).text()


class _Tile(Function):
    """Text of one tile function under construction."""

    def __init__(self, tile: Tile) -> None:
        super().__init__(tile.shape, tile.symbol)
        self.tile = tile
        self.packed = tile.variant == "packed"
        self.cells = [(r, v) for r in range(tile.rows) for v in range(tile.vectors)]

    def text(self) -> str:
        rows = range(self.tile.rows)
        self.a_rows: list[str | int] = [r if self.packed else self.times("%a_row", r) for r in rows]
        self.c_rows = [self.times("%c_row", r) for r in rows]
        self.a_step = str(ROWS) if self.packed else "%a_step"
        self.b_step = str(self.tile.columns) if self.packed else "%b_step"
        self.lane_mask = self.mask("%columns") if self.tile.variant == "part" else None
        self.whole = self.emit(f"and i64 %k, {-UNROLL}")
        self.keep = self.emit("icmp ne i32 %accumulate, 0")
        c_strip = self.times("%c_row", self.tile.rows)
        a_strip = self.times("%k", ROWS) if self.packed else "%a_strip"

        def strip(_: str, carried: list[str]) -> list[str]:
            a, c = carried
            self.one_strip(a, c)
            return [self.at(a, a_strip), self.at(c, c_strip)]

        self.carried_loop("%strips", 1, [("ptr", "%a"), ("ptr", "%c")], strip)
        return self.finished(TILE_PARAMETERS, linkage="")

    def one_strip(self, a: str, c: str) -> None:
        for r in range(self.tile.rows):
            # rows of C are needed after the loop: fetch them now
            self.prefetch(self.at(c, self.c_rows[r]) if r else c, write=True)
        state = [("ptr", a), ("ptr", "%b")] + [(self.vector, "zeroinitializer")] * len(self.cells)
        state_texts = self.carried_loop(self.whole, UNROLL, state, self.steps(UNROLL))
        rest = [(kind, text) for (kind, _), text in zip(state, state_texts, strict=True)]
        final = self.carried_loop("%k", 1, rest, self.steps(1), start=self.whole)
        sums = dict(zip(self.cells, final[2:], strict=True))
        self.branch(
            self.keep,
            lambda: self.finish(c, sums, True),
            lambda: self.finish(c, sums, False),
        )

    def steps(self, count: int):
        """The body of a loop over k that takes several steps a turn."""

        def body(_: str, carried: list[str]) -> list[str]:
            a, b, *texts = carried
            for _step in range(count):
                texts = self.step(a, b, texts)
                a, b = self.at(a, self.a_step), self.at(b, self.b_step)
            return [a, b, *texts]

        return body

    def step(self, a: str, b: str, sums: list[str]) -> list[str]:
        """One step of k: a row of B into registers, then each value of the column of A."""
        row = [self.read(b, v, self.lane_mask) for v in range(self.tile.vectors)]
        result = []
        for r in range(self.tile.rows):
            one = self.load(self.at(a, self.a_rows[r]) if r else a)
            wide = self.repeated(one)
            for v in range(self.tile.vectors):
                result.append(self.fma(wide, row[v], sums[r * self.tile.vectors + v]))
        return result

    def finish(self, c: str, sums: dict[tuple[int, int], str], add: bool) -> None:
        """Store the sums, on top of what is in C or instead of it."""
        for (r, v), total in sums.items():
            place = self.at(c, self.c_rows[r]) if r else c
            if add:
                old = self.read(place, v, self.lane_mask)
                total = self.emit(f"fadd {self.vector} {old}, {total}")
            self.write(place, v, total, self.lane_mask)
