"""Rewriting of statements for the scheduler: other index values, other places in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tetrax.compiler.cpu.legalise import map_expressions
from tetrax.ir.kernel_expr import Buffer, Expr, make, rebuild, rewrite
from tetrax.ir.kernel_operations import add, binary
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
from tetrax.ir.kernel_types import I64

_INDEX_OPS = frozenset(("add", "sub", "mul", "div", "rem"))


def substituter(replacements: Mapping[Expr, Expr]) -> Callable[[Expr], Expr]:
    """Replaces nodes (usually variables) in expressions and keeps index arithmetic canonical."""
    done: dict[Expr, Expr] = {}

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        found = replacements.get(node)
        if found is not None:
            return found
        if args != node.args and node.type is I64 and node.op in _INDEX_OPS:
            return binary(node.op, *args)
        return rebuild(node, args)

    return lambda node: rewrite([node], rule, done)[0]


def substituted(statement: Statement, replacements: Mapping[Expr, Expr]) -> Statement:
    """A statement with nodes replaced."""
    return map_expressions(statement, substituter(replacements))


def moved(statement: Statement, buffer: Buffer, whole: Buffer, distance: Expr) -> Statement:
    """A statement that uses `whole` from `distance` on in place of `buffer`."""
    done: dict[Expr, Expr] = {}

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "load" and node.data == buffer:
            return make("load", node.type, (add(args[0], distance),), whole)
        return rebuild(node, args)

    loaded = map_expressions(statement, lambda node: rewrite([node], rule, done)[0])
    return _stored_elsewhere(loaded, buffer, whole, distance)


def _stored_elsewhere(
    statement: Statement, buffer: Buffer, whole: Buffer, distance: Expr
) -> Statement:
    def inside(inner: Statement) -> Statement:
        return _stored_elsewhere(inner, buffer, whole, distance)

    if isinstance(statement, Block):
        return Block(tuple(inside(inner) for inner in statement.statements))
    if isinstance(statement, If):
        return If(statement.condition, inside(statement.then), inside(statement.orelse))
    if isinstance(statement, Store):
        if statement.buffer != buffer:
            return statement
        return Store(whole, add(statement.offset, distance), statement.value)
    if isinstance(statement, Call):

        def argument(given: Expr | Address | Procedure) -> Expr | Address | Procedure:
            if isinstance(given, Procedure):
                return Procedure(given.parameters, inside(given.body))
            if isinstance(given, Address) and given.buffer == buffer:
                return Address(whole, add(given.offset, distance))
            return given

        return Call(statement.symbol, tuple(argument(given) for given in statement.arguments))
    assert isinstance(statement, Loop | While)
    return replace(statement, body=inside(statement.body))
