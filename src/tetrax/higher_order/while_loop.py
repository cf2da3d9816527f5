"""`while_loop` and `fori_loop`; reverse mode where a bound on the number of steps is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, tree
from tetrax.config import config
from tetrax.higher_order.call import hoist_consts, program_uses_axis, spread
from tetrax.higher_order.carry import check_same_types, settle_carry
from tetrax.higher_order.checkpoint import checkpoint
from tetrax.higher_order.cond import cond, with_weak_types
from tetrax.higher_order.scan import scan
from tetrax.ir.control import While as WhileStructure
from tetrax.ir.program import ClosedProgram, Effects
from tetrax.ops.arithmetic import add
from tetrax.ops.base import instantiate
from tetrax.ops.bits_and_compare import lt
from tetrax.ops.collective import pvary_p
from tetrax.ops.reduce import reduce_or
from tetrax.ops.select import select
from tetrax.ops.structure import batch_at, broadcast_in_dim, move_axis
from tetrax.runtime.array import as_value, make_array
from tetrax.tracebacks import boundary
from tetrax.tracing.primitive import Primitive, as_programs_say
from tetrax.tracing.staging import evaluate_closed, stage
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.trace import current_trace, is_concrete
from tetrax.tracing.value import get_aval
from tetrax.transforms.flat import (
    check_argument_leaves,
    debug_info,
    flatten_function,
    function_name,
)
from tetrax.transforms.jvp import jvp_program
from tetrax.transforms.partial import PartialTrace, partial_eval_program
from tetrax.transforms.vmap import AxisData, batch_program


class While(Primitive):
    """Operands are condition constants, body constants, carry; results the last carry."""

    multiple_results = True

    def shape(self, *avals, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, max_steps=None):
        return body_jaxpr.out_avals

    varying = as_programs_say

    def effects(self, *avals: Any, cond_jaxpr, body_jaxpr, **params: Any) -> Effects:
        return cond_jaxpr.effects | body_jaxpr.effects

    def structure(self, avals, *, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, **params):
        return WhileStructure(cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts)

    def uses_axis(self, name: Any, params: dict) -> bool:
        return name is not None and any(
            program_uses_axis(params[key], name) for key in ("cond_jaxpr", "body_jaxpr")
        )

    def jvp(self, primals, tangents, *, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, **rest):
        split = cond_nconsts + body_nconsts
        consts_nonzero = tuple(type(t) is not Zero for t in tangents[cond_nconsts:split])
        carry_nonzero = tuple(type(t) is not Zero for t in tangents[split:])
        carry_nonzero = _grow(
            carry_nonzero, lambda c: jvp_program(body_jaxpr, (*consts_nonzero, *c), c)[1]
        )
        made, _ = jvp_program(body_jaxpr, (*consts_nonzero, *carry_nonzero), carry_nonzero)
        const_t = [t for t in tangents[cond_nconsts:split] if type(t) is not Zero]
        carry_t = [
            instantiate(t) for t, has in zip(tangents[split:], carry_nonzero, strict=True) if has
        ]
        count = len(primals) - split
        # (consts, carry, consts', carry') -> (consts, consts', carry, carry')
        program = made.program
        v = program.invars
        cut = body_nconsts + count
        order = [*v[:body_nconsts], *v[cut : cut + len(const_t)]]
        order += [*v[body_nconsts:cut], *v[cut + len(const_t) :]]
        made = ClosedProgram(program.replace(invars=order), made.consts)
        condition = _ignoring_extra(cond_jaxpr, [get_aval(t) for t in carry_t])
        outs = self.bind(
            *primals[:cond_nconsts],
            *primals[cond_nconsts:split],
            *const_t,
            *primals[split:],
            *carry_t,
            cond_jaxpr=condition,
            body_jaxpr=made,
            cond_nconsts=cond_nconsts,
            body_nconsts=body_nconsts + len(const_t),
            **rest,
        )
        return outs[:count], spread(outs[count:], carry_nonzero, body_jaxpr.out_avals)

    def batch_axis(
        self,
        axis: AxisData,
        operands,
        dims,
        *,
        cond_jaxpr,
        body_jaxpr,
        cond_nconsts,
        body_nconsts,
        **rest,
    ):
        return _batch_while(
            self, axis, operands, dims, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, rest
        )

    def partial(self, trace: PartialTrace, args, **params):
        if params.get("max_steps") is not None:
            return _bounded(args, **params)
        return _partial_while(self, trace, args, **params)

    def transpose(self, cts, *operands, **params):
        raise ValueError(
            "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with "
            "dynamic start/stop values. Try using lax.scan, or using fori_loop with static "
            "start/stop, "
            "or give while_loop a bound on its steps: while_loop(cond, body, init, max_steps=...)"
        )


while_p = While("while")


def _grow(
    start: tuple[bool, ...], step: Callable[[tuple[bool, ...]], Sequence[bool]]
) -> tuple[bool, ...]:
    """Grow flags until a turn of the loop does not change them."""
    carry = start
    while True:
        grown = tuple(a or b for a, b in zip(carry, step(carry), strict=True))
        if grown == carry:
            return carry
        carry = grown


def _ignoring_extra(closed: ClosedProgram, extra: Sequence[Any]) -> ClosedProgram:
    """The program with further inputs that it does not read."""
    count = len(closed.in_avals)
    run = lambda *args: (evaluate_closed(closed, *args[:count]), None)
    return stage(run, [*closed.in_avals, *extra], closed.program.debug_info)[0]


def _batch_while(
    self: While,
    axis: AxisData,
    operands: Sequence[Any],
    dims: Sequence[int | None],
    cond_jaxpr: ClosedProgram,
    body_jaxpr: ClosedProgram,
    cond_nconsts: int,
    body_nconsts: int,
    rest: dict,
) -> tuple[list[Any], list[int | None]]:
    """Every element runs until its own condition fails; finished elements keep their carry."""
    split = cond_nconsts + body_nconsts
    flag = lambda ds: tuple(None if d is None else 0 for d in ds)
    cond_dims, body_dims = flag(dims[:cond_nconsts]), flag(dims[cond_nconsts:split])
    as_dims = lambda c: tuple(0 if x else None for x in c)

    def step(carry: tuple[bool, ...]) -> Sequence[bool]:
        out = batch_program(body_jaxpr, axis, (*body_dims, *as_dims(carry)), carry)[1]
        if batch_program(cond_jaxpr, axis, (*cond_dims, *as_dims(carry)))[1][0] is not None:
            return (True,) * len(carry)
        return [d is not None for d in out]

    carry = _grow(tuple(d is not None for d in dims[split:]), step)
    condition, (pred_dim,) = batch_program(cond_jaxpr, axis, (*cond_dims, *as_dims(carry)))
    body, _ = batch_program(body_jaxpr, axis, (*body_dims, *as_dims(carry)), carry)
    consts = [
        x if d is None else move_axis(x, d, 0)
        for x, d in zip(operands[:split], dims[:split], strict=True)
    ]
    carries = [
        batch_at(x, d, axis.size) if c else x
        for x, d, c in zip(operands[split:], dims[split:], carry, strict=True)
    ]
    if pred_dim is not None:
        condition, body = _until_all_done(condition, body, cond_nconsts, body_nconsts)
        consts = [*consts[:cond_nconsts], *consts]
        body_nconsts += cond_nconsts
    outs = self.bind(
        *consts,
        *carries,
        cond_jaxpr=condition,
        body_jaxpr=body,
        cond_nconsts=cond_nconsts,
        body_nconsts=body_nconsts,
        **rest,
    )
    return outs, list(as_dims(carry))


def _until_all_done(
    condition: ClosedProgram, body: ClosedProgram, cond_nconsts: int, body_nconsts: int
) -> tuple[ClosedProgram, ClosedProgram]:
    """Batched predicate: loop while any holds, change only the elements whose own holds."""

    def any_holds(*args: Any) -> tuple[list[Any], None]:
        return [reduce_or(evaluate_closed(condition, *args)[0], (0,))], None

    def masked(*args: Any) -> tuple[list[Any], None]:
        cond_consts = args[:cond_nconsts]
        body_consts = args[cond_nconsts : cond_nconsts + body_nconsts]
        carry = args[cond_nconsts + body_nconsts :]
        (pred,) = evaluate_closed(condition, *cond_consts, *carry)
        new = evaluate_closed(body, *body_consts, *carry)
        keep = []
        for before, after in zip(carry, new, strict=True):
            mask = broadcast_in_dim(pred, get_aval(after).shape, (0,))
            keep.append(select(mask, after, before))
        return keep, None

    cond_avals = condition.in_avals[:cond_nconsts]
    return (
        stage(any_holds, condition.in_avals, condition.program.debug_info)[0],
        stage(masked, [*cond_avals, *body.in_avals], body.program.debug_info)[0],
    )


def _partial_while(
    self: While,
    trace: PartialTrace,
    args,
    cond_jaxpr,
    body_jaxpr,
    cond_nconsts,
    body_nconsts,
    **rest: Any,
) -> list[Any] | None:
    """Run what is known of the carry now; the recorded loop computes it again beside the rest."""
    split = cond_nconsts + body_nconsts
    unknown = [trace.is_unknown(x) for x in args]
    if any(unknown[:cond_nconsts]):
        return None
    body_unknown = tuple(unknown[cond_nconsts:split])
    carry = _grow(
        tuple(unknown[split:]),
        lambda c: partial_eval_program(body_jaxpr, (*body_unknown, *c), c)[2],
    )
    cond_unknown = (False,) * cond_nconsts + carry
    if partial_eval_program(cond_jaxpr, cond_unknown, False)[2][0] or all(carry):
        return None
    known_body = _known_part(body_jaxpr, (*body_unknown, *carry), carry)
    known_cond = _known_part(cond_jaxpr, cond_unknown, (False,))
    known_consts = [x for x, u in zip(args[:split], unknown[:split], strict=True) if not u]
    known_carry = [x for x, u in zip(args[split:], carry, strict=True) if not u]
    with current_trace(trace.parent):
        known_outs = iter(
            self.bind(
                *known_consts,
                *known_carry,
                cond_jaxpr=known_cond,
                body_jaxpr=known_body,
                cond_nconsts=cond_nconsts,
                body_nconsts=sum(not u for u in body_unknown),
                **rest,
            )
        )
    params = {
        "cond_jaxpr": cond_jaxpr,
        "body_jaxpr": body_jaxpr,
        "cond_nconsts": cond_nconsts,
        "body_nconsts": body_nconsts,
        **rest,
    }
    recorded = trace.record(self, args, params)
    return [out if u else next(known_outs) for out, u in zip(recorded, carry, strict=True)]


def _known_part(
    closed: ClosedProgram, unknown: tuple[bool, ...], instantiate_outs: tuple[bool, ...]
) -> ClosedProgram:
    """The known results of a program, without residuals."""
    known, _, out_unknown, _ = partial_eval_program(closed, unknown, instantiate_outs)
    count = sum(not u for u in out_unknown)
    program = known.program
    return ClosedProgram(program.replace(outvars=program.outvars[:count]), known.consts)


# -- reverse mode ----------------------------------------------------------------------------------


def _bounded(
    args: Sequence[Any],
    cond_jaxpr: ClosedProgram,
    body_jaxpr: ClosedProgram,
    cond_nconsts: int,
    body_nconsts: int,
    max_steps: int,
) -> list[Any]:
    """The loop as nested scans of about sqrt(max_steps) turns, the inner one checkpointed.

    A turn after the condition has failed only costs its branch. Memory is one carry per block and,
    while a block is differentiated, what its turns store.
    """
    split = cond_nconsts + body_nconsts
    cond_consts, body_consts = list(args[:cond_nconsts]), list(args[cond_nconsts:split])
    block = max(1, math.isqrt(max(max_steps - 1, 0)) + 1)
    blocks = -(-max_steps // block)

    def holds(carry: list[Any], step: Any) -> Any:
        (pred,) = evaluate_closed(cond_jaxpr, *cond_consts, *carry)
        return pred & lt(step, np.int32(max_steps))

    def turn(state: Any, _: None) -> tuple[Any, None]:
        carry, step = state
        advance = lambda s: (
            evaluate_closed(body_jaxpr, *body_consts, *s[0]),
            add(s[1], np.int32(1)),
        )
        return cond(holds(carry, step), advance, lambda s: s, (carry, step)), None

    def run_block(state: Any) -> Any:
        return scan(turn, state, None, length=block)[0]

    def outer(state: Any, _: None) -> tuple[Any, None]:
        carry, step = state
        return cond(holds(carry, step), checkpoint(run_block), lambda s: s, state), None

    start = (list(args[split:]), as_value(np.int32(0)))
    (carry, _), _ = scan(outer, start, None, length=blocks)
    return carry


# -- public functions ------------------------------------------------------------------------------


@boundary
def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    *,
    max_steps: int | None = None,
) -> Any:
    """`while cond_fun(x): x = body_fun(x)` from `x = init_val`.

    Differentiable in forward mode; with `max_steps` (a bound; the loop stops there) in reverse mode
    too, with memory for about sqrt(max_steps) carries. Raises TypeError where the condition gives
    no scalar bool or the body changes the carry's types, naming the leaves that differ.

    >>> while_loop(lambda x: x < 10, lambda x: x * 2, 1)
    Array(16, dtype=int32, weak_type=True)
    """
    if not (callable(cond_fun) and callable(body_fun)):
        raise TypeError("lax.while_loop: body_fun and cond_fun arguments should be callable.")
    check_argument_leaves(body_fun, "while_loop", ((init_val,), {}))
    leaves, carry_tree = tree.flatten(init_val)
    leaves = [as_value(x) for x in leaves]
    if config.disable_jit and all(is_concrete(x) for x in leaves):
        return _python_while(cond_fun, body_fun, init_val, max_steps)
    in_tree = tree.structure(((init_val,), {}))

    def trace(carry_avals: Sequence[Any]) -> tuple[ClosedProgram, Any]:
        info = debug_info(body_fun, (init_val,), {})
        return stage(flatten_function(body_fun, in_tree), carry_avals, info)

    body, body_tree, leaves = settle_carry(trace, leaves, lambda found: found == carry_tree)
    avals = [get_aval(x) for x in leaves]
    check_same_types(
        "while_loop body function carry input and carry output must have equal types, but they "
        "differ",
        "the input carry",
        (carry_tree, avals),
        "the output carry",
        (body_tree, body.out_avals),
    )
    condition, cond_tree = stage(
        flatten_function(cond_fun, in_tree), avals, debug_info(cond_fun, (init_val,), {})
    )
    _check_condition(cond_fun, condition, cond_tree)
    varies = condition.out_avals[0].vma
    if any(varies - aval.vma for aval in avals):
        # Devices may stop after different numbers of turns.
        leaves = [pvary_p.bind(x, axes=tuple(varies)) for x in leaves]
        init_val = tree.unflatten(carry_tree, leaves)
        return while_loop(cond_fun, body_fun, init_val, max_steps=max_steps)
    condition, cond_consts = hoist_consts(condition)
    body, body_consts = hoist_consts(with_weak_types(body, [a.weak_type for a in avals]))
    outs = while_p.bind(
        *cond_consts,
        *body_consts,
        *leaves,
        cond_jaxpr=condition,
        body_jaxpr=body,
        cond_nconsts=len(cond_consts),
        body_nconsts=len(body_consts),
        max_steps=max_steps,
    )
    return tree.unflatten(carry_tree, outs)


def _check_condition(cond_fun: Callable[..., Any], condition: ClosedProgram, found: Any) -> None:
    name = function_name(cond_fun)
    if found != tree.structure(0):
        raise TypeError(f"cond_fun {name} must return a boolean scalar, but got pytree {found}.")
    (aval,) = condition.out_avals
    if aval.shape or aval.dtype != np.bool_:
        raise TypeError(
            f"cond_fun {name} must return a boolean scalar, but got output type(s) "
            f"[{aval.str_short()}]."
        )


def _python_while(cond_fun: Callable, body_fun: Callable, value: Any, max_steps: int | None) -> Any:
    steps = 0
    while cond_fun(value) and (max_steps is None or steps < max_steps):
        value = body_fun(value)
        steps += 1
    return value


@boundary
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """`for i in range(lower, upper): x = body_fun(i, x)` from `x = init_val`.

    With bounds known while tracing it is a scan, so reverse mode works.

    >>> fori_loop(0, 5, lambda i, x: x + i, 0)
    Array(10, dtype=int32, weak_type=True)
    """
    if not callable(body_fun):
        raise TypeError("lax.fori_loop: body_fun argument should be callable.")
    for name, bound in (("lower", lower), ("upper", upper)):
        aval = get_aval(bound)
        if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
            raise TypeError(f"{name} must be an integer scalar, got {aval.str_short()}")
    dtype = dtypes.result_type(lower, upper)
    if is_concrete(lower) and is_concrete(upper):
        start, count = int(lower), max(int(upper) - int(lower), 0)
        if config.disable_jit:
            for i in range(start, start + count):
                init_val = body_fun(i, init_val)
            return init_val

        def turn(state: Any, _: None) -> tuple[Any, None]:
            i, x = state
            return (add(i, 1), body_fun(i, x)), None

        first = make_array(np.asarray(start, dtype), weak_type=dtypes.is_weakly_typed(lower))
        turns = max(count, 1) if unroll is True else int(unroll or 1)
        (_, result), _ = scan(turn, (first, init_val), None, length=count, unroll=turns)
        return result
    if unroll is not None:
        raise ValueError(
            "Can only use `unroll` in `fori_loop` if the loop bounds are statically known."
        )
    to_dtype = lambda bound: as_value(bound) if get_aval(bound).dtype == dtype else bound
    lower, upper = to_dtype(lower), to_dtype(upper)

    def body(state: Any) -> Any:
        i, end, x = state
        return add(i, 1), end, body_fun(i, x)

    _, _, result = while_loop(lambda s: lt(s[0], s[1]), body, (lower, upper, init_val))
    return result
