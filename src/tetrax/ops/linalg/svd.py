"""Singular value decomposition, and the polar decomposition."""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np
from tetrax._lazy import lazy_module
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import add, div, mul, sub
from tetrax.ops.base import TestFacts, register
from tetrax.ops.bits_and_compare import le
from tetrax.ops.convert import convert_element_type
from tetrax.ops.join import concatenate, slice_along
from tetrax.ops.linalg import svd_emit
from tetrax.ops.linalg.base import (
    Decomposition,
    adjoint,
    columns,
    diagonal,
    leading,
    masked,
    matmul,
    narrowed,
    product,
    real_dtype,
    real_part,
    rounding_limit,
    rows,
    safe_reciprocal,
    skew,
    symmetrize,
    tangent_or_none,
    trailing,
    wide,
    zeros_of,
)
from tetrax.ops.linalg.eigh import differences
from tetrax.ops.linalg.emit import Lapack, batch_count, fill_identity, has_no_elements
from tetrax.ops.linalg.native import Native
from tetrax.ops.linalg.qr import qr
from tetrax.ops.reduce import reduce_max
from tetrax.ops.select import select
from tetrax.ops.structure import broadcast_in_dim
from tetrax.runtime.array import as_value

linalg = lazy_module("scipy.linalg")


class SvdAlgorithm(enum.Enum):
    """How `svd` works; on CPUs default, QR and divide and conquer are available."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


class Svd(Decomposition):
    """(s, u, vh), or only s."""

    multiple_results = True

    def results(self, x, *, full_matrices, compute_uv, subset_by_index, algorithm):
        m, n = x.shape
        size = min(m, n)
        values = ShapedArray((size,), real_dtype(x.dtype))
        if not compute_uv:
            return [values]
        u = x.update(shape=(m, m if full_matrices else size))
        return [values, u, x.update(shape=(n if full_matrices else size, n))]

    def one(self, x, *, full_matrices, compute_uv, subset_by_index, algorithm):
        avals = self.results(
            ShapedArray(x.shape, x.dtype),
            full_matrices=full_matrices,
            compute_uv=compute_uv,
            subset_by_index=None,
            algorithm=None,
        )
        if x.size == 0:
            return [_empty(a) for a in avals]
        driver = "gesvd" if algorithm is SvdAlgorithm.QR else "gesdd"
        try:
            if not np.isfinite(x).all():
                raise linalg.LinAlgError
            found = linalg.svd(
                x, full_matrices, compute_uv, check_finite=False, lapack_driver=driver
            )
        except linalg.LinAlgError:
            return [np.full(a.shape, np.nan, a.dtype) for a in avals]
        if not compute_uv:
            return [found]
        u, s, vh = found
        return [s, u, vh]

    def emit(self, builder, operands, outs, *, full_matrices, compute_uv, algorithm, **_):
        (x,) = operands
        if has_no_elements([x]):
            for out in outs[1:]:
                fill_identity(builder, out)
            return
        if svd_emit.takes(x) and algorithm is not SvdAlgorithm.QR:
            svd_emit.emit_values(builder, x, outs)
            return
        with Native(builder, x.dtype).matrices(batch_count(x)) as index:
            _emit_by_lapack(builder, x, outs, index, full_matrices, algorithm is SvdAlgorithm.QR)

    def jvp(self, primals, tangents, *, full_matrices, compute_uv, subset_by_index, algorithm):
        (x,) = primals
        options = {"subset_by_index": None, "algorithm": algorithm}
        tangent = tangent_or_none(tangents)
        if tangent is None:
            outs = self.bind(x, full_matrices=full_matrices, compute_uv=compute_uv, **options)
            return outs, zeros_of(outs)
        if compute_uv and full_matrices and x.shape[-1] != x.shape[-2]:
            raise NotImplementedError(
                "Singular value decomposition JVP not implemented for full matrices: the "
                "additional singular vectors are not unique. Pass full_matrices=False"
            )
        s, u, vh = self.bind(x, full_matrices=False, compute_uv=True, **options)
        inner = product(adjoint(u), tangent, adjoint(vh))
        ds = diagonal(real_part(inner))
        if not compute_uv:
            return [s], [ds]
        du, dv = _turns(s, inner)
        du, dv = matmul(u, du), matmul(adjoint(vh), dv)
        m, n = x.shape[-2:]
        if m > n:
            du = add(du, _outside(matmul(tangent, adjoint(vh)), u, s))
        elif n > m:
            dv = add(dv, _outside(matmul(adjoint(tangent), u), adjoint(vh), s))
        return [s, u, vh], [ds, du, adjoint(dv)]


def _emit_by_lapack(
    builder: Any, x: Any, outs: Any, index: Any, full_matrices: bool, by_iteration: bool
) -> None:
    """One matrix by LAPACK's drivers: small and complex ones."""
    m, n = x.shape[-2:]
    size, compute_uv = min(m, n), len(outs) > 1
    lapack = Lapack(builder, x.dtype)
    job = lapack.character(("A" if full_matrices else "S") if compute_uv else "N")
    packed, values = lapack.matrix(m, n), lapack.matrix(size, real=True)
    width, height = (m, n) if full_matrices else (size, size)
    shapes = ((m, width), (height, n)) if compute_uv else ((1, 1), (1, 1))
    u, vh = (lapack.matrix(*shape) for shape in shapes)
    work = _workspace(lapack, m, n, by_iteration)
    sizes = [lapack.integer(i) for i in (m, n, height)]
    name, jobs = ("gesvd", [job, job]) if by_iteration else ("gesdd", [job])
    lapack.load_matrix(x, index, packed)
    at = [lapack.address(part) for part in (packed, values, u, vh)]
    arguments = [*sizes[:2], at[0], sizes[0], at[1], at[2], sizes[0], at[3], sizes[2]]
    lapack.call(name, *jobs, *arguments, *work, lapack.info())
    lapack.store_vector(values, outs[0], index)
    if compute_uv:
        lapack.store_matrix(u, outs[1], index, check=True)
        lapack.store_matrix(vh, outs[2], index, check=True)


def _workspace(lapack: Lapack, m: int, n: int, by_iteration: bool) -> list[Any]:
    """The workspace arguments: the documented minimum, and room for blocks of 64 columns."""
    size, most = min(m, n), max(m, n)
    space = size * (4 * size + 7) + most + 64 * (m + n)
    work = [lapack.address(lapack.matrix(space)), lapack.integer(space)]
    real_space = max(5 * size * size + 7 * size, 2 * most * size + 2 * size * size + size)
    if lapack.is_complex:
        work.append(lapack.address(lapack.matrix(real_space, real=True)))
    if not by_iteration:
        work.append(lapack.address(lapack.integers(8 * size)))
    return work


def _empty(aval: ShapedArray) -> np.ndarray:
    if aval.ndim == 1:
        return np.empty(aval.shape, aval.dtype)
    return np.eye(*aval.shape, dtype=aval.dtype)


def _turns(s: Any, inner: Any) -> tuple[Any, Any]:
    """uᴴ du and vᴴ dv from uᴴ dx v.

    Singular values that are equal leave a choice of vectors. It is made so that u s vh keeps
    reproducing x to first order, whatever the change: half of it goes to u, half to v.
    """
    shape, dtype = inner.shape, inner.dtype
    s_rows, s_columns = rows(s, shape), columns(s, shape)
    difference, equal = differences(s, shape)
    total = add(s_rows, s_columns)
    cast = lambda x: convert_element_type(x, dtype)
    nothing = le(total, rounding_limit(s, shape))
    per_total = cast(safe_reciprocal(total, nothing))
    distinct = cast(safe_reciprocal(mul(total, difference), equal))
    adjoint_inner = adjoint(inner)
    right, left = mul(inner, cast(s_rows)), mul(inner, cast(s_columns))
    du = mul(distinct, add(right, mul(adjoint_inner, cast(s_columns))))
    dv = mul(distinct, add(left, mul(adjoint_inner, cast(s_rows))))
    off_diagonal = broadcast_in_dim(
        ~np.eye(shape[-1], dtype=np.bool_), shape, (len(shape) - 2, len(shape) - 1)
    )
    zero = sub(inner, inner)
    phase = masked(mul(skew(inner), per_total), np.eye(shape[-1], dtype=np.bool_))
    du = select(equal, select(off_diagonal, mul(inner, per_total), phase), du)
    dv = select(equal, select(off_diagonal, mul(adjoint_inner, per_total), zero), dv)
    return du, dv


def _outside(change: Any, basis: Any, s: Any) -> Any:
    """The part of a change of vectors that leaves their span, 0 for vanishing singular values."""
    rest = sub(change, product(basis, adjoint(basis), change))
    inverse = convert_element_type(
        safe_reciprocal(s, le(s, rounding_limit(s, s.shape))), rest.dtype
    )
    return mul(rest, rows(inverse, rest.shape))


def _svd_samples() -> list[tuple[list[ShapedArray], dict]]:
    return [
        (
            [ShapedArray(shape, np.float32)],
            {
                "full_matrices": False,
                "compute_uv": compute_uv,
                "subset_by_index": None,
                "algorithm": None,
            },
        )
        for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 3))
        for compute_uv in (True, False)
    ]


svd_p = register(Svd("svd"), TestFacts(ulp=256, samples=_svd_samples))


def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """(u, s, vh) with x = u diag(s) vh, singular values descending; only s without `compute_uv`.

    u and vh are square if `full_matrices`. Derivatives stay finite where singular values are equal
    or zero.
    """
    if algorithm in (SvdAlgorithm.JACOBI, SvdAlgorithm.POLAR):
        raise NotImplementedError(f"svd: {algorithm} is not available on CPU: leave algorithm out")
    x, dtype = wide(x)
    size = min(x.shape[-2:]) if x.ndim >= 2 else 0
    if subset_by_index is not None and full_matrices and tuple(subset_by_index) != (0, size):
        raise ValueError("full_matrices and subset_by_index cannot both be set")
    outs = svd_p.bind(
        x,
        full_matrices=full_matrices,
        compute_uv=compute_uv,
        subset_by_index=None,
        algorithm=algorithm,
    )
    if subset_by_index is not None and tuple(subset_by_index) != (0, size):
        outs = _subset(outs, *subset_by_index)
    outs = [narrowed(out, dtype) for out in outs]
    return (outs[1], outs[0], outs[2]) if compute_uv else outs[0]


def _subset(outs: list[Any], first: int, last: int) -> list[Any]:
    axes = (outs[0].ndim - 1, outs[0].ndim, outs[0].ndim - 1)
    return [slice_along(out, axis, first, last) for out, axis in zip(outs, axes, strict=False)]


# -- polar decomposition -------------------------------------------------------------------------


def qdwh(
    x: Any,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Any, Any, int, bool]:
    """(u, h, iterations, converged) with x = u h, u with orthonormal columns, h semidefinite.

    By the dynamically weighted Halley iteration of Nakatsukasa, Bai and Gygi (2010). The weights
    depend only on a bound for the smallest singular value, so the iterations are known beforehand.
    x (m, n) with m >= n.
    """
    if dynamic_shape is not None:
        raise NotImplementedError("qdwh: dynamic_shape is not available")
    x, dtype = wide(as_value(x))
    eps = float(np.finfo(x.dtype).eps) if eps is None else eps
    weights = _halley_weights(eps, 10 if max_iterations is None else max_iterations)
    size = x.shape[-1]
    largest = reduce_max(svd(x, compute_uv=False, full_matrices=False), (0,))
    u = div(x, convert_element_type(broadcast_in_dim(largest, x.shape, ()), x.dtype))
    eye = np.eye(size, dtype=x.dtype)
    for a, b, c in weights:
        root = math.sqrt(c)
        stacked = concatenate([mul(u, root), eye], 0)
        q, _ = qr(stacked, full_matrices=False)
        top, bottom = leading(q, 0, x.shape[0]), trailing(q, 0, x.shape[0])
        turned = mul(matmul(top, adjoint(bottom)), (a - b / c) / root)
        u = add(mul(u, b / c), turned)
    h = symmetrize(matmul(adjoint(u), x))
    if is_hermitian:
        u = symmetrize(u) if x.shape[0] == size else u
    return narrowed(u, dtype), narrowed(h, dtype), len(weights), True


def _halley_weights(eps: float, limit: int) -> list[tuple[float, float, float]]:
    """The weights (a, b, c) of each iteration, until the lower bound of the values reaches 1."""
    bound, weights = eps, []
    while _distance(bound, 1.0) > 10 * eps and len(weights) < limit:
        square = bound * bound
        d = (4 * (1 - square) / square**2) ** (1 / 3)
        root = math.sqrt(1 + d)
        a = root + math.sqrt(8 - 4 * d + 8 * (2 - square) / (square * root)) / 2
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        weights.append((a, b, c))
        bound = min(bound * (a + b * square) / (1 + c * square), 1.0)
    return weights


def _distance(x: float, y: float) -> float:
    return x - y if x > y else y - x
