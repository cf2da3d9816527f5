"""Inlining: calls of programs become their equations; constants of callees move to the caller.

So do operations which are other ones for this compiler (`Primitive.expansion`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tetrax.ir.atoms import Atom, DropVar, Literal, Var
from tetrax.ir.control import Inline
from tetrax.ir.program import ClosedProgram, Equation, join_effects

Called = Callable[[Equation], ClosedProgram | None]
"""The program that an equation calls, if it does."""


def inline(closed: ClosedProgram) -> ClosedProgram:
    """`closed` without calls; programs inside control flow are left to their own compilation."""
    return _with_calls(closed, _call_of)


def expand(closed: ClosedProgram) -> ClosedProgram:
    """`closed` with the operations in place of which others stand in compiled code."""
    if all(eqn.primitive.expansion is None for eqn in closed.eqns):
        return closed
    return _with_calls(closed, _expansion_of)


def _call_of(eqn: Equation) -> ClosedProgram | None:
    structure = eqn.primitive.structure
    described = None if structure is None else structure([a.aval for a in eqn.invars], **eqn.params)
    return described.program if isinstance(described, Inline) else None


def _expansion_of(eqn: Equation) -> ClosedProgram | None:
    expansion = eqn.primitive.expansion
    return None if expansion is None else expansion([a.aval for a in eqn.invars], eqn.params)


def _with_calls(closed: ClosedProgram, called: Called) -> ClosedProgram:
    state = _Inliner(called)
    program = closed.program
    environment: dict[Var, Atom] = {v: v for v in (*program.constvars, *program.invars)}
    state.constvars = list(program.constvars)
    state.consts = list(closed.consts)
    state.run(program.eqns, environment)
    outvars = [_lookup(environment, atom) for atom in program.outvars]
    inlined = program.replace(
        constvars=state.constvars,
        outvars=outvars,
        eqns=state.eqns,
        effects=join_effects(state.eqns),
    )
    return ClosedProgram(inlined, state.consts)


def _lookup(environment: dict[Var, Atom], atom: Atom) -> Atom:
    return atom if isinstance(atom, Literal) else environment[atom]


class _Inliner:
    def __init__(self, called: Called) -> None:
        self.called = called
        self.eqns: list[Equation] = []
        self.constvars: list[Var] = []
        self.consts: list[Any] = []

    def run(self, eqns: list[Equation], environment: dict[Var, Atom]) -> None:
        for eqn in eqns:
            invars = [
                atom if isinstance(atom, Literal) else environment[atom] for atom in eqn.invars
            ]
            callee = self.called(eqn)
            if callee is not None:
                self._call(eqn, callee, invars, environment)
                continue
            outvars = [v if isinstance(v, DropVar) else Var(v.aval) for v in eqn.outvars]
            for var, fresh in zip(eqn.outvars, outvars, strict=True):
                environment[var] = fresh
            self.eqns.append(eqn.between(invars, outvars))

    def _call(
        self, eqn: Equation, callee: ClosedProgram, invars: list[Atom], outer: dict[Var, Atom]
    ) -> None:
        program = callee.program
        inner: dict[Var, Atom] = dict(zip(program.invars, invars, strict=True))
        for var, value in zip(program.constvars, callee.consts, strict=True):
            fresh = Var(var.aval)
            self.constvars.append(fresh)
            self.consts.append(value)
            inner[var] = fresh
        self.run(program.eqns, inner)
        results = [_lookup(inner, atom) for atom in program.outvars]
        outer.update(zip(eqn.outvars, results, strict=True))
