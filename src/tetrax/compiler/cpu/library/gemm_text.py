"""What the functions of the matrix product share: writing LLVM text for one element type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tetrax.compiler.cpu.emit_loops import branch, counted_loop
from tetrax.compiler.cpu.emitter import Emitter
from tetrax.compiler.cpu.llvm_text import (
    intrinsic_suffix,
    memory_type,
    register_type,
    vector_text,
)
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_statements import Kernel
from tetrax.ir.kernel_types import BF16, F16, F32, ScalarType

ROWS = 6
"""Rows of a full register tile."""

ARGUMENTS = (
    ("ptr", "a"),
    ("ptr", "b"),
    ("ptr", "c"),
    ("i64", "m"),
    ("i64", "n"),
    ("i64", "k"),
    ("i64", "a_row"),
    ("i64", "a_col"),
    ("i64", "b_row"),
    ("i64", "b_col"),
    ("i64", "c_row"),
    ("i32", "accumulate"),
)
"""What a product is given, by type and name."""
INNER_ARGUMENTS = (
    *ARGUMENTS,
    ("ptr", "epilogue"),
    ("ptr", "context"),
    ("i64", "row0"),
    ("i64", "col0"),
)
"""What its parts are given besides: what to call for finished blocks, and where in C they begin."""


def parameters(arguments: Sequence[tuple[str, str]]) -> str:
    """The parameter list of a function with some arguments."""
    return ", ".join(f"{kind} %{name}" for kind, name in arguments)


PARAMETERS = parameters(INNER_ARGUMENTS)


@dataclass(frozen=True)
class Shape:
    """Element type and lanes of a register: tiles are 6 rows by two registers.

    `operand` is the element type of A and B, which may be narrower: f16 and bf16 are widened on the
    way into registers.
    """

    type: ScalarType
    operand: ScalarType
    lanes: int
    target: Target
    vectors: int = 2

    @property
    def columns(self) -> int:
        """Columns of a full tile."""
        return self.lanes * self.vectors

    @property
    def is_narrow(self) -> bool:
        """Whether operands are widened."""
        return self.operand is not self.type

    @classmethod
    def of(cls, operand: ScalarType, target: Target) -> Shape:
        type = F32 if operand.is_storage else operand
        return cls(type, operand, max(2, target.vector_bits // type.bits), target)


class Function:
    """One function under construction; subclasses write its body."""

    def __init__(self, shape: Shape, name: str) -> None:
        self.shape = shape
        self.name = name
        self.type = shape.type
        self.operand = shape.operand
        self.lanes = shape.lanes
        self.scalar = register_type(shape.type)
        self.vector = register_type(shape.type, shape.lanes)
        self.suffix = f"v{shape.lanes}f{shape.type.bits}"
        self.align = f"align {shape.type.bytes}"
        self.em = Emitter(Kernel(name, ()), shape.target, {}, False)

    def finished(self, parameters: str, linkage: str = "internal ") -> str:
        """The definition, with what was written so far as its body."""
        self.em.effect("ret void")
        body = "\n".join(self.em.scopes[0].lines)
        return f"define {linkage}void @{self.name}({parameters}) nounwind {{\nentry:\n{body}\n}}\n"

    # --- arithmetic on i64 ---

    def emit(self, instruction: str) -> str:
        return self.em.emit(instruction)

    def times(self, a: str, b: str | int) -> str:
        return self.emit(f"mul nsw i64 {a}, {b}")

    def plus(self, a: str, b: str | int) -> str:
        return self.emit(f"add nsw i64 {a}, {b}")

    def minus(self, a: str | int, b: str | int) -> str:
        return self.emit(f"sub nsw i64 {a}, {b}")

    def over(self, a: str, b: str | int) -> str:
        """A quotient of numbers that are not negative."""
        return self.emit(f"udiv i64 {a}, {b}")

    def smaller(self, a: str, b: str | int) -> str:
        return self.emit(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def larger(self, a: str, b: str | int) -> str:
        return self.emit(f"call i64 @llvm.smax.i64(i64 {a}, i64 {b})")

    def rounded_up(self, a: str, b: str | int) -> str:
        """The quotient rounded up."""
        less = self.minus(b, 1) if isinstance(b, str) else b - 1
        return self.over(self.plus(a, less), b)

    def test(self, comparison: str, a: str, b: str | int) -> str:
        return self.emit(f"icmp {comparison} i64 {a}, {b}")

    def both(self, a: str, b: str) -> str:
        return self.emit(f"and i1 {a}, {b}")

    def either(self, a: str, b: str) -> str:
        return self.emit(f"or i1 {a}, {b}")

    def chosen(self, test: str, a: str, b: str, kind: str = "i64") -> str:
        return self.emit(f"select i1 {test}, {kind} {a}, {kind} {b}")

    # --- memory ---

    def at(self, pointer: str, elements: str | int, type: ScalarType | None = None) -> str:
        element = self.scalar if type is None else memory_type(type)
        return self.emit(f"getelementptr {element}, ptr {pointer}, i64 {elements}")

    def load(self, pointer: str, kind: str | None = None) -> str:
        return self.emit(f"load {kind or self.scalar}, ptr {pointer}, {self.align}")

    def store(self, value: str, pointer: str, kind: str | None = None) -> None:
        self.em.effect(f"store {kind or self.scalar} {value}, ptr {pointer}, {self.align}")

    def prefetch(self, pointer: str, write: bool = False) -> None:
        self.em.effect(
            f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {int(write)}, i32 3, i32 1)"
        )

    # --- memory of A and B ---

    def operand_at(self, pointer: str, elements: str | int) -> str:
        return self.at(pointer, elements, self.operand)

    def operand_value(self, pointer: str) -> str:
        """An element of A or B in the type of the product."""
        if not self.shape.is_narrow:
            return self.load(pointer)
        kind = memory_type(self.operand)
        return self.widened(self.emit(f"load {kind}, ptr {pointer}, align 2"), 1)

    def operand_lanes(self, pointer: str, count: int) -> str:
        """Neighbouring elements of A or B in the type of the product."""
        if not self.shape.is_narrow:
            return self.load(pointer, register_type(self.type, count))
        kind = memory_type(self.operand, count)
        return self.widened(self.emit(f"load {kind}, ptr {pointer}, align 2"), count)

    def operand_read(self, pointer: str, v: int, mask: str | None = None) -> str:
        """Register `v` of a row of A or B in the type of the product."""
        place = self.operand_at(pointer, v * self.lanes) if v else pointer
        if mask is None:
            return self.operand_lanes(place, self.lanes)
        if not self.shape.is_narrow:
            return self.read(place, 0, mask)
        kind = memory_type(self.operand, self.lanes)
        text = self.emit(
            f"call {kind} @llvm.masked.load.v{self.lanes}i16.p0(ptr align 2 {place}, "
            f"<{self.lanes} x i1> {mask}, {kind} zeroinitializer)"
        )
        return self.widened(text, self.lanes)

    def widened(self, text: str, lanes: int) -> str:
        """The f32 that the bits of an f16 or bf16 stand for."""
        narrow, wide = vector_text("i16", lanes), vector_text("i32", lanes)
        result = vector_text("float", lanes)
        if self.operand is F16 and self.shape.target.has_f16c:
            half = vector_text("half", lanes)
            return self.emit(
                f"fpext {half} {self.emit(f'bitcast {narrow} {text} to {half}')} to {result}"
            )
        bits = self.emit(f"zext {narrow} {text} to {wide}")

        def number(value: int) -> str:
            return str(value) if lanes == 1 else f"splat (i32 {value})"

        def operation(name: str, a: str, value: int) -> str:
            return self.emit(f"{name} {wide} {a}, {number(value)}")

        if self.operand is BF16:
            return self.emit(f"bitcast {wide} {operation('shl', bits, 16)} to {result}")
        sign = operation("shl", operation("and", bits, 0x8000), 16)
        size = operation("shl", operation("and", bits, 0x7FFF), 13)
        # the exponent of an f16 starts at -14; a product by a power of two also does denormals
        scale = "0x46F0000000000000"
        factor = scale if lanes == 1 else f"splat (float {scale})"
        usual = self.emit(
            f"fmul {result} {self.emit(f'bitcast {wide} {size} to {result}')}, {factor}"
        )
        usual = self.emit(f"bitcast {result} {usual} to {wide}")
        special = operation("or", size, 0x7F800000)
        test = self.emit(f"icmp uge {wide} {size}, {number(0x0F800000)}")
        condition = "i1" if lanes == 1 else f"<{lanes} x i1>"
        kept = self.emit(f"select {condition} {test}, {wide} {special}, {wide} {usual}")
        return self.emit(f"bitcast {wide} {self.emit(f'or {wide} {kept}, {sign}')} to {result}")

    # --- control ---

    def finish_block(self, row: str, rows: str, column: str, columns: str) -> None:
        """Tell whoever wants to know that a block of C is finished."""

        def tell() -> None:
            top, left = self.plus("%row0", row), self.plus("%col0", column)
            self.em.effect(
                f"call void %epilogue(ptr %context, i64 {top}, i64 {rows}, i64 {left}, "
                f"i64 {columns})"
            )

        self.branch(self.emit("icmp ne ptr %epilogue, null"), tell)

    def branch(
        self,
        test: str,
        then: Callable[[], None],
        orelse: Callable[[], None] | None = None,
    ):
        branch(self.em, test, then, orelse)

    def loop(
        self,
        stop: str | int,
        step: int | str,
        body: Callable[[str], None],
        start: str = "0",
    ) -> None:
        """`body(index)` for start, start + step … below stop."""

        def run(index: str, _: list[str]) -> list[str]:
            body(index)
            return []

        counted_loop(self.em, start, str(stop), int(step), [], run)

    def carried_loop(
        self,
        stop: str,
        step: int,
        carried: Sequence[tuple[str, str]],
        body: Callable[[str, list[str]], list[str]],
        start: str = "0",
    ) -> list[str]:
        """A loop with carried values: (type, initial value) of each."""
        return counted_loop(self.em, start, stop, step, carried, body)

    def call(self, symbol: str, *arguments: str) -> None:
        self.em.effect(f"call void @{symbol}({', '.join(arguments)})")

    # --- vectors ---

    def fma(self, a: str, b: str, c: str, lanes: int | None = None) -> str:
        """`a b + c`, rounded once where the machine can."""
        lanes = lanes or self.lanes
        kind = register_type(self.type, lanes)
        if not self.shape.target.has_fma:
            return self.emit(f"fadd {kind} {self.emit(f'fmul {kind} {a}, {b}')}, {c}")
        suffix = intrinsic_suffix(self.type, lanes)
        return self.emit(f"call {kind} @llvm.fma.{suffix}({kind} {a}, {kind} {b}, {kind} {c})")

    def product(self, a: str, b: str) -> str:
        return self.emit(f"fmul {self.vector} {a}, {b}")

    def repeated(self, value: str) -> str:
        """A scalar in all lanes."""
        first = self.emit(f"insertelement {self.vector} poison, {self.scalar} {value}, i64 0")
        return self.shuffled(first, "poison", [0] * self.lanes)

    def mask(self, count: str, lanes: int | None = None) -> str:
        """The lanes below a count."""
        lanes = lanes or self.lanes
        kind = f"<{lanes} x i64>"
        first = self.emit(f"insertelement {kind} poison, i64 {count}, i64 0")
        wide = self.emit(
            f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer"
        )
        numbers = ", ".join(f"i64 {lane}" for lane in range(lanes))
        return self.emit(f"icmp slt {kind} <{numbers}>, {wide}")

    def read(self, pointer: str, v: int, mask: str | None = None) -> str:
        """Register `v` of a row; lanes outside a mask are 0 and not touched."""
        place = self.at(pointer, v * self.lanes) if v else pointer
        if mask is None:
            return self.load(place, self.vector)
        return self.emit(
            f"call {self.vector} @llvm.masked.load.{self.suffix}.p0(ptr {self.align} {place}, "
            f"<{self.lanes} x i1> {mask}, {self.vector} zeroinitializer)"
        )

    def write(self, pointer: str, v: int, text: str, mask: str | None = None) -> None:
        """Write register `v` of a row, as far as the mask goes."""
        place = self.at(pointer, v * self.lanes) if v else pointer
        if mask is None:
            self.store(text, place, self.vector)
            return
        self.call(
            f"llvm.masked.store.{self.suffix}.p0",
            f"{self.vector} {text}",
            f"ptr {self.align} {place}",
            f"<{self.lanes} x i1> {mask}",
        )

    def shuffled(self, a: str, b: str, picks: Sequence[int], lanes: int | None = None) -> str:
        kind = register_type(self.type, lanes or self.lanes)
        mask = ", ".join(f"i32 {pick}" for pick in picks)
        return self.emit(f"shufflevector {kind} {a}, {kind} {b}, <{len(picks)} x i32> <{mask}>")

    def turned(self, rows: Sequence[str]) -> list[str]:
        """Transpose a square of registers by exchanging ever smaller off-diagonal blocks."""
        rows, lanes = list(rows), self.lanes
        distance = lanes // 2
        while distance:
            for i in range(lanes):
                if i & distance:
                    continue
                a, b = rows[i], rows[i + distance]
                low = [x if not x & distance else lanes + x - distance for x in range(lanes)]
                high = [x + distance if not x & distance else lanes + x for x in range(lanes)]
                rows[i], rows[i + distance] = (
                    self.shuffled(a, b, low),
                    self.shuffled(a, b, high),
                )
            distance //= 2
        return rows
