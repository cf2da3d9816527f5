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
        key = _key(eqn)
        earlier = seen.get(key) if key is not None else None
        if earlier is not None:
            replaced.update(zip(eqn.outvars, earlier.outvars, strict=True))
            continue
        if key is not None:
            seen[key] = eqn
        eqns.append(eqn)
    outvars = [replaced.get(atom, atom) for atom in program.outvars]
    return ClosedProgram(program.replace(eqns=eqns, outvars=outvars), closed.consts)


def _key(eqn: Equation) -> Hashable | None:
    """What makes two equations equal; None for what must not be merged."""
    if eqn.effects or not eqn.primitive.is_pure:
        return None
    key = (
        eqn.primitive,
        tuple(atom_key(a) for a in eqn.invars),
        tuple(eqn.params.items()),
        tuple(v.aval for v in eqn.outvars),
    )
    try:
        hash(key)
    except TypeError:
        return None
    return key


def atom_key(atom: Atom) -> Any:
    """Variables by identity, literals by type and bits."""
    if isinstance(atom, Literal):
        return (atom.scalar.tobytes(), atom.aval)
    return atom
