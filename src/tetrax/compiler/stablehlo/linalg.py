"""StableHLO of linear algebra.

StableHLO has Cholesky factors and triangular systems. QR and eigenvectors of Hermitian matrices
are calls by name that XLA expands on every device; LU is a loop. What is left of LAPACK (singular
values, general eigenvalues and their relatives) has no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.compiler.stablehlo.elementwise import ElementwiseRules, Outs
from tetrax.ir.stablehlo import Handle, boolean, enum, i32
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import abs, add, div, mul, sub
from tetrax.ops.base import dtype_kind
from tetrax.ops.bits_and_compare import bitwise_and, eq, gt, le, lt, ne
from tetrax.ops.convert import convert_element_type, imag, real
from tetrax.ops.creation import broadcasted_iota
from tetrax.ops.join import concatenate
from tetrax.ops.linalg.base import (
    adjoint,
    columns,
    conjugate,
    identity,
    leading,
    matmul,
    real_part,
    rows,
    swapped,
    tril,
    triu,
)
from tetrax.ops.reduce import argmax, reduce_or
from tetrax.ops.select import select
from tetrax.ops.structure import broadcast_in_dim, full, reduce_sum, zeros
from tetrax.ops.transcendental import sqrt
from tetrax.tracing.value import get_aval

_I32, _INDEX = np.dtype(np.int32), np.dtype(np.int64)
_FLAG = ShapedArray((), np.bool_)
# What "Eigh" is told: the triangle, to sort, most sweeps of rotations, tolerance.
_EIGH = '"{},1,100,1e-12"'


def _nan_or(x: Any) -> Any:
    """All NaN where a matrix has one."""
    axes = (x.ndim - 2, x.ndim - 1)
    failed = broadcast_in_dim(reduce_or(ne(x, x), axes), x.shape, range(x.ndim - 2))
    return select(failed, full(x.shape, np.nan, x.dtype), x)


def _norm(x: Any) -> Any:
    """Frobenius norms of matrices, for every element."""
    square = mul(x, conjugate(x))
    rank = get_aval(x).ndim
    return _spread(sqrt(real_part(reduce_sum(square, (rank - 2, rank - 1)))), get_aval(x).shape)


def _refined(x: Any, vectors: Any, values: Any) -> Any:
    """One step towards eigenvectors of full precision: XLA's rotations stop at half the digits.

    T. Ogita and K. Aishima, "Iterative refinement for symmetric eigenvalue decomposition" (2018).
    """
    aval = get_aval(x)
    unit = identity(x)
    error = sub(unit, matmul(adjoint(vectors), vectors))
    inner = matmul(adjoint(vectors), matmul(x, vectors))
    right, left = rows(values, aval.shape), columns(values, aval.shape)
    rest = sub(inner, mul(unit, right))
    limit = mul(add(_norm(rest), mul(_norm(x), _norm(error))), 2)
    gap = sub(right, left)
    alike = le(abs(gap), limit)
    turned = div(add(rest, mul(error, right)), select(alike, full(aval.shape, 1, aval.dtype), gap))
    change = select(alike, mul(error, 0.5), turned)
    return add(vectors, matmul(vectors, change))


def _spread(x: Any, shape: Sequence[int]) -> Any:
    """One value per matrix, for each of its elements."""
    rank = get_aval(x).ndim
    return broadcast_in_dim(x, shape, range(rank))


def _places(shape: Sequence[int], axis: int) -> Any:
    return broadcasted_iota(_I32, shape, axis)


def _picked(x: Any, mask: Any, axis: int) -> Any:
    """The only element along `axis` that `mask` allows; exact, also beside infinities."""
    return reduce_sum(select(mask, x, zeros(get_aval(x))), (axis,))


def _magnitude(x: Any) -> Any:
    """What LAPACK compares pivots by."""
    if dtype_kind(get_aval(x).dtype) == "c":
        return add(abs(real(x)), abs(imag(x)))
    return abs(x)


def _exchanged(order: Any, first: Any, second: Any) -> Any:
    """A vector (per matrix) with the elements at two places exchanged."""
    shape = get_aval(order).shape
    axis = len(shape) - 1
    places = _places(shape, axis)
    at_first, at_second = eq(places, _spread(first, shape)), eq(places, _spread(second, shape))
    one, other = _picked(order, at_first, axis), _picked(order, at_second, axis)
    swapped_in = select(at_second, _spread(one, shape), order)
    return select(at_first, _spread(other, shape), swapped_in)


def _elimination_step(k: Any, x: Any, pivots: Any, order: Any) -> list[Any]:
    """Column `k` of Gaussian elimination with partial pivoting."""
    shape = get_aval(x).shape
    rank, batch = len(shape), shape[:-2]
    row, column = _places(shape, rank - 2), _places(shape, rank - 1)
    here = _spread(k, shape)
    candidates = _picked(x, eq(column, here), rank - 1)
    size = _magnitude(candidates)
    rows = _places(get_aval(size).shape, rank - 2)
    above = lt(rows, _spread(k, get_aval(size).shape))
    size = select(above, full(get_aval(size).shape, -1, get_aval(size).dtype), size)
    pivot = argmax(size, rank - 2, _I32)
    at_pivot = eq(row, _spread(pivot, shape))
    top, low = _picked(x, eq(row, here), rank - 2), _picked(x, at_pivot, rank - 2)
    wide = lambda line: broadcast_in_dim(line, shape, (*range(rank - 2), rank - 1))
    x = select(eq(row, here), wide(low), select(at_pivot, wide(top), x))
    line = get_aval(low).shape
    divisor = _picked(low, eq(_places(line, rank - 2), _spread(k, line)), rank - 2)
    safe = select(eq(divisor, zeros(get_aval(divisor))), full(batch, 1, get_aval(x).dtype), divisor)
    below = gt(row, here)
    factors = select(bitwise_and(below, eq(column, here)), div(x, _spread(safe, shape)), x)
    factor = _spread(_picked(factors, eq(column, here), rank - 1), shape)
    reduced = sub(factors, mul(factor, wide(low)))
    x = select(bitwise_and(below, gt(column, here)), reduced, factors)
    spot = eq(_places(get_aval(pivots).shape, rank - 2), _spread(k, get_aval(pivots).shape))
    pivots = select(spot, _spread(pivot, get_aval(pivots).shape), pivots)
    return [x, pivots, _exchanged(order, broadcast_in_dim(k, batch, ()), pivot)]


def _exchange_step(k: Any, order: Any, pivots: Any) -> list[Any]:
    shape = get_aval(pivots).shape
    axis = len(shape) - 1
    pivot = _picked(pivots, eq(_places(shape, axis), _spread(k, shape)), axis)
    return [_exchanged(order, broadcast_in_dim(k, shape[:-1], ()), pivot), pivots]


class LinalgRules(ElementwiseRules):
    """Decompositions and systems."""

    def linalg(
        self, name: str, operands: Sequence[Handle], outs: Outs, params: dict[str, Any]
    ) -> Any:
        rule = _RULES.get(name)
        if rule is None:
            raise errors.MissingRule(name, "stablehlo", __file__)
        return rule(self, operands, outs, **params)

    def _cholesky(self, operands: Sequence[Handle], outs: Outs) -> Handle:
        factor = self.op("cholesky", operands, outs, lower=boolean(True))
        return self.compose(lambda a: [_nan_or(tril(a))], factor)[0]

    def _triangular_solve(
        self,
        operands: Sequence[Handle],
        outs: Outs,
        *,
        left_side: bool,
        lower: bool,
        transpose_a: bool,
        conjugate_a: bool,
        unit_diagonal: bool,
    ) -> Handle:
        operation = "NO_TRANSPOSE"
        if transpose_a:
            operation = "ADJOINT" if conjugate_a else "TRANSPOSE"
        elif conjugate_a:
            raise errors.MissingRule("triangular_solve", "stablehlo without transposing", __file__)
        return self.op(
            "triangular_solve",
            operands,
            outs,
            left_side=boolean(left_side),
            lower=boolean(lower),
            unit_diagonal=boolean(unit_diagonal),
            transpose_a=enum("transpose", operation),
        )

    # -- calls that XLA expands ----------------------------------------------------------------

    def _call(self, name: str, operands: Sequence[Handle], outs: Outs, config: str = '""') -> Any:
        return self.op(
            "custom_call",
            operands,
            outs,
            call_target_name=f'"{name}"',
            api_version=i32(1),
            backend_config=config,
        )

    def _geqrf(self, operands: Sequence[Handle], outs: Outs) -> list[Handle]:
        if outs[0].size == 0:
            return [operands[0], self.splat(0, outs[1])]
        return self._call("Qr", operands, outs)

    def _householder_product(self, operands: Sequence[Handle], outs: Outs) -> Handle:
        if outs[0].size == 0:
            return operands[0]
        return self._call("ProductOfElementaryHouseholderReflectors", operands, outs)

    def _reflections(self, packed: Handle, factors: Handle, columns: int) -> Handle:
        """The first columns of the product of reflections; missing ones are the identity."""
        rows, found = packed.shape[-2], packed.shape[-1]

        def grown(x: Any, taus: Any) -> list[Any]:
            x = leading(x, -1, smaller(found, columns))
            extra = columns - x.shape[-1]
            if extra:
                zero = full((*x.shape[:-2], rows, extra), 0, x.dtype)
                x = concatenate([x, zero], x.ndim - 1)
            return [x, taus]

        packed, factors = self.compose(grown, packed, factors)
        return self._householder_product([packed, factors], [packed.aval])

    def _ormqr(
        self, operands: Sequence[Handle], outs: Outs, *, left: bool, transpose: bool
    ) -> Handle:
        packed, factors, c = operands
        q = self._reflections(packed, factors, packed.shape[-2])

        def product(q: Any, c: Any) -> list[Any]:
            q = adjoint(q) if transpose else q
            return [matmul(q, c) if left else matmul(c, q)]

        return self.compose(product, q, c)[0]

    def _qr(
        self, operands: Sequence[Handle], outs: Outs, *, pivoting: bool, **params: Any
    ) -> list[Handle]:
        (x,) = operands
        if pivoting:
            raise errors.MissingRule("qr", "stablehlo with pivoting", __file__)
        q, r = outs
        if x.aval.size == 0:
            return [self.constant(_eye(q), q), self.splat(0, r)]
        count = smaller(x.shape[-2], x.shape[-1])
        taus = x.aval.update(shape=(*x.shape[:-2], count))
        packed, factors = self._geqrf(operands, [x.aval, taus])
        upper = self.compose(lambda a: [triu(leading(a, -2, r.shape[-2]))], packed)[0]
        return [self._reflections(packed, factors, q.shape[-1]), upper]

    def _eigh(
        self,
        operands: Sequence[Handle],
        outs: Outs,
        *,
        lower: bool,
        sort_eigenvalues: bool,
        subset_by_index: Any,
        **params: Any,
    ) -> list[Handle]:
        (x,) = operands
        if subset_by_index not in (None, (0, x.shape[-1])):
            raise errors.MissingRule("eigh", "stablehlo of a subset", __file__)
        if x.aval.size == 0:
            return [x, self.splat(0, outs[1])]
        # Eigenvalues come in the order of Jacobi's method unless they are sorted: always sort.
        vectors, values = self._call("Eigh", operands, outs, _EIGH.format(int(lower)))
        side = tril if lower else triu
        strict = -1 if lower else 1

        def refine(x: Any, vectors: Any, values: Any) -> list[Any]:
            whole = add(side(x), adjoint(side(x, strict)))
            return [_refined(whole, vectors, convert_element_type(values, x.dtype))]

        return [self.compose(refine, x, vectors, values)[0], values]

    # -- loops ---------------------------------------------------------------------------------

    def _counted(
        self, count: int, state: Sequence[Handle], step: Callable[..., list[Any]]
    ) -> list[Handle]:
        """`state = step(k, *state)` for k from 0."""
        start = self.scalar(0, _I32)

        def condition(state: list[Handle]) -> list[Handle]:
            return [self.compare("LT", [state[0], self.scalar(count, _I32)], [_FLAG])]

        def body(state: list[Handle]) -> list[Handle]:
            following = self.op("add", [state[0], self.scalar(1, _I32)], [state[0].aval])
            return [following, *self.compose(step, *state)]

        return self.loop([start, *state], condition, body)[1:]

    def _rows_in_order(self, aval: ShapedArray) -> Handle:
        places = np.broadcast_to(np.arange(aval.shape[-1], dtype=_I32), aval.shape)
        return self.constant(places, aval)

    def _lu(self, operands: Sequence[Handle], outs: Outs) -> list[Handle]:
        state = [operands[0], self.splat(0, outs[1]), self._rows_in_order(outs[2])]
        count = outs[1].shape[-1]
        return self._counted(count, state, _elimination_step) if outs[0].size else state

    def _permutation(
        self, operands: Sequence[Handle], outs: Outs, *, permutation_size: int
    ) -> Handle:
        (pivots,) = operands
        state = [self._rows_in_order(outs[0]), pivots]
        return self._counted(pivots.shape[-1], state, _exchange_step)[0]

    def _symmetric_product(
        self, operands: Sequence[Handle], outs: Outs, *, alpha: float, beta: float
    ) -> Handle:
        def product(a: Any, c: Any) -> list[Any]:
            return [add(mul(matmul(a, swapped(a)), alpha), mul(c, beta))]

        return self.compose(product, *operands)[0]


def smaller(first: int, second: int) -> int:
    return first if first < second else second


def _eye(aval: ShapedArray) -> np.ndarray:
    return np.broadcast_to(np.eye(*aval.shape[-2:], dtype=aval.dtype), aval.shape)


_RULES: dict[str, Callable[..., Any]] = {
    "cholesky": LinalgRules._cholesky,
    "eigh": LinalgRules._eigh,
    "geqrf": LinalgRules._geqrf,
    "householder_product": LinalgRules._householder_product,
    "lu": LinalgRules._lu,
    "lu_pivots_to_permutation": LinalgRules._permutation,
    "ormqr": LinalgRules._ormqr,
    "qr": LinalgRules._qr,
    "symmetric_product": LinalgRules._symmetric_product,
    "triangular_solve": LinalgRules._triangular_solve,
}
