"""StableHLO of special functions that are given by formulas, in float64 inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax.compiler.stablehlo.elementwise import ElementwiseRules, Outs
from tetrax.ir.stablehlo import Handle, i64_array
from tetrax.ir.types import ShapedArray
from tetrax.ops.formulas import Real

_NAMES = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "pow": "power",
    "neg": "negate",
    "abs": "abs",
    "and": "and",
    "or": "or",
    "not": "not",
    "floor": "floor",
    "sqrt": "sqrt",
    "exp": "exponential",
    "log": "log",
    "log1p": "log_plus_one",
}
_CLIENT_NAMES = ("lgamma", "digamma")
_COMPARISONS = ("lt", "le", "eq")


class HandleBackend:
    """Arrays of the text; loops run until the last element is done, and leave the others alone."""

    def __init__(self, writer: ElementwiseRules) -> None:
        self.writer = writer

    def constant(self, value: float, like: Any) -> Any:
        return self.writer.splat(value, like.aval.update(dtype=np.dtype(np.float64)))

    def apply(self, name: str, *operands: Any) -> Any:
        writer, aval = self.writer, operands[-1].aval
        if name == "select":
            return writer.op("select", operands, [aval])
        if name in _COMPARISONS:
            return writer.compare(name.upper(), operands, [aval.update(dtype=np.dtype(np.bool_))])
        if name in _CLIENT_NAMES:
            return writer.chlo(name, operands, [aval])
        return writer.op(_NAMES[name], operands, [aval])

    def iterate(
        self,
        initial: Sequence[Any],
        condition: Callable[[Sequence[Any]], Any],
        step: Callable[[Sequence[Any]], Sequence[Any]],
    ) -> Sequence[Any]:
        writer = self.writer
        flag = ShapedArray((), np.bool_)

        def unfinished(state: list[Handle]) -> list[Handle]:
            active = condition(state)
            axes = i64_array(range(len(active.shape)))
            either = writer.region([flag, flag], lambda xy: [writer.op("or", xy, [flag])])
            start = writer.scalar(False, np.dtype(np.bool_))
            return [writer.op("reduce", [active, start], [flag], [either], dimensions=axes)]

        def body(state: list[Handle]) -> list[Handle]:
            active = condition(state)
            return [
                writer.op("select", [active, new, old], [old.aval])
                for new, old in zip(step(state), state, strict=True)
            ]

        return writer.loop(list(initial), unfinished, body)


class FormulaRules(ElementwiseRules):
    """Operations of `ops` that are written with `ops.formulas`."""

    def formula(
        self, formula: Callable[..., Real], operands: Sequence[Handle], outs: Outs
    ) -> Handle:
        backend = HandleBackend(self)
        wide = outs[0].update(dtype=np.dtype(np.float64))
        numbers = [Real(backend, self.convert([x], [wide])) for x in operands]
        return self.convert([formula(*numbers).raw], outs)
