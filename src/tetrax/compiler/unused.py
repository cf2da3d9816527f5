"""Results of an operation's own kernel that nobody reads: their stores go, and what led to them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tetrax.compiler.cpu.legalise import expressions
from tetrax.compiler.cpu.vectorise import all_loads
from tetrax.ir.kernel import Kernel
from tetrax.ir.kernel_expr import Buffer
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
    block,
)


def without_results(kernel: Kernel, unused: Collection[Buffer]) -> Kernel:
    """The kernel without the result buffers `unused`, as far as it only stores to them."""
    read = {load.data for load in all_loads(expressions(kernel.body))} | _addressed(kernel.body)
    gone = frozenset(unused) - read
    if not gone:
        return kernel
    buffers = tuple(buffer for buffer in kernel.buffers if buffer not in gone)
    return replace(kernel, buffers=buffers, body=_without(kernel.body, gone))


def _addressed(statement: Statement) -> set[Buffer]:
    """The buffers whose addresses routines are given."""
    if isinstance(statement, Call):
        found: set[Buffer] = set()
        for argument in statement.arguments:
            if isinstance(argument, Address):
                found.add(argument.buffer)
            elif isinstance(argument, Procedure):
                found |= _addressed(argument.body)
        return found
    if isinstance(statement, Block):
        return set().union(*map(_addressed, statement.statements))
    if isinstance(statement, If):
        return _addressed(statement.then) | _addressed(statement.orelse)
    return _addressed(statement.body) if isinstance(statement, Loop | While) else set()


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
