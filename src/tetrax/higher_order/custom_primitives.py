"""The operations behind custom derivative rules: calls that carry a function and its rules.

Outside staging a call hands plain functions from trace to trace; staging writes the function down
as a program and keeps the rules as functions that can be traced again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tetrax.higher_order.call import hoist_consts, program_uses_axis
from tetrax.ir.control import Inline
from tetrax.ir.program import ClosedProgram, Effects
from tetrax.ir.types import ShapedArray
from tetrax.ops.base import instantiate
from tetrax.ops.structure import batch_at, reduce_sum
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import Primitive, as_programs_say
from tetrax.tracing.source import current_source
from tetrax.tracing.staging import StagingTrace, evaluate_closed, stage
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.trace import state
from tetrax.tracing.value import get_aval
from tetrax.transforms.vmap import AxisData


class SymbolicZero:
    """A zero tangent as rules with `symbolic_zeros=True` see it."""

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.str_short()})"

    @staticmethod
    def from_primal_value(x: Any) -> SymbolicZero:
        return SymbolicZero(get_aval(x).to_tangent_aval())


def symbolic_zero(zero: Zero) -> SymbolicZero:
    return SymbolicZero(zero.aval)


class CustomCall(Primitive):
    """What the two calls share once staged: `call_jaxpr` is the function."""

    multiple_results = True

    def shape(self, *avals: ShapedArray, call_jaxpr: ClosedProgram, **params: Any):
        return call_jaxpr.out_avals

    varying = as_programs_say

    def effects(self, *avals: ShapedArray, call_jaxpr: ClosedProgram, **params: Any) -> Effects:
        return call_jaxpr.effects

    def structure(self, avals: Sequence[ShapedArray], *, call_jaxpr: ClosedProgram, **params: Any):
        return Inline(call_jaxpr)

    def uses_axis(self, name: Any, params: dict) -> bool:
        closed = params.get("call_jaxpr")
        return name is not None and closed is not None and program_uses_axis(closed, name)

    def record(
        self, trace: StagingTrace, fun: Callable[..., Any], args: Sequence[Any], params: dict
    ) -> tuple[list[Any], Any]:
        """Stage `fun` and write the call down; constants become leading operands."""
        values = [as_value(x) for x in args]
        closed, aux = stage(fun, [get_aval(x) for x in values], trace.debug_info)
        closed, consts = hoist_consts(closed)
        atoms = [trace.atom(x) for x in (*consts, *values)]
        full = {"call_jaxpr": closed, "num_consts": len(consts), **params}
        source = current_source()
        outvars = trace.builder.equation(
            self, atoms, full, closed.out_avals, closed.effects, source
        )
        return trace.wrap(outvars, source, params.get("name", self.name)), aux


class CustomJvpCall(CustomCall):
    """A function with a jvp rule: `jvp(primals, tangents) -> ((outs, tangents), aux)`."""

    def bind(self, fun: Callable, jvp_rule: Callable, *args: Any, **params: Any) -> Any:
        return state.trace.process_custom_jvp(self, fun, jvp_rule, args, params)

    def stage(self, trace, fun, jvp_rule, args, params):
        return self.record(trace, fun, args, {"jvp_jaxpr_fun": jvp_rule, **params})

    def rebind(self, args: Sequence[Any], params: dict) -> list[Any]:
        closed, rule = params["call_jaxpr"], params["jvp_jaxpr_fun"]
        skip = params["num_consts"]
        rest = {k: params[k] for k in ("symbolic_zeros", "name")}
        run = lambda *xs: (evaluate_closed(closed, *xs), None)

        def jvp_rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            return rule(primals[skip:], tangents[skip:])

        return self.bind(run, jvp_rule, *args, **rest)[0]


class CustomVjpCall(CustomCall):
    """A function with fwd and bwd rules.

    `fwd(*args) -> ((outs, residuals), (out_tree, residual_tree))`,
    `bwd(residuals, residual_tree, cotangents, out_tree, in_avals) -> cotangents`.
    """

    def bind(self, fun: Callable, fwd: Callable, bwd: Callable, *args: Any, **params: Any) -> Any:
        return state.trace.process_custom_vjp(self, fun, fwd, bwd, args, params)

    def stage(self, trace, fun, fwd, bwd, args, params):
        return self.record(trace, fun, args, {"fwd_jaxpr_thunk": fwd, "bwd": bwd, **params})

    def rebind(self, args: Sequence[Any], params: dict) -> list[Any]:
        closed, fwd, bwd = params["call_jaxpr"], params["fwd_jaxpr_thunk"], params["bwd"]
        skip = params["num_consts"]
        rest = {k: params[k] for k in ("symbolic_zeros", "name")}
        run = lambda *xs: (evaluate_closed(closed, *xs), None)

        def fwd_rule(*xs: Any) -> Any:
            return fwd(*xs[skip:])

        def bwd_rule(residuals, residual_tree, cts, out_tree, in_avals):
            found = bwd(residuals, residual_tree, cts, out_tree, in_avals[skip:])
            return [*(Zero(a.to_cotangent_aval()) for a in in_avals[:skip]), *found]

        return self.bind(run, fwd_rule, bwd_rule, *args, **rest)[0]

    def linear_from_vjp(self, fwd, bwd, primals, tangents, params):
        """Results by fwd, and tangents that are an equation whose transpose is bwd."""
        (outs, residuals), (out_tree, residual_tree) = fwd(*primals)
        in_avals = [get_aval(p) for p in primals]
        outs = [as_value(x) for x in outs]
        residuals = [as_value(x) for x in residuals]
        out_avals = [get_aval(o).to_tangent_aval() for o in outs]
        given = [instantiate(t) for t in tangents if not _no_tangent(t)]
        has = tuple(not _no_tangent(t) for t in tangents)
        live = [a.dtype.kind != "V" for a in out_avals]
        pushed = iter(
            custom_lin_p.bind(
                *residuals,
                *given,
                bwd=bwd,
                num_res=len(residuals),
                residual_tree=residual_tree,
                out_tree=out_tree,
                in_avals=tuple(in_avals),
                has_tangent=has,
                out_avals=tuple(out_avals),
                symbolic_zeros=params.get("symbolic_zeros", False),
            )
        )
        tangents_out = [
            t if alive else Zero(a) for t, alive, a in zip(pushed, live, out_avals, strict=True)
        ]
        return outs, tangents_out, out_tree

    def batched_rules(self, axis: AxisData, batch: Callable, fun, fwd, bwd, dims):
        """The function and its rules one level down, where values carry the batch axis."""

        def batched_fun(*xs: Any) -> tuple[list[Any], Any]:
            outs, out_dims, aux = batch(fun, axis, xs, dims)
            return outs, (aux, out_dims)

        def batched_fwd(*xs: Any) -> tuple[Any, Any]:
            def flat(*ys: Any) -> tuple[list[Any], Any]:
                (outs, residuals), aux = fwd(*ys)
                return [*outs, *residuals], (len(outs), aux)

            both, both_dims, (count, (out_tree, residual_tree)) = batch(flat, axis, xs, dims)
            extra = (residual_tree, both_dims[count:], both_dims[:count])
            return (both[:count], both[count:]), ((out_tree, both_dims[:count]), extra)

        def batched_bwd(residuals, extra, cts, tagged_tree, in_avals):
            residual_tree, residual_dims, out_dims = extra
            out_tree = tagged_tree[0]
            inner_avals = [
                aval if d is None else aval.update(shape=_without(aval.shape, d))
                for aval, d in zip(in_avals, dims, strict=True)
            ]
            count = len(residuals)
            zero = [type(ct) is Zero for ct in cts]
            given = [ct for ct in cts if type(ct) is not Zero]
            given_dims = [d for d, z in zip(out_dims, zero, strict=True) if not z]

            def flat(*xs: Any) -> tuple[list[Any], Any]:
                rest = iter(xs[count:])
                full = [Zero(ct.aval) if z else next(rest) for ct, z in zip(cts, zero, strict=True)]
                found = bwd(xs[:count], residual_tree, full, out_tree, inner_avals)
                return (
                    [ct for ct in found if type(ct) is not Zero],
                    [type(ct) is Zero for ct in found],
                )

            found, found_dims, zeros = batch(
                flat, axis, [*residuals, *given], [*residual_dims, *given_dims]
            )
            rest = iter(zip(found, found_dims, strict=True))
            results = []
            for is_zero, aval, dim in zip(zeros, in_avals, dims, strict=True):
                if is_zero:
                    results.append(Zero(aval.to_cotangent_aval()))
                else:
                    results.append(_matched_ct(axis, *next(rest), dim))
            return results

        return batched_fun, batched_fwd, batched_bwd


def _matched_ct(axis: AxisData, ct: Any, found: int | None, wanted: int | None) -> Any:
    """A cotangent whose batch axis is that of the operand: moved, repeated or summed."""
    if wanted is None:
        return ct if found is None else reduce_sum(ct, (found,))
    return batch_at(ct, found, axis.size, wanted)


def _without(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return shape[:dim] + shape[dim + 1 :]


def _no_tangent(tangent: Any) -> bool:
    return type(tangent) is Zero and tangent.aval.dtype.kind == "V"


class CustomLin(Primitive):
    """The tangent of a custom_vjp function: unknown until transposed, when bwd runs."""

    multiple_results = True

    def shape(self, *avals: ShapedArray, out_avals: tuple[ShapedArray, ...], **params: Any):
        return list(out_avals)

    varying = as_programs_say

    def transpose(self, cts, *operands, bwd, num_res, residual_tree, out_tree, in_avals, **params):
        residuals = operands[:num_res]
        if not params["symbolic_zeros"]:
            cts = [instantiate(ct) for ct in cts]
        found = bwd(list(residuals), residual_tree, list(cts), out_tree, list(in_avals))
        kept = [ct for ct, has in zip(found, params["has_tangent"], strict=True) if has]
        return [*[None] * num_res, *kept]

    def jvp(self, primals, tangents, **params):
        raise TypeError(_NO_FORWARD)

    def batch_axis(self, axis, operands, dims, **params):
        raise TypeError(_NO_FORWARD)

    def structure(self, avals, **params):
        raise TypeError(_NO_FORWARD)

    def reference(self, *arrays, **params):
        raise TypeError(_NO_FORWARD)


_NO_FORWARD = (
    "can't apply forward-mode differentiation (jvp) to a custom_vjp function. Define the "
    "function with "
    "custom_jvp instead, which serves both modes"
)

custom_jvp_call_p = CustomJvpCall("custom_jvp_call")
custom_vjp_call_p = CustomVjpCall("custom_vjp_call")
custom_lin_p = CustomLin("custom_lin")
