"""Krylov solvers: conjugate gradients, BiCGSTAB, GMRES.

The operator is a matrix or a linear function, the right-hand side any tree of arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax import lax, tree_util
from tetrax import numpy as jnp
from tetrax.flatten_util import ravel_pytree
from tetrax.numpy._promote import is_arraylike

__all__ = ["bicgstab", "cg", "gmres"]

_Operator = Callable[[Any], Any]


def _operator(A: Any, name: str) -> _Operator:
    if callable(A):
        return A
    if is_arraylike(A):
        if np.ndim(A) != 2 or np.shape(A)[0] != np.shape(A)[1]:
            raise ValueError(f"{name} must be a square matrix, got shape {np.shape(A)}")
        return lambda v: jnp.matmul(A, v)
    raise TypeError(f"{name} must be a function or a square matrix, got {type(A)}")


def _solve(
    algorithm: Callable[..., Any],
    A: Any,
    b: Any,
    x0: Any,
    tol: Any,
    atol: Any,
    maxiter: int | None,
    M: Any,
    symmetric: bool,
) -> tuple[Any, None]:
    """Flatten the trees, solve by the algorithm, and let the result differentiate implicitly."""
    times = _operator(A, "A")
    precondition = (lambda v: v) if M is None else _operator(M, "M")
    x0 = tree_util.tree_map(jnp.zeros_like, b) if x0 is None else x0
    if tree_util.tree_structure(x0) != tree_util.tree_structure(b):
        raise ValueError("x0 and b must have matching tree structure")
    shapes = [[np.shape(x) for x in tree_util.tree_leaves(tree)] for tree in (x0, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"arrays in x0 and b must have matching shapes: {shapes[0]}, {shapes[1]}")
    flat_b, back = ravel_pytree(b)
    flat_b = jnp.asarray(flat_b, jnp.result_type(flat_b, np.float32))
    start = lax.stop_gradient(ravel_pytree(x0)[0]).astype(flat_b.dtype)
    count = 10 * flat_b.size if maxiter is None else maxiter

    def flat(function: _Operator) -> _Operator:
        if isinstance(b, dict | list | tuple) or np.ndim(b) != 1:
            return lambda v: ravel_pytree(function(back(v)))[0]
        return function

    preconditioner = flat(precondition)

    def run(matvec: _Operator, rhs: Any) -> Any:
        return algorithm(matvec, rhs, start, tol, atol, count, preconditioner)

    x = lax.custom_linear_solve(
        flat(times), flat_b, solve=run, transpose_solve=run, symmetric=symmetric
    )
    return back(x), None


def _norm(x: Any) -> Any:
    return jnp.sqrt(jnp.real(jnp.vdot(x, x)))


def _cg(A: _Operator, b: Any, x0: Any, tol: Any, atol: Any, maxiter: int, M: _Operator) -> Any:
    limit = jnp.maximum(tol * _norm(b), atol)
    r0 = b - A(x0)
    z0 = M(r0)

    def unfinished(state: Any) -> Any:
        _, r, _, _, k = state
        return (_norm(r) > limit) & (k < maxiter)

    def step(state: Any) -> Any:
        x, r, gamma, p, k = state
        q = A(p)
        alpha = gamma / jnp.vdot(p, q)
        x, r = x + alpha * p, r - alpha * q
        z = M(r)
        new = jnp.vdot(r, z)
        return x, r, new, z + (new / gamma) * p, k + 1

    return lax.while_loop(unfinished, step, (x0, r0, jnp.vdot(r0, z0), z0, np.int32(0)))[0]


def _bicgstab(
    A: _Operator, b: Any, x0: Any, tol: Any, atol: Any, maxiter: int, M: _Operator
) -> Any:
    limit = jnp.maximum(tol * _norm(b), atol)
    r0 = b - A(x0)
    one = jnp.ones((), b.dtype)

    def unfinished(state: Any) -> Any:
        r, rho, k = state[1], state[3], state[-1]
        return (_norm(r) > limit) & (k < maxiter) & (rho != 0)

    def step(state: Any) -> Any:
        x, r, p, rho, alpha, omega, q, k = state
        new = jnp.vdot(r0, r)
        beta = new / rho * alpha / omega
        p = r + beta * (p - omega * q)
        p_hat = M(p)
        q = A(p_hat)
        alpha = new / jnp.vdot(r0, q)
        s = r - alpha * q
        early = _norm(s) <= limit
        s_hat = M(s)
        t = A(s_hat)
        omega = jnp.vdot(t, s) / jnp.vdot(t, t)
        x = x + alpha * p_hat + jnp.where(early, 0, omega * s_hat)
        r = jnp.where(early, s, s - omega * t)
        return x, r, p, new, alpha, omega, q, k + 1

    state = (x0, r0, jnp.zeros_like(r0), one, one, one, jnp.zeros_like(r0), np.int32(0))
    return lax.while_loop(unfinished, step, state)[0]


def _gmres_with(restart: int) -> Callable[..., Any]:
    def solve(
        A: _Operator, b: Any, x0: Any, tol: Any, atol: Any, maxiter: int, M: _Operator
    ) -> Any:
        limit = jnp.maximum(tol * _norm(b), atol)
        size = min(restart, b.shape[0])
        eps = jnp.finfo(b.dtype).eps

        def arnoldi(k: Any, state: Any) -> Any:
            V, H = state
            w = M(A(V[:, k]))
            before = _norm(w)
            h = jnp.conj(V).T @ w
            w = w - V @ h
            again = jnp.conj(V).T @ w  # twice is enough
            w, h = w - V @ again, h + again
            length = _norm(w)
            live = length > eps * before
            h = h.at[k + 1].set(jnp.where(live, length, 0).astype(h.dtype))
            unit = jnp.where(live, w / jnp.where(live, length, 1), 0)
            return V.at[:, k + 1].set(unit), H.at[:, k].set(h)

        def cycle(state: Any) -> Any:
            x, _, k = state
            r = M(b - A(x))
            length = _norm(r)
            V = jnp.zeros((b.shape[0], size + 1), b.dtype)
            V = V.at[:, 0].set(r / jnp.where(length == 0, 1, length))
            H = jnp.zeros((size + 1, size), b.dtype)
            V, H = lax.fori_loop(0, size, arnoldi, (V, H))
            rhs = jnp.zeros(size + 1, b.dtype).at[0].set(length.astype(b.dtype))
            y = jnp.linalg.lstsq(H, rhs)[0]
            x = x + V[:, :-1] @ y
            return x, _norm(b - A(x)), k + 1

        def unfinished(state: Any) -> Any:
            return (state[1] > limit) & (state[2] < maxiter)

        return lax.while_loop(unfinished, cycle, (x0, _norm(b - A(x0)), np.int32(0)))[0]

    return solve


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solve `A(x) = b` for a positive definite operator by conjugate gradients.

    Stops at a residual of `max(tol |b|, atol)`. `M` approximates the inverse of `A`.

    >>> cg(2 * np.eye(2, dtype=np.float32), np.float32([2, 4]))[0]
    Array([1., 2.], dtype=float32)
    """
    return _solve(_cg, A, b, x0, tol, atol, maxiter, M, symmetric=True)


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solve `A(x) = b` for any invertible operator by stabilized bi-conjugate gradients."""
    return _solve(_bicgstab, A, b, x0, tol, atol, maxiter, M, symmetric=False)


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, None]:
    """Solve `A(x) = b` by generalized minimal residuals over `restart` directions at a time."""
    if solve_method not in ("batched", "incremental"):
        raise ValueError(
            f"invalid solve_method {solve_method}, must be either 'incremental' or 'batched'"
        )
    return _solve(_gmres_with(restart), A, b, x0, tol, atol, maxiter, M, symmetric=False)
