"""Matrix decompositions and solvers; the public names are those of `lax.linalg`."""

from __future__ import annotations

from tetrax.ops.linalg.cholesky import cholesky, cholesky_p, cholesky_update, cholesky_update_p
from tetrax.ops.linalg.eig import (
    EigImplementation,
    eig,
    eig_p,
    hessenberg,
    hessenberg_p,
    schur,
    schur_p,
)
from tetrax.ops.linalg.eigh import EighImplementation, eigh, eigh_p, tridiagonal, tridiagonal_p
from tetrax.ops.linalg.lu import (
    lu,
    lu_p,
    lu_pivots_to_permutation,
    lu_pivots_to_permutation_p,
)
from tetrax.ops.linalg.qr import (
    geqrf,
    geqrf_p,
    householder_product,
    householder_product_p,
    ormqr,
    ormqr_p,
    qr,
    qr_p,
)
from tetrax.ops.linalg.svd import SvdAlgorithm, qdwh, svd, svd_p
from tetrax.ops.linalg.symmetric_product import symmetric_product, symmetric_product_p
from tetrax.ops.linalg.triangular import triangular_solve, triangular_solve_p
from tetrax.ops.linalg.tridiagonal_solve import tridiagonal_solve, tridiagonal_solve_p

__all__ = [
    "EigImplementation",
    "EighImplementation",
    "SvdAlgorithm",
    "cholesky",
    "cholesky_p",
    "cholesky_update",
    "cholesky_update_p",
    "eig",
    "eig_p",
    "eigh",
    "eigh_p",
    "geqrf",
    "geqrf_p",
    "hessenberg",
    "hessenberg_p",
    "householder_product",
    "householder_product_p",
    "lu",
    "lu_p",
    "lu_pivots_to_permutation",
    "lu_pivots_to_permutation_p",
    "ormqr",
    "ormqr_p",
    "qdwh",
    "qr",
    "qr_p",
    "schur",
    "schur_p",
    "svd",
    "svd_p",
    "symmetric_product",
    "symmetric_product_p",
    "triangular_solve",
    "triangular_solve_p",
    "tridiagonal",
    "tridiagonal_p",
    "tridiagonal_solve",
    "tridiagonal_solve_p",
]
