"""Results of an operation's own kernel that nobody reads: their stores go, and what led to them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tetrax.compiler.cpu.emit_tasks import touched
from tetrax.compiler.cpu.schedule_legality import leaves, loads_of
from tetrax.ir.kernel import Kernel
from tetrax.ir.kernel_expr import Buffer
from tetrax.ir.kernel_statements import Block, Call, If, Loop, Statement, Store, While, block


def without_results(kernel: Kernel, unused: Collection[Buffer]) -> Kernel:
    """The kernel without the result buffers `unused`, as far as it only stores to them."""
    passed = {b for leaf in leaves(kernel.body) if isinstance(leaf, Call) for b in touched(leaf)}
    gone = frozenset(unused) - passed - {load.data for load in loads_of(kernel.body)}
    if not gone:
        return kernel
    buffers = tuple(buffer for buffer in kernel.buffers if buffer not in gone)
    return replace(kernel, buffers=buffers, body=_without(kernel.body, gone))


def _without(statement: Statement, gone: frozenset[Buffer]) -> Statement:
    if isinstance(statement, Store):
        return block() if statement.buffer in gone else statement
    if isinstance(statement, Block):
        return block(*(_without(inner, gone) for inner in statement.statements))
    if isinstance(statement, If):
        then, orelse = (_without(side, gone) for side in (statement.then, statement.orelse))
        return replace(statement, then=then, orelse=orelse)
    if isinstance(statement, Loop | While):
        return replace(statement, body=_without(statement.body, gone))
    return statement
