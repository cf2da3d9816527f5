"""`scan`: a loop with a carry over stacked inputs, differentiable in both modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import tree
from tetrax.config import config
from tetrax.higher_order.call import hoist_consts, program_uses_axis, spread
from tetrax.higher_order.carry import check_same_types, retyped, settle_carry
from tetrax.higher_order.cond import with_weak_types
from tetrax.ir.control import Scan as ScanStructure
from tetrax.ir.program import ClosedProgram, Effects
from tetrax.ir.types import ShapedArray
from tetrax.ops.base import add_tangents, instantiate
from tetrax.ops.collective import vary_over
from tetrax.ops.join import concatenate
from tetrax.ops.slicing import index_in_dim
from tetrax.ops.structure import batch_at, move_axis, reshape, zeros
from tetrax.runtime.array import as_value
from tetrax.tracebacks import boundary
from tetrax.tracing.primitive import Primitive, as_programs_say
from tetrax.tracing.staging import stage
from tetrax.tracing.symbolic import UndefinedPrimal, Zero, is_undefined
from tetrax.tracing.trace import current_trace
from tetrax.tracing.value import get_aval
from tetrax.transforms.flat import check_argument_leaves, debug_info, flatten_output
from tetrax.transforms.jvp import jvp_program
from tetrax.transforms.partial import PartialTrace, partial_eval_program
from tetrax.transforms.program_cache import cached_on_program
from tetrax.transforms.transpose import backward_pass
from tetrax.transforms.vmap import AxisData, batch_program


class Scan(Primitive):
    """Operands are constants, carry, stacked inputs; results the last carry and stacked outputs."""

    multiple_results = True

    def shape(self, *avals, jaxpr, length, num_consts, num_carry, **params):
        outs = jaxpr.out_avals
        stacked = [a.update(shape=(length, *a.shape)) for a in outs[num_carry:]]
        return [*outs[:num_carry], *stacked]

    varying = as_programs_say

    def effects(self, *avals: ShapedArray, jaxpr: ClosedProgram, **params: Any) -> Effects:
        return jaxpr.effects

    def structure(self, avals, *, jaxpr, length, reverse, num_consts, num_carry, **params):
        return ScanStructure(jaxpr, num_consts, num_carry, length, reverse)

    def uses_axis(self, name: Any, params: dict) -> bool:
        return name is not None and program_uses_axis(params["jaxpr"], name)

    def jvp(self, primals, tangents, *, jaxpr, num_consts, num_carry, **params):
        first, last = num_consts, num_consts + num_carry
        nonzero = [type(t) is not Zero for t in tangents]
        carry_nonzero, out_nonzero = _fixed_point(
            lambda carry: jvp_program(
                jaxpr,
                (*nonzero[:first], *carry, *nonzero[last:]),
                (*carry, *(False,) * (len(jaxpr.out_avals) - num_carry)),
            )[1],
            nonzero[first:last],
            num_carry,
        )
        flags = (*nonzero[:first], *carry_nonzero, *nonzero[last:])
        force = (*carry_nonzero, *(False,) * (len(jaxpr.out_avals) - num_carry))
        made, _ = jvp_program(jaxpr, flags, force)
        pushed = [instantiate(t) if flag else None for t, flag in zip(tangents, flags, strict=True)]
        given = lambda a, b: [t for t in pushed[a:b] if t is not None]
        c_t, k_t, x_t = given(0, first), given(first, last), given(last, len(pushed))
        counts = (first, num_carry, len(primals) - last)
        made = _interleave_inputs(made, counts, (len(c_t), len(k_t), len(x_t)))
        made = _interleave_outputs(made, num_carry, len(k_t), len(jaxpr.out_avals))
        outs = self.bind(
            *primals[:first],
            *c_t,
            *primals[first:last],
            *k_t,
            *primals[last:],
            *x_t,
            jaxpr=made,
            num_consts=first + len(c_t),
            num_carry=num_carry + len(k_t),
            **params,
        )
        return _split_jvp_outputs(outs, num_carry, len(k_t), jaxpr, out_nonzero, params["length"])

    def partial(self, trace: PartialTrace, args, *, jaxpr, num_consts, num_carry, **params):
        return _partial_scan(self, trace, args, jaxpr, num_consts, num_carry, params)

    def transpose(self, cts, *operands, jaxpr, num_consts, num_carry, **params):
        return _transpose_scan(self, cts, operands, jaxpr, num_consts, num_carry, params)

    def batch_axis(self, axis: AxisData, operands, dims, *, jaxpr, num_consts, num_carry, **params):
        first, last = num_consts, num_consts + num_carry
        const_dims = tuple(None if d is None else 0 for d in dims[:first])
        stacked_dims = tuple(None if d is None else 0 for d in dims[last:])
        rest = len(jaxpr.out_avals) - num_carry
        carry, _ = _fixed_point(
            lambda carry: tuple(
                d is not None
                for d in batch_program(
                    jaxpr,
                    axis,
                    (*const_dims, *(0 if c else None for c in carry), *stacked_dims),
                    (*carry, *(False,) * rest),
                )[1]
            ),
            [d is not None for d in dims[first:last]],
            num_carry,
        )
        carry_dims = tuple(0 if c else None for c in carry)
        made, out_dims = batch_program(
            jaxpr, axis, (*const_dims, *carry_dims, *stacked_dims), (*carry, *(False,) * rest)
        )
        consts = [
            x if d is None else move_axis(x, d, 0)
            for x, d in zip(operands[:first], dims[:first], strict=True)
        ]
        carries = [
            batch_at(x, d, axis.size) if c else x
            for x, d, c in zip(operands[first:last], dims[first:last], carry, strict=True)
        ]
        stacked = [
            x if d is None else move_axis(x, d, 1)
            for x, d in zip(operands[last:], dims[last:], strict=True)
        ]
        outs = self.bind(
            *consts,
            *carries,
            *stacked,
            jaxpr=made,
            num_consts=num_consts,
            num_carry=num_carry,
            **params,
        )
        stacked_out = [None if d is None else 1 for d in out_dims[num_carry:]]
        return outs, [*carry_dims, *stacked_out]


scan_p = Scan("scan")


def _fixed_point(
    step: Callable[[tuple[bool, ...]], Sequence[bool]], start: Sequence[bool], count: int
) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Grow the flags of the carry until a turn of the loop does not change them."""
    carry = tuple(start)
    for _ in range(count + 1):
        out = tuple(step(carry))
        grown = tuple(a or b for a, b in zip(carry, out[:count], strict=True))
        if grown == carry:
            return carry, out
        carry = grown
    raise AssertionError("the flags of a loop's carry grow at most once each")


def _interleave_inputs(
    closed: ClosedProgram, counts: tuple[int, int, int], extra: tuple[int, int, int]
) -> ClosedProgram:
    """Reorder (consts, carry, xs, consts', carry', xs') to (consts, consts', carry, carry', …)."""
    program = closed.program
    sections = []
    start, other = 0, sum(counts)
    for count, more in zip(counts, extra, strict=True):
        sections += program.invars[start : start + count] + program.invars[other : other + more]
        start, other = start + count, other + more
    return ClosedProgram(program.replace(invars=sections), closed.consts)


def _interleave_outputs(
    closed: ClosedProgram, num_carry: int, extra_carry: int, count: int
) -> ClosedProgram:
    """Reorder (carry, ys, carry', ys') to (carry, carry', ys, ys')."""
    outs = closed.program.outvars
    split = count + extra_carry
    order = [*outs[:num_carry], *outs[count:split], *outs[num_carry:count], *outs[split:]]
    return ClosedProgram(closed.program.replace(outvars=order), closed.consts)


def _split_jvp_outputs(
    outs: Sequence[Any],
    num_carry: int,
    extra_carry: int,
    jaxpr: ClosedProgram,
    out_nonzero: Sequence[bool],
    length: int,
) -> tuple[list[Any], list[Any]]:
    count = len(jaxpr.out_avals)
    after = num_carry + extra_carry
    ys = after + count - num_carry
    primal_outs = [*outs[:num_carry], *outs[after:ys]]
    tangents = [*outs[num_carry:after], *outs[ys:]]
    avals = [
        *jaxpr.out_avals[:num_carry],
        *(a.update(shape=(length, *a.shape)) for a in jaxpr.out_avals[num_carry:]),
    ]
    return primal_outs, spread(tangents, out_nonzero, avals)


# -- partial evaluation ----------------------------------------------------------------------------


def _partial_scan(
    self: Scan,
    trace: PartialTrace,
    args: Sequence[Any],
    jaxpr: ClosedProgram,
    num_consts: int,
    num_carry: int,
    params: dict,
) -> list[Any]:
    """Run the known part of the loop now, keeping residuals stacked; write the rest down."""
    first, last = num_consts, num_consts + num_carry
    unknown = [trace.is_unknown(x) for x in args]
    rest = len(jaxpr.out_avals) - num_carry

    def flags(carry: Sequence[bool]) -> tuple[bool, ...]:
        return (*unknown[:first], *carry, *unknown[last:])

    carry, out_unknown = _fixed_point(
        lambda c: partial_eval_program(jaxpr, flags(c), (*c, *(False,) * rest))[2],
        unknown[first:last],
        num_carry,
    )
    known, later, out_unknown, residual_avals = partial_eval_program(
        jaxpr, flags(carry), (*carry, *(False,) * rest)
    )
    split = [bool(u) for u in flags(carry)]
    known_args = [x for x, u in zip(args, split, strict=True) if not u]
    known_carry = sum(not c for c in carry)
    known_outs = sum(not u for u in out_unknown)
    with current_trace(trace.parent):
        results = self.bind(
            *known_args,
            jaxpr=known,
            num_consts=sum(not u for u in unknown[:first]),
            num_carry=known_carry,
            **params,
        )
    known_results, residuals = iter(results[:known_outs]), results[known_outs:]
    count = len(residual_avals)
    # Residuals are stacked: in the later loop they come last, as inputs of each turn.
    program = later.program
    invars = [*program.invars[count:], *program.invars[:count]]
    later = ClosedProgram(program.replace(invars=invars), later.consts)
    later_args = [
        x if trace.is_unknown(x) else instantiate(x) for x, u in zip(args, split, strict=True) if u
    ]
    later_params = {
        "jaxpr": later,
        "num_consts": sum(unknown[:first]),
        "num_carry": sum(carry),
        **params,
    }
    recorded = iter(trace.record(self, [*later_args, *residuals], later_params))
    return [next(recorded) if u else next(known_results) for u in out_unknown]


# -- transposition ---------------------------------------------------------------------------------


def _transpose_scan(
    self: Scan,
    cts: Sequence[Any],
    operands: Sequence[Any],
    jaxpr: ClosedProgram,
    num_consts: int,
    num_carry: int,
    params: dict,
) -> list[Any]:
    """The loop backwards: carries are cotangents of the carry and of the linear constants."""
    first, last = num_consts, num_consts + num_carry
    # A carry that starts from a known value (zeros of a tangent that grows in the loop) is linear
    # inside the loop all the same; its initial value just gets no cotangent.
    linear = [is_undefined(x) or first <= i < last for i, x in enumerate(operands)]
    lin_consts = [i for i in range(first) if linear[i]]
    fixed_consts = [i for i in range(first) if not linear[i]]
    lin_xs = [i for i in range(last, len(operands)) if linear[i]]
    fixed_xs = [i for i in range(last, len(operands)) if not linear[i]]
    ys_cts = cts[num_carry:]
    ys_nonzero = tuple(type(ct) is not Zero for ct in ys_cts)
    jaxpr = _with_varying_consts(jaxpr, tuple(lin_consts))
    body = _transposed_body(jaxpr, tuple(linear), num_consts, num_carry, ys_nonzero)
    carry_avals = [_operand_aval(x).to_cotangent_aval() for x in operands[first:last]]
    const_avals = [jaxpr.in_avals[i].to_cotangent_aval() for i in lin_consts]
    start = [vary_over(zeros(a), a.vma) for a in const_avals] + [
        instantiate(ct) if type(ct) is not Zero else zeros(a)
        for ct, a in zip(cts[:num_carry], carry_avals, strict=True)
    ]
    outs = self.bind(
        *[operands[i] for i in fixed_consts],
        *start,
        *[ct for ct in ys_cts if type(ct) is not Zero],
        *[operands[i] for i in fixed_xs],
        jaxpr=body,
        num_consts=len(fixed_consts),
        num_carry=len(start),
        **{**params, "reverse": not params["reverse"]},
    )
    results: list[Any] = [None] * len(operands)
    found = iter(outs)
    for i in (*lin_consts, *range(first, last), *lin_xs):
        value = next(found)
        results[i] = value if is_undefined(operands[i]) else None
    return results


@cached_on_program
def _with_varying_consts(jaxpr: ClosedProgram, consts: tuple[int, ...]) -> ClosedProgram:
    """The body with constants that may differ between devices, if its results allow that.

    Their cotangents are then summed over devices once, after the loop, and not in every turn.
    """
    names = frozenset().union(*(a.vma for a in (*jaxpr.in_avals, *jaxpr.out_avals)))
    avals = list(jaxpr.in_avals)
    for i in consts:
        avals[i] = avals[i].varying(names)
    if avals == jaxpr.in_avals:
        return jaxpr
    found = retyped(jaxpr, avals)
    same = all(a.vma == b.vma for a, b in zip(found.out_avals, jaxpr.out_avals, strict=True))
    return found if same else jaxpr


def _operand_aval(x: Any) -> ShapedArray:
    """The type of a transposed operand, known or not."""
    return x.aval if is_undefined(x) else get_aval(x)


@cached_on_program
def _transposed_body(
    jaxpr: ClosedProgram,
    linear: tuple[bool, ...],
    num_consts: int,
    num_carry: int,
    ys_nonzero: tuple[bool, ...],
) -> ClosedProgram:
    """(fixed consts, ct consts, ct carry, ct ys, fixed xs) -> (ct consts, ct carry, ct xs)."""
    first, last = num_consts, num_consts + num_carry
    avals = jaxpr.in_avals
    lin_consts = [i for i in range(first) if linear[i]]
    fixed_consts = [i for i in range(first) if not linear[i]]
    fixed_xs = [i for i in range(last, len(avals)) if not linear[i]]
    y_avals = jaxpr.out_avals[num_carry:]
    sections = [
        [avals[i] for i in fixed_consts],
        [avals[i].to_cotangent_aval() for i in lin_consts],
        [avals[i].to_cotangent_aval() for i in range(first, last)],
        [a.to_cotangent_aval() for a, has in zip(y_avals, ys_nonzero, strict=True) if has],
        [avals[i] for i in fixed_xs],
    ]
    sizes = np.cumsum([0, *(len(s) for s in sections)])

    def fun(*args: Any) -> tuple[list[Any], None]:
        consts, ct_consts, ct_carry, ct_ys, xs = (
            args[sizes[i] : sizes[i + 1]] for i in range(len(sections))
        )
        values = dict(zip((*fixed_consts, *fixed_xs), (*consts, *xs), strict=True))
        operands = [
            UndefinedPrimal(aval) if linear[i] else values[i] for i, aval in enumerate(avals)
        ]
        given = iter(ct_ys)
        cts = [
            *ct_carry,
            *(
                next(given) if has else Zero(a.to_cotangent_aval())
                for a, has in zip(y_avals, ys_nonzero, strict=True)
            ),
        ]
        results = backward_pass(jaxpr.program, jaxpr.consts, operands, cts)
        new_consts = [
            add_tangents(total, results[i]) for total, i in zip(ct_consts, lin_consts, strict=True)
        ]
        new_carry = [instantiate(results[i]) for i in range(first, last)]
        new_xs = [instantiate(results[i]) for i in range(last, len(avals)) if linear[i]]
        return [*new_consts, *new_carry, *new_xs], None

    return stage(fun, [a for s in sections for a in s], jaxpr.program.debug_info)[0]


# -- the public function ---------------------------------------------------------------------------


@boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """`carry, y = f(carry, x)` for each slice `x` of `xs` along its first axis.

    Returns the last carry and the stacked `y`. `length` is needed where `xs` is None. Raises
    TypeError where `f` gives a carry of another type than it took, naming the leaves that differ.

    >>> scan(lambda c, x: (c + x, c), 0, np.arange(3))[0]
    Array(3, dtype=int32)
    """
    if not callable(f):
        raise TypeError("lax.scan: f argument should be a callable.")
    check_argument_leaves(f, "scan", (init, xs))
    init_leaves, init_tree = tree.flatten(init)
    x_leaves, x_tree = tree.flatten(xs)
    init_leaves = [as_value(x) for x in init_leaves]
    x_leaves = [as_value(x) for x in x_leaves]
    length = _scan_length(xs, x_leaves, length)
    if config.disable_jit:
        return _python_scan(f, init, x_leaves, x_tree, length, reverse)
    x_avals = [_slice_aval(get_aval(x)) for x in x_leaves]
    closed, out_tree, init_leaves = _stage_body(f, init_leaves, init_tree, x_avals, x_tree, init)
    carry_tree, y_tree = out_tree
    closed, consts = hoist_consts(closed)
    closed = _same_carry_types(closed, len(consts), init_leaves)
    turns = length if unroll is True else max(int(unroll), 1)
    outs = bind_scan(
        closed, consts, init_leaves, x_leaves, length, reverse, min(turns, max(length, 1))
    )
    count = len(init_leaves)
    return tree.unflatten(carry_tree, outs[:count]), tree.unflatten(y_tree, outs[count:])


def bind_scan(
    closed: ClosedProgram,
    consts: Sequence[Any],
    carry: Sequence[Any],
    xs: Sequence[Any],
    length: int,
    reverse: bool = False,
    unroll: int = 1,
) -> list[Any]:
    """The scan operation with a staged body."""
    return scan_p.bind(
        *consts,
        *carry,
        *xs,
        jaxpr=closed,
        num_consts=len(consts),
        num_carry=len(carry),
        length=length,
        reverse=reverse,
        unroll=unroll,
    )


def _scan_length(xs: Any, x_leaves: Sequence[Any], length: int | None) -> int:
    lengths = set()
    for leaf in x_leaves:
        shape = get_aval(leaf).shape
        if not shape:
            raise ValueError(
                "scan got value with no leading axis to scan over: "
                f"{get_aval(leaf).str_short()} in xs"
            )
        lengths.add(shape[0])
    if length is not None:
        length = int(length)
        if any(n != length for n in lengths):
            raise ValueError(
                f"scan got `length` argument of {length} which disagrees with leading axis sizes "
                f"{sorted(lengths)}."
            )
        return length
    if len(lengths) > 1:
        raise ValueError(f"scan got values with different leading axis sizes: {sorted(lengths)}.")
    if not lengths:
        raise ValueError(
            "scan got no values to scan over and `length` not provided: pass xs, or length=..."
        )
    return lengths.pop()


def _slice_aval(aval: ShapedArray) -> ShapedArray:
    return aval.update(shape=aval.shape[1:])


def _stage_body(
    f: Callable[..., Any],
    init_leaves: list[Any],
    init_tree: Any,
    x_avals: Sequence[ShapedArray],
    x_tree: Any,
    init: Any,
) -> tuple[ClosedProgram, Any, list[Any]]:
    """The body as a program; a weakly typed initial carry takes the type the body gives it."""
    count = len(init_leaves)
    info = debug_info(f, (init,), {})

    def flat(*leaves: Any) -> tuple[list[Any], Any]:
        carry = tree.unflatten(init_tree, leaves[:count])
        out = f(carry, tree.unflatten(x_tree, leaves[count:]))
        if not isinstance(out, tuple) or len(out) != 2:
            raise TypeError(
                "scan body output must be a pair (carry, y), got "
                f"{tree.structure(out) if not isinstance(out, tuple) else f'a tuple of {len(out)}'}"
            )
        carry_leaves, carry_tree = flatten_output(f, out[0])
        y_leaves, y_tree = flatten_output(f, out[1])
        return [*carry_leaves, *y_leaves], (carry_tree, y_tree)

    def trace(avals: Sequence[ShapedArray]) -> tuple[ClosedProgram, Any]:
        return stage(flat, [*avals, *x_avals], info)

    closed, trees, init_leaves = settle_carry(
        trace, init_leaves, lambda found: found[0] == init_tree, x_avals
    )
    carry_tree = trees[0]
    in_avals = [get_aval(x) for x in init_leaves]
    check_same_types(
        "scan body function carry input and carry output must have equal types, but they differ",
        "the input carry",
        (init_tree, in_avals),
        "the output carry",
        (carry_tree, closed.out_avals[: carry_tree.num_leaves]),
    )
    return closed, trees, init_leaves


def _same_carry_types(
    closed: ClosedProgram, num_consts: int, init_leaves: Sequence[Any]
) -> ClosedProgram:
    """Carry results with exactly the types (also weak types) of the carry inputs."""
    weak = [a.weak_type for a in closed.out_avals]
    weak[: len(init_leaves)] = [get_aval(x).weak_type for x in init_leaves]
    return with_weak_types(closed, weak)


def _python_scan(
    f: Callable[..., Any], init: Any, x_leaves: list, x_tree: Any, length: int, reverse: bool
) -> tuple[Any, Any]:
    """`scan` as a Python loop, for config.disable_jit."""
    if length == 0:
        raise ValueError("zero-length scan is not supported in disable_jit() mode")
    carry, ys = init, []
    for i in reversed(range(length)) if reverse else range(length):
        x = tree.unflatten(x_tree, [index_in_dim(leaf, i, keepdims=False) for leaf in x_leaves])
        carry, y = f(carry, x)
        ys.append(y)
    ys = ys[::-1] if reverse else ys
    stack = lambda *items: concatenate(
        [reshape(as_value(i), (1, *get_aval(i).shape)) for i in items], 0
    )
    return carry, tree.map(stack, *ys)
