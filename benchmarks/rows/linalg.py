"""Decompositions and solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.row import Case, Row
from benchmarks.rows.common import Array, normal, normals


def _positive(n: int) -> Array:
    x = normal(n, n)
    return x @ x.T / n + np.eye(n, dtype=np.float32)


def cholesky(n: int) -> Case:
    """The Cholesky factor of a positive matrix."""
    return Case(
        program=lambda lib: lib.numpy.linalg.cholesky,
        inputs=(_positive(n),),
        numpy=np.linalg.cholesky,
        torch=lambda torch: torch.linalg.cholesky,
        flops=n**3 / 3,
        tolerance=1e-3,
    )


def solve(n: int) -> Case:
    """A linear system with one right-hand side."""
    a, b = _positive(n), normal(n)
    return Case(
        program=lambda lib: lib.numpy.linalg.solve,
        inputs=(a, b),
        numpy=np.linalg.solve,
        torch=lambda torch: torch.linalg.solve,
        flops=2 * n**3 / 3,
        tolerance=1e-3,
    )


def qr(n: int) -> Case:
    """The reduced QR decomposition, compared up to signs."""
    return Case(
        program=lambda lib: lambda x: tuple(lib.numpy.linalg.qr(x)),
        inputs=(normal(n, n),),
        numpy=lambda x: tuple(np.linalg.qr(x)),
        torch=lambda torch: lambda x: tuple(torch.linalg.qr(x)),
        flops=8 * n**3 / 3,
        tolerance=1e-3,
        compare=lambda q, r: (q @ r, np.abs(np.diagonal(r))),
    )


def svd(n: int) -> Case:
    """The singular value decomposition, compared by its product."""
    return Case(
        program=lambda lib: lambda x: tuple(lib.numpy.linalg.svd(x, full_matrices=False)),
        inputs=(normal(n, n),),
        numpy=lambda x: tuple(np.linalg.svd(x, full_matrices=False)),
        torch=lambda torch: lambda x: tuple(torch.linalg.svd(x, full_matrices=False)),
        flops=6.0 * n**3,
        tolerance=1e-3,
        compare=lambda u, s, vt: ((u * s) @ vt, s),
    )


def eigh(n: int) -> Case:
    """Eigenvalues and eigenvectors of a symmetric matrix, compared by their product."""
    return Case(
        program=lambda lib: lambda x: tuple(lib.numpy.linalg.eigh(x)),
        inputs=(_positive(n),),
        numpy=lambda x: tuple(np.linalg.eigh(x)),
        torch=lambda torch: lambda x: tuple(torch.linalg.eigh(x)),
        flops=9.0 * n**3,
        tolerance=1e-3,
        compare=lambda w, v: ((v * w) @ v.T, w),
    )


def _batch(n: int) -> tuple[Array, Array]:
    a, b = normals((n, 3, 3), (n, 3, 1))
    return a + 4 * np.eye(3, dtype=np.float32), b


def batched_solve(n: int) -> Case:
    """Many systems of three equations."""
    a, b = _batch(n)
    return Case(
        program=lambda lib: lib.numpy.linalg.solve,
        inputs=(a, b),
        numpy=np.linalg.solve,
        torch=lambda torch: torch.linalg.solve,
        bytes=4.0 * n * 15,
        tolerance=1e-3,
    )


def batched_inverse(n: int) -> Case:
    """Many inverses of 3×3 matrices."""
    a, _ = _batch(n)
    inverse: Any = np.linalg.inv
    return Case(
        program=lambda lib: lib.numpy.linalg.inv,
        inputs=(a,),
        numpy=inverse,
        torch=lambda torch: torch.linalg.inv,
        bytes=4.0 * n * 18,
        tolerance=1e-3,
    )


_FAMILY = "linalg"
_FULL, _TINY = {"n": 500}, {"n": 9}

ROWS = (
    Row("cholesky_500", _FAMILY, cholesky, _FULL, _TINY),
    Row("solve_500", _FAMILY, solve, _FULL, _TINY),
    Row("qr_500", _FAMILY, qr, _FULL, _TINY),
    Row("svd_500", _FAMILY, svd, _FULL, _TINY),
    Row("eigh_500", _FAMILY, eigh, _FULL, _TINY),
    Row("batched_solve_3x3", _FAMILY, batched_solve, {"n": 100_000}, {"n": 11}),
    Row("batched_inverse_3x3", _FAMILY, batched_inverse, {"n": 100_000}, {"n": 11}),
)
