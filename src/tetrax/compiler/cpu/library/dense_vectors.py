"""The vector operations of dense linear algebra, on rows of padded matrices.

    dots(x, rows, ld, count, length, out)      out[r] = x · row r
    combine(y, rows, ld, count, length, coef)  y -= coef[r] row r, for all r
    rank_one(x, rows, ld, count, length, coef) row r -= coef[r] x
    scale(x, length, factor address)
    turn(source, source row, rows, columns, target, target row)   the transposed matrix;
                                               `tetrax_turn` is the same on several threads

All but `turn` go over their vectors in full registers, past the end into zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tetrax.compiler.cpu.library.dense_text import Dense, Task
from tetrax.compiler.cpu.library.gemm_text import Shape
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_types import ScalarType

ROWS = 4
"""Rows that are read together."""

_MANY = "ptr %x, ptr %rows, i64 %ld, i64 %count, i64 %length, ptr %out"


def vector_functions(shape: Shape) -> list[str]:
    """All functions, for one type."""
    kinds = (_Dots, _Combine, _RankOne)
    return [*(kind(shape).text() for kind in kinds), _Scale(shape).text(), _Turn(shape).text()]


def turn_symbols(type: ScalarType) -> tuple[str, ...]:
    """Transposition on several threads."""
    return (f"tetrax_turn_{type}",)


def turn_module(type: ScalarType, target: Target) -> str:
    """The LLVM module of `tetrax_turn`."""
    shape = Shape.of(type, target)
    functions = [_Turn(shape).text(), _TurnTask(shape).text(), _TurnAll(shape).text()]
    return "\n".join(["declare void @tetrax_parallel(ptr, ptr, i64, i64)", *functions])


class _OverRows(Dense):
    """A function that takes rows four at a time, and then one at a time."""

    symbol = ""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, self.symbol)

    def text(self) -> str:
        self.length = self.whole("%length")
        four = self.emit(f"and i64 %count, {-ROWS}")
        self.loop(four, ROWS, lambda r: self.rows(r, ROWS))
        self.loop("%count", 1, lambda r: self.rows(r, 1), start=four)
        return self.finished(_MANY)

    def pointers(self, first: str, count: int) -> list[str]:
        base = self.at("%rows", self.times(first, "%ld"))
        found = [base]
        for _ in range(count - 1):
            found.append(self.at(found[-1], "%ld"))
        return found

    def numbers(self, first: str, count: int) -> list[str]:
        """Negated coefficients of rows, in all lanes."""
        base = self.at("%out", first)
        places = [self.at(base, r) if r else base for r in range(count)]
        return [self.repeated(self.minus_real(self.load(place))) for place in places]

    def rows(self, first: str, count: int) -> None:
        raise NotImplementedError


class _Dots(_OverRows):
    symbol = "dots"

    def rows(self, first: str, count: int) -> None:
        rows = self.pointers(first, count)

        def step(i: str, sums: list[str]) -> list[str]:
            x = self.vector_at("%x", i)
            return [
                self.fma(x, self.vector_at(row, i), s) for row, s in zip(rows, sums, strict=True)
            ]

        unroll = 2 if count > 1 else 4
        sums = self.vectors(self.length, [self.zero()] * count, step, unroll)
        out = self.at("%out", first)
        for r in range(count):
            total = self.total(self.added(sums[r::count]))
            self.store(total, self.at(out, r) if r else out)


class _Combine(_OverRows):
    symbol = "combine"

    def rows(self, first: str, count: int) -> None:
        rows, numbers = self.pointers(first, count), self.numbers(first, count)

        def step(i: str, _: list[str]) -> list[str]:
            y = self.vector_at("%x", i)
            for row, number in zip(rows, numbers, strict=True):
                y = self.fma(number, self.vector_at(row, i), y)
            self.put(y, "%x", i)
            return []

        self.vectors(self.length, [], step, 2)


class _RankOne(_OverRows):
    symbol = "rank_one"

    def rows(self, first: str, count: int) -> None:
        rows, numbers = self.pointers(first, count), self.numbers(first, count)

        def step(i: str, _: list[str]) -> list[str]:
            x = self.vector_at("%x", i)
            for row, number in zip(rows, numbers, strict=True):
                self.put(self.fma(number, x, self.vector_at(row, i)), row, i)
            return []

        self.vectors(self.length, [], step, 1)


class _Scale(Dense):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "scale")

    def text(self) -> str:
        factor = self.repeated(self.load("%factor"))

        def step(i: str, _: list[str]) -> list[str]:
            self.put(self.product(factor, self.vector_at("%x", i)), "%x", i)
            return []

        self.vectors(self.whole("%length"), [], step)
        return self.finished("ptr %x, i64 %length, ptr %factor")


class _Turn(Dense):
    """The transposed matrix, by squares of registers."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "turn")

    def text(self) -> str:
        lanes = self.lanes
        rows = self.emit(f"and i64 %m, {-lanes}")
        columns = self.emit(f"and i64 %n, {-lanes}")
        self.loop(rows, lanes, lambda i: self.loop(columns, lanes, lambda j: self.square(i, j)))
        self.one_by_one("0", rows, columns, "%n")
        self.one_by_one(rows, "%m", "0", "%n")
        return self.finished(
            "ptr %source, i64 %source_row, i64 %m, i64 %n, ptr %target, i64 %target_row"
        )

    def square(self, i: str, j: str) -> None:
        source = self.at("%source", self.plus(self.times(i, "%source_row"), j))
        target = self.at("%target", self.plus(self.times(j, "%target_row"), i))
        places = self.places(source, "%source_row"), self.places(target, "%target_row")
        rows = self.turned([self.load(place, self.vector) for place in places[0]])
        for row, place in zip(rows, places[1], strict=True):
            self.store(row, place, self.vector)

    def places(self, base: str, row: str) -> Sequence[str]:
        found = [base]
        for _ in range(self.lanes - 1):
            found.append(self.at(found[-1], row))
        return found

    def one_by_one(self, top: str, bottom: str, left: str, right: str) -> None:
        def element(i: str, j: str) -> None:
            value = self.load(self.at("%source", self.plus(self.times(i, "%source_row"), j)))
            self.store(value, self.at("%target", self.plus(self.times(j, "%target_row"), i)))

        row: Callable[[str], None] = lambda i: self.loop(
            right, 1, lambda j: element(i, j), start=left
        )
        self.loop(bottom, 1, row, start=top)


_TURN = [
    *(("ptr", "source"), ("i64", "source_row"), ("i64", "m"), ("i64", "n")),
    *(("ptr", "target"), ("i64", "target_row")),
]
STRIP = 128
"""Columns that a task transposes."""


class _TurnTask(Task):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "turn_task", _TURN)

    def text(self) -> str:
        g = self.given
        first, columns = self.range(g["n"], str(STRIP))
        self.run(
            "turn",
            *(f"ptr {self.at(g['source'], first)}", f"i64 {g['source_row']}", f"i64 {g['m']}"),
            f"i64 {columns}",
            f"ptr {self.at(g['target'], self.times(first, g['target_row']))}",
            f"i64 {g['target_row']}",
        )
        return self.done()


class _TurnAll(Dense):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "tetrax_turn")

    def text(self) -> str:
        fields = [(kind, f"%{name}") for kind, name in _TURN]
        self.share("turn_task", fields, self.rounded_up("%n", STRIP))
        given = ", ".join(f"{kind} %{name}" for kind, name in _TURN)
        return self.finished(given, linkage="")
