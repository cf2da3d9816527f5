"""Folds in lanes over one of their variables, where that reads memory contiguously."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from tetrax.compiler.cpu.emit_fold_steps import (
    BLOCK,
    Fold,
    add_exactly,
    identities,
    identity,
    nest,
    settle,
    step,
)
from tetrax.compiler.cpu.emit_loops import counted_loop
from tetrax.compiler.cpu.emit_memory import shuffle
from tetrax.compiler.cpu.emitter import Emitter
from tetrax.compiler.cpu.llvm_text import constant_text, lane_numbers, register_type
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_operations import binary, variable
from tetrax.ir.kernel_types import ScalarType

CHAIN, CHAINS = 16, 8
"""Chains of 16 additions, 8 of which are added before errors are kept: their errors are what
remains in the end.
"""


def lane_fold(emitter: Emitter, fold: Fold) -> list[str]:
    """All lanes start from the identity; at the end they are combined pairwise with the initial
    value.
    """
    (var, extent), outer = fold.loops[-1], fold.loops[:-1]
    compensated = (
        prod(e.data for _, e in outer) * (extent.data // fold.lanes) > BLOCK and fold.compensated
    )
    state = identities(fold)
    if compensated:
        state = state + [constant_text(const(0.0, a.type), fold.lanes) for a in fold.accumulators]
    row = _compensated_row if compensated else _plain_row
    final = nest(
        emitter, fold, outer, state, lambda texts: row(emitter, fold, var, extent.data, texts)
    )
    if compensated:
        final = settle(emitter, fold, final)
    assert fold.operation is not None
    results = []
    for accumulator, initial, text in zip(fold.accumulators, fold.initial, final, strict=True):
        whole = _across_lanes(emitter, fold.operation, accumulator.type, fold.lanes, text)
        start = emitter.operand(initial)
        results.append(_combine(emitter, fold.operation, accumulator.type, 1, start, whole))
    return results


def _plain_row(emitter: Emitter, fold: Fold, var: Expr, extent: int, texts: list[str]) -> list[str]:
    whole = extent // fold.lanes * fold.lanes
    texts = _lanes_between(emitter, fold, var, "0", str(whole), texts)
    if whole == extent:
        return texts
    if fold.narrow == fold.lanes:
        return _masked_lanes(emitter, fold, var, extent, extent - whole, texts)
    assert fold.operation is not None
    partial = _last_lanes(emitter, fold, var, extent)
    return [
        _combine(emitter, fold.operation, accumulator.type, fold.lanes, text, more)
        for accumulator, text, more in zip(fold.accumulators, texts, partial, strict=True)
    ]


def _compensated_row(
    emitter: Emitter, fold: Fold, var: Expr, extent: int, state: list[str]
) -> list[str]:
    whole = extent // fold.lanes * fold.lanes
    chain_lanes = CHAIN * fold.lanes
    size = CHAINS * chain_lanes

    def chain(limit: str) -> Callable[[str, list[str]], list[str]]:
        def run(base: str, texts: list[str]) -> list[str]:
            stop = _limited(emitter, base, chain_lanes, limit)
            part = _lanes_between(emitter, fold, var, base, stop, identities(fold))
            return [
                emitter.emit(f"fadd {kind} {text}, {more}")
                for kind, text, more in zip(fold.kinds, texts, part, strict=True)
            ]

        return run

    def block(base: str, texts: list[str]) -> list[str]:
        limit = _limited(emitter, base, size, str(whole)) if whole > size else str(whole)
        start = list(zip(fold.kinds, identities(fold), strict=True))
        partial = counted_loop(emitter, base, limit, chain_lanes, start, chain(limit))
        return add_exactly(emitter, fold, texts, partial)

    if whole > size:
        state = counted_loop(
            emitter, "0", str(whole), size, list(zip(fold.kinds * 2, state, strict=True)), block
        )
    else:
        state = block("0", state)
    if whole == extent:
        return state
    return add_exactly(emitter, fold, state, _last_lanes(emitter, fold, var, extent))


def _limited(emitter: Emitter, base: str, distance: int, limit: str) -> str:
    """`base + distance`, but not beyond the limit."""
    following = emitter.emit(f"add nsw i64 {base}, {distance}")
    return emitter.emit(f"call i64 @llvm.smin.i64(i64 {following}, i64 {limit})")


def _lanes_between(
    emitter: Emitter, fold: Fold, var: Expr, start: str, stop: str, texts: list[str]
) -> list[str]:
    def body(index: str, carried: list[str]) -> list[str]:
        emitter.bind(var, index, fold.lanes, linear=True)
        return step(emitter, fold, carried)

    return counted_loop(
        emitter, start, stop, fold.lanes, list(zip(fold.kinds, texts, strict=True)), body
    )


def _last_lanes(emitter: Emitter, fold: Fold, var: Expr, extent: int) -> list[str]:
    """What the elements after the last full vector come to, in vectors that are the identity
    beyond the first register: a body of that width is less text, and fewer lanes are done twice.
    """
    rest = extent % fold.lanes
    few = replace(fold, lanes=fold.narrow)
    if rest <= few.lanes:
        texts = _masked_lanes(emitter, few, var, extent, rest, identities(few))
    elif rest % few.lanes == 0:
        start = str(extent - rest)
        texts = _lanes_between(emitter, few, var, start, str(extent), identities(few))
    else:
        texts = _overlapping_lanes(emitter, few, var, extent, rest)
    return [_widened(emitter, fold, at, text) for at, text in enumerate(texts)]


def _widened(emitter: Emitter, fold: Fold, at: int, text: str) -> str:
    """A vector of one register as one of all lanes, with the identity in the others."""
    if fold.narrow == fold.lanes:
        return text
    assert fold.operation is not None
    type = fold.accumulators[at].type
    kind = register_type(type, fold.narrow)
    rest = constant_text(identity(fold.operation, type), fold.narrow)
    picks = [min(lane, fold.narrow) for lane in range(fold.lanes)]
    mask = ", ".join(f"i32 {pick}" for pick in picks)
    return emitter.emit(
        f"shufflevector {kind} {text}, {kind} {rest}, <{fold.lanes} x i32> <{mask}>"
    )


def _masked_lanes(
    emitter: Emitter, fold: Fold, var: Expr, extent: int, rest: int, texts: list[str]
) -> list[str]:
    """The last elements by a vector that ends at the end, its known lanes left out."""
    lanes = fold.lanes
    mask = "<" + ", ".join(f"i1 {int(lane >= lanes - rest)}" for lane in range(lanes)) + ">"

    def body(index: str, carried: list[str]) -> list[str]:
        emitter.bind(var, index, lanes, linear=True)
        return _chosen(emitter, fold, mask, step(emitter, fold, carried), carried)

    start = extent - lanes
    return counted_loop(
        emitter, str(start), str(start + 1), 1, list(zip(fold.kinds, texts, strict=True)), body
    )


def _overlapping_lanes(
    emitter: Emitter, fold: Fold, var: Expr, extent: int, rest: int
) -> list[str]:
    """The last elements by several vectors; the last one ends at the end."""
    lanes = fold.lanes

    def body(index: str, carried: list[str]) -> list[str]:
        last = extent - lanes
        start = emitter.emit(f"call i64 @llvm.smin.i64(i64 {index}, i64 {last})")
        known = emitter.splat_text(emitter.emit(f"sub i64 {index}, {start}"), "i64", lanes)
        mask = emitter.emit(f"icmp sge <{lanes} x i64> {lane_numbers(lanes)}, {known}")
        emitter.bind(var, start, lanes, linear=True)
        return _chosen(emitter, fold, mask, step(emitter, fold, carried), carried)

    carried = list(zip(fold.kinds, identities(fold), strict=True))
    return counted_loop(emitter, str(extent - rest), str(extent), lanes, carried, body)


def _chosen(
    emitter: Emitter, fold: Fold, mask: str, new: list[str], old: Sequence[str]
) -> list[str]:
    """The new values where the mask is set, else the old ones."""
    return [
        emitter.emit(f"select <{fold.lanes} x i1> {mask}, {kind} {a}, {kind} {b}")
        for kind, a, b in zip(fold.kinds, new, old, strict=True)
    ]


def _across_lanes(emitter: Emitter, operation: str, type: ScalarType, lanes: int, text: str) -> str:
    """All lanes combined, neighbours at a distance of half first."""
    while lanes > 1:
        kind, half = register_type(type, lanes), lanes // 2
        if half == 1:
            halves = [emitter.emit(f"extractelement {kind} {text}, i64 {i}") for i in (0, 1)]
        else:
            halves = [
                shuffle(emitter, kind, text, range(first, first + half)) for first in (0, half)
            ]
        text = _combine(emitter, operation, type, half, *halves)
        lanes = half
    return text


def _combine(emitter: Emitter, operation: str, type: ScalarType, lanes: int, a: str, b: str) -> str:
    left, right = variable("left", type), variable("right", type)
    emitter.bind(left, a, lanes)
    emitter.bind(right, b, lanes)
    return emitter.operand(binary(operation, left, right), lanes)
