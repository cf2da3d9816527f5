"""Few rows times the transpose of a matrix: dot products, four at a time.

    void tetrax_dots_f32(…the parameters of the product…)

Steps of k must be neighbours in A and in B.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.gemm_text import PARAMETERS, Function, Shape
from tetrax.ir.kernel_types import ScalarType

BLOCK = 2048
"""Steps of k summed in registers before they are added to c, which bounds the rounding error."""
DOTS = 4


def dots_symbol(type: ScalarType) -> str:
    """The routine's name."""
    return f"tetrax_dots_{type}"


def dots_function(shape: Shape) -> str:
    """The routine."""
    return _Dots(shape).text()


class _Dots(Function):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, dots_symbol(shape.operand))
        self.keep = ""

    def text(self) -> str:
        whole = self.emit(f"and i64 %n, {-DOTS}")

        def block(pc: str) -> None:
            count = self.smaller(self.minus("%k", pc), BLOCK)
            self.keep = self.chosen(self.test("sgt", pc, 0), "1", "%accumulate", "i32")
            a, b = self.operand_at("%a", pc), self.operand_at("%b", pc)
            self.loop(whole, DOTS, lambda j: self.rows(a, b, j, count, DOTS))
            self.loop("%n", 1, lambda j: self.rows(a, b, j, count, 1), whole)

        self.loop("%k", BLOCK, block)
        self.finish_block("0", "%m", "0", "%n")
        return self.finished(PARAMETERS)

    def rows(self, a: str, b: str, j: str, count: str, number: int) -> None:
        """Some columns with all rows: what was read of B is still near."""

        def row(i: str) -> None:
            c = self.at("%c", self.times(i, "%c_row"))
            self.dots(self.operand_at(a, self.times(i, "%a_row")), b, c, j, count, number)

        self.loop("%m", 1, row)

    def dots(self, a: str, b: str, c: str, j: str, count: str, number: int) -> None:
        """`number` dot products of a with columns from j on, each in two registers of sums."""
        lanes = self.lanes
        starts = [
            self.operand_at(b, self.times(self.plus(j, at), "%b_col")) for at in range(number)
        ]
        whole = self.emit(f"and i64 {count}, {-2 * lanes}")

        def step(p: str, sums: list[str]) -> list[str]:
            places = [p, self.plus(p, lanes)]
            left = [self.operand_lanes(self.operand_at(a, place), lanes) for place in places]
            return [
                self.fma(
                    left[half],
                    self.operand_lanes(self.operand_at(starts[at], places[half]), lanes),
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
            place = self.at(c, self.plus(j, at))
            again = self.emit(f"icmp ne i32 {self.keep}, 0")
            base = self.chosen(again, self.load(place), "0.0", self.scalar)
            self.store(self.emit(f"fadd {self.scalar} {base}, {total}"), place)

    def remaining(
        self, a: str, starts: list[str], start: str, stop: str, totals: list[str]
    ) -> list[str]:
        def step(p: str, sums: list[str]) -> list[str]:
            left = self.operand_value(self.operand_at(a, p))
            right = [self.operand_value(self.operand_at(place, p)) for place in starts]
            return [self.fma(left, one, sum, 1) for one, sum in zip(right, sums, strict=True)]

        return self.carried_loop(stop, 1, [(self.scalar, t) for t in totals], step, start)

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
