"""Systems of equations, inverses and determinants."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from tetrax import dtypes, lax
from tetrax.higher_order.custom_derivatives import custom_jvp
from tetrax.numpy._arithmetic import multiply
from tetrax.numpy._contract import matmul
from tetrax.numpy._creation import eye
from tetrax.numpy._indexing import take_along_axis
from tetrax.numpy._promote import (
    broadcast_array,
    check_arraylike,
    convert,
    ensure_arraylike,
    promote_dtypes_inexact,
    to_array,
)
from tetrax.numpy._rearrange import diagonal
from tetrax.numpy._reductions import max as max_
from tetrax.numpy._reductions import prod
from tetrax.numpy._reductions import sum as sum_
from tetrax.numpy._shapes import matrix_transpose
from tetrax.numpy._typing import Array, ArrayLike
from tetrax.numpy.linalg._decompose import adjoint, eigvalsh, inexact_matrix, square_matrix, svd


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: Array
    logabsdet: Array


# --------------------------------------------------------------------------- solving


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """Solve `a @ x = b` for a square matrix; `b` is one vector, or a stack of matrices.

    >>> solve(2.0 * np.eye(2), np.array([2.0, 4.0]))
    Array([1., 2.], dtype=float32)
    """
    check_arraylike("jnp.linalg.solve", a, b)
    x, y = promote_dtypes_inexact(a, b)
    x, y = convert(x, x.dtype), convert(y, y.dtype)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"left hand array must have shape [..., n, n], got {x.shape}")
    if y.ndim < 1:
        raise ValueError(f"Right hand side array must have at least one dimension, got {y.shape}")
    size = x.shape[-1]
    if y.shape[0 if y.ndim == 1 else -2] != size:
        raise ValueError(
            f"solve: the matrix has {size} columns, the right hand side shape {y.shape} does "
            f"not fit"
        )
    if y.ndim == 1:
        columns = broadcast_array(lax.expand_dims(y, (1,)), (*x.shape[:-2], size, 1))
        result = solve_matrix(x, columns)
        return lax.squeeze(result, (result.ndim - 1,))
    outer = lax.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x = broadcast_array(x, (*outer, size, size))
    return solve_matrix(x, broadcast_array(y, (*outer, size, y.shape[-1])))


def solve_matrix(a: Array, b: Array) -> Array:
    """Solve for a stack of right hand sides, factorising once also for the derivatives."""
    narrow = dtypes.itemsize_bits(a.dtype) < 32
    if narrow:  # half precision has no factorisation of its own
        wide = np.dtype(np.float32)
        return convert(solve_matrix(convert(a, wide), convert(b, wide)), a.dtype)
    factors, _, order = lax.linalg.lu(lax.stop_gradient(a))
    return lax.custom_linear_solve(
        functools.partial(matmul, a),
        b,
        solve=lambda _, rhs: _lu_solve(factors, order, rhs),
        transpose_solve=lambda _, rhs: _lu_solve_transposed(factors, order, rhs),
    )


def _lu_solve(factors: Array, order: Array, b: Array) -> Array:
    wide = lax.broadcast_in_dim(order, b.shape, tuple(range(b.ndim - 1)))
    b = take_along_axis(b, wide, axis=-2)
    y = lax.linalg.triangular_solve(factors, b, left_side=True, lower=True, unit_diagonal=True)
    return lax.linalg.triangular_solve(factors, y, left_side=True, lower=False)


def _lu_solve_transposed(factors: Array, order: Array, b: Array) -> Array:
    y = lax.linalg.triangular_solve(factors, b, left_side=True, lower=False, transpose_a=True)
    z = lax.linalg.triangular_solve(
        factors, y, left_side=True, lower=True, transpose_a=True, unit_diagonal=True
    )
    places = lax.broadcasted_iota(order.dtype, order.shape, order.ndim - 1)
    inverse = lax.sort((order, places), dimension=order.ndim - 1, num_keys=1)[1]
    wide = lax.broadcast_in_dim(inverse, z.shape, tuple(range(z.ndim - 1)))
    return take_along_axis(z, wide, axis=-2)


def inv(a: ArrayLike) -> Array:
    """Return the inverse of a square matrix."""
    x = square_matrix("inv", a)
    x = convert(x, x.dtype)
    return solve_matrix(x, broadcast_array(eye(x.shape[-1], dtype=x.dtype), x.shape))


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Solve `tensordot(a, x, x.ndim) = b`."""
    x, y = ensure_arraylike("tensorsolve", a, b)
    if axes is not None:
        order = [i for i in range(x.ndim) if i not in axes] + list(axes)
        x = lax.transpose(x, order)
    rest = x.shape[y.ndim :]
    if math.prod(rest) != y.size:
        raise ValueError(
            "Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == "
            "prod(a.shape[:b.ndim]); "
            f"got shapes {x.shape} and {y.shape}"
        )
    flat = lax.reshape(x, (y.size, y.size))
    return lax.reshape(solve(flat, lax.reshape(y, (y.size,))), rest)


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """Return the inverse for `tensordot` over the first `ind` axes."""
    x = ensure_arraylike("tensorinv", a)
    if ind <= 0:
        raise ValueError(f"ind must be a positive integer; got {ind=}")
    rows, columns = x.shape[:ind], x.shape[ind:]
    if math.prod(rows) != math.prod(columns):
        raise ValueError(
            f"tensorinv: the products of {rows} and {columns} differ (shape {x.shape})"
        )
    size = math.prod(rows)
    return lax.reshape(inv(lax.reshape(x, (size, size))), (*columns, *rows))


# --------------------------------------------------------------------------- determinants


def det(a: ArrayLike) -> Array:
    """Return the determinant; its derivative holds at singular matrices too."""
    x = square_matrix("det", a)
    x = convert(x, x.dtype)
    size = x.shape[-1]
    if size == 0:
        return lax.full(x.shape[:-2], 1, x.dtype)
    if size <= 3:
        return _small_det(x)
    return _lu_det(x)


def _entry(x: Array, i: int, j: int) -> Array:
    row = lax.index_in_dim(x, i, x.ndim - 2, keepdims=False)
    return lax.index_in_dim(row, j, row.ndim - 1, keepdims=False)


def _small_det(x: Array) -> Array:
    """Expand along the first row."""
    size = x.shape[-1]
    if size == 1:
        return _entry(x, 0, 0)
    if size == 2:
        return lax.sub(
            lax.mul(_entry(x, 0, 0), _entry(x, 1, 1)), lax.mul(_entry(x, 0, 1), _entry(x, 1, 0))
        )
    terms = []
    for j in range(3):
        k, m = [column for column in range(3) if column != j]
        minor = lax.sub(
            lax.mul(_entry(x, 1, k), _entry(x, 2, m)), lax.mul(_entry(x, 1, m), _entry(x, 2, k))
        )
        terms.append(lax.mul(_entry(x, 0, j), minor))
    return lax.add(lax.sub(terms[0], terms[1]), terms[2])


def _permutation_sign(pivots: Array) -> Array:
    """Return 0 for an even and 1 for an odd number of row exchanges."""
    places = lax.broadcasted_iota(pivots.dtype, pivots.shape, pivots.ndim - 1)
    moved = lax.convert_element_type(lax.ne(pivots, places), np.int32)
    return lax.rem(lax.reduce_sum(moved, (pivots.ndim - 1,)), np.int32(2))


@custom_jvp
def _lu_det(x: Array) -> Array:
    factors, pivots, _ = lax.linalg.lu(x)
    product = prod(diagonal(factors, axis1=-2, axis2=-1), axis=-1)
    odd = _permutation_sign(pivots)
    return lax.select(lax.eq(odd, lax.full_like(odd, 1)), lax.neg(product), product)


@_lu_det.defjvp
def _lu_det_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (tangent,) = primals, tangents
    value = _lu_det(x)
    cofactors = _adjugate(x, value)
    size = x.shape[-1]
    flat = (*x.shape[:-2], size * size)
    product = lax.mul(lax.reshape(matrix_transpose(cofactors), flat), lax.reshape(tangent, flat))
    return value, lax.reduce_sum(product, (len(flat) - 1,))


def _adjugate(x: Array, value: Array) -> Array:
    """Return the matrix of cofactors, transposed: `det(x) inv(x)`, or by the SVD where det is 0."""
    singular = lax.eq(value, lax.full_like(value, 0))
    outer = tuple(range(x.ndim - 2))
    wide = lax.broadcast_in_dim(singular, x.shape, outer)
    identity = broadcast_array(eye(x.shape[-1], dtype=x.dtype), x.shape)
    regular = lax.mul(
        inv(lax.select(wide, identity, x)), lax.broadcast_in_dim(value, x.shape, outer)
    )
    return lax.select(wide, _singular_adjugate(lax.stop_gradient(x)), regular)


def _singular_adjugate(x: Array) -> Array:
    u, s, vh = lax.linalg.svd(x, full_matrices=True, compute_uv=True)
    size = s.shape[-1]
    others = []
    for i in range(size):  # the product of all singular values but one
        left = lax.slice_in_dim(s, 0, i, axis=s.ndim - 1)
        right = lax.slice_in_dim(s, i + 1, size, axis=s.ndim - 1)
        rest = lax.concatenate([left, right], s.ndim - 1)
        others.append(lax.expand_dims(lax.reduce_prod(rest, (s.ndim - 1,)), (s.ndim - 1,)))
    products = convert(lax.concatenate(others, s.ndim - 1), x.dtype)
    outer = tuple(range(s.ndim - 1))
    scaled = lax.mul(adjoint(vh), lax.broadcast_in_dim(products, x.shape, (*outer, s.ndim)))
    turn = _conjugated(lax.mul(_lu_det(u), _lu_det(vh)))
    return lax.mul(matmul(scaled, adjoint(u)), lax.broadcast_in_dim(turn, x.shape, outer))


def _conjugated(x: Array) -> Array:
    return lax.conj(x) if dtypes.issubdtype(x.dtype, np.complexfloating) else x


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """Return the sign of the determinant, and the logarithm of its absolute value.

    `method` is "lu" (default) or "qr".
    """
    x = square_matrix("slogdet", a)
    x = convert(x, x.dtype)
    if method not in (None, "lu", "qr"):
        raise ValueError(
            f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`), and 'qr'."
        )
    if x.shape[-1] == 0:
        real = dtypes.finfo(x.dtype).dtype
        return SlogdetResult(lax.full(x.shape[:-2], 1, x.dtype), lax.full(x.shape[:-2], 0, real))
    if method == "qr":
        return SlogdetResult(*_slogdet_by_qr(x))
    return SlogdetResult(*_slogdet(x))


@custom_jvp
def _slogdet(x: Array) -> tuple[Array, Array]:
    factors, pivots, _ = lax.linalg.lu(x)
    sign, logarithm = _sign_and_log(diagonal(factors, axis1=-2, axis2=-1))
    odd = _permutation_sign(pivots)
    return lax.select(lax.eq(odd, lax.full_like(odd, 1)), lax.neg(sign), sign), logarithm


def _sign_and_log(entries: Array) -> tuple[Array, Array]:
    sign = prod(lax.sign(entries), axis=-1)
    logarithm = sum_(lax.log(lax.abs(entries)), axis=-1)
    return sign, logarithm


@_slogdet.defjvp
def _slogdet_jvp(
    primals: tuple[Array], tangents: tuple[Array]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    (x,), (tangent,) = primals, tangents
    sign, logarithm = _slogdet(x)
    change = solve_matrix(x, tangent)
    total = sum_(diagonal(change, axis1=-2, axis2=-1), axis=-1)
    if not dtypes.issubdtype(x.dtype, np.complexfloating):
        return (sign, logarithm), (lax.full_like(sign, 0), total)
    turn = lax.complex(lax.full_like(lax.imag(total), 0), lax.imag(total))
    return (sign, logarithm), (lax.mul(turn, sign), lax.real(total))


def _slogdet_by_qr(x: Array) -> tuple[Array, Array]:
    q, r = lax.linalg.qr(x, full_matrices=True)
    sign, logarithm = _sign_and_log(diagonal(r, axis1=-2, axis2=-1))
    return multiply(sign, _lu_det(q)), logarithm


# --------------------------------------------------------------------------- rank, pseudo-inverse


def _default_cutoff(x: Array) -> float:
    rows, columns = x.shape[-2:]
    return 10.0 * max(rows, columns) * float(dtypes.finfo(x.dtype).eps)


def pinv(
    a: ArrayLike,
    rtol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rcond: ArrayLike | None = None,
) -> Array:
    """Return the pseudo-inverse; singular values below `rtol` times the largest count as zero."""
    x = inexact_matrix("pinv", a)
    x = convert(x, x.dtype)
    if rcond is not None:
        if rtol is not None:
            raise ValueError("pinv: only one of rtol and rcond may be specified.")
        rtol = rcond
    if 0 in x.shape[-2:]:
        return lax.full((*x.shape[:-2], x.shape[-1], x.shape[-2]), 0, x.dtype)
    cutoff = to_array(_default_cutoff(x) if rtol is None else rtol)
    return _pinv(x, lax.stop_gradient(cutoff), hermitian)


def _pinv(x: Array, rtol: Array, hermitian: bool) -> Array:
    @custom_jvp
    def inverse(x: Array) -> Array:
        u, s, vh = svd(x, full_matrices=False, hermitian=hermitian)
        limit = _wide_cutoff(rtol, s)
        kept = lax.gt(s, limit)
        safe = lax.select(kept, s, lax.full_like(s, 1))
        factors = lax.select(kept, lax.div(lax.full_like(s, 1), safe), lax.full_like(s, 0))
        outer = tuple(range(s.ndim - 1))
        v = adjoint(vh)
        scaled = lax.mul(
            v, lax.broadcast_in_dim(convert(factors, v.dtype), v.shape, (*outer, s.ndim))
        )
        return matmul(scaled, adjoint(u))

    @inverse.defjvp
    def inverse_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (x,), (tangent,) = primals, tangents
        p = inverse(x)
        change = lax.neg(matmul(matmul(p, tangent), p))
        turned = adjoint(tangent)
        identity = broadcast_array(
            eye(x.shape[-2], dtype=x.dtype), (*x.shape[:-2], x.shape[-2], x.shape[-2])
        )
        left = matmul(matmul(matmul(p, adjoint(p)), turned), lax.sub(identity, matmul(x, p)))
        identity = broadcast_array(
            eye(x.shape[-1], dtype=x.dtype), (*x.shape[:-2], x.shape[-1], x.shape[-1])
        )
        right = matmul(matmul(lax.sub(identity, matmul(p, x)), turned), matmul(adjoint(p), p))
        return p, lax.add(change, lax.add(left, right))

    return inverse(x)


def _wide_cutoff(rtol: Array, s: Array) -> Array:
    """Return the cutoff next to each singular value."""
    relative = convert(rtol, s.dtype)
    if relative.ndim:
        relative = lax.expand_dims(relative, (relative.ndim,))
    largest = max_(s, axis=-1, keepdims=True)
    return broadcast_array(multiply(relative, largest), s.shape)


def matrix_rank(
    M: ArrayLike, rtol: ArrayLike | None = None, *, hermitian: bool = False, tol: Any = None
) -> Array:
    """Count the singular values above `rtol` times the largest."""
    x = as_matrix_for_rank(M)
    if rtol is None:
        rtol = tol
    dtype = dtypes.default_int_dtype()
    if x.ndim < 2:
        found = lax.ne(x, lax.full_like(x, 0))
        return lax.convert_element_type(lax.reduce_or(found, tuple(range(x.ndim))), dtype)
    s = lax.abs(eigvalsh(x)) if hermitian else svd(x, full_matrices=False, compute_uv=False)
    if s.shape[-1] == 0:
        return lax.full(s.shape[:-1], 0, dtype)
    if rtol is None:
        relative = to_array(max(x.shape[-2:]) * float(dtypes.finfo(x.dtype).eps))
    else:
        relative = to_array(rtol)
    above = lax.gt(s, _wide_cutoff(relative, s))
    return lax.reduce_sum(lax.convert_element_type(above, dtype), (s.ndim - 1,))


def as_matrix_for_rank(M: ArrayLike) -> Array:
    """Check and convert the argument of `matrix_rank`, which may be a vector."""
    (x,) = promote_dtypes_inexact(ensure_arraylike("jnp.linalg.matrix_rank", M))
    return convert(x, x.dtype)


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: Any = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """Return the least-squares solution of `a @ x = b`, residuals, rank, singular values."""
    check_arraylike("jnp.linalg.lstsq", a, b)
    x, y = promote_dtypes_inexact(a, b)
    x, y = convert(x, x.dtype), convert(y, y.dtype)
    if x.ndim != 2:
        raise TypeError(f"{x.ndim}-dimensional array given. Array must be two-dimensional")
    if y.ndim not in (1, 2):
        raise TypeError(f"{y.ndim}-dimensional array given. Array must be one or two-dimensional")
    if x.shape[0] != y.shape[0]:
        raise ValueError("Leading dimensions of input arrays must match")
    vector = y.ndim == 1
    y = lax.expand_dims(y, (1,)) if vector else y
    columns = x.shape[1]
    real = dtypes.finfo(x.dtype).dtype
    if 0 in x.shape:
        solution, s = lax.full((columns, y.shape[1]), 0, x.dtype), lax.full((0,), 0, real)
        rank = lax.full((), 0, dtypes.default_int_dtype())
    else:
        solution, rank, s = _least_squares(x, y, rcond)
    residuals = _residuals(x, y, solution, rank, numpy_resid)
    if vector:
        solution = lax.squeeze(solution, (1,))
    return solution, residuals, rank, s


def _least_squares(x: Array, y: Array, rcond: Any) -> tuple[Array, Array, Array]:
    rows, columns = x.shape
    eps = float(dtypes.finfo(x.dtype).eps)
    u, s, vh = svd(x, full_matrices=False)
    if rcond is None:
        cutoff = to_array(eps * max(rows, columns))
    else:
        given = convert(to_array(rcond), s.dtype)
        cutoff = lax.select(
            lax.lt(given, lax.full_like(given, 0)), lax.full_like(given, eps), given
        )
    kept = lax.ge(s, multiply(convert(cutoff, s.dtype), lax.slice_in_dim(s, 0, 1)))
    kept = lax.bitwise_and(kept, lax.gt(s, lax.full_like(s, 0)))
    rank = lax.reduce_sum(lax.convert_element_type(kept, dtypes.default_int_dtype()), (0,))
    safe = lax.select(kept, s, lax.full_like(s, 1))
    factors = lax.select(kept, lax.div(lax.full_like(s, 1), safe), lax.full_like(s, 0))
    projected = matmul(adjoint(u), y)
    scaled = lax.mul(
        projected, lax.broadcast_in_dim(convert(factors, y.dtype), projected.shape, (0,))
    )
    return matmul(adjoint(vh), scaled), rank, s


def _residuals(x: Array, y: Array, solution: Array, rank: Array, numpy_resid: bool) -> Array:
    real = dtypes.finfo(x.dtype).dtype
    if numpy_resid:
        rows, columns = x.shape
        if rows <= columns or int(rank) < columns:
            return lax.full((0,), 0, real)
    distance = lax.abs(lax.sub(y, matmul(x, solution)))
    return lax.reduce_sum(lax.square(distance), (0,))
