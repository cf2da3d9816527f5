"""Matrix decompositions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from tetrax import dtypes, lax
from tetrax.numpy._indexing import take_along_axis
from tetrax.numpy._promote import as_inexact
from tetrax.numpy._rearrange import triu
from tetrax.numpy._shapes import matrix_transpose
from tetrax.numpy._sorting import argsort
from tetrax.numpy._typing import Array, ArrayLike


class EigResult(NamedTuple):
    """What `eig` returns."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """What `qr` returns."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """What `svd` returns."""

    U: Array
    S: Array
    Vh: Array


def inexact_matrix(name: str, a: ArrayLike) -> Array:
    """Check and convert an operand of at least two axes."""
    x = as_inexact(f"jnp.linalg.{name}", a)
    if x.ndim < 2:
        raise TypeError(
            f"jnp.linalg.{name} wants an array of at least 2 axes, but got shape={x.shape}"
        )
    return x


def square_matrix(name: str, a: ArrayLike) -> Array:
    """Check and convert an operand whose last two axes are equal."""
    x = as_inexact(f"jnp.linalg.{name}", a)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"Argument to {name}() must have shape [..., n, n], got {x.shape}")
    return x


def adjoint(x: Array) -> Array:
    """Exchange the last two axes and conjugate."""
    turned = matrix_transpose(x)
    return lax.conj(turned) if dtypes.issubdtype(x.dtype, np.complexfloating) else turned


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """Return the triangular factor of a positive definite matrix; NaN where it is not.

    >>> cholesky(4.0 * np.eye(2))
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    x = square_matrix("cholesky", a)
    if symmetrize_input:
        x = _symmetrized(x)
    if not upper:
        return lax.linalg.cholesky(x, symmetrize_input=False)
    turned = x if symmetrize_input else adjoint(x)
    return adjoint(lax.linalg.cholesky(turned, symmetrize_input=False))


def _symmetrized(x: Array) -> Array:
    return lax.div(lax.add(x, adjoint(x)), lax.full_like(x, 2))


def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """Factorise a matrix into orthonormal columns and a triangle.

    Modes: "reduced", "complete", and "r" for the triangle alone.
    """
    x = inexact_matrix("qr", a)
    if mode == "raw":
        raise NotImplementedError(
            "jnp.linalg.qr: mode='raw' (Householder vectors) is not available; use 'reduced' or "
            "'complete'"
        )
    if mode not in ("reduced", "r", "complete", "full"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    full = mode in ("complete", "full")
    q, r = lax.linalg.qr(x, full_matrices=full)
    return triu(r) if mode == "r" else QRResult(q, r)


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Return the singular value decomposition, or with `compute_uv=False` the singular values.

    The values descend. `subset_by_index` keeps the values from one position up to another.
    """
    x = inexact_matrix("svd", a)
    if hermitian:
        return _svd_of_hermitian(x, compute_uv)
    if not compute_uv:
        return lax.linalg.svd(
            x, full_matrices=full_matrices, compute_uv=False, subset_by_index=subset_by_index
        )
    u, s, vh = lax.linalg.svd(
        x, full_matrices=full_matrices, compute_uv=True, subset_by_index=subset_by_index
    )
    return SVDResult(u, s, vh)


def _svd_of_hermitian(x: Array, compute_uv: bool) -> Any:
    """Take the eigenvalues by size, and their signs into the right factor."""
    w, v = eigh(x)
    order = argsort(lax.abs(w), axis=-1, descending=True)
    w = take_along_axis(w, order, axis=-1)
    s = lax.abs(w)
    if not compute_uv:
        return s
    rank = v.ndim
    wide = lax.broadcast_in_dim(
        order, (*v.shape[:-2], 1, v.shape[-1]), (*range(rank - 2), rank - 1)
    )
    v = take_along_axis(v, wide, axis=-1)
    signs = lax.select(lax.lt(w, lax.full_like(w, 0)), lax.full_like(w, -1), lax.full_like(w, 1))
    columns = lax.broadcast_in_dim(
        lax.convert_element_type(signs, v.dtype), v.shape, (*range(rank - 2), rank - 1)
    )
    return SVDResult(v, s, adjoint(lax.mul(v, columns)))


def svdvals(x: ArrayLike, /) -> Array:
    """Return the singular values, descending."""
    return svd(x, compute_uv=False)


def eig(a: ArrayLike) -> EigResult:
    """Return the eigenvalues and right eigenvectors of a square matrix, complex."""
    x = square_matrix("eig", a)
    values, vectors = lax.linalg.eig(x, compute_left_eigenvectors=False)
    return EigResult(values, vectors)


def eigvals(a: ArrayLike) -> Array:
    """Return the eigenvalues of a square matrix, complex."""
    x = square_matrix("eigvals", a)
    return lax.linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Return the eigenvalues, ascending, and eigenvectors of a symmetric or Hermitian matrix."""
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {UPLO}")
    x = square_matrix("eigh", a)
    vectors, values = lax.linalg.eigh(
        x, lower=UPLO != "U", symmetrize_input=symmetrize_input, sort_eigenvalues=True
    )
    return EighResult(values, vectors)


def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """Return the eigenvalues of a symmetric or Hermitian matrix, ascending."""
    return eigh(square_matrix("eigvalsh", a), UPLO, symmetrize_input).eigenvalues
