"""Loops of kind 'tasks': the body becomes a function that the worker pool calls for each task.

    void kernel_…_task0(ptr context, i64 task)

The context is a record on the stack of whoever runs the loop: addresses of the buffers, values of
the variables bound outside, and what the body needs of loops that do not depend on the task. All
else is computed in the function anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    Statement,
    Store,
    While,
)

POOL_SYMBOL = "tetrax_parallel"


@dataclass(frozen=True)
class _Captured:
    """What a task function takes from outside: a thing, its LLVM type, its text outside."""

    item: Buffer | Expr
    kind: str
    text: str


def tasks_loop(
    emitter: Emitter,
    statement: Loop,
    stores: frozenset[AliasClass],
    emit: Callable[[Emitter, Statement], None],
) -> None:
    """Emit a loop of tasks; `emit` emits the body in the emitter of the task function."""
    captured = _captured(emitter, statement, stores)
    number = len(emitter.functions)
    symbol = f"{emitter.symbol}_task{number}"
    emitter.functions.append("")  # keeps the number while functions inside are made
    emitter.functions[number] = _function(emitter, statement, symbol, captured, emit)
    record = "{ " + ", ".join(c.kind for c in captured) + " }"
    context = f"%context{number}"
    emitter.scopes[0].lines.insert(0, f"  {context} = alloca {record}, align 8")
    for at, c in enumerate(captured):
        place = emitter.emit(f"getelementptr {record}, ptr {context}, i64 0, i32 {at}")
        emitter.effect(f"store {c.kind} {c.text}, ptr {place}, align 1")
    extent = emitter.operand(statement.extent)
    emitter.declarations.add(f"declare void @{POOL_SYMBOL}(ptr, ptr, i64, i64)")
    emitter.effect(
        f"call void @{POOL_SYMBOL}(ptr @{symbol}, ptr {context}, i64 {extent}, "
        f"i64 {statement.work})"
    )
    emitter.written(stores)


def _function(
    outer: Emitter,
    statement: Loop,
    symbol: str,
    captured: list[_Captured],
    emit: Callable[[Emitter, Statement], None],
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
    inner.bind(statement.variable, "%task")
    emit(inner, statement.body)
    inner.effect("ret void")
    lines = "\n".join(inner.scopes[0].lines)
    return (
        f"define internal void @{symbol}(ptr %context, i64 %task) nounwind {{\n"
        f"entry:\n{lines}\n}}\n"
    )


def _captured(emitter: Emitter, statement: Loop, stores: frozenset[AliasClass]) -> list[_Captured]:
    roots = list(dict.fromkeys(expressions(statement.body)))
    bound = {statement.variable, *bound_by(statement.body)}
    free = frozenset().union(*(root.free for root in roots)) - bound
    found = [
        _Captured(buffer, "ptr", emitter.addresses[buffer])
        for buffer in emitter.kernel.buffers
        if buffer in _buffers(statement.body, roots)
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


def _buffers(statement: Statement, roots: Iterable[Expr]) -> set[Buffer]:
    """The buffers that a statement with these expressions uses."""
    return {node.data for node in walk(roots) if node.op == "load"} | set(touched(statement))


def touched(statement: Statement) -> Iterable[Buffer]:
    """The buffers that a statement stores to or passes on."""
    if isinstance(statement, Store):
        yield statement.buffer
    elif isinstance(statement, Call):
        yield from (a.buffer for a in statement.arguments if isinstance(a, Address))
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
        reads = emitter.traits(node).reads
        if node.op == "result" and node.free <= free and reads.isdisjoint(stores):
            found.append(node)
        else:
            stack.extend(node.args)
    return sorted(found, key=lambda node: node.serial)
