"""LU factors with row pivoting, and solving with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import errors
from tetrax.ir import kernel
from tetrax.ir.kernel_types import I32, I64
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import add
from tetrax.ops.base import TestFacts, register
from tetrax.ops.creation import broadcasted_iota
from tetrax.ops.gather import gather
from tetrax.ops.index_maps import GatherDimensionNumbers
from tetrax.ops.join import pad
from tetrax.ops.linalg.base import (
    Decomposition,
    leading,
    matmul,
    narrowed,
    routine,
    tangent_or_none,
    tril,
    triu,
    wide,
    zeros_of,
)
from tetrax.ops.linalg.blocks import stride
from tetrax.ops.linalg.emit import Lapack, batch_count, has_no_elements
from tetrax.ops.linalg.native import Matrix, Native, has_native
from tetrax.ops.linalg.small import emit_small_lu, is_small
from tetrax.ops.linalg.triangular import triangular_solve
from tetrax.ops.shape import expand_dims
from tetrax.ops.sort import sort_key_val
from tetrax.ops.structure import broadcast_in_dim
from tetrax.runtime.array import as_value
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.value import get_aval


def _order(pivots: np.ndarray, size: int) -> np.ndarray:
    """The row order that a sequence of swaps leaves."""
    order = np.arange(size, dtype=np.int32)
    for i, j in enumerate(pivots):
        order[i], order[j] = order[j], order[i]
    return order


class Lu(Decomposition):
    """Both factors in one matrix, the swaps of rows, and the order they leave."""

    multiple_results = True

    def results(self, x):
        rows, columns = x.shape
        count = ShapedArray((min(rows, columns),), np.int32)
        return [x, count, ShapedArray((rows,), np.int32)]

    def one(self, x):
        if x.size == 0:
            pivots = np.zeros(min(x.shape), np.int32)
        else:
            x, pivots, _ = routine("getrf", x.dtype)(x)
        return [x, pivots.astype(np.int32), _order(pivots, x.shape[0])]

    def emit(self, builder, operands, outs):
        (x,) = operands
        factors, pivots, order = outs
        if is_small(x):
            emit_small_lu(builder, batch_count(x), x, factors, pivots, order)
            return
        if has_native(x.dtype) and not has_no_elements([x]):
            _emit_natively(builder, x, factors, pivots, order)
            return
        rows, columns = x.shape[-2:]
        lapack = Lapack(builder, x.dtype)
        m, n, info = lapack.integer(rows), lapack.integer(columns), lapack.info()
        packed, swaps = lapack.matrix(rows, columns), lapack.integers(min(rows, columns))
        spare = lapack.integers(1)
        with lapack.batch(batch_count(x)) as index:
            if not has_no_elements([x]):
                lapack.load_matrix(x, index, packed)
                arguments = (lapack.address(packed), m, lapack.address(swaps))
                lapack.call("getrf", m, n, *arguments, info)
                lapack.store_matrix(packed, factors, index)
            _emit_order(builder, swaps, pivots, order, index, spare)

    def jvp(self, primals, tangents):
        lu, pivots, order = outs = self.bind(*primals)
        tangent = tangent_or_none(tangents)
        if tangent is None:
            return outs, zeros_of(outs)
        rows, columns = lu.shape[-2:]
        size = min(rows, columns)
        # L and U made square, so that L⁻¹ dA U⁻¹ is their tangents side by side.
        lower = add(_unit(lu, rows), _grown(tril(leading(lu, -1, size), -1), 1, rows))
        upper = _grown(triu(leading(lu, -2, size)), 0, columns)
        beyond = np.zeros((columns, columns), lu.dtype)
        beyond[range(size, columns), range(size, columns)] = 1
        upper = add(upper, _spread(beyond, upper.shape))
        inner = triangular_solve(
            lower, take_rows(tangent, order), left_side=True, lower=True, unit_diagonal=True
        )
        inner = triangular_solve(upper, inner, left_side=False, lower=False)
        tangent = add(matmul(lower, tril(inner, -1)), matmul(triu(inner), upper))
        return outs, [tangent, *zeros_of([pivots, order])]


def _emit_natively(builder: Any, x: Any, factors: Any, pivots: Any, order: Any) -> None:
    rows, columns = x.shape[-2:]
    count = min(rows, columns)
    native = Native(builder, x.dtype)
    with native.matrices(batch_count(x)) as index:
        row, column = stride(columns), stride(rows)
        a = Matrix(native.space(rows * row), kernel.index(0), row)
        native.copy_rows(native.matrix(x, index), a, rows, columns)
        transposed = native.space(count * column)
        swaps = native.vector(pivots, index)
        native.call("lu", a, row, rows, columns, transposed, column, swaps)
        native.copy_rows(a, native.matrix(factors, index), rows, columns)
        _emit_swaps(builder, pivots, order, index, builder.temporary(I32, 1))


def _emit_order(builder: Any, swaps: Any, pivots: Any, order: Any, index: Any, spare: Any) -> None:
    """Pivots counted from 0, and the order of rows they leave."""
    count = pivots.shape[-1]
    if count:
        with builder.loop(count) as i:
            pivot = kernel.sub(builder.load(swaps.buffer, i), kernel.const(1, I32))
            builder.store(pivots.buffer, kernel.add(kernel.mul(index, count), i), pivot)
    _emit_swaps(builder, pivots, order, index, spare.buffer)


def _emit_swaps(builder: Any, pivots: Any, order: Any, index: Any, spare: Any) -> None:
    """The order of rows that swaps leave."""
    rows, count = order.shape[-1], pivots.shape[-1]
    first = kernel.mul(index, rows)
    with builder.loop(rows) as i:
        builder.store(order.buffer, kernel.add(first, i), kernel.convert(i, I32))
    if not count:
        return
    with builder.loop(count) as i:
        pivot = builder.load(pivots.buffer, kernel.add(kernel.mul(index, count), i))
        here = kernel.add(first, i)
        # a row that there is not must not be touched
        pivot = kernel.minimum(
            kernel.maximum(pivot, kernel.const(0, I32)), kernel.const(rows - 1, I32)
        )
        there = kernel.add(first, kernel.convert(pivot, I64))
        builder.store(spare, 0, builder.load(order.buffer, here))
        builder.store(order.buffer, here, builder.load(order.buffer, there))
        builder.store(order.buffer, there, builder.load(spare, 0))


def _spread(matrix: np.ndarray, shape: tuple[int, ...]) -> Any:
    return broadcast_in_dim(matrix, shape, (len(shape) - 2, len(shape) - 1))


def _unit(like: Any, size: int) -> Any:
    return _spread(np.eye(size, dtype=like.dtype), (*like.shape[:-2], size, size))


def _grown(x: Any, axis: int, size: int) -> Any:
    """Matrices with zeros appended along rows (0) or columns (1)."""
    config = [(0, 0, 0)] * x.ndim
    place = x.ndim - 2 + axis
    config[place] = (0, size - x.shape[place], 0)
    return pad(x, np.zeros((), x.dtype), config)


def take_rows(x: Any, order: Any) -> Any:
    """The rows of matrices in another order, one order for each matrix."""
    batch = tuple(range(x.ndim - 2))
    rank = x.ndim
    numbers = GatherDimensionNumbers(
        offset_dims=(rank - 1,),
        collapsed_slice_dims=(rank - 2,),
        start_index_map=(rank - 2,),
        operand_batching_dims=batch,
        start_indices_batching_dims=batch,
    )
    sizes = (1,) * (rank - 1) + (x.shape[-1],)
    return gather(x, expand_dims(order, (rank - 1,)), numbers, sizes, mode="promise_in_bounds")


class PivotsToPermutation(Decomposition):
    """The row order that swaps leave."""

    ranks = (1,)

    def results(self, pivots, *, permutation_size):
        if permutation_size < pivots.shape[0]:
            raise errors.ShapeError(
                f"Output permutation size {permutation_size} has to exceed the trailing dimension "
                f"of the pivots. Got pivots size {pivots.shape[0]}"
            )
        if pivots.dtype != np.int32:
            raise TypeError(
                f"lu_pivots_to_permutation takes int32 pivots, got {pivots.str_short()}"
            )
        return ShapedArray((permutation_size,), np.int32)

    def one(self, pivots, *, permutation_size):
        return _order(pivots, permutation_size)

    def emit(self, builder, operands, outs, *, permutation_size):
        (swaps,), (order,) = operands, outs
        if has_no_elements(outs):
            return
        spare = builder.temporary(I32, 1)
        with builder.loop(batch_count(order, 1)) as index:
            _emit_swaps(builder, swaps, order, index, spare)

    def jvp(self, primals, tangents, **params):
        out = self.bind(*primals, **params)
        return out, Zero.from_primal_value(out)


lu_p = register(
    Lu("lu"),
    TestFacts(
        ulp=64,
        samples=lambda: [
            ([ShapedArray(shape, np.float32)], {}) for shape in ((3, 3), (4, 2), (2, 2, 3))
        ],
    ),
)
lu_pivots_to_permutation_p = register(
    PivotsToPermutation("lu_pivots_to_permutation"),
    TestFacts(
        excluded=(("all", "random samples are no pivots; tests/ops/test_linalg.py"),),
        samples=lambda: [([ShapedArray((3,), np.int32)], {"permutation_size": 4})],
    ),
)


def lu(x: Any) -> Any:
    """(lu, pivots, permutation) with x[permutation] = l u.

    `lu` holds u in its upper triangle and l, without its unit diagonal, below; `pivots` are the
    swaps of rows. A singular matrix leaves a zero on the diagonal of u.
    """
    x, dtype = wide(x)
    factors, pivots, order = lu_p.bind(x)
    return narrowed(factors, dtype), pivots, order


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Any:
    """The permutation of rows that the swaps `pivots` leave.

    >>> lu_pivots_to_permutation(np.array([2, 2], np.int32), 3)
    Array([2, 0, 1], dtype=int32)
    """
    return lu_pivots_to_permutation_p.bind(as_value(pivots), permutation_size=permutation_size)


def solve_factored(factors: Any, order: Any, b: Any, adjoint: bool = False) -> Any:
    """x with a x = b, or aᴴ x = b, from the factors of a."""
    if not adjoint:
        b = take_rows(b, order)
        y = triangular_solve(factors, b, left_side=True, lower=True, unit_diagonal=True)
        return triangular_solve(factors, y, left_side=True, lower=False)
    turned = {"left_side": True, "transpose_a": True, "conjugate_a": True}
    y = triangular_solve(factors, b, lower=False, **turned)
    z = triangular_solve(factors, y, lower=True, unit_diagonal=True, **turned)
    shape = get_aval(order).shape
    places = broadcasted_iota(np.int32, shape, len(shape) - 1)
    return take_rows(z, sort_key_val(order, places)[1])


def solve(a: Any, b: Any) -> Any:
    """x with a x = b for stacks of square matrices of one batch shape."""
    factors, _, order = lu_p.bind(a)
    return solve_factored(factors, order, b)


__all__ = [
    "lu",
    "lu_p",
    "lu_pivots_to_permutation",
    "lu_pivots_to_permutation_p",
    "solve",
    "solve_factored",
    "take_rows",
]
