"""The call operation: a program as one equation. `jit` stages to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tetrax.ir.control import Inline
from tetrax.ir.program import ClosedProgram, Effects
from tetrax.ir.types import ShapedArray
from tetrax.tracing.primitive import Primitive, as_programs_say, rule
from tetrax.tracing.symbolic import Zero, is_undefined
from tetrax.tracing.trace import Tracer, current_trace
from tetrax.transforms.jvp import jvp_program
from tetrax.transforms.partial import PartialTrace, partial_eval_program
from tetrax.transforms.transpose import transpose_program
from tetrax.transforms.vmap import AxisData, batch_program


class Call(Primitive):
    """`jaxpr` applied to the operands; the other parameters are for people and caches."""

    multiple_results = True

    def shape(self, *avals: ShapedArray, jaxpr: ClosedProgram, **params: Any) -> list[ShapedArray]:
        return jaxpr.out_avals

    varying = as_programs_say

    def effects(self, *avals: ShapedArray, jaxpr: ClosedProgram, **params: Any) -> Effects:
        return jaxpr.effects

    def structure(
        self, avals: Sequence[ShapedArray], *, jaxpr: ClosedProgram, **params: Any
    ) -> Any:
        return Inline(jaxpr)

    def jvp(self, primals, tangents, *, jaxpr, **params):
        nonzero = tuple(type(t) is not Zero for t in tangents)
        jvp_closed, out_nonzero = jvp_program(jaxpr, nonzero, False)
        given = [t for t in tangents if type(t) is not Zero]
        outs = self.bind(*primals, *given, jaxpr=jvp_closed, **self._extended(params, len(given)))
        count = len(jaxpr.out_avals)
        return outs[:count], spread(outs[count:], out_nonzero, jaxpr.out_avals)

    def transpose(self, cts, *operands, jaxpr, **params):
        linear = tuple(is_undefined(x) for x in operands)
        nonzero = tuple(type(ct) is not Zero for ct in cts)
        closed, has = transpose_program(jaxpr, linear, nonzero)
        fixed = [x for x in operands if not is_undefined(x)]
        given = [ct for ct in cts if type(ct) is not Zero]
        outs = iter(self.bind(*fixed, *given, jaxpr=closed, **self._undonated(params, closed)))
        flags = iter(has)
        return [
            (next(outs) if next(flags) else Zero(x.aval.to_cotangent_aval()))
            if is_undefined(x)
            else None
            for x in operands
        ]

    @rule
    def batch_axis(self, axis: AxisData, operands, dims, *, jaxpr, **params):
        closed, out_dims = batch_program(jaxpr, axis, tuple(dims))
        return self.bind(*operands, jaxpr=closed, **params), out_dims

    def uses_axis(self, name: Any, params: dict) -> bool:
        return name is not None and program_uses_axis(params["jaxpr"], name)

    def partial(self, trace: PartialTrace, args, *, jaxpr, **params):
        unknown = tuple(trace.is_unknown(x) for x in args)
        known, later, out_unknown, _ = partial_eval_program(jaxpr, unknown, False)
        known_args = [x for x, u in zip(args, unknown, strict=True) if not u]
        with current_trace(trace.parent):
            results = self.bind(*known_args, jaxpr=known, **self._undonated(params, known))
        count = sum(not u for u in out_unknown)
        known_outs, residuals = iter(results[:count]), results[count:]
        unknown_args = [x for x, u in zip(args, unknown, strict=True) if u]
        later_params = {"jaxpr": later, **self._undonated(params, later)}
        later_outs = iter(trace.record(self, [*residuals, *unknown_args], later_params))
        return [next(later_outs) if u else next(known_outs) for u in out_unknown]

    def _extended(self, params: dict, extra: int) -> dict:
        donated = params.get("donated_invars")
        if donated is None:
            return params
        return {**params, "donated_invars": (*donated, *(False,) * extra)}

    def _undonated(self, params: dict, closed: ClosedProgram) -> dict:
        if "donated_invars" not in params:
            return params
        return {**params, "donated_invars": (False,) * len(closed.in_avals)}


def spread(
    given: Sequence[Any], present: Sequence[bool], avals: Sequence[ShapedArray]
) -> list[Any]:
    """Tangents with symbolic zeros put back where `present` says there is none."""
    rest = iter(given)
    return [
        next(rest) if has else Zero(aval.to_tangent_aval())
        for has, aval in zip(present, avals, strict=True)
    ]


def program_uses_axis(closed: ClosedProgram, name: Any) -> bool:
    """Whether an equation of the program works across the mapped axis `name`."""
    return any(eqn.primitive.uses_axis(name, eqn.params) for eqn in closed.eqns)


def hoist_tracers(closed: ClosedProgram) -> tuple[ClosedProgram, list[Any]]:
    """Constants that are tracers of outer transformations become leading operands."""
    lifted = [i for i, c in enumerate(closed.consts) if isinstance(c, Tracer)]
    if not lifted:
        return closed, []
    kept = [i for i in range(len(closed.consts)) if i not in set(lifted)]
    program = closed.program
    invars = [*(program.constvars[i] for i in lifted), *program.invars]
    hoisted = program.replace(constvars=[program.constvars[i] for i in kept], invars=invars)
    return ClosedProgram(hoisted, [closed.consts[i] for i in kept]), [
        closed.consts[i] for i in lifted
    ]


def hoist_consts(closed: ClosedProgram) -> tuple[ClosedProgram, list[Any]]:
    """All constants become leading operands."""
    program = closed.program
    invars = [*program.constvars, *program.invars]
    return ClosedProgram(program.replace(constvars=[], invars=invars), []), list(closed.consts)


call_p = Call("jit")

__all__ = ["Call", "call_p", "hoist_consts", "hoist_tracers", "program_uses_axis", "spread"]
