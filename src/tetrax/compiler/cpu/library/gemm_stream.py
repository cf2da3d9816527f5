"""Few rows times a matrix, where memory is the limit: B is read once, in its own order.

    void tetrax_stream_f32(…the parameters of the product…)

For four steps of k at a time, and as many columns as the first-level cache holds of C, up to four
rows of C take in the rows of B that go by: a sum of four products in registers, then C. Columns of
B must be neighbours.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.gemm_text import PARAMETERS, Function, Shape
from tetrax.ir.kernel_types import ScalarType

STEPS = 4
"""Steps of k summed in registers."""
COLUMNS = 4096
"""Elements of C that are kept near: so many columns of one row, fewer of several."""
ROWS = (4, 2, 1)
"""Rows of C taken at a time."""


def stream_symbol(type: ScalarType) -> str:
    """The routine's name."""
    return f"tetrax_stream_{type}"


def stream_function(shape: Shape) -> str:
    """The routine."""
    return _Stream(shape).text()


class _Stream(Function):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, stream_symbol(shape.operand))

    def text(self) -> str:
        kind = f"[{STEPS * max(ROWS)} x {self.scalar}]"
        self.values = self.emit(f"alloca {kind}, align 64")
        single, double = self.test("eq", "%m", 1), self.test("eq", "%m", 2)
        several = self.chosen(double, str(COLUMNS // 2), str(COLUMNS // 4))
        self.width = self.chosen(single, str(COLUMNS), several)
        self.loop(self.rounded_up("%n", self.width), 1, self.column_block)
        return self.finished(PARAMETERS)

    def column_block(self, number: str) -> None:
        jc = self.times(number, self.width)
        self.nc = self.smaller(self.minus("%n", jc), self.width)
        self.whole = self.emit(f"and i64 {self.nc}, {-self.shape.columns}")
        self.b = self.operand_at("%b", jc)
        self.c = self.at("%c", jc)
        self.branch(self.emit("icmp eq i32 %accumulate, 0"), self.clear)
        steps = self.emit(f"and i64 %k, {-STEPS}")
        self.loop(steps, STEPS, lambda p: self.rows(p, STEPS))
        self.loop("%k", 1, lambda p: self.rows(p, 1), steps)
        self.finish_block("0", "%m", jc, self.nc)

    def clear(self) -> None:
        """C is zero at first."""

        def row(i: str) -> None:
            c = self.at(self.c, self.times(i, "%c_row"))
            self.loop(self.nc, 1, lambda j: self.store("0.0", self.at(c, j)))

        self.loop("%m", 1, row)

    def rows(self, p: str, steps: int) -> None:
        """All rows of C take in `steps` rows of B."""
        start = "0"
        for count in ROWS:
            left = self.minus("%m", start)
            stop = self.plus(start, self.times(self.over(left, count), count))
            self.loop(
                stop,
                count,
                lambda i, count=count: self.strip(i, p, count, steps),
                start,
            )
            start = stop

    def strip(self, i: str, p: str, rows: int, steps: int) -> None:
        a = self.operand_at("%a", self.plus(self.times(i, "%a_row"), self.times(p, "%a_col")))
        b = self.operand_at(self.b, self.times(p, "%b_row"))
        c = self.at(self.c, self.times(i, "%c_row"))
        for r in range(rows):
            for s in range(steps):
                place = self.operand_at(
                    a, self.plus(self.times("%a_row", r), self.times("%a_col", s))
                )
                self.store(self.operand_value(place), self.at(self.values, r * steps + s))
        lines = [self.operand_at(b, self.times("%b_row", s)) for s in range(steps)]
        targets = [self.at(c, self.times("%c_row", r)) for r in range(rows)]

        def columns(j: str, vectors: int, masked: bool) -> None:
            mask = self.mask(self.minus(self.nc, j)) if masked else None
            self.block(j, vectors, mask, lines, targets)

        self.loop(
            self.whole,
            self.shape.columns,
            lambda j: columns(j, self.shape.vectors, False),
        )
        self.loop(self.nc, self.lanes, lambda j: columns(j, 1, True), self.whole)

    def block(
        self,
        j: str,
        vectors: int,
        mask: str | None,
        lines: list[str],
        targets: list[str],
    ) -> None:
        """Some columns of a strip: the sum of its steps, then C."""
        sums: list[list[str | None]] = [[None] * vectors for _ in targets]
        for s, line in enumerate(lines):
            place = self.operand_at(line, j)
            row = [self.operand_read(place, v, mask) for v in range(vectors)]
            for r in range(len(targets)):
                wide = self.repeated(self.load(self.at(self.values, r * len(lines) + s)))
                for v in range(vectors):
                    before = sums[r][v]
                    sums[r][v] = (
                        self.product(wide, row[v])
                        if before is None
                        else self.fma(wide, row[v], before)
                    )
        for target, totals in zip(targets, sums, strict=True):
            place = self.at(target, j)
            for v, total in enumerate(totals):
                old = self.read(place, v, mask)
                self.write(place, v, self.emit(f"fadd {self.vector} {old}, {total}"), mask)
