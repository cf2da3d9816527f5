"""Statements of a kernel as machine code."""

from __future__ import annotations

from collections.abc import Callable

from tetrax.compiler.cpu.emit_loops import branch, conditional_loop, counted_loop
from tetrax.compiler.cpu.emit_memory import (
    access_of,
    address_text,
    store_lanes,
    store_pairs,
    store_scalar,
)
from tetrax.compiler.cpu.emit_tasks import outlined, tasks_loop
from tetrax.compiler.cpu.emitter import AliasClass, Emitter, alias_class
from tetrax.compiler.cpu.llvm_text import register_type
from tetrax.compiler.cpu.vectorise import LoopPlan, loop_plan
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_index import affine_of
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


def written_by(statement: Statement) -> frozenset[AliasClass]:
    """The memory a statement may write."""
    if isinstance(statement, Store):
        return frozenset((alias_class(statement.buffer),))
    if isinstance(statement, Call):
        buffers = [a.buffer for a in statement.arguments if isinstance(a, Address)]
        inside = [written_by(a.body) for a in statement.arguments if isinstance(a, Procedure)]
        own = frozenset(alias_class(b) for b in buffers if b.mode != "in")
        return own.union(*inside)
    if isinstance(statement, Block):
        return frozenset().union(*(written_by(s) for s in statement.statements))
    if isinstance(statement, If):
        return written_by(statement.then) | written_by(statement.orelse)
    return written_by(statement.body)


def emit_statement(emitter: Emitter, statement: Statement) -> None:
    """Emit any statement in the current scope."""
    _STATEMENTS[type(statement)](emitter, statement)


def _block(emitter: Emitter, statement: Block) -> None:
    for inner in statement.statements:
        emit_statement(emitter, inner)


def _store(emitter: Emitter, statement: Store) -> None:
    store_scalar(emitter, statement.buffer, statement.offset, statement.value)
    emitter.written(written_by(statement))


def _if(emitter: Emitter, statement: If) -> None:
    test = emitter.operand(statement.condition)
    empty = isinstance(statement.orelse, Block) and not statement.orelse.statements
    branch(
        emitter,
        test,
        lambda: emit_statement(emitter, statement.then),
        None if empty else lambda: emit_statement(emitter, statement.orelse),
    )
    emitter.written(written_by(statement))


def _call(emitter: Emitter, statement: Call) -> None:
    kinds, texts = [], []
    for argument in statement.arguments:
        if isinstance(argument, Address):
            kinds.append("ptr")
            texts.append(address_text(emitter, argument.buffer, argument.offset))
        elif isinstance(argument, Procedure):
            stores = written_by(statement)
            kinds += ["ptr", "ptr"]
            texts += outlined(emitter, argument.parameters, argument.body, stores, emit_statement)
        else:
            kinds.append(register_type(argument.type))
            texts.append(emitter.operand(argument))
    emitter.declarations.add(f"declare void @{statement.symbol}({', '.join(kinds)})")
    passed = ", ".join(f"{kind} {text}" for kind, text in zip(kinds, texts, strict=True))
    emitter.effect(f"call void @{statement.symbol}({passed})")
    emitter.written(written_by(statement))


def _while(emitter: Emitter, statement: While) -> None:
    variables = [c.variable for c in statement.carried]
    start = [
        (register_type(c.variable.type), emitter.operand(c.initial)) for c in statement.carried
    ]

    def bind(texts: list[str]) -> None:
        for var, text in zip(variables, texts, strict=True):
            emitter.bind(var, text)

    def test(texts: list[str]) -> str:
        bind(texts)
        return emitter.operand(statement.condition)

    def body(_: list[str]) -> list[str]:
        emit_statement(emitter, statement.body)
        return [emitter.operand(c.following) for c in statement.carried]

    bind(conditional_loop(emitter, start, test, body, written_by(statement.body)))


def _loop(emitter: Emitter, statement: Loop) -> None:
    if statement.kind == "tasks" and not emitter.check_bounds:
        tasks_loop(emitter, statement, written_by(statement.body), emit_statement)
        return
    plan = loop_plan(emitter, statement)
    if plan is None:
        _serial_loop(emitter, statement)
    elif statement.extent.op == "const":
        _lane_loop(emitter, statement, plan, statement.extent.data)
    else:
        _lane_loop_of_unknown_extent(emitter, statement, plan)


def _serial_loop(emitter: Emitter, statement: Loop, start: str = "0") -> None:
    variables = [c.variable for c in statement.carried]
    carried = [
        (register_type(c.variable.type), emitter.operand(c.initial)) for c in statement.carried
    ]

    def body(index: str, texts: list[str]) -> list[str]:
        emitter.bind(statement.variable, index)
        for var, text in zip(variables, texts, strict=True):
            emitter.bind(var, text)
        emit_statement(emitter, statement.body)
        return [emitter.operand(c.following) for c in statement.carried]

    stop = emitter.operand(statement.extent)
    finals = counted_loop(emitter, start, stop, 1, carried, body, written_by(statement.body))
    for var, text in zip(variables, finals, strict=True):
        emitter.bind(var, text)


def _lane_body(emitter: Emitter, statement: Loop, plan: LoopPlan, index: str) -> None:
    emitter.bind(statement.variable, index, plan.lanes, linear=True)
    _lanes(emitter, statement.body, plan.lanes, None)


def _lane_loop(emitter: Emitter, statement: Loop, plan: LoopPlan, extent: int) -> None:
    stores = written_by(statement.body)
    whole = extent // plan.lanes * plan.lanes

    def body(index: str, _: list[str]) -> list[str]:
        if plan.overlapped and whole != extent:
            last = extent - plan.lanes
            index = emitter.emit(f"call i64 @llvm.smin.i64(i64 {index}, i64 {last})")
        _lane_body(emitter, statement, plan, index)
        return []

    stop = extent if plan.overlapped else whole
    counted_loop(emitter, "0", str(stop), plan.lanes, [], body, stores)
    if stop != extent:
        _serial_loop(emitter, statement, str(whole))


def _lane_loop_of_unknown_extent(emitter: Emitter, statement: Loop, plan: LoopPlan) -> None:
    extent = emitter.operand(statement.extent)
    whole = emitter.emit(f"and i64 {extent}, {-plan.lanes}")

    def body(index: str, _: list[str]) -> list[str]:
        _lane_body(emitter, statement, plan, index)
        return []

    counted_loop(emitter, "0", whole, plan.lanes, [], body, written_by(statement.body))
    start = emitter.emit(f"call i64 @llvm.smax.i64(i64 {whole}, i64 0)")
    _serial_loop(emitter, statement, start)


# --- statements inside a loop that runs in lanes: stores, branches and counted loops ---


def _lanes(emitter: Emitter, statement: Statement, lanes: int, mask: str | None) -> None:
    if isinstance(statement, Block):
        _lane_block(emitter, list(statement.statements), lanes, mask)
    elif isinstance(statement, Store):
        store_lanes(emitter, statement.buffer, statement.offset, statement.value, lanes, mask)
        emitter.written(written_by(statement))
    elif isinstance(statement, If):
        _lane_if(emitter, statement, lanes, mask)
    elif isinstance(statement, Loop):
        _loop_in_lanes(emitter, statement, lanes, mask)


def _loop_in_lanes(emitter: Emitter, statement: Loop, lanes: int, mask: str | None) -> None:
    """A counted loop that all lanes run together, each with carried values of its own."""
    variables = [c.variable for c in statement.carried]
    carried = [
        (register_type(c.variable.type, lanes), emitter.operand(c.initial, lanes))
        for c in statement.carried
    ]

    def body(index: str, texts: list[str]) -> list[str]:
        emitter.bind(statement.variable, index)
        for var, text in zip(variables, texts, strict=True):
            emitter.bind(var, text, lanes)
        _lanes(emitter, statement.body, lanes, mask)
        return [emitter.operand(c.following, lanes) for c in statement.carried]

    stop = emitter.operand(statement.extent)
    finals = counted_loop(emitter, "0", stop, 1, carried, body, written_by(statement.body))
    for var, text in zip(variables, finals, strict=True):
        emitter.bind(var, text, lanes)


def _lane_block(
    emitter: Emitter, statements: list[Statement], lanes: int, mask: str | None
) -> None:
    at = 0
    while at < len(statements):
        first = statements[at]
        second = statements[at + 1] if at + 1 < len(statements) else None
        if mask is None and second is not None and _is_pair(emitter, first, second):
            assert isinstance(first, Store) and isinstance(second, Store)
            store_pairs(emitter, first.buffer, first.offset, first.value, second.value, lanes)
            emitter.written(written_by(first))
            at += 2
        else:
            _lanes(emitter, first, lanes, mask)
            at += 1


def _is_pair(emitter: Emitter, first: Statement, second: Statement) -> bool:
    """Whether two stores fill neighbouring elements in steps of two and the second reads nothing of
    the first.
    """
    if not (isinstance(first, Store) and isinstance(second, Store)):
        return False
    if first.buffer != second.buffer or access_of(emitter, first.offset).stride != 2:
        return False
    (terms, constant), (others, other) = affine_of(first.offset), affine_of(second.offset)
    memory = alias_class(first.buffer)
    return terms == others and other == constant + 1 and not _reads(emitter, second.value, memory)


def _reads(emitter: Emitter, node: Expr, memory: AliasClass | None) -> bool:
    """Whether a value that is not computed yet reads some memory."""
    return memory in emitter.traits(node).reads and emitter.find(node) is None


def _lane_if(emitter: Emitter, statement: If, lanes: int, mask: str | None) -> None:
    if emitter.lanes_of(statement.condition) == 1:
        branch(
            emitter,
            emitter.operand(statement.condition),
            lambda: _lanes(emitter, statement.then, lanes, mask),
            lambda: _lanes(emitter, statement.orelse, lanes, mask),
        )
        emitter.written(written_by(statement))
        return
    kind = f"<{lanes} x i1>"
    condition = emitter.operand(statement.condition, lanes)
    opposite = emitter.emit(f"xor {kind} {condition}, splat (i1 true)")
    for side, own in ((statement.then, condition), (statement.orelse, opposite)):
        both = own if mask is None else emitter.emit(f"and {kind} {mask}, {own}")
        _lanes(emitter, side, lanes, both)


_STATEMENTS: dict[type, Callable[..., None]] = {
    Block: _block,
    Store: _store,
    If: _if,
    Call: _call,
    While: _while,
    Loop: _loop,
}
