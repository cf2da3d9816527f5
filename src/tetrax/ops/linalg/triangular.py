"""Triangular systems of equations."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import errors
from tetrax._lazy import lazy_module
from tetrax.ir import kernel
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import neg
from tetrax.ops.base import TestFacts, add_tangents, register
from tetrax.ops.linalg.base import (
    Decomposition,
    conjugate,
    matmul,
    move_axis,
    narrowed,
    need_square,
    right_sides_apart,
    routine,
    swapped,
    tril,
    triu,
    wide,
)
from tetrax.ops.linalg.emit import Lapack, batch_count, copy_conjugate, has_no_elements
from tetrax.ops.linalg.small import emit_small_solve, is_small
from tetrax.ops.structure import reshape
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.value import get_aval

blas = lazy_module("scipy.linalg.blas")


class TriangularSolve(Decomposition):
    """x with op(a) x = b, or x op(a) = b; only one triangle of `a` is read."""

    ranks = (2, 2)
    updates = 1

    def results(self, a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
        need_square("triangular_solve", a)
        if a.shape[-1] != b.shape[0 if left_side else 1] or a.dtype != b.dtype:
            raise errors.ShapeError(
                f"Incompatible arguments to triangular_solve: {a.str_short()} and {b.str_short()} "
                f"with left_side={left_side}"
            )
        return b

    def one(self, a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
        if b.size == 0:
            return b
        if conjugate_a and not transpose_a:
            a = a.conj()
        operation = (2 if conjugate_a else 1) if transpose_a else 0
        # Row-major matrices are the transposed column-major ones: sides and triangles swap.
        solved = routine("trsm", a.dtype, blas)(
            1.0, a.T, b.T, side=left_side, lower=not lower, trans_a=operation, diag=unit_diagonal
        )
        return solved.T

    def emit(
        self,
        builder,
        operands,
        outs,
        *,
        left_side,
        lower,
        transpose_a,
        conjugate_a,
        unit_diagonal,
    ):
        (a, _), (out,) = operands, outs
        if has_no_elements([out]):
            return
        if is_small(a):
            params = {
                "left_side": left_side,
                "lower": lower,
                "transpose_a": transpose_a,
                "unit_diagonal": unit_diagonal,
            }
            emit_small_solve(builder, batch_count(out), a, out, params)
            return
        rows, columns = out.shape[-2:]
        size = a.shape[-1]
        lapack = Lapack(builder, out.dtype)
        conj_only = conjugate_a and not transpose_a
        operation = ("C" if conjugate_a else "T") if transpose_a else "N"
        # By columns both matrices are transposed: sides and triangles swap.
        letters = [
            lapack.character(letter)
            for letter in (
                "R" if left_side else "L",
                "U" if lower else "L",
                operation,
                "U" if unit_diagonal else "N",
            )
        ]
        m, n, order, one = *(lapack.integer(x) for x in (columns, rows, size)), lapack.one()
        turned = lapack.matrix(size, size) if conj_only else None
        with lapack.batch(batch_count(out)) as index:
            matrix = lapack.address(a, kernel.mul(index, size * size))
            if turned is not None:
                copy_conjugate(builder, a, index, turned)
                matrix = lapack.address(turned)
            target = lapack.address(out, kernel.mul(index, rows * columns))
            lapack.call("trsm", *letters, m, n, one, matrix, order, target, m, library="blas")

    def jvp(self, primals, tangents, **params):
        a, b = primals
        out = self.bind(a, b, **params)
        total: Any = Zero.from_primal_value(out)
        if type(tangents[1]) is not Zero:
            total = self.bind(a, tangents[1], **params)
        if type(tangents[0]) is not Zero:
            total = add_tangents(total, _tangent_of_matrix(tangents[0], out, a, params))
        return out, total

    def transpose(self, ct, a, b, *, transpose_a, **params):
        if type(ct) is Zero:
            return [None, Zero(b.aval)]
        return [None, self.bind(a, ct, transpose_a=not transpose_a, **params)]

    def factors(self, avals, outs, params):
        # Right-hand sides are solved for one by one.
        return right_sides_apart(super().factors(avals, outs, params), params["left_side"])

    def batch(self, operands, dims, **params):
        (a, b), (a_dim, b_dim) = operands, dims
        if a_dim is not None:
            return super().batch(operands, dims, **params)
        # One matrix for the whole batch: more right-hand sides in one system.
        left = params["left_side"]
        rank = get_aval(b).ndim - 1
        place = rank if left else rank - 1
        b = move_axis(b, b_dim, place)
        shape = b.shape
        merged = (*shape[: rank - 1], shape[rank - 1] * shape[rank])
        if not left:
            merged = (*shape[: rank - 2], shape[rank - 2] * shape[rank - 1], shape[rank])
            return reshape(self.bind(a, reshape(b, merged), **params), shape), place
        return reshape(self.bind(a, reshape(b, merged), **params), shape), place


def _tangent_of_matrix(t: Any, out: Any, a: Any, params: dict) -> Any:
    """-op(a)⁻¹ op(t) x, in the order of fewer operations."""
    shift = 1 if params["unit_diagonal"] else 0
    t = neg(tril(t, -shift) if params["lower"] else triu(t, shift))
    if params["transpose_a"]:
        t = swapped(t)
    if params["conjugate_a"]:
        t = conjugate(t)
    solve = lambda rhs: triangular_solve_p.bind(a, rhs, **params)
    rows, columns = out.shape[-2:]
    if params["left_side"]:
        return solve(matmul(t, out)) if rows > columns else matmul(solve(t), out)
    return solve(matmul(out, t)) if rows < columns else matmul(out, solve(t))


def _samples() -> list[tuple[list[ShapedArray], dict]]:
    matrix = lambda *shape: ShapedArray(shape, np.float32)
    names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    rows = [(True, True, False, False, False), (False, False, True, False, True)]
    return [
        ([matrix(*batch, 3, 3), matrix(*batch, 3, 3)], dict(zip(names, row, strict=True)))
        for batch in ((), (2,))
        for row in rows
    ]


triangular_solve_p = register(
    TriangularSolve("triangular_solve"), TestFacts(domain=(0.5, 2.0), ulp=64, samples=_samples)
)


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """x with x op(a) = b, or op(a) x = b for `left_side`, from one triangle of `a`.

    a (..., n, n), b (..., m, n), or (..., n, m) for `left_side`, or a vector. op is the identity,
    transpose and conjugate as asked. A zero on the diagonal gives infinities or NaN.
    """
    (a, dtype), (b, _) = wide(a), wide(b)
    vector = b.ndim == a.ndim - 1
    if vector:
        shape = (*b.shape, 1) if left_side else (*b.shape[:-1], 1, b.shape[-1])
        b = reshape(b, shape)
    out = triangular_solve_p.bind(
        a,
        b,
        left_side=left_side,
        lower=lower,
        transpose_a=transpose_a,
        conjugate_a=conjugate_a and a.dtype.kind == "c",
        unit_diagonal=unit_diagonal,
    )
    if vector:
        out = reshape(out, out.shape[:-1] if left_side else (*out.shape[:-2], out.shape[-1]))
    return narrowed(out, dtype)
