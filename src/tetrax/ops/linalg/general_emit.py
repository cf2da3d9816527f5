"""Compiled code of eigenvalues of general matrices, Schur and condensed forms: LAPACK, per matrix.

What is not finite does not reach the iterations: they need not end there, and the results are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tetrax.ir import complex_math, kernel, scalar
from tetrax.ir.views import Stored
from tetrax.ops.linalg.emit import Lapack, batch_count
from tetrax.ops.nests import load_scalar, store_scalar


class _One:
    """The calls for one square matrix of a batch."""

    def __init__(self, builder: Any, x: Stored, index: Any) -> None:
        self.builder, self.x, self.index = builder, x, index
        self.size = x.shape[-1]
        self.lapack = Lapack(builder, x.dtype)
        self.n, self.info = self.lapack.integer(self.size), self.lapack.info()
        self.packed = self.lapack.matrix(self.size, self.size)

    def load(self) -> Any:
        """The matrix by columns; gives its address."""
        self.lapack.load_matrix(self.x, self.index, self.packed)
        return self.lapack.address(self.packed)

    def work(self) -> list[Any]:
        """Workspace with room for blocks, and its size."""
        space = 72 * self.size + 65 * 64
        return [self.lapack.address(self.lapack.matrix(space)), self.lapack.integer(space)]

    def real_work(self) -> list[Any]:
        """The further workspace of complex matrices."""
        if not self.lapack.is_complex:
            return []
        return [self.lapack.address(self.lapack.matrix(2 * self.size, real=True))]

    def if_finite(self, call: Callable[[], None]) -> None:
        """Make a call, or report failure where an element is infinite or NaN."""
        self.lapack.if_finite(self.packed, self.size * self.size, call)


@contextmanager
def _matrices(builder: Any, x: Stored) -> Iterator[_One]:
    """A loop over the matrices of a batch, on several threads."""
    count = batch_count(x)
    if count == 1:
        yield _One(builder, x, kernel.index(0))
        return
    with builder.loop(count, "parallel", name="matrix") as index:
        yield _One(builder, x, index)


def emit_eig(builder: Any, x: Stored, outs: Sequence[Stored], left: bool, right: bool) -> None:
    """Eigenvalues, and vectors as asked."""
    values, *vectors = outs
    with _matrices(builder, x) as one:
        lapack, size = one.lapack, one.size
        jobs = [lapack.character("V" if wanted else "N") for wanted in (left, right)]
        parts = [lapack.matrix(size) for _ in range(1 if lapack.is_complex else 2)]
        found = [lapack.matrix(size, size) for _ in range(2)]
        at = one.load()
        places = [place for part in found for place in (lapack.address(part), one.n)]
        arguments = [*jobs, one.n, at, one.n, *map(lapack.address, parts), *places]
        arguments += [*one.work(), *one.real_work(), one.info]
        one.if_finite(lambda: lapack.call("geev", *arguments))
        _store_values(one, parts, values)
        wanted = [part for part, asked in zip(found, (left, right), strict=True) if asked]
        for part, out in zip(wanted, vectors, strict=True):
            if lapack.is_complex:
                lapack.store_matrix(part, out, one.index, check=True)
            else:
                _store_pairs(one, parts[1], part, out)


def _store_values(one: _One, parts: Sequence[Stored], out: Stored) -> None:
    builder, size = one.builder, one.size
    first = kernel.mul(one.index, size)
    with builder.loop(size) as i:
        if one.lapack.is_complex:
            value = load_scalar(builder, parts[0], i)
        else:
            value = scalar.Complex(*(builder.load(part.buffer, i) for part in parts))
        store_scalar(builder, out, kernel.add(first, i), one.lapack.checked(value))


def _store_pairs(one: _One, imaginary: Stored, found: Stored, out: Stored) -> None:
    """Complex vectors of a real matrix: of a pair, LAPACK gives real and imaginary parts."""
    builder, size = one.builder, one.size
    zero = kernel.const(0.0, imaginary.buffer.element)
    with builder.nest((size, size)) as (i, j):
        sign = builder.load(imaginary.buffer, j)
        upper, lower = kernel.gt(sign, zero), kernel.lt(sign, zero)
        last, step = kernel.index(size - 1), kernel.index(1)
        before = kernel.maximum(kernel.sub(j, step), kernel.index(0))
        after = kernel.minimum(kernel.add(j, step), last)
        element = lambda column: builder.load(found.buffer, kernel.add(kernel.mul(column, size), i))
        real = element(kernel.select(lower, before, j))
        other = element(kernel.select(upper, after, j))
        other = kernel.select(upper, other, kernel.select(lower, kernel.neg(other), zero))
        place = kernel.add(kernel.mul(one.index, size * size), kernel.add(kernel.mul(i, size), j))
        store_scalar(builder, out, place, one.lapack.checked(scalar.Complex(real, other)))


def emit_schur(builder: Any, x: Stored, outs: Sequence[Stored]) -> None:
    """The Schur form, and the vectors if there is room for them."""
    with _matrices(builder, x) as one:
        lapack, size = one.lapack, one.size
        jobs = [lapack.character("V" if len(outs) > 1 else "N"), lapack.character("N")]
        parts = [lapack.matrix(size) for _ in range(1 if lapack.is_complex else 2)]
        vectors = lapack.matrix(size, size)
        at = one.load()
        # nothing is selected: the function, its count and its flags are not used
        unused, count = lapack.address(lapack.integers(size)), lapack.integer(0)
        arguments = [*jobs, unused, one.n, at, one.n, count, *map(lapack.address, parts)]
        arguments += [lapack.address(vectors), one.n, *one.work(), *one.real_work(), unused]
        one.if_finite(lambda: lapack.call("gees", *arguments, one.info))
        for found, out in zip((one.packed, vectors), outs, strict=False):
            lapack.store_matrix(found, out, one.index, check=True)


def emit_hessenberg(builder: Any, x: Stored, packed: Stored, factors: Stored) -> None:
    """The Hessenberg form with the reflections below it, and their factors."""
    with _matrices(builder, x) as one:
        lapack = one.lapack
        at, first = one.load(), lapack.integer(1)
        taus = lapack.matrix(one.size)
        arguments = (one.n, first, one.n, at, one.n, lapack.address(taus), *one.work(), one.info)
        lapack.call("gehrd", *arguments)
        lapack.store_matrix(one.packed, packed, one.index)
        if factors.shape[-1]:
            lapack.store_vector(taus, factors, one.index, check=False)


def emit_tridiagonal(builder: Any, x: Stored, outs: Sequence[Stored], lower: bool) -> None:
    """The tridiagonal form: packed reflections, both diagonals, and the factors."""
    with _matrices(builder, x) as one:
        lapack, size = one.lapack, one.size
        half, at = lapack.character("L" if lower else "U"), one.load()
        found = [lapack.matrix(size, real=real) for real in (True, True, False)]
        name = "hetrd" if lapack.is_complex else "sytrd"
        places = [lapack.address(part) for part in found]
        lapack.call(name, half, one.n, at, one.n, *places, *one.work(), one.info)
        lapack.store_matrix(one.packed, outs[0], one.index)
        for part, out in zip(found, outs[1:], strict=True):
            if out.shape[-1]:
                lapack.store_vector(part, out, one.index, check=False)


def emit_tridiagonal_solve(builder: Any, operands: Sequence[Stored], out: Stored) -> None:
    """Elimination with pivoting; NaN for singular systems."""
    *diagonals, b = operands
    rows, columns = b.shape[-2:]
    count = batch_count(b)
    if rows == 1:
        _divide(builder, diagonals[1], b, out)
        return

    def one(index: Any) -> None:
        lapack = Lapack(builder, b.dtype)
        n, width, info = lapack.integer(rows), lapack.integer(columns), lapack.info()
        packed = lapack.matrix(rows, columns)
        lapack.load_matrix(b, index, packed)
        places = []
        # the first element of the lower diagonal is not used
        for diagonal, skipped in zip(diagonals, (1, 0, 0), strict=True):
            copy = lapack.matrix(rows)
            first = kernel.add(kernel.mul(index, rows), skipped)
            with builder.loop(rows - skipped) as i:
                value = load_scalar(builder, diagonal, kernel.add(first, i))
                store_scalar(builder, copy, i, value)
            places.append(lapack.address(copy))
        lapack.call("gtsv", n, width, *places, lapack.address(packed), n, info)
        lapack.store_matrix(packed, out, index, check=True)

    if count == 1:
        one(kernel.index(0))
        return
    with builder.loop(count, "parallel", name="matrix") as index:
        one(index)


def _divide(builder: Any, d: Stored, b: Stored, out: Stored) -> None:
    """Systems of one equation each."""
    columns = b.shape[-1]
    with builder.nest((batch_count(b), columns)) as (index, j):
        place = kernel.add(kernel.mul(index, columns), j)
        value = complex_math.divide(load_scalar(builder, b, place), load_scalar(builder, d, index))
        store_scalar(builder, out, place, value)
