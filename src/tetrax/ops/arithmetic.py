"""Arithmetic on elements: + - * / and what is built of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax.ir import scalar
from tetrax.ops.base import BOOLS, NUMBERS, Elementwise
from tetrax.tracing.symbolic import Zero, is_undefined


def _linear_both(ct: Any, x: Any, y: Any) -> list[Any]:
    return [
        ct if is_undefined(x) else None,
        ct if is_undefined(y) else None,
    ]


add_p = Elementwise(
    "add",
    2,
    accepts=NUMBERS,
    scalar=scalar.add,
    reference=np.add,
    derivative=(lambda t, out, x, y: t, lambda t, out, x, y: t),
    transpose=_linear_both,
    stablehlo="add",
)

# The sum of tangents and cotangents; also defined on what is not a number to the user.
add_any_p = Elementwise(
    "add_any",
    2,
    accepts=NUMBERS + BOOLS,
    scalar=scalar.add,
    reference=np.add,
    derivative=(lambda t, out, x, y: t, lambda t, out, x, y: t),
    transpose=_linear_both,
    stablehlo="add",
)


def _sub_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    if type(ct) is Zero:
        return [ct if is_undefined(x) else None, ct if is_undefined(y) else None]
    return [ct if is_undefined(x) else None, neg(ct) if is_undefined(y) else None]


sub_p = Elementwise(
    "sub",
    2,
    accepts=NUMBERS,
    scalar=scalar.sub,
    reference=np.subtract,
    derivative=(lambda t, out, x, y: t, lambda t, out, x, y: neg(t)),
    transpose=_sub_transpose,
    stablehlo="subtract",
)

neg_p = Elementwise(
    "neg",
    1,
    accepts=NUMBERS,
    scalar=scalar.neg,
    reference=np.negative,
    derivative=(lambda t, out, x: neg(t),),
    transpose=lambda ct, x: [ct if type(ct) is Zero else neg(ct)],
    stablehlo="negate",
)


def _mul_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    if type(ct) is Zero:
        return [
            Zero(x.aval) if is_undefined(x) else None,
            Zero(y.aval) if is_undefined(y) else None,
        ]
    if is_undefined(x):
        return [mul(ct, y), None]
    return [None, mul(x, ct)]


mul_p = Elementwise(
    "mul",
    2,
    accepts=NUMBERS,
    scalar=scalar.mul,
    reference=np.multiply,
    derivative=(lambda t, out, x, y: mul(t, y), lambda t, out, x, y: mul(x, t)),
    transpose=_mul_transpose,
    stablehlo="multiply",
)


def add(x: Any, y: Any) -> Any:
    """Elementwise sum of arrays of one dtype and shape (or scalars)."""
    return add_p(x, y)


def sub(x: Any, y: Any) -> Any:
    """Elementwise difference."""
    return sub_p(x, y)


def mul(x: Any, y: Any) -> Any:
    """Elementwise product."""
    return mul_p(x, y)


def neg(x: Any) -> Any:
    """Elementwise negation."""
    return neg_p(x)
