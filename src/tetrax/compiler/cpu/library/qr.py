"""Decompositions by Householder reflections with run-time sizes, as LLVM text.

    void tetrax_qr_f32(ptr a, i64 lda, i64 m, i64 n, ptr v, i64 ldv, ptr tau, ptr t, ptr work)
    void tetrax_reflect_f32(ptr v, i64 ldv, i64 count, i64 shift, i64 length, ptr tau, ptr t,
                            ptr c, i64 c_row, i64 columns, ptr work, i64 backward, i64 growing)
    void tetrax_pack_f32(ptr v, i64 ldv, i64 count, i64 shift, i64 length, ptr a, i64 lda)
    void tetrax_unpack_f32(…the same…)

`tetrax_qr` reduces A (m × n, by rows of stride lda) to R in its upper triangle, and to reflections
in the rows of `v` (a padded matrix, with explicit ones and zeros) with factors `tau`. Below R, A
holds nothing of use; `tetrax_pack` puts the reflections there, and `tetrax_unpack` takes them from
there. `tetrax_reflect` multiplies C by reflections from the left, see `householder`; a growing C
is first made the identity. `t` holds BLOCK × BLOCK numbers per block, `work` 2 BLOCK × columns.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.dense_text import DECLARATIONS, Dense, Task, pieces
from tetrax.compiler.cpu.library.dense_vectors import vector_functions
from tetrax.compiler.cpu.library.gemm_text import Shape
from tetrax.compiler.cpu.library.householder import LEAST, MOST, householder_functions
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_types import ScalarType
from tetrax.ops.linalg.blocks import BLOCK, PAD

NAMES = ("qr", "reflect", "pack", "unpack")


def qr_symbols(type: ScalarType) -> tuple[str, ...]:
    """The routines of an element type."""
    return tuple(f"tetrax_{name}_{type}" for name in NAMES)


def qr_module(type: ScalarType, target: Target) -> str:
    """The LLVM module of the routines."""
    shape = Shape.of(type, target)
    parts = [
        DECLARATIONS.replace("$T$", str(type)),
        *vector_functions(shape),
        *householder_functions(shape),
        _Panel(shape).text(),
        _Prepare(shape).text(),
        _Step(shape).text(),
        _Qr(shape).text(),
        _Reflect(shape).text(),
        _Pack(shape, packs=True).text(),
        _Pack(shape, packs=False).text(),
    ]
    return "\n".join(parts)


class _Panel(Dense):
    """Reduces columns, which are rows of `v` here, from their diagonal on."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "panel")

    def text(self) -> str:
        self.beta, self.sums = self.scalars(1), self.scalars(BLOCK)
        self.loop("%count", 1, self.column)
        return self.finished("ptr %v, i64 %ld, i64 %count, i64 %length, ptr %tau")

    def column(self, c: str) -> None:
        x = self.at("%v", self.plus(self.times(c, "%ld"), c))
        length = self.minus("%length", c)
        tau = self.at("%tau", c)
        self.run("reflect", f"ptr {x}", f"i64 {length}", f"ptr {tau}", f"ptr {self.beta}")
        rest = self.minus(self.minus("%count", c), 1)
        others = ("ptr " + self.at(x, "%ld"), "i64 %ld", f"i64 {rest}", f"i64 {length}")
        some = self.emit(f"fcmp une {self.scalar} {self.load(tau)}, 0.0")

        def eliminate() -> None:
            self.run("dots", f"ptr {x}", *others, f"ptr {self.sums}")
            self.run("scale", f"ptr {self.sums}", f"i64 {rest}", f"ptr {tau}")
            self.run("rank_one", f"ptr {x}", *others, f"ptr {self.sums}")

        self.branch(some, eliminate)
        self.store(self.load(self.beta), x)


class _Prepare(Dense):
    """Columns of A, from their diagonal on, to reflections and the factor of their product."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "prepare")

    def text(self) -> str:
        columns = ("i64 %lda", "i64 %length", "i64 %count")
        self.run("turn", "ptr %a", *columns, "ptr %v", "i64 %ldv")
        self.clear_pads("%v", "%ldv", "%count", "%length")
        self.run("panel", "ptr %v", "i64 %ldv", "i64 %count", "i64 %length", "ptr %tau")
        self.loop("%count", 1, self.take_upper)
        self.run(
            "factors",
            *("ptr %v", "i64 %ldv", "i64 %count", "i64 0", "i64 %length", "ptr %tau", "ptr %t"),
        )
        return self.finished(
            "ptr %a, i64 %lda, i64 %length, i64 %count, ptr %v, i64 %ldv, ptr %tau, ptr %t"
        )

    def take_upper(self, c: str) -> None:
        """What a column holds down to its diagonal is R's."""
        row = self.at("%v", self.times(c, "%ldv"))

        def element(i: str) -> None:
            place = self.at(row, i)
            self.store(self.load(place), self.at("%a", self.plus(self.times(i, "%lda"), c)))
            self.store("0.0", place)

        self.loop(self.plus(c, 1), 1, element)
        self.store("1.0", self.at(row, c))


_STEP = [
    *(("ptr", "a"), ("i64", "lda"), ("ptr", "v"), ("i64", "ldv"), ("ptr", "tau"), ("ptr", "t")),
    *(("ptr", "work"), ("i64", "count"), ("i64", "length"), ("i64", "columns"), ("i64", "ahead")),
    *(("i64", "each"), ("i64", "last")),
]


class _Step(Task):
    """A block of reflections times some of the columns right of it.

    The last task takes the columns that are reduced next, and reduces them at once.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "qr_step", _STEP)

    def text(self) -> str:
        next_ones = self.both(
            self.test("eq", "%task", self.given["last"]), self.test("sgt", self.given["ahead"], 0)
        )
        self.branch(next_ones, self.go_ahead, self.follow)
        return self.done()

    def multiply(self, first: str, columns: str) -> None:
        g = self.given
        self.run(
            "block",
            *(f"ptr {g['v']}", f"i64 {g['ldv']}", f"i64 {g['count']}", f"i64 {g['length']}"),
            *(f"ptr {g['t']}", f"ptr {self.at(g['a'], first)}", f"i64 {g['lda']}"),
            *(f"i64 {columns}", f"ptr {self.at(g['work'], self.times(first, 2 * BLOCK))}", "i64 0"),
        )

    def go_ahead(self) -> None:
        g = self.given
        count, ahead = g["count"], g["ahead"]
        self.multiply("0", ahead)
        self.run(
            "prepare",
            f"ptr {self.at(g['a'], self.times(count, g['lda']))}",
            *(f"i64 {g['lda']}", f"i64 {self.minus(g['length'], count)}", f"i64 {ahead}"),
            f"ptr {self.at(g['v'], self.plus(self.times(count, g['ldv']), count))}",
            *(f"i64 {g['ldv']}", f"ptr {self.at(g['tau'], count)}"),
            f"ptr {self.at(g['t'], BLOCK * BLOCK)}",
        )

    def follow(self) -> None:
        g = self.given
        rest = self.minus(g["columns"], g["ahead"])
        first, columns = self.range(rest, g["each"])
        self.multiply(self.plus(first, g["ahead"]), columns)


class _Qr(Dense):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "tetrax_qr")

    def text(self) -> str:
        self.size = self.smaller("%m", "%n")
        first = self.smaller(self.size, BLOCK)
        self.run(
            "prepare",
            *("ptr %a", "i64 %lda", "i64 %m", f"i64 {first}"),
            *("ptr %v", "i64 %ldv", "ptr %tau", "ptr %t"),
        )
        self.loop(self.size, BLOCK, self.step)
        return self.finished(
            "ptr %a, i64 %lda, i64 %m, i64 %n, ptr %v, i64 %ldv, ptr %tau, ptr %t, ptr %work",
            linkage="",
        )

    def step(self, j: str) -> None:
        count = self.smaller(self.minus(self.size, j), BLOCK)
        length = self.minus("%m", j)
        after = self.plus(j, count)
        ahead = self.smaller(self.minus(self.size, after), BLOCK)
        columns = self.minus("%n", after)
        rest = self.minus(columns, ahead)
        work = self.times(self.times(length, rest), self.times(count, 2))
        each, tasks = pieces(self, rest, work, LEAST, MOST, self.shape.columns)
        some = self.emit(f"zext i1 {self.test('sgt', ahead, 0)} to i64")
        v = self.at("%v", self.plus(self.times(j, "%ldv"), j))
        values = {
            "a": self.at("%a", self.plus(self.times(j, "%lda"), after)),
            "lda": "%lda",
            "v": v,
            "ldv": "%ldv",
            "tau": self.at("%tau", j),
            "t": self.at("%t", self.times(j, BLOCK)),
            "work": "%work",
            "count": count,
            "length": length,
            "columns": columns,
            "ahead": ahead,
            "each": each,
            "last": tasks,
        }
        fields = [(kind, values[name]) for kind, name in _STEP]
        left = self.test("sgt", columns, 0)
        self.branch(left, lambda: self.share("qr_step", fields, self.plus(tasks, some)))


class _Reflect(Dense):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "tetrax_reflect")

    def text(self) -> str:
        vectors = (*("ptr %v", "i64 %ldv", "i64 %count", "i64 %shift", "i64 %length"),)
        self.run("factors", *vectors, "ptr %tau", "ptr %t")
        self.branch(self.test("ne", "%growing", 0), self.begin)
        self.run(
            "apply",
            *(*vectors, "ptr %t", "ptr %c", "i64 %c_row", "i64 %columns", "ptr %work"),
            *("i64 %backward", "i64 %growing"),
        )
        return self.finished(
            "ptr %v, i64 %ldv, i64 %count, i64 %shift, i64 %length, ptr %tau, ptr %t, ptr %c, "
            "i64 %c_row, i64 %columns, ptr %work, i64 %backward, i64 %growing",
            linkage="",
        )

    def begin(self) -> None:
        """C as the identity."""

        def row(i: str) -> None:
            start = self.at("%c", self.times(i, "%c_row"))
            self.loop("%columns", 1, lambda j: self.store("0.0", self.at(start, j)))
            inside = self.test("slt", i, "%columns")
            self.branch(inside, lambda: self.store("1.0", self.at(start, i)))

        self.loop("%length", 1, row)


class _Pack(Dense):
    """Reflections to and from the columns of a matrix, below its diagonal."""

    def __init__(self, shape: Shape, packs: bool) -> None:
        super().__init__(shape, "tetrax_pack" if packs else "tetrax_unpack")
        self.packs = packs

    def text(self) -> str:
        self.loop("%count", BLOCK, self.block)
        return self.finished(
            "ptr %v, i64 %ldv, i64 %count, i64 %shift, i64 %length, ptr %a, i64 %lda", linkage=""
        )

    def block(self, first: str) -> None:
        stop = self.smaller("%count", self.plus(first, BLOCK))
        if not self.packs:
            self.loop(stop, 1, self.clear, start=first)

        def row(i: str) -> None:
            inside = self.smaller(stop, self.minus(i, "%shift"))
            self.loop(inside, 1, lambda c: self.element(i, c), start=first)

        self.loop("%length", 1, row, start=self.plus(self.plus(first, "%shift"), 1))

    def clear(self, c: str) -> None:
        row = self.at("%v", self.times(c, "%ldv"))
        end = self.plus("%length", PAD)
        self.loop(end, 1, lambda i: self.store("0.0", self.at(row, i)))
        self.store("1.0", self.at(row, self.plus(c, "%shift")))

    def element(self, i: str, c: str) -> None:
        packed = self.at("%a", self.plus(self.times(i, "%lda"), c))
        apart = self.at("%v", self.plus(self.times(c, "%ldv"), i))
        source, target = (apart, packed) if self.packs else (packed, apart)
        self.store(self.load(source), target)
