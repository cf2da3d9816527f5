"""Packing for the matrix product: blocks of A and B copied so that tiles read them in order.

    void tetrax_pack_rows_f32(ptr source, ptr target, i64 rows, i64 depth, i64 row, i64 step)
    void tetrax_pack_columns_f32(ptr source, ptr target, i64 depth, i64 columns, i64 step,
                                 i64 column)

A is cut into strips of 6 rows, B into panels of as many columns as a tile has; inside these, each
step of k is contiguous. `step` is the distance in elements between steps of k. What a panel lacks
in columns is zero; strips have the rows there are, at places for 6. A strip may write up to a
register more than it holds.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.gemm_text import ROWS, Function, Shape
from tetrax.compiler.cpu.llvm_text import register_type
from tetrax.ir.kernel_types import ScalarType

SIDE_BY_SIDE = 4
"""Panels filled in one pass over the rows of B."""
AHEAD = 8
"""Rows of B fetched ahead: each may lie on a page of its own, where no hardware looks ahead."""


def pack_rows_symbol(type: ScalarType) -> str:
    """The name of the function that packs A."""
    return f"tetrax_pack_rows_{type}"


def pack_columns_symbol(type: ScalarType) -> str:
    """The name of the function that packs B."""
    return f"tetrax_pack_columns_{type}"


def packing_functions(shape: Shape) -> list[str]:
    """Both functions of an element type."""
    return [_Rows(shape).text(), _Columns(shape).text()]


class _Rows(Function):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, pack_rows_symbol(shape.operand))

    def text(self) -> str:
        self.loop("%rows", ROWS, self.strip)
        return self.finished("ptr %source, ptr %target, i64 %rows, i64 %depth, i64 %row, i64 %step")

    def strip(self, first: str) -> None:
        target = self.at("%target", self.times(first, "%depth"))
        source = self.operand_at("%source", self.times(first, "%row"))
        count = self.smaller(self.minus("%rows", first), ROWS)
        full = self.test("eq", count, ROWS)
        along = self.both(full, self.test("eq", "%step", 1))
        across = self.both(full, self.test("eq", "%row", 1))

        def otherwise() -> None:
            self.branch(
                across,
                lambda: self.copied(source, target),
                lambda: self.one_by_one(source, target, count, "0"),
            )

        self.branch(along, lambda: self.transposed(source, target), otherwise)

    def transposed(self, source: str, target: str) -> None:
        """Rows that lie along k: squares are turned in registers."""
        whole = self.emit(f"and i64 %depth, {-self.lanes}")
        starts = [self.operand_at(source, self.times("%row", r)) for r in range(ROWS)]
        groups = range(0, ROWS, self.lanes)

        def square(p: str) -> None:
            place = self.at(target, self.times(p, ROWS))
            turned = []
            for group in groups:
                rows = [
                    self.operand_lanes(self.operand_at(starts[group + r], p), self.lanes)
                    if group + r < ROWS
                    else "poison"
                    for r in range(self.lanes)
                ]
                turned.append(self.turned(rows))
            # in order of address: a store spills into what the next one writes
            for step in range(self.lanes):
                for group, rows in zip(groups, turned, strict=True):
                    self.store(rows[step], self.at(place, step * ROWS + group), self.vector)

        self.loop(whole, self.lanes, square)
        self.one_by_one(source, target, str(ROWS), whole)

    def copied(self, source: str, target: str) -> None:
        """Rows that are neighbours: each step of k is copied as it is."""

        def step(p: str) -> None:
            place = self.at(target, self.times(p, ROWS))
            start = self.operand_at(source, self.times(p, "%step"))
            for first in range(0, ROWS, self.lanes):
                count = min(self.lanes, ROWS - first)
                kind = register_type(self.type, count)
                text = self.operand_lanes(self.operand_at(start, first), count)
                self.store(text, self.at(place, first), kind)

        self.loop("%depth", 1, step)

    def one_by_one(self, source: str, target: str, count: str, start: str) -> None:
        def row(r: str) -> None:
            begin = self.operand_at(source, self.times(r, "%row"))
            place = self.at(target, r)

            def step(p: str) -> None:
                value = self.operand_value(self.operand_at(begin, self.times(p, "%step")))
                self.store(value, self.at(place, self.times(p, ROWS)))

            self.loop("%depth", 1, step, start)

        self.loop(count, 1, row)


class _Columns(Function):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, pack_columns_symbol(shape.operand))

    def text(self) -> str:
        width = self.shape.columns * SIDE_BY_SIDE
        along = self.test("eq", "%column", 1)
        whole = self.times(self.over("%columns", width), width)
        several = self.chosen(along, whole, "0")

        def together(first: str) -> None:
            target = self.at("%target", self.times(first, "%depth"))
            self.copied(self.operand_at("%source", first), target, SIDE_BY_SIDE)

        self.loop(several, width, together)
        self.loop("%columns", self.shape.columns, self.panel, several)
        return self.finished(
            "ptr %source, ptr %target, i64 %depth, i64 %columns, i64 %step, i64 %column"
        )

    def panel(self, first: str) -> None:
        width = self.shape.columns
        target = self.at("%target", self.times(first, "%depth"))
        source = self.operand_at("%source", self.times(first, "%column"))
        left = self.minus("%columns", first)
        full = self.test("sge", left, width)
        along = self.both(full, self.test("eq", "%column", 1))
        across = self.both(full, self.test("eq", "%step", 1))

        def otherwise() -> None:
            self.branch(
                across,
                lambda: self.transposed(source, target),
                lambda: self.one_by_one(source, target, left, "0"),
            )

        self.branch(along, lambda: self.copied(source, target), otherwise)

    def copied(self, source: str, target: str, panels: int = 1) -> None:
        """Columns that are neighbours: each step of k is copied as it is."""
        width, vectors = self.shape.columns, self.shape.vectors
        ahead = self.times("%step", AHEAD)
        places = [self.at(target, self.times("%depth", width * at)) for at in range(panels)]

        def step(p: str, carried: list[str]) -> list[str]:
            (row,) = carried
            offset = self.times(p, width)
            for at, panel in enumerate(places):
                start = self.operand_at(row, width * at)
                self.prefetch(self.operand_at(start, ahead))
                texts = [self.operand_read(start, v) for v in range(vectors)]
                for v, text in enumerate(texts):
                    self.write(self.at(panel, offset), v, text)
            return [self.operand_at(row, "%step")]

        self.carried_loop("%depth", 1, [("ptr", source)], step)

    def transposed(self, source: str, target: str) -> None:
        """Columns that lie along k: squares are turned in registers."""
        lanes, width = self.lanes, self.shape.columns
        whole = self.emit(f"and i64 %depth, {-lanes}")

        def square(p: str) -> None:
            place = self.at(target, self.times(p, width))
            for v in range(self.shape.vectors):
                starts = [
                    self.operand_at(
                        self.operand_at(source, self.times("%column", v * lanes + j)), p
                    )
                    for j in range(lanes)
                ]
                rows = self.turned([self.operand_lanes(start, lanes) for start in starts])
                for step, text in enumerate(rows):
                    self.store(text, self.at(place, step * width + v * lanes), self.vector)

        self.loop(whole, lanes, square)
        self.one_by_one(source, target, str(width), whole)

    def one_by_one(self, source: str, target: str, left: str, start: str) -> None:
        """Value by value from a step of k on; columns beyond `left` are zero."""
        width = self.shape.columns

        def column(j: str) -> None:
            inside = self.test("slt", j, left)
            begin = self.operand_at(source, self.chosen(inside, self.times(j, "%column"), "0"))

            def step(p: str) -> None:
                value = self.operand_value(self.operand_at(begin, self.times(p, "%step")))
                kept = self.chosen(inside, value, "0.0", self.scalar)
                self.store(kept, self.at(target, self.plus(self.times(p, width), j)))

            self.loop("%depth", 1, step, start)

        self.loop(str(width), 1, column)
