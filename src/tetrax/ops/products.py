"""Matrix products inside loop nests: calls of the library routine, and what they need.

    void tetrax_gemm_f32(a, b, c, m, n, k, a_row, a_col, b_row, b_col, c_row, accumulate)

computes `C = A B`, or `C += A B`, for any strides of A and B, in f32 and f64; `tetrax_gemm_f16` and
`tetrax_gemm_bf16` take A and B of these types and give a C of f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tetrax.ir import kernel
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_expr import Buffer, Expr
from tetrax.ir.kernel_types import BF16, F16, F32, F64, I32, ScalarType

MULTIPLICANDS = (F32, F64)
NARROW = (F16, BF16)
"""Types that operands may have where the product is computed in f32."""
SMALL, SHORT = 64, 256
"""Rows and columns, and steps of the sum, up to which a product needs no planning."""


@dataclass(frozen=True)
class Matrix:
    """A matrix in a buffer, by the strides of its rows and columns in scalars."""

    buffer: Buffer
    offset: Expr
    row: int
    column: int

    def at(self, offset: Any) -> Matrix:
        """The same matrix somewhere else in the buffer."""
        return Matrix(self.buffer, kernel.add(self.offset, offset), self.row, self.column)

    def transposed(self) -> Matrix:
        return Matrix(self.buffer, self.offset, self.column, self.row)


class Multiplier:
    """Emits products of matrices of one type and one size into a kernel.

    `type` is that of the operands: results are of f32 for narrow ones.
    """

    def __init__(self, builder: KernelBuilder, type: ScalarType, m: int, n: int, k: int) -> None:
        self.builder, self.type = builder, type
        self.m, self.n, self.k = m, n, k
        # One row is what the routine does well; one column is the transposed product.
        self.swapped = n == 1 and m > 1

    def multiply(
        self,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        accumulate: Any = False,
        rows: Any = None,
        depth: Any = None,
    ) -> None:
        """`c = a b` or `c += a b`; elements of a row of `c` must be neighbours.

        `rows` and `depth` are given where they are less than what this was made for; `accumulate`
        may be an i32 expression.
        """
        m, n = self.m if rows is None else rows, self.n
        k = self.k if depth is None else depth
        if not isinstance(accumulate, Expr):
            accumulate = kernel.const(int(accumulate), I32)
        row = c.row
        if self.swapped and c.row == 1:
            a, b, m, n, row = b.transposed(), a.transposed(), n, m, self.m
        name = "tetrax_gemm_small" if self._is_small(b) else "tetrax_gemm"
        builder = self.builder
        builder.call(
            f"{name}_{self.type.name}",
            builder.address(a.buffer, a.offset),
            builder.address(b.buffer, b.offset),
            builder.address(c.buffer, c.offset),
            *(kernel.index(size) for size in (m, n, k)),
            *(kernel.index(stride) for stride in (a.row, a.column, b.row, b.column, row)),
            accumulate,
        )

    def _is_small(self, b: Matrix) -> bool:
        small = is_small(self.m, self.n, self.k)
        return small and b.column == 1 and self.type in MULTIPLICANDS


def is_small(m: int, n: int, k: int) -> bool:
    """Whether a product is so small that it needs no planning."""
    return 1 < m <= SMALL and n <= SMALL and k <= SHORT


def joint_stride(extents: Sequence[int], strides: Sequence[int]) -> int | None:
    """The one stride of several axes seen as one, or None if they do not follow each other."""
    kept = [(n, s) for n, s in zip(extents, strides, strict=True) if n != 1]
    for (_, outer), (extent, inner) in pairwise(kept):
        if outer != extent * inner:
            return None
    return kept[-1][1] if kept else 1


__all__ = ["MULTIPLICANDS", "NARROW", "Matrix", "Multiplier", "is_small", "joint_stride"]
