"""Compares an operation with real JAX's: values, dtypes, weak types, derivatives and batching.

A case is a function of `(lax, *arrays)`: it is called with Tetrax's `lax` and with JAX's. Compiled
code is held against the eager call, exactly for integers and data movement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

import numpy as np
import tetrax
from tetrax import lax
from tetrax.transforms.vmap import AxisData, batch

Case = Callable[..., Any]


def check(
    case: Case,
    *args: Any,
    differentiate: Sequence[int] | None = None,
    vmap: bool = True,
    rtol: float = 2e-5,
    atol: float = 1e-6,
) -> None:
    """Run every comparison; `differentiate` are arguments with derivatives (default: floats)."""
    close = _Closeness(rtol, atol)
    mine = lambda *xs: _list(case(lax, *xs))
    theirs = lambda *xs: _list(case(jax.lax, *xs))
    want = theirs(*args)
    eager = mine(*args)
    compiled = tetrax.jit(mine)(*args)
    for x, y, z in zip(eager, compiled, want, strict=True):
        assert x.dtype == z.dtype, (x.dtype, z.dtype)
        assert x.weak_type == z.weak_type, (x.weak_type, z.weak_type)
        assert y.dtype == z.dtype and y.weak_type == z.weak_type
        close(x, z, "eager")
        close(y, z, "compiled")
    if differentiate is None:
        differentiate = [i for i, x in enumerate(args) if np.asarray(x).dtype.kind in "fc"]
    if differentiate:
        check_derivatives(mine, theirs, args, differentiate, close)
    if vmap:
        check_vmap(mine, theirs, args, close)


def check_derivatives(
    mine: Case, theirs: Case, args: Sequence[Any], which: Sequence[int], close: Callable
) -> None:
    """Tangents and cotangents against JAX's, eager and compiled."""
    rng = np.random.default_rng(1)
    chosen = [args[i] for i in which]

    def closed(function: Case) -> Case:
        def run(*xs: Any) -> Any:
            full = list(args)
            for i, x in zip(which, xs, strict=True):
                full[i] = x
            return function(*full)

        return run

    tangents = [_random_like(rng, x) for x in chosen]
    _, want = jax.jvp(closed(theirs), tuple(chosen), tuple(tangents))
    _, got = tetrax.jvp(closed(mine), tuple(chosen), tuple(tangents))
    for x, y in zip(got, want, strict=True):
        close(x, y, "jvp")
    outs, pull = jax.vjp(closed(theirs), *chosen)
    cts = [_random_like(rng, x) for x in outs]
    want = pull(cts)
    _, pull = tetrax.vjp(closed(mine), *chosen)
    for x, y in zip(pull(cts), want, strict=True):
        close(x, y, "vjp")
    run = tetrax.jit(lambda xs, ys: tetrax.vjp(closed(mine), *xs)[1](ys))
    for x, y in zip(run(chosen, cts), want, strict=True):
        close(x, y, "compiled vjp")


def check_vmap(mine: Case, theirs: Case, args: Sequence[Any], close: Callable) -> None:
    """Batches along the first and the last axis of every argument, and of all of them."""
    args = [np.asarray(x) for x in args]
    if not args:
        return
    patterns = [tuple(0 for _ in args), tuple(-1 for _ in args)]
    if len(args) > 1:
        patterns += [
            tuple(0 if i == j else None for j in range(len(args))) for i in range(len(args))
        ]
    rng = np.random.default_rng(2)
    for pattern in patterns:
        batched = [_batch(rng, x, axis) for x, axis in zip(args, pattern, strict=True)]
        want = jax.vmap(theirs, pattern)(*batched)
        got = _vmap(mine, pattern, batched)
        compiled = tetrax.jit(lambda *xs, p=pattern: _vmap(mine, p, xs))(*batched)
        for x, y, z in zip(got, compiled, want, strict=True):
            close(x, z, f"vmap {pattern}")
            close(y, z, f"compiled vmap {pattern}")


def _vmap(function: Case, pattern: Sequence[int | None], args: Sequence[Any]) -> list[Any]:
    ndims = [np.ndim(x) if not hasattr(x, "aval") else x.ndim for x in args]
    dims = [None if d is None else d % n for d, n in zip(pattern, ndims, strict=True)]
    outs, out_dims, _ = batch(lambda *xs: (function(*xs), None), AxisData(None, 3), args, dims)
    moved = []
    for out, dim in zip(outs, out_dims, strict=True):
        if dim is None:
            moved.append(lax.broadcast(out, (3,)))
            continue
        order = [dim, *(i for i in range(out.ndim) if i != dim)]
        moved.append(lax.transpose(out, order))
    return moved


def _batch(rng: Any, x: np.ndarray, axis: int | None) -> np.ndarray:
    """Three different variants of `x` along a new axis."""
    if axis is None:
        return x
    rows = [x]
    for _ in range(2):
        if x.dtype.kind in "fc":
            rows.append((x + _random_like(rng, x)).astype(x.dtype))
        else:
            rows.append(rng.permutation(x.ravel()).reshape(x.shape) if x.ndim else x)
    return np.stack(rows, axis if axis == 0 else x.ndim)


def _random_like(rng: Any, x: Any) -> np.ndarray:
    x = np.asarray(x)
    if x.dtype.kind not in "fcV":
        return np.zeros(x.shape, jax.dtypes.float0)
    value = rng.normal(size=x.shape)
    if x.dtype.kind == "c":
        value = value + 1j * rng.normal(size=x.shape)
    return np.asarray(value).astype(x.dtype)


def _list(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple | list) else [x]


class _Closeness:
    def __init__(self, rtol: float, atol: float) -> None:
        self.rtol, self.atol = rtol, atol

    def __call__(self, got: Any, want: Any, what: str) -> None:
        got, want = np.asarray(got), np.asarray(want)
        assert got.shape == want.shape, (what, got.shape, want.shape)
        assert got.dtype == want.dtype, (what, got.dtype, want.dtype)
        if want.dtype.kind in "fc" and (self.rtol or self.atol):
            np.testing.assert_allclose(
                got, want, rtol=self.rtol, atol=self.atol, err_msg=what, equal_nan=True
            )
        elif want.dtype.kind == "V" and want.dtype.itemsize:
            a, b = got.astype(np.float32), want.astype(np.float32)
            np.testing.assert_allclose(a, b, rtol=max(self.rtol, 2e-2), atol=2e-2, err_msg=what)
        else:
            np.testing.assert_array_equal(got, want, err_msg=what)


def sample(*shape: int, dtype: Any = "float32", seed: int = 0) -> np.ndarray:
    """Reproducible values of any dtype."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)
