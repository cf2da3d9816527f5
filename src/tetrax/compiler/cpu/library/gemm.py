"""Matrix product: C = A B, or C += A B, for any strides of A and B.

    void tetrax_gemm_f32(ptr a, ptr b, ptr c, i64 m, i64 n, i64 k, i64 a_row, i64 a_col,
                         i64 b_row, i64 b_col, i64 c_row, i32 accumulate)
    void tetrax_gemm_then_f32(…the same…, ptr epilogue, ptr context)

Strides are in elements; rows of C are contiguous. `tetrax_gemm_f16` and `tetrax_gemm_bf16` have A
and B of these types, which are widened on the way, and a C of f32. Large products are cut into
pieces of C which the worker pool computes. An element of C is summed over k in one order, whatever
piece it is in, so the same product always has the same bits.

The second form calls, for each block of C when it is finished and while it is in the cache,

    void epilogue(ptr context, i64 row0, i64 rows, i64 col0, i64 cols)

with the place of the block in C. Blocks do not overlap and together are all of C; several threads
may be in the function at once. That is where a bias, an activation, a residual or a conversion
belongs: it may change the block in place or write something made of it elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from tetrax.compiler.cpu.library.gemm_block import (
    TILES,
    product_functions,
    product_symbol,
    small_symbol,
    tiles,
)
from tetrax.compiler.cpu.library.gemm_dots import dots_function, dots_symbol
from tetrax.compiler.cpu.library.gemm_pack import packing_functions
from tetrax.compiler.cpu.library.gemm_steps import (
    LEAST_STEPS,
    LONGEST_ROW,
    MOST_APART,
    steps_functions,
    steps_symbol,
)
from tetrax.compiler.cpu.library.gemm_stream import stream_function, stream_symbol
from tetrax.compiler.cpu.library.gemm_text import (
    ARGUMENTS,
    INNER_ARGUMENTS,
    PARAMETERS,
    ROWS,
    Function,
    Shape,
    parameters,
)
from tetrax.compiler.cpu.library.gemm_tile import TILE_PARAMETERS, tile_symbol
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_types import ScalarType

FEW_ROWS = 8
"""Up to so many rows of A, reading B is what takes the time."""
MORE_ROWS, LONG_STEPS, ALIASED = 24, 128, 2048
"""So it is up to 24 rows where many rows of B stand a multiple of 2048 bytes apart: a column of
them does not stay in the first-level cache.
"""
LEAST_SHARED = 800_000
"""Multiplications from which a product is shared between threads."""
LEAST_TASK = 400_000
"""Multiplications that a task has at least."""
PER_NANOSECOND = 32
"""Multiplications in a nanosecond, for the pool's judgement."""
LINE_OF_TASKS = 8
"""Up to so many tasks cut one dimension only."""

_DECLARATIONS = """
declare ptr @tetrax_local_memory(i64)
declare i64 @tetrax_pool_threads()
declare void @tetrax_parallel(ptr, ptr, i64, i64)
"""
_RECORD = "{ " + ", ".join(kind for kind, _ in INNER_ARGUMENTS) + ", ptr, i64, i64, i64 }"
_THEN = INNER_ARGUMENTS[: len(ARGUMENTS) + 2]


def gemm_symbols(operand: ScalarType) -> tuple[str, ...]:
    """The routines of an operand type."""
    symbols = (f"tetrax_gemm_{operand}", f"tetrax_gemm_then_{operand}")
    return symbols if operand.is_storage else (*symbols, small_symbol(operand))


def tile_symbols(type: ScalarType) -> tuple[str, ...]:
    """The tiles that products of a type are made of."""
    return tuple(tile_symbol(type, *kind) for kind in TILES)


def tile_module(type: ScalarType, target: Target) -> str:
    """The LLVM module of the tiles."""
    return "\n".join(tile.text() for tile in tiles(Shape.of(type, target)))


def gemm_module(operand: ScalarType, target: Target) -> str:
    """The LLVM module of a product routine with all it is made of but the tiles."""
    shape = Shape.of(operand, target)
    declared = [f"declare void @{tile.symbol}({TILE_PARAMETERS})" for tile in tiles(shape)]
    functions = [
        *packing_functions(shape),
        *product_functions(shape),
        stream_function(shape),
        dots_function(shape),
        *steps_functions(shape, LEAST_TASK, PER_NANOSECOND),
        _Task(shape).text(),
        _Entry(shape).text(),
        _outer(shape, "tetrax_gemm", ARGUMENTS),
        _outer(shape, "tetrax_gemm_then", _THEN),
    ]
    return "\n".join([_DECLARATIONS, *declared, *functions])


def _entry_symbol(operand: ScalarType) -> str:
    return f"tetrax_enter_{operand}"


def _outer(shape: Shape, name: str, given: Sequence[tuple[str, str]]) -> str:
    """A routine that fills in what it is not given."""
    function = Function(shape, f"{name}_{shape.operand}")
    names = {name for _, name in given}
    missing = {"ptr": "null", "i64": "0"}
    passed = [
        f"{kind} %{name}" if name in names else f"{kind} {missing[kind]}"
        for kind, name in INNER_ARGUMENTS
    ]
    function.call(_entry_symbol(shape.operand), *passed)
    return function.finished(parameters(given), linkage="")


class _Entry(Function):
    """Chooses the way a product is computed."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, _entry_symbol(shape.operand))

    def text(self) -> str:
        record = self.emit(f"alloca {_RECORD}, align 8")
        self.record = record
        nothing = self.test("sle", "%k", 0)
        self.branch(nothing, self.clear, self.some)
        return self.finished(PARAMETERS)

    def clear(self) -> None:
        """With nothing to sum, C is zero unless it accumulates."""
        keep = self.emit("icmp ne i32 %accumulate, 0")
        rows = self.chosen(keep, "0", "%m")

        def row(i: str) -> None:
            start = self.at("%c", self.times(i, "%c_row"))
            self.loop("%n", 1, lambda j: self.store("0.0", self.at(start, j)))

        self.loop(rows, 1, row)
        self.finish_block("0", "%m", "0", "%n")

    def some(self) -> None:
        """A matrix times a column is a row times the transposed matrix, where the result is
        contiguous.
        """
        column = self.both(self.test("eq", "%n", 1), self.test("sgt", "%m", 1))
        near = self.either(self.test("eq", "%a_row", 1), self.both(
            self.test("eq", "%a_col", 1), self.test("eq", "%b_row", 1)
        ))  # fmt: skip
        column = self.both(column, self.both(near, self.test("eq", "%c_row", 1)))
        column = self.both(column, self.emit("icmp eq ptr %epilogue, null"))
        self.branch(column, self.turned_round, self.computed)

    def turned_round(self) -> None:
        self.call(
            self.name,
            *("ptr %b", "ptr %a", "ptr %c", "i64 1", "i64 %m", "i64 %k", "i64 %b_col"),
            *("i64 %b_row", "i64 %a_col", "i64 %a_row", "i64 %m", "i32 %accumulate"),
            *("ptr null", "ptr null", "i64 0", "i64 0"),
        )

    def computed(self) -> None:
        self.work = self.times(self.times("%m", "%n"), "%k")
        few = self.test("sle", "%m", FEW_ROWS)
        apart = self.emit(f"and i64 {self.times('%b_row', self.type.bytes)}, {ALIASED - 1}")
        aliased = self.both(self.test("eq", apart, 0), self.test("sge", "%k", LONG_STEPS))
        more = self.both(self.test("sle", "%m", MORE_ROWS), aliased)
        dots = self.both(self.test("eq", "%b_row", 1), self.test("eq", "%a_col", 1))
        dots = self.both(few, self.both(dots, self.test("ne", "%b_col", 1)))
        self.streams = self.both(self.either(few, more), self.test("eq", "%b_col", 1))
        type = self.operand
        callee = self.chosen(dots, f"@{dots_symbol(type)}", f"@{product_symbol(type)}", "ptr")
        self.callee = self.chosen(self.streams, f"@{stream_symbol(type)}", callee, "ptr")
        self.along = self.either(dots, self.streams)
        large = self.test("sge", self.work, LEAST_SHARED)
        self.branch(large, self.along_steps_or_shared, self.alone)

    def along_steps_or_shared(self) -> None:
        """Short rows of B are not cut; this does not depend on the threads, since it changes the
        order of sums.
        """
        bytes = self.type.bytes
        short = self.test("sle", self.times("%n", bytes), LONGEST_ROW)
        deep = self.both(short, self.test("sge", "%k", LEAST_STEPS))
        few = self.test("sle", self.times(self.times("%m", "%n"), bytes), MOST_APART)
        steps = self.both(self.streams, self.both(deep, few))
        self.branch(steps, self.along_steps, self.perhaps_shared)

    def along_steps(self) -> None:
        self.em.effect(f"call void @{steps_symbol(self.operand)}({parameters(INNER_ARGUMENTS)})")

    def alone(self) -> None:
        self.em.effect(f"call void {self.callee}({parameters(INNER_ARGUMENTS)})")

    def perhaps_shared(self) -> None:
        self.threads = self.emit("call i64 @tetrax_pool_threads()")
        self.branch(self.test("sgt", self.threads, 1), self.shared, self.alone)

    def shared(self) -> None:
        tasks = self.smaller(self.threads, self.over(self.work, LEAST_TASK))
        width = self.shape.columns
        down, across = self.grid(tasks)
        rows = self.times(self.rounded_up(self.rounded_up("%m", down), ROWS), ROWS)
        columns = self.times(self.rounded_up(self.rounded_up("%n", across), width), width)
        across = self.rounded_up("%n", columns)
        down = self.rounded_up("%m", rows)
        values = [(kind, f"%{name}") for kind, name in INNER_ARGUMENTS]
        values += [("ptr", self.callee), ("i64", rows), ("i64", columns), ("i64", across)]
        for at, (kind, text) in enumerate(values):
            place = self.emit(f"getelementptr {_RECORD}, ptr {self.record}, i64 0, i32 {at}")
            self.em.effect(f"store {kind} {text}, ptr {place}, align 4")
        self.call(
            "tetrax_parallel",
            f"ptr @{_task_symbol(self.operand)}",
            f"ptr {self.record}",
            f"i64 {self.times(down, across)}",
            f"i64 {self.over(self.work, PER_NANOSECOND)}",
        )

    def grid(self, tasks: str) -> tuple[str, str]:
        """Pieces along the rows and along the columns: few cut the longer dimension, many both."""
        tall = self.test("sgt", "%m", self.chosen(self.along, "%m", "%n"))
        few = self.either(self.along, self.test("sle", tasks, LINE_OF_TASKS))
        line = self.chosen(tall, tasks, "1"), self.chosen(tall, "1", tasks)

        def halve(_: str, carried: list[str]) -> list[str]:
            down, across = carried
            longer = self.test("sgt", self.times("%m", across), self.times("%n", down))
            done = self.test("sge", self.times(down, across), tasks)
            twice = self.chosen(longer, self.times(down, 2), down)
            wide = self.chosen(longer, across, self.times(across, 2))
            return [self.chosen(done, down, twice), self.chosen(done, across, wide)]

        many = self.carried_loop("9", 1, [("i64", "1"), ("i64", "1")], halve)
        return self.chosen(few, line[0], many[0]), self.chosen(few, line[1], many[1])


def _task_symbol(type: ScalarType) -> str:
    return f"tetrax_gemm_task_{type}"


class _Task(Function):
    """One piece of C."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, _task_symbol(shape.operand))

    def text(self) -> str:
        names = [*INNER_ARGUMENTS, ("ptr", "callee")]
        names += [("i64", "rows"), ("i64", "columns"), ("i64", "across")]
        v = {}
        for at, (kind, name) in enumerate(names):
            place = self.emit(f"getelementptr {_RECORD}, ptr %context, i64 0, i32 {at}")
            v[name] = self.emit(f"load {kind}, ptr {place}, align 4")
        top = self.times(self.over("%task", v["across"]), v["rows"])
        left = self.times(self.emit(f"urem i64 %task, {v['across']}"), v["columns"])
        v["a"] = self.operand_at(v["a"], self.times(top, v["a_row"]))
        v["b"] = self.operand_at(v["b"], self.times(left, v["b_col"]))
        v["c"] = self.at(v["c"], self.plus(self.times(top, v["c_row"]), left))
        v["m"] = self.smaller(self.minus(v["m"], top), v["rows"])
        v["n"] = self.smaller(self.minus(v["n"], left), v["columns"])
        v["row0"], v["col0"] = top, left
        passed = ", ".join(f"{kind} {v[name]}" for kind, name in INNER_ARGUMENTS)
        self.em.effect(f"call void {v['callee']}({passed})")
        return self.finished("ptr %context, i64 %task")
