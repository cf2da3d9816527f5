"""Tridiagonal systems of equations."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import errors
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import add, mul, neg
from tetrax.ops.base import TestFacts, add_tangents, register
from tetrax.ops.join import concatenate, pad
from tetrax.ops.linalg.base import (
    Decomposition,
    columns,
    leading,
    move_axis,
    nan_like,
    right_sides_apart,
    routine,
    trailing,
)
from tetrax.ops.linalg.emit import has_no_elements
from tetrax.ops.linalg.general_emit import emit_tridiagonal_solve
from tetrax.ops.structure import full, instantiate, reshape
from tetrax.runtime.array import as_value
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.value import get_aval


class TridiagonalSolve(Decomposition):
    """x with t x = b for the matrix t with diagonals dl, d and du."""

    ranks = (1, 1, 1, 2)

    def results(self, dl, d, du, b, *, perturb_singular):
        if not dl.shape == d.shape == du.shape:
            raise errors.ShapeError(
                "tridiagonal_solve requires that all diagonal arguments have the same shape, got "
                f"{dl.shape}, {d.shape}, {du.shape}"
            )
        if b.shape[0] != d.shape[0]:
            raise errors.ShapeError(
                "tridiagonal_solve requires that the leading ndim-1 dimensions of b equal the "
                f"dimensions of the diagonal arguments, got {b.shape} and {d.shape}"
            )
        return b

    def one(self, dl, d, du, b, *, perturb_singular):
        if b.size == 0:
            return b
        if len(d) == 1:
            return b / d[:, None]
        *_, x, info = routine("gtsv", b.dtype)(dl[1:], d, du[:-1], b)
        return x if info == 0 else nan_like(b)[0]

    def emit(self, builder, operands, outs, *, perturb_singular):
        if not has_no_elements(outs):
            emit_tridiagonal_solve(builder, operands, outs[0])

    def jvp(self, primals, tangents, *, perturb_singular):
        out = self.bind(*primals, perturb_singular=perturb_singular)
        *d_diagonals, rhs = tangents
        if any(type(t) is not Zero for t in d_diagonals):
            dl, d, du = (instantiate(t) for t in d_diagonals)
            moved = _product(dl, d, du, out)
            rhs = add_tangents(rhs, neg(moved))
        if type(rhs) is Zero:
            return out, rhs
        return out, self.bind(*primals[:3], rhs, perturb_singular=perturb_singular)

    def transpose(self, ct, dl, d, du, b, *, perturb_singular):
        if type(ct) is Zero:
            return [None, None, None, Zero(b.aval)]
        zero = full((*d.shape[:-1], 1), 0, d.dtype)
        lower = concatenate([zero, leading(du, -1, du.shape[-1] - 1)], d.ndim - 1)
        upper = concatenate([trailing(dl, -1, 1), zero], d.ndim - 1)
        return [None, None, None, self.bind(lower, d, upper, ct, perturb_singular=perturb_singular)]

    def factors(self, avals, outs, params):
        return right_sides_apart(super().factors(avals, outs, params), True)

    def batch(self, operands, dims, *, perturb_singular):
        if any(dim is not None for dim in dims[:3]):
            return super().batch(operands, dims, perturb_singular=perturb_singular)
        # One matrix for the whole batch: more right-hand sides in one system.
        *diagonals, b = operands
        place = get_aval(b).ndim - 2
        b = move_axis(b, dims[3], place)
        merged = (*b.shape[:place], b.shape[place] * b.shape[place + 1])
        merged = (*b.shape[: place - 1], b.shape[place - 1], b.shape[place] * b.shape[place + 1])
        out = self.bind(*diagonals, reshape(b, merged), perturb_singular=perturb_singular)
        return reshape(out, b.shape), place


def _product(dl: Any, d: Any, du: Any, x: Any) -> Any:
    """The tridiagonal matrix times x."""
    size = x.shape[-2]
    shift = lambda y, low: pad(
        y, np.zeros((), x.dtype), [(0, 0, 0)] * (x.ndim - 2) + [(low, 1 - low, 0), (0, 0, 0)]
    )
    below, above = leading(x, -2, size - 1), trailing(x, -2, 1)
    total = mul(columns(d, x.shape), x)
    total = add(total, shift(mul(columns(trailing(dl, -1, 1), below.shape), below), 1))
    return add(total, shift(mul(columns(leading(du, -1, size - 1), above.shape), above), 0))


def _samples() -> list[tuple[list[ShapedArray], dict]]:
    vector = lambda *shape: ShapedArray(shape, np.float32)
    return [
        ([vector(*batch, 5)] * 3 + [vector(*batch, 5, 2)], {"perturb_singular": False})
        for batch in ((), (2,))
    ]


tridiagonal_solve_p = register(
    TridiagonalSolve("tridiagonal_solve"),
    TestFacts(domain=((0.1, 0.5), (2.0, 3.0), (0.1, 0.5), (-2.0, 2.0)), ulp=64, samples=_samples),
)


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Any:
    """x with t x = b, where t has the diagonals dl, d, du (…, m), and b is (…, m, n).

    The first element of dl and the last of du are not used. Singular systems give NaN.
    """
    if perturb_singular:
        raise NotImplementedError("tridiagonal_solve: perturb_singular=True is not available")
    return tridiagonal_solve_p.bind(
        *(as_value(x) for x in (dl, d, du, b)), perturb_singular=perturb_singular
    )
