"""A row times a matrix, the part of the matrix product that only memory limits: c = a B, or
c += a B, for contiguous c.

    void tetrax_gemv_f32(ptr a, ptr b, ptr c, i64 n, i64 k,
                         i64 a_col, i64 b_row, i64 b_col, i32 accumulate)

Rows of B that are contiguous are scaled and added in wide tiles; columns that are contiguous (then
a must be, too) become dot products, four at a time. One of b_row and b_col must be 1.
"""

from __future__ import annotations

from collections.abc import Callable

from tetrax.compiler.cpu.emit_loops import branch, counted_loop
from tetrax.compiler.cpu.emitter import Emitter
from tetrax.compiler.cpu.library.gemm_tile import TileShape, tile_text
from tetrax.compiler.cpu.llvm_text import register_type
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_statements import Kernel
from tetrax.ir.kernel_types import ScalarType

WIDE_VECTORS = 12
BLOCK_ROWS, BLOCK_DOT = 256, 2048
"""Steps of k summed in registers before they are added to c, which bounds the rounding error."""
DOTS = 4


def wide_tile(type: ScalarType, lanes: int) -> TileShape:
    """One row by as many registers as give enough independent sums."""
    return TileShape(type, lanes, 1, WIDE_VECTORS)


def vector_symbol(type: ScalarType) -> str:
    """The routine's name."""
    return f"tetrax_gemv_{type}"


_PARAMETERS = (
    "ptr %a, ptr %b, ptr %c, i64 %n, i64 %k, i64 %a_col, i64 %b_row, i64 %b_col, i32 %accumulate"
)


def vector_functions(narrow: TileShape, target: Target) -> list[str]:
    """The routine and the tile it needs besides `narrow`, the one-row tile of the product."""
    wide = tile_text(wide_tile(narrow.type, narrow.lanes), masked=False)
    routine = _Routine(narrow, target).text()
    return [text.replace("define void", "define internal void", 1) for text in (wide, routine)]


class _Routine:
    def __init__(self, narrow: TileShape, target: Target):
        self.narrow = narrow
        self.wide = wide_tile(narrow.type, narrow.lanes)
        self.scalar = register_type(narrow.type)
        self.vector = register_type(narrow.type, narrow.lanes)
        self.align = f"align {narrow.type.bytes}"
        self.em = Emitter(Kernel(vector_symbol(narrow.type), ()), target, {}, False)

    def emit(self, instruction: str) -> str:
        return self.em.emit(instruction)

    def at(self, pointer: str, elements: str) -> str:
        return self.emit(f"getelementptr {self.scalar}, ptr {pointer}, i64 {elements}")

    def loop(self, start: str, stop: str, step: int, body: Callable[[str], None]) -> None:
        def run(index: str, _: list[str]) -> list[str]:
            body(index)
            return []

        counted_loop(self.em, start, stop, step, [], run)

    def text(self) -> str:
        branch(self.em, self.emit("icmp eq i64 %b_col, 1"), self.rows, self.columns)
        self.em.effect("ret void")
        body = "\n".join(self.em.scopes[0].lines)
        name = vector_symbol(self.narrow.type)
        return f"define void @{name}({_PARAMETERS}) nounwind {{\nentry:\n{body}\n}}\n"

    def block(self, pc: str, size: int) -> tuple[str, str]:
        """(steps in the block at pc, whether to add to c)."""
        left = self.emit(f"sub i64 %k, {pc}")
        count = self.emit(f"call i64 @llvm.smin.i64(i64 {left}, i64 {size})")
        later = self.emit(f"icmp sgt i64 {pc}, 0")
        return count, self.emit(f"select i1 {later}, i32 1, i32 %accumulate")

    # --- contiguous rows of B ---

    def rows(self) -> None:
        wide, narrow = self.wide.columns, self.narrow.columns
        whole = self.emit(f"mul i64 {self.emit(f'sdiv i64 %n, {wide}')}, {wide}")
        rest = self.emit(f"sub i64 %n, {whole}")
        part = self.emit(f"mul i64 {self.emit(f'sdiv i64 {rest}, {narrow}')}, {narrow}")
        middle = self.emit(f"add i64 {whole}, {part}")

        def block(pc: str) -> None:
            count, keep = self.block(pc, BLOCK_ROWS)
            a = self.at("%a", self.emit(f"mul i64 {pc}, %a_col"))
            b = self.at("%b", self.emit(f"mul i64 {pc}, %b_row"))

            def call(j: str, shape: TileShape, masked: bool) -> None:
                left = self.emit(f"sub i64 %n, {j}")
                self.em.effect(
                    f"call void @{shape.symbol(masked)}(i64 {count}, ptr {a}, i64 0, i64 %a_col, "
                    f"ptr {self.at(b, j)}, i64 %b_row, ptr {self.at('%c', j)}, i64 0, "
                    f"i64 {left}, i32 {keep})"
                )

            self.loop("0", whole, wide, lambda j: call(j, self.wide, False))
            self.loop(whole, middle, narrow, lambda j: call(j, self.narrow, False))
            self.loop(middle, "%n", narrow, lambda j: call(j, self.narrow, True))

        self.loop("0", "%k", BLOCK_ROWS, block)

    # --- contiguous columns of B ---

    def columns(self) -> None:
        whole = self.emit(f"and i64 %n, {-DOTS}")

        def block(pc: str) -> None:
            count, keep = self.block(pc, BLOCK_DOT)
            a = self.at("%a", pc)
            b = self.at("%b", pc)
            self.loop("0", whole, DOTS, lambda j: self.dots(a, b, j, count, keep, DOTS))
            self.loop(whole, "%n", 1, lambda j: self.dots(a, b, j, count, keep, 1))

        self.loop("0", "%k", BLOCK_DOT, block)

    def dots(self, a: str, b: str, j: str, count: str, keep: str, number: int) -> None:
        """`number` dot products of a with columns from j on, each in two registers of sums."""
        lanes = self.narrow.lanes
        suffix = f"v{lanes}f{self.narrow.type.bits}"
        starts = [
            self.at(b, self.emit(f"mul i64 {self.emit(f'add i64 {j}, {at}')}, %b_col"))
            for at in range(number)
        ]
        whole = self.emit(f"and i64 {count}, {-2 * lanes}")

        def step(p: str, sums: list[str]) -> list[str]:
            places = [p, self.emit(f"add i64 {p}, {lanes}")]
            left = [self.read(a, place) for place in places]
            return [
                self.emit(
                    f"call {self.vector} @llvm.fma.{suffix}({self.vector} {left[half]}, "
                    f"{self.vector} {self.read(starts[at], places[half])}, "
                    f"{self.vector} {sums[2 * at + half]})"
                )
                for at in range(number)
                for half in (0, 1)
            ]

        zero = [(self.vector, "zeroinitializer")] * (2 * number)
        sums = counted_loop(self.em, "0", whole, 2 * lanes, zero, step)
        totals = [self.across(sums[2 * at], sums[2 * at + 1]) for at in range(number)]
        totals = self.remaining(a, starts, whole, count, totals)
        for at, total in enumerate(totals):
            place = self.at("%c", self.emit(f"add i64 {j}, {at}"))
            again = self.emit(f"icmp ne i32 {keep}, 0")
            old = self.emit(f"load {self.scalar}, ptr {place}, {self.align}")
            base = self.emit(f"select i1 {again}, {self.scalar} {old}, {self.scalar} 0.0")
            value = self.emit(f"fadd {self.scalar} {base}, {total}")
            self.em.effect(f"store {self.scalar} {value}, ptr {place}, {self.align}")

    def remaining(
        self, a: str, starts: list[str], start: str, stop: str, totals: list[str]
    ) -> list[str]:
        suffix = f"f{self.narrow.type.bits}"

        def step(p: str, sums: list[str]) -> list[str]:
            left = self.emit(f"load {self.scalar}, ptr {self.at(a, p)}, {self.align}")
            result = []
            for place, total in zip(starts, sums, strict=True):
                right = self.emit(f"load {self.scalar}, ptr {self.at(place, p)}, {self.align}")
                result.append(
                    self.emit(
                        f"call {self.scalar} @llvm.fma.{suffix}({self.scalar} {left}, "
                        f"{self.scalar} {right}, {self.scalar} {total})"
                    )
                )
            return result

        return counted_loop(self.em, start, stop, 1, [(self.scalar, t) for t in totals], step)

    def read(self, pointer: str, at: str) -> str:
        return self.emit(f"load {self.vector}, ptr {self.at(pointer, at)}, {self.align}")

    def across(self, first: str, second: str) -> str:
        """The sum of all lanes of two registers, halves first."""
        text = self.emit(f"fadd {self.vector} {first}, {second}")
        lanes = self.narrow.lanes
        while lanes > 1:
            kind, half = f"<{lanes} x {self.scalar}>", lanes // 2
            picks = [", ".join(f"i32 {at + i}" for i in range(half)) for at in (0, half)]
            parts = [
                self.emit(f"shufflevector {kind} {text}, {kind} poison, <{half} x i32> <{pick}>")
                for pick in picks
            ]
            text = self.emit(f"fadd <{half} x {self.scalar}> {parts[0]}, {parts[1]}")
            lanes = half
        return self.emit(f"extractelement <1 x {self.scalar}> {text}, i64 0")
