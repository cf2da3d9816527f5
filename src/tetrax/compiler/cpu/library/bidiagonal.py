"""Square matrices to upper bidiagonal form by reflections, with run-time sizes, as LLVM text.

    void tetrax_bidiagonal_f32(ptr a, i64 lda, i64 n, ptr u, ptr v, i64 ld, ptr d, ptr e,
                               ptr left, ptr right, ptr work)

A is a padded matrix, and destroyed. Reflection c from the left, of elements c to n, stands in row c
of the padded matrix `u`, with factor left[c]; the one from the right, of elements c + 1 to n, in
row c of `v`, with right[c]. They are LAPACK's. d and e are the diagonals of what they leave. `work`
holds 6 WIDTH + MOST_PARTS rows of `ld`.

WIDTH columns and rows are reduced together. Their effect on the rest, A - U Yᵀ - X Vᵀ, is kept
apart in rows u₀, x₀, u₁, x₁ … and y₀, v₀, y₁, v₁ … until all are known, and then subtracted as one
product. Every step needs a product of the rest with a vector from either side; rows are cut for
them in a number of parts that depends on the size alone.

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

TWO_PARTS, FOUR_PARTS, ALL_PARTS = 256, 768, 1536
"""Sizes from which products with vectors are cut."""

_FROM_LEFT = [
    *(
        ("ptr", "a"),
        ("i64", "lda"),
        ("i64", "rows"),
        ("i64", "columns"),
        ("ptr", "x"),
        ("ptr", "y"),
    ),
    *(("ptr", "more"), ("i64", "ld"), ("i64", "each")),
]
_STEP = [
    *(("ptr", "a"), ("i64", "lda"), ("i64", "n"), ("ptr", "u"), ("ptr", "v"), ("i64", "ld")),
    *(("ptr", "d"), ("ptr", "e"), ("ptr", "left"), ("ptr", "right"), ("ptr", "work")),
    *(("i64", "first"), ("i64", "c")),
]


def bidiagonal_symbols(type: ScalarType) -> tuple[str, ...]:
    """The routine of an element type."""
    return (f"tetrax_bidiagonal_{type}",)


def bidiagonal_module(type: ScalarType, target: Target) -> str:
    """The LLVM module of the routine."""
    shape = Shape.of(type, target)
    parts = [
        DECLARATIONS.replace("$T$", str(type)),
        *vector_functions(shape),
        *reflect_functions(shape),
        _Column(shape).text(),
        _Row(shape).text(),
        _Product(shape, "by_columns").text(),
        _Product(shape, "by_rows").text(),
        _Step(shape).text(),
        _Bidiagonal(shape).text(),
    ]
    return "\n".join(parts)


def _list(arguments: list[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} %{name}" for kind, name in arguments)


class _Column(Task):
    """y = -Aᵀ x for some rows; all but the first part go to rows of `more`."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "by_columns_task", _FROM_LEFT)

    def text(self) -> str:
        g = self.given
        first, count = self.range(g["rows"], g["each"])
        more = self.at(g["more"], self.times(self.minus("%task", 1), g["ld"]))
        y = self.chosen(self.test("eq", "%task", 0), g["y"], more, "ptr")

        def clear(i: str, _: list[str]) -> list[str]:
            self.put("zeroinitializer", y, i)
            return []

        self.vectors(self.whole(g["columns"]), [], clear)
        self.run(
            "combine",
            *(f"ptr {y}", f"ptr {self.at(g['a'], self.times(first, g['lda']))}"),
            *(f"i64 {g['lda']}", f"i64 {count}", f"i64 {g['columns']}"),
            f"ptr {self.at(g['x'], first)}",
        )
        return self.done()


class _Row(Task):
    """y = A x for some rows."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "by_rows_task", _FROM_LEFT)

    def text(self) -> str:
        g = self.given
        first, count = self.range(g["rows"], g["each"])
        self.run(
            "dots",
            *(f"ptr {g['x']}", f"ptr {self.at(g['a'], self.times(first, g['lda']))}"),
            *(f"i64 {g['lda']}", f"i64 {count}", f"i64 {g['columns']}"),
            f"ptr {self.at(g['y'], first)}",
        )
        return self.done()


class _Product(Dense):
    """One of these products, cut into parts."""

    def __init__(self, shape: Shape, name: str) -> None:
        super().__init__(shape, name)
        self.kind = name

    def text(self) -> str:
        parts = "1"
        for size, count in ((TWO_PARTS, 2), (FOUR_PARTS, 4), (ALL_PARTS, MOST_PARTS)):
            parts = self.chosen(self.test("sge", "%rows", size), str(count), parts)
        each = self.rounded_up("%rows", parts)
        fields = [(kind, f"%{name}") for kind, name in _FROM_LEFT[:-1]]
        self.share(f"{self.kind}_task", [*fields, ("i64", each)], parts)
        if self.kind == "by_columns":
            ones = self.scalars(MOST_PARTS)
            for i in range(MOST_PARTS):
                self.store("-1.0", self.at(ones, i))
            self.run(
                "combine",
                *("ptr %y", "ptr %more", "i64 %ld", f"i64 {self.minus(parts, 1)}"),
                *("i64 %columns", f"ptr {ones}"),
            )
        return self.finished(_list(_FROM_LEFT[:-1]))


class _Step(Dense):
    """Column and row first + c."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "step")

    def text(self) -> str:
        self.numbers = self.scalars(2 * WIDTH + PAD)
        self.j = self.plus("%first", "%c")
        self.next = self.plus(self.j, 1)
        self.kept = self.times("%c", 2)
        place = self.times(self.kept, "%ld")
        # rows u and x, rows y and v, and rows u and x negated
        self.downs = "%work"
        self.acrosses = self.at("%work", self.times("%ld", 2 * WIDTH))
        self.negatives = self.at("%work", self.times("%ld", 4 * WIDTH))
        self.more = self.at("%work", self.times("%ld", 6 * WIDTH))
        self.own = [self.at(base, place) for base in (self.downs, self.acrosses, self.negatives)]
        for base in self.own:
            for row in (base, self.at(base, "%ld")):
                self.zeros(row, "%first", self.next)
                self.clear_pads(row, "0", "1", "%n")
        self.column()
        more = self.test("slt", self.next, "%n")
        self.branch(more, self.row)
        return self.finished(_list(_STEP))

    def zeros(self, row: str, first: str, stop: str) -> None:
        self.loop(stop, 1, lambda i: self.store("0.0", self.at(row, i)), start=first)

    def corner(self, row: str, column: str) -> str:
        return self.at("%a", self.plus(self.times(row, "%lda"), column))

    def gather(self, rows: str, at: str, count: str) -> None:
        """An element of each kept row."""
        start = self.at(rows, at)

        def one(l: str) -> None:
            self.store(self.load(self.at(start, self.times(l, "%ld"))), self.at(self.numbers, l))

        self.loop(count, 1, one)

    def subtract(self, target: str, rows: str, first: str, count: str) -> None:
        """Kept rows, from an element on, times the numbers."""
        self.run(
            "combine",
            *(f"ptr {target}", f"ptr {self.at(rows, first)}", "i64 %ld", f"i64 {count}"),
            *(f"i64 {self.minus('%n', first)}", f"ptr {self.numbers}"),
        )

    def project(self, x: str, rows: str, first: str, count: str) -> None:
        """The numbers become the products of kept rows, from an element on, with a vector."""
        self.run(
            "dots",
            *(f"ptr {x}", f"ptr {self.at(rows, first)}", "i64 %ld", f"i64 {count}"),
            *(f"i64 {self.minus('%n', first)}", f"ptr {self.numbers}"),
        )

    def reflect(self, matrix: str, first: str, factors: str, values: str, kept: str) -> str:
        """The reflection of what row j of `matrix` holds from `first` on, and a kept copy."""
        line = self.at(matrix, self.times(self.j, "%ld"))
        length = self.minus("%n", first)
        vector = self.at(line, first)
        self.clear_pads(line, "0", "1", "%n")
        self.run(
            "reflect",
            *(f"ptr {vector}", f"i64 {length}", f"ptr {self.at(factors, self.j)}"),
            f"ptr {self.at(values, self.j)}",
        )
        block = self.emit(f"and i64 {self.j}, {-BLOCK}")
        self.zeros(line, block, first)
        self.moved(vector, self.at(kept, first), self.whole(length))
        return vector

    def column(self) -> None:
        """The reflection from the left."""
        line = self.at("%u", self.times(self.j, "%ld"))

        def take(i: str) -> None:
            self.store(self.load(self.corner(i, self.j)), self.at(line, i))

        self.loop("%n", 1, take, start=self.j)
        self.clear_pads(line, "0", "1", "%n")
        self.gather(self.acrosses, self.j, self.kept)
        self.subtract(self.at(line, self.j), self.downs, self.j, self.kept)
        down, _, negative = self.own
        self.left = self.reflect("%u", self.j, "%left", "%d", down)
        length = self.whole(self.minus("%n", self.j))
        self.moved(self.left, self.at(negative, self.j), length, negate=True)

    def multiply(self, name: str, row: str, x: str, y: str) -> None:
        """A product with what is left of A, rows from `row` and columns from the next one on."""
        self.run(
            name,
            *(f"ptr {self.corner(row, self.next)}", "i64 %lda", f"i64 {self.minus('%n', row)}"),
            *(f"i64 {self.minus('%n', self.next)}", f"ptr {x}", f"ptr {y}"),
            *(f"ptr {self.more}", "i64 %ld"),
        )

    def row(self) -> None:
        """What the left reflection does to the rest, then the reflection from the right."""
        down, across, negative = self.own
        rest = self.minus("%n", self.next)
        y = self.at(across, self.next)
        self.multiply("by_columns", self.j, self.at(negative, self.j), y)
        self.project(self.left, self.downs, self.j, self.kept)
        self.subtract(y, self.acrosses, self.next, self.kept)
        self.run("scale", f"ptr {y}", f"i64 {rest}", f"ptr {self.at('%left', self.j)}")
        line = self.at("%v", self.times(self.j, "%ld"))
        target = self.at(line, self.next)
        self.moved(self.corner(self.j, self.next), target, self.whole(rest))
        # this column's own y counts too
        count = self.plus(self.kept, 1)
        self.gather(self.downs, self.j, count)
        self.subtract(target, self.acrosses, self.next, count)
        across_v = self.at(across, "%ld")
        v = self.reflect("%v", self.next, "%right", "%e", across_v)
        x = self.at(self.at(down, "%ld"), self.next)
        self.multiply("by_rows", self.next, v, x)
        self.project(v, self.acrosses, self.next, count)
        self.subtract(x, self.downs, self.next, count)
        self.run("scale", f"ptr {x}", f"i64 {rest}", f"ptr {self.at('%right', self.j)}")
        opposite = self.at(self.at(negative, "%ld"), self.next)
        self.moved(x, opposite, self.whole(rest), negate=True)


class _Bidiagonal(Dense):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "tetrax_bidiagonal")

    def text(self) -> str:
        self.clear_pads("%a", "%lda", "%n", "%n")
        self.loop("%n", WIDTH, self.panel)
        return self.finished(_list(_STEP[:-2]), linkage="")

    def panel(self, first: str) -> None:
        count = self.smaller(self.minus("%n", first), WIDTH)
        passed = [f"{kind} %{name}" for kind, name in _STEP[:-2]]
        self.loop(count, 1, lambda c: self.run("step", *passed, f"i64 {first}", f"i64 {c}"))
        after = self.plus(first, count)
        rest = self.minus("%n", after)
        row = self.times("%ld", 2 * WIDTH)
        across = self.at("%work", self.plus(row, after))
        negative = self.at("%work", self.plus(self.times(row, 2), after))
        corner = self.at("%a", self.plus(self.times(after, "%lda"), after))

        def update() -> None:
            self.gemm(
                (negative, "1", "%ld"),
                (across, "%ld", "1"),
                (corner, "%lda"),
                (rest, rest, self.times(count, 2)),
                True,
            )

        self.branch(self.test("sgt", rest, 0), update)
