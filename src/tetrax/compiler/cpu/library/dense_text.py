"""What the routines of dense linear algebra share: loops over padded vectors, products, tasks.

Vectors are rows of matrices whose row stride leaves at least PAD elements after the last column,
and these hold zeros. So loops over vectors go in full registers, a little past the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tetrax.compiler.cpu.library.gemm_text import Function, Shape
from tetrax.compiler.cpu.llvm_text import intrinsic_suffix
from tetrax.ir.kernel_types import F64
from tetrax.ops.linalg.blocks import PAD

AWAKE = 1_000_000
"""The work that the pool is told of: more calls follow at once, so workers are worth waking."""
NO_TASK = "i64 0"
DECLARATIONS = """
declare void @tetrax_parallel(ptr, ptr, i64, i64)
declare void @tetrax_gemm_$T$(ptr, ptr, ptr, i64, i64, i64, i64, i64, i64, i64, i64, i32)
declare void @tetrax_turn_$T$(ptr, i64, i64, i64, ptr, i64)
"""
"""What the modules use of others."""

Fields = Sequence[tuple[str, str]]


class Dense(Function):
    """One function under construction, with what linear algebra needs."""

    def __init__(self, shape: Shape, name: str) -> None:
        super().__init__(shape, f"{name}_{shape.type}")
        self.is_double = shape.type is F64

    # --- memory of the function ---

    def reserve(self, kind: str, count: int = 1) -> str:
        """Memory on the stack, for the whole function."""
        name = f"%{self.em.fresh('own')}"
        line = f"  {name} = alloca {kind}, i64 {count}, align 64"
        self.em.scopes[0].lines.insert(0, line)
        return name

    def scalars(self, count: int = 1) -> str:
        """Room for elements."""
        return self.reserve(self.scalar, count)

    # --- calls ---

    def run(self, name: str, *arguments: str) -> None:
        """Call a function of this module; arguments with their types."""
        self.call(f"{name}_{self.type}", *arguments)

    def gemm(
        self,
        a: tuple[str, str, str],
        b: tuple[str, str, str],
        c: tuple[str, str],
        sizes: tuple[str, str, str],
        accumulate: bool,
    ) -> None:
        """C = A B or C += A B; operands by pointer, row stride and column stride."""
        strides = [*a[1:], *b[1:], c[1]]
        self.call(
            f"tetrax_gemm_{self.type}",
            *(f"ptr {operand[0]}" for operand in (a, b, c)),
            *(f"i64 {x}" for x in (*sizes, *strides)),
            f"i32 {int(accumulate)}",
        )

    def share(self, name: str, fields: Fields, tasks: str) -> None:
        """Run a function of type Task once per task, on several threads; `fields` are its own."""
        record = "{ " + ", ".join(kind for kind, _ in fields) + " }"
        place = self.reserve(record)
        for at, (kind, text) in enumerate(fields):
            field = self.emit(f"getelementptr {record}, ptr {place}, i64 0, i32 {at}")
            self.em.effect(f"store {kind} {text}, ptr {field}, align 8")
        symbol = f"{name}_{self.type}"
        alone = lambda: self.call(symbol, f"ptr {place}", NO_TASK)
        several = lambda: self.call(
            "tetrax_parallel", f"ptr @{symbol}", f"ptr {place}", f"i64 {tasks}", f"i64 {AWAKE}"
        )
        self.branch(self.test("sgt", tasks, 1), several, alone)

    def clear_pads(self, rows: str, ld: str, count: str, length: str) -> None:
        """Make what follows rows of some length zero."""

        def clear(r: str) -> None:
            end = self.at(rows, self.plus(self.times(r, ld), length))
            for i in range(0, PAD, self.lanes):
                self.store("zeroinitializer", self.at(end, i), self.vector)

        self.loop(count, 1, clear)

    # --- scalars ---

    def literal(self, value: float) -> str:
        """A constant that both types hold exactly."""
        return repr(float(value))

    def real(self, operation: str, a: str, b: str) -> str:
        return self.emit(f"{operation} {self.scalar} {a}, {b}")

    def root(self, a: str) -> str:
        suffix = intrinsic_suffix(self.type, 1)
        return self.emit(f"call {self.scalar} @llvm.sqrt.{suffix}({self.scalar} {a})")

    def minus_real(self, a: str) -> str:
        return self.emit(f"fneg {self.scalar} {a}")

    # --- vectors ---

    def whole(self, length: str) -> str:
        """A length rounded up to full registers."""
        return self.emit(f"and i64 {self.plus(length, self.lanes - 1)}, {-self.lanes}")

    def vectors(
        self,
        length: str,
        carried: Sequence[tuple[str, str]],
        body: Callable[[str, list[str]], list[str]],
        unroll: int = 1,
    ) -> list[str]:
        """`body(offset, carried)` for every register of a vector, several in a turn.

        `length` is a multiple of the lanes. With `unroll` the carried values are one group per
        register of a turn; the body gets one group.
        """
        step = self.lanes * unroll
        group = len(carried)

        def turn(i: str, values: list[str]) -> list[str]:
            result = []
            for u in range(unroll):
                at = self.plus(i, u * self.lanes) if u else i
                result += body(at, values[u * group : (u + 1) * group])
            return result

        many = self.emit(f"sdiv i64 {length}, {step}")
        many = self.times(many, step)
        values = self.carried_loop(many, step, list(carried) * unroll, turn)
        if unroll == 1:
            return values
        kinds = [kind for kind, _ in carried]
        first = list(zip(kinds, values[:group], strict=True))
        rest = self.carried_loop(length, self.lanes, first, lambda i, v: body(i, v), start=many)
        return rest + values[group:]

    def zero(self) -> tuple[str, str]:
        """A carried vector that starts at zero."""
        return (self.vector, "zeroinitializer")

    def added(self, values: Sequence[str]) -> str:
        """The sum of vectors, in pairs."""
        values = list(values)
        while len(values) > 1:
            half = (len(values) + 1) // 2
            pairs = zip(values, values[half:], strict=False)
            sums = [self.emit(f"fadd {self.vector} {a}, {b}") for a, b in pairs]
            values = sums + values[len(sums) : half]
        return values[0]

    def total(self, value: str) -> str:
        """The sum of the lanes."""
        return self.emit(
            f"call reassoc {self.scalar} @llvm.vector.reduce.fadd.{self.suffix}"
            f"({self.scalar} -0.0, {self.vector} {value})"
        )

    def moved(self, source: str, target: str, length: str, negate: bool = False) -> None:
        """Copy a vector, or what is opposite to it."""

        def step(i: str, _: list[str]) -> list[str]:
            value = self.vector_at(source, i)
            if negate:
                value = self.emit(f"fneg {self.vector} {value}")
            self.put(value, target, i)
            return []

        self.vectors(length, [], step)

    def vector_at(self, pointer: str, i: str) -> str:
        return self.load(self.at(pointer, i), self.vector)

    def put(self, value: str, pointer: str, i: str) -> None:
        self.store(value, self.at(pointer, i), self.vector)


class Task(Dense):
    """A function that `share` runs: its fields are in `self.given`, its number is %task."""

    def __init__(self, shape: Shape, name: str, fields: Sequence[tuple[str, str]]) -> None:
        super().__init__(shape, name)
        record = "{ " + ", ".join(kind for kind, _ in fields) + " }"
        self.given: dict[str, str] = {}
        for at, (kind, field) in enumerate(fields):
            place = self.emit(f"getelementptr {record}, ptr %context, i64 0, i32 {at}")
            self.given[field] = self.emit(f"load {kind}, ptr {place}, align 8")

    def done(self) -> str:
        """The function's text."""
        return self.finished("ptr %context, i64 %task")

    def range(self, count: str, each: str) -> tuple[str, str]:
        """The part of `count` things that is this task's: the first, and how many."""
        first = self.times("%task", each)
        return first, self.smaller(self.minus(count, first), each)


def pieces(function: Dense, count: str, work: str, least: int, most: int, unit: int):
    """How `count` things are cut by the work there is: things per task, and tasks."""
    wanted = function.larger(function.smaller(function.over(work, least), most), 1)
    units = function.rounded_up(function.rounded_up(count, wanted), unit)
    each = function.times(function.larger(units, 1), unit)
    return each, function.rounded_up(count, each)
