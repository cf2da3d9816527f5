"""Forward mode: values travel with their tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tetrax.ir.program import ClosedProgram
from tetrax.ops.base import instantiate
from tetrax.tracing.staging import evaluate_closed, stage
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.trace import Trace, Tracer, current_trace, state
from tetrax.tracing.value import get_aval
from tetrax.transforms.program_cache import cached_on_program


class JVPTracer(Tracer):
    """A primal value with its tangent."""

    __slots__ = ("aval", "primal", "tangent")

    def __init__(self, trace: JVPTrace, primal: Any, tangent: Any) -> None:
        self._trace = trace
        self.primal = primal
        self.tangent = tangent
        self.aval = get_aval(primal)

    def concrete(self) -> Any:
        primal = self.primal
        return primal.concrete() if isinstance(primal, Tracer) else primal

    def describe(self) -> str:
        return f"a value of type {self.aval.str_short()} being differentiated (jvp, grad)"


class JVPTrace(Trace):
    """Applies jvp rules; rules run under the parent trace."""

    __slots__ = ("parent",)

    def __init__(self, parent: Trace) -> None:
        self.parent = parent

    def pair(self, x: Any) -> tuple[Any, Any]:
        """Primal and tangent of `x`; foreign values are constants."""
        if type(x) is JVPTracer and x._trace is self:
            return x.primal, x.tangent
        return x, Zero.from_primal_value(x)

    def wrap(self, primal: Any, tangent: Any) -> Any:
        return primal if type(tangent) is Zero else JVPTracer(self, primal, tangent)

    def process_primitive(self, primitive: Any, args: Sequence[Any], params: dict) -> Any:
        pairs = [self.pair(x) for x in args]
        primals = [primal for primal, _ in pairs]
        tangents = [tangent for _, tangent in pairs]
        parent = self.parent
        with current_trace(parent):
            if all(type(tangent) is Zero for tangent in tangents):
                return parent.process_primitive(primitive, primals, params)
            out, out_tangent = primitive.jvp(primals, tangents, **params)
        if primitive.multiple_results:
            return [self.wrap(p, t) for p, t in zip(out, out_tangent, strict=True)]
        return self.wrap(out, out_tangent)

    def process_custom_jvp(self, primitive, fun, jvp, args, params):
        pairs = [self.pair(x) for x in args]
        primals, tangents = [p for p, _ in pairs], [t for _, t in pairs]
        with current_trace(self.parent):
            if all(type(t) is Zero for t in tangents):
                return self.parent.process_custom_jvp(primitive, fun, jvp, primals, params)
            if not params.get("symbolic_zeros"):
                tangents = [instantiate(t) for t in tangents]
            (outs, out_tangents), aux = jvp(primals, tangents)
        return [self.wrap(p, t) for p, t in zip(outs, out_tangents, strict=True)], aux

    def process_custom_vjp(self, primitive, fun, fwd, bwd, args, params):
        pairs = [self.pair(x) for x in args]
        primals, tangents = [p for p, _ in pairs], [t for _, t in pairs]
        with current_trace(self.parent):
            if all(type(t) is Zero for t in tangents):
                return self.parent.process_custom_vjp(primitive, fun, fwd, bwd, primals, params)
            outs, out_tangents, aux = primitive.linear_from_vjp(fwd, bwd, primals, tangents, params)
        return [self.wrap(p, t) for p, t in zip(outs, out_tangents, strict=True)], aux


def jvp(
    fun: Callable[..., tuple[Sequence[Any], Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any], Any]:
    """Results of `fun` at `primals`, their tangents (maybe symbolic zeros), and its aux."""
    trace = JVPTrace(state.trace)
    with current_trace(trace):
        args = [trace.wrap(p, t) for p, t in zip(primals, tangents, strict=True)]
        outs, aux = fun(*args)
    pairs = [trace.pair(out) for out in outs]
    return [p for p, _ in pairs], [t for _, t in pairs], aux


@cached_on_program
def jvp_program(
    closed: ClosedProgram, nonzero: tuple[bool, ...], instantiate_outs: bool | tuple[bool, ...]
) -> tuple[ClosedProgram, tuple[bool, ...]]:
    """The program of `(primals, nonzero tangents) -> (results, nonzero result tangents)`.

    `instantiate_outs` says which result tangents are given even when they are zero.
    """
    count = len(closed.in_avals)
    if isinstance(instantiate_outs, bool):
        instantiate_outs = (instantiate_outs,) * len(closed.out_avals)

    def fun(*args: Any) -> tuple[list[Any], tuple[bool, ...]]:
        given = iter(args[count:])
        tangents = [
            next(given) if has else Zero(aval.to_tangent_aval())
            for has, aval in zip(nonzero, closed.in_avals, strict=True)
        ]

        def run(*xs):
            return (evaluate_closed(closed, *xs), None)

        outs, out_tangents, _ = jvp(run, args[:count], tangents)
        out_tangents = [
            instantiate(t) if force and _has_tangent(t) else t
            for t, force in zip(out_tangents, instantiate_outs, strict=True)
        ]
        out_nonzero = tuple(type(t) is not Zero for t in out_tangents)
        return [*outs, *(t for t in out_tangents if type(t) is not Zero)], out_nonzero

    tangent_avals = [
        a.to_tangent_aval() for a, has in zip(closed.in_avals, nonzero, strict=True) if has
    ]
    return stage(fun, [*closed.in_avals, *tangent_avals], closed.program.debug_info)


def _has_tangent(tangent: Any) -> bool:
    return type(tangent) is not Zero or tangent.aval.dtype.kind != "V"
