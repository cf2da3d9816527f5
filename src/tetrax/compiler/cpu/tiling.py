"""Kernel to kernel: two nested loops that read across rows run in strips, so that a cache line
is used whole.

    for i: for j: y[i, j] = x[j, i]     becomes     for strips of i: for j: for i in the strip: …

where the innermost loop now reads in order. It pays for transpositions and whatever is fused
with them.
"""

from __future__ import annotations

from dataclasses import replace

from tetrax.compiler.cpu.legalise import map_expressions
from tetrax.compiler.cpu.vectorise import all_loads, conditions_of, stores_of
from tetrax.ir.kernel_expr import Expr, substitute
from tetrax.ir.kernel_index import affine_of, stride_of
from tetrax.ir.kernel_operations import add, index_variable, mul
from tetrax.ir.kernel_statements import (
    Block,
    If,
    Kernel,
    Loop,
    Statement,
    Store,
    While,
    block,
    loop,
)

LINE_BYTES = 64
SMALLEST_STRIDE = 16
"""Elements between neighbours of the inner loop from which on strips are worth while."""


def tile_transpositions(kernel: Kernel) -> Kernel:
    """The same kernel with such loop nests in strips."""
    return Kernel(kernel.name, kernel.buffers, kernel.scalars, _tiled(kernel.body))


def _tiled(statement: Statement) -> Statement:
    if isinstance(statement, Block):
        return Block(tuple(_tiled(inner) for inner in statement.statements))
    if isinstance(statement, If):
        return If(statement.condition, _tiled(statement.then), _tiled(statement.orelse))
    if isinstance(statement, While):
        return While(statement.carried, statement.condition, _tiled(statement.body))
    if not isinstance(statement, Loop):
        return statement
    if statement.kind != "tasks" and crosses_rows(statement):
        return _in_strips(statement)
    return replace(statement, body=_tiled(statement.body))


def crosses_rows(outer: Loop) -> bool:
    """Whether the inner loop of a nest jumps through memory that the outer one reads in order."""
    inner = outer.body
    if not isinstance(inner, Loop) or outer.carried or inner.carried:
        return False
    stores = stores_of(inner.body)
    if not stores or outer.extent.op != "const" or inner.extent.op != "const":
        return False
    if min(outer.extent.data, inner.extent.data) < SMALLEST_STRIDE:
        return False
    i, j = outer.variable, inner.variable
    roots = [*(s.value for s in stores), *(s.offset for s in stores), *conditions_of(inner.body)]
    loads = all_loads(roots)
    # Temporary buffers are near anyway.
    jumps = [load for load in loads if load.data.mode != "temp" and _is_across(load.args[0], i, j)]
    return bool(jumps) and _order_is_free(stores, loads, i, j, inner.extent.data)


def _is_across(offset: Expr, i: Expr, j: Expr) -> bool:
    inner = stride_of(offset, j)
    return stride_of(offset, i) in (1, 2) and inner is not None and abs(inner) >= SMALLEST_STRIDE


def _order_is_free(stores: list[Store], loads: list[Expr], i: Expr, j: Expr, extent: int) -> bool:
    """Whether every turn stores elements of its own and nothing stored is read."""
    written = {s.buffer for s in stores}
    if len({b.name for b in written}) != len(stores) and not _neighbours(stores):
        return False
    if any(load.data in written or load.data.mode == "inout" for load in loads):
        return False
    for store in stores:
        across, along = stride_of(store.offset, i), stride_of(store.offset, j)
        if not across or not along or abs(along) < len(stores) / len(written):
            return False
        if abs(across) < abs(along) * extent:
            return False
    return True


def _neighbours(stores: list[Store]) -> bool:
    """Whether stores to one buffer are pairs side by side (real and imaginary parts)."""
    first = affine_of(stores[0].offset)
    return all(
        s.buffer == stores[0].buffer
        and affine_of(s.offset)[0] == first[0]
        and affine_of(s.offset)[1] - first[1] == at
        for at, s in enumerate(stores)
    )


def _in_strips(outer: Loop) -> Statement:
    inner = outer.body
    assert isinstance(inner, Loop)
    stores = stores_of(inner.body)
    assert stores
    height = max(8, LINE_BYTES // stores[0].buffer.element.bytes)
    height = min(height, 32)
    strips, rest = divmod(outer.extent.data, height)
    strip, row = index_variable("strip", strips), index_variable("row", height)
    inside = _with(inner.body, outer.variable, add(mul(strip, height), row))
    rows = loop(row, height, inside, kind="vector")
    whole = loop(strip, strips, loop(inner.variable, inner.extent, rows))
    if rest == 0:
        return whole
    last, column = index_variable("row", rest), index_variable("column", inner.extent.data)
    body = _with(inner.body, outer.variable, add(last, strips * height))
    body = _with(body, inner.variable, column)
    return block(whole, loop(last, rest, loop(column, inner.extent, body, kind=inner.kind)))


def _with(statement: Statement, variable: Expr, value: Expr) -> Statement:
    return map_expressions(statement, lambda node: _substituted(node, variable, value))


def _substituted(node: Expr, variable: Expr, value: Expr) -> Expr:
    return substitute([node], {variable: value})[0]
