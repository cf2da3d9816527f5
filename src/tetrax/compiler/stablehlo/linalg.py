"""StableHLO of linear algebra.

StableHLO has Cholesky factors and triangular systems. QR and eigenvectors of Hermitian matrices
are calls by name that XLA expands on every device; LU and tridiagonal systems are loops. What is
left of LAPACK (singular values, general eigenvalues and their relatives) has no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.compiler.stablehlo.elementwise import Outs
from tetrax.compiler.stablehlo.indexing import IndexingRules
from tetrax.compiler.stablehlo.linalg_steps import elimination_step, exchange_step, nan_or, refined
from tetrax.ir.stablehlo import Handle, boolean, enum, i32
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import add, div, mul, sub
from tetrax.ops.convert import convert_element_type
from tetrax.ops.join import concatenate
from tetrax.ops.linalg.base import (
    adjoint,
    leading,
    matmul,
    swapped,
    tril,
    triu,
)
from tetrax.ops.structure import broadcast_in_dim, full, move_axis

_I32, _INDEX = np.dtype(np.int32), np.dtype(np.int64)
_FLAG = ShapedArray((), np.bool_)
# What "Eigh" is told: the triangle, to sort, most sweeps of rotations, tolerance.
_EIGH = '"{},1,100,1e-12"'


class LinalgRules(IndexingRules):
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
        return self.compose(lambda a: [nan_or(tril(a))], factor)[0]

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
            return [refined(whole, vectors, convert_element_type(values, x.dtype))]

        return [self.compose(refine, x, vectors, values)[0], values]

    # -- loops ---------------------------------------------------------------------------------

    def _counted(
        self, count: int, state: Sequence[Handle], step: Callable[..., list[Any]]
    ) -> list[Handle]:
        """`state = step(k, *state)` for k from 0."""
        start = self.scalar(0, _I32)

        def body(state: list[Handle]) -> list[Handle]:
            return [self._after(state[0]), *self.compose(step, *state)]

        return self.loop([start, *state], self._below(count), body)[1:]

    def _rows_in_order(self, aval: ShapedArray) -> Handle:
        places = np.broadcast_to(np.arange(aval.shape[-1], dtype=_I32), aval.shape)
        return self.constant(places, aval)

    def _lu(self, operands: Sequence[Handle], outs: Outs) -> list[Handle]:
        state = [operands[0], self.splat(0, outs[1]), self._rows_in_order(outs[2])]
        count = outs[1].shape[-1]
        return self._counted(count, state, elimination_step) if outs[0].size else state

    def _permutation(
        self, operands: Sequence[Handle], outs: Outs, *, permutation_size: int
    ) -> Handle:
        (pivots,) = operands
        state = [self._rows_in_order(outs[0]), pivots]
        return self._counted(pivots.shape[-1], state, exchange_step)[0]

    def _tridiagonal_solve(
        self, operands: Sequence[Handle], outs: Outs, *, perturb_singular: bool
    ) -> Handle:
        """Elimination without row exchanges: for matrices whose diagonal dominates."""
        if perturb_singular:
            raise errors.MissingRule(
                "tridiagonal_solve", "stablehlo of perturbed systems", __file__
            )
        (out,) = outs
        count = out.shape[-2]
        if out.size == 0:
            return operands[3]

        def rows_first(*xs: Any) -> list[Any]:
            wide = [broadcast_in_dim(x, out.shape, range(x.ndim)) for x in xs[:3]]
            return [move_axis(x, out.ndim - 2, 0) for x in (*wide, xs[3])]

        systems = self.compose(rows_first, *operands)
        whole = systems[0].aval
        row = whole.update(shape=whole.shape[1:])
        zeros_, none = self.splat(0, whole), self.splat(0, row)

        def eliminate(dl: Any, d: Any, du: Any, b: Any, above: Any, solved: Any) -> list[Any]:
            pivot = sub(d, mul(dl, above))
            return [div(du, pivot), div(sub(b, mul(dl, solved)), pivot)]

        start = [self.scalar(0, _INDEX), *systems, zeros_, zeros_, none, none]

        def forward(state: list[Handle]) -> list[Handle]:
            place, written = state[0], state[5:7]
            lines = [self.stacked_read(x, place) for x in state[1:5]]
            found = self.compose(eliminate, *lines, *state[7:])
            stored = [
                self.stacked_write(x, line, place) for x, line in zip(written, found, strict=True)
            ]
            return [self._after(place), *state[1:5], *stored, *found]

        uppers, values = self.loop(start, self._below(count), forward)[5:7]

        def backward(state: list[Handle]) -> list[Handle]:
            counter, uppers, values, solution, below = state
            last = self.scalar(count - 1, _INDEX)
            place = self.op("subtract", [last, counter], [counter.aval])
            lines = [self.stacked_read(x, place) for x in (values, uppers)]
            (found,) = self.compose(lambda v, u, x: [sub(v, mul(u, x))], *lines, below)
            solution = self.stacked_write(solution, found, place)
            return [self._after(counter), uppers, values, solution, found]

        start = [self.scalar(0, _INDEX), uppers, values, zeros_, none]
        solution = self.loop(start, self._below(count), backward)[3]
        return self.compose(lambda x: [move_axis(x, 0, out.ndim - 2)], solution)[0]

    def _below(self, count: int) -> Callable[[list[Handle]], list[Handle]]:
        return lambda state: [
            self.compare("LT", [state[0], self.scalar(count, state[0].dtype)], [_FLAG])
        ]

    def _after(self, counter: Handle) -> Handle:
        return self.op("add", [counter, self.scalar(1, counter.dtype)], [counter.aval])

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
    "tridiagonal_solve": LinalgRules._tridiagonal_solve,
    "triangular_solve": LinalgRules._triangular_solve,
}
