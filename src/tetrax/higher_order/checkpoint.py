"""`checkpoint` (remat): recompute instead of store, with policies about what is worth storing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import tree
from tetrax.higher_order.call import hoist_consts, program_uses_axis, spread
from tetrax.ir.control import Inline
from tetrax.ir.layout import pointwise
from tetrax.ir.program import ClosedProgram, Effects, Literal, Program, live_equations
from tetrax.ir.types import ShapedArray
from tetrax.ops.barrier import optimization_barrier_p
from tetrax.ops.base import TestFacts, register
from tetrax.ops.structure import Linear
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import Primitive, as_programs_say
from tetrax.tracing.staging import evaluate_closed, stage
from tetrax.tracing.symbolic import UndefinedPrimal, Zero, is_undefined
from tetrax.tracing.trace import current_trace
from tetrax.tracing.value import get_aval
from tetrax.transforms.flat import debug_info, flatten_function, with_fixed
from tetrax.transforms.jvp import jvp_program
from tetrax.transforms.partial import PartialTrace, partial_eval_program
from tetrax.transforms.transpose import backward_pass
from tetrax.transforms.vmap import AxisData, batch_program

Policy = Callable[..., Any]


class Checkpoint(Primitive):
    """`jaxpr` applied to the operands; differentiated, its intermediate values are recomputed."""

    multiple_results = True

    def shape(self, *avals: ShapedArray, jaxpr: ClosedProgram, **params: Any):
        return jaxpr.out_avals

    varying = as_programs_say

    def effects(self, *avals: ShapedArray, jaxpr: ClosedProgram, **params: Any) -> Effects:
        return jaxpr.effects

    def structure(self, avals, *, jaxpr, differentiated, **params):
        return Inline(_behind_barrier(jaxpr) if differentiated else jaxpr)

    def uses_axis(self, name: Any, params: dict) -> bool:
        return name is not None and program_uses_axis(params["jaxpr"], name)

    def jvp(self, primals, tangents, *, jaxpr, **params):
        nonzero = tuple(type(t) is not Zero for t in tangents)
        made, out_nonzero = jvp_program(jaxpr, nonzero, False)
        given = [t for t in tangents if type(t) is not Zero]
        outs = self.bind(*primals, *given, jaxpr=made, **params)
        count = len(jaxpr.out_avals)
        return outs[:count], spread(outs[count:], out_nonzero, jaxpr.out_avals)

    def batch_axis(self, axis: AxisData, operands, dims, *, jaxpr, **params):
        made, out_dims = batch_program(jaxpr, axis, tuple(dims))
        return self.bind(*operands, jaxpr=made, **params), out_dims

    def partial(self, trace: PartialTrace, args, *, jaxpr, policy, **params):
        """Results known now are computed now; the recorded equation computes the rest from scratch.

        Only operands and what the policy saves cross over.
        """
        unknown = tuple(trace.is_unknown(x) for x in args)
        _, _, out_unknown, _ = partial_eval_program(jaxpr, unknown, False)
        saved_vars = _saved(jaxpr.program, unknown, policy)
        known_args = [x for x, u in zip(args, unknown, strict=True) if not u]
        count = sum(not u for u in out_unknown)
        later, saved_vars = _later_from_saved(jaxpr, out_unknown, saved_vars)
        forward = _known_with_saved(jaxpr, unknown, out_unknown, saved_vars)
        with current_trace(trace.parent):
            results = self.bind(*known_args, jaxpr=forward, policy=policy, **params)
        known_outs, saved = iter(results[:count]), results[count:]
        recorded = iter(
            trace.record(
                self,
                [*args, *saved],
                {"jaxpr": later, "policy": policy, **params, "differentiated": True},
            )
        )
        return [next(recorded) if u else next(known_outs) for u in out_unknown]

    def transpose(self, cts, *operands, jaxpr, policy, **params):
        """Linearise again from the operands, then go backwards, all in one new equation."""
        linear = [is_undefined(x) for x in operands]
        fixed = [x for x in operands if not is_undefined(x)]
        given = [ct for ct in cts if type(ct) is not Zero]
        avals = [get_aval(x) for x in (*fixed, *given)]

        known, later, _, _ = partial_eval_program(jaxpr, tuple(linear), True)
        lin_avals = [x.aval for x, lin in zip(operands, linear, strict=True) if lin]

        def fun(*args: Any) -> tuple[list[Any], list[bool]]:
            residuals = evaluate_closed(known, *args[: len(fixed)])
            rest = iter(args[len(fixed) :])
            full = [*residuals, *(UndefinedPrimal(aval) for aval in lin_avals)]
            full_cts = [ct if type(ct) is Zero else next(rest) for ct in cts]
            results = backward_pass(later.program, later.consts, full, full_cts)
            found = results[len(residuals) :]
            return [r for r in found if type(r) is not Zero], [type(r) is not Zero for r in found]

        closed, has = stage(fun, avals, jaxpr.program.debug_info)
        outs = iter(
            self.bind(
                *fixed, *given, jaxpr=closed, policy=policy, **{**params, "differentiated": True}
            )
        )
        flags = iter(has)
        return [
            (next(outs) if next(flags) else Zero(x.aval.to_cotangent_aval())) if lin else None
            for x, lin in zip(operands, linear, strict=True)
        ]


checkpoint_p = Checkpoint("checkpoint")


@functools.lru_cache(maxsize=512)
def _behind_barrier(closed: ClosedProgram) -> ClosedProgram:
    """The program with its inputs behind a barrier, so that recomputation is not merged away."""

    def fun(*args: Any) -> tuple[list[Any], None]:
        inputs = optimization_barrier_p.bind(*args) if args else []
        return evaluate_closed(closed, *inputs), None

    return stage(fun, closed.in_avals, closed.program.debug_info)[0]


def _saved(program: Program, unknown: Sequence[bool], policy: Policy | None) -> list[Any]:
    """The known variables of the program that the policy wants stored."""
    if policy is None:
        return []
    known = {v for v, u in zip(program.invars, unknown, strict=True) if not u}
    known.update(program.constvars)
    saved: dict[Any, None] = {}
    refused: set[Any] = set()
    for eqn in program.eqns:
        if not all(isinstance(a, Literal) or a in known for a in eqn.invars):
            continue
        known.update(eqn.outvars)
        verdict = policy(eqn.primitive, *[a.aval for a in eqn.invars], **eqn.params)
        if verdict is True:
            saved.update(dict.fromkeys(eqn.outvars))
        elif isinstance(verdict, Refused):
            # The value is the same under its name: refusing the name refuses the value.
            refused.update(a for a in eqn.invars if not isinstance(a, Literal))
    return [var for var in saved if var not in refused]


def _known_with_saved(
    closed: ClosedProgram, unknown: Sequence[bool], out_unknown: Sequence[bool], saved: list[Any]
) -> ClosedProgram:
    """Known inputs to (known results, saved values)."""
    program = closed.program
    outvars = [v for v, u in zip(program.outvars, out_unknown, strict=True) if not u]
    needed = program.replace(outvars=[*outvars, *saved])
    made, _, _, _ = partial_eval_program(
        ClosedProgram(needed, closed.consts), tuple(unknown), False
    )
    count = len(outvars) + len(saved)
    trimmed = made.program.replace(outvars=made.program.outvars[:count])
    return ClosedProgram(trimmed, made.consts)


def _later_from_saved(
    closed: ClosedProgram, out_unknown: Sequence[bool], saved: list[Any]
) -> tuple[ClosedProgram, list[Any]]:
    """(all inputs, saved values) to the unknown results, and the saved values that it needs.

    Saved values are not computed again.
    """
    program = closed.program
    stored = set(saved)
    outvars = [v for v, u in zip(program.outvars, out_unknown, strict=True) if u]
    eqns = [e for e in program.eqns if not all(v in stored for v in e.outvars)]
    eqns = live_equations(eqns, outvars)
    read = {a for e in eqns for a in e.invars if not isinstance(a, Literal)}
    needed = [v for v in saved if v in read]
    invars = [*program.invars, *needed]
    return ClosedProgram(
        program.replace(invars=invars, eqns=eqns, outvars=outvars), closed.consts
    ), needed


# -- names -----------------------------------------------------------------------------------------


class Name(Linear):
    """The identity; `name` is what policies speak of."""

    def shape(self, x, *, name):
        return x

    def factors(self, avals, outs, params):
        return pointwise(avals, outs)

    def reference(self, x, *, name):
        return x

    def transpose(self, ct, x, *, name):
        return [ct]

    def batch(self, operands, dims, *, name):
        return self.bind(operands[0], name=name), dims[0]

    def kernel(self, operands, outs, *, name):
        return operands[0]

    def stablehlo(self, context, operands, outs, *, name):
        return list(operands)


name_p = register(
    Name("name"),
    TestFacts(ulp=0, samples=lambda: [([ShapedArray((3,), np.float32)], {"name": "block"})]),
)


def checkpoint_name(x: Any, name: str) -> Any:
    """`x` itself, known to checkpoint policies as `name`."""
    return tree.map(lambda leaf: name_p.bind(as_value(leaf), name=name), x)


# -- policies --------------------------------------------------------------------------------------


class Refused:
    """A verdict of a policy about a named value: not stored, under whatever name."""

    def __bool__(self) -> bool:
        return False


class CheckpointPolicies:
    """The policies of `tetrax.checkpoint_policies`."""

    @staticmethod
    def everything_saveable(primitive: Any, *args: Any, **params: Any) -> bool:
        return True

    @staticmethod
    def nothing_saveable(primitive: Any, *args: Any, **params: Any) -> bool:
        return False

    @staticmethod
    def dots_saveable(primitive: Any, *args: Any, **params: Any) -> bool:
        return primitive.name in ("dot_general", "conv_general_dilated")

    checkpoint_dots = dots_saveable

    @staticmethod
    def dots_with_no_batch_dims_saveable(primitive: Any, *args: Any, **params: Any) -> bool:
        if primitive.name != "dot_general":
            return False
        return not params["dimension_numbers"][1][0]

    checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable

    @staticmethod
    def save_any_names_but_these(*names: str) -> Policy:
        hidden = set(names)
        return lambda primitive, *args, **params: (
            primitive.name == "name" and params["name"] not in hidden
        )

    @staticmethod
    def save_only_these_names(*names: str) -> Policy:
        shown = set(names)
        return lambda primitive, *args, **params: (
            primitive.name == "name" and params["name"] in shown
        )

    @staticmethod
    def save_anything_except_these_names(*names: str) -> Policy:
        hidden = set(names)
        return lambda primitive, *args, **params: (
            Refused() if primitive.name == "name" and params["name"] in hidden else True
        )

    @staticmethod
    def save_from_both_policies(first: Policy, second: Policy) -> Policy:
        return lambda primitive, *args, **params: (
            first(primitive, *args, **params) or second(primitive, *args, **params)
        )

    @staticmethod
    def save_and_offload_only_these_names(
        *,
        names_which_can_be_saved: Sequence[str],
        names_which_can_be_offloaded: Sequence[str],
        offload_src: str,
        offload_dst: str,
    ) -> Policy:
        kept = {*names_which_can_be_saved, *names_which_can_be_offloaded}
        return lambda primitive, *args, **params: (
            primitive.name == "name" and params["name"] in kept
        )

    @staticmethod
    def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
        return CheckpointPolicies.dots_with_no_batch_dims_saveable


checkpoint_policies = CheckpointPolicies()


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    concrete: bool = False,
) -> Any:
    """`fun`, whose intermediate values are recomputed when it is differentiated.

    `policy(primitive, *avals, **params)` says which values are stored all the same.

    >>> checkpoint(lambda x: x + x)(2.0)
    Array(4., dtype=float32, weak_type=True)
    """
    if fun is None:
        return functools.partial(
            checkpoint, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums
        )
    statics = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        fixed = {n % len(args) for n in statics if -len(args) <= n < len(args)}
        positions = [i for i in range(len(args)) if i not in fixed]
        dynamic = tuple(args[i] for i in positions)
        partial_fun = with_fixed(fun, args, positions)
        leaves, in_tree = tree.flatten((dynamic, kwargs))
        leaves = [as_value(x) for x in leaves]
        closed, out_tree = stage(
            flatten_function(partial_fun, in_tree),
            [get_aval(x) for x in leaves],
            debug_info(fun, dynamic, kwargs),
        )
        closed, consts = hoist_consts(closed)
        outs = checkpoint_p.bind(
            *consts,
            *leaves,
            jaxpr=closed,
            prevent_cse=prevent_cse,
            policy=policy,
            differentiated=False,
        )
        return tree.unflatten(out_tree, outs)

    return wrapped


remat = checkpoint
