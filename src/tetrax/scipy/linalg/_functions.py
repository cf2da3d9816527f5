"""Functions of matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax import numpy as jnp
from tetrax.higher_order.jit import jit
from tetrax.scipy.linalg._factor import adjoint, matrices, schur
from tetrax.scipy.linalg._solve import solve_triangular
from tetrax.transforms.derivatives import jvp

# Padé degrees and the 1-norm up to which each is exact to rounding (Higham 2005, table 2.3).
_DEGREES = {
    24: ((3, 4.258730016922831e-1), (5, 1.880152677804762), (7, 3.925724783138660)),
    53: (
        (3, 1.495585217958292e-2),
        (5, 2.539398330063230e-1),
        (7, 9.504178996162932e-1),
        (9, 2.097847961257068),
        (13, 5.371920351148152),
    ),
}


def _coefficients(degree: int) -> list[float]:
    """Return the numerator of the diagonal Padé approximant of exp, constant term first."""
    top = math.factorial(degree)
    return [
        math.factorial(2 * degree - j)
        * top
        / (math.factorial(2 * degree) * math.factorial(j) * math.factorial(degree - j))
        for j in range(degree + 1)
    ]


def _pade(a: Any, degree: int, triangular: bool) -> Any:
    terms = _coefficients(degree)
    unit = jnp.eye(a.shape[-1], dtype=a.dtype)
    square = a @ a
    even, odd, power = terms[0] * unit, terms[1] * unit, unit
    for k in range(2, degree + 1, 2):
        power = power @ square
        even = even + terms[k] * power
        if k < degree:
            odd = odd + terms[k + 1] * power
    odd = a @ odd
    if triangular:
        return solve_triangular(even - odd, even + odd)
    return jnp.linalg.solve(even - odd, even + odd)


def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Any:
    """Return the matrix exponential of each square matrix; nan where the norm is too large.

    >>> expm(np.zeros((2, 2), np.float32))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    A = matrices("expm", A)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"Expected A to be a (batched) square matrix, got {A.shape=}.")
    if A.ndim > 2:
        return jnp.vectorize(
            lambda a: _expm(a, upper_triangular, max_squarings), signature="(n,n)->(n,n)"
        )(A)
    return _expm(A, upper_triangular, max_squarings)


def _expm(a: Any, triangular: bool, max_squarings: int) -> Any:
    bits = 53 if dtypes.finfo(a.dtype).bits >= 64 else 24
    degrees = _DEGREES[bits]
    norm = lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(a), axis=0), initial=0))
    largest = degrees[-1][1]
    squarings = jnp.ceil(jnp.log2(jnp.maximum(norm / largest, 1)))
    squarings = jnp.where(jnp.isfinite(squarings), squarings, max_squarings + 1)
    scaled = a / (2**squarings).astype(a.dtype)
    limits = jnp.array([limit for _, limit in degrees[:-1]], norm.dtype)
    choice = jnp.sum(norm >= limits).astype(np.int32)
    branches = [lambda m, d=degree: _pade(m, d, triangular) for degree, _ in degrees]
    result = lax.switch(choice, branches, scaled)
    too_large = squarings > max_squarings
    count = jnp.where(too_large, 0, squarings).astype(np.int32)

    def square(result: Any, i: Any) -> tuple[Any, None]:
        return lax.cond(i < count, lambda r: r @ r, lambda r: r, result), None

    result, _ = lax.scan(square, result, jnp.arange(max_squarings, dtype=np.int32))
    return jnp.where(too_large, np.nan, result)


def expm_frechet(A: Any, E: Any, *, method: Any = None, compute_expm: bool = True) -> Any:
    """Return expm(A) and its derivative in the direction E, or the derivative alone."""
    A, E = matrices("expm_frechet", A, E)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"expected A to be a (batched) square matrix, got {A.shape=}.")
    if A.shape[-2:] != E.shape[-2:]:
        raise ValueError(f"expected A and E to be of one shape, got {A.shape} and {E.shape}.")
    outer = jnp.broadcast_shapes(A.shape, E.shape)
    value, change = jvp(expm, (jnp.broadcast_to(A, outer),), (jnp.broadcast_to(E, outer),))
    return (value, change) if compute_expm else change


@jit
def _sqrtm_triangular(T: Any) -> Any:
    """Return the square root of an upper triangular matrix, column after column."""
    size = T.shape[0]
    diagonal = jnp.sqrt(jnp.diagonal(T))

    def column(j: Any, U: Any) -> Any:
        def entry(step: Any, U: Any) -> Any:
            i = j - 1 - step
            places = jnp.arange(size)
            inside = (places > i) & (places < j)
            known = jnp.sum(jnp.where(inside, U[i, :] * U[:, j], 0))
            bottom = diagonal[i] + diagonal[j]
            rest = T[i, j] - known
            value = jnp.where(rest == 0, 0, rest / jnp.where(rest == 0, 1, bottom))
            return U.at[i, j].set(value)

        return lax.fori_loop(0, j, entry, U)

    return lax.fori_loop(0, size, column, jnp.diag(diagonal))


def sqrtm(A: Any, blocksize: int = 1) -> Any:
    """Return the principal square root of a square matrix, complex."""
    if blocksize > 1:
        raise NotImplementedError("Blocked version is not implemented yet.")
    A = matrices("sqrtm", A)
    T, Z = schur(A, output="complex")
    return Z @ _sqrtm_triangular(T) @ adjoint(Z)


def funm(A: Any, func: Any, disp: bool = True) -> Any:
    """Return the function of a square matrix with distinct eigenvalues, by Parlett's recurrence."""
    A = matrices("funm", A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"expected square array_like input, got shape {A.shape}")
    size = A.shape[0]
    T, Z = schur(A, output="complex")
    F = jnp.diag(func(jnp.diag(T)))
    smallest = jnp.abs(T[0, 0]) if size else jnp.float32(1)
    for p in range(1, size):
        for i in range(size - p):
            j = i + p
            top = T[i, j] * (F[j, j] - F[i, i])
            top = top + T[i, i + 1 : j] @ F[i + 1 : j, j] - F[i, i + 1 : j] @ T[i + 1 : j, j]
            gap = T[j, j] - T[i, i]
            F = F.at[i, j].set(jnp.where(gap == 0, top, top / jnp.where(gap == 0, 1, gap)))
            smallest = jnp.minimum(smallest, jnp.abs(gap))
    F = Z @ F @ adjoint(Z)
    if disp:
        return F
    eps = dtypes.finfo(F.dtype).eps
    upper = jnp.max(jnp.sum(jnp.abs(jnp.triu(T, 1)), axis=0))
    smallest = jnp.where(smallest == 0, eps, smallest)
    return F, jnp.minimum(1.0, jnp.maximum(eps, eps / smallest * upper))


def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = "schur", tol: float = 1e-8) -> Any:
    """Solve `A @ X + X @ B = C`; nan where A and -B share an eigenvalue to within `tol`."""
    if method not in ("schur", "eigen"):
        raise ValueError(f"Invalid method: {method!r}; expected 'schur' or 'eigen'")
    A, B, C = matrices("solve_sylvester", A, B, C)
    if A.shape[0] != C.shape[0] or B.shape[0] != C.shape[1]:
        raise ValueError(f"solve_sylvester: shapes {A.shape}, {B.shape}, {C.shape} do not fit")
    real = A.dtype.kind != "c"
    R, U = schur(A, output="complex")
    S, V = schur(B, output="complex")
    F = adjoint(U) @ C.astype(U.dtype) @ V
    unit = jnp.eye(A.shape[0], dtype=R.dtype)

    def column(j: Any, Y: Any) -> Any:
        before = jnp.where(jnp.arange(B.shape[0]) < j, S[:, j], 0)
        rhs = F[:, j] - Y @ before
        return Y.at[:, j].set(solve_triangular(R + S[j, j] * unit, rhs))

    Y = lax.fori_loop(0, B.shape[0], column, jnp.zeros_like(F))
    X = U @ Y @ adjoint(V)
    sums = jnp.abs(jnp.diag(R)[:, None] + jnp.diag(S)[None, :])
    X = jnp.where(jnp.any(sums < tol), np.nan, X)
    return jnp.real(X) if real else X
