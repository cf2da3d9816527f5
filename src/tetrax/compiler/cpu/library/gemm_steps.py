"""Few rows times a matrix of short rows, shared between threads by the steps of k.

    void tetrax_steps_f32(…the parameters of the product…)

Pieces of the columns of B would be pieces of pages, which memory gives slowly; so each task takes
the whole rows of B for some steps of k. The sums of all but the first are kept apart, and added to
C in order. How many pieces there are depends on the sizes alone.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.gemm_stream import STEPS, stream_symbol
from tetrax.compiler.cpu.library.gemm_text import INNER_ARGUMENTS, PARAMETERS, Function, Shape
from tetrax.ir.kernel_types import ScalarType

MOST_PIECES = 4
LONGEST_ROW = 8192
"""Bytes of the rows of B up to which they are not cut."""
LEAST_STEPS = 64
"""Steps of k from which they are shared."""
MOST_APART = 1 << 18
"""Bytes of one sum that is kept apart."""

_RECORD = "{ " + ", ".join(kind for kind, _ in INNER_ARGUMENTS) + ", ptr, i64 }"
_NAMES = (*INNER_ARGUMENTS, ("ptr", "apart"), ("i64", "depth"))


def steps_symbol(type: ScalarType) -> str:
    """The routine's name."""
    return f"tetrax_steps_{type}"


def steps_functions(shape: Shape, least_task: int, per_nanosecond: int) -> list[str]:
    """The routine and its task; a task has at least so many multiplications."""
    return [_Task(shape).text(), _Steps(shape).text(least_task, per_nanosecond)]


def _task_symbol(type: ScalarType) -> str:
    return f"tetrax_steps_task_{type}"


class _Steps(Function):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, steps_symbol(shape.operand))

    def text(self, least_task: int, per_nanosecond: int) -> str:
        record = self.emit(f"alloca {_RECORD}, align 8")
        size = self.times("%m", "%n")
        work = self.times(size, "%k")
        wanted = self.larger(self.smaller(self.over(work, least_task), MOST_PIECES), 2)
        depth = self.times(self.rounded_up(self.rounded_up("%k", wanted), STEPS), STEPS)
        pieces = self.rounded_up("%k", depth)
        more = self.minus(pieces, 1)
        length = self.times(self.times(size, more), self.type.bytes)
        apart = self.emit(f"call ptr @tetrax_local_memory(i64 {length})")
        values = [(kind, f"%{name}") for kind, name in INNER_ARGUMENTS]
        for at, (kind, text) in enumerate([*values, ("ptr", apart), ("i64", depth)]):
            place = self.emit(f"getelementptr {_RECORD}, ptr {record}, i64 0, i32 {at}")
            self.em.effect(f"store {kind} {text}, ptr {place}, align 4")
        self.call(
            "tetrax_parallel",
            f"ptr @{_task_symbol(self.operand)}",
            f"ptr {record}",
            f"i64 {pieces}",
            f"i64 {self.over(work, per_nanosecond)}",
        )
        self.loop("%m", 1, lambda i: self.add_row(i, apart, size, more))
        self.finish_block("0", "%m", "0", "%n")
        return self.finished(PARAMETERS)

    def add_row(self, i: str, apart: str, size: str, more: str) -> None:
        """Add what was kept apart to a row of C."""
        target = self.at("%c", self.times(i, "%c_row"))
        source = self.at(apart, self.times(i, "%n"))

        def columns(j: str, mask: str | None) -> None:
            def add(piece: str, carried: list[str]) -> list[str]:
                place = self.at(source, self.plus(self.times(piece, size), j))
                value = self.read(place, 0, mask)
                return [self.emit(f"fadd {self.vector} {carried[0]}, {value}")]

            place = self.at(target, j)
            first = [(self.vector, self.read(place, 0, mask))]
            self.write(place, 0, self.carried_loop(more, 1, first, add)[0], mask)

        whole = self.emit(f"and i64 %n, {-self.lanes}")
        self.loop(whole, self.lanes, lambda j: columns(j, None))
        self.loop("%n", self.lanes, lambda j: columns(j, self.mask(self.minus("%n", j))), whole)


class _Task(Function):
    """The product of some steps of k: the first ones into C, others apart."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, _task_symbol(shape.operand))

    def text(self) -> str:
        v = {}
        for at, (kind, name) in enumerate(_NAMES):
            place = self.emit(f"getelementptr {_RECORD}, ptr %context, i64 0, i32 {at}")
            v[name] = self.emit(f"load {kind}, ptr {place}, align 4")
        start = self.times("%task", v["depth"])
        v["a"] = self.operand_at(v["a"], self.times(start, v["a_col"]))
        v["b"] = self.operand_at(v["b"], self.times(start, v["b_row"]))
        v["k"] = self.smaller(self.minus(v["k"], start), v["depth"])
        first = self.test("eq", "%task", 0)
        size = self.times(v["m"], v["n"])
        own = self.at(v["apart"], self.times(self.minus("%task", 1), size))
        v["c"] = self.chosen(first, v["c"], own, "ptr")
        v["c_row"] = self.chosen(first, v["c_row"], v["n"])
        v["accumulate"] = self.chosen(first, v["accumulate"], "0", "i32")
        v["epilogue"] = "null"
        passed = ", ".join(f"{kind} {v[name]}" for kind, name in INNER_ARGUMENTS)
        self.em.effect(f"call void @{stream_symbol(self.operand)}({passed})")
        return self.finished("ptr %context, i64 %task")
