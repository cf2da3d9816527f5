"""Loops that are expressions: fold, iterate, and the rarely taken branch.

A reassociable fold runs in lanes over one of its variables where that reads memory contiguously. A
sum of floats never runs long in one accumulator: block sums are added up with
their rounding errors kept (Knuth's two-sum), so that the error of a sum does not grow with its
length. The order is a function of the extents alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from tetrax.compiler.cpu.emit_loops import Carried, conditional_loop, counted_loop, rare_value
from tetrax.compiler.cpu.emit_memory import shuffle
from tetrax.compiler.cpu.emitter import Emitter, Rule
from tetrax.compiler.cpu.llvm_text import constant_text, lane_numbers, register_type
from tetrax.compiler.cpu.vectorise import fold_plan
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_expr import Expr, FoldShape, fold_parts, iterate_parts
from tetrax.ir.kernel_operations import binary, variable
from tetrax.ir.kernel_types import ScalarType

BLOCK = 64
"""Longest chain of additions into one floating-point accumulator."""
CHAIN, CHAINS = 16, 8
"""In lanes, chains of 16 additions, 8 of which are added before errors are kept: their errors are
what remains in the end.
"""


WIDENED = "widened"
"""Marks conversions to f64 by the scheduler: accuracy is welcome, but nobody asked for f64."""


@dataclass(frozen=True)
class _Fold:
    """A fold being emitted: its loops outermost first, accumulators, updates, and the lanes values
    have; `narrow` of them fill a register.
    """

    loops: tuple[tuple[Expr, Expr], ...]
    accumulators: tuple[Expr, ...]
    initial: tuple[Expr, ...]
    updates: tuple[Expr, ...]
    operation: str | None
    lanes: int
    narrow: int = 1

    @property
    def kinds(self) -> list[str]:
        return [register_type(a.type, self.lanes) for a in self.accumulators]

    @property
    def compensated(self) -> bool:
        """Whether rounding errors must be kept in check."""
        if self.operation != "add" or not all(a.type.is_float for a in self.accumulators):
            return False
        if all(map(_is_widened, self.accumulators, self.updates)):
            return False
        extents = [extent for _, extent in self.loops]
        return any(e.op != "const" for e in extents) or prod(e.data for e in extents) > BLOCK


def _is_widened(accumulator: Expr, update: Expr) -> bool:
    """Whether f32 values are added up in f64, where 2^29 roundings are worth one of theirs."""
    marked = (arg.op == "convert" and arg.data == WIDENED for arg in update.args)
    return update.op == "add" and accumulator in update.args and any(marked)


def identity(operation: str, type: ScalarType) -> Expr:
    """The value that an operation leaves everything unchanged with."""
    if operation == "add":
        return const(-0.0 if type.is_float else 0, type)
    if operation == "mul":
        return const(1, type)
    if type.is_float:
        return const(float("inf") if operation == "min" else float("-inf"), type)
    if type.is_bool:
        return const(operation == "min", type)
    return const(type.maximum if operation == "min" else type.minimum, type)


def _fold_rule(emitter: Emitter, node: Expr) -> str:
    shape: FoldShape = node.data
    extents, initial, updates = fold_parts(node)
    loops = tuple(zip(shape.variables, extents, strict=True))
    lanes = emitter.lanes_of(node)
    plan = fold_plan(emitter, loops, updates, shape.reassociate) if lanes == 1 else None
    if plan is not None:
        lane_counts = plan.lanes, plan.narrow
        fold = _Fold(
            plan.loops, shape.accumulators, initial, updates, shape.reassociate, *lane_counts
        )
        results = _lane_fold(emitter, fold)
    else:
        fold = _Fold(loops, shape.accumulators, initial, updates, shape.reassociate, lanes)
        results = _sequential_fold(emitter, fold)
    token = emitter.fresh("fold")
    emitter.tuples[token] = tuple(results)
    return token


def _result_rule(emitter: Emitter, node: Expr) -> str:
    return emitter.tuples[emitter.value(node.args[0])][node.data]


# --- one step at a time ---


def _sequential_fold(emitter: Emitter, fold: _Fold) -> list[str]:
    start = [emitter.operand(value, fold.lanes) for value in fold.initial]
    if not fold.compensated:
        return _nest(emitter, fold, fold.loops, start, lambda texts: _step(emitter, fold, texts))
    outer, inner = _split(fold.loops)
    state = start + [constant_text(const(0.0, a.type), fold.lanes) for a in fold.accumulators]

    def block(texts: list[str], run: Callable[[list[str]], list[str]]) -> list[str]:
        partial = run(_identities(fold))
        return _add_exactly(emitter, fold, texts, partial)

    def inner_run(texts: list[str]) -> list[str]:
        return _nest(emitter, fold, inner, texts, lambda t: _step(emitter, fold, t))

    if inner:
        final = _nest(emitter, fold, outer, state, lambda texts: block(texts, inner_run))
    else:
        final = _nest(
            emitter,
            fold,
            outer[:-1],
            state,
            lambda texts: _blocked(emitter, fold, outer[-1], texts, block),
        )
    return _settle(emitter, fold, final)


def _split(
    loops: tuple[tuple[Expr, Expr], ...],
) -> tuple[tuple[tuple[Expr, Expr], ...], tuple[tuple[Expr, Expr], ...]]:
    """The loops divided so that the inner ones take at most BLOCK steps together."""
    steps, at = 1, len(loops)
    while at > 0 and loops[at - 1][1].op == "const" and steps * loops[at - 1][1].data <= BLOCK:
        at -= 1
        steps *= max(1, loops[at][1].data)
    return loops[:at], loops[at:]


def _nest(
    emitter: Emitter,
    fold: _Fold,
    loops: Sequence[tuple[Expr, Expr]],
    texts: list[str],
    innermost: Callable[[list[str]], list[str]],
) -> list[str]:
    """Loops around `innermost`, which maps the state to the next state."""
    if not loops:
        return innermost(texts)
    (var, extent), rest = loops[0], loops[1:]
    kinds = fold.kinds * (len(texts) // len(fold.kinds))

    def body(index: str, carried: list[str]) -> list[str]:
        emitter.bind(var, index)
        return _nest(emitter, fold, rest, carried, innermost)

    start: Carried = list(zip(kinds, texts, strict=True))
    return counted_loop(emitter, "0", emitter.operand(extent), 1, start, body)


def _blocked(
    emitter: Emitter,
    fold: _Fold,
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
                return _step(emitter, fold, carried)

            return counted_loop(
                emitter, base, limit, 1, list(zip(fold.kinds, partial, strict=True)), inner
            )

        return block(texts, run)

    kinds = fold.kinds * (len(state) // len(fold.kinds))
    return counted_loop(emitter, "0", stop, BLOCK, list(zip(kinds, state, strict=True)), outer)


def _step(emitter: Emitter, fold: _Fold, texts: Sequence[str]) -> list[str]:
    for accumulator, text in zip(fold.accumulators, texts, strict=True):
        emitter.bind(accumulator, text, fold.lanes)
    return [emitter.operand(update, fold.lanes) for update in fold.updates]


def _identities(fold: _Fold) -> list[str]:
    assert fold.operation is not None
    return [constant_text(identity(fold.operation, a.type), fold.lanes) for a in fold.accumulators]


# --- sums that keep their rounding errors ---


def _add_exactly(emitter: Emitter, fold: _Fold, state: list[str], partial: list[str]) -> list[str]:
    """Add block sums to (sums, errors), keeping what rounding drops."""
    count = len(fold.accumulators)
    sums, errors = state[:count], state[count:]
    totals, lost = [], []
    for kind, s, c, p in zip(fold.kinds, sums, errors, partial, strict=True):
        total = emitter.emit(f"fadd {kind} {s}, {p}")
        other = emitter.emit(f"fsub {kind} {total}, {s}")
        own = emitter.emit(f"fsub {kind} {total}, {other}")
        first = emitter.emit(f"fsub {kind} {s}, {own}")
        second = emitter.emit(f"fsub {kind} {p}, {other}")
        error = emitter.emit(f"fadd {kind} {first}, {second}")
        totals.append(total)
        lost.append(emitter.emit(f"fadd {kind} {c}, {error}"))
    return totals + lost


def _settle(emitter: Emitter, fold: _Fold, state: list[str]) -> list[str]:
    """Sums with their errors put back; an infinite sum has a NaN error, which is ignored."""
    count = len(fold.accumulators)
    condition = register_type_of_bool(fold.lanes)
    results = []
    for kind, s, c in zip(fold.kinds, state[:count], state[count:], strict=True):
        whole = emitter.emit(f"fadd {kind} {s}, {c}")
        bad = emitter.emit(f"fcmp uno {kind} {c}, {c}")
        results.append(emitter.emit(f"select {condition} {bad}, {kind} {s}, {kind} {whole}"))
    return results


def register_type_of_bool(lanes: int) -> str:
    """The LLVM type of a condition."""
    return "i1" if lanes == 1 else f"<{lanes} x i1>"


# --- lanes over one of the loops ---


def _lane_fold(emitter: Emitter, fold: _Fold) -> list[str]:
    """All lanes start from the identity; at the end they are combined pairwise with the initial
    value.
    """
    (var, extent), outer = fold.loops[-1], fold.loops[:-1]
    compensated = (
        prod(e.data for _, e in outer) * (extent.data // fold.lanes) > BLOCK and fold.compensated
    )
    state = _identities(fold)
    if compensated:
        state = state + [constant_text(const(0.0, a.type), fold.lanes) for a in fold.accumulators]
    row = _compensated_row if compensated else _plain_row
    final = _nest(
        emitter, fold, outer, state, lambda texts: row(emitter, fold, var, extent.data, texts)
    )
    if compensated:
        final = _settle(emitter, fold, final)
    assert fold.operation is not None
    results = []
    for accumulator, initial, text in zip(fold.accumulators, fold.initial, final, strict=True):
        whole = _across_lanes(emitter, fold.operation, accumulator.type, fold.lanes, text)
        start = emitter.operand(initial)
        results.append(_combine(emitter, fold.operation, accumulator.type, 1, start, whole))
    return results


def _plain_row(
    emitter: Emitter, fold: _Fold, var: Expr, extent: int, texts: list[str]
) -> list[str]:
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
    emitter: Emitter, fold: _Fold, var: Expr, extent: int, state: list[str]
) -> list[str]:
    whole = extent // fold.lanes * fold.lanes
    step = CHAIN * fold.lanes
    size = CHAINS * step

    def chain(limit: str) -> Callable[[str, list[str]], list[str]]:
        def run(base: str, texts: list[str]) -> list[str]:
            stop = _limited(emitter, base, step, limit)
            part = _lanes_between(emitter, fold, var, base, stop, _identities(fold))
            return [
                emitter.emit(f"fadd {kind} {text}, {more}")
                for kind, text, more in zip(fold.kinds, texts, part, strict=True)
            ]

        return run

    def block(base: str, texts: list[str]) -> list[str]:
        limit = _limited(emitter, base, size, str(whole)) if whole > size else str(whole)
        start = list(zip(fold.kinds, _identities(fold), strict=True))
        partial = counted_loop(emitter, base, limit, step, start, chain(limit))
        return _add_exactly(emitter, fold, texts, partial)

    if whole > size:
        state = counted_loop(
            emitter, "0", str(whole), size, list(zip(fold.kinds * 2, state, strict=True)), block
        )
    else:
        state = block("0", state)
    if whole == extent:
        return state
    return _add_exactly(emitter, fold, state, _last_lanes(emitter, fold, var, extent))


def _limited(emitter: Emitter, base: str, step: int, limit: str) -> str:
    """`base + step`, but not beyond the limit."""
    following = emitter.emit(f"add nsw i64 {base}, {step}")
    return emitter.emit(f"call i64 @llvm.smin.i64(i64 {following}, i64 {limit})")


def _lanes_between(
    emitter: Emitter, fold: _Fold, var: Expr, start: str, stop: str, texts: list[str]
) -> list[str]:
    def body(index: str, carried: list[str]) -> list[str]:
        emitter.bind(var, index, fold.lanes, linear=True)
        return _step(emitter, fold, carried)

    return counted_loop(
        emitter, start, stop, fold.lanes, list(zip(fold.kinds, texts, strict=True)), body
    )


def _last_lanes(emitter: Emitter, fold: _Fold, var: Expr, extent: int) -> list[str]:
    """What the elements after the last full vector come to, in vectors that are the identity
    beyond the first register: a body of that width is less text, and fewer lanes are done twice.
    """
    rest = extent % fold.lanes
    few = replace(fold, lanes=fold.narrow)
    if rest <= few.lanes:
        texts = _masked_lanes(emitter, few, var, extent, rest, _identities(few))
    elif rest % few.lanes == 0:
        start = str(extent - rest)
        texts = _lanes_between(emitter, few, var, start, str(extent), _identities(few))
    else:
        texts = _overlapping_lanes(emitter, few, var, extent, rest)
    return [_widened(emitter, fold, at, text) for at, text in enumerate(texts)]


def _widened(emitter: Emitter, fold: _Fold, at: int, text: str) -> str:
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
    emitter: Emitter, fold: _Fold, var: Expr, extent: int, rest: int, texts: list[str]
) -> list[str]:
    """The last elements by a vector that ends at the end, its known lanes left out."""
    lanes = fold.lanes
    mask = "<" + ", ".join(f"i1 {int(lane >= lanes - rest)}" for lane in range(lanes)) + ">"

    def body(index: str, carried: list[str]) -> list[str]:
        emitter.bind(var, index, lanes, linear=True)
        return _chosen(emitter, fold, mask, _step(emitter, fold, carried), carried)

    start = extent - lanes
    return counted_loop(
        emitter, str(start), str(start + 1), 1, list(zip(fold.kinds, texts, strict=True)), body
    )


def _overlapping_lanes(
    emitter: Emitter, fold: _Fold, var: Expr, extent: int, rest: int
) -> list[str]:
    """The last elements by several vectors; the last one ends at the end."""
    lanes = fold.lanes

    def body(index: str, carried: list[str]) -> list[str]:
        last = extent - lanes
        start = emitter.emit(f"call i64 @llvm.smin.i64(i64 {index}, i64 {last})")
        known = emitter.splat_text(emitter.emit(f"sub i64 {index}, {start}"), "i64", lanes)
        mask = emitter.emit(f"icmp sge <{lanes} x i64> {lane_numbers(lanes)}, {known}")
        emitter.bind(var, start, lanes, linear=True)
        return _chosen(emitter, fold, mask, _step(emitter, fold, carried), carried)

    carried = list(zip(fold.kinds, _identities(fold), strict=True))
    return counted_loop(emitter, str(extent - rest), str(extent), lanes, carried, body)


def _chosen(
    emitter: Emitter, fold: _Fold, mask: str, new: list[str], old: Sequence[str]
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
