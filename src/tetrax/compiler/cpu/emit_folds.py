"""Loops that are expressions: fold, iterate, and the rarely taken branch.

A reassociable fold runs in lanes (`emit_fold_lanes`) or one step at a time.
"""

from __future__ import annotations

from collections.abc import Callable

from tetrax.compiler.cpu.emit_fold_lanes import lane_fold
from tetrax.compiler.cpu.emit_fold_steps import (
    BLOCK,
    Fold,
    add_exactly,
    identities,
    nest,
    settle,
    step,
)
from tetrax.compiler.cpu.emit_loops import conditional_loop, counted_loop, rare_value
from tetrax.compiler.cpu.emitter import Emitter, Rule
from tetrax.compiler.cpu.llvm_text import constant_text, register_type
from tetrax.compiler.cpu.vectorise import fold_plan
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_expr import Expr, FoldShape, fold_parts, iterate_parts


def _fold_rule(emitter: Emitter, node: Expr) -> str:
    shape: FoldShape = node.data
    extents, initial, updates = fold_parts(node)
    loops = tuple(zip(shape.variables, extents, strict=True))
    lanes = emitter.lanes_of(node)
    plan = fold_plan(emitter, loops, updates, shape.reassociate) if lanes == 1 else None
    if plan is not None:
        lane_counts = plan.lanes, plan.narrow
        fold = Fold(
            plan.loops, shape.accumulators, initial, updates, shape.reassociate, *lane_counts
        )
        results = lane_fold(emitter, fold)
    else:
        fold = Fold(loops, shape.accumulators, initial, updates, shape.reassociate, lanes)
        results = _sequential_fold(emitter, fold)
    token = emitter.fresh("fold")
    emitter.tuples[token] = tuple(results)
    return token


def _result_rule(emitter: Emitter, node: Expr) -> str:
    return emitter.tuples[emitter.value(node.args[0])][node.data]


# --- one step at a time ---


def _sequential_fold(emitter: Emitter, fold: Fold) -> list[str]:
    start = [emitter.operand(value, fold.lanes) for value in fold.initial]
    if not fold.compensated:
        return nest(emitter, fold, fold.loops, start, lambda texts: step(emitter, fold, texts))
    outer, inner = _split(fold.loops)
    state = start + [constant_text(const(0.0, a.type), fold.lanes) for a in fold.accumulators]

    def block(texts: list[str], run: Callable[[list[str]], list[str]]) -> list[str]:
        partial = run(identities(fold))
        return add_exactly(emitter, fold, texts, partial)

    def inner_run(texts: list[str]) -> list[str]:
        return nest(emitter, fold, inner, texts, lambda t: step(emitter, fold, t))

    if inner:
        final = nest(emitter, fold, outer, state, lambda texts: block(texts, inner_run))
    else:
        final = nest(
            emitter,
            fold,
            outer[:-1],
            state,
            lambda texts: _blocked(emitter, fold, outer[-1], texts, block),
        )
    return settle(emitter, fold, final)


def _split(
    loops: tuple[tuple[Expr, Expr], ...],
) -> tuple[tuple[tuple[Expr, Expr], ...], tuple[tuple[Expr, Expr], ...]]:
    """The loops divided so that the inner ones take at most BLOCK steps together."""
    steps, at = 1, len(loops)
    while at > 0 and loops[at - 1][1].op == "const" and steps * loops[at - 1][1].data <= BLOCK:
        at -= 1
        steps *= max(1, loops[at][1].data)
    return loops[:at], loops[at:]


def _blocked(
    emitter: Emitter,
    fold: Fold,
    loop: tuple[Expr, Expr],
    state: list[str],
    block: Callable[[list[str], Callable[[list[str]], list[str]]], list[str]],
) -> list[str]:
    """One long loop cut into blocks, each of which ends in `block`."""
    var, extent = loop
    stop = emitter.operand(extent)

    def outer(base: str, texts: list[str]) -> list[str]:
        following = emitter.emit(f"add nsw i64 {base}, {BLOCK}")
        limit = emitter.emit(f"call i64 @llvm.smin.i64(i64 {following}, i64 {stop})")

        def run(partial: list[str]) -> list[str]:
            def inner(index: str, carried: list[str]) -> list[str]:
                emitter.bind(var, index)
                return step(emitter, fold, carried)

            return counted_loop(
                emitter, base, limit, 1, list(zip(fold.kinds, partial, strict=True)), inner
            )

        return block(texts, run)

    kinds = fold.kinds * (len(state) // len(fold.kinds))
    return counted_loop(emitter, "0", stop, BLOCK, list(zip(kinds, state, strict=True)), outer)


# --- while loops and rare branches ---


def _iterate_rule(emitter: Emitter, node: Expr) -> str:
    variables: tuple[Expr, ...] = node.data
    initial, following, condition = iterate_parts(node)
    lanes = emitter.lanes_of(node)
    kinds = [register_type(v.type, lanes) for v in variables]
    running = ""

    def test(texts: list[str]) -> str:
        nonlocal running
        for var, text in zip(variables, texts, strict=True):
            emitter.bind(var, text, lanes)
        running = emitter.operand(condition, lanes)
        if lanes == 1:
            return running
        return emitter.emit(f"call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> {running})")

    def body(texts: list[str]) -> list[str]:
        new = [emitter.operand(value, lanes) for value in following]
        if lanes == 1:
            return new
        # a lane whose condition fails keeps its values, so its condition keeps failing
        return [
            emitter.emit(f"select <{lanes} x i1> {running}, {kind} {n}, {kind} {old}")
            for kind, n, old in zip(kinds, new, texts, strict=True)
        ]

    start = [emitter.operand(value, lanes) for value in initial]
    token = emitter.fresh("iterate")
    emitter.tuples[token] = tuple(
        conditional_loop(emitter, list(zip(kinds, start, strict=True)), test, body)
    )
    return token


def _unlikely_rule(emitter: Emitter, node: Expr) -> str:
    condition, rare, usual = node.args
    lanes = emitter.lanes_of(node)
    kind = register_type(node.type, lanes)
    common = emitter.operand(usual, lanes)
    mask = emitter.operand(condition, lanes)
    test = mask
    if lanes > 1:
        test = emitter.emit(f"call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> {mask})")

    def compute() -> str:
        text = emitter.operand(rare, lanes)
        if lanes == 1:
            return text
        return emitter.emit(f"select <{lanes} x i1> {mask}, {kind} {text}, {kind} {common}")

    return rare_value(emitter, test, kind, common, compute)


FOLD_RULES: dict[str, Rule] = {
    "fold": _fold_rule,
    "result": _result_rule,
    "iterate": _iterate_rule,
    "unlikely": _unlikely_rule,
}
