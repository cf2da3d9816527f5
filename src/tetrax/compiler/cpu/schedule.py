"""Kernel to kernel: which loops run on the worker pool.

    loop i<n: body        becomes        tasks loop t<T: loop j<n/T: body with i = t * n/T + j

The outermost loops whose iterations are independent, and whose work pays, become loops of kind
'tasks'. How work is cut depends on the kernel alone, never on the number of threads, so results
have the same bits for any number of them.

A rule that writes its own loop nest asks for threads with a loop of kind 'parallel': it promises
that no iteration reads or writes what another one stores (temporary buffers used only inside are
made private to each task), and the loop is cut into tasks here where its work pays. A rule
that wants to cut the work itself writes a loop of kind 'tasks' with an estimate of its `work`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tetrax.compiler.cpu.legalise import map_expressions
from tetrax.compiler.cpu.schedule_collapse import collapse_folds
from tetrax.compiler.cpu.schedule_columns import by_rows
from tetrax.compiler.cpu.schedule_cost import Cost, cost_of
from tetrax.compiler.cpu.schedule_folds import MOST_RESULTS, split_folds, widen_long_sums
from tetrax.compiler.cpu.schedule_legality import (
    buffers_of,
    is_independent,
    may_run_twice,
    private_buffers,
)
from tetrax.compiler.cpu.schedule_rewrite import moved, substituted
from tetrax.compiler.cpu.vectorise import stores_of
from tetrax.ir.kernel_expr import Buffer, Expr, rebuild, rewrite, walk
from tetrax.ir.kernel_operations import add, div, index_variable, minimum, mul, sub
from tetrax.ir.kernel_statements import (
    Block,
    If,
    Kernel,
    Loop,
    Statement,
    While,
    block,
    index,
)

LEAST_TIME = 8_000.0
"""Nanoseconds on one thread from which a loop is worth sharing."""
TASK_TIME = 4_000.0
"""Nanoseconds that a task should take at least."""
FEW_TASKS, MANY_TASKS, LONG_TASK_TIME = 8, 32, 25_000.0
"""There are up to 8 tasks, and up to 32 where each takes long enough."""
LEAST_WASTE = 16
"""Tasks may overlap by up to a sixteenth of the work where that keeps their loops alike."""
LINE_BYTES = 64
LINE, STRIP = 64, 32
"""Tasks of loops that run in lanes have a multiple of 64 iterations; others, where there are many
iterations, a multiple of 32, so that transposed strips stay whole.
"""


def schedule(kernel: Kernel) -> Kernel:
    """The same kernel with loops of kind 'tasks' where they pay."""
    kernel = collapse_folds(kernel)
    if cost_of(kernel.body).time < LEAST_TIME:
        return kernel
    state = _State(kernel.buffers)
    body = by_rows(state.statement(kernel.body, set()), state.new_buffer)
    return replace(kernel, buffers=tuple(state.buffers), body=with_long_sums(body))


def with_long_sums(statement: Statement) -> Statement:
    """A statement with its long sums of f32 formed in f64."""
    done: dict[Expr, Expr] = {}

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        return widen_long_sums(node, args) or rebuild(node, args)

    return map_expressions(statement, lambda node: rewrite([node], rule, done)[0])


def task_count(cost: Cost) -> int:
    """How many tasks to cut work into: a power of two."""
    several = min(FEW_TASKS, int(cost.time / TASK_TIME))
    many = min(MANY_TASKS, int(cost.time / LONG_TASK_TIME))
    return 1 << max(1, max(several, many).bit_length() - 1)


class _State:
    """The kernel being scheduled: buffers grow as temporary ones become private to tasks."""

    def __init__(self, buffers: tuple[Buffer, ...]) -> None:
        self.buffers = list(buffers)

    def statement(self, statement: Statement, elsewhere: set[Buffer]) -> Statement:
        """Schedule a statement; other statements use the buffers `elsewhere`."""
        if isinstance(statement, Block):
            return self.block(statement, elsewhere)
        if isinstance(statement, If):
            then = self.statement(statement.then, elsewhere | buffers_of(statement.orelse))
            orelse = self.statement(statement.orelse, elsewhere | buffers_of(statement.then))
            return If(statement.condition, then, orelse)
        if isinstance(statement, While):
            return replace(statement, body=self.statement(statement.body, elsewhere))
        if isinstance(statement, Loop):
            return self.loop(statement, elsewhere)
        return self.folds(statement, cost_of(statement)) or statement

    def folds(self, statement: Statement, cost: Cost) -> Statement | None:
        """A statement whose large folds are cut into blocks, if it has any."""
        if cost.time < LEAST_TIME:
            return None
        parts = split_folds(statement, task_count(cost), cost, self.new_buffer)
        return None if parts is None else block(*parts)

    def new_buffer(self, name: str, like: Buffer) -> Buffer:
        """A temporary buffer with a name of its own."""
        made = replace(like, name=f"{name}{len(self.buffers)}")
        self.buffers.append(made)
        return made

    def block(self, statement: Block, elsewhere: set[Buffer]) -> Block:
        uses = [buffers_of(inner) for inner in statement.statements]
        done = []
        for at, inner in enumerate(statement.statements):
            others = elsewhere.union(*uses[:at], *uses[at + 1 :])
            done.append(self.statement(inner, others))
        return Block(tuple(done))

    def loop(self, loop: Loop, elsewhere: set[Buffer]) -> Statement:
        if loop.kind == "tasks":
            return loop
        cost = cost_of(loop)
        if cost.time < LEAST_TIME:
            return loop
        independent = is_independent(loop)
        if independent and not _has_few_turns(loop):
            return self.cut(loop, cost, elsewhere)
        by_folds = self.folds(loop, cost)
        if by_folds is not None:
            return by_folds
        before = list(self.buffers)
        inside = self.statement(loop.body, elsewhere)
        if inside != loop.body or not independent:
            return replace(loop, body=inside)
        self.buffers = before
        return self.cut(loop, cost, elsewhere)

    # --- cutting ---

    def cut(self, loop: Loop, cost: Cost, elsewhere: set[Buffer]) -> Statement:
        """The loop as tasks, each with a piece of it."""
        private = private_buffers(loop, elsewhere)
        count = task_count(cost)
        if loop.extent.op == "const":
            cut = cut_of(loop, count, may_run_twice(loop, private))
            if cut.tasks < 2:
                return loop
            task = index_variable("task", cut.tasks)
            start, extent = cut.piece(task, loop.extent.data)
            count = cut.tasks
        else:
            task = index_variable("task", count)
            size = div(add(loop.extent, count - 1), count)
            start = mul(task, size)
            extent = minimum(size, sub(loop.extent, start))
        inner = index_variable(
            loop.variable.data.name, extent.data if extent.op == "const" else extent
        )
        body = substituted(loop.body, {loop.variable: add(start, inner)})
        for buffer in private:
            body = self.privatise(body, buffer, task, count, buffer in elsewhere)
        kind = "serial" if loop.kind == "parallel" else loop.kind
        piece = Loop(inner, extent, body, (), kind)
        return Loop(task, index(count), piece, (), "tasks", cost.work)

    def privatise(
        self, body: Statement, buffer: Buffer, task: Expr, count: int, used_elsewhere: bool
    ) -> Statement:
        """The body with a temporary buffer replaced by one that has a part for each task."""
        lines = -(-buffer.size * buffer.element.bytes // LINE_BYTES)
        size = lines * LINE_BYTES // buffer.element.bytes
        whole = replace(buffer, size=size * count)
        if used_elsewhere:
            whole = self.new_buffer("own", whole)
        else:
            self.buffers[self.buffers.index(buffer)] = whole
        return moved(body, buffer, whole, mul(task, size))


def _has_few_turns(loop: Loop) -> bool:
    """Whether a loop is too short to be cut, if there is something else to cut."""
    if loop.extent.op != "const":
        return False
    if loop.kind == "vector" and _has_folds(loop):
        return loop.extent.data < MOST_RESULTS
    return loop.extent.data < FEW_TASKS


def _has_folds(loop: Loop) -> bool:
    stores = stores_of(loop.body)
    return stores is not None and any(
        node.op == "fold" for node in walk(store.value for store in stores)
    )


@dataclass(frozen=True)
class Cut:
    """A loop in `tasks` pieces of `size` iterations; what is too much in the last one either makes
    it start earlier (`overlap`) or end earlier.
    """

    tasks: int
    size: int
    overlap: bool

    def piece(self, task: Expr, extent: int) -> tuple[Expr, Expr]:
        """(first iteration, number of iterations) of a task."""
        start = mul(task, self.size)
        if self.tasks * self.size == extent:
            return start, index(self.size)
        if self.overlap:
            return minimum(start, extent - self.size), index(self.size)
        return start, minimum(index(self.size), sub(index(extent), start))


def cut_of(loop: Loop, count: int, repeatable: bool) -> Cut:
    """How a loop of constant extent is cut into about `count` pieces."""
    extent: int = loop.extent.data
    count = min(count, extent)
    granule = 1
    if loop.kind == "vector" and stores_of(loop.body) is not None:
        granule = LINE
    elif extent % count and extent >= 2 * STRIP * FEW_TASKS:
        granule = STRIP
    size = -(-extent // (count * granule)) * granule
    tasks = -(-extent // size)
    waste = tasks * size - extent
    return Cut(tasks, size, repeatable and waste * LEAST_WASTE <= extent)
