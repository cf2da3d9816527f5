"""Eigenvalues and eigenvectors of Hermitian matrices."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
from tetrax import errors
from tetrax._lazy import lazy_module
from tetrax.ir import kernel
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import abs, mul, sub
from tetrax.ops.base import TestFacts, register
from tetrax.ops.bits_and_compare import le
from tetrax.ops.convert import convert_element_type
from tetrax.ops.join import slice_along
from tetrax.ops.linalg.base import (
    Decomposition,
    adjoint,
    columns,
    diagonal,
    hermitian_name,
    matmul,
    nan_like,
    narrowed,
    need_square,
    product,
    real_dtype,
    real_part,
    rounding_limit,
    routine,
    rows,
    safe_reciprocal,
    symmetrize,
    tangent_or_none,
    wide,
    zeros_of,
)
from tetrax.ops.linalg.emit import Lapack, batch_count, has_no_elements
from tetrax.ops.linalg.general_emit import emit_tridiagonal
from tetrax.ops.linalg.native import Matrix, Native, TridiagonalForm, has_native, is_finite
from tetrax.runtime.array import as_value

linalg = lazy_module("scipy.linalg")


class EighImplementation(enum.Enum):
    """How `eigh` works; on CPUs only QR is available."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class Eigh(Decomposition):
    """(eigenvectors, eigenvalues), ascending, from one triangle."""

    multiple_results = True

    def results(self, x, *, lower, sort_eigenvalues, subset_by_index, algorithm):
        need_square("eigh", x)
        size = x.shape[0]
        return [x, ShapedArray((size,), real_dtype(x.dtype))]

    def one(self, x, *, lower, sort_eigenvalues, subset_by_index, algorithm):
        values = np.empty(x.shape[0], real_dtype(x.dtype))
        if x.size == 0:
            return [x, values]
        if not np.isfinite(x).all():
            return nan_like(x, values)
        try:
            values, vectors = linalg.eigh(x, lower=lower, driver="evd", check_finite=False)
        except linalg.LinAlgError:
            return nan_like(x, values)
        return [vectors, values]

    def emit(self, builder, operands, outs, *, lower, **params):
        (x,), (vectors, values) = operands, outs
        if has_no_elements([x]):
            return
        if has_native(x.dtype):
            _emit_natively(builder, x, vectors, values, lower)
            return
        size = x.shape[-1]
        lapack = Lapack(builder, x.dtype)
        job, half = lapack.character("V"), lapack.character("L" if lower else "U")
        n, info = lapack.integer(size), lapack.info()
        packed, found = lapack.matrix(size, size), lapack.matrix(size, real=True)
        # Workspace: the documented minimum, and room for blocks of 64 columns.
        spaces = 2 * size + size * size + 64 * size, 1 + 5 * size + 2 * size * size, 3 + 5 * size
        memory = lapack.matrix(spaces[0]), lapack.matrix(spaces[1], real=True)
        places = [*map(lapack.address, memory), lapack.address(lapack.integers(spaces[2]))]
        sizes = map(lapack.integer, spaces)
        work = [part for pair in zip(places, sizes, strict=True) for part in pair]
        with lapack.batch(batch_count(x)) as index:
            lapack.load_matrix(x, index, packed)
            at = (lapack.address(packed), n, lapack.address(found))
            solve = lambda at=at: lapack.call("heevd", job, half, n, *at, *work, info)
            lapack.if_finite(packed, size * size, solve)
            lapack.store_matrix(packed, vectors, index, check=True)
            lapack.store_vector(found, values, index)

    def jvp(self, primals, tangents, **params):
        vectors, values = outs = self.bind(symmetrize(primals[0]), **params)
        tangent = tangent_or_none(tangents)
        if tangent is None:
            return outs, zeros_of(outs)
        inner = product(adjoint(vectors), tangent, vectors)
        turn = mul(_coupling(values, inner), inner)
        return outs, [matmul(vectors, turn), diagonal(real_part(inner))]


def _emit_natively(builder: Any, x: Any, vectors: Any, values: Any, lower: bool) -> None:
    """Tridiagonal form, LAPACK's divide and conquer, and the reflections applied to its vectors."""
    size = x.shape[-1]
    native = Native(builder, x.dtype)
    with native.matrices(batch_count(x)) as index:
        lapack = Lapack(builder, x.dtype)
        info = lapack.info()
        form = TridiagonalForm(native, size)
        form.load(native.matrix(x, index), lower)
        d, e, taus = native.vector(values, index), native.space(size), native.space(size)
        form.reduce(d, e, taus)
        halves, rotated = (native.space(size * size) for _ in range(2))
        work, integers = native.space(size * (size * 5 // 4 + 24)), lapack.integers(16 * size + 16)
        target = native.matrix(vectors, index)
        lapack.succeed()
        with builder.when(is_finite(builder, size, d, e)):
            native.call("conquer", d, e, size, halves, rotated, work, integers.buffer, info)
        with builder.otherwise():
            lapack.fail()
        with builder.when(lapack.succeeded):
            # the rows are vectors
            native.turn(Matrix(rotated, kernel.index(0), size), size, size, target)
            form.reflections.apply(taus, target, size, shift=1, backward=True)
        with builder.when(lapack.failed):
            native.spoil(target, size * size)
            native.spoil(d, size)


def differences(values: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """(values[j] - values[i], whether they count as equal), for all pairs.

    Within a group of equal values the basis is arbitrary. What does not depend on it has a
    derivative, to which turning the basis inside the group contributes nothing.
    """
    difference = sub(rows(values, shape), columns(values, shape))
    return difference, le(abs(difference), rounding_limit(values, shape))


def _coupling(values: Any, like: Any) -> Any:
    """1 / (values[j] - values[i]), and 0 where they are equal."""
    difference, equal = differences(values, like.shape)
    return convert_element_type(safe_reciprocal(difference, equal), like.dtype)


class Tridiagonal(Decomposition):
    """A Hermitian matrix reduced to tridiagonal form by reflections."""

    multiple_results = True

    def results(self, x, *, lower):
        need_square("tridiagonal", x)
        size = x.shape[0]
        if size == 0:
            raise errors.ShapeError(
                f"The input to tridiagonal must not be empty. Got shape {x.shape}."
            )
        part = real_dtype(x.dtype)
        return [
            x,
            ShapedArray((size,), part),
            ShapedArray((size - 1,), part),
            x.update(shape=(size - 1,)),
        ]

    def one(self, x, *, lower):
        name = hermitian_name(x.dtype, "sytrd", "hetrd")
        if x.shape[0] == 1:
            part = real_dtype(x.dtype)
            return [x, x.real[0].astype(part), np.empty(0, part), np.empty(0, x.dtype)]
        packed, d, e, factors, _ = routine(name, x.dtype)(x, lower=int(lower))
        return [packed, d, e, factors]

    def emit(self, builder, operands, outs, *, lower):
        if not has_no_elements(operands):
            emit_tridiagonal(builder, operands[0], outs, lower)


_SQUARE = ShapedArray((3, 3), np.float32)
_OPTIONS = {
    "lower": True,
    "sort_eigenvalues": True,
    "subset_by_index": None,
    "algorithm": None,
}
eigh_p = register(
    Eigh("eigh"),
    TestFacts(
        ulp=64,
        excluded=(("jvp", "of symmetric matrices only; tests/ops/test_linalg.py"),),
        samples=lambda: [([_SQUARE], _OPTIONS), ([_SQUARE.update(shape=(2, 3, 3))], _OPTIONS)],
    ),
)
tridiagonal_p = register(
    Tridiagonal("tridiagonal"),
    TestFacts(
        ulp=64,
        excluded=(("jvp", "JAX has none"),),
        samples=lambda: [([_SQUARE], {"lower": lower}) for lower in (True, False)],
    ),
)


def eigh(
    x: Any,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Any, Any]:
    """(eigenvectors, eigenvalues) of Hermitian matrices, ascending; vectors are columns.

    Derivatives of functions that do not depend on the choice of vectors are right, and finite even
    where eigenvalues are equal. `subset_by_index` keeps the eigenvalues of a range of positions.
    """
    if implementation not in (None, EighImplementation.QR):
        raise NotImplementedError(
            f"eigh: {implementation} is not available on CPU: leave implementation out"
        )
    x, dtype = wide(as_value(x))
    if symmetrize_input:
        x = symmetrize(x, "eigh")
    vectors, values = eigh_p.bind(
        x,
        lower=lower,
        sort_eigenvalues=sort_eigenvalues,
        subset_by_index=None,
        algorithm=implementation,
    )
    if subset_by_index is not None:
        first, last = subset_by_index
        vectors = slice_along(vectors, vectors.ndim - 1, first, last)
        values = slice_along(values, values.ndim - 1, first, last)
    return narrowed(vectors, dtype), narrowed(values, dtype)


def tridiagonal(a: Any, *, lower: bool = True) -> tuple[Any, Any, Any, Any]:
    """(packed, d, e, factors): Hermitian `a` as a tridiagonal matrix with diagonals d and e.

    The reflections that transform it are packed in one triangle, with their factors.
    """
    packed, d, e, factors = tridiagonal_p.bind(as_value(a), lower=lower)
    return packed, d, e, factors
