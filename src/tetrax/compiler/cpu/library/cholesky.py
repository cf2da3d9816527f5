"""Cholesky factors with run-time sizes, as LLVM text.

    void tetrax_cholesky_f32(ptr x, ptr out, ptr u, ptr negated, i64 n, i64 ld)

`out` becomes the lower triangular L with L Lᵀ = X, of which the lower triangle is read, and zeros
above; NaN in the whole triangle where a pivot is not positive. `u` and `negated` are padded
matrices of row stride `ld`.

The upper factor U = Lᵀ is made a block of rows after the other, which has contiguous rows for both
the product that subtracts the rows above and the substitution. What has to wait is short: while the
columns of block j are finished, one task goes ahead to block j + 1 on the diagonal, and others
subtract from the rest of block j + 1, and from block j + 2 on the diagonal, the rows above block j.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.dense_text import DECLARATIONS, Dense, Task, pieces
from tetrax.compiler.cpu.library.dense_vectors import vector_functions
from tetrax.compiler.cpu.library.gemm_text import Shape
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_types import ScalarType

BLOCK = 48
"""Rows of U that are made together: products with fewer do not pay for packing."""
LEAST, MOST = 250_000, 16
"""Multiplications per task, and tasks, of a product."""
STRIP = 128
"""Columns per task of a substitution."""

_STATE = [("ptr", "u"), ("ptr", "negated"), ("i64", "n"), ("i64", "ld"), ("ptr", "failed")]
_STEP = [*_STATE, ("i64", "j"), ("i64", "each"), ("i64", "strips"), ("i64", "last")]


def cholesky_symbols(type: ScalarType) -> tuple[str, ...]:
    """The routine of an element type."""
    return (f"tetrax_cholesky_{type}",)


def cholesky_module(type: ScalarType, target: Target) -> str:
    """The LLVM module of the routine."""
    shape = Shape.of(type, target)
    parts = [
        DECLARATIONS.replace("$T$", str(type)),
        *vector_functions(shape),
        _Subtract(shape).text(),
        _Corner(shape).text(),
        _Columns(shape).text(),
        _Step(shape).text(),
        _Cholesky(shape).text(),
    ]
    return "\n".join(parts)


def _list(arguments: list[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} %{name}" for kind, name in arguments)


class _Subtract(Dense):
    """What rows from `top` to `bottom` contribute to a block of rows, in some columns."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "subtract")

    def text(self) -> str:
        start = self.times("%top", "%ld")
        left = self.at("%negated", self.plus(start, "%row"))
        right = self.at("%u", self.plus(start, "%first"))
        target = self.at("%u", self.plus(self.times("%row", "%ld"), "%first"))
        depth = self.minus("%bottom", "%top")
        rows = self.smaller(self.minus("%n", "%row"), BLOCK)

        def multiply() -> None:
            self.gemm(
                (left, "1", "%ld"),
                (right, "%ld", "1"),
                (target, "%ld"),
                (rows, "%count", depth),
                True,
            )

        self.branch(self.test("sgt", self.smaller(depth, "%count"), 0), multiply)
        return self.finished(
            f"{_list(_STATE)}, i64 %row, i64 %top, i64 %bottom, i64 %first, i64 %count"
        )


_PASSED = [f"{kind} %{name}" for kind, name in _STATE]


class _Corner(Dense):
    """The block of U on the diagonal at row `j`; rows up to two blocks above are subtracted."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "corner")

    def text(self) -> str:
        self.column = self.scalars(BLOCK)
        self.count = count = self.smaller(self.minus("%n", "%j"), BLOCK)
        self.start = self.at("%u", self.plus(self.times("%j", "%ld"), "%j"))
        top = self.larger(self.minus("%j", 2 * BLOCK), 0)
        self.run("subtract", *_PASSED, "i64 %j", f"i64 {top}", "i64 %j", "i64 %j", f"i64 {count}")
        self.loop(count, 1, self.row)
        return self.finished(f"{_list(_STATE)}, i64 %j")

    def row(self, c: str) -> None:
        row = self.at(self.start, self.times(c, "%ld"))

        def take(l: str) -> None:
            place = self.at(self.start, self.plus(self.times(l, "%ld"), c))
            self.store(self.load(place), self.at(self.column, l))

        self.loop(c, 1, take)
        self.run(
            "combine",
            *(f"ptr {row}", f"ptr {self.start}", "i64 %ld", f"i64 {c}", f"i64 {self.count}"),
            f"ptr {self.column}",
        )
        pivot = self.load(self.at(row, c))
        good = self.emit(f"fcmp ogt {self.scalar} {pivot}, 0.0")
        fail = lambda: self.em.effect("store i64 1, ptr %failed, align 8")
        self.branch(good, lambda: None, fail)
        divide(self, row, self.whole(self.count), self.root(pivot))


def divide(function: Dense, row: str, length: str, by: str) -> None:
    """A vector over a number."""
    divisor = function.repeated(by)

    def step(i: str, _: list[str]) -> list[str]:
        value = function.vector_at(row, i)
        function.put(function.emit(f"fdiv {function.vector} {value}, {divisor}"), row, i)
        return []

    function.vectors(length, [], step)


class _Columns(Dense):
    """Some columns of a block of rows: the block above is subtracted, then substitution."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "columns")

    def text(self) -> str:
        self.triangle = self.scalars(BLOCK * BLOCK)
        self.start = self.at("%u", self.plus(self.times("%j", "%ld"), "%first"))
        top = self.larger(self.minus("%j", BLOCK), 0)
        self.run("subtract", *_PASSED, "i64 %j", f"i64 {top}", "i64 %j", "i64 %first", "i64 %count")
        corner = self.at("%u", self.plus(self.times("%j", "%ld"), "%j"))
        size = str(BLOCK)
        self.run(
            "turn",
            *(f"ptr {corner}", "i64 %ld", f"i64 {size}", f"i64 {size}"),
            *(f"ptr {self.triangle}", f"i64 {size}"),
        )
        self.length = self.whole("%count")
        self.loop(size, 1, self.row)
        return self.finished(f"{_list(_STATE)}, i64 %j, i64 %first, i64 %count")

    def row(self, c: str) -> None:
        place = self.times(c, "%ld")
        row = self.at(self.start, place)
        column = self.at(self.triangle, self.times(c, BLOCK))
        self.run(
            "combine",
            *(f"ptr {row}", f"ptr {self.start}", "i64 %ld", f"i64 {c}", "i64 %count"),
            f"ptr {column}",
        )
        divide(self, row, self.length, self.load(self.at(column, c)))
        other = self.at("%negated", self.plus(self.plus(self.times("%j", "%ld"), "%first"), place))
        self.moved(row, other, self.length, negate=True)


class _Step(Task):
    """Tasks of a step: substitutions, products for the next blocks, and, last, what goes ahead."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "cholesky_step", _STEP)

    def text(self) -> str:
        g = self.given
        self.state = [f"{kind} {g[name]}" for kind, name in _STATE]
        self.following = self.plus(g["j"], BLOCK)
        self.after = self.plus(self.following, BLOCK)
        self.columns = self.minus(g["n"], self.after)
        ahead = self.test("eq", "%task", g["last"])
        early = self.test("slt", "%task", g["strips"])
        later = lambda: self.branch(early, self.substitution, self.product_for_next)
        self.branch(ahead, self.go_ahead, later)
        return self.done()

    def go_ahead(self) -> None:
        g = self.given
        ahead = self.smaller(self.minus(g["n"], self.following), BLOCK)
        j, following = f"i64 {g['j']}", f"i64 {self.following}"
        self.run("columns", *self.state, j, following, f"i64 {ahead}")
        self.run("corner", *self.state, following)

    def substitution(self) -> None:
        first, count = self.range(self.columns, str(STRIP))
        start = self.plus(first, self.after)
        self.run("columns", *self.state, f"i64 {self.given['j']}", f"i64 {start}", f"i64 {count}")

    def product_for_next(self) -> None:
        """The first of these does the block on the diagonal after next besides."""
        g = self.given
        number = self.minus("%task", g["strips"])
        first = self.times(number, g["each"])
        count = self.smaller(self.minus(self.columns, first), g["each"])
        above = ("i64 0", f"i64 {g['j']}")
        start = self.plus(first, self.after)
        self.run(
            "subtract",
            *(*self.state, f"i64 {self.following}", *above, f"i64 {start}", f"i64 {count}"),
        )

        def diagonal() -> None:
            size = self.smaller(self.columns, BLOCK)
            after = f"i64 {self.after}"
            self.run("subtract", *self.state, after, *above, after, f"i64 {size}")

        self.branch(self.test("eq", number, 0), diagonal)


class _Cholesky(Dense):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "tetrax_cholesky")

    def text(self) -> str:
        self.failed = self.reserve("i64")
        self.em.effect(f"store i64 0, ptr {self.failed}, align 8")
        # the upper half of the transposed matrix is the lower half of this one
        self.run("tetrax_turn", "ptr %x", "i64 %n", "i64 %n", "i64 %n", "ptr %u", "i64 %ld")
        self.state = ["ptr %u", "ptr %negated", "i64 %n", "i64 %ld", f"ptr {self.failed}"]
        self.run("corner", *self.state, "i64 0")
        # every block that has columns right of it
        self.loop(self.minus("%n", BLOCK), BLOCK, self.step)
        self.run("tetrax_turn", "ptr %u", "i64 %ld", "i64 %n", "i64 %n", "ptr %out", "i64 %n")
        failed = self.emit(f"load i64, ptr {self.failed}, align 8")
        self.loop("%n", 1, self.clear)
        self.branch(self.test("ne", failed, 0), lambda: self.loop("%n", 1, self.spoil))
        return self.finished("ptr %x, ptr %out, ptr %u, ptr %negated, i64 %n, i64 %ld", linkage="")

    def step(self, j: str) -> None:
        columns = self.larger(self.minus(self.minus("%n", j), 2 * BLOCK), 0)
        work = self.times(self.times(columns, j), BLOCK)
        each, tasks = pieces(self, columns, work, LEAST, MOST, self.shape.columns)
        strips = self.rounded_up(columns, STRIP)
        nothing = self.emit(f"or i1 {self.test('eq', j, 0)}, {self.test('eq', columns, 0)}")
        last = self.plus(strips, self.chosen(nothing, "0", tasks))
        values = [text.split() for text in self.state]
        fields = [(kind, text) for kind, text in values]
        fields += [("i64", j), ("i64", each), ("i64", strips), ("i64", last)]
        self.share("cholesky_step", fields, self.plus(last, 1))

    def clear(self, i: str) -> None:
        row = self.at("%out", self.times(i, "%n"))
        self.loop("%n", 1, lambda j: self.store("0.0", self.at(row, j)), start=self.plus(i, 1))

    def spoil(self, i: str) -> None:
        row = self.at("%out", self.times(i, "%n"))
        nan = "0x7FF8000000000000"
        self.loop(self.plus(i, 1), 1, lambda j: self.store(nan, self.at(row, j)))
