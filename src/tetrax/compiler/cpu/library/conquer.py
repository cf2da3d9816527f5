"""Eigenvalues and vectors of symmetric tridiagonal matrices with run-time sizes, as LLVM text.

    void tetrax_conquer_f32(ptr d, ptr e, i64 n, ptr q, ptr rows, ptr work, ptr integers, ptr info)

d becomes the eigenvalues, ascending, and the rows of `rows` the vectors; e is destroyed. `info` is
an i32, not zero after a failure. q and `rows` hold n² elements, `work` 5/4 n² + 24 n, and
`integers` 16 n + 16 of 32 bits.

This is LAPACK's divide and conquer on several threads. Its `stedc` solves what is small, so that
its own products stay on one thread; its `laed2` finds what need not be computed; its `laed4` solves
the secular equation for one eigenvalue. The vectors are those of Gu and Eisenstat, "A
divide-and-conquer algorithm for the symmetric tridiagonal eigenproblem", 1995; products are ours.
"""

from __future__ import annotations

from collections.abc import Callable

from tetrax.compiler.cpu.library.dense_text import DECLARATIONS, Dense, Task
from tetrax.compiler.cpu.library.gemm_text import Shape
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_types import F64, ScalarType

LEAST = 96
"""Sizes from which matrices are divided."""
STRIP = 32
"""Eigenvalues per task."""

_ROUTINES = {"stedc": 11, "laed2": 17, "laed4": 8, "lamrg": 6}
"""LAPACK's routines, and how many arguments they have."""
_DIVIDE = [
    *(("ptr", "d"), ("ptr", "e"), ("i64", "n"), ("ptr", "target"), ("i64", "ld"), ("ptr", "q")),
    *(("ptr", "s"), ("ptr", "work"), ("ptr", "integers"), ("ptr", "info")),
]
_HALVES = [
    *(("ptr", "d"), ("ptr", "e"), ("i64", "n"), ("i64", "cut"), ("ptr", "q"), ("ptr", "s")),
    *(("ptr", "work"), ("ptr", "integers"), ("ptr", "infos")),
]
_SECULAR = [
    *(("i64", "n"), ("i64", "count"), ("ptr", "poles"), ("ptr", "w"), ("ptr", "q"), ("ptr", "rho")),
    *(("ptr", "d"), ("ptr", "weights"), ("ptr", "order"), ("ptr", "s"), ("ptr", "infos")),
]


def conquer_symbols(type: ScalarType) -> tuple[str, ...]:
    """The routine of an element type."""
    return (f"tetrax_conquer_{type}",)


def conquer_module(type: ScalarType, target: Target) -> str:
    """The LLVM module of the routine."""
    shape = Shape.of(type, target)
    letter = _letter(type)
    declared = [
        f"declare void @lapack_{letter}{name}({', '.join(['ptr'] * count)})"
        for name, count in _ROUTINES.items()
    ]
    kinds = (_Half, _Solve, _Weigh, _Vectors, _Divide, _Conquer)
    parts = [DECLARATIONS.replace("$T$", str(type)), *declared]
    return "\n".join([*parts, *(kind(shape).text() for kind in kinds)])


def _letter(type: ScalarType) -> str:
    return "d" if type is F64 else "s"


class _Caller(Dense):
    """A function that calls LAPACK: all arguments are addresses."""

    def integer(self, value: str | int) -> str:
        """The address of a 32-bit integer."""
        place = self.reserve("i32")
        narrow = str(value) if isinstance(value, int) else self.emit(f"trunc i64 {value} to i32")
        self.em.effect(f"store i32 {narrow}, ptr {place}, align 4")
        return place

    def wide(self, place: str) -> str:
        """A 32-bit integer at an address."""
        return self.emit(f"sext i32 {self.emit(f'load i32, ptr {place}, align 4')} to i64")

    def place(self, integers: str, index: str | int) -> str:
        return self.emit(f"getelementptr i32, ptr {integers}, i64 {index}")

    def lapack(self, name: str, *places: str) -> None:
        self.call(f"lapack_{_letter(self.type)}{name}", *(f"ptr {place}" for place in places))


class _TaskCaller(_Caller, Task):
    """The same for a task."""


class _Half(_TaskCaller):
    """One half, in place in its corner of q."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "half", _HALVES)

    def text(self) -> str:
        g = self.given
        cut = g["cut"]
        lower = self.test("ne", "%task", 0)
        size = self.chosen(lower, self.minus(g["n"], cut), cut)
        first = self.chosen(lower, cut, "0")
        passed = self.times(cut, cut)
        space = self.plus(room(self, cut), passed)
        work = self.at(g["work"], self.chosen(lower, space, "0"))
        values = {
            "d": self.at(g["d"], first),
            "e": self.at(g["e"], first),
            "n": size,
            "target": self.at(g["q"], self.plus(self.times(first, g["n"]), first)),
            "ld": g["n"],
            "q": self.at(g["s"], self.chosen(lower, passed, "0")),
            "s": self.at(work, room(self, size)),
            "work": work,
            "integers": self.place(g["integers"], self.times(first, 16)),
            "info": self.place(g["infos"], "%task"),
        }
        self.run("divide", *(f"{kind} {values[name]}" for kind, name in _DIVIDE))
        return self.done()


def room(function: Dense, n: str) -> str:
    """Elements of the work of a matrix of size n."""
    square = function.times(n, n)
    return function.plus(function.plus(square, function.over(square, 4)), function.times(n, 24))


class _Solve(_TaskCaller):
    """Some roots of the secular equation; columns of q get the distances from the poles."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "solve", _SECULAR)

    def text(self) -> str:
        g = self.given
        first, count = self.range(g["count"], str(STRIP))
        size, number, info = self.integer(g["count"]), self.reserve("i32"), self.integer(0)

        def root(i: str) -> None:
            j = self.plus(first, i)
            one = self.emit(f"trunc i64 {self.plus(j, 1)} to i32")
            self.em.effect(f"store i32 {one}, ptr {number}, align 4")
            column = self.at(g["q"], self.times(j, g["n"]))
            self.lapack(
                "laed4",
                *(size, number, g["poles"], g["w"], column, g["rho"], self.at(g["d"], j), info),
            )
            failed = self.test("ne", self.wide(info), 0)
            fail = lambda: self.em.effect(f"store i32 1, ptr {g['infos']}, align 4")
            self.branch(failed, fail)

        self.loop(count, 1, root)
        return self.done()


class _Weigh(_TaskCaller):
    """Some of the weights for which the roots found are exact (none for up to two roots)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "weigh", _SECULAR)

    def text(self) -> str:
        g = self.given
        self.first, count = self.range(g["count"], str(STRIP))
        self.stop = self.plus(self.first, count)
        self.among(lambda i: self.store("1.0", self.at(g["weights"], i)))
        self.loop(g["count"], 1, self.factor)
        self.among(self.finish)
        return self.done()

    def among(self, body: Callable[[str], None], first: str = "", stop: str = "") -> None:
        self.loop(stop or self.stop, 1, body, start=first or self.first)

    def factor(self, j: str) -> None:
        g = self.given
        column = self.at(g["q"], self.times(j, g["n"]))
        pole = self.load(self.at(g["poles"], j))

        def times(i: str, apart: bool) -> None:
            place = self.at(g["weights"], i)
            value = self.load(self.at(column, i))
            if apart:
                distance = self.real("fsub", self.load(self.at(g["poles"], i)), pole)
                value = self.real("fdiv", value, distance)
            self.store(self.real("fmul", self.load(place), value), place)

        before = self.smaller(j, self.stop)
        after = self.larger(self.plus(j, 1), self.first)
        self.among(lambda i: times(i, True), stop=before)
        inside = self.both(self.test("sge", j, self.first), self.test("slt", j, self.stop))
        self.branch(inside, lambda: times(j, False))
        self.among(lambda i: times(i, True), first=after)

    def finish(self, i: str) -> None:
        g = self.given
        place = self.at(g["weights"], i)
        size = self.root(self.minus_real(self.load(place)))
        kind, suffix = self.scalar, f"f{self.type.bits}"
        sign = self.load(self.at(g["w"], i))
        value = self.emit(f"call {kind} @llvm.copysign.{suffix}({kind} {size}, {kind} {sign})")
        self.store(value, place)


class _Vectors(_TaskCaller):
    """Some vectors of the rank-one problem, rows of s, in the order in which `laed2` left columns.

    For up to two roots `laed4` gives vectors instead of distances.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "vectors", _SECULAR)

    def text(self) -> str:
        g = self.given
        first, count = self.range(g["count"], str(STRIP))
        self.size = g["count"]
        many = self.test("sgt", self.size, 2)

        def vector(i: str) -> None:
            j = self.plus(first, i)
            column = self.at(g["q"], self.times(j, g["n"]))
            row = self.at(g["s"], self.times(j, self.size))
            by_weights = lambda: self.reordered(column, row, self.weighted(column))
            self.branch(many, by_weights, lambda: self.reordered(column, row, "1.0"))

        self.loop(count, 1, vector)
        return self.done()

    def weighted(self, column: str) -> str:
        """The weights over the distances, in place of these; gives the norm."""

        def element(i: str, carried: list[str]) -> list[str]:
            place = self.at(column, i)
            value = self.real(
                "fdiv", self.load(self.at(self.given["weights"], i)), self.load(place)
            )
            self.store(value, place)
            square = self.real("fmul", value, value)
            return [self.emit(f"fadd reassoc {self.scalar} {carried[0]}, {square}")]

        (total,) = self.carried_loop(self.size, 1, [(self.scalar, "0.0")], element)
        return self.root(total)

    def reordered(self, column: str, row: str, norm: str) -> None:
        def element(i: str) -> None:
            at = self.minus(self.wide(self.place(self.given["order"], i)), 1)
            value = self.load(self.at(column, at))
            self.store(self.real("fdiv", value, norm), self.at(row, i))

        self.loop(self.size, 1, element)


class _Conquer(_Caller):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "tetrax_conquer")

    def text(self) -> str:
        names = {"target": "rows", "ld": "n", "s": "rows"}
        passed = (f"{kind} %{names.get(name, name)}" for kind, name in _DIVIDE)
        self.em.effect("store i32 0, ptr %info, align 4")
        self.run("divide", *passed)
        return self.finished(
            "ptr %d, ptr %e, i64 %n, ptr %q, ptr %rows, ptr %work, ptr %integers, ptr %info",
            linkage="",
        )


class _Divide(_Caller):
    """Eigenvalues, and vectors in rows of a stride; `s` may be the target."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "divide")

    def text(self) -> str:
        norm = self.norm()
        positive = self.emit(f"fcmp ogt {self.scalar} {norm}, 0.0")
        large = self.both(self.test("sge", "%n", LEAST), positive)
        self.branch(large, lambda: self.divided(norm), self.at_once)
        return self.finished(", ".join(f"{kind} %{name}" for kind, name in _DIVIDE))

    def at_once(self) -> None:
        """LAPACK's whole algorithm."""
        job = self.reserve("i8")
        self.em.effect(f"store i8 {ord('I')}, ptr {job}, align 1")
        space = self.plus(self.times(self.plus("%n", 4), "%n"), 1)
        whole = self.plus(self.times("%n", 5), 3)
        n, ld, space, whole = (self.integer(x) for x in ("%n", "%ld", space, whole))
        vectors = ("%target", ld, "%work", space)
        self.lapack("stedc", job, n, "%d", "%e", *vectors, "%integers", whole, "%info")

    def norm(self) -> str:
        """The largest element."""
        suffix = f"f{self.type.bits}"

        def larger(array: str) -> Callable[[str, list[str]], list[str]]:
            def body(i: str, carried: list[str]) -> list[str]:
                value = self.load(self.at(array, i))
                size = self.emit(f"call {self.scalar} @llvm.fabs.{suffix}({self.scalar} {value})")
                more = self.emit(f"fcmp ogt {self.scalar} {size}, {carried[0]}")
                return [
                    self.emit(f"select i1 {more}, {self.scalar} {size}, {self.scalar} {carried[0]}")
                ]

            return body

        (found,) = self.carried_loop("%n", 1, [(self.scalar, "0.0")], larger("%d"))
        last = self.minus("%n", 1)
        return self.carried_loop(last, 1, [(self.scalar, found)], larger("%e"))[0]

    def change(self, operation: str, array: str, count: str, by: str) -> None:
        def element(i: str) -> None:
            place = self.at(array, i)
            self.store(self.real(operation, self.load(place), by), place)

        self.loop(count, 1, element)

    def divided(self, norm: str) -> None:
        self.change("fdiv", "%d", "%n", norm)
        self.change("fdiv", "%e", self.minus("%n", 1), norm)
        cut = self.over("%n", 2)
        before = self.minus(cut, 1)
        coupling = self.load(self.at("%e", before))
        rho = self.scalars(1)
        self.store(coupling, rho)
        self.em.effect("store i32 0, ptr %info, align 4")
        suffix = f"f{self.type.bits}"
        size = self.emit(f"call {self.scalar} @llvm.fabs.{suffix}({self.scalar} {coupling})")
        for place in (self.at("%d", before), self.at("%d", cut)):
            self.store(self.real("fsub", self.load(place), size), place)
        self.loop(self.times("%n", "%n"), 1, lambda i: self.store("0.0", self.at("%q", i)))
        infos = self.reserve("i32", 2)
        values = {"cut": cut, "infos": infos}
        self.share("half", [(kind, values.get(name, f"%{name}")) for kind, name in _HALVES], "2")
        failed = self.either(
            self.test("ne", self.wide(infos), 0),
            self.test("ne", self.wide(self.place(infos, 1)), 0),
        )
        self.branch(failed, self.fail, lambda: self.merged(cut, rho, norm))

    def fail(self) -> None:
        self.em.effect("store i32 1, ptr %info, align 4")

    def merged(self, cut: str, rho: str, norm: str) -> None:
        """The eigenvectors of both halves and the coupling between them."""
        vectors = [self.at("%work", self.times("%n", 2 * i)) for i in range(4)]
        z, poles, w, weights = vectors
        q2 = self.at("%work", self.times("%n", 8))
        order_of_halves, indx, indxc, indxp, types = (
            self.place("%integers", self.times("%n", i)) for i in range(5)
        )
        self.loop(cut, 1, lambda i: self.coupled(z, order_of_halves, i, "0", self.minus(cut, 1)))
        rest = self.minus("%n", cut)
        self.loop(rest, 1, lambda i: self.coupled(z, order_of_halves, i, cut, cut))
        count_place, info = self.integer(0), self.integer(0)
        n, n1 = self.integer("%n"), self.integer(cut)
        self.lapack(
            "laed2",
            *(count_place, n, n1, "%d", "%q", n, order_of_halves, rho, z, poles, w, q2),
            *(indx, indxc, indxp, types, info),
        )
        count = self.wide(count_place)
        ones = lambda i: self.number(order_of_halves, i, i)
        some = self.test("sgt", count, 0)

        def solve() -> None:
            infos = self.integer(0)
            given = {"count": count, "poles": poles, "w": w, "rho": rho, "weights": weights}
            given |= {"order": indxc, "infos": infos}
            fields = [(kind, given.get(name, f"%{name}")) for kind, name in _SECULAR]
            tasks = self.rounded_up(count, STRIP)
            self.share("solve", fields, tasks)
            more = self.test("sgt", count, 2)
            self.branch(more, lambda: self.share("weigh", fields, tasks))
            self.share("vectors", fields, tasks)
            self.multiply(count, cut, rest, q2, types)
            k, left = self.integer(count), self.integer(self.minus("%n", count))
            up, down = self.integer(1), self.integer(-1)
            self.lapack("lamrg", k, left, "%d", up, down, order_of_halves)
            bad = self.test("ne", self.wide(infos), 0)
            self.branch(bad, self.fail)

        self.branch(some, solve, lambda: self.loop("%n", 1, ones))
        self.sort(order_of_halves, z, norm)

    def number(self, integers: str, at: str, value: str) -> None:
        narrow = self.emit(f"trunc i64 {self.plus(value, 1)} to i32")
        self.em.effect(f"store i32 {narrow}, ptr {self.place(integers, at)}, align 4")

    def coupled(self, z: str, order: str, i: str, first: str, row: str) -> None:
        """An element of the vector that couples the halves; values of a half are in order."""
        column = self.plus(first, i)
        element = self.at("%q", self.plus(self.times(column, "%n"), row))
        self.store(self.load(element), self.at(z, column))
        self.number(order, column, i)

    def multiply(self, count: str, cut: str, rest: str, q2: str, types: str) -> None:
        """Vectors of the halves, without the columns of zeros, times those of the coupling."""
        kinds = [self.wide(self.place(types, i)) for i in range(3)]
        upper, lower = self.plus(kinds[0], kinds[1]), self.plus(kinds[1], kinds[2])
        second = self.at(q2, self.times(cut, upper))
        for first, width, depth, left, right in (
            (cut, rest, lower, self.at("%s", kinds[0]), second),
            ("0", cut, upper, "%s", q2),
        ):
            self.gemm(
                (left, count, "1"),
                (right, width, "1"),
                (self.at("%q", first), "%n"),
                (count, width, depth),
                False,
            )

    def sort(self, order: str, spare: str, norm: str) -> None:
        def take(i: str) -> None:
            source = self.minus(self.wide(self.place(order, i)), 1)
            self.store(self.load(self.at("%d", source)), self.at(spare, i))
            start = self.at("%q", self.times(source, "%n"))
            target = self.at("%target", self.times(i, "%ld"))
            self.loop(
                "%n", 1, lambda j: self.store(self.load(self.at(start, j)), self.at(target, j))
            )

        self.loop("%n", 1, take)

        def give(i: str) -> None:
            value = self.real("fmul", self.load(self.at(spare, i)), norm)
            self.store(value, self.at("%d", i))

        self.loop("%n", 1, give)
