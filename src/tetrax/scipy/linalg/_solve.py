"""Systems of equations, from a matrix or from its factors."""

from __future__ import annotations

from typing import Any

from tetrax import lax
from tetrax import numpy as jnp
from tetrax.numpy.linalg._solve import solve_matrix
from tetrax.scipy.linalg._factor import adjoint, matrices


def _check_square(name: str, a: Any) -> None:
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"{name}: the matrix must have shape [..., n, n], got {a.shape}")


def _with_columns(function: Any, a: Any, b: Any) -> Any:
    """Call `function(a, b)` with `b` as matrices, and one batch shape; give vectors back as such.

    Only a right hand side of one axis is a vector.
    """
    single = b.ndim == 1
    columns = b[:, None] if single else b
    outer = lax.broadcast_shapes(a.shape[:-2], columns.shape[:-2])
    found = function(
        jnp.broadcast_to(a, (*outer, *a.shape[-2:])),
        jnp.broadcast_to(columns, (*outer, *columns.shape[-2:])),
    )
    return found[..., 0] if single else found


def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Any:
    """Solve `a @ x = b` for a triangular matrix; `trans` 1 ("T") or 2 ("C") turns the matrix.

    >>> solve_triangular(jnp.array([[2.0, 0], [1, 1]]), jnp.array([2.0, 3]), lower=True)
    Array([1., 2.], dtype=float32)
    """
    turned, conjugate = _turn(trans)
    a, b = matrices("solve_triangular", a, b)

    def run(a: Any, b: Any) -> Any:
        return lax.linalg.triangular_solve(
            a,
            b,
            left_side=True,
            lower=lower,
            transpose_a=turned,
            conjugate_a=conjugate,
            unit_diagonal=unit_diagonal,
        )

    return _with_columns(run, a, b)


_TURNS = {0: (False, False), 1: (True, False), 2: (True, True)}
_TURN_NAMES = {"N": 0, "T": 1, "C": 2}


def _turn(trans: int | str) -> tuple[bool, bool]:
    number = _TURN_NAMES.get(trans, trans) if isinstance(trans, str) else trans
    if number not in _TURNS:
        raise ValueError(f"Invalid 'trans' value {trans!r}; expected 0, 1, 2, 'N', 'T' or 'C'")
    return _TURNS[number]


def cho_solve(
    c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """Solve with the result of `cho_factor`."""
    factor, lower = c_and_lower
    factor, b = matrices("cho_solve", factor, b)
    _check_square("cho_solve", factor)

    def run(c: Any, b: Any) -> Any:
        first = lax.linalg.triangular_solve(
            c, b, left_side=True, lower=lower, transpose_a=not lower, conjugate_a=not lower
        )
        return lax.linalg.triangular_solve(
            c, first, left_side=True, lower=lower, transpose_a=lower, conjugate_a=lower
        )

    return _with_columns(run, factor, b)


def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: Any,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Solve with the result of `lu_factor`."""
    factors, pivots = lu_and_piv
    factors, b = matrices("lu_solve", factors, b)
    _check_square("lu_solve", factors)
    turned, conjugate = _turn(trans)
    order = lax.linalg.lu_pivots_to_permutation(jnp.asarray(pivots), factors.shape[-1])

    def run(lu: Any, b: Any) -> Any:
        places = jnp.broadcast_to(order, (*b.shape[:-2], b.shape[-2]))[..., None]
        unit = {"left_side": True, "lower": True, "unit_diagonal": True}
        rest = {"left_side": True, "lower": False}
        if not turned:
            y = jnp.take_along_axis(b, jnp.broadcast_to(places, b.shape), axis=-2)
            y = lax.linalg.triangular_solve(lu, y, **unit)
            return lax.linalg.triangular_solve(lu, y, **rest)
        turn = {"transpose_a": True, "conjugate_a": conjugate}
        y = lax.linalg.triangular_solve(lu, b, **rest, **turn)
        y = lax.linalg.triangular_solve(lu, y, **unit, **turn)
        inverse = jnp.broadcast_to(jnp.argsort(places, axis=-2), y.shape)
        return jnp.take_along_axis(y, inverse, axis=-2)

    return _with_columns(run, factors, b)


def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Any:
    """Solve `a @ x = b`; `assume_a="pos"` says that the matrix is positive definite."""
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(f"Expected assume_a to be one of gen, sym, her, pos; got {assume_a!r}")
    a, b = matrices("solve", a, b)
    _check_square("solve", a)
    if assume_a != "pos":
        return _with_columns(solve_matrix, a, b)

    def run(a: Any, b: Any) -> Any:
        fixed = lax.stop_gradient(a)
        kept = fixed if lower else adjoint(fixed)
        c = lax.linalg.cholesky(kept, symmetrize_input=False)

        def by_factor(_: Any, rhs: Any) -> Any:
            return cho_solve((c, True), rhs)

        def times(x: Any) -> Any:
            return jnp.matmul(a, x)

        def by_transposed_factor(_: Any, rhs: Any) -> Any:
            return jnp.conj(cho_solve((c, True), jnp.conj(rhs)))

        return lax.custom_linear_solve(times, b, by_factor, by_transposed_factor)

    return _with_columns(run, a, b)
