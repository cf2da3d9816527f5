"""`cond` and `switch`: one of several programs, chosen by an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, tree
from tetrax.config import config
from tetrax.higher_order.call import hoist_consts, program_uses_axis, spread
from tetrax.higher_order.carry import check_same_types, retyped
from tetrax.ir.control import Branch
from tetrax.ir.program import NO_EFFECTS, ClosedProgram, Effects, fresh_vars
from tetrax.ir.types import ShapedArray
from tetrax.ops.bits_and_compare import eq
from tetrax.ops.collective import pvary_p
from tetrax.ops.convert import convert_element_type
from tetrax.ops.select import clamp, select_n
from tetrax.ops.structure import batch_at, broadcast_in_dim, zeros
from tetrax.runtime.array import as_value
from tetrax.tracebacks import boundary
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.staging import evaluate_closed, stage
from tetrax.tracing.symbolic import Zero, is_undefined
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
from tetrax.transforms.transpose import transpose_program
from tetrax.transforms.vmap import AxisData, batch_program

Branches = tuple[ClosedProgram, ...]


class Cond(Primitive):
    """`branches[index](*operands)`; the index is int32 and in range."""

    multiple_results = True

    def shape(self, index: ShapedArray, *operands: ShapedArray, branches: Branches, **params: Any):
        rows = zip(*(branch.out_avals for branch in branches), strict=True)
        return [row[0].varying(frozenset().union(*(a.vma for a in row))) for row in rows]

    def varying(self, avals, outs, params):
        """Devices may take different branches."""
        return [out.varying(out.vma | avals[0].vma) for out in outs]

    def effects(self, *avals: ShapedArray, branches: Branches, **params: Any) -> Effects:
        return frozenset().union(*(b.effects for b in branches)) if branches else NO_EFFECTS

    def structure(self, avals: Sequence[ShapedArray], *, branches: Branches, **params: Any) -> Any:
        return Branch(branches)

    def uses_axis(self, name: Any, params: dict) -> bool:
        return name is not None and any(program_uses_axis(b, name) for b in params["branches"])

    def jvp(self, primals, tangents, *, branches, **params):
        index, *operands = primals
        nonzero = tuple(type(t) is not Zero for t in tangents[1:])
        count = len(branches[0].out_avals)
        force = tuple(
            any(flags)
            for flags in zip(*(jvp_program(b, nonzero, False)[1] for b in branches), strict=True)
        )
        made = tuple(jvp_program(b, nonzero, force)[0] for b in branches)
        given = [t for t in tangents[1:] if type(t) is not Zero]
        outs = self.bind(index, *operands, *given, branches=made, **params)
        return outs[:count], spread(outs[count:], force, branches[0].out_avals)

    def transpose(self, cts, index, *operands, branches, **params):
        linear = tuple(is_undefined(x) for x in operands)
        nonzero = tuple(type(ct) is not Zero for ct in cts)
        made = [transpose_program(b, linear, nonzero) for b in branches]
        has = [any(flags) for flags in zip(*(flags for _, flags in made), strict=True)]
        avals = [x.aval.to_cotangent_aval() for x in operands if is_undefined(x)]
        branches_t = tuple(_padded(closed, flags, has, avals) for closed, flags in made)
        fixed = [x for x in operands if not is_undefined(x)]
        given = [ct for ct in cts if type(ct) is not Zero]
        outs = iter(self.bind(index, *fixed, *given, branches=branches_t, **params))
        flags = iter(has)
        results = [
            (next(outs) if next(flags) else Zero(x.aval.to_cotangent_aval()))
            if is_undefined(x)
            else None
            for x in operands
        ]
        return [None, *results]

    def batch_axis(self, axis: AxisData, operands, dims, *, branches, **params):
        index, *values = operands
        index_dim, *value_dims = dims
        if index_dim is not None:
            return self._select(axis, operands, dims, branches)
        out_dims = [batch_program(b, axis, tuple(value_dims))[1] for b in branches]
        force = tuple(any(d is not None for d in column) for column in zip(*out_dims, strict=True))
        made = tuple(batch_program(b, axis, tuple(value_dims), force)[0] for b in branches)
        outs = self.bind(index, *values, branches=made, **params)
        return outs, [0 if f else None for f in force]

    def _select(self, axis, operands, dims, branches):
        """A batched index: every branch runs and the results are selected."""
        index, *values = [batch_at(x, d, axis.size) for x, d in zip(operands, dims, strict=True)]
        results = []
        for branch in branches:
            if branch.effects:
                raise NotImplementedError(
                    "cond with a batched predicate and side effects in a branch is not supported"
                )
            made, _ = batch_program(branch, axis, (0,) * len(values), True)
            results.append(evaluate_closed(made, *values))
        index = clamp_index(index, len(branches))
        outs = [_select_batched(index, list(column)) for column in zip(*results, strict=True)]
        return outs, [0] * len(outs)

    def partial(self, trace: PartialTrace, args, *, branches, **params):
        index, *operands = args
        if trace.is_unknown(index):
            return None
        unknown = tuple(trace.is_unknown(x) for x in operands)
        parts = [partial_eval_program(b, unknown, False) for b in branches]
        force = tuple(any(column) for column in zip(*(p[2] for p in parts), strict=True))
        parts = [partial_eval_program(b, unknown, force) for b in branches]
        residuals = [avals for _, _, _, avals in parts]
        known = tuple(
            _with_residuals(closed, sum(not u for u in force), i, residuals)
            for i, (closed, _, _, _) in enumerate(parts)
        )
        later = tuple(
            _from_residuals(closed, i, residuals) for i, (_, closed, _, _) in enumerate(parts)
        )
        known_args = [x for x, u in zip(operands, unknown, strict=True) if not u]
        with current_trace(trace.parent):
            outs = self.bind(index, *known_args, branches=known, **params)
        count = sum(not u for u in force)
        known_outs, stored = iter(outs[:count]), outs[count:]
        unknown_args = [x for x, u in zip(operands, unknown, strict=True) if u]
        later_outs = iter(
            trace.record(self, [index, *stored, *unknown_args], {"branches": later, **params})
        )
        return [next(later_outs) if u else next(known_outs) for u in force]


def _padded(
    closed: ClosedProgram, flags: Sequence[bool], wanted: Sequence[bool], avals: Sequence[Any]
) -> ClosedProgram:
    """A transposed branch giving zeros where another branch gives a cotangent."""

    def fun(*args: Any) -> tuple[list[Any], None]:
        outs = iter(evaluate_closed(closed, *args))
        found = [next(outs) if flag else None for flag in flags]
        return [
            zeros(aval) if ct is None else ct
            for ct, want, aval in zip(found, wanted, avals, strict=True)
            if want
        ], None

    return stage(fun, closed.in_avals, closed.program.debug_info)[0]


def _with_residuals(
    closed: ClosedProgram, count: int, position: int, residuals: Sequence[Sequence[ShapedArray]]
) -> ClosedProgram:
    """A known branch that gives zeros for the residuals of the other branches."""

    def fun(*args: Any) -> tuple[list[Any], None]:
        outs = evaluate_closed(closed, *args)
        stored = [
            item
            for i, avals in enumerate(residuals)
            for item in (outs[count:] if i == position else [zeros(a) for a in avals])
        ]
        return [*outs[:count], *stored], None

    return stage(fun, closed.in_avals, closed.program.debug_info)[0]


def _from_residuals(
    closed: ClosedProgram, position: int, residuals: Sequence[Sequence[ShapedArray]]
) -> ClosedProgram:
    """A later branch that takes the residuals of all branches and uses its own."""
    before = sum(len(avals) for avals in residuals[:position])
    own = len(residuals[position])
    total = sum(len(avals) for avals in residuals)

    def fun(*args: Any) -> tuple[list[Any], None]:
        return evaluate_closed(closed, *args[before : before + own], *args[total:]), None

    stored = [a for avals in residuals for a in avals]
    return stage(fun, [*stored, *closed.in_avals[own:]], closed.program.debug_info)[0]


def _select_batched(index: Any, cases: list[Any]) -> Any:
    shape = get_aval(cases[0]).shape
    which = broadcast_in_dim(index, shape, (0,))
    if len(cases) == 2:
        return select_n(eq(which, 1), *cases)
    return select_n(which, *cases)


def clamp_index(index: Any, count: int) -> Any:
    """The index of the nearest branch."""
    return clamp(np.int32(0), index, np.int32(count - 1))


cond_p = Cond("cond")


@boundary
def switch(
    index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = ...
) -> Any:
    """`branches[index](*operands)`, with the index clamped into range.

    All branches take the same operands and give the same types. Raises TypeError where they differ.

    >>> switch(1, [lambda x: x, lambda x: -x], 2.0)
    Array(-2., dtype=float32, weak_type=True)
    """
    if operand is not ...:
        operands = (operand,)
    if not all(callable(branch) for branch in branches):
        raise TypeError("lax.switch: branches argument should be a sequence of callables.")
    branches = tuple(branches)
    if not branches:
        raise ValueError("Empty branch sequence")
    aval = get_aval(index)
    if aval.shape:
        raise TypeError(f"Branch index must be scalar, got {index} of shape {aval.shape}.")
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"Index type must be an integer, got {index} of type {aval.dtype.name}.")
    if len(branches) == 1:
        return branches[0](*operands)
    if config.disable_jit and is_concrete(index):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    index = clamp_index(convert_element_type(as_value(index), np.int32), len(branches))
    return _conditional("switch", index, branches, operands)


@boundary
def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = ...,
    linear: Any = None,
) -> Any:
    """`true_fun(*operands)` if `pred` else `false_fun(*operands)`; only one of them runs.

    Both give the same types. Raises TypeError for a predicate that is no scalar, and where the
    branches' results differ.

    >>> cond(True, lambda x: x, lambda x: -x, 2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    if operand is not ...:
        operands = (operand,)
    if not (callable(true_fun) and callable(false_fun)):
        raise TypeError("lax.cond: true_fun and false_fun arguments should be callable.")
    if pred is None:
        raise TypeError("cond predicate is None")
    if isinstance(pred, str | list | tuple | dict):
        raise TypeError(f"Pred must be a scalar, got {pred!r} of type {type(pred)}.")
    aval = get_aval(pred)
    if aval.shape:
        raise TypeError(
            f"Pred must be a scalar, got {pred} of shape {aval.shape}. "
            "For an elementwise choice use jnp.where"
        )
    if aval.dtype != np.bool_:
        if not dtypes.issubdtype(aval.dtype, np.number):
            raise TypeError(f"Pred type must be either boolean or number, got {aval.dtype.name}.")
        pred = as_value(pred) != 0
    if config.disable_jit and is_concrete(pred):
        return (true_fun if bool(pred) else false_fun)(*operands)
    index = convert_element_type(as_value(pred), np.int32)
    return _conditional("cond", index, (false_fun, true_fun), operands)


def _conditional(
    what: str, index: Any, branches: Sequence[Callable[..., Any]], operands: Sequence[Any]
) -> Any:
    check_argument_leaves(branches[0], what, (tuple(operands), {}))
    leaves, in_tree = tree.flatten((tuple(operands), {}))
    leaves = [as_value(x) for x in leaves]
    avals = [get_aval(x) for x in leaves]
    staged, trees = [], []
    for branch in branches:
        info = debug_info(branch, tuple(operands), {})
        closed, out_tree = stage(flatten_function(branch, in_tree), avals, info)
        staged.append(closed)
        trees.append(out_tree)
    _check_branches(what, branches, staged, trees)
    programs, consts = join_consts(staged)
    programs = _same_weak_types(programs)
    varies = tuple(get_aval(index).vma)
    if varies:
        # Nothing that devices must do together may be left to branches that some of them take.
        consts, leaves = ([pvary_p.bind(x, axes=varies) for x in xs] for xs in (consts, leaves))
        in_avals = [get_aval(x) for x in (*consts, *leaves)]
        programs = tuple(retyped(program, in_avals) for program in programs)
    outs = cond_p.bind(index, *consts, *leaves, branches=programs)
    return tree.unflatten(trees[0], outs)


def _check_branches(
    what: str,
    branches: Sequence[Callable[..., Any]],
    staged: Sequence[ClosedProgram],
    trees: Sequence[Any],
) -> None:
    names = ("false_fun", "true_fun") if what == "cond" else None
    reference = len(staged) - 1 if what == "cond" else 0
    for i in range(len(staged)):
        if i == reference:
            continue
        mine = names[i] if names else f"branches[{i}]"
        theirs = names[reference] if names else f"branches[{reference}]"
        check_same_types(
            f"{what} branch outputs must have the same pytree structure and types, but they "
            "differ: "
            f"{theirs} ({function_name(branches[reference])}) and "
            f"{mine} ({function_name(branches[i])})",
            theirs,
            (trees[reference], staged[reference].out_avals),
            mine,
            (trees[i], staged[i].out_avals),
        )


def join_consts(staged: Sequence[ClosedProgram]) -> tuple[Branches, list[Any]]:
    """Programs that take the constants of all of them as leading operands."""
    lifted = [hoist_consts(closed) for closed in staged]
    consts = [c for _, own in lifted for c in own]
    const_avals = [get_aval(c) for c in consts]
    programs = []
    start = 0
    for closed, own in lifted:
        programs.append(_take_slice(closed, const_avals, start, len(own)))
        start += len(own)
    return tuple(programs), consts


def _take_slice(
    closed: ClosedProgram, const_avals: Sequence[Any], start: int, count: int
) -> ClosedProgram:
    program = closed.program
    own, rest = program.invars[:count], program.invars[count:]
    others = fresh_vars(const_avals)
    others[start : start + count] = own
    return ClosedProgram(program.replace(invars=[*others, *rest]), [])


def _same_weak_types(programs: Branches) -> Branches:
    """Results are weakly typed only if they are in every branch."""
    weak = [
        all(a.weak_type for a in column)
        for column in zip(*(p.out_avals for p in programs), strict=True)
    ]
    return tuple(with_weak_types(p, weak) for p in programs)


def with_weak_types(closed: ClosedProgram, weak: Sequence[bool]) -> ClosedProgram:
    """The program with results weakly typed exactly where `weak` says so."""
    if all(a.weak_type == w for a, w in zip(closed.out_avals, weak, strict=True)):
        return closed

    def fun(*args: Any) -> tuple[list[Any], None]:
        outs = evaluate_closed(closed, *args)
        return [
            out
            if get_aval(out).weak_type == w
            else convert_element_type(out, get_aval(out).dtype, weak_type=w)
            for out, w in zip(outs, weak, strict=True)
        ], None

    return stage(fun, closed.in_avals, closed.program.debug_info)[0]
