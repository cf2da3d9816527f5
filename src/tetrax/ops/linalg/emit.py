"""How compiled code calls LAPACK: arguments by reference, matrices by columns, one per batch.

A row-major matrix is its transpose by columns. Where a routine can work on the transpose it gets
the memory as it is; elsewhere matrices are copied to and from temporaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_types import I32, U8
from tetrax.ir.views import Stored, element_type, parts
from tetrax.ops.base import real_dtype
from tetrax.ops.nests import load_scalar, store_scalar

_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


class Lapack:
    """Writes calls of LAPACK and BLAS on matrices of one dtype into a kernel.

    Constant arguments and workspace are made first, outside the loop over the batch.
    """

    def __init__(self, builder: Any, dtype: Any) -> None:
        self.builder = builder
        self.dtype = np.dtype(dtype)
        self.element = element_type(self.dtype)
        self.letter = _LETTERS[self.dtype.name]
        self.is_complex = self.dtype.kind == "c"
        self._info: Any = None

    # -- arguments -----------------------------------------------------------------------------

    def integer(self, value: int) -> Any:
        """The address of an integer constant."""
        place = self.builder.temporary(I32, 1)
        self.builder.store(place, 0, kernel.const(value, I32))
        return self.builder.address(place)

    def character(self, letter: str) -> Any:
        """The address of a character constant."""
        place = self.builder.temporary(U8, 1)
        self.builder.store(place, 0, kernel.const(ord(letter), U8))
        return self.builder.address(place)

    def one(self) -> Any:
        """The address of the number 1."""
        place = self.matrix(1, 1)
        self.builder.store(place.buffer, 0, kernel.const(1.0, self.element))
        if self.is_complex:
            self.builder.store(place.buffer, 1, kernel.const(0.0, self.element))
        return self.address(place)

    def matrix(self, *shape: int, real: bool = False) -> Stored:
        """A temporary array, of real numbers for `real`."""
        count = int(np.prod(shape))
        width = 1 if real else parts(self.dtype)
        dtype = real_dtype(self.dtype) if real else self.dtype
        buffer = self.builder.temporary(self.element, max(count * width, 1))
        return Stored(buffer, shape, dtype)

    def integers(self, count: int) -> Stored:
        """A temporary array of integers."""
        return Stored(self.builder.temporary(I32, max(count, 1)), (count,), np.dtype(np.int32))

    def address(self, stored: Stored, offset: Any = 0) -> Any:
        """The address of an element."""
        return self.builder.address(
            stored.buffer, kernel.mul(kernel.index(offset), parts(stored.dtype))
        )

    def info(self) -> Any:
        """The address where routines report failure."""
        self._info = self.integers(1)
        return self.address(self._info)

    def succeed(self) -> None:
        """Report success."""
        self.builder.store(self._info.buffer, 0, kernel.const(0, I32))

    def fail(self) -> None:
        """Report failure."""
        self.builder.store(self._info.buffer, 0, kernel.const(1, I32))

    def if_finite(self, stored: Stored, count: int, call: Callable[[], None]) -> None:
        """Make a call, or report failure where one of so many elements is infinite or NaN."""
        zero = kernel.const(0.0, stored.buffer.element)
        total = self.builder.carry("total", zero)
        with self.builder.loop(count) as i:
            for number in scalar.parts_of(load_scalar(self.builder, stored, i)):
                # a finite number times zero is zero
                total.set(kernel.add(total.value, kernel.mul(number, zero)))
        self.succeed()
        with self.builder.when(kernel.eq(total.value, zero)):
            call()
        with self.builder.otherwise():
            self.fail()

    @property
    def succeeded(self) -> Any:
        """Whether the last call reported success."""
        return kernel.eq(self.builder.load(self._info.buffer, 0), kernel.const(0, I32))

    @property
    def failed(self) -> Any:
        """Whether the last call reported failure."""
        return kernel.ne(self.builder.load(self._info.buffer, 0), kernel.const(0, I32))

    # -- statements ----------------------------------------------------------------------------

    def call(self, name: str, *arguments: Any, library: str = "lapack") -> None:
        """Call the routine for this dtype, named without its first letter."""
        self.builder.call(f"{library}_{self.letter}{name}", *arguments)

    @contextmanager
    def batch(self, count: int) -> Iterator[Any]:
        """A loop over the matrices; gives the index."""
        if count == 1:
            yield kernel.index(0)
            return
        with self.builder.loop(count, name="matrix") as index:
            yield index

    def load_matrix(self, source: Stored, index: Any, target: Stored, conj: bool = False) -> None:
        """Matrix `index` of `source`, by rows, to `target`, by columns."""
        rows, columns = source.shape[-2:]
        first = kernel.mul(index, rows * columns)
        with self.builder.nest((rows, columns)) as (i, j):
            value = load_scalar(self.builder, source, kernel.add(first, _flat(i, j, columns)))
            store_scalar(
                self.builder, target, _flat(j, i, rows), scalar.conj(value) if conj else value
            )

    def store_matrix(
        self,
        source: Stored,
        target: Stored,
        index: Any,
        *,
        leading: int | None = None,
        keep: str | None = None,
        check: bool = False,
    ) -> None:
        """`source`, by columns of length `leading`, to matrix `index` of `target`, by rows.

        `keep` "upper" puts zeros below the diagonal; `check` puts NaN where the call failed.
        """
        rows, columns = target.shape[-2:]
        first = kernel.mul(index, rows * columns)
        with self.builder.nest((rows, columns)) as (i, j):
            value = load_scalar(self.builder, source, _flat(j, i, leading or rows))
            if keep == "upper":
                value = scalar.select(kernel.le(i, j), value, scalar.constant(0, value))
            value = self.checked(value) if check else value
            store_scalar(self.builder, target, kernel.add(first, _flat(i, j, columns)), value)

    def tidy_lower(self, stored: Stored, first: Any) -> None:
        """Zeros above the diagonal of the matrix from `first` on, NaN where a call failed."""
        size = stored.shape[-1]
        with self.builder.nest((size, size)) as (i, j):
            offset = kernel.add(first, _flat(i, j, size))
            value = load_scalar(self.builder, stored, offset)
            value = scalar.select(kernel.le(j, i), value, scalar.constant(0, value))
            store_scalar(self.builder, stored, offset, self.checked(value), self._spare())

    def _spare(self) -> Any:
        return (self.matrix(1, 1).buffer, kernel.index(0)) if self.is_complex else None

    def store_vector(self, source: Stored, target: Stored, index: Any, check: bool = True) -> None:
        """A vector to vector `index` of `target`."""
        size = target.shape[-1]
        first = kernel.mul(index, size)
        with self.builder.loop(size) as i:
            value = load_scalar(self.builder, source, i)
            value = self.checked(value) if check else value
            store_scalar(self.builder, target, kernel.add(first, i), value)

    def checked(self, value: scalar.Scalar) -> scalar.Scalar:
        """A value, NaN where the last call reported failure."""
        nan = float("nan")
        wrong = complex(nan, nan) if isinstance(value, scalar.Complex) else nan
        return scalar.select(self.failed, scalar.constant(wrong, value), value)


def batch_count(stored: Stored, rank: int = 2) -> int:
    """How many matrices (vectors, for rank 1) an array holds."""
    return int(np.prod(stored.shape[: len(stored.shape) - rank]))


def has_no_elements(operands: Sequence[Stored]) -> bool:
    return any(0 in x.shape for x in operands)


def fill_identity(builder: Any, target: Stored) -> None:
    """Identity matrices (zeros, for vectors): what decompositions of nothing consist of."""
    if 0 in target.shape:
        return
    rows, columns = target.shape[-2:]
    count = batch_count(target)
    with builder.nest((count, rows, columns)) as (index, i, j):
        one = kernel.convert(kernel.eq(i, j), target.buffer.element)
        zero = kernel.const(0, target.buffer.element)
        value = scalar.Complex(one, zero) if target.is_complex else one
        offset = kernel.add(kernel.mul(index, rows * columns), _flat(i, j, columns))
        store_scalar(builder, target, offset, value)


def copy_conjugate(builder: Any, source: Stored, index: Any, target: Stored) -> None:
    """The conjugate of matrix `index` of `source`, by rows as it is."""
    size = source.shape[-2] * source.shape[-1]
    with builder.loop(size) as i:
        value = load_scalar(builder, source, kernel.add(kernel.mul(index, size), i))
        store_scalar(builder, target, i, scalar.conj(value))


def _flat(i: Any, j: Any, width: int) -> Any:
    return kernel.add(kernel.mul(i, width), j)
