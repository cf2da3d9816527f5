"""Kernel to kernel: transpositions go through a small block of memory.

    for i: for j: y[i, j] = f(x[j, i])     becomes     for blocks of i, of j:
                                                           for j: for i: t[j, i] = f(x[j, i])
                                                           for i: for j: y[i, j] = t[j, i]

Both sides then touch memory in order, whole cache lines at a time; the jumps stay in the block,
which the first-level cache holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tetrax.compiler.cpu.tiling import crosses_rows
from tetrax.compiler.cpu.vectorise import stores_of
from tetrax.ir.kernel_expr import Buffer, Expr
from tetrax.ir.kernel_loops import load
from tetrax.ir.kernel_operations import add, index_variable, mul
from tetrax.ir.kernel_simplify import substitute_simplified
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
    store,
)

LONGEST_SIDE = 128
"""Nests of fewer turns on a side fit the caches as they are."""
BLOCK_BYTES = 128
"""One side of a block: two cache lines."""
BLOCK_COLUMNS = 64


def block_transpositions(kernel: Kernel) -> Kernel:
    """The same kernel with large transpositions in blocks."""
    buffers = list(kernel.buffers)

    def temporary(like: Buffer, size: int) -> Buffer:
        made = Buffer(f"block{len(buffers)}", like.element, size, "temp")
        buffers.append(made)
        return made

    body = _blocked(kernel.body, temporary)
    return replace(kernel, buffers=tuple(buffers), body=body)


def _blocked(statement: Statement, temporary: Callable[[Buffer, int], Buffer]) -> Statement:
    if isinstance(statement, Block):
        return block(*(_blocked(inner, temporary) for inner in statement.statements))
    if isinstance(statement, If | While):
        return statement
    if not isinstance(statement, Loop):
        return statement
    if _is_large(statement) and crosses_rows(statement):
        return _in_blocks(statement, temporary)
    return replace(statement, body=_blocked(statement.body, temporary))


def _is_large(outer: Loop) -> bool:
    inner = outer.body
    if not isinstance(inner, Loop) or outer.extent.op != "const" or inner.extent.op != "const":
        return False
    if min(outer.extent.data, inner.extent.data) < LONGEST_SIDE:
        return False
    stores = stores_of(inner.body)
    return stores is not None and len(stores) == 1 and isinstance(inner.body, Store)


def _in_blocks(outer: Loop, temporary: Callable[[Buffer, int], Buffer]) -> Statement:
    inner = outer.body
    assert isinstance(inner, Loop) and isinstance(inner.body, Store)
    height = BLOCK_BYTES // inner.body.buffer.element.bytes
    memory = temporary(inner.body.buffer, height * BLOCK_COLUMNS)
    pieces = []
    for rows, first_row in _cut(outer.extent.data, height):
        for columns, first_column in _cut(inner.extent.data, BLOCK_COLUMNS):
            pieces.append((rows, first_row, columns, first_column))
    return block(*(_nest(outer, inner, memory, *piece) for piece in pieces))


def _cut(extent: int, size: int) -> list[tuple[tuple[int, int], int]]:
    """((blocks, size of each), first) of the whole blocks, and of what is left."""
    whole, rest = divmod(extent, size)
    cuts = [((whole, size), 0)] if whole else []
    return [*cuts, ((1, rest), whole * size)] if rest else cuts


def _nest(
    outer: Loop,
    inner: Loop,
    memory: Buffer,
    rows: tuple[int, int],
    first_row: int,
    columns: tuple[int, int],
    first_column: int,
) -> Statement:
    strip, band = index_variable("strip", rows[0]), index_variable("band", columns[0])
    assert isinstance(inner.body, Store)

    def at(row: Expr, column: Expr) -> dict[Expr, Expr]:
        return {
            outer.variable: add(add(mul(strip, rows[1]), row), first_row),
            inner.variable: add(add(mul(band, columns[1]), column), first_column),
        }

    def moved(node: Expr, row: Expr, column: Expr) -> Expr:
        return substitute_simplified([node], at(row, column))[0]

    row, column = index_variable("row", rows[1]), index_variable("column", columns[1])
    place = add(mul(column, rows[1]), row)
    gather = store(memory, place, moved(inner.body.value, row, column))
    fill = loop(column, columns[1], loop(row, rows[1], gather, kind="vector"))
    row, column = index_variable("row", rows[1]), index_variable("column", columns[1])
    value = load(memory, add(mul(column, rows[1]), row))
    scatter = store(inner.body.buffer, moved(inner.body.offset, row, column), value)
    drain = loop(row, rows[1], loop(column, columns[1], scatter, kind="vector"))
    body = loop(band, columns[0], block(fill, drain))
    return loop(strip, rows[0], body, kind="parallel")


__all__ = ["block_transpositions"]
