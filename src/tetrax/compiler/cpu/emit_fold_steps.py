"""What folds are made of: nests of loops around a step, and sums that keep their rounding errors.

A sum of floats never runs long in one accumulator: block sums are added up with their rounding
errors kept (Knuth's two-sum), so that the error of a sum does not grow with its length. The order
is a function of the extents alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from tetrax.compiler.cpu.emit_loops import Carried, counted_loop
from tetrax.compiler.cpu.emitter import Emitter
from tetrax.compiler.cpu.llvm_text import constant_text, register_type
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_types import ScalarType

BLOCK = 64
"""Longest chain of additions into one floating-point accumulator."""
WIDENED = "widened"
"""Marks conversions to f64 by the scheduler: accuracy is welcome, but nobody asked for f64."""


@dataclass(frozen=True)
class Fold:
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


def nest(
    emitter: Emitter,
    fold: Fold,
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
        return nest(emitter, fold, rest, carried, innermost)

    start: Carried = list(zip(kinds, texts, strict=True))
    return counted_loop(emitter, "0", emitter.operand(extent), 1, start, body)


def step(emitter: Emitter, fold: Fold, texts: Sequence[str]) -> list[str]:
    for accumulator, text in zip(fold.accumulators, texts, strict=True):
        emitter.bind(accumulator, text, fold.lanes)
    return [emitter.operand(update, fold.lanes) for update in fold.updates]


def identities(fold: Fold) -> list[str]:
    assert fold.operation is not None
    return [constant_text(identity(fold.operation, a.type), fold.lanes) for a in fold.accumulators]


# --- sums that keep their rounding errors ---


def add_exactly(emitter: Emitter, fold: Fold, state: list[str], partial: list[str]) -> list[str]:
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


def settle(emitter: Emitter, fold: Fold, state: list[str]) -> list[str]:
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
