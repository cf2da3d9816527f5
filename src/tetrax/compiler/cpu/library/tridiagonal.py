"""Symmetric matrices to tridiagonal form by reflections, with run-time sizes, as LLVM text.

    void tetrax_tridiagonal_f32(ptr s, i64 lds, i64 n, ptr v, i64 ldv, ptr d, ptr e, ptr tau,
                                ptr work)

S is a padded matrix of which the upper triangle is read, and destroyed. Reflection c, of elements
c + 1 to n, stands in row c of the padded matrix `v`, with factor tau[c]; they are LAPACK's of the
lower triangle. d and e are the diagonals of Qᵀ S Q for their product Q. `work` holds 4 WIDTH +
MOST_PARTS rows of ldv.

WIDTH columns are reduced together: their effect on the rest, S - V Wᵀ - W Vᵀ, is kept apart in
rows V₀, W₀, V₁, W₁ … until all are known, and is then subtracted as one product, above the diagonal
only. A column needs one product of the rest with a vector; it reads the triangle once, in a number
of parts that depends on the size alone.

Dongarra, Hammarling and Sorensen, "Block reduction of matrices to condensed forms", 1989.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.dense_text import DECLARATIONS, Dense, Task
from tetrax.compiler.cpu.library.dense_vectors import vector_functions
from tetrax.compiler.cpu.library.gemm_text import Shape
from tetrax.compiler.cpu.library.householder import reflect_functions
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_types import ScalarType
from tetrax.ops.linalg.blocks import BLOCK, MOST_PARTS, PAD, WIDTH

ROWS = 4
"""Rows of the triangle that are read together."""
STRIP = 48
"""Rows per task of the update."""
TWO_PARTS, FOUR_PARTS, ALL_PARTS = 768, 1536, 3072
"""Sizes from which the product with a vector is cut."""

_UPDATE = [
    *(("ptr", "s"), ("i64", "lds"), ("i64", "n"), ("ptr", "p"), ("i64", "ld"), ("i64", "depth")),
    *(("i64", "first"), ("i64", "last")),
]
_TIMES = [
    *(("ptr", "s"), ("i64", "lds"), ("i64", "n"), ("ptr", "x"), ("ptr", "y"), ("ptr", "more")),
    *(("i64", "ld"), ("i64", "parts"), ("i64", "strip")),
]


def tridiagonal_symbols(type: ScalarType) -> tuple[str, ...]:
    """The routine of an element type."""
    return (f"tetrax_tridiagonal_{type}",)


def tridiagonal_module(type: ScalarType, target: Target) -> str:
    """The LLVM module of the routine."""
    shape = Shape.of(type, target)
    parts = [
        DECLARATIONS.replace("$T$", str(type)),
        *vector_functions(shape),
        *reflect_functions(shape),
        _Part(shape).text(),
        _Times(shape).text(),
        _UpdateTask(shape).text(),
        _Column(shape).text(),
        _Tridiagonal(shape).text(),
    ]
    return "\n".join(parts)


def _list(arguments: list[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} %{name}" for kind, name in arguments)


class _Part(Task):
    """The product of two strips of rows of a triangle, and of what mirrors them, with a vector.

    Strips `task` and, counted from the other end, `task` again: together they are as large for
    every task. The first part writes to y, others to rows of `more`.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "part", _TIMES)

    def text(self) -> str:
        g = self.given
        self.length = self.whole(g["n"])
        more = self.at(g["more"], self.times(self.minus("%task", 1), g["ld"]))
        first = self.test("eq", "%task", 0)
        self.y = self.chosen(first, g["y"], more, "ptr")

        def clear(i: str, _: list[str]) -> list[str]:
            self.put("zeroinitializer", self.y, i)
            return []

        self.vectors(self.length, [], clear)
        self.strip_of("%task")
        twice = self.times(g["parts"], 2)
        self.strip_of(self.minus(self.minus(twice, 1), "%task"))
        return self.done()

    def strip_of(self, number: str) -> None:
        g = self.given
        start = self.smaller(self.times(number, g["strip"]), g["n"])
        stop = self.smaller(self.plus(start, g["strip"]), g["n"])
        count = self.emit(f"and i64 {self.minus(stop, start)}, {-ROWS}")
        many = self.plus(start, count)
        self.loop(many, ROWS, lambda i: self.rows(i, ROWS), start=start)
        self.loop(stop, 1, lambda i: self.rows(i, 1), start=many)

    def rows(self, i: str, count: int) -> None:
        """Rows i to i + count: the square on the diagonal in scalars, the rest in registers."""
        g = self.given
        lines = [self.at(g["s"], self.plus(self.times(i, g["lds"]), i))]
        for _ in range(count - 1):
            lines.append(self.at(lines[-1], g["lds"]))
        x, y = self.at(g["x"], i), self.at(self.y, i)
        near = [self.load(self.at(x, r) if r else x) for r in range(count)]
        sums = [self.load(self.at(y, r) if r else y) for r in range(count)]
        for r in range(count):
            for c in range(r, count):
                value = self.load(self.at(lines[r], c) if c else lines[r])
                sums[r] = self.fma(value, near[c], sums[r], 1)
                if c > r:
                    sums[c] = self.fma(value, near[r], sums[c], 1)
        wide = [self.repeated(value) for value in near]
        after = self.minus(self.minus(g["n"], i), count)
        lines = [self.at(line, count) for line in lines]
        x_after, y_after = self.at(x, count), self.at(y, count)

        def step(t: str, carried: list[str]) -> list[str]:
            there, total = self.vector_at(x_after, t), self.vector_at(y_after, t)
            result = []
            for line, value, kept in zip(lines, wide, carried, strict=True):
                element = self.vector_at(line, t)
                total = self.fma(element, value, total)
                result.append(self.fma(element, there, kept))
            self.put(total, y_after, t)
            return result

        dots = self.vectors(self.whole(after), [self.zero()] * count, step)
        for r in range(count):
            total = self.real("fadd", sums[r], self.total(dots[r]))
            self.store(total, self.at(y, r) if r else y)


class _Times(Dense):
    """y = S x for a symmetric matrix by its upper triangle."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "times")

    def text(self) -> str:
        parts = "1"
        for size, count in ((TWO_PARTS, 2), (FOUR_PARTS, 4), (ALL_PARTS, MOST_PARTS)):
            parts = self.chosen(self.test("sge", "%n", size), str(count), parts)
        strips = self.times(parts, 2)
        strip = self.times(self.rounded_up(self.rounded_up("%n", strips), ROWS), ROWS)
        values = {"parts": parts, "strip": strip}
        fields = [(kind, values.get(name, f"%{name}")) for kind, name in _TIMES]
        self.share("part", fields, parts)
        ones = self.scalars(MOST_PARTS)
        for i in range(MOST_PARTS):
            self.store("-1.0", self.at(ones, i))
        self.run(
            "combine",
            *("ptr %y", "ptr %more", "i64 %ld", f"i64 {self.minus(parts, 1)}", "i64 %n"),
            f"ptr {ones}",
        )
        return self.finished(_list(_TIMES[:-2]))


class _UpdateTask(Task):
    """The product of the kept rows, subtracted from some rows of the triangle; the largest strips
    are the last tasks.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "update", _UPDATE)

    def text(self) -> str:
        g = self.given
        number = self.minus(g["last"], "%task")
        row = self.plus(g["first"], self.times(number, STRIP))
        rows = self.smaller(self.minus(g["n"], row), STRIP)
        negated = self.at(g["p"], self.plus(self.times(g["ld"], 2 * WIDTH), row))
        self.gemm(
            (negated, "1", g["ld"]),
            (self.at(g["p"], row), g["ld"], "1"),
            (self.at(g["s"], self.plus(self.times(row, g["lds"]), row)), g["lds"]),
            (rows, self.minus(g["n"], row), g["depth"]),
            True,
        )
        return self.done()


_COLUMN = [
    *(("ptr", "s"), ("i64", "lds"), ("i64", "n"), ("ptr", "v"), ("i64", "ld"), ("ptr", "d")),
    *(("ptr", "e"), ("ptr", "tau"), ("ptr", "work"), ("i64", "first"), ("i64", "c")),
]


class _Column(Dense):
    """Column first + c: what was kept so far is subtracted, its reflection found, and its effect
    kept too.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "column")

    def text(self) -> str:
        self.numbers = self.scalars(2 * WIDTH + PAD)
        self.j = self.plus("%first", "%c")
        self.kept = self.times("%c", 2)
        row = self.at("%s", self.plus(self.times(self.j, "%lds"), self.j))
        at = self.at("%work", self.j)
        self.loop("%c", 1, lambda l: self.swap(l, self.at(at, "%ld"), at))
        self.subtract(row, at, self.minus("%n", self.j))
        self.store(self.load(row), self.at("%d", self.j))
        more = self.test("slt", self.plus(self.j, 1), "%n")
        self.branch(more, lambda: self.reflection(row))
        return self.finished(_list(_COLUMN))

    def swap(self, l: str, second: str, first: str) -> None:
        """Coefficients of a pair of kept rows: an element of the other row each."""
        place = self.times(self.times(l, 2), "%ld")
        number = self.at(self.numbers, self.times(l, 2))
        self.store(self.load(self.at(second, place)), number)
        self.store(self.load(self.at(first, place)), self.at(number, 1))

    def subtract(self, target: str, rows: str, length: str) -> None:
        self.run(
            "combine",
            *(f"ptr {target}", f"ptr {rows}", "i64 %ld", f"i64 {self.kept}", f"i64 {length}"),
            f"ptr {self.numbers}",
        )

    def reflection(self, row: str) -> None:
        next_one = self.plus(self.j, 1)
        length = self.minus("%n", next_one)
        line = self.at("%v", self.times(self.j, "%ld"))
        own = self.at("%work", self.times(self.kept, "%ld"))
        vector = self.at(line, next_one)
        kept, effect = self.at(own, next_one), self.at(self.at(own, "%ld"), next_one)
        self.moved(self.at(row, 1), vector, self.whole(length))
        self.clear_pads(line, "0", "1", "%n")
        tau = self.at("%tau", self.j)
        self.run(
            "reflect",
            f"ptr {vector}",
            f"i64 {length}",
            f"ptr {tau}",
            f"ptr {self.at('%e', self.j)}",
        )
        start = self.emit(f"and i64 {self.j}, {-BLOCK}")
        for rows, first in ((line, self.smaller(start, "%first")), (own, "%first")):
            self.loop(
                next_one, 1, lambda i, rows=rows: self.store("0.0", self.at(rows, i)), start=first
            )
        second = self.at(own, "%ld")
        self.loop(next_one, 1, lambda i: self.store("0.0", self.at(second, i)), start="%first")
        for pads in (own, second):
            self.clear_pads(pads, "0", "1", "%n")
        self.moved(vector, kept, self.whole(length))
        self.effect(vector, effect, next_one, length, tau)
        self.negated(kept, effect, self.whole(length), next_one)

    def effect(self, v: str, w: str, start: str, length: str, tau: str) -> None:
        """w = tau (S v - V Wᵀ v - W Vᵀ v), then made such that S - v wᵀ - w vᵀ is H S H."""
        rest = self.at("%s", self.plus(self.times(start, "%lds"), start))
        more = self.at("%work", self.times("%ld", 4 * WIDTH))
        self.run(
            "times",
            *(f"ptr {rest}", "i64 %lds", f"i64 {length}", f"ptr {v}", f"ptr {w}", f"ptr {more}"),
            "i64 %ld",
        )
        rows = self.at("%work", start)
        dots = ("i64 %ld", f"i64 {self.kept}", f"i64 {length}", f"ptr {self.numbers}")
        self.run("dots", f"ptr {v}", f"ptr {rows}", *dots)

        def exchange(l: str) -> None:
            first = self.at(self.numbers, self.times(l, 2))
            second = self.at(first, 1)
            a, b = self.load(first), self.load(second)
            self.store(b, first)
            self.store(a, second)

        self.loop("%c", 1, exchange)
        self.subtract(w, rows, length)
        self.run("scale", f"ptr {w}", f"i64 {length}", f"ptr {tau}")
        self.run("dots", f"ptr {w}", f"ptr {v}", "i64 0", "i64 1", dots[2], dots[3])
        half = self.real("fmul", self.load(tau), self.load(self.numbers))
        self.store(self.real("fmul", half, "0.5"), self.numbers)
        self.run("combine", f"ptr {w}", f"ptr {v}", "i64 0", "i64 1", dots[2], dots[3])

    def negated(self, v: str, w: str, length: str, start: str) -> None:
        """The rows of the other factor of the update: -w, -v."""
        offset = self.times(self.plus(self.kept, 2 * WIDTH), "%ld")
        base = self.at("%work", self.plus(offset, start))
        self.moved(w, base, length, negate=True)
        self.moved(v, self.at(base, "%ld"), length, negate=True)


class _Tridiagonal(Dense):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "tetrax_tridiagonal")

    def text(self) -> str:
        self.clear_pads("%s", "%lds", "%n", "%n")
        self.loop("%n", WIDTH, self.panel)
        return self.finished(
            "ptr %s, i64 %lds, i64 %n, ptr %v, i64 %ldv, ptr %d, ptr %e, ptr %tau, ptr %work",
            linkage="",
        )

    def panel(self, first: str) -> None:
        count = self.smaller(self.minus("%n", first), WIDTH)
        passed = ["ptr %s", "i64 %lds", "i64 %n", "ptr %v", "i64 %ldv", "ptr %d", "ptr %e"]
        passed += ["ptr %tau", "ptr %work", f"i64 {first}"]
        self.loop(count, 1, lambda c: self.run("column", *passed, f"i64 {c}"))
        after = self.plus(first, count)
        rest = self.minus("%n", after)
        tasks = self.rounded_up(rest, STRIP)
        values = {
            "s": "%s",
            "lds": "%lds",
            "n": "%n",
            "p": "%work",
            "ld": "%ldv",
            "depth": self.times(count, 2),
            "first": after,
            "last": self.minus(tasks, 1),
        }
        fields = [(kind, values[name]) for kind, name in _UPDATE]
        self.branch(self.test("sgt", rest, 0), lambda: self.share("update", fields, tasks))
