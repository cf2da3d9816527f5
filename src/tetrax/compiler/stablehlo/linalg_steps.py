"""Steps of decompositions, in operations on whole batches of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax.ops.arithmetic import abs, add, div, mul, sub
from tetrax.ops.base import dtype_kind
from tetrax.ops.bits_and_compare import bitwise_and, eq, gt, le, lt, ne
from tetrax.ops.convert import imag, real
from tetrax.ops.creation import broadcasted_iota
from tetrax.ops.linalg.base import (
    adjoint,
    columns,
    conjugate,
    identity,
    matmul,
    real_part,
    rows,
)
from tetrax.ops.reduce import argmax, reduce_or
from tetrax.ops.select import select
from tetrax.ops.structure import broadcast_in_dim, full, reduce_sum, zeros
from tetrax.ops.transcendental import sqrt
from tetrax.tracing.value import get_aval

_I32 = np.dtype(np.int32)


def nan_or(x: Any) -> Any:
    """All NaN where a matrix has one."""
    axes = (x.ndim - 2, x.ndim - 1)
    failed = broadcast_in_dim(reduce_or(ne(x, x), axes), x.shape, range(x.ndim - 2))
    return select(failed, full(x.shape, np.nan, x.dtype), x)


def norm(x: Any) -> Any:
    """Frobenius norms of matrices, for every element."""
    square = mul(x, conjugate(x))
    rank = get_aval(x).ndim
    return spread(sqrt(real_part(reduce_sum(square, (rank - 2, rank - 1)))), get_aval(x).shape)


def refined(x: Any, vectors: Any, values: Any) -> Any:
    """One step towards eigenvectors of full precision: XLA's rotations stop at half the digits.

    T. Ogita and K. Aishima, "Iterative refinement for symmetric eigenvalue decomposition" (2018).
    """
    aval = get_aval(x)
    unit = identity(x)
    error = sub(unit, matmul(adjoint(vectors), vectors))
    inner = matmul(adjoint(vectors), matmul(x, vectors))
    right, left = rows(values, aval.shape), columns(values, aval.shape)
    rest = sub(inner, mul(unit, right))
    limit = mul(add(norm(rest), mul(norm(x), norm(error))), 2)
    gap = sub(right, left)
    alike = le(abs(gap), limit)
    turned = div(add(rest, mul(error, right)), select(alike, full(aval.shape, 1, aval.dtype), gap))
    change = select(alike, mul(error, 0.5), turned)
    return add(vectors, matmul(vectors, change))


def spread(x: Any, shape: Sequence[int]) -> Any:
    """One value per matrix, for each of its elements."""
    rank = get_aval(x).ndim
    return broadcast_in_dim(x, shape, range(rank))


def numbered(shape: Sequence[int], axis: int) -> Any:
    return broadcasted_iota(_I32, shape, axis)


def picked(x: Any, mask: Any, axis: int) -> Any:
    """The only element along `axis` that `mask` allows; exact, also beside infinities."""
    return reduce_sum(select(mask, x, zeros(get_aval(x))), (axis,))


def magnitude(x: Any) -> Any:
    """What LAPACK compares pivots by."""
    if dtype_kind(get_aval(x).dtype) == "c":
        return add(abs(real(x)), abs(imag(x)))
    return abs(x)


def exchanged(order: Any, first: Any, second: Any) -> Any:
    """A vector (per matrix) with the elements at two places exchanged."""
    shape = get_aval(order).shape
    axis = len(shape) - 1
    places = numbered(shape, axis)
    at_first, at_second = eq(places, spread(first, shape)), eq(places, spread(second, shape))
    one, other = picked(order, at_first, axis), picked(order, at_second, axis)
    swapped_in = select(at_second, spread(one, shape), order)
    return select(at_first, spread(other, shape), swapped_in)


def elimination_step(k: Any, x: Any, pivots: Any, order: Any) -> list[Any]:
    """Column `k` of Gaussian elimination with partial pivoting."""
    shape = get_aval(x).shape
    rank, batch = len(shape), shape[:-2]
    row, column = numbered(shape, rank - 2), numbered(shape, rank - 1)
    here = spread(k, shape)
    candidates = picked(x, eq(column, here), rank - 1)
    size = magnitude(candidates)
    rows = numbered(get_aval(size).shape, rank - 2)
    above = lt(rows, spread(k, get_aval(size).shape))
    size = select(above, full(get_aval(size).shape, -1, get_aval(size).dtype), size)
    pivot = argmax(size, rank - 2, _I32)
    at_pivot = eq(row, spread(pivot, shape))
    top, low = picked(x, eq(row, here), rank - 2), picked(x, at_pivot, rank - 2)
    wide = lambda line: broadcast_in_dim(line, shape, (*range(rank - 2), rank - 1))
    x = select(eq(row, here), wide(low), select(at_pivot, wide(top), x))
    line = get_aval(low).shape
    divisor = picked(low, eq(numbered(line, rank - 2), spread(k, line)), rank - 2)
    safe = select(eq(divisor, zeros(get_aval(divisor))), full(batch, 1, get_aval(x).dtype), divisor)
    below = gt(row, here)
    factors = select(bitwise_and(below, eq(column, here)), div(x, spread(safe, shape)), x)
    factor = spread(picked(factors, eq(column, here), rank - 1), shape)
    reduced = sub(factors, mul(factor, wide(low)))
    x = select(bitwise_and(below, gt(column, here)), reduced, factors)
    spot = eq(numbered(get_aval(pivots).shape, rank - 2), spread(k, get_aval(pivots).shape))
    pivots = select(spot, spread(pivot, get_aval(pivots).shape), pivots)
    return [x, pivots, exchanged(order, broadcast_in_dim(k, batch, ()), pivot)]


def exchange_step(k: Any, order: Any, pivots: Any) -> list[Any]:
    shape = get_aval(pivots).shape
    axis = len(shape) - 1
    pivot = picked(pivots, eq(numbered(shape, axis), spread(k, shape)), axis)
    return [exchanged(order, broadcast_in_dim(k, shape[:-1], ()), pivot), pivots]
