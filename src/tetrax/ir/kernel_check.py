"""Check a kernel against the rules of the loop IR: types, scopes of variables, modes of buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tetrax.errors import KernelError
from tetrax.ir.kernel_expr import (
    Buffer,
    Expr,
    FoldShape,
    bound_variables,
    fold_parts,
    short_text,
    walk,
)
from tetrax.ir.kernel_statements import (
    Address,
    Block,
    Call,
    Carried,
    If,
    Kernel,
    Loop,
    Procedure,
    Statement,
    Store,
    While,
)
from tetrax.ir.kernel_types import BOOL, I64, ScalarType

LOOP_KINDS = ("serial", "parallel", "vector", "tasks")
_REASSOCIATED = {
    "add": ("add", "or"),
    "mul": ("mul", "and"),
    "min": ("min", "and"),
    "max": ("max", "or"),
}


def check(kernel: Kernel) -> None:
    """Raise KernelError, with a sentence, where a kernel breaks a rule."""
    _Checker(kernel).statement(kernel.body, frozenset(kernel.scalars))


class _Checker:
    def __init__(self, kernel: Kernel):
        self.name = kernel.name
        self.buffers = frozenset(kernel.buffers)
        self.checked: set[Expr] = set()
        names = [buffer.name for buffer in kernel.buffers]
        if len(set(names)) != len(names):
            raise self.failure(f"two buffers have the same name; the buffers are {names}")
        for var in kernel.scalars:
            if var.op != "var":
                raise self.failure(f"parameter {short_text(var)} is not a variable")

    def failure(self, sentence: str) -> KernelError:
        return KernelError(f"kernel {self.name}: {sentence}")

    # --- expressions ---

    def expression(self, node: Expr, scope: frozenset[Expr], use: str, type: ScalarType) -> None:
        if node.type is not type:
            raise self.failure(f"{use} must have type {type}, got {short_text(node)}: {node.type}")
        unknown = node.free - scope
        if unknown:
            names = ", ".join(sorted(var.data.name for var in unknown))
            raise self.failure(
                f"{use} mentions {names}, which no enclosing loop or parameter defines"
            )
        below = walk([node], self.checked)
        self.checked.update(below)
        for inner in below:
            if inner.op == "load":
                self.loaded(inner.data)
            elif inner.op == "fold" and inner.data.reassociate:
                self.reassociable(inner)
            elif inner.op in ("fold", "iterate"):
                self.own_variables(bound_variables(inner))

    def loaded(self, buffer: Buffer) -> None:
        if buffer not in self.buffers:
            raise self.failure(f"buffer {buffer.name} is loaded but is not a buffer of the kernel")

    def own_variables(self, variables: Iterable[Expr]) -> None:
        variables = list(variables)
        if len(set(variables)) != len(variables):
            raise self.failure("a loop binds the same variable twice")

    def reassociable(self, node: Expr) -> None:
        shape: FoldShape = node.data
        self.own_variables(bound_variables(node))
        allowed = _REASSOCIATED[shape.reassociate or ""]
        for accumulator, update in zip(shape.accumulators, fold_parts(node)[2], strict=True):
            operands = update.args if update.op in allowed else ()
            others = [arg for arg in operands if arg is not accumulator]
            if len(operands) != 2 or len(others) != 1:
                raise self.failure(
                    f"a fold reassociated by {shape.reassociate!r} must update "
                    f"{accumulator.data.name} by exactly that operation, got {short_text(update)}"
                )
            if others[0].free & set(shape.accumulators):
                raise self.failure(
                    f"the value folded into {accumulator.data.name} mentions an accumulator, so "
                    "its order cannot be changed; use reassociate=None"
                )

    # --- statements ---

    def statement(self, statement: Statement, scope: frozenset[Expr]) -> frozenset[Expr]:
        """Check a statement; gives the variables in scope after it."""
        rule = _STATEMENTS.get(type(statement))
        if rule is None:
            raise self.failure(f"{statement!r} is not a statement")
        return rule(self, statement, scope)

    def block(self, statement: Block, scope: frozenset[Expr]) -> frozenset[Expr]:
        for inner in statement.statements:
            scope = self.statement(inner, scope)
        return scope

    def store(self, statement: Store, scope: frozenset[Expr]) -> frozenset[Expr]:
        buffer = statement.buffer
        if buffer not in self.buffers:
            raise self.failure(
                f"buffer {buffer.name} is stored to but is not a buffer of the kernel"
            )
        if buffer.mode == "in":
            raise self.failure(
                f"buffer {buffer.name} has mode 'in' but is stored to; use 'inout' or 'out'"
            )
        self.expression(statement.offset, scope, f"the offset of a store to {buffer.name}", I64)
        self.expression(
            statement.value, scope, f"the value stored to {buffer.name}", buffer.element
        )
        return scope

    def if_(self, statement: If, scope: frozenset[Expr]) -> frozenset[Expr]:
        self.expression(statement.condition, scope, "the condition of an if", BOOL)
        self.statement(statement.then, scope)
        self.statement(statement.orelse, scope)
        return scope

    def call(self, statement: Call, scope: frozenset[Expr]) -> frozenset[Expr]:
        for argument in statement.arguments:
            if isinstance(argument, Address):
                self.loaded(argument.buffer)
                use = f"an address given to {statement.symbol}"
                self.expression(argument.offset, scope, use, I64)
            elif isinstance(argument, Procedure):
                self.own_variables(argument.parameters)
                if any(var.type is not I64 for var in argument.parameters):
                    raise self.failure(
                        f"parameters of a procedure of {statement.symbol} must be i64"
                    )
                self.statement(argument.body, scope | set(argument.parameters))
            else:
                use = f"an argument of {statement.symbol}"
                self.expression(argument, scope, use, argument.type)
        return scope

    def loop(self, statement: Loop, scope: frozenset[Expr]) -> frozenset[Expr]:
        if statement.kind not in LOOP_KINDS:
            raise self.failure(f"a loop of kind {statement.kind!r}; the kinds are {LOOP_KINDS}")
        if statement.carried and statement.kind != "serial":
            raise self.failure(f"a loop with carried values cannot be of kind {statement.kind!r}")
        self.expression(statement.extent, scope, "the extent of a loop", I64)
        if statement.variable.type is not I64:
            raise self.failure(f"loop variable {statement.variable.data.name} must have type i64")
        own = (statement.variable, *(c.variable for c in statement.carried))
        self.own_variables(own)
        self.carried(statement.carried, scope, statement.body, scope | set(own))
        return scope | {c.variable for c in statement.carried}

    def while_(self, statement: While, scope: frozenset[Expr]) -> frozenset[Expr]:
        own = [c.variable for c in statement.carried]
        self.own_variables(own)
        inner = scope | set(own)
        self.expression(statement.condition, inner, "the condition of a while", BOOL)
        self.carried(statement.carried, scope, statement.body, inner)
        return inner

    def carried(
        self,
        carried: tuple[Carried, ...],
        outside: frozenset[Expr],
        body: Statement,
        inside: frozenset[Expr],
    ) -> None:
        for item in carried:
            name, type = item.variable.data.name, item.variable.type
            self.expression(item.initial, outside, f"the initial value of {name}", type)
        after = self.statement(body, inside)
        for item in carried:
            name, type = item.variable.data.name, item.variable.type
            self.expression(item.following, after, f"the next value of {name}", type)


_STATEMENTS: dict[type, Callable] = {
    Block: _Checker.block,
    Store: _Checker.store,
    If: _Checker.if_,
    Call: _Checker.call,
    Loop: _Checker.loop,
    While: _Checker.while_,
}
