"""Kernels that are a nest of loops around nothing but stores, and how they are taken apart."""

from __future__ import annotations

from collections.abc import Mapping

from tetrax.ir.kernel_expr import Buffer, Expr, make, rebuild, rewrite
from tetrax.ir.kernel_statements import Block, Loop, Statement, Store


def innermost_stores(statement: Statement) -> list[Store] | None:
    """The stores inside a nest of loops without carried values, else None."""
    while isinstance(statement, Loop) and not statement.carried:
        statement = statement.body
    inside = statement.statements if isinstance(statement, Block) else (statement,)
    stores = [inner for inner in inside if isinstance(inner, Store)]
    return stores if len(stores) == len(inside) else None


def loops_of(statement: Statement) -> list[tuple[Expr, Expr]]:
    """Variables and extents of such a nest, outermost first."""
    found = []
    while isinstance(statement, Loop):
        found.append((statement.variable, statement.extent))
        statement = statement.body
    return found


def on_buffers(store: Store, buffers: Mapping[Buffer, Buffer]) -> Store:
    """A store that reads and writes other buffers instead of some."""

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "load" and node.data in buffers:
            return make("load", node.type, args, buffers[node.data])
        return rebuild(node, args)

    offset, value = rewrite([store.offset, store.value], rule)
    return Store(buffers.get(store.buffer, store.buffer), offset, value)
