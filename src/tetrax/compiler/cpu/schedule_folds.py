"""Large reductions: cut into blocks that tasks reduce, and the blocks' results reduced at the end.

    y[0] = fold i<n of x[i]
        becomes
    tasks loop t<T: partial[t] = fold i<n/T of x[t * n/T + i]
    y[0] = fold t<T of partial[t]

This is for folds with too few results to cut by those: sums of everything, sums along the longer
side. Results of several rows or columns stand side by side in `partial`. A long sum of floats is
formed in doubles, so that cutting it costs no accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

from tetrax.compiler.cpu.emit_fold_steps import WIDENED, identity
from tetrax.compiler.cpu.schedule_cost import Cost
from tetrax.compiler.cpu.schedule_rewrite import substituter
from tetrax.compiler.cpu.vectorise import all_loads
from tetrax.ir.kernel_expr import Buffer, Expr, FoldShape, fold_parts, make, walk
from tetrax.ir.kernel_index import stride_of
from tetrax.ir.kernel_loops import fold, load
from tetrax.ir.kernel_operations import add, binary, convert, index_variable, mul, variable
from tetrax.ir.kernel_statements import Block, Loop, Statement, Store, block, index
from tetrax.ir.kernel_types import F32, F64, ScalarType

MOST_RESULTS = 2048
"""With so many results or more there is enough to cut without cutting the folds."""
LEAST_TURNS = 64
"""Turns of a fold per block from which blocks are worth while."""
LONG_SUM = 16_384
"""Turns from which sums of f32 are formed in f64."""
LINE, FEW = 64, 8

NewBuffer = Callable[[str, Buffer], Buffer]
"""Adds a temporary buffer, like the one given but for its name, to the kernel being scheduled."""


@dataclass(frozen=True)
class Nest:
    """Loops one in another, outermost first, around stores."""

    loops: tuple[Loop, ...]
    stores: tuple[Store, ...]

    @property
    def size(self) -> int | None:
        """How often the stores run."""
        if any(loop.extent.op != "const" for loop in self.loops):
            return None
        return prod(loop.extent.data for loop in self.loops)

    def flat(self) -> Expr:
        """The number of the current turn."""
        offset, step = index(0), 1
        for loop in reversed(self.loops):
            offset = add(offset, mul(loop.variable, step))
            step *= loop.extent.data
        return offset

    def around(self, stores: Sequence[Statement]) -> Statement:
        """The same loops around other stores."""
        body = block(*stores)
        for loop in reversed(self.loops):
            body = Loop(loop.variable, loop.extent, body, (), loop.kind)
        return body


def nest_of(statement: Statement) -> Nest | None:
    """A statement as a nest, if it is one."""
    loops: list[Loop] = []
    while isinstance(statement, Loop):
        if statement.carried or statement.kind == "tasks":
            return None
        loops.append(statement)
        statement = statement.body
    inner = statement.statements if isinstance(statement, Block) else (statement,)
    stores = [s for s in inner if isinstance(s, Store)]
    if not stores or len(stores) != len(inner):
        return None
    return Nest(tuple(loops), tuple(stores))


def turns(node: Expr) -> int:
    """Steps of a fold, 0 where they are not known."""
    extents = fold_parts(node)[0]
    return prod(e.data for e in extents) if all(e.op == "const" for e in extents) else 0


def split_folds(
    statement: Statement, tasks: int, cost: Cost, new_buffer: NewBuffer
) -> list[Statement] | None:
    """The statements that compute a nest's large folds in `tasks` blocks or so, or None."""
    nest = nest_of(statement)
    if nest is None or nest.size is None or nest.size >= MOST_RESULTS:
        return None
    split = _Split(nest, tasks, cost, new_buffer)
    split.run()
    return [*split.before, split.nest.around(split.nest.stores)] if split.before else None


class _Split:
    def __init__(self, nest: Nest, tasks: int, cost: Cost, new_buffer: NewBuffer) -> None:
        self.nest, self.tasks, self.cost, self.new_buffer = nest, tasks, cost, new_buffer
        self.before: list[Statement] = []
        self.settled: set[Expr] = set()  # folds that are left as they are
        self.variables = frozenset(loop.variable for loop in nest.loops)

    def run(self) -> None:
        """Replace folds from the innermost out: a later one may use the results of an earlier."""
        while True:
            folds = self.eligible()
            if not folds:
                return
            count = self.count_for(folds)
            task = index_variable("task", count)
            stores: list[Statement] = []
            replacements: dict[Expr, Expr] = {}
            for node in folds:
                self.split(node, task, count, stores, replacements)
            if not stores:
                return
            body = self.nest.around(stores)
            self.before.append(Loop(task, index(count), body, (), "tasks", self.cost.work))
            rule = substituter(replacements)
            new = tuple(Store(s.buffer, s.offset, rule(s.value)) for s in self.nest.stores)
            self.nest = Nest(self.nest.loops, new)

    def eligible(self) -> list[Expr]:
        """Large folds that depend on nothing but the nest, and hold no other such fold."""
        found = [
            node
            for node in walk(store.value for store in self.nest.stores)
            if node.op == "fold"
            and node.data.reassociate is not None
            and node not in self.settled
            and turns(node) >= LEAST_TURNS * self.tasks
            and node.args[_split_at(node, self.tasks)].data >= 2 * self.tasks
            and node.free <= self.variables
        ]
        inner = {n for node in found for n in walk(node.args) if n is not node}
        outer = set(found)
        return [node for node in found if not (set(walk(node.args)) & outer)] if inner else found

    def count_for(self, folds: Iterable[Expr]) -> int:
        """A number of blocks that leaves little of the loops to be cut over; even, or so large that
        one more does not matter.
        """
        extents = [node.args[_split_at(node, self.tasks)].data for node in folds]
        near = range(self.tasks, max(2, self.tasks // 2) - 1, -1)
        good = [count for count in near if count % 2 == 0 or count > 2 * FEW]
        return min(good, key=lambda count: sum(extent % count for extent in extents))

    def split(
        self,
        node: Expr,
        task: Expr,
        count: int,
        stores: list[Statement],
        replacements: dict[Expr, Expr],
    ) -> None:
        """Add the stores of a fold's blocks, and what its results become."""
        long = widened(node) if is_sum(node, F32) else node
        at = _split_at(node, self.tasks)
        extent = node.args[at].data
        granule = LINE if extent % count and extent >= 16 * LINE * count else 1
        size = extent // (count * granule) * granule
        parts = _piece(long, at, mul(task, size), size)
        flat, results = self.nest.flat(), self.nest.size or 1
        rest = extent - size * count
        tails = _piece(long, at, index(size * count), rest) if rest else None
        self.settled.update(tail.args[0] for tail in tails or ())
        for i, (part, (operation, _)) in enumerate(zip(parts, steps_of(long), strict=True)):
            place = self.new_buffer("partial", Buffer("", part.type, count * results, "temp"))
            stores.append(Store(place, add(mul(task, results), flat), part))
            turn = index_variable("block", count)
            total = variable("total", part.type)
            partial = load(place, add(mul(turn, results), flat))
            whole = fold(
                [(turn, count)],
                [(total, _initial(long)[i], binary(operation, total, partial))],
                long.data.reassociate,
            )[0]
            self.settled.add(whole.args[0])
            if tails is not None:
                whole = binary(operation, whole, tails[i])
            result = make("result", node.data.accumulators[i].type, (node,), i)
            replacements[result] = convert(whole, result.type)


def _split_at(node: Expr, tasks: int) -> int:
    """Which loop of a fold to cut: the outermost one with enough turns, or the longest."""
    extents = [extent.data for extent in fold_parts(node)[0]]
    for at, extent in enumerate(extents):
        if extent >= 4 * tasks:
            return at
    return extents.index(max(extents))


def steps_of(node: Expr) -> list[tuple[str, Expr]]:
    """(operation, value) of each update of a reassociable fold."""
    steps = []
    for accumulator, update in zip(node.data.accumulators, fold_parts(node)[2], strict=True):
        value = update.args[1] if update.args[0] is accumulator else update.args[0]
        steps.append((update.op, value))
    return steps


def _initial(node: Expr) -> tuple[Expr, ...]:
    return fold_parts(node)[1]


def _piece(node: Expr, at: int, start: Expr, size: int) -> list[Expr]:
    """The results of a fold over part of one of its loops, from the identity on."""
    shape: FoldShape = node.data
    extents, _, updates = fold_parts(node)
    inner = index_variable(shape.variables[at].data.name, size)
    rule = substituter({shape.variables[at]: add(start, inner)})
    variables = [
        (inner, index(size)) if i == at else (var, extent)
        for i, (var, extent) in enumerate(zip(shape.variables, extents, strict=True))
    ]
    operation = shape.reassociate or ""
    accumulators = [
        (accumulator, identity(operation, accumulator.type), rule(update))
        for accumulator, update in zip(shape.accumulators, updates, strict=True)
    ]
    return list(fold(variables, accumulators, operation))


# --- sums in doubles ---


def widened(node: Expr) -> Expr:
    """A sum of f32 as a sum of f64."""
    shape: FoldShape = node.data
    extents, initial, _ = fold_parts(node)
    accumulators = []
    for accumulator, start, (_, value) in zip(
        shape.accumulators, initial, steps_of(node), strict=True
    ):
        wide = variable(accumulator.data.name, F64)
        value = make("convert", F64, (value,), WIDENED)
        accumulators.append((wide, convert(start, F64), add(wide, value)))
    variables = list(zip(shape.variables, extents, strict=True))
    return fold(variables, accumulators, "add")[0].args[0]


def is_sum(node: Expr, type: ScalarType) -> bool:
    """Whether a fold adds up values of a type."""
    accumulators = node.data.accumulators
    return node.data.reassociate == "add" and all(a.type is type for a in accumulators)


def is_long_sum(node: Expr, times: int = 1) -> bool:
    """Whether a fold, run so many times, adds up so many f32 that it should do so in f64."""
    return is_sum(node, F32) and turns(node) * times >= LONG_SUM


def reads_in_order(node: Expr) -> bool:
    """Whether a fold reads memory along one of its own loops."""
    loads = all_loads(fold_parts(node)[2])
    return any(
        stride_of(one.args[0], var) in (1, -1, 2)
        for one in loads
        for var in node.data.variables
        if var in one.free
    )


def widen_long_sums(node: Expr, args: tuple[Expr, ...]) -> Expr | None:
    """The replacement of a result of a long sum, for `rewrite`; None for other nodes."""
    if node.op != "result" or args[0].op != "fold" or not is_long_sum(args[0]):
        return None
    if not reads_in_order(args[0]):
        return None
    return convert(make("result", F64, (widened(args[0]),), node.data), node.type)
