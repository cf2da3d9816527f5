"""Scalar arithmetic that also covers complex numbers: what kernel rules compute with.

Every function takes `Expr`s (real scalars) or `Complex` pairs of them and builds expressions; for
real operands it is the function of the same name in `ir/kernel.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tetrax.ir import kernel as k
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_types import BOOL, ScalarType


@dataclass(frozen=True)
class Complex:
    """A complex scalar as two real ones."""

    re: Expr
    im: Expr

    @property
    def type(self) -> ScalarType:
        return self.re.type


# Two operands of one function are of one kind; the kind is checked at run time by the kernel's
# constructors, so binary functions take Any.
Scalar = Expr | Complex


def constant(value: complex | float | int | bool, like: Scalar) -> Scalar:
    """A constant of the type of `like`."""
    if isinstance(like, Complex):
        number = complex(value)
        return Complex(const(number.real, like.type), const(number.imag, like.type))
    return const(value, like.type)


def add(x: Any, y: Any) -> Any:
    if isinstance(x, Complex):
        return Complex(k.add(x.re, y.re), k.add(x.im, y.im))
    return k.add(x, y)


def sub(x: Any, y: Any) -> Any:
    if isinstance(x, Complex):
        return Complex(k.sub(x.re, y.re), k.sub(x.im, y.im))
    return k.sub(x, y)


def mul(x: Any, y: Any) -> Any:
    if isinstance(x, Complex):
        re = k.sub(k.mul(x.re, y.re), k.mul(x.im, y.im))
        im = k.add(k.mul(x.re, y.im), k.mul(x.im, y.re))
        return Complex(re, im)
    return k.mul(x, y)


def neg(x: Scalar) -> Scalar:
    if isinstance(x, Complex):
        return Complex(k.neg(x.re), k.neg(x.im))
    return k.neg(x)


def conj(x: Scalar) -> Scalar:
    return Complex(x.re, k.neg(x.im)) if isinstance(x, Complex) else x


def eq(x: Any, y: Any) -> Expr:
    if isinstance(x, Complex):
        return k.bit_and(k.eq(x.re, y.re), k.eq(x.im, y.im))
    return k.eq(x, y)


def ne(x: Any, y: Any) -> Expr:
    return k.logical_not(eq(x, y)) if isinstance(x, Complex) else k.ne(x, y)


def select(condition: Expr, x: Any, y: Any) -> Any:
    """`x` where `condition` holds, else `y`."""
    if isinstance(x, Complex):
        re = k.select(condition, x.re, y.re)
        return Complex(re, k.select(condition, x.im, y.im))
    return k.select(condition, x, y)


def convert(x: Scalar, to: ScalarType, to_complex: bool = False) -> Scalar:
    """Value conversion; a complex result of a real operand has imaginary part 0.

    A complex operand converted to a real type loses its imaginary part; to bool it is `x != 0`.
    """
    if to_complex:
        if isinstance(x, Complex):
            return Complex(k.convert(x.re, to), k.convert(x.im, to))
        re = k.convert(x, to)
        return Complex(re, const(0, to))
    if isinstance(x, Complex):
        if to is BOOL:
            return ne(x, constant(0, x))
        return k.convert(x.re, to)
    return k.convert(x, to)


def parts_of(x: Scalar) -> tuple[Expr, ...]:
    """The real scalars of `x`, in memory order."""
    return (x.re, x.im) if isinstance(x, Complex) else (x,)


def from_parts(parts: Sequence[Expr]) -> Scalar:
    """The inverse of `parts_of`."""
    return Complex(*parts) if len(parts) == 2 else parts[0]


def reduce_sum(variables: Sequence[tuple[Expr, int]], value: Scalar) -> Scalar:
    """Sum of `value` over loop variables."""
    return from_parts([k.reduce_sum(variables, part) for part in parts_of(value)])


def fold(
    variables: Sequence[tuple[Expr, int]],
    initial: Sequence[Scalar],
    step: Callable[[Sequence[Any]], Sequence[Any]],
    reassociate: str | None = None,
) -> list[Scalar]:
    """A loop nest with accumulators: `step` maps their values before a step to those after it."""
    accumulators = [
        from_parts([k.variable("acc", part.type) for part in parts_of(value)]) for value in initial
    ]
    updates = step(accumulators)
    rows = [
        row
        for value, accumulator, update in zip(initial, accumulators, updates, strict=True)
        for row in zip(parts_of(accumulator), parts_of(value), parts_of(update), strict=True)
    ]
    results = iter(k.fold(variables, [(a, v, u) for a, v, u in rows], reassociate))
    return [from_parts([next(results) for _ in parts_of(value)]) for value in initial]
