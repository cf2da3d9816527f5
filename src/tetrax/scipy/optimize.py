"""Minimization of functions: `tetrax.scipy.optimize`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from tetrax import lax
from tetrax import numpy as jnp
from tetrax.transforms.derivatives import value_and_grad

__all__ = ["OptimizeResults", "minimize"]


class OptimizeResults(NamedTuple):
    """What `minimize` returns."""

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


class _State(NamedTuple):
    x: Any
    f: Any
    g: Any
    inverse: Any  # of the Hessian, estimated
    evaluations: Any
    iterations: Any
    failed: Any  # the line search


_ARMIJO, _CURVATURE = 1e-4, 0.9


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Minimize a function of a vector; `method` is "BFGS".

    Options: `gtol` (1e-5), the size of the gradient to stop at; `norm` (inf), how to measure it;
    `maxiter` (200 per variable); `line_search_maxiter` (10).
    """
    if not isinstance(args, tuple):
        raise TypeError(f"args argument to minimize must be a tuple, got {args!r}")
    if method.lower() not in ("bfgs", "l-bfgs-experimental-do-not-rely-on-this"):
        raise ValueError(f"Method {method} not recognized; use 'BFGS'")
    chosen = dict(options or {})
    known = {"gtol", "norm", "maxiter", "line_search_maxiter"}
    if method.lower() == "bfgs" and set(chosen) - known:
        raise TypeError(f"minimize: unknown options {sorted(set(chosen) - known)}")
    x0 = jnp.asarray(x0)
    if x0.ndim != 1:
        raise ValueError(f"minimize: x0 must be a vector, got shape {x0.shape}")
    if x0.dtype.kind != "f":
        x0 = x0.astype(jnp.result_type(float))
    gtol = chosen.get("gtol", 1e-5 if tol is None else tol)
    limit = chosen.get("maxiter")
    limit = 200 * x0.size if limit is None else limit
    tries = chosen.get("line_search_maxiter", 10)
    order = chosen.get("norm", np.inf)
    evaluate = value_and_grad(lambda x: fun(x, *args))
    return _bfgs(evaluate, x0, gtol, limit, tries, order)


def _bfgs(
    evaluate: Callable[[Any], Any], x0: Any, gtol: Any, limit: int, tries: int, order: Any
) -> OptimizeResults:
    unit = jnp.eye(x0.size, dtype=x0.dtype)
    f, g = evaluate(x0)

    def converged(state: _State) -> Any:
        return jnp.linalg.norm(state.g, ord=order) < gtol

    def unfinished(state: _State) -> Any:
        return ~converged(state) & ~state.failed & (state.iterations < limit)

    def step(state: _State) -> _State:
        direction = -(state.inverse @ state.g)
        failed, x, f, g, used = _search(evaluate, state, direction, tries)
        s, y = x - state.x, g - state.g
        inner = s @ y
        usable = inner > 0
        rho = 1 / jnp.where(usable, inner, 1)
        left = unit - rho * jnp.outer(s, y)
        inverse = left @ state.inverse @ left.T + rho * jnp.outer(s, s)
        inverse = jnp.where(usable, inverse, state.inverse)
        evaluations, iterations = state.evaluations + used, state.iterations + 1
        return _State(x, f, g, inverse, evaluations, iterations, failed)

    zero = np.int32(0)
    state = _State(x0, f, g, unit, zero + np.int32(1), zero, np.bool_(False))
    state = lax.while_loop(unfinished, step, state)
    done = converged(state)
    status = jnp.where(done, 0, jnp.where(state.failed, 3, 1))
    return OptimizeResults(
        state.x, done, status, state.f, state.g, state.inverse,
        state.evaluations, state.evaluations, state.iterations,
    )  # fmt: skip


def _search(
    evaluate: Callable[[Any], Any], state: _State, direction: Any, tries: int
) -> tuple[Any, Any, Any, Any, Any]:
    """Find a step that fulfils the Wolfe conditions by doubling and bisection.

    Returns failed, the point, its value and gradient, the number of evaluations. A step that
    lowers the function without fulfilling the second condition is kept when the tries run out.
    """
    slope = state.g @ direction
    one = jnp.ones((), state.x.dtype)

    def unfinished(carry: Any) -> Any:
        return ~carry[3] & (carry[-1] < 2 * tries)

    def step(carry: Any) -> Any:
        low, high, t, _, _, best, k = carry
        f, g = evaluate(state.x + t * direction)
        lower = f <= state.f + _ARMIJO * t * slope
        steep = g @ direction < _CURVATURE * slope
        found = lower & ~steep
        better = lower & ((f < best[1]) | found)
        best = tuple(
            jnp.where(better, new, old)
            for new, old in zip((state.x + t * direction, f, g), best, strict=True)
        )
        low, high = jnp.where(lower, t, low), jnp.where(lower, high, t)
        following = jnp.where(high < np.inf, (low + high) / 2, 2 * t)
        return low, high, following, found, carry[4] | better, best, k + 1

    start = (state.x, state.f, state.g)
    no = np.bool_(False)
    carry = (0 * one, np.inf * one, one, no, no, start, np.int32(0))
    carry = lax.while_loop(unfinished, step, carry)
    x, f, g = carry[5]
    return ~carry[4], x, f, g, carry[-1]
