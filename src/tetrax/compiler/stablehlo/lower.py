"""`lower_program`: a program as the text of a StableHLO module."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax.compiler.stablehlo.base import listed
from tetrax.compiler.stablehlo.linalg import LinalgRules
from tetrax.compiler.stablehlo.products import ProductRules
from tetrax.compiler.stablehlo.random import RandomRules
from tetrax.compiler.stablehlo.reductions import ReductionRules
from tetrax.compiler.stablehlo.running import RunningRules
from tetrax.compiler.stablehlo.special import FormulaRules
from tetrax.ir.atoms import Atom, Literal, Var
from tetrax.ir.control import Branch, HostCall, Inline, Scan, While
from tetrax.ir.program import ClosedProgram, Equation
from tetrax.ir.stablehlo import Handle
from tetrax.ir.types import ShapedArray

_INDEX = np.dtype(np.int64)


class Context(
    ReductionRules,
    RunningRules,
    ProductRules,
    LinalgRules,
    RandomRules,
    FormulaRules,
):
    """What the `stablehlo` rules of operations write with."""

    def program(self, closed: ClosedProgram, operands: Sequence[Handle]) -> list[Handle]:
        program = closed.program
        values: dict[Var, Handle] = dict(zip(program.invars, operands, strict=True))
        for var, value in zip(program.constvars, closed.consts, strict=True):
            values[var] = self.constant(_elements(value), var.aval)
        for eqn in program.eqns:
            operands = [self._read(values, atom) for atom in eqn.invars]
            results = self._equation(eqn, operands)
            for var, result in zip(eqn.outvars, results, strict=True):
                values[var] = result.typed(var.aval)
        return [self._read(values, atom) for atom in program.outvars]

    def _read(self, values: dict[Var, Handle], atom: Atom) -> Handle:
        if isinstance(atom, Literal):
            return self.splat(_elements(atom.val), atom.aval)
        return values[atom]

    def _equation(self, eqn: Equation, operands: list[Handle]) -> list[Handle]:
        primitive = eqn.primitive
        if primitive.structure is not None:
            described = primitive.structure([x.aval for x in operands], **eqn.params)
            return _STRUCTURES[type(described)](self, eqn, described, operands)
        outs = [var.aval for var in eqn.outvars]
        results = primitive.stablehlo(self, operands, outs, **eqn.params)
        return list(results) if isinstance(results, list | tuple) else [results]

    # -- operations that hold programs ---------------------------------------------------------

    def _inline(self, eqn: Equation, described: Inline, operands: list[Handle]) -> list[Handle]:
        if described.barrier and operands:
            operands = listed(self.op("optimization_barrier", operands, [x.aval for x in operands]))
        return self.program(described.program, operands)

    def _branch(self, eqn: Equation, described: Branch, operands: list[Handle]) -> list[Handle]:
        which, *values = operands
        regions = [
            self.region([], lambda _, branch=branch: self.program(branch, values))
            for branch in described.branches
        ]
        return listed(self.op("case", [which], [v.aval for v in eqn.outvars], regions))

    def _while(self, eqn: Equation, described: While, operands: list[Handle]) -> list[Handle]:
        first = described.condition_consts
        last = first + described.body_consts

        def condition(state: list[Handle]) -> Sequence[Handle]:
            return self.program(described.condition, [*state[:first], *state[last:]])

        def body(state: list[Handle]) -> Sequence[Handle]:
            return [*state[:last], *self.program(described.body, state[first:])]

        return self.loop(operands, condition, body)[last:]

    def _scan(self, eqn: Equation, described: Scan, operands: list[Handle]) -> list[Handle]:
        """A while over a counter; stacked results start as zeros."""
        first, last = described.consts, described.consts + described.carry
        stacked = [v.aval for v in eqn.outvars[described.carry :]]
        end = len(operands)
        limit = described.length

        def condition(state: list[Handle]) -> Sequence[Handle]:
            flag = ShapedArray((), np.bool_)
            return [self.compare("LT", [state[0], self.scalar(limit, _INDEX)], [flag])]

        def body(state: list[Handle]) -> Sequence[Handle]:
            counter, inputs, outputs = state[0], state[1 : end + 1], state[end + 1 :]
            place = counter
            if described.reverse:
                place = self.op(
                    "subtract", [self.scalar(limit - 1, _INDEX), counter], [counter.aval]
                )
            rows = [self.stacked_read(x, place) for x in inputs[last:]]
            results = self.program(described.body, [*inputs[:last], *rows])
            written = [
                self.stacked_write(whole, row, place)
                for whole, row in zip(outputs, results[described.carry :], strict=True)
            ]
            following = self.op("add", [counter, self.scalar(1, _INDEX)], [counter.aval])
            carry = results[: described.carry]
            return [following, *inputs[:first], *carry, *inputs[last:], *written]

        zeros = [self.splat(0, aval) for aval in stacked]
        results = self.loop([self.scalar(0, _INDEX), *operands, *zeros], condition, body)
        return [*results[first + 1 : last + 1], *results[end + 1 :]]

    def _host(self, eqn: Equation, described: HostCall, operands: list[Handle]) -> list[Handle]:
        name = _callback_name(described.function)
        line = eqn.source_line()
        raise NotImplementedError(
            f"StableHLO cannot call Python: the program has the callback {name} "
            f"({eqn.primitive.name}{f' at {line}' if line else ''}). Leave it out"
        )


_STRUCTURES: dict[type, Callable[[Context, Equation, Any, list[Handle]], list[Handle]]] = {
    Inline: Context._inline,
    Branch: Context._branch,
    While: Context._while,
    Scan: Context._scan,
    HostCall: Context._host,
}


def _callback_name(function: Any) -> str:
    inner = inspect.unwrap(function)
    return getattr(inner, "__qualname__", None) or repr(inner)


def _elements(value: Any) -> Any:
    """The NumPy array, or number, behind a constant."""
    return getattr(value, "_value", value)


def lower_program(closed: ClosedProgram, name: str = "") -> str:
    """The text of a module whose function `main` is `closed`; it is called `name`, if given.

    Raises MissingRule for operations that StableHLO has nothing for, Python callbacks among them.
    """
    context = Context()
    name = re.sub(r"\W+", "_", name or f"jit_{closed.program.debug_info.function}").strip("_")
    return context.function(name, closed.in_avals, lambda xs: context.program(closed, xs))
