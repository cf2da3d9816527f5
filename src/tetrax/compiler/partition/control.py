"""Partitioning of loops, branches and calls: their programs are partitioned in turn."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import Any

from tetrax.compiler.partition.partitioner import SUMS, Handler, Partitioner, only_added
from tetrax.compiler.partition.placed import Placed, local_aval
from tetrax.compiler.partition.reshard import position
from tetrax.compiler.passes.control import control_operation
from tetrax.ir.control import Branch, Constraint, HostCall, Inline, Scan, While
from tetrax.ir.layout import Layout, whole_layout
from tetrax.ir.program import Atom, ClosedProgram, Equation, Program, Var
from tetrax.ops.exchange import all_gather_p
from tetrax.ops.select import clamp
from tetrax.ops.slicing import index_in_dim
from tetrax.ops.structure import zeros
from tetrax.tracing.staging import stage, stage_flat
from tetrax.tracing.value import get_aval


def _inline(
    self: Partitioner, eqn: Equation, described: Inline, operands: list[Placed]
) -> list[Placed]:
    self.demands.keep(eqn.invars)
    return self.run(described.program, operands)


def _bind(described: Scan | While | Branch, operands: Sequence[Any]) -> list[Any]:
    params = {field.name: getattr(described, field.name) for field in fields(described)}
    return control_operation(type(described)).bind(*operands, **params)


def _staged(
    self: Partitioner,
    closed: ClosedProgram,
    layouts: Sequence[Layout],
    out_layouts: Sequence[Layout | None] = (),
    free: Collection[Atom] = (),
) -> tuple[ClosedProgram, tuple[Layout, ...]]:
    """The program of one device for operands cut so, and how its results are cut."""

    def run(*parts: Any) -> tuple[list[Any], tuple[Layout, ...]]:
        triples = zip(parts, closed.in_avals, layouts, strict=True)
        outs = self.run(closed, [Placed(*triple) for triple in triples], out_layouts, free)
        return [out.value for out in outs], tuple(out.layout for out in outs)

    pairs = zip(closed.in_avals, layouts, strict=True)
    avals = [local_aval(aval, layout, self.axes) for aval, layout in pairs]
    return stage(run, avals, closed.program.debug_info)


def _branch(
    self: Partitioner, eqn: Equation, described: Branch, operands: list[Placed]
) -> list[Placed]:
    self.demands.keep(eqn.invars)
    index = self.reshard(operands[0], whole_layout(0), "a branch is chosen by it")
    layouts = [x.layout for x in operands[1:]]
    first, out_layouts = _staged(self, described.branches[0], layouts)
    rest = [_staged(self, branch, layouts, out_layouts)[0] for branch in described.branches[1:]]
    values = [index.value, *(x.value for x in operands[1:])]
    outs = _bind(Branch((first, *rest)), values)
    return _placed(outs, eqn, out_layouts)


def _placed(outs: Sequence[Any], eqn: Equation, layouts: Sequence[Layout]) -> list[Placed]:
    triples = zip(outs, (var.aval for var in eqn.outvars), layouts, strict=True)
    return [Placed(*triple) for triple in triples]


def _while(
    self: Partitioner, eqn: Equation, described: While, operands: list[Placed]
) -> list[Placed]:
    split = described.condition_consts + described.body_consts
    tests = [x.layout for x in operands[: described.condition_consts]]
    consts = [x.layout for x in operands[described.condition_consts : split]]
    carry, body, _ = _settled(self, described.body, consts, operands[split:], [], 1)
    condition, _ = _staged(self, described.condition, [*tests, *carry], [whole_layout(0)])
    self.noted(eqn, operands, [*tests, *consts, *carry])
    values = [*operands[:split], *_in_layouts(self, operands[split:], carry)]
    loop = While(condition, body, described.condition_consts, described.body_consts)
    return _placed(_bind(loop, [x.value for x in values]), eqn, carry)


def _scan(
    self: Partitioner, eqn: Equation, described: Scan, operands: list[Placed]
) -> list[Placed]:
    first, last = described.consts, described.consts + described.carry
    consts = [x.layout for x in operands[:first]]
    stacked = [
        self.reshard(x, ((), *x.layout[1:]), "a loop goes over its first axis")
        for x in operands[last:]
    ]
    turns = [x.layout[1:] for x in stacked]
    program, init = described.body.program, operands[first:last]
    sums = _only_sums(program, first, len(init))
    wanted = [self.settled.get(eqn.outvars[i]) if i in sums else None for i in range(len(init))]
    free = [var for i, var in enumerate(program.outvars) if i in sums or i >= len(init)]
    carry, body, outs = _settled(
        self, described.body, consts, init, turns, described.length, wanted, free
    )
    values = [*operands[:first], *_in_layouts(self, init, carry), *stacked]
    for i, inner in enumerate(program.outvars):
        if i >= len(init):
            self.demands.stacked(eqn.outvars[i], inner, outs[i - len(init)])
        elif i in sums:
            begin = eqn.invars[first + i], init[i].layout
            self.demands.summed_up(eqn.outvars[i], inner, carry[i], *begin)
    layouts = [*consts, *carry, *(x.layout for x in stacked)]
    self.noted(eqn, operands, layouts, {first + i for i in sums})
    loop = Scan(body, described.consts, described.carry, described.length, described.reverse)
    layouts = [*carry, *(((), *layout) for layout in outs)]
    return _placed(_bind(loop, [x.value for x in values]), eqn, layouts)


def _only_sums(program: Program, first: int, count: int) -> set[int]:
    """The values carried by a loop (by their number) that are only ever added to."""
    added = only_added(program)
    makers = {var: eqn for eqn in program.eqns for var in eqn.outvars}
    outvars = program.outvars
    return {
        i
        for i in range(count)
        if (var := program.invars[first + i]) in added
        and isinstance(out := outvars[i], Var)
        and out in makers
        and makers[out].primitive.name in SUMS
        and var in makers[out].invars
        and sum(out is other for other in outvars) == 1
        and not any(out in eqn.invars for eqn in program.eqns)
    }


def _settled(
    self: Partitioner,
    body: ClosedProgram,
    consts: Sequence[Layout],
    init: Sequence[Placed],
    turns: Sequence[Layout],
    times: int,
    wanted: Sequence[Layout | None] = (),
    free: Collection[Atom] = (),
) -> tuple[list[Layout], ClosedProgram, tuple[Layout, ...]]:
    """How the carry of a loop is cut, the body that keeps it so, and how its other results are cut.

    The carry is cut as `wanted`, or else as it comes, and then as the body leaves it. Where that
    makes the body leave it otherwise again, it is brought back at the end of each turn.
    """
    count = len(init)
    goals = wanted or [None] * count
    carry = [goal or x.layout for x, goal in zip(init, goals, strict=True)]
    with self.trial():
        _, outs = _staged(self, body, [*consts, *carry, *turns])
    carry = list(outs[:count])
    with self.repeated(times):
        kept = [*carry, *([None] * (len(outs) - count))]
        program, outs = _staged(self, body, [*consts, *carry, *turns], kept, free)
    return list(outs[:count]), program, outs[count:]


def _in_layouts(
    self: Partitioner, operands: Sequence[Placed], layouts: Sequence[Layout]
) -> list[Placed]:
    reason = "a loop carries it so"
    return [self.reshard(x, layout, reason) for x, layout in zip(operands, layouts, strict=True)]


def _constraint(
    self: Partitioner, eqn: Equation, described: Constraint, operands: list[Placed]
) -> list[Placed]:
    (x,) = operands
    named = {name for names in described.layout if names for name in names}
    layout = tuple(
        names if names is not None else tuple(name for name in now if name not in named)
        for names, now in zip(described.layout, x.layout, strict=True)
    )
    self.noted(eqn, operands, [layout])
    return [self.reshard(x, layout, "with_sharding_constraint asks for it")]


def _host(
    self: Partitioner, eqn: Equation, described: HostCall, operands: list[Placed]
) -> list[Placed]:
    """Python is called once, not by every device: by the first one, which gives the others what it
    got. In programs of one device each device calls it for itself.
    """
    self.demands.keep(eqn.invars)
    names = self.automatic
    if self.axes.product(names) == 1:
        return self.whole(eqn, operands)
    gathered = [
        self.reshard(x, whole_layout(x.aval.ndim), "Python is called with it") for x in operands
    ]
    primitive, outs = eqn.primitive, [var.aval for var in eqn.outvars]

    def call(*values: Any) -> list[Any]:
        found = primitive.rebind(values, eqn.params)
        return list(found) if primitive.multiple_results else [found]

    avals = [get_aval(x.value) for x in gathered]
    branches = (
        stage_flat(call, avals),
        stage_flat(lambda *values: [zeros(aval) for aval in outs], avals),
    )
    here = position(names, self.axes)
    found = _bind(Branch(branches), [clamp(0, here, 1), *(x.value for x in gathered)])
    size = self.axes.product(names)
    shared = [
        index_in_dim(all_gather_p.bind(x, size=size, names=names, groups=None), 0, keepdims=False)
        for x in found
    ]
    return _placed(shared, eqn, [whole_layout(aval.ndim) for aval in outs])


HANDLERS: dict[type, Handler] = {
    Inline: _inline,
    Branch: _branch,
    While: _while,
    Scan: _scan,
    Constraint: _constraint,
    HostCall: _host,
}
