"""Small real systems written out in scalars, one matrix of a batch after the other.

A library call costs more than the arithmetic of a 3 x 3 matrix. Pivots are chosen as LAPACK does:
the first of the largest elements; a column of zeros is left as it is.
"""

from __future__ import annotations

from typing import Any

from tetrax.ir import kernel
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_types import I32
from tetrax.ir.views import Stored

LARGEST = 6
"""Rows and columns up to which matrices are written out."""


def is_small(x: Stored) -> bool:
    """Whether the matrices of a real batch are small enough, and there are some."""
    rows, columns = x.shape[-2:]
    return (
        x.buffer.element.is_float
        and not x.is_complex
        and 0 < rows <= LARGEST
        and 0 < columns <= LARGEST
    )


def emit_small_lu(
    builder: Any, count: int, x: Stored, factors: Stored, pivots: Stored, order: Stored
) -> None:
    """Factors, swaps and the order of rows of every matrix."""
    rows, columns = x.shape[-2:]
    size = rows * columns
    with builder.loop(count, "parallel") as index:
        base = kernel.mul(index, size)
        a = [
            [builder.load(x.buffer, kernel.add(base, i * columns + j)) for j in range(columns)]
            for i in range(rows)
        ]
        places: list[Expr] = [kernel.const(i, I32) for i in range(rows)]
        for k in range(min(rows, columns)):
            chosen = _pivot(a, k)
            first = kernel.mul(index, min(rows, columns))
            builder.store(pivots.buffer, kernel.add(first, k), chosen)
            _swap(a, places, k, chosen)
            _eliminate(a, k)
        for i, row in enumerate(a):
            for j, value in enumerate(row):
                builder.store(factors.buffer, kernel.add(base, i * columns + j), value)
        for i, place in enumerate(places):
            builder.store(order.buffer, kernel.add(kernel.mul(index, rows), i), place)


def _pivot(a: list[list[Expr]], k: int) -> Expr:
    """The first row from `k` on with the largest element in column `k`."""
    chosen: Expr = kernel.const(k, I32)
    largest = kernel.absolute(a[k][k])
    for i in range(k + 1, len(a)):
        size = kernel.absolute(a[i][k])
        larger = kernel.gt(size, largest)
        chosen = kernel.select(larger, kernel.const(i, I32), chosen)
        largest = kernel.select(larger, size, largest)
    return chosen


def _swap(a: list[list[Expr]], places: list[Expr], k: int, chosen: Expr) -> None:
    """Exchange row `k` with the chosen one."""
    for i in range(k + 1, len(a)):
        here = kernel.eq(chosen, kernel.const(i, I32))
        for j in range(len(a[k])):
            upper, lower = a[k][j], a[i][j]
            a[k][j] = kernel.select(here, lower, upper)
            a[i][j] = kernel.select(here, upper, lower)
        upper, lower = places[k], places[i]
        places[k] = kernel.select(here, lower, upper)
        places[i] = kernel.select(here, upper, lower)


def _eliminate(a: list[list[Expr]], k: int) -> None:
    pivot = a[k][k]
    zero = kernel.eq(pivot, 0.0)
    for i in range(k + 1, len(a)):
        factor = kernel.select(zero, a[i][k], kernel.div(a[i][k], pivot))
        a[i][k] = factor
        for j in range(k + 1, len(a[i])):
            a[i][j] = kernel.sub(a[i][j], kernel.mul(factor, a[k][j]))


def emit_small_solve(
    builder: Any, count: int, a: Stored, out: Stored, params: dict[str, bool]
) -> None:
    """Substitution in place: `out` holds the right-hand sides, and then the solutions."""
    n = a.shape[-1]
    rows, columns = out.shape[-2:]
    left, lower = params["left_side"], params["lower"]
    # x op(a) = b is op(a)ᵀ xᵀ = bᵀ.
    turned = params["transpose_a"] == left
    downwards = lower != turned
    systems, step, between = (columns, columns, 1) if left else (rows, 1, columns)
    with builder.loop(count, "parallel") as index, builder.loop(systems) as system:
        matrix = kernel.mul(index, n * n)
        start = kernel.add(kernel.mul(index, rows * columns), kernel.mul(system, between))

        def element(i: int, j: int) -> Expr:
            row, column = (j, i) if turned else (i, j)
            return builder.load(a.buffer, kernel.add(matrix, row * n + column))

        known: list[int] = []
        for i in range(n) if downwards else reversed(range(n)):
            place = kernel.add(start, i * step)
            value = builder.load(out.buffer, place)
            for j in known:
                solved = builder.load(out.buffer, kernel.add(start, j * step))
                value = kernel.sub(value, kernel.mul(element(i, j), solved))
            if not params["unit_diagonal"]:
                value = kernel.div(value, element(i, i))
            builder.store(out.buffer, place, value)
            known.append(i)
