"""Loops of kind 'tasks' and procedures: the body becomes a function that the worker pool calls for
each task, or a library routine when it likes.

    void kernel_…_task0(ptr context, i64 task)

The context is a record on the stack of whoever runs the loop or call: addresses of the buffers,
values of the variables bound outside, and what the body needs of loops that do not depend on the
task. All else is computed in the function anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tetrax.compiler.cpu.emitter import AliasClass, Emitter
from tetrax.compiler.cpu.legalise import expressions
from tetrax.compiler.cpu.llvm_text import register_type
from tetrax.ir.kernel_expr import Buffer, Expr, walk
from tetrax.ir.kernel_statements import (
    Address,
    Block,
    Call,
    If,
    Loop,
    Procedure,
    Statement,
    Store,
    While,
)

POOL_SYMBOL = "tetrax_parallel"

Emit = Callable[[Emitter, Statement], None]


@dataclass(frozen=True)
class _Captured:
    """What a task function takes from outside: a thing, its LLVM type, its text outside."""

    item: Buffer | Expr
    kind: str
    text: str


def tasks_loop(
    emitter: Emitter, statement: Loop, stores: frozenset[AliasClass], emit: Emit
) -> None:
    """Emit a loop of tasks; `emit` emits the body in the emitter of the task function."""
    function, context = outlined(emitter, (statement.variable,), statement.body, stores, emit)
    extent = emitter.operand(statement.extent)
    emitter.declarations.add(f"declare void @{POOL_SYMBOL}(ptr, ptr, i64, i64)")
    emitter.effect(
        f"call void @{POOL_SYMBOL}(ptr {function}, ptr {context}, i64 {extent}, "
        f"i64 {statement.work})"
    )
    emitter.written(stores)


def outlined(
    emitter: Emitter,
    parameters: Sequence[Expr],
    body: Statement,
    stores: frozenset[AliasClass],
    emit: Emit,
) -> tuple[str, str]:
    """A statement as a function of i64 parameters: its name, and its context, filled in here.

    `stores` is what may be written while the function is in use.
    """
    captured = _captured(emitter, parameters, body, stores)
    number = len(emitter.functions)
    symbol = f"{emitter.symbol}_task{number}"
    emitter.functions.append("")  # keeps the number while functions inside are made
    emitter.functions[number] = _function(emitter, parameters, body, symbol, captured, emit)
    record = "{ " + ", ".join(c.kind for c in captured) + " }"
    context = f"%context{number}"
    emitter.scopes[0].lines.insert(0, f"  {context} = alloca {record}, align 8")
    for at, c in enumerate(captured):
        place = emitter.emit(f"getelementptr {record}, ptr {context}, i64 0, i32 {at}")
        emitter.effect(f"store {c.kind} {c.text}, ptr {place}, align 1")
    return f"@{symbol}", context


def _function(
    outer: Emitter,
    parameters: Sequence[Expr],
    body: Statement,
    symbol: str,
    captured: list[_Captured],
    emit: Emit,
) -> str:
    inner = outer.for_function(symbol)
    record = "{ " + ", ".join(c.kind for c in captured) + " }"
    for at, c in enumerate(captured):
        place = inner.emit(f"getelementptr {record}, ptr %context, i64 0, i32 {at}")
        text = inner.emit(f"load {c.kind}, ptr {place}, align 1")
        if isinstance(c.item, Buffer):
            inner.addresses[c.item] = text
        elif c.item.op == "var":
            inner.bind(c.item, text)
        else:
            inner.remember(c.item, text, 0)
    names = [f"%p{at}" for at in range(len(parameters))]
    for parameter, name in zip(parameters, names, strict=True):
        inner.bind(parameter, name)
    emit(inner, body)
    inner.effect("ret void")
    lines = "\n".join(inner.scopes[0].lines)
    given = "".join(f", i64 {name}" for name in names)
    return f"define internal void @{symbol}(ptr %context{given}) nounwind {{\nentry:\n{lines}\n}}\n"


def _captured(
    emitter: Emitter, parameters: Sequence[Expr], body: Statement, stores: frozenset[AliasClass]
) -> list[_Captured]:
    roots = list(dict.fromkeys(expressions(body)))
    bound = {*parameters, *bound_by(body)}
    free = frozenset().union(*(root.free for root in roots)) - bound
    used = _buffers(body, roots)
    found = [
        _Captured(buffer, "ptr", emitter.addresses[buffer])
        for buffer in emitter.kernel.buffers
        if buffer in used
    ]
    for var in sorted(free, key=lambda node: node.serial):
        found.append(_Captured(var, register_type(var.type), emitter.operand(var)))
    for node in _loops_outside(emitter, roots, free, stores):
        found.append(_Captured(node, register_type(node.type), emitter.operand(node)))
    return found


def bound_by(statement: Statement) -> Iterable[Expr]:
    """The variables that the loops of a statement define."""
    if isinstance(statement, Block):
        for inner in statement.statements:
            yield from bound_by(inner)
    elif isinstance(statement, If):
        yield from bound_by(statement.then)
        yield from bound_by(statement.orelse)
    elif isinstance(statement, Loop | While):
        yield from (c.variable for c in statement.carried)
        if isinstance(statement, Loop):
            yield statement.variable
        yield from bound_by(statement.body)
    elif isinstance(statement, Call):
        for argument in statement.arguments:
            if isinstance(argument, Procedure):
                yield from argument.parameters
                yield from bound_by(argument.body)


def _buffers(statement: Statement, roots: Iterable[Expr]) -> set[Buffer]:
    """The buffers that a statement with these expressions uses."""
    return {node.data for node in walk(roots) if node.op == "load"} | set(touched(statement))


def touched(statement: Statement) -> Iterable[Buffer]:
    """The buffers that a statement stores to or passes on."""
    if isinstance(statement, Store):
        yield statement.buffer
    elif isinstance(statement, Call):
        for argument in statement.arguments:
            if isinstance(argument, Address):
                yield argument.buffer
            elif isinstance(argument, Procedure):
                yield from touched(argument.body)
    elif isinstance(statement, Block):
        for inner in statement.statements:
            yield from touched(inner)
    elif isinstance(statement, If):
        yield from touched(statement.then)
        yield from touched(statement.orelse)
    elif isinstance(statement, Loop | While):
        yield from touched(statement.body)


def _loops_outside(
    emitter: Emitter,
    roots: Iterable[Expr],
    free: frozenset[Expr],
    stores: frozenset[AliasClass],
) -> list[Expr]:
    """The results of folds and while loops that every task would compute alike."""
    found: list[Expr] = []
    seen: set[Expr] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if (
            node.op == "result"
            and node.free <= free
            and emitter.traits(node).reads.isdisjoint(stores)
        ):
            found.append(node)
        else:
            stack.extend(node.args)
    return sorted(found, key=lambda node: node.serial)
