"""Matrix product: C = A B, or C += A B, for any strides of A and B.

    void tetrax_gemm_f32(ptr a, ptr b, ptr c, i64 m, i64 n, i64 k, i64 a_row, i64 a_col, i64
                         b_row, i64 b_col, i64 c_row, i32 accumulate, ptr scratch)

Strides are in elements; rows of C are contiguous. Blocks of B (and of A where it pays) are
packed into scratch so that tiles read them in order. Work is cut by sizes only, so the same
product always has the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from tetrax.compiler.cpu.emit_loops import branch, counted_loop
from tetrax.compiler.cpu.emitter import Emitter
from tetrax.compiler.cpu.library.gemm_tile import TileShape, tile_text
from tetrax.compiler.cpu.library.gemm_vector import vector_functions, vector_symbol
from tetrax.compiler.cpu.llvm_text import register_type
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_statements import Kernel
from tetrax.ir.kernel_types import ScalarType

BLOCK_K, BLOCK_M, BLOCK_N = 256, 144, 3072
PACK_B_ROWS, PACK_B_SIZE = 24, 16_384
"""B is packed for more rows of A than this, if it has more elements than this (a transposed B
always).
"""
PACK_A_COLUMNS, PACK_A_SIZE = 64, 65_536


@dataclass(frozen=True)
class GemmShape:
    """Element type and register tile of a product routine."""

    type: ScalarType
    lanes: int
    rows: int
    vectors: int = 2

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return self.lanes * self.vectors

    @property
    def symbol(self) -> str:
        """The routine's name."""
        return f"tetrax_gemm_{self.type}"

    def tile(self, rows: int) -> TileShape:
        """The tile of a number of rows."""
        return TileShape(self.type, self.lanes, rows, self.vectors)


def gemm_shape(type: ScalarType, target: Target) -> GemmShape:
    """The tile that fills the registers: 6 rows by two registers (4 rows where there are few
    registers' lanes).
    """
    return GemmShape(type, max(2, target.vector_bits // type.bits), 6)


def gemm_scratch_bytes(type: ScalarType, m: int, n: int, k: int) -> int:
    """Scratch space that a product of these sizes needs."""
    depth = min(k, BLOCK_K)
    columns = -(-min(n, BLOCK_N) // 16) * 16
    rows = -(-min(m, BLOCK_M) // 6) * 6
    return (depth * (columns + rows) + 128) * type.bytes


def gemm_module(type: ScalarType, target: Target) -> str:
    """The LLVM module of a product routine with its tiles."""
    shape = gemm_shape(type, target)
    tiles = [
        tile_text(shape.tile(rows), masked)
        for rows in range(1, shape.rows + 1)
        for masked in (False, True)
    ]
    internal = [text.replace("define void", "define internal void", 1) for text in tiles]
    vector = vector_functions(shape.tile(1), target)
    return "\n".join([*internal, *vector, _Routine(shape, target).text()])


_PARAMETERS = (
    "ptr %a, ptr %b, ptr %c, i64 %m, i64 %n, i64 %k, i64 %a_row, i64 %a_col, "
    "i64 %b_row, i64 %b_col, i64 %c_row, i32 %accumulate, ptr %scratch"
)


class _Routine:
    """Text of the blocked product around the tiles."""

    def __init__(self, shape: GemmShape, target: Target):
        self.shape = shape
        self.scalar = register_type(shape.type)
        self.align = f"align {shape.type.bytes}"
        self.em = Emitter(Kernel(shape.symbol, ()), target, {}, False)

    # --- small helpers ---

    def emit(self, instruction: str) -> str:
        return self.em.emit(instruction)

    def at(self, pointer: str, elements: str) -> str:
        return self.emit(f"getelementptr {self.scalar}, ptr {pointer}, i64 {elements}")

    def times(self, a: str, b: str | int) -> str:
        return self.emit(f"mul nsw i64 {a}, {b}")

    def plus(self, a: str, b: str | int) -> str:
        return self.emit(f"add nsw i64 {a}, {b}")

    def limit(self, a: str, b: str | int) -> str:
        return self.emit(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def loop(self, stop: str, step: int, body) -> None:
        """`body(index)` for 0, step … below stop."""

        def run(index: str, _: list[str]) -> list[str]:
            body(index)
            return []

        counted_loop(self.em, "0", stop, step, [], run)

    def load(self, pointer: str) -> str:
        return self.emit(f"load {self.scalar}, ptr {pointer}, {self.align}")

    def store(self, value: str, pointer: str) -> None:
        self.em.effect(f"store {self.scalar} {value}, ptr {pointer}, {self.align}")

    # --- the routine ---

    def text(self) -> str:
        unit = self.emit("icmp eq i64 %b_col, 1")
        dots = self.both(self.emit("icmp eq i64 %b_row, 1"), self.emit("icmp eq i64 %a_col, 1"))
        row = self.both(self.emit("icmp eq i64 %m, 1"), self.emit(f"or i1 {unit}, {dots}"))
        branch(self.em, row, self.row_times_matrix, self.not_a_row)
        branch(self.em, self.emit("icmp sle i64 %k, 0"), self.clear)
        self.em.effect("ret void")
        body = "\n".join(self.em.scopes[0].lines)
        return f"define void @{self.shape.symbol}({_PARAMETERS}) nounwind {{\nentry:\n{body}\n}}\n"

    def both(self, a: str, b: str) -> str:
        return self.emit(f"and i1 {a}, {b}")

    def row_times_matrix(self) -> None:
        self.em.effect(
            f"call void @{vector_symbol(self.shape.type)}(ptr %a, ptr %b, ptr %c, i64 %n, i64 %k, "
            "i64 %a_col, i64 %b_row, i64 %b_col, i32 %accumulate)"
        )

    def not_a_row(self) -> None:
        """A matrix times a column is a row times the transposed matrix, where the result is
        contiguous.
        """
        unit = self.emit("icmp eq i64 %a_row, 1")
        dots = self.both(self.emit("icmp eq i64 %a_col, 1"), self.emit("icmp eq i64 %b_row, 1"))
        dense = self.both(self.emit("icmp eq i64 %c_row, 1"), self.emit(f"or i1 {unit}, {dots}"))
        column = self.both(self.emit("icmp eq i64 %n, 1"), dense)
        branch(self.em, column, self.matrix_times_column, self.blocked)

    def matrix_times_column(self) -> None:
        self.em.effect(
            f"call void @{vector_symbol(self.shape.type)}(ptr %b, ptr %a, ptr %c, i64 %m, i64 %k, "
            "i64 %b_row, i64 %a_col, i64 %a_row, i32 %accumulate)"
        )

    def blocked(self) -> None:
        self.decide()
        self.loop("%n", BLOCK_N, self.column_block)

    def decide(self) -> None:
        """What to pack."""
        many = self.emit(f"icmp sgt i64 %m, {PACK_B_ROWS}")
        big = self.emit(f"icmp sgt i64 {self.times('%n', '%k')}, {PACK_B_SIZE}")
        worth = self.emit(f"and i1 {many}, {big}")
        spread = self.emit("icmp ne i64 %b_col, 1")
        self.pack_b = self.emit(f"or i1 {worth}, {spread}")
        wide = self.emit(f"icmp sgt i64 %n, {PACK_A_COLUMNS}")
        tall = self.emit(f"icmp sgt i64 {self.times('%m', '%k')}, {PACK_A_SIZE}")
        self.pack_a = self.emit(f"and i1 {wide}, {tall}")

    def clear(self) -> None:
        """With nothing to sum, C is zero unless it accumulates."""
        keep = self.emit("icmp ne i32 %accumulate, 0")
        rows = self.emit(f"select i1 {keep}, i64 0, i64 %m")

        def row(i: str) -> None:
            start = self.at("%c", self.times(i, "%c_row"))
            self.loop("%n", 1, lambda j: self.store("0.0", self.at(start, j)))

        self.loop(rows, 1, row)

    def column_block(self, jc: str) -> None:
        self.jc = jc
        self.nc = self.limit(self.emit(f"sub i64 %n, {jc}"), BLOCK_N)
        self.loop("%k", BLOCK_K, self.depth_block)

    def depth_block(self, pc: str) -> None:
        self.pc = pc
        self.kc = self.limit(self.emit(f"sub i64 %k, {pc}"), BLOCK_K)
        later = self.emit(f"icmp sgt i64 {pc}, 0")
        self.keep = self.emit(f"select i1 {later}, i32 1, i32 %accumulate")
        corner = self.plus(self.times(pc, "%b_row"), self.times(self.jc, "%b_col"))
        self.b_block = self.at("%b", corner)
        branch(self.em, self.pack_b, self.pack_columns)
        # a packed panel holds `columns` contiguous values per step of k
        width = self.shape.columns
        self.b_base = self.emit(f"select i1 {self.pack_b}, ptr %scratch, ptr {self.b_block}")
        self.b_step = self.emit(f"select i1 {self.pack_b}, i64 {width}, i64 %b_row")
        self.b_panel = self.emit(f"select i1 {self.pack_b}, i64 {self.kc}, i64 1")
        rounded = self.times(self.emit(f"sdiv i64 {self.plus(self.nc, width - 1)}, {width}"), width)
        space = self.emit(f"select i1 {self.pack_b}, i64 {self.times(rounded, self.kc)}, i64 0")
        self.a_space = self.at("%scratch", space)
        self.loop("%m", BLOCK_M, self.row_block)

    def row_block(self, ic: str) -> None:
        self.mc = self.limit(self.emit(f"sub i64 %m, {ic}"), BLOCK_M)
        corner = self.plus(self.times(ic, "%a_row"), self.times(self.pc, "%a_col"))
        self.a_block = self.at("%a", corner)
        branch(self.em, self.pack_a, self.pack_rows)
        rows = self.shape.rows
        self.a_base = self.emit(f"select i1 {self.pack_a}, ptr {self.a_space}, ptr {self.a_block}")
        self.a_row = self.emit(f"select i1 {self.pack_a}, i64 1, i64 %a_row")
        self.a_step = self.emit(f"select i1 {self.pack_a}, i64 {rows}, i64 %a_col")
        self.a_strip = self.emit(f"select i1 {self.pack_a}, i64 {self.kc}, i64 %a_row")
        self.c_block = self.at("%c", self.plus(self.times(ic, "%c_row"), self.jc))
        self.loop(self.nc, self.shape.columns, self.panel)

    def panel(self, jr: str) -> None:
        left = self.emit(f"sub i64 {self.nc}, {jr}")
        b = self.at(self.b_base, self.times(jr, self.b_panel))
        c = self.at(self.c_block, jr)
        full = self.emit(f"icmp sge i64 {left}, {self.shape.columns}")
        branch(
            self.em,
            full,
            lambda: self.strips(b, c, left, masked=False),
            lambda: self.strips(b, c, left, masked=True),
        )

    def strips(self, b: str, c: str, columns: str, masked: bool) -> None:
        rows = self.shape.rows
        whole = self.times(self.emit(f"sdiv i64 {self.mc}, {rows}"), rows)

        def strip(ir: str) -> None:
            self.call_tile(ir, rows, b, c, columns, masked)

        self.loop(whole, rows, strip)
        rest = self.emit(f"sub i64 {self.mc}, {whole}")
        for count in range(1, rows):
            test = self.emit(f"icmp eq i64 {rest}, {count}")
            branch(
                self.em,
                test,
                lambda count=count: self.call_tile(whole, count, b, c, columns, masked),
            )

    def call_tile(self, ir: str, rows: int, b: str, c: str, columns: str, masked: bool) -> None:
        a = self.at(self.a_base, self.times(ir, self.a_strip))
        target = self.at(c, self.times(ir, "%c_row"))
        symbol = self.shape.tile(rows).symbol(masked)
        self.em.effect(
            f"call void @{symbol}(i64 {self.kc}, ptr {a}, i64 {self.a_row}, i64 {self.a_step}, "
            f"ptr {b}, i64 {self.b_step}, ptr {target}, i64 %c_row, i64 {columns}, "
            f"i32 {self.keep})"
        )

    # --- packing ---

    def pack_rows(self) -> None:
        """Strips of `rows` rows of A, each step of k contiguous."""
        rows = self.shape.rows

        def strip(ir: str) -> None:
            target = self.at(self.a_space, self.times(ir, self.kc))
            source = self.at(self.a_block, self.times(ir, "%a_row"))
            left = self.limit(self.emit(f"sub i64 {self.mc}, {ir}"), rows)
            full = self.emit(f"icmp eq i64 {left}, {rows}")
            branch(
                self.em,
                full,
                lambda: self.copy_strip(source, target),
                lambda: self.copy_part_of_strip(source, target, left),
            )

        self.loop(self.mc, rows, strip)

    def copy_strip(self, source: str, target: str) -> None:
        rows = self.shape.rows
        starts = [self.at(source, self.times("%a_row", r)) for r in range(rows)]

        def step(p: str) -> None:
            column = self.times(p, "%a_col")
            place = self.at(target, self.times(p, rows))
            for r in range(rows):
                self.store(self.load(self.at(starts[r], column)), self.at(place, str(r)))

        self.loop(self.kc, 1, step)

    def copy_part_of_strip(self, source: str, target: str, left: str) -> None:
        def row(r: str) -> None:
            start = self.at(source, self.times(r, "%a_row"))
            place = self.at(target, r)

            def step(p: str) -> None:
                value = self.load(self.at(start, self.times(p, "%a_col")))
                self.store(value, self.at(place, self.times(p, self.shape.rows)))

            self.loop(self.kc, 1, step)

        self.loop(left, 1, row)

    def pack_columns(self) -> None:
        """Panels of `columns` columns of B, each step of k contiguous, the last one filled with
        zeros.
        """
        width = self.shape.columns

        def panel(jr: str) -> None:
            target = self.at("%scratch", self.times(jr, self.kc))
            source = self.at(self.b_block, self.times(jr, "%b_col"))
            left = self.emit(f"sub i64 {self.nc}, {jr}")
            full = self.emit(f"icmp sge i64 {left}, {width}")
            branch(
                self.em,
                full,
                lambda: self.copy_panel(source, target),
                lambda: self.copy_part_of_panel(source, target, left, "0"),
            )

        self.loop(self.nc, width, panel)

    def copy_panel(self, source: str, target: str) -> None:
        contiguous = self.emit("icmp eq i64 %b_col, 1")
        branch(
            self.em,
            contiguous,
            lambda: self.copy_contiguous_panel(source, target),
            lambda: self.copy_spread_panel(source, target),
        )

    def copy_contiguous_panel(self, source: str, target: str) -> None:
        width = self.shape.columns
        kind = register_type(self.shape.type, width)

        def step(p: str) -> None:
            row = self.at(source, self.times(p, "%b_row"))
            text = self.emit(f"load {kind}, ptr {row}, {self.align}")
            place = self.at(target, self.times(p, width))
            self.em.effect(f"store {kind} {text}, ptr {place}, {self.align}")

        self.loop(self.kc, 1, step)

    def copy_spread_panel(self, source: str, target: str) -> None:
        """A transposed B: squares of lanes x lanes are turned in registers."""
        lanes, width = self.shape.lanes, self.shape.columns
        turned = self.emit("icmp eq i64 %b_row, 1")
        whole = self.emit(f"and i64 {self.kc}, {-lanes}")
        start = self.emit(f"select i1 {turned}, i64 {whole}, i64 0")
        kind = register_type(self.shape.type, lanes)

        def square(p: str) -> None:
            for half in range(self.shape.vectors):
                columns = [half * lanes + j for j in range(lanes)]
                corner = self.at(source, p)
                rows = [
                    self.emit(
                        f"load {kind}, ptr {self.at(corner, self.times('%b_col', j))}, {self.align}"
                    )
                    for j in columns
                ]
                for at, text in enumerate(self.turn(rows)):
                    place = self.at(
                        target, self.plus(self.times(self.plus(p, at), width), half * lanes)
                    )
                    self.em.effect(f"store {kind} {text}, ptr {place}, {self.align}")

        self.loop(start, lanes, square)
        self.copy_part_of_panel(source, target, str(width), start)

    def turn(self, rows: list[str]) -> list[str]:
        """Transpose a square of registers by exchanging ever smaller off-diagonal blocks."""
        lanes = self.shape.lanes
        kind = register_type(self.shape.type, lanes)
        distance = lanes // 2
        while distance:
            for i in range(lanes):
                if i & distance:
                    continue
                a, b = rows[i], rows[i + distance]
                low = [x if not x & distance else lanes + x - distance for x in range(lanes)]
                high = [x + distance if not x & distance else lanes + x for x in range(lanes)]
                rows[i] = _shuffle_two(self.em, kind, a, b, low)
                rows[i + distance] = _shuffle_two(self.em, kind, a, b, high)
            distance //= 2
        return rows

    def copy_part_of_panel(self, source: str, target: str, left: str, start: str) -> None:
        """Value by value from step `start` of k on; columns beyond `left` are zero."""
        width = self.shape.columns
        count = self.emit(f"sub i64 {self.kc}, {start}")

        def column(j: str) -> None:
            inside = self.emit(f"icmp slt i64 {j}, {left}")
            offset = self.emit(f"select i1 {inside}, i64 {self.times(j, '%b_col')}, i64 0")
            from_ = self.at(source, offset)

            def step(at: str) -> None:
                p = self.plus(at, start)
                value = self.load(self.at(from_, self.times(p, "%b_row")))
                kept = self.emit(f"select i1 {inside}, {self.scalar} {value}, {self.scalar} 0.0")
                self.store(kept, self.at(target, self.plus(self.times(p, width), j)))

            self.loop(count, 1, step)

        self.loop(str(width), 1, column)


def _shuffle_two(em: Emitter, kind: str, a: str, b: str, picks: list[int]) -> str:
    mask = ", ".join(f"i32 {pick}" for pick in picks)
    return em.emit(f"shufflevector {kind} {a}, {kind} {b}, <{len(picks)} x i32> <{mask}>")
