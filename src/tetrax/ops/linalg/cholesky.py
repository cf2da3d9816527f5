"""Cholesky factors and their rank-one update."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import errors
from tetrax.ir import kernel
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import div
from tetrax.ops.base import TestFacts, register
from tetrax.ops.linalg.base import (
    Decomposition,
    identity,
    matmul,
    nan_like,
    narrowed,
    need_square,
    routine,
    symmetrize,
    tangent_or_none,
    tril,
    wide,
)
from tetrax.ops.linalg.blocks import stride
from tetrax.ops.linalg.emit import Lapack, batch_count, has_no_elements
from tetrax.ops.linalg.native import Native, has_native
from tetrax.ops.linalg.triangular import triangular_solve
from tetrax.ops.structure import broadcast_in_dim
from tetrax.runtime.array import as_value
from tetrax.tracing.symbolic import Zero


class Cholesky(Decomposition):
    """The lower factor, read from the lower triangle; NaN where it is not positive definite."""

    updates = 0

    def results(self, x):
        need_square("cholesky", x)
        return x

    def one(self, x):
        if x.size == 0:
            return x
        # The upper half of the transposed (column-major) matrix is the lower half of this one.
        factor, info = routine("potrf", x.dtype)(x.T, lower=0, clean=1)
        return factor.T if info == 0 else nan_like(x)[0]

    def emit(self, builder, operands, outs):
        (out,) = outs
        if has_no_elements(outs):
            return
        size = out.shape[-1]
        if has_native(out.dtype):
            native = Native(builder, out.dtype)
            row = stride(size)
            with native.matrices(batch_count(out)) as index:
                matrices = [native.space(size * row) for _ in range(2)]
                x = native.matrix(operands[0], index)
                native.call("cholesky", x, native.matrix(out, index), *matrices, size, row)
                first = kernel.mul(index, size * size)
                last = builder.load(out.buffer, kernel.add(first, size * size - 1))
                with builder.when(kernel.ne(last, last)), builder.loop(size * size) as i:
                    builder.store(out.buffer, kernel.add(first, i), last)
            return
        lapack = Lapack(builder, out.dtype)
        half, order, info = lapack.character("U"), lapack.integer(size), lapack.info()
        with lapack.batch(batch_count(out)) as index:
            first = kernel.mul(index, size * size)
            lapack.call("potrf", half, order, lapack.address(out, first), order, info)
            lapack.tidy_lower(out, first)

    def jvp(self, primals, tangents):
        factor = tril(self.bind(*primals))
        tangent = tangent_or_none(tangents)
        if tangent is None:
            return factor, Zero.from_primal_value(factor)
        # L⁻¹ dA L⁻ᴴ = S + Sᴴ with S = L⁻¹ dL lower triangular: its diagonal is halved.
        right = triangular_solve(
            factor, tangent, left_side=False, transpose_a=True, conjugate_a=True, lower=True
        )
        both = tril(triangular_solve(factor, right, left_side=True, lower=True))
        halves = identity(both)
        divisor = broadcast_in_dim(
            (1 + np.eye(both.shape[-1])).astype(halves.dtype),
            both.shape,
            (both.ndim - 2, both.ndim - 1),
        )
        return factor, matmul(factor, div(both, divisor))


class CholeskyUpdate(Decomposition):
    """The upper factor of rᵀ r + w wᵀ, by Givens rotations."""

    ranks = (2, 1)

    def results(self, r, w):
        if r.shape[0] != r.shape[1] or w.shape[0] != r.shape[1]:
            raise errors.ShapeError(
                "Rank-1 update to Cholesky decomposition takes a square matrix and a vector of the "
                f"same size as input. Got shapes {r.shape} and {w.shape} instead"
            )
        return r

    def one(self, r, w):
        r, w = r.copy(), w.copy()
        for i in range(len(w)):
            if w[i] == 0:
                continue
            length = np.hypot(r[i, i], w[i])
            c, s = r[i, i] / length, -w[i] / length
            r[i], w = c * r[i] - s * w, c * w + s * r[i]
        return r


def _sample(*shape: int, dtype: Any = np.float32) -> ShapedArray:
    return ShapedArray(shape, dtype)


cholesky_p = register(
    Cholesky("cholesky"),
    TestFacts(
        excluded=(("jvp", "random samples are not positive definite; tests/ops/test_linalg.py"),),
        samples=lambda: [([_sample(3, 3)], {}), ([_sample(2, 3, 3)], {})],
    ),
)
cholesky_update_p = register(
    CholeskyUpdate("cholesky_update"),
    TestFacts(
        excluded=(("jvp", "JAX has none"),),
        samples=lambda: [([_sample(3, 3), _sample(3)], {})],
    ),
)


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """The lower triangular l with l lᴴ = x; NaN where x is not positive definite.

    `symmetrize_input` replaces x by (x + xᴴ) / 2, which makes derivatives symmetric.

    >>> cholesky(np.array([[4.0, 2.0], [2.0, 2.0]], np.float32))
    Array([[2., 0.],
           [1., 1.]], dtype=float32)
    """
    x, dtype = wide(x)
    if symmetrize_input:
        x = symmetrize(x, "cholesky")
    return narrowed(tril(cholesky_p.bind(x)), dtype)


def cholesky_update(r_matrix: Any, w_vector: Any) -> Any:
    """The upper triangular factor of r_matrixᵀ r_matrix + w_vector w_vectorᵀ."""
    return cholesky_update_p.bind(as_value(r_matrix), as_value(w_vector))
