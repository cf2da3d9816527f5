"""alpha a aᵀ + beta c."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import errors
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import add, mul
from tetrax.ops.base import TestFacts, add_tangents, register
from tetrax.ops.linalg.base import Decomposition, matmul, swapped, tril
from tetrax.runtime.array import as_value
from tetrax.tracing.symbolic import Zero


class SymmetricProduct(Decomposition):
    """alpha a aᵀ + beta c."""

    ranks = (2, 2)

    def results(self, a, c, *, alpha, beta):
        if a.shape[0] != c.shape[1] or c.shape[0] != c.shape[1]:
            raise errors.ShapeError(
                "symmetric_product expects a matrix of shape (n, m) and a square matrix of shape "
                f"(n, n). Got shapes {a.shape} and {c.shape}."
            )
        return c

    def one(self, a, c, *, alpha, beta):
        return (alpha * (a @ a.T) + beta * c).astype(c.dtype)

    def jvp(self, primals, tangents, *, alpha, beta):
        a, c = primals
        total: Any = Zero.from_primal_value(c)
        if type(tangents[0]) is not Zero:
            half = matmul(tangents[0], swapped(a))
            total = mul(add(half, swapped(half)), alpha)
        if type(tangents[1]) is not Zero:
            total = add_tangents(total, mul(tangents[1], beta))
        return self.bind(a, c, alpha=alpha, beta=beta), total


symmetric_product_p = register(
    SymmetricProduct("symmetric_product"),
    TestFacts(
        ulp=16,
        samples=lambda: [
            (
                [ShapedArray((3, 4), np.float32), ShapedArray((3, 3), np.float32)],
                {"alpha": 0.5, "beta": 2.0},
            )
        ],
    ),
)


def symmetric_product(
    a_matrix: Any,
    c_matrix: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Any:
    """alpha a_matrix a_matrixᵀ + beta c_matrix; `symmetrize_output` mirrors the lower triangle."""
    out = symmetric_product_p.bind(as_value(a_matrix), as_value(c_matrix), alpha=alpha, beta=beta)
    return add(tril(out), swapped(tril(out, -1))) if symmetrize_output else out
