"""LU factors with row pivoting and run-time sizes, as LLVM text.

    void tetrax_lu_f32(ptr a, i64 lda, i64 m, i64 n, ptr p, i64 ld, ptr pivots)

A (m × n, padded) becomes U in its upper triangle, and L without its unit diagonal below. Row c was
exchanged with row pivots[c] (i32, counted from 0), the first with the largest element, before
column c was eliminated. `p` is a padded matrix of min(m, n) rows of at least m elements.

BLOCK columns are eliminated together, in a transposed copy. Then rows right of them are exchanged,
solved with the block's triangle and reduced by a product, columns shared between threads; the task
with the columns that come next eliminates these at once.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.dense_text import DECLARATIONS, Dense, Task, pieces
from tetrax.compiler.cpu.library.dense_vectors import vector_functions
from tetrax.compiler.cpu.library.gemm_text import Shape
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_types import ScalarType
from tetrax.ops.linalg.blocks import BLOCK

LEAST, MOST = 500_000, 16
"""Multiplications per task, and tasks, of a block."""

_STATE = [
    *(("ptr", "a"), ("i64", "lda"), ("i64", "m"), ("i64", "n"), ("ptr", "p"), ("i64", "ld")),
    ("ptr", "pivots"),
]
_STEP = [*_STATE, ("i64", "j"), ("i64", "count"), ("i64", "ahead"), ("i64", "taken")]
_STEP += [("i64", "each"), ("i64", "last")]


def lu_symbols(type: ScalarType) -> tuple[str, ...]:
    """The routine of an element type."""
    return (f"tetrax_lu_{type}",)


def lu_module(type: ScalarType, target: Target) -> str:
    """The LLVM module of the routine."""
    shape = Shape.of(type, target)
    kinds = (_Largest, _Panel, _Exchange, _Columns, _Step, _Lu)
    parts = [DECLARATIONS.replace("$T$", str(type)), *vector_functions(shape)]
    return "\n".join([*parts, *(kind(shape).text() for kind in kinds)])


def _list(arguments: list[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} %{name}" for kind, name in arguments)


_PASSED = [f"{kind} %{name}" for kind, name in _STATE]


class _Largest(Dense):
    """The place of the first of the largest elements of a vector; NaN are passed over."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "largest")
        self.whole_type = f"i{shape.type.bits}"
        self.indices = f"<{shape.lanes} x {self.whole_type}>"

    def text(self) -> str:
        kind, lanes = self.whole_type, self.lanes
        numbers = ", ".join(f"{kind} {lane}" for lane in range(lanes))
        minus_one = f"splat ({self.scalar} -1.0)"
        carried = [(self.vector, minus_one), (self.indices, "zeroinitializer")]
        carried.append((self.indices, f"<{numbers}>"))

        def step(i: str, values: list[str]) -> list[str]:
            best, places, here = values
            x = self.vector_at("%x", i)
            size = self.emit(f"call {self.vector} @llvm.fabs.{self.suffix}({self.vector} {x})")
            more = self.emit(f"fcmp ogt {self.vector} {size}, {best}")
            choose = lambda what, a, b: self.emit(
                f"select <{lanes} x i1> {more}, {what} {a}, {what} {b}"
            )
            following = self.emit(f"add {self.indices} {here}, splat ({kind} {lanes})")
            return [
                choose(self.vector, size, best),
                choose(self.indices, here, places),
                following,
            ]

        best, places, _ = self.vectors(self.whole("%length"), carried, step)
        top = self.emit(
            f"call {self.scalar} @llvm.vector.reduce.fmax.{self.suffix}({self.vector} {best})"
        )
        equal = self.emit(f"fcmp oeq {self.vector} {best}, {self.repeated(top)}")
        far = f"splat ({kind} {(1 << (self.type.bits - 1)) - 1})"
        places = self.emit(
            f"select <{lanes} x i1> {equal}, {self.indices} {places}, {self.indices} {far}"
        )
        suffix = f"v{lanes}{kind}"
        first = self.emit(f"call {kind} @llvm.vector.reduce.smin.{suffix}({self.indices} {places})")
        first = self.emit(f"sext {kind} {first} to i64") if kind == "i32" else first
        # of nothing but NaN the first
        inside = self.test("slt", first, "%length")
        first = self.chosen(inside, first, "0")
        self.em.effect(f"store i64 {first}, ptr %place, align 8")
        return self.finished("ptr %x, i64 %length, ptr %place")


class _Panel(Dense):
    """Eliminates `count` columns of A from row j on, and leaves L negated in rows of `p`."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "panel")

    def text(self) -> str:
        self.numbers = self.scalars(BLOCK)
        self.place = self.reserve("i64")
        self.length = self.minus("%m", "%j")
        corner = self.at("%a", self.plus(self.times("%j", "%lda"), "%j"))
        self.p = self.at("%p", self.times("%j", "%ld"))
        self.run(
            "turn",
            *(f"ptr {corner}", "i64 %lda", f"i64 {self.length}", "i64 %count"),
            *(f"ptr {self.p}", "i64 %ld"),
        )
        self.clear_pads(self.p, "%ld", "%count", self.length)
        self.loop("%count", 1, self.column)
        self.run(
            "turn",
            *(f"ptr {self.p}", "i64 %ld", "i64 %count", f"i64 {self.length}"),
            *(f"ptr {corner}", "i64 %lda"),
        )

        def negate(c: str) -> None:
            row = self.at(self.p, self.times(c, "%ld"))
            self.moved(row, row, self.whole(self.length), negate=True)

        self.loop("%count", 1, negate)
        return self.finished(f"{_list(_STATE)}, i64 %j, i64 %count")

    def column(self, c: str) -> None:
        row = self.at(self.p, self.times(c, "%ld"))
        x, length = self.at(row, c), self.minus(self.length, c)
        self.run("largest", f"ptr {x}", f"i64 {length}", f"ptr {self.place}")
        chosen = self.plus(c, self.emit(f"load i64, ptr {self.place}, align 8"))
        target = self.emit(f"getelementptr i32, ptr %pivots, i64 {self.plus('%j', c)}")
        number = self.emit(f"trunc i64 {self.plus('%j', chosen)} to i32")
        self.em.effect(f"store i32 {number}, ptr {target}, align 4")
        first = self.at(self.p, 0)

        def exchange(k: str) -> None:
            line = self.at(first, self.times(k, "%ld"))
            one, other = self.at(line, c), self.at(line, chosen)
            a, b = self.load(one), self.load(other)
            self.store(b, one)
            self.store(a, other)

        self.loop("%count", 1, exchange)
        pivot = self.load(x)
        some = self.emit(f"fcmp une {self.scalar} {pivot}, 0.0")
        below, rest = self.at(x, 1), self.minus(length, 1)
        self.branch(some, lambda: self.divide(below, rest, pivot))
        after = self.minus(self.minus("%count", c), 1)
        line = self.at(row, "%ld")
        self.loop(after, 1, lambda k: self.take(k, self.at(line, c)))
        others = self.at(self.at(line, c), 1)
        self.run(
            "rank_one",
            *(f"ptr {below}", f"ptr {others}", "i64 %ld", f"i64 {after}", f"i64 {rest}"),
            f"ptr {self.numbers}",
        )

    def take(self, k: str, start: str) -> None:
        value = self.load(self.at(start, self.times(k, "%ld")))
        self.store(value, self.at(self.numbers, k))

    def divide(self, x: str, length: str, pivot: str) -> None:
        divisor = self.repeated(pivot)

        def step(i: str, _: list[str]) -> list[str]:
            value = self.emit(f"fdiv {self.vector} {self.vector_at(x, i)}, {divisor}")
            self.put(value, x, i)
            return []

        self.vectors(self.whole(length), [], step)


class _Exchange(Dense):
    """Exchanges rows of some columns as a block of pivots says."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "exchange")

    def text(self) -> str:
        def one(c: str) -> None:
            row = self.plus("%j", c)
            place = self.emit(f"getelementptr i32, ptr %pivots, i64 {row}")
            pivot = self.emit(f"load i32, ptr {place}, align 4")
            other = self.emit(f"sext i32 {pivot} to i64")
            x, y = (self.at("%a", self.plus(self.times(r, "%lda"), "%first")) for r in (row, other))

            def swap(i: str) -> None:
                left, right = self.at(x, i), self.at(y, i)
                a, b = self.load(left), self.load(right)
                self.store(b, left)
                self.store(a, right)

            apart = self.test("ne", row, other)
            self.branch(apart, lambda: self.loop("%columns", 1, swap))

        self.loop("%count", 1, one)
        return self.finished(f"{_list(_STATE)}, i64 %j, i64 %count, i64 %first, i64 %columns")


class _Columns(Dense):
    """Some columns right of a block: exchanged, solved, and what is below them reduced."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "columns")

    def text(self) -> str:
        self.run("exchange", *_PASSED, "i64 %j", "i64 %count", "i64 %first", "i64 %columns")
        start = self.at("%a", self.plus(self.times("%j", "%lda"), "%first"))
        corner = self.at("%a", self.plus(self.times("%j", "%lda"), "%j"))

        def solve(c: str) -> None:
            row = self.times(c, "%lda")
            self.run(
                "combine",
                *(f"ptr {self.at(start, row)}", f"ptr {start}", "i64 %lda", f"i64 {c}"),
                *("i64 %columns", f"ptr {self.at(corner, row)}"),
            )

        self.loop("%count", 1, solve)
        rest = self.minus(self.minus("%m", "%j"), "%count")
        negated = self.at("%p", self.plus(self.times("%j", "%ld"), "%count"))
        below = self.at(start, self.times("%count", "%lda"))

        def reduce() -> None:
            self.gemm(
                (negated, "1", "%ld"),
                (start, "%lda", "1"),
                (below, "%lda"),
                (rest, "%columns", "%count"),
                True,
            )

        self.branch(self.test("sgt", rest, 0), reduce)
        return self.finished(f"{_list(_STATE)}, i64 %j, i64 %count, i64 %first, i64 %columns")


class _Step(Task):
    """Columns right of a block; task 0 exchanges those on the left, the last goes ahead."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "lu_step", _STEP)

    def text(self) -> str:
        g = self.given
        self.state = [f"{kind} {g[name]}" for kind, name in _STATE]
        self.block = [f"i64 {g['j']}", f"i64 {g['count']}"]
        self.after = self.plus(g["j"], g["count"])
        going = self.both(self.test("eq", "%task", g["last"]), self.test("sgt", g["ahead"], 0))
        left = self.test("eq", "%task", 0)
        others = lambda: self.branch(left, self.on_the_left, self.on_the_right)
        self.branch(going, self.go_ahead, others)
        return self.done()

    def go_ahead(self) -> None:
        ahead, taken = self.given["ahead"], self.given["taken"]
        self.run("columns", *self.state, *self.block, f"i64 {self.after}", f"i64 {taken}")
        self.run("panel", *self.state, f"i64 {self.after}", f"i64 {ahead}")

    def on_the_left(self) -> None:
        self.run("exchange", *self.state, *self.block, "i64 0", f"i64 {self.given['j']}")

    def on_the_right(self) -> None:
        g = self.given
        start = self.plus(self.after, g["taken"])
        number = self.minus("%task", 1)
        first = self.plus(start, self.times(number, g["each"]))
        columns = self.smaller(self.minus(g["n"], first), g["each"])
        self.run("columns", *self.state, *self.block, f"i64 {first}", f"i64 {columns}")


class _Lu(Dense):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "tetrax_lu")

    def text(self) -> str:
        self.size = self.smaller("%m", "%n")
        first = self.smaller(self.size, BLOCK)
        self.run("panel", *_PASSED, "i64 0", f"i64 {first}")
        self.loop(self.size, BLOCK, self.step)
        return self.finished(_list(_STATE), linkage="")

    def step(self, j: str) -> None:
        count = self.smaller(self.minus(self.size, j), BLOCK)
        after = self.plus(j, count)
        ahead = self.smaller(self.minus(self.size, after), BLOCK)
        columns = self.minus("%n", after)
        # a task goes over its columns in full registers: what is less takes all that there are
        part = self.both(self.test("sgt", ahead, 0), self.test("slt", ahead, BLOCK))
        taken = self.chosen(part, columns, ahead)
        rest = self.minus(columns, taken)
        work = self.times(self.times(self.minus("%m", j), rest), count)
        each, tasks = pieces(self, rest, work, LEAST, MOST, self.shape.columns)
        some = self.emit(f"zext i1 {self.test('sgt', ahead, 0)} to i64")
        last = self.plus(tasks, 1)
        values = {"j": j, "count": count, "ahead": ahead, "taken": taken, "each": each}
        values["last"] = last
        fields = [(kind, values.get(name, f"%{name}")) for kind, name in _STEP]
        self.share("lu_step", fields, self.plus(last, some))
