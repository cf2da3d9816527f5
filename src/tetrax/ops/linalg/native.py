"""How compiled code calls the library's own decompositions of real matrices.

Matrices stay by rows. Reflections are rows of a padded matrix; see `compiler/cpu/library/qr.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from tetrax.ir import kernel
from tetrax.ir.kernel_expr import Buffer
from tetrax.ir.views import Stored
from tetrax.ops.linalg.blocks import BLOCK, MOST_PARTS, WIDTH, stride

LETTERS = {"float32": "f32", "float64": "f64"}


def has_native(dtype: Any) -> bool:
    """Whether there are routines of our own for a dtype."""
    return np.dtype(dtype).name in LETTERS


@dataclass(frozen=True)
class Matrix:
    """A matrix by rows: where it begins, and the stride of rows."""

    buffer: Buffer
    first: Any
    row: int


class Native:
    """Writes calls of the library's routines for one dtype into a kernel."""

    def __init__(self, builder: Any, dtype: Any) -> None:
        self.builder = builder
        self.dtype = np.dtype(dtype)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a routine; numbers are passed as 64-bit integers, buffers by address."""
        self.builder.call(
            f"tetrax_{name}_{LETTERS[self.dtype.name]}", *(self._argument(x) for x in arguments)
        )

    def _argument(self, value: Any) -> Any:
        if isinstance(value, Buffer):
            return self.builder.address(value)
        if isinstance(value, Matrix):
            return self.builder.address(value.buffer, value.first)
        return kernel.index(value) if isinstance(value, int) else value

    def space(self, count: int) -> Buffer:
        """Scratch memory."""
        element = {"float32": kernel.F32, "float64": kernel.F64}[self.dtype.name]
        return self.builder.temporary(element, max(count, 1))

    def matrix(self, stored: Stored, index: Any) -> Matrix:
        """Matrix `index` of an array."""
        rows, columns = stored.shape[-2:]
        return Matrix(stored.buffer, kernel.mul(index, rows * columns), columns)

    def vector(self, stored: Stored, index: Any) -> Matrix:
        """Vector `index` of an array."""
        size = stored.shape[-1]
        return Matrix(stored.buffer, kernel.mul(index, size), size)

    @contextmanager
    def matrices(self, count: int) -> Iterator[Any]:
        """A loop over the matrices of a batch, on several threads; gives the index."""
        if count == 1:
            yield kernel.index(0)
            return
        with self.builder.loop(count, "parallel", name="matrix") as index:
            yield index

    def turn(self, source: Matrix, rows: int, columns: int, target: Matrix) -> None:
        """The transposed matrix."""
        self.call("turn", source, source.row, rows, columns, target, target.row)

    def copy(self, source: Matrix, target: Matrix, count: int) -> None:
        """Copy neighbouring elements."""
        with self.builder.loop(count, "vector") as i:
            value = self.builder.load(source.buffer, kernel.add(source.first, i))
            self.builder.store(target.buffer, kernel.add(target.first, i), value)

    def copy_rows(self, source: Matrix, target: Matrix, rows: int, columns: int) -> None:
        """Copy a matrix to one of another stride."""
        builder = self.builder
        with builder.loop(rows) as i, builder.loop(columns, "vector") as j:
            place = kernel.add(source.first, kernel.add(kernel.mul(i, source.row), j))
            value = builder.load(source.buffer, place)
            place = kernel.add(target.first, kernel.add(kernel.mul(i, target.row), j))
            builder.store(target.buffer, place, value)

    def fill_unit(self, target: Matrix, rows: int, columns: int) -> None:
        """Ones on the diagonal, zeros elsewhere."""
        builder = self.builder
        zero, one = (kernel.const(x, target.buffer.element) for x in (0.0, 1.0))
        with builder.loop(rows) as i:
            start = kernel.add(target.first, kernel.mul(i, target.row))
            with builder.loop(columns, "vector") as j:
                builder.store(target.buffer, kernel.add(start, j), zero)
            with builder.when(kernel.lt(i, kernel.index(columns))):
                builder.store(target.buffer, kernel.add(start, i), one)

    def spoil(self, target: Matrix, count: int) -> None:
        """Put NaN into neighbouring elements."""
        with self.builder.loop(count, "vector") as i:
            nan = kernel.const(float("nan"), target.buffer.element)
            self.builder.store(target.buffer, kernel.add(target.first, i), nan)

    def keep_upper(self, matrix: Matrix, rows: int, columns: int) -> None:
        """Zeros below the diagonal."""
        builder = self.builder
        with builder.loop(rows) as i, builder.loop(kernel.minimum(i, columns), "vector") as j:
            place = kernel.add(matrix.first, kernel.add(kernel.mul(i, matrix.row), j))
            builder.store(matrix.buffer, place, kernel.const(0.0, matrix.buffer.element))


class Reflections:
    """Memory for up to `count` reflections of vectors of `length`, applied to `columns`."""

    def __init__(self, native: Native, count: int, length: int, columns: int) -> None:
        self.native, self.count, self.length = native, count, length
        self.row = stride(length)
        self.vectors = native.space(count * self.row)
        self.factors = native.space((count + BLOCK - 1) // BLOCK * BLOCK * BLOCK)
        self.work = native.space(2 * BLOCK * columns)

    def first(self, count: int) -> Reflections:
        """Only the first ones, in the same memory."""
        fewer = copy(self)
        fewer.count = count
        return fewer

    def reduce(self, a: Matrix, rows: int, columns: int, taus: Any) -> None:
        """A to R above its diagonal, and to these reflections."""
        self.native.call(
            "qr",
            *(a, a.row, rows, columns, self.vectors, self.row, taus, self.factors, self.work),
        )

    def pack(self, a: Matrix, shift: int = 0, unpack: bool = False) -> None:
        """Reflections to (or from) the columns of a matrix below its diagonal."""
        self.native.call(
            "unpack" if unpack else "pack",
            *(self.vectors, self.row, self.count, shift, self.length, a, a.row),
        )

    def apply(
        self,
        taus: Any,
        c: Matrix,
        columns: int,
        *,
        shift: int = 0,
        backward: bool,
        growing: bool = False,
    ) -> None:
        """Multiply C from the left by the product of all (`backward`), or its transpose."""
        self.native.call(
            "reflect",
            *(self.vectors, self.row, self.count, shift, self.length, taus, self.factors),
            *(c, c.row, columns, self.work, int(backward), int(growing)),
        )


class TridiagonalForm:
    """Memory to bring one symmetric matrix to tridiagonal form."""

    def __init__(self, native: Native, size: int) -> None:
        self.native, self.size = native, size
        self.reflections = Reflections(native, max(size - 1, 1), size, size)
        self.row = stride(size)
        self.triangle = native.space(size * self.row)
        self.vectors = self.reflections.vectors
        self.work = native.space((4 * WIDTH + MOST_PARTS) * self.row)

    def load(self, x: Matrix, lower: bool) -> None:
        """Take a triangle of a matrix."""
        builder, size = self.native.builder, self.size
        if lower:
            target = Matrix(self.triangle, kernel.index(0), self.row)
            self.native.turn(x, size, size, target)
            return
        with builder.loop(size) as i, builder.loop(size, "vector") as j:
            source = kernel.add(x.first, kernel.add(kernel.mul(i, x.row), j))
            place = kernel.add(kernel.mul(i, self.row), j)
            builder.store(self.triangle, place, builder.load(x.buffer, source))

    def reduce(self, d: Any, e: Any, taus: Any) -> None:
        """The diagonals, and the reflections."""
        self.native.call(
            "tridiagonal",
            *(self.triangle, self.row, self.size, self.vectors, self.row, d, e, taus, self.work),
        )


def is_finite(builder: Any, size: int, d: Matrix, e: Buffer) -> Any:
    """Whether a diagonal, and the one beside it, hold finite numbers only."""
    zero = kernel.const(0.0, e.element)
    total = builder.carry("total", zero)
    with builder.loop(size) as i:
        last = kernel.lt(i, kernel.index(size - 1))
        terms = [builder.load(d.buffer, kernel.add(d.first, i))]
        terms.append(kernel.select(last, builder.load(e, i), zero))
        for term in terms:
            # a finite number times zero is zero
            total.set(kernel.add(total.value, kernel.mul(term, zero)))
    return kernel.eq(total.value, zero)
