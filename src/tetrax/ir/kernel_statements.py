"""Statements of the kernel IR, and the kernel itself; re-exported by `ir/kernel.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tetrax.errors import KernelError
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_expr import Buffer, Expr, ExprLike, short_text
from tetrax.ir.kernel_index import index_constant
from tetrax.ir.kernel_types import I64, ScalarType


def failure(op: str, reason: str, *operands: Expr) -> KernelError:
    """The error of a badly typed operation."""
    shown = ", ".join(f"{short_text(x)} of type {x.type}" for x in operands)
    return KernelError(f"{op}: {reason}; got {shown}")


def index(value: ExprLike) -> Expr:
    """An i64 expression of a Python int or an i64 expression."""
    if isinstance(value, Expr):
        if value.type is not I64:
            raise failure("index", "an index must have type i64", value)
        return value
    return index_constant(int(value))


def as_expr(value: ExprLike, type: ScalarType) -> Expr:
    """An expression of a type: expressions are checked, Python scalars become constants."""
    if isinstance(value, Expr):
        if value.type is not type:
            raise failure("operand", f"expected type {type}", value)
        return value
    return const(value, type)


@dataclass(frozen=True)
class Carried:
    """A value carried round a loop: visible as `variable` inside and, with its final value, after
    the loop.
    """

    variable: Expr
    initial: Expr
    following: Expr


@dataclass(frozen=True)
class Block:
    """Statements one after another."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class Loop:
    """`for variable in range(extent)`.

    `kind` 'vector' and 'parallel' promise that iterations do not touch what others store, 'serial'
    promises nothing. Temporary buffers that only a 'parallel' loop uses, or whose elements all its
    iterations use, are private to each iteration. A 'tasks' loop, made from these by the scheduler,
    runs each iteration as a task of the worker pool; `work` is the loop's time on one thread in
    nanoseconds, as the pool counts it.
    """

    variable: Expr
    extent: Expr
    body: Statement
    carried: tuple[Carried, ...] = ()
    kind: str = "serial"
    work: int = 0


@dataclass(frozen=True)
class While:
    """`while condition: body`, the condition tested on the carried variables before each turn."""

    carried: tuple[Carried, ...]
    condition: Expr
    body: Statement


@dataclass(frozen=True)
class Store:
    """Write a value to an element of a buffer."""

    buffer: Buffer
    offset: Expr
    value: Expr


@dataclass(frozen=True)
class If:
    """Run one of two statements."""

    condition: Expr
    then: Statement
    orelse: Statement = Block(())


@dataclass(frozen=True)
class Address:
    """The address of an element, as an argument of a call."""

    buffer: Buffer
    offset: Expr


@dataclass(frozen=True)
class Procedure:
    """A piece of the kernel as an argument of a call: the routine gets two pointers, a function
    `void f(ptr context, i64 parameter…)` and its context, and may call it any number of times, from
    several threads at once. Calls must not meet in what they store.
    """

    parameters: tuple[Expr, ...]
    body: Statement


@dataclass(frozen=True)
class Call:
    """Call a library routine; it may read and write the buffers whose addresses it is given."""

    symbol: str
    arguments: tuple[Expr | Address | Procedure, ...]


Statement = Block | Loop | While | Store | If | Call


@dataclass(frozen=True)
class Kernel:
    """A compiled unit: `void name(ptr buffer…, scalar…, ptr scratch)`, buffers without temporaries,
    in order.
    """

    name: str
    buffers: tuple[Buffer, ...]
    scalars: tuple[Expr, ...] = ()
    body: Statement = field(default=Block(()))

    @property
    def parameters(self) -> tuple[Buffer, ...]:
        """The buffers that are parameters: all but the temporary ones."""
        return tuple(b for b in self.buffers if b.mode != "temp")

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch space that temporary buffers take."""
        return sum(_aligned(b.size * b.element.bytes) for b in self.buffers if b.mode == "temp")

    def temporary_offsets(self) -> dict[Buffer, int]:
        """Byte offset of each temporary buffer in the scratch space."""
        offsets: dict[Buffer, int] = {}
        position = 0
        for buffer in self.buffers:
            if buffer.mode == "temp":
                offsets[buffer] = position
                position += _aligned(buffer.size * buffer.element.bytes)
        return offsets


def _aligned(size: int) -> int:
    return (size + 63) // 64 * 64


def store(buffer: Buffer, offset: ExprLike, value: ExprLike) -> Store:
    """A store statement; the value must have the buffer's element type."""
    return Store(buffer, index(offset), as_expr(value, buffer.element))


def block(*statements: Statement) -> Statement:
    """Statements one after another; nested blocks are flattened."""
    flat: list[Statement] = []
    for statement in statements:
        flat.extend(statement.statements if isinstance(statement, Block) else (statement,))
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def loop(
    variable: Expr,
    extent: ExprLike,
    body: Statement,
    carried: Sequence[tuple[Expr, Expr, Expr]] = (),
    kind: str = "serial",
) -> Loop:
    """A loop statement; see `Loop`."""
    return Loop(variable, index(extent), body, tuple(Carried(*c) for c in carried), kind)
