"""Canonical text of a kernel: readable, and the same for kernels that do the same.

Buffers, parameters and variables are numbered in order of appearance, and every expression that is
used twice gets a name where it is first used. The text is the key under which compiled kernels are
cached, so it says everything that matters to the machine code and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from tetrax.ir.kernel_constants import const_value
from tetrax.ir.kernel_expr import (
    Buffer,
    Expr,
    FoldShape,
    bound_variables,
    fold_parts,
    iterate_parts,
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


def text(kernel: Kernel) -> str:
    """The canonical text of a kernel."""
    return _Printer(kernel).run()


class _Printer:
    """Lines of one kernel, with the names given so far."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.lines: list[str] = []
        self.names: dict[Expr, str] = {}
        self.buffers: dict[Buffer, str] = {}
        self.indent = 1
        self.count = 0

    def run(self) -> str:
        header = []
        for buffer in self.kernel.buffers:
            name = f"b{len(self.buffers)}"
            self.buffers[buffer] = name
            header.append(f"{name}: {buffer.mode} {buffer.element}[{buffer.size}]")
        for var in self.kernel.scalars:
            self.names[var] = f"s{len(self.names)}"
            header.append(f"{self.names[var]}: {var.type}")
        self.statement(self.kernel.body)
        return "\n".join([f"kernel({', '.join(header)})", *self.lines, ""])

    def line(self, content: str) -> None:
        self.lines.append("  " * self.indent + content)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def name_variable(self, var: Expr, prefix: str) -> str:
        self.names[var] = self.fresh(prefix)
        return self.names[var]

    # --- expressions ---

    def value(self, root: Expr) -> str:
        """The name of an expression, printing the lines that compute it first."""
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self.names or node.op == "const":
                stack.pop()
                continue
            pending = [
                a for a in self.outer_arguments(node) if a.op != "const" and a not in self.names
            ]
            if pending:
                stack.extend(reversed(pending))
                continue
            stack.pop()
            self.define(node)
        return self.short(root)

    def short(self, node: Expr) -> str:
        if node.op != "const":
            return self.names[node]
        value = const_value(node)
        # a NaN's payload matters to the code: show its bits
        return f"{value if value == value else hex(node.data)}:{node.type}"

    def typed(self, node: Expr) -> str:
        return self.short(node) if node.op == "const" else f"{self.names[node]}:{node.type}"

    def outer_arguments(self, node: Expr) -> tuple[Expr, ...]:
        if node.op == "fold":
            extents, initial, _ = fold_parts(node)
            return extents + initial
        return iterate_parts(node)[0] if node.op == "iterate" else node.args

    def define(self, node: Expr) -> None:
        binder = _BINDERS.get(node.op)
        if binder is not None:
            binder(self, node)
            return
        operands = [self.short(arg) for arg in node.args]
        if node.op == "load":
            content = f"{self.buffers[node.data]}[{operands[0]}]"
        else:
            extra = "" if node.data is None else f".{node.data}"
            content = f"{node.op}{extra}({', '.join(operands)})"
        name = self.fresh("e")
        self.line(f"{name} = {content}: {node.type}")
        self.names[node] = name

    def body(self, print_body: Callable[[], None]) -> None:
        """An indented part; names given inside are forgotten after it."""
        before = dict(self.names)
        self.indent += 1
        print_body()
        self.indent -= 1
        self.names = before

    def fold(self, node: Expr) -> None:
        shape: FoldShape = node.data
        extents, initial, updates = fold_parts(node)
        starts = [self.typed(value) for value in initial]
        sizes = [self.short(extent) for extent in extents]
        name = self.fresh("fold")
        loops = [
            f"{self.name_variable(var, 'i')}<{size}"
            for var, size in zip(shape.variables, sizes, strict=True)
        ]
        accumulators = [
            f"{self.name_variable(var, 'a')}={start}"
            for var, start in zip(shape.accumulators, starts, strict=True)
        ]
        order = f" {shape.reassociate}" if shape.reassociate else ""
        self.line(f"{name} = fold{order} {', '.join(loops)} with {', '.join(accumulators)}")
        self.body(lambda: self.line("next " + ", ".join([self.value(u) for u in updates])))
        self.names[node] = name

    def iterate(self, node: Expr) -> None:
        initial, following, condition = iterate_parts(node)
        starts = [self.typed(value) for value in initial]
        name = self.fresh("iterate")
        carried = [
            f"{self.name_variable(var, 'a')}={start}"
            for var, start in zip(bound_variables(node), starts, strict=True)
        ]
        self.line(f"{name} = iterate {', '.join(carried)}")

        def inside() -> None:
            self.line("while " + self.value(condition))
            self.line("next " + ", ".join([self.value(value) for value in following]))

        self.body(inside)
        self.names[node] = name

    # --- statements ---

    def statement(self, statement: Statement) -> None:
        _STATEMENTS[type(statement)](self, statement)

    def block(self, statement: Block) -> None:
        for inner in statement.statements:
            self.statement(inner)

    def store(self, statement: Store) -> None:
        offset, value = self.value(statement.offset), self.value(statement.value)
        self.line(f"{self.buffers[statement.buffer]}[{offset}] <- {value}")

    def call(self, statement: Call) -> None:
        shown = [self.argument(argument) for argument in statement.arguments]
        self.line(f"call {statement.symbol}({', '.join(shown)})")
        for argument in statement.arguments:
            if isinstance(argument, Procedure):
                self.procedure(argument)

    def argument(self, argument: Expr | Address | Procedure) -> str:
        if isinstance(argument, Procedure):
            return "procedure"
        if isinstance(argument, Address):
            return f"&{self.buffers[argument.buffer]}[{self.value(argument.offset)}]"
        return self.value(argument)

    def procedure(self, argument: Procedure) -> None:
        names = [self.name_variable(var, "p") for var in argument.parameters]
        self.line(f"procedure({', '.join(names)})")
        self.body(lambda: self.statement(argument.body))

    def if_(self, statement: If) -> None:
        self.line(f"if {self.value(statement.condition)}")
        self.body(lambda: self.statement(statement.then))
        if statement.orelse != Block(()):
            self.line("else")
            self.body(lambda: self.statement(statement.orelse))

    def loop(self, statement: Loop) -> None:
        extent = self.value(statement.extent)
        carried = self.carried(statement.carried)
        name = self.name_variable(statement.variable, "i")
        work = f" work {statement.work}" if statement.kind == "tasks" else ""
        self.line(f"{statement.kind} loop {name}<{extent}{work}{carried}")

        def inside() -> None:
            self.statement(statement.body)
            self.following(statement.carried)

        self.body(inside)

    def while_(self, statement: While) -> None:
        self.line(f"loop{self.carried(statement.carried)}")

        def inside() -> None:
            self.line("while " + self.value(statement.condition))
            self.statement(statement.body)
            self.following(statement.carried)

        self.body(inside)

    def carried(self, carried: tuple[Carried, ...]) -> str:
        for c in carried:
            self.value(c.initial)
        starts = [self.typed(c.initial) for c in carried]
        shown = [
            f"{self.name_variable(c.variable, 'a')}={start}"
            for c, start in zip(carried, starts, strict=True)
        ]
        return " with " + ", ".join(shown) if shown else ""

    def following(self, carried: tuple[Carried, ...]) -> None:
        if carried:
            self.line("next " + ", ".join([self.value(c.following) for c in carried]))


_BINDERS = {"fold": _Printer.fold, "iterate": _Printer.iterate}
_STATEMENTS: dict[type, Callable] = {
    Block: _Printer.block,
    Store: _Printer.store,
    Call: _Printer.call,
    If: _Printer.if_,
    Loop: _Printer.loop,
    While: _Printer.while_,
}
