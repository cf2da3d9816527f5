"""The matrix product on one thread: blocks that fit the caches, packed where that pays.

    void tetrax_product_f32(ptr a, ptr b, ptr c, i64 m, i64 n, i64 k, i64 a_row, i64 a_col,
                            i64 b_row, i64 b_col, i64 c_row, i32 accumulate,
                            ptr epilogue, ptr context, i64 row0, i64 col0)
    void tetrax_gemm_small_f32(…up to accumulate)

Every element of C is summed over k in order, in blocks of BLOCK_K: how rows and columns are cut, by
whom and how far they are packed has no influence on the bits. The product of small matrices takes
up to BLOCK_K steps of k, and columns of B that are neighbours.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.gemm_pack import pack_columns_symbol, pack_rows_symbol
from tetrax.compiler.cpu.library.gemm_text import (
    ARGUMENTS,
    PARAMETERS,
    ROWS,
    Function,
    Shape,
    parameters,
)
from tetrax.compiler.cpu.library.gemm_tile import Tile
from tetrax.ir.kernel_types import ScalarType

BLOCK_K, BLOCK_M, BLOCK_N = 256, 144, 3072
PACK_B_ROWS, PACK_B_SIZE = 24, 4096
"""B is packed for more rows of A than this, if it has more elements than this (a transposed B
always).
"""
PACK_A_COLUMNS, PACK_A_SIZE = 64, 65_536
GROUP = 16
"""Panels of C that are told as finished at a time: the second-level cache holds them."""


def small_symbol(type: ScalarType) -> str:
    """The name of the product of small matrices."""
    return f"tetrax_gemm_small_{type}"


def product_symbol(type: ScalarType) -> str:
    """The name of the product on one thread."""
    return f"tetrax_product_{type}"


WIDE, HALF, PART, PACKED = (2, "full"), (1, "full"), (1, "part"), (2, "packed")
"""Registers of a tile's row, and its variant."""


TILES = (
    *((rows, *kind) for rows in range(1, ROWS + 1) for kind in (WIDE, HALF, PART)),
    (ROWS, *PACKED),
)
"""Rows, registers of a row and variant of all the tiles that a product is made of."""


def tiles(shape: Shape) -> list[Tile]:
    """The tiles that a product is made of."""
    return [Tile(shape, *kind) for kind in TILES]


def product_functions(shape: Shape) -> list[str]:
    """The product, and the one of small matrices."""
    small = [] if shape.is_narrow else [_Small(shape).text()]
    return [_Product(shape).text(), *small]


class _Product(Function):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, product_symbol(shape.operand))

    def text(self) -> str:
        self.decide()
        self.loop("%n", BLOCK_N, self.column_block)
        return self.finished(PARAMETERS)

    def decide(self) -> None:
        """What to pack, and where."""
        many = self.test("sgt", "%m", PACK_B_ROWS)
        worth = self.both(many, self.test("sgt", self.times("%n", "%k"), PACK_B_SIZE))
        self.pack_b = self.either(worth, self.test("ne", "%b_col", 1))
        wide = self.test("sgt", "%n", PACK_A_COLUMNS)
        self.pack_a = self.both(wide, self.test("sgt", self.times("%m", "%k"), PACK_A_SIZE))
        if self.shape.is_narrow:
            self.pack_a = self.pack_b = "true"  # tiles only know the type of the product
        width = self.shape.columns
        depth = self.smaller("%k", BLOCK_K)
        columns = self.times(self.rounded_up(self.smaller("%n", BLOCK_N), width), width)
        rows = self.times(self.rounded_up(self.smaller("%m", BLOCK_M), ROWS), ROWS)
        both = self.plus(columns, rows)
        size = self.times(self.plus(self.times(depth, both), 64), self.type.bytes)
        some = self.either(self.pack_a, self.pack_b)
        wanted = self.chosen(some, size, "0")
        # without packing no memory is asked for: the scratch address is not used
        self.scratch = self.emit(f"call ptr @tetrax_local_memory(i64 {wanted})")
        # a multiple of a cache line past the columns
        self.a_space = self.at(self.scratch, self.times(depth, columns))

    def column_block(self, jc: str) -> None:
        self.jc = jc
        self.nc = self.smaller(self.minus("%n", jc), BLOCK_N)
        self.loop("%k", BLOCK_K, self.depth_block)

    def depth_block(self, pc: str) -> None:
        self.pc = pc
        self.kc = self.smaller(self.minus("%k", pc), BLOCK_K)
        later = self.test("sgt", pc, 0)
        self.keep = self.chosen(later, "1", "%accumulate", "i32")
        self.last = self.test("eq", self.plus(pc, self.kc), "%k")
        corner = self.plus(self.times(pc, "%b_row"), self.times(self.jc, "%b_col"))
        self.b_block = self.operand_at("%b", corner)
        self.branch(self.pack_b, self.pack_columns)
        self.b_base = self.chosen(self.pack_b, self.scratch, self.b_block, "ptr")
        self.b_step = self.chosen(self.pack_b, str(self.shape.columns), "%b_row")
        self.b_panel = self.chosen(self.pack_b, self.kc, "1")
        self.loop("%m", BLOCK_M, self.row_block)

    def pack_columns(self) -> None:
        self.call(
            pack_columns_symbol(self.operand),
            f"ptr {self.b_block}",
            f"ptr {self.scratch}",
            f"i64 {self.kc}",
            f"i64 {self.nc}",
            "i64 %b_row",
            "i64 %b_col",
        )

    def row_block(self, ic: str) -> None:
        self.ic = ic
        self.mc = self.smaller(self.minus("%m", ic), BLOCK_M)
        corner = self.plus(self.times(ic, "%a_row"), self.times(self.pc, "%a_col"))
        self.a_block = self.operand_at("%a", corner)
        self.branch(self.pack_a, self.pack_rows)
        self.a_base = self.chosen(self.pack_a, self.a_space, self.a_block, "ptr")
        self.a_row = self.chosen(self.pack_a, "1", "%a_row")
        self.a_step = self.chosen(self.pack_a, str(ROWS), "%a_col")
        self.a_each = self.chosen(self.pack_a, self.kc, "%a_row")
        self.c_block = self.at("%c", self.plus(self.times(ic, "%c_row"), self.jc))
        self.divide_rows()
        self.panels()

    def pack_rows(self) -> None:
        self.call(
            pack_rows_symbol(self.operand),
            f"ptr {self.a_block}",
            f"ptr {self.a_space}",
            f"i64 {self.mc}",
            f"i64 {self.kc}",
            "i64 %a_row",
            "i64 %a_col",
        )

    def divide_rows(self) -> None:
        """Strips of 6 rows, then some of 5 so that no shorter one remains, where there are enough
        rows and they are not packed; else one shorter strip.
        """
        strips = self.rounded_up(self.mc, ROWS)
        lacking = self.minus(self.times(strips, ROWS), self.mc)
        even = self.test("sle", lacking, strips)
        unpacked = self.emit(f"xor i1 {self.pack_a}, true")
        even = self.both(even, unpacked)
        self.fives = self.chosen(even, lacking, "0")
        whole = self.over(self.mc, ROWS)
        self.sixes = self.chosen(even, self.minus(strips, lacking), whole)
        done = self.plus(self.times(self.sixes, ROWS), self.times(self.fives, ROWS - 1))
        self.rest_at = done
        self.rest = self.minus(self.mc, done)

    def panels(self) -> None:
        """A block of C, some panels at a time: what is finished is told while it is near."""
        width = self.shape.columns
        whole = self.emit(f"and i64 {self.nc}, {-width}")

        def group(first: str) -> None:
            stop = self.smaller(self.plus(first, GROUP * width), whole)
            self.loop(stop, width, self.panel, first)
            self.finished_columns(first, self.minus(stop, first))

        self.loop(whole, GROUP * width, group)
        left = self.minus(self.nc, whole)

        def rest() -> None:
            self.last_columns(whole, left)
            self.finished_columns(whole, left)

        self.branch(self.test("sgt", left, 0), rest)

    def finished_columns(self, first: str, count: str) -> None:
        tell = lambda: self.finish_block(self.ic, self.mc, self.plus(self.jc, first), count)
        self.branch(self.last, tell)

    def panel(self, jr: str) -> None:
        b = self.at(self.b_base, self.times(jr, self.b_panel))
        c = self.at(self.c_block, jr)
        self.strips(b, c, str(self.shape.columns), WIDE, self.both(self.pack_a, self.pack_b))

    def last_columns(self, whole: str, left: str) -> None:
        """Columns that are no full panel: a register of them, then a part of one."""
        b = self.at(self.b_base, self.times(whole, self.b_panel))
        c = self.at(self.c_block, whole)
        half = self.test("sge", left, self.lanes)
        self.branch(half, lambda: self.strips(b, c, str(self.lanes), HALF))
        done = self.chosen(half, str(self.lanes), "0")
        rest = self.minus(left, done)

        def part() -> None:
            self.strips(self.at(b, done), self.at(c, done), rest, PART)

        self.branch(self.test("sgt", rest, 0), part)

    def strips(
        self,
        b: str,
        c: str,
        columns: str,
        kind: tuple[int, str],
        packed: str | None = None,
    ) -> None:
        def sixes(kind: tuple[int, str]) -> None:
            self.call_tile("0", ROWS, self.sixes, b, c, columns, kind)

        if packed is None:
            sixes(kind)
        else:
            self.branch(packed, lambda: sixes(PACKED), lambda: sixes(kind))
        some = self.test("sgt", self.fives, 0)
        after = self.times(self.sixes, ROWS)
        self.branch(
            some,
            lambda: self.call_tile(after, ROWS - 1, self.fives, b, c, columns, kind),
        )

        def last() -> None:
            for count in range(1, ROWS):
                self.branch(
                    self.test("eq", self.rest, count),
                    lambda count=count: self.call_tile(
                        self.rest_at, count, "1", b, c, columns, kind
                    ),
                )

        self.branch(self.test("sgt", self.rest, 0), last)

    def call_tile(
        self,
        first: str,
        rows: int,
        strips: str,
        b: str,
        c: str,
        columns: str,
        kind: tuple[int, str],
    ) -> None:
        a = self.at(self.a_base, self.times(first, self.a_each))
        target = self.at(c, self.times(first, "%c_row"))
        self.call(
            Tile(self.shape, rows, *kind).symbol,
            f"i64 {self.kc}",
            f"ptr {a}",
            f"i64 {self.a_row}",
            f"i64 {self.a_step}",
            f"i64 {self.times(self.a_each, rows)}",
            f"ptr {b}",
            f"i64 {self.b_step}",
            f"ptr {target}",
            "i64 %c_row",
            f"i64 {columns}",
            f"i64 {strips}",
            f"i32 {self.keep}",
        )


class _Small(_Product):
    """The product of matrices that fit the first-level cache: nothing is packed or decided."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.name = small_symbol(shape.operand)

    def text(self) -> str:
        self.pack_a = self.pack_b = "false"
        self.mc, self.nc, self.kc, self.keep = "%m", "%n", "%k", "%accumulate"
        self.a_base, self.a_row, self.a_step, self.a_each = (
            "%a",
            "%a_row",
            "%a_col",
            "%a_row",
        )
        self.b_base, self.b_step, self.b_panel, self.c_block = "%b", "%b_row", "1", "%c"
        self.divide_rows()
        self.panels()
        return self.finished(parameters(ARGUMENTS), linkage="")

    def panels(self) -> None:
        whole = self.emit(f"and i64 %n, {-self.shape.columns}")
        self.loop(whole, self.shape.columns, self.panel)
        left = self.minus("%n", whole)
        self.branch(self.test("sgt", left, 0), lambda: self.last_columns(whole, left))

    def panel(self, jr: str) -> None:
        self.strips(self.at("%b", jr), self.at("%c", jr), str(self.shape.columns), WIDE)
