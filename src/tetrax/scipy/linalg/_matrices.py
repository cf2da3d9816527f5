"""Matrices of a known form."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax import numpy as jnp
from tetrax.numpy._promote import ensure_arraylike, promote_dtypes


def block_diag(*arrs: Any) -> Any:
    """Return a matrix with the arguments along its diagonal.

    >>> block_diag(np.ones((1, 1), np.float32), np.ones((1, 2), np.float32))
    Array([[1., 0., 0.],
           [0., 1., 1.]], dtype=float32)
    """
    if not arrs:
        return jnp.zeros((1, 0))
    ensure_arraylike("block_diag", *arrs)
    blocks = [jnp.atleast_2d(x) for x in promote_dtypes(*arrs)]
    wrong = [x.shape for x in blocks if x.ndim > 2]
    if wrong:
        raise ValueError(f"Arguments to block_diag must have at most 2 axes, got shapes {wrong}")
    width = sum(x.shape[1] for x in blocks)
    rows, start = [], 0
    for block in blocks:
        rows.append(jnp.pad(block, ((0, 0), (start, width - start - block.shape[1]))))
        start += block.shape[1]
    return jnp.concatenate(rows)


def _along(function: Any, *vectors: Any) -> Any:
    """Apply to the last axis of each, mapping over the axes before it."""
    return jnp.vectorize(function, signature=",".join(["(n)", "(m)"][: len(vectors)]) + "->(n,k)")(
        *vectors
    )


def toeplitz(c: Any, r: Any = None) -> Any:
    """Return the matrix with first column `c` and first row `r` (by default the conjugate of c)."""
    c = jnp.atleast_1d(ensure_arraylike("toeplitz", c))
    r = jnp.conj(c) if r is None else jnp.atleast_1d(ensure_arraylike("toeplitz", r))
    c, r = promote_dtypes(c, r)
    rows, columns = c.shape[-1], r.shape[-1]
    if rows == 0 or columns == 0:
        return jnp.empty((*c.shape[:-1], rows, columns), c.dtype)
    outer = jnp.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    c = jnp.broadcast_to(c, (*outer, rows))
    r = jnp.broadcast_to(r, (*outer, columns))
    line = jnp.concatenate([jnp.flip(c, -1), r[..., 1:]], axis=-1)
    places = np.arange(columns)[None, :] - np.arange(rows)[:, None] + rows - 1
    return line[..., places]


def hankel(c: Any, r: Any = None) -> Any:
    """Return the matrix with first column `c` and last row `r` (by default zeros)."""
    c = jnp.atleast_1d(ensure_arraylike("hankel", c))
    r = jnp.zeros_like(c) if r is None else jnp.atleast_1d(ensure_arraylike("hankel", r))
    c, r = promote_dtypes(c, r)
    line = jnp.concatenate([c, r[..., 1:]], axis=-1)
    places = np.arange(c.shape[-1])[:, None] + np.arange(r.shape[-1])[None, :]
    return line[..., places]


def circulant(c: Any) -> Any:
    """Return the matrix whose columns are `c`, turned one place further each."""
    c = jnp.atleast_1d(ensure_arraylike("circulant", c))
    size = c.shape[-1]
    return c[..., (np.arange(size)[:, None] - np.arange(size)[None, :]) % max(size, 1)]


def companion(a: Any) -> Any:
    """Return the companion matrix of a polynomial, highest power first."""
    a = ensure_arraylike("companion", a)
    if a.ndim < 1 or a.shape[-1] < 2:
        raise ValueError(f"companion: need at least two coefficients, got shape {a.shape}")
    first = -a[..., 1:] / a[..., :1]
    size = first.shape[-1]
    below = jnp.broadcast_to(
        jnp.eye(size - 1, size, dtype=first.dtype), (*a.shape[:-1], size - 1, size)
    )
    return jnp.concatenate([first[..., None, :], below], axis=-2)


def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """Return the matrix that convolves a vector of length `n` with `a`."""
    a = ensure_arraylike("convolution_matrix", a)
    n = operator.index(n)
    if n <= 0:
        raise ValueError("n must be a positive integer.")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode must be 'full', 'same' or 'valid', got {mode!r}")
    size = a.shape[-1]
    rows = size + n - 1
    places = np.arange(rows)[:, None] - np.arange(n)[None, :]
    inside = (places >= 0) & (places < size)
    whole = jnp.where(inside, a[..., np.where(inside, places, 0)], 0)
    if mode == "full":
        return whole
    count = max(n, size) if mode == "same" else max(n, size) - min(n, size) + 1
    start = (rows - count) // 2 if mode == "same" else min(n, size) - 1
    return whole[..., start : start + count, :]


def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Any:
    """Return the matrix of the discrete Fourier transform; `scale` is None, "sqrtn" or "n"."""
    factors = {None: 1.0, "sqrtn": 1 / math.sqrt(n) if n else 1.0, "n": 1 / n if n else 1.0}
    if scale not in factors:
        raise ValueError(f"scale must be None, 'sqrtn' or 'n', got {scale!r}")
    turns = np.outer(np.arange(n), np.arange(n)) % max(n, 1)
    values = np.exp(-2j * np.pi * turns / max(n, 1)) * factors[scale]
    kind = dtypes.to_complex_dtype(dtypes.default_float_dtype()) if dtype is None else dtype
    return jnp.asarray(values, dtype=kind)


def fiedler(a: Any) -> Any:
    """Return the matrix of the distances `|a[i] - a[j]|`."""
    a = ensure_arraylike("fiedler", a)
    return jnp.abs(a[..., :, None] - a[..., None, :])


def fiedler_companion(a: Any) -> Any:
    """Return the Fiedler companion matrix of a polynomial, highest power first."""
    a = ensure_arraylike("fiedler_companion", a)
    if a.ndim != 1:
        raise ValueError(f"fiedler_companion: input must be 1-D, got shape {a.shape}")
    if a.size <= 2:
        return -(a / a[0])[1:][:, None] if a.size == 2 else jnp.zeros((0, 0), a.dtype)
    a = a / a[0]
    size = a.size - 1
    c = jnp.zeros((size, size), a.dtype)
    for i in range(0, size - 2, 2):
        c = c.at[i, i + 2].set(1)
    for i in range(3, size, 2):
        c = c.at[i, i - 2].set(1)
    c = c.at[0, 0].set(-a[1]).at[1, 0].set(1)
    for i in range(0, size - 1, 2):
        c = c.at[i, i + 1].set(-a[i + 2])
    for i in range(2, size, 2):
        c = c.at[i, i - 1].set(-a[i + 1])
    return c


def hadamard(n: int, dtype: Any = int) -> Any:
    """Return the Hadamard matrix of a size that is a power of two."""
    if n < 1 or n & (n - 1):
        raise ValueError("n must be an positive integer, and n must be a power of 2")
    bits = np.arange(n)[:, None] & np.arange(n)[None, :]
    odd = np.zeros((n, n), bool)
    for shift in range(n.bit_length()):
        odd ^= ((bits >> shift) & 1).astype(bool)
    return jnp.asarray(np.where(odd, -1, 1), dtype=dtypes.canonicalize_dtype(np.dtype(dtype)))


def helmert(n: int, full: bool = False) -> Any:
    """Return the Helmert matrix: orthonormal rows, the constant one only where `full`."""
    k = np.arange(n)[:, None]
    j = np.arange(n)[None, :]
    rows = np.where(j < k, 1.0, np.where(j == k, -k * 1.0, 0.0))
    rows[0] = 1.0
    rows /= np.sqrt(np.where(k == 0, n, k * (k + 1.0)))
    return jnp.asarray(rows if full else rows[1:])


def hilbert(n: int) -> Any:
    """Return the Hilbert matrix, 1 / (i + j + 1)."""
    places = np.arange(n)
    return jnp.asarray(1.0 / (places[:, None] + places[None, :] + 1))


def invhilbert(n: int) -> Any:
    """Return the inverse of the Hilbert matrix."""
    choose = math.comb
    rows = [
        [
            (-1.0) ** (i + j)
            * (
                (i + j + 1)
                * choose(n + i, n - j - 1)
                * choose(n + j, n - i - 1)
                * choose(i + j, i) ** 2
            )
            for j in range(n)
        ]
        for i in range(n)
    ]
    return jnp.asarray(np.array(rows, np.float64).reshape(n, n))


def _lower_pascal(n: int) -> np.ndarray:
    rows = [[math.comb(i, j) for j in range(n)] for i in range(n)]
    return np.array(rows, np.float64).reshape(n, n)


def pascal(n: int, kind: str | None = None) -> Any:
    """Return binomial coefficients as a "symmetric" (default), "lower" or "upper" matrix."""
    lower = _lower_pascal(n)
    found = {None: lower @ lower.T, "symmetric": lower @ lower.T, "lower": lower, "upper": lower.T}
    if kind not in found:
        raise ValueError(f"Expected kind to be 'symmetric', 'lower' or 'upper'; got {kind!r}")
    return jnp.asarray(found[kind])


def invpascal(n: int, kind: str | None = None) -> Any:
    """Return the inverse of `pascal`."""
    places = np.arange(n)
    lower = _lower_pascal(n) * (-1.0) ** (places[:, None] + places[None, :])
    found = {None: lower.T @ lower, "symmetric": lower.T @ lower, "lower": lower, "upper": lower.T}
    if kind not in found:
        raise ValueError(f"Expected kind to be 'symmetric', 'lower' or 'upper'; got {kind!r}")
    return jnp.asarray(found[kind])


def leslie(f: Any, s: Any) -> Any:
    """Return the matrix of fecundities `f` and survival rates `s`."""
    f, s = promote_dtypes(*ensure_arraylike("leslie", f, s))
    if f.ndim < 1 or s.shape[-1] != f.shape[-1] - 1:
        raise ValueError(f"leslie: s must be one shorter than f, got {s.shape} and {f.shape}")
    size = f.shape[-1]
    whole = jnp.zeros((*f.shape[:-1], size, size), f.dtype).at[..., 0, :].set(f)
    return whole.at[..., np.arange(1, size), np.arange(size - 1)].set(s)
