"""QR factors, by Householder reflections, and products with those."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import errors
from tetrax._lazy import lazy_module
from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_types import I32
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import add, sub
from tetrax.ops.base import TestFacts, register
from tetrax.ops.convert import complex as complex_of
from tetrax.ops.convert import imag
from tetrax.ops.join import concatenate
from tetrax.ops.linalg.base import (
    Decomposition,
    adjoint,
    hermitian_name,
    identity,
    leading,
    masked,
    matmul,
    narrowed,
    product,
    routine,
    skew,
    swapped,
    tangent_or_none,
    trailing,
    tril,
    wide,
    zeros_of,
)
from tetrax.ops.linalg.emit import Lapack, batch_count, fill_identity, has_no_elements
from tetrax.ops.linalg.lu import lu_p, solve_factored, take_rows
from tetrax.ops.linalg.native import Matrix, Native, Reflections, has_native
from tetrax.ops.linalg.triangular import triangular_solve
from tetrax.ops.nests import load_scalar, store_scalar
from tetrax.ops.structure import full
from tetrax.runtime.array import as_value

linalg = lazy_module("scipy.linalg")


class Geqrf(Decomposition):
    """R in the upper triangle, the reflections below it, and their factors."""

    multiple_results = True

    def results(self, x):
        return [x, x.update(shape=(min(x.shape),))]

    def one(self, x):
        if x.size == 0:
            return [x, np.zeros(min(x.shape), x.dtype)]
        packed, factors, _, _ = routine("geqrf", x.dtype)(x)
        return [packed, factors]

    def emit(self, builder, operands, outs):
        (x,), (packed, factors) = operands, outs
        if has_no_elements([x]):
            _clear(builder, factors)
            return
        rows, columns = x.shape[-2:]
        if has_native(x.dtype):
            native = Native(builder, x.dtype)
            with native.matrices(batch_count(x)) as index:
                reflections = Reflections(native, min(rows, columns), rows, columns)
                a = native.matrix(packed, index)
                native.copy(native.matrix(x, index), a, rows * columns)
                reflections.reduce(a, rows, columns, native.vector(factors, index))
                reflections.pack(a)
            return
        call = _Reduction(builder, x.dtype, rows, columns)
        with call.lapack.batch(batch_count(x)) as index:
            call.reduce(x, index)
            call.lapack.store_matrix(call.packed, packed, index)
            call.lapack.store_vector(call.factors, factors, index, check=False)


class Geqp3(Decomposition):
    """`geqrf` with columns in an order that makes the diagonal of R decrease."""

    multiple_results = True
    ranks = (2, 1)

    def results(self, x, order):
        return [x, order, x.update(shape=(min(x.shape),))]

    def one(self, x, order):
        if x.size == 0:
            return [x, order, np.zeros(min(x.shape), x.dtype)]
        packed, order, factors, _, _ = routine("geqp3", x.dtype)(x)
        return [packed, order.astype(np.int32), factors]


class HouseholderProduct(Decomposition):
    """The matrix of the first columns of a product of reflections."""

    ranks = (2, 1)

    def results(self, x, factors):
        if x.shape[0] < x.shape[1]:
            raise errors.ShapeError(
                "The first argument to householder_product must have at least as many rows as "
                f"columns, got shape {x.shape}"
            )
        if factors.shape[0] > min(x.shape):
            raise errors.ShapeError(
                "The second argument to householder_product must not have more rows than the "
                "minimum of the first argument's rows and columns, got "
                f"{factors.shape} and {x.shape}"
            )
        return x

    def one(self, x, factors):
        if x.size == 0:
            return x
        if not factors.size:
            return np.eye(*x.shape, dtype=x.dtype)
        name = hermitian_name(x.dtype, "orgqr", "ungqr")
        return routine(name, x.dtype)(x, factors)[0]

    def emit(self, builder, operands, outs):
        (x, factors), (out,) = operands, outs
        if has_no_elements([x]):
            return
        count, (rows, columns) = factors.shape[-1], x.shape[-2:]
        if not count:
            fill_identity(builder, out)
            return
        if has_native(x.dtype):
            native = Native(builder, x.dtype)
            with native.matrices(batch_count(x)) as index:
                reflections = Reflections(native, count, rows, columns)
                reflections.pack(native.matrix(x, index), unpack=True)
                taus, q = native.vector(factors, index), native.matrix(out, index)
                reflections.apply(taus, q, columns, backward=True, growing=True)
            return
        lapack = Lapack(builder, x.dtype)
        m, n, k = (lapack.integer(i) for i in (rows, columns, count))
        packed, info = lapack.matrix(rows, columns), lapack.info()
        space = 64 * columns
        work = (lapack.address(lapack.matrix(space)), lapack.integer(space))
        with lapack.batch(batch_count(x)) as index:
            lapack.load_matrix(x, index, packed)
            taus = lapack.address(factors, kernel.mul(index, count))
            lapack.call("ungqr", m, n, k, lapack.address(packed), m, taus, *work, info)
            lapack.store_matrix(packed, out, index)


class Ormqr(Decomposition):
    """A product of reflections, or its adjoint, times a matrix from either side."""

    ranks = (2, 1, 2)

    def results(self, x, factors, c, *, left, transpose):
        if c.shape[0 if left else 1] != x.shape[0]:
            raise errors.ShapeError(
                f"ormqr with left={left}: the reflections have {x.shape[0]} rows, which does not "
                f"fit c of shape {c.shape}"
            )
        return c

    def one(self, x, factors, c, *, left, transpose):
        if c.size == 0 or not factors.size:
            return c
        real = x.dtype.kind != "c"
        name = hermitian_name(x.dtype, "ormqr", "unmqr")
        letter = ("T" if real else "C") if transpose else "N"
        count = factors.shape[0]
        space = 64 * max(c.shape)
        side = "L" if left else "R"
        return routine(name, x.dtype)(side, letter, x[:, :count], factors, c, space)[0]

    def emit(self, builder, operands, outs, *, left, transpose):
        (x, factors, c), (out,) = operands, outs
        count = factors.shape[-1]
        rows, columns = c.shape[-2:]
        if has_no_elements([c]):
            return
        if has_native(x.dtype):
            native = Native(builder, x.dtype)
            length, width = (rows, columns) if left else (columns, rows)
            with native.matrices(batch_count(c)) as index:
                reflections = Reflections(native, count, length, width)
                reflections.pack(native.matrix(x, index), unpack=True)
                taus = native.vector(factors, index)
                source, target = native.matrix(c, index), native.matrix(out, index)
                if left:
                    native.copy(source, target, rows * columns)
                    reflections.apply(taus, target, columns, backward=not transpose)
                else:  # c h is the transposed hᵀ cᵀ
                    turned = Matrix(native.space(rows * columns), kernel.index(0), rows)
                    native.turn(source, rows, columns, turned)
                    reflections.apply(taus, turned, rows, backward=transpose)
                    native.turn(turned, columns, rows, target)
            return
        self._by_lapack(builder, x, factors, c, out, left, transpose)

    def _by_lapack(self, builder, x, factors, c, out, left, transpose):
        lapack = Lapack(builder, x.dtype)
        rows, columns = c.shape[-2:]
        size, count = x.shape[-2], factors.shape[-1]
        letters = [
            lapack.character(letter) for letter in ("L" if left else "R", "C" if transpose else "N")
        ]
        m, n, k, lda = (lapack.integer(i) for i in (rows, columns, count, size))
        packed, target = lapack.matrix(*x.shape[-2:]), lapack.matrix(rows, columns)
        space, info = 64 * (max(rows, columns) + 65), lapack.info()
        work = (lapack.address(lapack.matrix(space)), lapack.integer(space))
        with lapack.batch(batch_count(c)) as index:
            lapack.load_matrix(x, index, packed)
            lapack.load_matrix(c, index, target)
            taus = lapack.address(factors, kernel.mul(index, count))
            at = (lapack.address(packed), lda, taus, lapack.address(target), m)
            lapack.call("unmqr", *letters, m, n, k, *at, *work, info)
            lapack.store_matrix(target, out, index)


class Qr(Decomposition):
    """Q and R, and with `pivoting` the order of columns."""

    multiple_results = True

    def results(self, x, *, pivoting, full_matrices, use_magma=None):
        rows, columns = x.shape
        size = rows if full_matrices else min(rows, columns)
        outs = [x.update(shape=(rows, size)), x.update(shape=(size, columns))]
        return [*outs, ShapedArray((columns,), np.int32)] if pivoting else outs

    def one(self, x, *, pivoting, full_matrices, use_magma=None):
        if x.size == 0:
            return self._empty(x, pivoting, full_matrices)
        mode = "full" if full_matrices else "economic"
        found: Any = linalg.qr(x, mode=mode, pivoting=pivoting, check_finite=False)
        q, r, *order = found
        return [q, r, *(p.astype(np.int32) for p in order)]

    def _empty(self, x: np.ndarray, pivoting: bool, full_matrices: bool) -> list[np.ndarray]:
        rows, columns = x.shape
        size = rows if full_matrices else 0
        outs = [np.eye(rows, size, dtype=x.dtype), np.zeros((size, columns), x.dtype)]
        return [*outs, np.zeros(columns, np.int32)] if pivoting else outs

    def emit(self, builder, operands, outs, *, pivoting, full_matrices, use_magma=None):
        (x,), (q, r, *order) = operands, outs
        rows, columns = x.shape[-2:]
        if has_no_elements([x]):
            fill_identity(builder, q)
            return
        if has_native(x.dtype) and not pivoting:
            self._natively(builder, x, q, r)
            return
        width = q.shape[-1]
        call = _Reduction(builder, x.dtype, rows, max(columns, width), columns)
        lapack, product_name = call.lapack, "ungqr" if call.lapack.is_complex else "orgqr"
        k, width = lapack.integer(min(rows, columns)), lapack.integer(width)
        with lapack.batch(batch_count(x)) as index:
            call.reduce(x, index, pivoting)
            if pivoting:
                _emit_columns(builder, call.swaps, order[0], index)
            lapack.store_matrix(call.packed, r, index, leading=rows, keep="upper")
            at = (lapack.address(call.packed), call.m, lapack.address(call.factors))
            lapack.call(product_name, call.m, width, k, *at, *call.work, call.info)
            lapack.store_matrix(call.packed, q, index)

    def _natively(self, builder, x, q, r):
        rows, columns = x.shape[-2:]
        count, width = min(rows, columns), q.shape[-1]
        native = Native(builder, x.dtype)
        with native.matrices(batch_count(x)) as index:
            reflections = Reflections(native, count, rows, max(columns, width))
            upper, taus = native.matrix(r, index), native.space(count)
            whole = r.shape[-2] == rows
            a = upper if whole else Matrix(native.space(rows * columns), kernel.index(0), columns)
            native.copy(native.matrix(x, index), a, rows * columns)
            reflections.reduce(a, rows, columns, taus)
            if not whole:
                native.copy(a, upper, count * columns)
            native.keep_upper(upper, r.shape[-2], columns)
            reflections.apply(taus, native.matrix(q, index), width, backward=True, growing=True)

    def jvp(self, primals, tangents, *, pivoting, full_matrices, use_magma=None):
        (x,) = primals
        options = {"pivoting": pivoting, "full_matrices": full_matrices, "use_magma": use_magma}
        q, r, *order = outs = self.bind(x, **options)
        tangent = tangent_or_none(tangents)
        if tangent is None:
            return outs, zeros_of(outs)
        if pivoting:
            tangent = swapped(take_rows(swapped(tangent), order[0]))
            x = swapped(take_rows(swapped(x), order[0]))
        rows, columns = x.shape[-2:]
        if rows < columns:
            dq, dr = _wide_tangents(q, r, x, tangent)
        elif full_matrices and rows > columns:
            dq, dr = _full_tangents(q, r, tangent)
        else:
            dq, dr = _thin_tangents(q, r, tangent)
        return outs, [dq, dr, *zeros_of(order)]


class _Reduction:
    """LAPACK's QR factors of one matrix after the other, with room for `room` columns."""

    def __init__(
        self, builder: Any, dtype: Any, rows: int, room: int, columns: int | None = None
    ) -> None:
        columns = room if columns is None else columns
        self.builder = builder
        self.lapack = lapack = Lapack(builder, dtype)
        self.columns = columns
        self.m, self.n = lapack.integer(rows), lapack.integer(columns)
        self.packed = lapack.matrix(rows, room)
        self.factors, self.info = lapack.matrix(min(rows, columns)), lapack.info()
        space = 64 * (max(rows, columns) + 1)
        self.work = (lapack.address(lapack.matrix(space)), lapack.integer(space))
        self.spare = lapack.address(lapack.matrix(2 * columns, real=True))
        self.swaps = lapack.integers(columns)

    def reduce(self, x: Any, index: Any, pivoting: bool = False) -> None:
        """R and the reflections of matrix `index`, in `packed` and `factors`."""
        lapack, builder = self.lapack, self.builder
        lapack.load_matrix(x, index, self.packed)
        at, taus = lapack.address(self.packed), lapack.address(self.factors)
        if not pivoting:
            lapack.call("geqrf", self.m, self.n, at, self.m, taus, *self.work, self.info)
            return
        with builder.loop(self.columns) as i:
            builder.store(self.swaps.buffer, i, kernel.const(0, I32))
        real_work = [self.spare] if lapack.is_complex else []
        pivots = (lapack.address(self.swaps), taus)
        lapack.call("geqp3", self.m, self.n, at, self.m, *pivots, *self.work, *real_work, self.info)


def _clear(builder: Any, stored: Any) -> None:
    """Zeros."""
    count = batch_count(stored, 1) * stored.shape[-1]
    with builder.loop(count) as i:
        store_scalar(builder, stored, i, scalar.constant(0, load_scalar(builder, stored, i)))


def _emit_columns(builder: Any, swaps: Any, order: Any, index: Any) -> None:
    """The order of columns, counted from 0."""
    size = order.shape[-1]
    with builder.loop(size) as i:
        column = kernel.sub(builder.load(swaps.buffer, i), kernel.const(1, I32))
        builder.store(order.buffer, kernel.add(kernel.mul(index, size), i), column)


def _thin_tangents(q: Any, r: Any, t: Any) -> tuple[Any, Any]:
    """For x = q r with square r: qᴴ dq is skew, r stays upper triangular."""
    outer = triangular_solve(r, t)
    inner = matmul(adjoint(q), outer)
    turn = skew(tril(inner, -1))
    if inner.dtype.kind == "c":
        # The diagonal of r stays real: the imaginary part of the diagonal goes to q.
        parts = imag(masked(inner, np.eye(inner.shape[-1], dtype=np.bool_)))
        turn = add(turn, complex_of(full(parts.shape, 0, parts.dtype), parts))
    dq = add(matmul(q, sub(turn, inner)), outer)
    return dq, matmul(sub(inner, turn), r)


def _wide_tangents(q: Any, r: Any, x: Any, t: Any) -> tuple[Any, Any]:
    """More columns than rows: the first columns decide q."""
    size = q.shape[-1]
    dq, first = _thin_tangents(q, leading(r, -1, size), leading(t, -1, size))
    rest = add(
        matmul(adjoint(dq), trailing(x, -1, size)), matmul(adjoint(q), trailing(t, -1, size))
    )
    return dq, concatenate([first, rest], first.ndim - 1)


def _full_tangents(q: Any, r: Any, t: Any) -> tuple[Any, Any]:
    """More rows than columns, q square: how LAPACK completes q decides its last columns.

    With q = [[q11, q12], [q21, q22]], Householder's completion has q12 = z q... for the z that
    solves (q11 - 1)ᴴ zᴴ = q21ᴴ; the tangents of the last columns follow from it.
    """
    rows, columns = q.shape[-2], r.shape[-1]
    thin = leading(q, -1, columns)
    last = trailing(q, -1, columns)
    d_thin, d_upper = _thin_tangents(thin, leading(r, -2, columns), t)
    square, below = leading(thin, -2, columns), trailing(thin, -2, columns)
    d_square, d_below = leading(d_thin, -2, columns), trailing(d_thin, -2, columns)
    factors, _, order = lu_p.bind(sub(square, identity(square)))
    z_adjoint = solve_factored(factors, order, adjoint(below), adjoint=True)
    z = adjoint(z_adjoint)
    remainder = adjoint(sub(d_below, matmul(z, d_square)))
    d_last = sub(matmul(d_thin, z_adjoint), product(add(thin, matmul(last, z)), remainder))
    zeros = full((*r.shape[:-2], rows - columns, columns), 0, r.dtype)
    dq = concatenate([d_thin, d_last], q.ndim - 1)
    return dq, concatenate([d_upper, zeros], r.ndim - 2)


def _matrix(*shape: int) -> ShapedArray:
    return ShapedArray(shape, np.float32)


_NO_DERIVATIVE = (("jvp", "JAX has none: derivatives go through qr"),)
geqrf_p = register(
    Geqrf("geqrf"),
    TestFacts(
        ulp=64,
        excluded=_NO_DERIVATIVE,
        samples=lambda: [([_matrix(4, 3)], {}), ([_matrix(2, 3, 3)], {})],
    ),
)
geqp3_p = register(
    Geqp3("geqp3"),
    TestFacts(
        ulp=64,
        excluded=(*_NO_DERIVATIVE, ("all", "needs columns to be free; tests/ops/test_linalg.py")),
        samples=lambda: [([_matrix(4, 3), ShapedArray((3,), np.int32)], {})],
    ),
)
householder_product_p = register(
    HouseholderProduct("householder_product"),
    TestFacts(ulp=64, excluded=_NO_DERIVATIVE, samples=lambda: [([_matrix(4, 3), _matrix(3)], {})]),
)
ormqr_p = register(
    Ormqr("ormqr"),
    TestFacts(
        ulp=64,
        excluded=_NO_DERIVATIVE,
        samples=lambda: [
            ([_matrix(4, 3), _matrix(3), _matrix(4, 5)], {"left": True, "transpose": True}),
            ([_matrix(4, 3), _matrix(3), _matrix(5, 4)], {"left": False, "transpose": False}),
        ],
    ),
)
qr_p = register(
    Qr("qr"),
    TestFacts(
        ulp=64,
        samples=lambda: [
            (
                [_matrix(*shape)],
                {"pivoting": False, "full_matrices": whole, "use_magma": None},
            )
            for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 3))
            for whole in (False, True)
        ],
    ),
)


def geqrf(a: Any) -> tuple[Any, Any]:
    """(packed, factors): R and the reflections below its diagonal, and the factors of those."""
    packed, factors = geqrf_p.bind(as_value(a))
    return packed, factors


def householder_product(a: Any, taus: Any) -> Any:
    """The first columns of the product of reflections packed in `a`, with factors `taus`."""
    return householder_product_p.bind(as_value(a), as_value(taus))


def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Any:
    """The product of reflections that `geqrf` packed in `a` and `taus`, times `c`.

    From the left or the right, the product itself or its adjoint (`transpose`).
    """
    return ormqr_p.bind(as_value(a), as_value(taus), as_value(c), left=left, transpose=transpose)


def qr(
    x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Any, ...]:
    """(q, r) with x = q r, q with orthonormal columns, r upper triangular.

    q is square if `full_matrices`, else of the shape of x at most. With `pivoting` also p, and
    x[..., p] = q r.
    """
    x, dtype = wide(x)
    outs = qr_p.bind(x, pivoting=pivoting, full_matrices=full_matrices, use_magma=use_magma)
    return tuple(narrowed(out, dtype) for out in outs)
