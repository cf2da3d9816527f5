"""Constructors of loads and of loops as expressions; re-exported by `ir/kernel.py`."""

from __future__ import annotations

from collections.abc import Sequence

from tetrax.errors import KernelError
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_expr import Buffer, Expr, ExprLike, FoldShape, make
from tetrax.ir.kernel_operations import add, variable
from tetrax.ir.kernel_statements import failure, index
from tetrax.ir.kernel_types import BOOL


def load(buffer: Buffer, offset: ExprLike) -> Expr:
    """The element of a buffer at an offset counted in elements."""
    return make("load", buffer.element, (index(offset),), buffer)


def fold(
    variables: Sequence[tuple[Expr, ExprLike]],
    accumulators: Sequence[tuple[Expr, Expr, Expr]],
    reassociate: str | None = None,
) -> tuple[Expr, ...]:
    """A loop nest as an expression: the final values of its accumulators.

    Args:
        variables: (loop variable, extent), outermost first.
        accumulators: (variable, initial value, value after one more step); updates may mention loop
            variables, all accumulators (their values before the step) and anything outside.
        reassociate: None for strictly sequential meaning. 'add', 'mul', 'min' or 'max' says that
            the single update is that operation on the accumulator and a value free of it, and that
            its order may be rearranged in a way that depends on the extents only.
    """
    if reassociate is not None and reassociate not in ("add", "mul", "min", "max"):
        raise KernelError(
            f"fold: cannot reassociate {reassociate!r}; use add, mul, min, max or None"
        )
    for accumulator, initial, update in accumulators:
        if not accumulator.type is initial.type is update.type:
            raise failure(
                "fold",
                "accumulator, initial value and update must have one type",
                accumulator,
                initial,
                update,
            )
    shape = FoldShape(
        tuple(v for v, _ in variables), tuple(a for a, _, _ in accumulators), reassociate
    )
    args = (
        *(index(extent) for _, extent in variables),
        *(initial for _, initial, _ in accumulators),
        *(update for _, _, update in accumulators),
    )
    node = make("fold", accumulators[0][0].type, args, shape)
    return tuple(
        make("result", accumulator.type, (node,), i)
        for i, accumulator in enumerate(shape.accumulators)
    )


def reduce_sum(variables: Sequence[tuple[Expr, ExprLike]], value: Expr) -> Expr:
    """Sum of a value over loop variables, in a fixed blocked order."""
    total = variable("sum", value.type)
    return fold(variables, [(total, const(0, value.type), add(total, value))], "add")[0]


def iterate(carried: Sequence[tuple[Expr, Expr, Expr]], condition: Expr) -> tuple[Expr, ...]:
    """A while loop as an expression: `carried` holds (variable, initial value, next value).

    The condition is tested on the variables before each step; the final values are the results.
    """
    if condition.type is not BOOL:
        raise failure("iterate", "the condition must be bool", condition)
    for var, initial, following in carried:
        if not var.type is initial.type is following.type:
            raise failure(
                "iterate",
                "variable, initial and next value must have one type",
                var,
                initial,
                following,
            )
    variables = tuple(var for var, _, _ in carried)
    args = (*(i for _, i, _ in carried), *(n for _, _, n in carried), condition)
    node = make("iterate", variables[0].type, args, variables)
    return tuple(make("result", var.type, (node,), i) for i, var in enumerate(variables))
