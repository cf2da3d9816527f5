"""Partial evaluation: run what is known now, write down what depends on unknown values.

`linearize` is forward mode over partial evaluation: primal values are known, tangents are not, so
what is written down is the linear map from tangents to tangents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tetrax import dtypes
from tetrax.ir.program import ClosedProgram, DebugInfo, Program, Var, live_equations
from tetrax.ir.types import ShapedArray
from tetrax.tracing.source import current_source
from tetrax.tracing.staging import ProgramBuilder, evaluate_closed, stage
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.trace import Trace, Tracer, current_trace, state
from tetrax.tracing.value import get_aval
from tetrax.transforms.jvp import JVPTrace
from tetrax.transforms.program_cache import cached_on_program


class PartialTracer(Tracer):
    """A value that is not known yet: a variable of the program being written."""

    __slots__ = ("_var", "aval")

    def __init__(self, trace: PartialTrace, var: Var) -> None:
        self._trace = trace
        self._var = var
        self.aval = var.aval

    def describe(self) -> str:
        return f"a tangent of type {self.aval.str_short()}, unknown while linearizing (grad, vjp)"


class PartialTrace(Trace):
    """Operations on known values go to the parent; the others are written down."""

    __slots__ = ("builder", "parent")

    def __init__(self, parent: Trace) -> None:
        self.parent = parent
        self.builder = ProgramBuilder()

    def argument(self, aval: ShapedArray) -> PartialTracer:
        var = Var(aval)
        self.builder.invars.append(var)
        return PartialTracer(self, var)

    def is_unknown(self, x: Any) -> bool:
        return type(x) is PartialTracer and x._trace is self

    def atom(self, x: Any) -> Any:
        return x._var if self.is_unknown(x) else self.builder.constant(x)

    def process_primitive(self, primitive: Any, args: Sequence[Any], params: dict) -> Any:
        if not any(self.is_unknown(x) for x in args):
            with current_trace(self.parent):
                return self.parent.process_primitive(primitive, args, params)
        if primitive.partial is not None:
            outs = primitive.partial(self, args, **params)
            if outs is not None:
                return outs
        return self.record(primitive, args, params)

    def record(self, primitive: Any, args: Sequence[Any], params: dict) -> Any:
        """Write the operation down; known operands become residuals."""
        atoms = [self.atom(x) for x in args]
        avals = [atom.aval for atom in atoms]
        out_avals = primitive.out_avals(avals, params)
        effects = primitive.effects(*avals, **params)
        outvars = self.builder.equation(
            primitive, atoms, params, out_avals, effects, current_source()
        )
        outs = [PartialTracer(self, var) for var in outvars]
        return outs if primitive.multiple_results else outs[0]

    def process_custom_jvp(self, primitive, fun, jvp, args, params):
        if any(self.is_unknown(x) for x in args):
            return fun(*args)
        with current_trace(self.parent):
            return self.parent.process_custom_jvp(primitive, fun, jvp, args, params)

    def process_custom_vjp(self, primitive, fun, fwd, bwd, args, params):
        if any(self.is_unknown(x) for x in args):
            return fun(*args)
        with current_trace(self.parent):
            return self.parent.process_custom_vjp(primitive, fun, fwd, bwd, args, params)

    def build(self, outs: Sequence[Any], name: str = "linear") -> ClosedProgram:
        """The program of the unknown `outs`; its constants are the residuals."""
        outvars = [self.atom(x) for x in outs]
        live = live_equations(self.builder.eqns, outvars)
        self.builder.eqns = live
        return self.builder.build(outvars, DebugInfo(name))


def linearize(
    fun: Callable[..., tuple[Sequence[Any], Any]],
    primals: Sequence[Any],
    differentiable: Sequence[bool] | None = None,
) -> tuple[list[Any], ClosedProgram, list[bool], Any]:
    """Results of `fun` at `primals`, its linear map, which results it covers, and the aux.

    The linear program takes one tangent per differentiable primal of inexact dtype and gives one
    per result that depends on them.
    """
    partial = PartialTrace(state.trace)
    forward = JVPTrace(partial)
    tangents = []
    for i, primal in enumerate(primals):
        aval = get_aval(primal).to_tangent_aval()
        skip = aval.dtype == dtypes.float0 or (differentiable and not differentiable[i])
        tangents.append(Zero(aval) if skip else partial.argument(aval))
    with current_trace(forward):
        args = [forward.wrap(p, t) for p, t in zip(primals, tangents, strict=True)]
        outs, aux = fun(*args)
    pairs = [forward.pair(out) for out in outs]
    covered = [type(t) is not Zero for _, t in pairs]
    program = partial.build([t for _, t in pairs if type(t) is not Zero])
    return [p for p, _ in pairs], program, covered, aux


@cached_on_program
def partial_eval_program(
    closed: ClosedProgram, unknown: tuple[bool, ...], instantiate: tuple[bool, ...] | bool
) -> tuple[ClosedProgram, ClosedProgram, tuple[bool, ...], list[ShapedArray]]:
    """Split a program by which inputs are unknown.

    Returns `known: known inputs -> (known results, residuals)`, `later: (residuals, unknown
    inputs) -> unknown results`, which results are unknown, and the residuals' types.
    `instantiate` forces results into the later program.
    """
    if isinstance(instantiate, bool):
        instantiate = (instantiate,) * len(closed.out_avals)
    known_avals = [a for a, u in zip(closed.in_avals, unknown, strict=True) if not u]

    def known_fun(*known_args: Any) -> tuple[list[Any], Any]:
        trace = PartialTrace(state.trace)
        given = iter(known_args)
        args = [
            trace.argument(aval) if is_unknown else next(given)
            for aval, is_unknown in zip(closed.in_avals, unknown, strict=True)
        ]
        with current_trace(trace):
            outs = evaluate_closed(closed, *args)
        out_unknown = tuple(
            trace.is_unknown(out) or force for out, force in zip(outs, instantiate, strict=True)
        )
        later = trace.build([out for out, u in zip(outs, out_unknown, strict=True) if u], "later")
        known_outs = [out for out, u in zip(outs, out_unknown, strict=True) if not u]
        return [*known_outs, *later.consts], (later.program, out_unknown)

    known, (later, out_unknown) = stage(known_fun, known_avals, closed.program.debug_info)
    residual_avals = [var.aval for var in later.constvars]
    return known, constants_as_inputs(later), out_unknown, residual_avals


def constants_as_inputs(program: Program) -> ClosedProgram:
    """The program with its constant variables as leading inputs."""
    return ClosedProgram(
        program.replace(constvars=[], invars=[*program.constvars, *program.invars]), []
    )
