"""A row times a matrix, the part of the matrix product that only memory limits: c = a B, or
c += a B, for contiguous c.

    void tetrax_gemv_f32(ptr a, ptr b, ptr c, i64 n, i64 k,
                         i64 a_col, i64 b_row, i64 b_col, i32 accumulate)

Rows of B that are contiguous are scaled and added in wide tiles; columns that are contiguous (then
a must be, too) become dot products, four at a time. One of b_row and b_col must be 1.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.gemm_text import Function, Shape
from tetrax.compiler.cpu.library.gemm_tile import Tile
from tetrax.ir.kernel_types import ScalarType

WIDE_VECTORS = 12
BLOCK_ROWS, BLOCK_DOT = 256, 2048
"""Steps of k summed in registers before they are added to c, which bounds the rounding error."""
DOTS = 4


def vector_symbol(type: ScalarType) -> str:
    """The routine's name."""
    return f"tetrax_gemv_{type}"


_PARAMETERS = (
    "ptr %a, ptr %b, ptr %c, i64 %n, i64 %k, i64 %a_col, i64 %b_row, i64 %b_col, i32 %accumulate"
)


def vector_functions(shape: Shape) -> list[str]:
    """The routine and the tile it needs besides those of the product."""
    return [Tile(shape, 1, WIDE_VECTORS).text(), _Routine(shape).text()]


class _Routine(Function):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, vector_symbol(shape.type))

    def text(self) -> str:
        self.branch(self.test("eq", "%b_col", 1), self.rows, self.columns)
        return self.finished(_PARAMETERS)

    def block(self, pc: str, size: int) -> tuple[str, str]:
        """(steps in the block at pc, whether to add to c)."""
        count = self.smaller(self.minus("%k", pc), size)
        return count, self.chosen(self.test("sgt", pc, 0), "1", "%accumulate", "i32")

    # --- contiguous rows of B ---

    def rows(self) -> None:
        wide, narrow = Tile(self.shape, 1, WIDE_VECTORS), Tile(self.shape, 1, 2)
        part = Tile(self.shape, 1, 2, "part")
        whole = self.times(self.over("%n", wide.columns), wide.columns)
        rest = self.minus("%n", whole)
        middle = self.plus(whole, self.times(self.over(rest, narrow.columns), narrow.columns))

        def block(pc: str) -> None:
            count, keep = self.block(pc, BLOCK_ROWS)
            a = self.at("%a", self.times(pc, "%a_col"))
            b = self.at("%b", self.times(pc, "%b_row"))

            def call(j: str, tile: Tile) -> None:
                self.call(
                    tile.symbol,
                    *(f"i64 {count}", f"ptr {a}", "i64 0", "i64 %a_col", "i64 0"),
                    *(f"ptr {self.at(b, j)}", "i64 %b_row", f"ptr {self.at('%c', j)}", "i64 0"),
                    *(f"i64 {self.minus('%n', j)}", "i64 1", f"i32 {keep}"),
                )

            self.loop(whole, wide.columns, lambda j: call(j, wide))
            self.loop(middle, narrow.columns, lambda j: call(j, narrow), whole)
            self.loop("%n", narrow.columns, lambda j: call(j, part), middle)

        self.loop("%k", BLOCK_ROWS, block)

    # --- contiguous columns of B ---

    def columns(self) -> None:
        whole = self.emit(f"and i64 %n, {-DOTS}")

        def block(pc: str) -> None:
            count, keep = self.block(pc, BLOCK_DOT)
            a, b = self.at("%a", pc), self.at("%b", pc)
            self.loop(whole, DOTS, lambda j: self.dots(a, b, j, count, keep, DOTS))
            self.loop("%n", 1, lambda j: self.dots(a, b, j, count, keep, 1), whole)

        self.loop("%k", BLOCK_DOT, block)

    def dots(self, a: str, b: str, j: str, count: str, keep: str, number: int) -> None:
        """`number` dot products of a with columns from j on, each in two registers of sums."""
        lanes = self.lanes
        starts = [self.at(b, self.times(self.plus(j, at), "%b_col")) for at in range(number)]
        whole = self.emit(f"and i64 {count}, {-2 * lanes}")

        def step(p: str, sums: list[str]) -> list[str]:
            places = [p, self.plus(p, lanes)]
            left = [self.load(self.at(a, place), self.vector) for place in places]
            return [
                self.fma(
                    left[half],
                    self.load(self.at(starts[at], places[half]), self.vector),
                    sums[2 * at + half],
                )
                for at in range(number)
                for half in (0, 1)
            ]

        zero = [(self.vector, "zeroinitializer")] * (2 * number)
        sums = self.carried_loop(whole, 2 * lanes, zero, step)
        totals = [self.across(sums[2 * at], sums[2 * at + 1]) for at in range(number)]
        totals = self.remaining(a, starts, whole, count, totals)
        for at, total in enumerate(totals):
            place = self.at("%c", self.plus(j, at))
            again = self.emit(f"icmp ne i32 {keep}, 0")
            base = self.chosen(again, self.load(place), "0.0", self.scalar)
            self.store(self.emit(f"fadd {self.scalar} {base}, {total}"), place)

    def remaining(
        self, a: str, starts: list[str], start: str, stop: str, totals: list[str]
    ) -> list[str]:
        scalar, suffix = self.scalar, f"f{self.type.bits}"

        def step(p: str, sums: list[str]) -> list[str]:
            left = self.load(self.at(a, p))
            return [
                self.emit(
                    f"call {scalar} @llvm.fma.{suffix}({scalar} {left}, "
                    f"{scalar} {self.load(self.at(place, p))}, {scalar} {total})"
                )
                for place, total in zip(starts, sums, strict=True)
            ]

        return self.carried_loop(stop, 1, [(scalar, t) for t in totals], step, start)

    def across(self, first: str, second: str) -> str:
        """The sum of all lanes of two registers, halves first."""
        text = self.emit(f"fadd {self.vector} {first}, {second}")
        lanes = self.lanes
        while lanes > 1:
            half = lanes // 2
            low, high = (
                self.shuffled(text, "poison", range(at, at + half), lanes) for at in (0, half)
            )
            text = self.emit(f"fadd <{half} x {self.scalar}> {low}, {high}")
            lanes = half
        return self.emit(f"extractelement <1 x {self.scalar}> {text}, i64 0")
