"""Write kernels that store: loops, branches and carried values as `with` blocks.

    b = KernelBuilder()
    source, target = b.input("source", F32, 10), b.output("target", F32, 10)
    total = b.carry("total", const(0.0, F32))
    with b.loop(10) as i:
        total.set(add(total.value, b.load(source, i)))
        b.store(target, i, total.value)
    kernel = b.build("running_sum")

A carried value belongs to the first loop opened after it is made; after that loop `value` is the
final value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tetrax.errors import KernelError
from tetrax.ir.kernel_check import check
from tetrax.ir.kernel_expr import Buffer, Expr, ExprLike
from tetrax.ir.kernel_loops import load
from tetrax.ir.kernel_operations import index_variable, variable
from tetrax.ir.kernel_statements import (
    Address,
    Call,
    Carried,
    If,
    Kernel,
    Loop,
    Procedure,
    Statement,
    While,
    as_expr,
    block,
    index,
    store,
)
from tetrax.ir.kernel_types import ScalarType


class CarriedValue:
    """A value that a loop hands from one turn to the next."""

    def __init__(self, name: str, initial: Expr):
        self.variable = variable(name, initial.type)
        self.initial = initial
        self._following = self.variable

    @property
    def value(self) -> Expr:
        """The value so far: what the last `set` of this turn gave, at first that of the turn's
        start.
        """
        return self._following

    def set(self, value: ExprLike) -> None:
        """Give the value a new meaning for the rest of this turn and for the next one."""
        self._following = as_expr(value, self.variable.type)

    def close(self) -> Carried:
        """The finished carry of a loop; from here on `value` is the final value."""
        carried = Carried(self.variable, self.initial, self._following)
        self._following = self.variable
        return carried


class PendingProcedure:
    """A procedure whose statements are being collected."""

    def __init__(self, parameters: tuple[Expr, ...]):
        self.parameters = parameters
        self._made: Procedure | None = None

    @property
    def made(self) -> Procedure:
        """The finished procedure."""
        if self._made is None:
            raise KernelError("a procedure can be passed on only after its block")
        return self._made

    @made.setter
    def made(self, procedure: Procedure) -> None:
        self._made = procedure


class KernelBuilder:
    """Collects buffers and statements; `build` checks them and gives the kernel."""

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []
        self._scalars: list[Expr] = []
        self._bodies: list[list[Statement]] = [[]]
        self._waiting: list[CarriedValue] = []

    # --- memory and parameters ---

    def buffer(self, name: str, element: ScalarType, size: int, mode: str) -> Buffer:
        """A buffer of any mode."""
        made = Buffer(name, element, size, mode)
        self._buffers.append(made)
        return made

    def input(self, name: str, element: ScalarType, size: int) -> Buffer:
        """A buffer that is only read."""
        return self.buffer(name, element, size, "in")

    def output(self, name: str, element: ScalarType, size: int) -> Buffer:
        """A buffer that is written."""
        return self.buffer(name, element, size, "out")

    def temporary(self, element: ScalarType, size: int, name: str | None = None) -> Buffer:
        """Scratch memory of the kernel."""
        return self.buffer(name or f"temporary{len(self._buffers)}", element, size, "temp")

    def scalar(self, name: str, type: ScalarType) -> Expr:
        """A scalar parameter."""
        made = variable(name, type)
        self._scalars.append(made)
        return made

    # --- statements ---

    def add(self, statement: Statement) -> None:
        """Append any statement."""
        self._bodies[-1].append(statement)

    def load(self, buffer: Buffer, offset: ExprLike) -> Expr:
        """The element at an offset, read where the expression is used.

        A value that must survive a later store to the same buffer has to be carried or stored
        first.
        """
        return load(buffer, offset)

    def store(self, buffer: Buffer, offset: ExprLike, value: ExprLike) -> None:
        """Write an element."""
        self.add(store(buffer, offset, value))

    @contextmanager
    def procedure(self, *names: str) -> Iterator[PendingProcedure]:
        """Statements for a routine to run: the argument of a call is `made` when the block ends."""
        pending = PendingProcedure(tuple(index_variable(name) for name in names))
        with self._body() as (body, _):
            yield pending
        pending.made = Procedure(pending.parameters, block(*body))

    def call(self, symbol: str, *arguments: Expr | Address | Procedure) -> None:
        """Call a library routine."""
        self.add(Call(symbol, arguments))

    def address(self, buffer: Buffer, offset: ExprLike = 0) -> Address:
        """The address of an element, as an argument of a call."""
        return Address(buffer, index(offset))

    def carry(self, name: str, initial: Expr) -> CarriedValue:
        """A value carried by the next loop that is opened."""
        made = CarriedValue(name, initial)
        self._waiting.append(made)
        return made

    @contextmanager
    def loop(self, extent: ExprLike, kind: str = "serial", name: str = "i") -> Iterator[Expr]:
        """`for i in range(extent)`; gives the loop variable.

        Kind 'vector' asks for lanes and 'parallel' for threads; both promise that iterations do not
        touch what others store. Where it does not pay, a parallel loop runs like a serial one.
        """
        size = index(extent)
        var = index_variable(name, size.data if size.op == "const" else size)
        with self._body() as (body, carried):
            yield var
        self.add(Loop(var, size, block(*body), tuple(c.close() for c in carried), kind))

    @contextmanager
    def while_loop(self, condition: Callable[[], Expr]) -> Iterator[None]:
        """A loop that runs while a condition on its carried values holds.

        `condition` is called once, before the body, so that it sees the values at the start of a
        turn.
        """
        test = condition()
        with self._body() as (body, carried):
            yield
        self.add(While(tuple(c.close() for c in carried), test, block(*body)))

    @contextmanager
    def when(self, condition: Expr) -> Iterator[None]:
        """Statements that run only where a condition holds; they cannot set carried values of loops
        outside.
        """
        with self._body() as (body, _):
            yield
        self.add(If(condition, block(*body)))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The other branch of the `when` just before."""
        body = self._bodies[-1]
        last = body[-1] if body else None
        if not isinstance(last, If):
            raise KernelError("otherwise: must follow a `when` block directly")
        with self._body() as (other, _):
            yield
        body[-1] = If(last.condition, last.then, block(*other))

    @contextmanager
    def nest(self, extents: Sequence[ExprLike], kind: str = "serial") -> Iterator[tuple[Expr, ...]]:
        """Loops one in another, outermost first; gives their variables."""
        if not extents:
            yield ()
            return
        with self.loop(extents[0], kind) as outer, self.nest(extents[1:], kind) as inner:
            yield (outer, *inner)

    @contextmanager
    def _body(self) -> Iterator[tuple[list[Statement], list[CarriedValue]]]:
        carried, self._waiting = self._waiting, []
        body: list[Statement] = []
        self._bodies.append(body)
        yield body, carried
        self._bodies.pop()
        if self._waiting:
            raise KernelError(f"carry {self._waiting[0].variable}: no loop was opened after it")

    def build(self, name: str) -> Kernel:
        """The checked kernel."""
        if self._waiting:
            raise KernelError(f"carry {self._waiting[0].variable}: no loop was opened after it")
        kernel = Kernel(name, tuple(self._buffers), tuple(self._scalars), block(*self._bodies[0]))
        check(kernel)
        return kernel
