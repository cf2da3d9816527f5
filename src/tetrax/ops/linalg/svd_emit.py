"""Compiled code of singular values of real matrices: our condensed form, LAPACK's iteration.

A wide matrix is transposed, a tall one is reduced to a square one by QR. That is brought to
bidiagonal form by reflections from both sides; LAPACK's `bdsdc` finds the values and vectors of the
bidiagonal matrix, and the reflections are applied to these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tetrax.ir import kernel
from tetrax.ir.views import Stored
from tetrax.ops.linalg.blocks import MOST_PARTS, WIDTH, stride
from tetrax.ops.linalg.emit import Lapack, batch_count
from tetrax.ops.linalg.native import Matrix, Native, Reflections, has_native, is_finite

LEAST = 48
"""Rows and columns from which this is faster than LAPACK alone."""


def takes(x: Stored) -> bool:
    """Whether the matrices are of a kind and size for this."""
    return has_native(x.dtype) and min(x.shape[-2:]) >= LEAST


def emit_values(builder: Any, x: Stored, outs: Sequence[Stored]) -> None:
    """Singular values and, if there are outputs for them, vectors."""
    native = Native(builder, x.dtype)
    with native.matrices(batch_count(x)) as index:
        _Svd(native, x, outs, index).emit()


class _Svd:
    """One matrix. `tall` and `short` are its larger and its smaller size."""

    def __init__(self, native: Native, x: Stored, outs: Sequence[Stored], index: Any) -> None:
        self.native, self.builder = native, native.builder
        self.source = native.matrix(x, index)
        self.rows, self.columns = x.shape[-2:]
        self.turned = self.rows < self.columns
        self.tall, self.short = max(x.shape[-2:]), min(x.shape[-2:])
        self.values = native.vector(outs[0], index)
        self.outs = [native.matrix(out, index) for out in outs[1:]]
        self.counts = [out.shape[-2] * out.shape[-1] for out in outs[1:]]
        self.row = stride(self.short)
        self.lapack = Lapack(self.builder, x.dtype)
        self.info = self.lapack.info()
        if self.outs:
            # u of the tall matrix: of vectors in rows for a wide one
            self.width = outs[2].shape[-2] if self.turned else outs[1].shape[-1]

    def at(self, count: int, row: int) -> Matrix:
        return Matrix(self.native.space(count), kernel.index(0), row)

    def emit(self) -> None:
        size = self.short
        self.reduce()
        condition = is_finite(self.builder, size, self.values, self.e)
        self.lapack.succeed()
        with self.builder.when(condition):
            self.iterate()
        with self.builder.otherwise():
            self.lapack.fail()
        if self.outs:
            with self.builder.when(self.lapack.succeeded):
                self.left_vectors()
                self.right_vectors()
        with self.builder.when(self.lapack.failed):
            self.native.spoil(self.values, size)
            for out, count in zip(self.outs, self.counts, strict=True):
                self.native.spoil(out, count)

    # -- to bidiagonal form ------------------------------------------------------------------

    def reduce(self) -> None:
        native, size = self.native, self.short
        square = self.at(size * self.row, self.row)
        whole = self.at(self.tall * size, size) if self.tall > size else square
        self.take(whole)
        if self.tall > size:
            self.qr_taus = native.space(size)
            columns = max(size, self.width if self.outs else 0)
            self.qr = Reflections(native, size, self.tall, columns)
            self.qr.reduce(whole, self.tall, size, self.qr_taus)
            native.keep_upper(whole, size, size)
            native.copy_rows(whole, square, size, size)
        self.left, self.right = (Reflections(native, size, size, size) for _ in range(2))
        self.taus = [native.space(size) for _ in range(2)]
        self.e = native.space(size)
        work = native.space((6 * WIDTH + MOST_PARTS) * self.row)
        native.call(
            "bidiagonal",
            *(square, self.row, size, self.left.vectors, self.right.vectors, self.left.row),
            *(self.values, self.e, *self.taus, work),
        )

    def take(self, target: Matrix) -> None:
        """The matrix, or if it is wide its transpose."""
        if self.turned:
            self.native.turn(self.source, self.rows, self.columns, target)
        else:
            self.native.copy_rows(self.source, target, self.rows, self.columns)

    # -- values and vectors of the bidiagonal matrix -----------------------------------------

    def iterate(self) -> None:
        lapack, size = self.lapack, self.short
        count = size * size if self.outs else 1
        # by columns u, and vᴴ, of which the rows are those of v
        self.u, self.v = self.at(count, size), self.at(count, size)
        n, job = lapack.integer(size), lapack.character("I" if self.outs else "N")
        space = (3 * size + 8) * size if self.outs else 8 * size
        spare = [lapack.address(lapack.matrix(1)), lapack.address(lapack.integers(1))]
        work = [lapack.address(lapack.matrix(space)), lapack.address(lapack.integers(8 * size))]
        address = self.builder.address
        d = address(self.values.buffer, self.values.first)
        places = (d, address(self.e), address(self.u.buffer), n, address(self.v.buffer), n)
        lapack.call("bdsdc", lapack.character("U"), job, n, *places, *spare, *work, self.info)

    def left_vectors(self) -> None:
        """Those of the tall matrix's longer side."""
        native, size, width = self.native, self.short, self.width
        target = self.at(self.tall * width, width) if self.turned else self.outs[0]
        if self.tall > size:
            native.fill_unit(target, self.tall, width)
        native.turn(self.u, size, size, target)
        self.left.apply(self.taus[0], target, size, backward=True)
        if self.tall > size:
            self.qr.apply(self.qr_taus, target, width, backward=True)
        if self.turned:
            native.turn(target, self.tall, width, self.outs[1])

    def right_vectors(self) -> None:
        native, size = self.native, self.short
        reflections = self.right.first(size - 1)
        reflections.apply(self.taus[1], self.v, size, shift=1, backward=True)
        if self.turned:
            native.copy(self.v, self.outs[0], size * size)
        else:
            native.turn(self.v, size, size, self.outs[1])
