"""Control flow in one form: loops and branches with their descriptions as parameters.

Operations that hold programs describe themselves (`Primitive.structure`); from here on the
compiler knows only the descriptions, so a pass needs no case for an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import compress
from typing import Any

from tetrax.ir.control import Branch, Scan, While
from tetrax.ir.program import ClosedProgram, Effects, Equation, needed_inputs, restrict
from tetrax.ir.types import ShapedArray
from tetrax.tracing.primitive import Primitive

Optimise = Callable[[ClosedProgram], ClosedProgram]


class Control(Primitive):
    """A loop or a branch; the fields of its description are its parameters."""

    multiple_results = True

    def __init__(self, name: str, kind: type) -> None:
        super().__init__(name)
        self.kind = kind

    def structure(self, avals: Sequence[ShapedArray], **params: Any) -> Any:
        return self.kind(**params)

    def shape(self, *avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        described = self.kind(**params)
        if isinstance(described, Scan):
            outs, count = described.body.out_avals, described.carry
            stacked = [a.update(shape=(described.length, *a.shape)) for a in outs[count:]]
            return [*outs[:count], *stacked]
        body = described.branches[0] if isinstance(described, Branch) else described.body
        return list(body.out_avals)

    def effects(self, *avals: ShapedArray, **params: Any) -> Effects:
        programs = _PROGRAMS[self.kind](self.kind(**params))
        return frozenset().union(*(program.effects for program in programs))

    def dce(self, eqn: Equation, used: Sequence[bool]) -> Equation:
        return _PRUNERS[self.kind](eqn, self.kind(**eqn.params), used)


_PROGRAMS: dict[type, Callable[[Any], list[ClosedProgram]]] = {
    Scan: lambda scan: [scan.body],
    While: lambda loop: [loop.condition, loop.body],
    Branch: lambda branch: list(branch.branches),
}
_OPERATIONS = {
    Scan: Control("scan", Scan),
    While: Control("while", While),
    Branch: Control("cond", Branch),
}


def control_operation(kind: type) -> Control:
    """The operation whose parameters are the fields of a description of this kind."""
    return _OPERATIONS[kind]


def described_as(eqn: Equation, described: Scan | While | Branch, **changes: Any) -> Equation:
    """The equation with another description (and other operands or results)."""
    params = {f.name: getattr(described, f.name) for f in fields(described)}
    return eqn.replace(primitive=_OPERATIONS[type(described)], params=params, **changes)


def description(eqn: Equation) -> Any:
    """The description of an equation that holds programs; None of any other."""
    structure = eqn.primitive.structure
    return None if structure is None else structure([a.aval for a in eqn.invars], **eqn.params)


def unify_control(closed: ClosedProgram, optimise: Optimise) -> ClosedProgram:
    """Loops and branches as `Control` operations whose programs are optimised."""
    eqns = []
    for eqn in closed.program.eqns:
        described = description(eqn)
        if isinstance(described, Scan):
            eqn = described_as(eqn, replace(described, body=optimise(described.body)))
        elif isinstance(described, While):
            condition, body = optimise(described.condition), optimise(described.body)
            eqn = described_as(eqn, replace(described, condition=condition, body=body))
        elif isinstance(described, Branch):
            eqn = described_as(eqn, Branch(tuple(optimise(b) for b in described.branches)))
        eqns.append(eqn)
    return ClosedProgram(closed.program.replace(eqns=eqns), closed.consts)


# -- without what is not used ----------------------------------------------------------------------


def _prune_scan(eqn: Equation, described: Scan, used: Sequence[bool]) -> Equation:
    first, last = described.consts, described.consts + described.carry
    carry, stacked = list(used[: described.carry]), list(used[described.carry :])
    needed, carry = _settled(
        described.body, carry, lambda kept: [*kept, *stacked], slice(first, last)
    )
    inputs = [*needed[:first], *carry, *needed[last:]]
    outputs = [*carry, *stacked]
    body = restrict(described.body, inputs, outputs)
    pruned = replace(described, body=body, consts=sum(inputs[:first]), carry=sum(carry))
    return _kept(eqn, pruned, inputs, outputs)


def _prune_while(eqn: Equation, described: While, used: Sequence[bool]) -> Equation:
    tests, consts = described.condition_consts, described.body_consts
    asked = needed_inputs(described.condition.program, [True])[tests:]
    carry = [a or b for a, b in zip(used, asked, strict=True)]
    needed, carry = _settled(described.body, carry, list, slice(consts, None))
    inputs = [*[True] * tests, *needed[:consts], *carry]
    condition = restrict(described.condition, [*[True] * tests, *carry], [True])
    body = restrict(described.body, inputs[tests:], carry)
    return _kept(eqn, While(condition, body, tests, sum(needed[:consts])), inputs, carry)


def _prune_branch(eqn: Equation, described: Branch, used: Sequence[bool]) -> Equation:
    needed = [needed_inputs(branch.program, used) for branch in described.branches]
    inputs = [any(flags) for flags in zip(*needed, strict=True)]
    branches = tuple(restrict(branch, inputs, used) for branch in described.branches)
    return _kept(eqn, Branch(branches), [True, *inputs], used)


def _settled(
    body: ClosedProgram, carry: list[bool], wanted: Callable[[list[bool]], list[bool]], part: slice
) -> tuple[list[bool], list[bool]]:
    """The inputs and carries a loop body needs, its carries feeding each other."""
    while True:
        needed = needed_inputs(body.program, wanted(carry))
        grown = [a or b for a, b in zip(carry, needed[part], strict=True)]
        if grown == carry:
            return needed, carry
        carry = grown


def _kept(
    eqn: Equation, described: Any, inputs: Sequence[bool], outputs: Sequence[bool]
) -> Equation:
    return described_as(
        eqn,
        described,
        invars=list(compress(eqn.invars, inputs)),
        outvars=list(compress(eqn.outvars, outputs)),
    )


_PRUNERS: dict[type, Callable[[Equation, Any, Sequence[bool]], Equation]] = {
    Scan: _prune_scan,
    While: _prune_while,
    Branch: _prune_branch,
}
