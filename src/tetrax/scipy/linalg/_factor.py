"""Decompositions of matrices with SciPy's arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax import numpy as jnp
from tetrax.numpy._promote import ensure_arraylike, promote_dtypes_inexact


def matrices(name: str, *args: Any) -> Any:
    """Check the arguments and give them one inexact dtype: one alone, several as a list."""
    ensure_arraylike(name, *args)
    found = promote_dtypes_inexact(*args)
    return found[0] if len(found) == 1 else found


def adjoint(x: Any) -> Any:
    """Exchange the last two axes and conjugate."""
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def cholesky(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """Return the triangular factor of a positive definite matrix, the upper one by default.

    >>> cholesky(4 * np.eye(2, dtype=np.float32))
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    a = matrices("cholesky", a)
    factor = lax.linalg.cholesky(a if lower else adjoint(a), symmetrize_input=False)
    return factor if lower else adjoint(factor)


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, bool]:
    """Return the factor for `cho_solve`, and which triangle it is."""
    return cholesky(a, lower=lower), lower


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """Return both factors in one matrix, and the row exchanges, for `lu_solve`."""
    factors, pivots, _ = lax.linalg.lu(matrices("lu_factor", a))
    return factors, pivots


def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, ...]:
    """Return P, L and U with `P @ L @ U = a`, or `P @ L` and U."""
    a = matrices("lu", a)
    factors, _, order = lax.linalg.lu(a)
    rows, columns = a.shape[-2:]
    size = min(rows, columns)
    real = dtypes.finfo(a.dtype).dtype
    places = jnp.arange(rows, dtype=order.dtype)
    p = jnp.swapaxes(order[..., :, None] == places, -1, -2).astype(real)
    unit = jnp.eye(rows, size, dtype=a.dtype)
    left = jnp.tril(factors[..., :, :size], -1) + unit
    right = jnp.triu(factors)[..., :size, :]
    if permute_l:
        return jnp.matmul(p.astype(a.dtype), left), right
    return p, left, right


def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Any, ...]:
    """Return Q and R with `Q @ R = a`, and the column order where `pivoting`.

    `mode` is "full", "economic" or "r".
    """
    if mode not in ("full", "economic", "r"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    full = mode != "economic"
    found = lax.linalg.qr(matrices("qr", a), pivoting=pivoting, full_matrices=full)
    if mode == "r":
        found = found[1:]
        return tuple(found)
    return tuple(found)


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Return U, the singular values and V's adjoint, or the singular values alone."""
    a = matrices("svd", a)
    found = lax.linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(found) if compute_uv else found


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the determinant."""
    return jnp.linalg.det(matrices("det", a))


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the inverse."""
    return jnp.linalg.inv(matrices("inv", a))


def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: Any = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Return eigenvalues and eigenvectors of a self-adjoint matrix, or the eigenvalues alone."""
    if b is not None:
        raise NotImplementedError("Only the b=None case of eigh is implemented")
    if type != 1:
        raise NotImplementedError("Only the type=1 case of eigh is implemented.")
    if eigvals is not None:
        raise NotImplementedError("Only the eigvals=None case of eigh is implemented.")
    vectors, values = lax.linalg.eigh(matrices("eigh", a), lower=lower)
    return values if eigvals_only else (values, vectors)


def schur(a: Any, output: str = "real") -> tuple[Any, Any]:
    """Return T and Z with `Z @ T @ adjoint(Z) = a`, T quasi-triangular or, complex, triangular."""
    if output not in ("real", "complex"):
        raise ValueError(f"argument must be 'real' or 'complex', got {output!r}")
    a = matrices("schur", a)
    if output == "complex":
        a = a.astype(dtypes.to_complex_dtype(a.dtype))
    t, z = lax.linalg.schur(a)
    return t, z


def hessenberg(
    a: Any, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """Return the Hessenberg form of a square matrix, and the unitary factor where `calc_q`."""
    a = matrices("hessenberg", a)
    packed, taus = lax.linalg.hessenberg(a)
    h = jnp.triu(packed, -1)
    if not calc_q:
        return h
    inner = lax.linalg.householder_product(packed[..., 1:, :-1], taus)
    outer, size = a.shape[:-2], a.shape[-1]
    q = jnp.broadcast_to(jnp.eye(size, dtype=a.dtype), (*outer, size, size))
    return h, q.at[..., 1:, 1:].set(inner)


def polar(
    a: Any,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: Any = None,
    max_iterations: Any = None,
) -> tuple[Any, Any]:
    """Return a unitary U and a positive P with `a = U @ P`, or `a = P @ U` for the left side."""
    if side not in ("right", "left"):
        raise ValueError(f"side={side!r} not recognized; expected 'right' or 'left'")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"Unknown polar decomposition method {method}.")
    a = matrices("polar", a)
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    s = s.astype(a.dtype)
    if side == "right":
        positive = jnp.matmul(adjoint(vh) * s[..., None, :], vh)
    else:
        positive = jnp.matmul(u * s[..., None, :], adjoint(u))
    return jnp.matmul(u, vh), positive


def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """Turn a real Schur form into a complex one by a rotation per 2 x 2 block."""
    T, Z = matrices("rsf2csf", T, Z)
    if T.ndim != 2 or T.shape[0] != T.shape[1] or T.shape != Z.shape:
        raise ValueError(f"rsf2csf: T and Z must be square of one shape: {T.shape}, {Z.shape}")
    kind = dtypes.to_complex_dtype(T.dtype)
    T, Z = T.astype(kind), Z.astype(kind)
    places = jnp.arange(T.shape[0])
    for m in range(T.shape[0] - 1, 0, -1):
        block = T[m - 1 : m + 1, m - 1 : m + 1]
        below = T[m, m - 1]
        half, product = (block[0, 0] + block[1, 1]) / 2, block[0, 0] * block[1, 1]
        root = jnp.sqrt(half * half - (product - block[0, 1] * block[1, 0]))
        mu = jnp.where(jnp.real(half) >= 0, half + root, half - root) - block[1, 1]
        length = jnp.sqrt(jnp.abs(mu) ** 2 + jnp.abs(below) ** 2)
        turn = below != 0
        length = jnp.where(turn, length, 1).astype(kind)
        c, s = jnp.where(turn, mu / length, 1), jnp.where(turn, below / length, 0)
        g = jnp.array([[jnp.conj(c), s], [-s, c]])
        rows = jnp.where(places >= m - 1, g @ T[m - 1 : m + 1, :], T[m - 1 : m + 1, :])
        T = T.at[m - 1 : m + 1, :].set(rows)
        pair = T[:, m - 1 : m + 1] @ adjoint(g)
        kept = (places <= m)[:, None]
        T = T.at[:, m - 1 : m + 1].set(jnp.where(kept, pair, T[:, m - 1 : m + 1]))
        Z = Z.at[:, m - 1 : m + 1].set(Z[:, m - 1 : m + 1] @ adjoint(g))
        T = T.at[m, m - 1].set(0)
    return T, Z


def eigh_tridiagonal(
    d: Any,
    e: Any,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: Any = None,
    tol: Any = None,
    key: Any = None,
) -> Any:
    """Return the eigenvalues of the symmetric matrix with diagonal `d` and neighbour `e`."""
    d, e = matrices("eigh_tridiagonal", d, e)
    whole = jnp.zeros((d.shape[0], d.shape[0]), d.dtype)
    n = np.arange(d.shape[0])
    whole = whole.at[n, n].set(d).at[n[1:], n[:-1]].set(e).at[n[:-1], n[1:]].set(jnp.conj(e))
    values, vectors = eigh(whole)
    if select == "i":
        low, high = select_range
        values, vectors = values[low : high + 1], vectors[:, low : high + 1]
    elif select == "v":
        low, high = select_range
        kept = np.asarray((values > low) & (values <= high))
        values, vectors = values[kept], vectors[:, kept]
    elif select != "a":
        raise ValueError(f"select must be 'a', 'i' or 'v', got {select!r}")
    return values if eigvals_only else (values, vectors)
