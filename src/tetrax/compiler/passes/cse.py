"""Common subexpressions: equal pure equations on equal operands are computed once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tetrax.ir.atoms import Atom, Literal
from tetrax.ir.program import ClosedProgram, Equation


def eliminate_common_subexpressions(closed: ClosedProgram) -> ClosedProgram:
    program = closed.program
    replaced: dict[Atom, Atom] = {}
    seen: dict[Hashable, Equation] = {}
    eqns = []
    for eqn in program.eqns:
        eqn = eqn.substitute(replaced)
        earlier = _first_of(seen, eqn)
        if earlier is eqn:
            eqns.append(eqn)
        else:
            replaced.update(zip(eqn.outvars, earlier.outvars, strict=True))
    outvars = [replaced.get(atom, atom) for atom in program.outvars]
    return ClosedProgram(program.replace(eqns=eqns, outvars=outvars), closed.consts)


def _first_of(seen: dict[Hashable, Equation], eqn: Equation) -> Equation:
    """The first equation equal to this one, which is noted where it is the first; itself where it
    must not be merged.
    """
    if eqn.effects or not eqn.primitive.is_pure:
        return eqn
    key = (
        eqn.primitive,
        tuple([atom_key(a) if isinstance(a, Literal) else a for a in eqn.invars]),
        tuple(eqn.params.items()),
        tuple([v.aval for v in eqn.outvars]),
    )
    try:
        return seen.setdefault(key, eqn)
    except TypeError:  # a parameter that cannot be compared
        return eqn


def atom_key(atom: Atom) -> Any:
    """Variables by identity, literals by type and bits."""
    if isinstance(atom, Literal):
        return (atom.scalar.tobytes(), atom.aval)
    return atom
