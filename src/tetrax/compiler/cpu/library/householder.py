"""Householder reflections, one by one and in blocks (the compact WY form), as LLVM text.

A reflection is H = 1 - tau v vᵀ with v[0] = 1; LAPACK's conventions hold. Reflections are rows of a
padded matrix `v`, reflection c from column c + shift on.

    reflect(x, length, tau, beta)     x becomes v, and beta what stands before it in H x = beta e₁
    factors(v, ld, count, shift, length, tau, t)       per block, the factor of its product
    apply(v, ld, count, shift, length, t, c, c_row, columns, work, backward, growing)

A product of reflections H₁ … H_b is 1 - Vᵀ T V for an upper triangular T, of which `factors` makes
the negated transpose, BLOCK × BLOCK. `apply` multiplies C (`length` rows, contiguous) from the left
by all blocks, backward by H₁ H₂ …, else by its transpose. A `growing` C is still the identity in
its first rows and columns when backward reflections come to it. `work` holds 2 BLOCK × columns.

Schreiber and Van Loan, "A storage-efficient WY representation", 1989.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.dense_text import Dense, Task, pieces
from tetrax.compiler.cpu.library.gemm_text import Shape
from tetrax.ops.linalg.blocks import BLOCK

LEAST, MOST = 500_000, 16
"""Multiplications per task, and tasks, of a block's product."""

_VECTOR = [("ptr", "v"), ("i64", "ld"), ("i64", "count"), ("i64", "shift"), ("i64", "length")]
_FACTORS = [*_VECTOR, ("ptr", "tau"), ("ptr", "t")]
_BLOCK = [
    *(("ptr", "v"), ("i64", "ld"), ("i64", "count"), ("i64", "length"), ("ptr", "t")),
    *(("ptr", "c"), ("i64", "c_row"), ("i64", "columns"), ("ptr", "work"), ("i64", "backward")),
    ("i64", "each"),
]


def reflect_functions(shape: Shape) -> list[str]:
    """Single reflections, for one type."""
    return [_Reflect(shape).text()]


def householder_functions(shape: Shape) -> list[str]:
    """All functions, for one type."""
    return [
        _Reflect(shape).text(),
        _FactorTask(shape).text(),
        _Factors(shape).text(),
        _BlockTask(shape).text(),
        _Block(shape).text(),
        _Apply(shape).text(),
    ]


def _list(arguments: list[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} %{name}" for kind, name in arguments)


class _Reflect(Dense):
    """One reflection, computed in f64 and safe against overflow and underflow.

    In f32 squares and quotients fit f64. In f64 the vector is divided by its largest element where
    the sum of squares leaves the range in which it is accurate.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "reflect")
        self.wide = f"<{shape.lanes} x double>"

    def text(self) -> str:
        self.rest = self.at("%x", 1)
        self.length = self.whole(self.minus("%length", 1))
        self.factor = self.reserve("double")
        self.unit = self.reserve("double")
        self.em.effect(f"store double 1.0, ptr {self.unit}, align 8")
        alpha = self.widened_scalar(self.load("%x"))
        squares = self.squares(None)
        zero = self.emit(f"fcmp oeq double {squares}, 0.0")
        if self.is_double:
            places = self.reserve("double", 3)  # alpha, squares, whether all is zero
            self.keep(places, alpha, squares, zero)
            large = self.emit(f"fcmp ole double {squares}, 1.0e260")
            some = self.emit(f"fcmp oge double {squares}, 1.0e-260")
            square = self.emit(f"fmul double {alpha}, {alpha}")
            near = self.emit(f"fcmp ole double {square}, 1.0e260")
            good = self.both(self.both(large, some), near)
            self.branch(good, lambda: None, lambda: self.rescaled(places, alpha, squares))
            at = lambda i: self.emit(
                f"load double, ptr {self.emit(f'getelementptr double, ptr {places}, i64 {i}')}, "
                "align 8"
            )
            alpha, squares = at(0), at(1)
            zero = self.emit(f"fcmp one double {at(2)}, 0.0")
        self.branch(zero, self.nothing, lambda: self.reflected(alpha, squares))
        self.store("1.0", "%x")
        return self.finished("ptr %x, i64 %length, ptr %tau, ptr %beta")

    def keep(self, places: str, alpha: str, squares: str, zero: str) -> None:
        for i, value in enumerate((alpha, squares, self.emit(f"uitofp i1 {zero} to double"))):
            place = self.emit(f"getelementptr double, ptr {places}, i64 {i}")
            self.em.effect(f"store double {value}, ptr {place}, align 8")

    def rescaled(self, places: str, alpha: str, squares: str) -> None:
        """Alpha and the squares of the vector over its largest element."""
        size = lambda x: self.emit(f"call double @llvm.fabs.f64(double {x})")

        def larger(i: str, carried: list[str]) -> list[str]:
            value = size(self.load(self.at("%x", i)))
            more = self.emit(f"fcmp ogt double {value}, {carried[0]}")
            return [self.emit(f"select i1 {more}, double {value}, double {carried[0]}")]

        (rest,) = self.carried_loop("%length", 1, [("double", "0.0")], larger, start="1")
        unordered = self.emit(f"fcmp uno double {squares}, 0.0")
        zero = self.emit(f"fcmp oeq double {rest}, 0.0")
        zero = self.both(zero, self.emit(f"xor i1 {unordered}, true"))
        more = self.emit(f"fcmp ogt double {size(alpha)}, {rest}")
        unit = self.emit(f"select i1 {more}, double {size(alpha)}, double {rest}")
        unit = self.emit(f"select i1 {unordered}, double {squares}, double {unit}")
        none = self.emit(f"fcmp oeq double {unit}, 0.0")
        unit = self.emit(f"select i1 {none}, double 1.0, double {unit}")
        self.em.effect(f"store double {unit}, ptr {self.unit}, align 8")
        small = self.emit(f"fdiv double {alpha}, {unit}")
        self.keep(places, small, self.squares(unit), zero)

    def widened_scalar(self, value: str) -> str:
        return value if self.is_double else self.emit(f"fpext float {value} to double")

    def widened_vector(self, value: str) -> str:
        if self.is_double:
            return value
        return self.emit(f"fpext {self.vector} {value} to {self.wide}")

    def splat(self, value: str) -> str:
        first = self.emit(f"insertelement {self.wide} poison, double {value}, i64 0")
        return self.emit(
            f"shufflevector {self.wide} {first}, {self.wide} poison, "
            f"<{self.lanes} x i32> zeroinitializer"
        )

    def squares(self, unit: str | None) -> str:
        units = self.splat(unit) if unit else None
        kind = self.wide

        def step(i: str, carried: list[str]) -> list[str]:
            x = self.widened_vector(self.vector_at(self.rest, i))
            if units:
                x = self.emit(f"fdiv {kind} {x}, {units}")
            square = self.emit(f"fmul {kind} {x}, {x}")
            return [self.emit(f"fadd {kind} {carried[0]}, {square}")]

        sums = self.vectors(self.length, [(kind, "zeroinitializer")], step, 2)
        both = self.emit(f"fadd {kind} {sums[0]}, {sums[1]}")
        return self.emit(
            f"call reassoc double @llvm.vector.reduce.fadd.v{self.lanes}f64(double -0.0, "
            f"{kind} {both})"
        )

    def nothing(self) -> None:
        self.store("0.0", "%tau")
        self.store(self.load("%x"), "%beta")

    def reflected(self, alpha: str, squares: str) -> None:
        square = self.emit(f"fmul double {alpha}, {alpha}")
        total = self.emit(f"fadd double {square}, {squares}")
        norm = self.emit(f"call double @llvm.sqrt.f64(double {total})")
        against = self.emit(f"fneg double {alpha}")
        beta = self.emit(f"call double @llvm.copysign.f64(double {norm}, double {against})")
        apart = self.emit(f"fsub double {alpha}, {beta}")
        tau = self.emit(f"fneg double {self.emit(f'fdiv double {apart}, {beta}')}")
        factor = self.emit(f"fdiv double 1.0, {apart}")
        unit = self.emit(f"load double, ptr {self.unit}, align 8")
        beta = self.emit(f"fmul double {beta}, {unit}")
        self.store(self.narrowed(tau, self.scalar), "%tau")
        self.store(self.narrowed(beta, self.scalar), "%beta")
        one = self.emit(f"fcmp oeq double {unit}, 1.0")
        self.branch(one, lambda: self.scaled(factor, None), lambda: self.scaled(factor, unit))

    def scaled(self, factor: str, unit: str | None) -> None:
        factors = self.splat(factor)
        units = self.splat(unit) if unit else None

        def step(i: str, _: list[str]) -> list[str]:
            x = self.widened_vector(self.vector_at(self.rest, i))
            if units:
                x = self.emit(f"fdiv {self.wide} {x}, {units}")
            x = self.emit(f"fmul {self.wide} {x}, {factors}")
            self.put(self.narrowed(x, self.vector), self.rest, i)
            return []

        self.vectors(self.length, [], step)

    def narrowed(self, value: str, kind: str) -> str:
        if self.is_double:
            return value
        wide = self.wide if kind == self.vector else "double"
        return self.emit(f"fptrunc {wide} {value} to {kind}")


class _FactorTask(Task):
    """The factor of one block."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "factor_task", _FACTORS)

    def text(self) -> str:
        g = self.given
        first = self.times("%task", BLOCK)
        count = self.smaller(self.minus(g["count"], first), BLOCK)
        at = self.plus(first, g["shift"])
        v = self.at(g["v"], self.plus(self.times(first, g["ld"]), at))
        t = self.at(g["t"], self.times("%task", BLOCK * BLOCK))
        tau = self.at(g["tau"], first)
        gram = self.scalars(BLOCK * BLOCK)
        size = self.minus(g["length"], at)
        self.gemm(
            (v, g["ld"], "1"),
            (v, "1", g["ld"]),
            (gram, str(BLOCK)),
            (count, count, size),
            False,
        )
        self.column = self.scalars(BLOCK)

        def row(i: str) -> None:
            start = self.at(t, self.times(i, BLOCK))
            self.loop(BLOCK, 1, lambda l: self.store("0.0", self.at(start, l)))
            weight = self.load(self.at(tau, i))
            of_gram = self.at(gram, self.times(i, BLOCK))

            def number(l: str) -> None:
                value = self.real("fmul", weight, self.load(self.at(of_gram, l)))
                self.store(value, self.at(self.column, l))

            self.loop(i, 1, number)
            self.run(
                "combine",
                *(f"ptr {start}", f"ptr {t}", f"i64 {BLOCK}", f"i64 {i}", f"i64 {BLOCK}"),
                f"ptr {self.column}",
            )
            self.store(self.minus_real(weight), self.at(start, i))

        self.loop(count, 1, row)
        return self.done()


class _Factors(Dense):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "factors")

    def text(self) -> str:
        fields = [(kind, f"%{name}") for kind, name in _FACTORS]
        blocks = self.rounded_up("%count", BLOCK)
        self.share("factor_task", fields, blocks)
        return self.finished(_list(_FACTORS))


class _BlockTask(Task):
    """A block of reflections times some columns."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "block_task", _BLOCK)

    def text(self) -> str:
        g = self.given
        first, columns = self.range(g["columns"], g["each"])
        c = self.at(g["c"], first)
        w = self.at(g["work"], first)
        row = self.plus(g["columns"], 0)
        other = self.at(w, self.times(row, BLOCK))
        v, ld, count, length = g["v"], g["ld"], g["count"], g["length"]
        c_row = g["c_row"]
        self.gemm((v, ld, "1"), (c, c_row, "1"), (w, row), (count, columns, length), False)
        backward = self.test("ne", g["backward"], 0)
        t_row = self.chosen(backward, "1", str(BLOCK))
        t_column = self.chosen(backward, str(BLOCK), "1")
        self.gemm(
            (g["t"], t_row, t_column), (w, row, "1"), (other, row), (count, columns, count), False
        )
        self.gemm((v, "1", ld), (other, row, "1"), (c, c_row), (length, columns, count), True)
        return self.done()


class _Block(Dense):
    """One block times C, shared between threads by columns."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "block")

    def text(self) -> str:
        work = self.times(self.times("%length", "%columns"), self.times("%count", 2))
        each, tasks = pieces(self, "%columns", work, LEAST, MOST, self.shape.columns)
        fields = [(kind, f"%{name}") for kind, name in _BLOCK[:-1]]
        some = self.test("sgt", self.smaller("%columns", "%length"), 0)
        self.branch(some, lambda: self.share("block_task", [*fields, ("i64", each)], tasks))
        return self.finished(_list(_BLOCK[:-1]))


class _Apply(Dense):
    """All blocks, one after the other."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "apply")

    def text(self) -> str:
        blocks = self.rounded_up("%count", BLOCK)
        backward = self.test("ne", "%backward", 0)
        growing = self.test("ne", "%growing", 0)

        def one(turn: str) -> None:
            reverse = self.minus(self.minus(blocks, 1), turn)
            block = self.chosen(backward, reverse, turn)
            first = self.times(block, BLOCK)
            count = self.smaller(self.minus("%count", first), BLOCK)
            at = self.plus(first, "%shift")
            left = self.chosen(growing, at, "0")
            v = self.at("%v", self.plus(self.times(first, "%ld"), at))
            c = self.at("%c", self.plus(self.times(at, "%c_row"), left))
            self.run(
                "block",
                *(f"ptr {v}", "i64 %ld", f"i64 {count}", f"i64 {self.minus('%length', at)}"),
                f"ptr {self.at('%t', self.times(block, BLOCK * BLOCK))}",
                *(f"ptr {c}", "i64 %c_row", f"i64 {self.minus('%columns', left)}"),
                *("ptr %work", "i64 %backward"),
            )

        self.loop(blocks, 1, one)
        return self.finished(
            f"{_list(_VECTOR)}, ptr %t, ptr %c, i64 %c_row, i64 %columns, ptr %work, "
            "i64 %backward, i64 %growing"
        )
