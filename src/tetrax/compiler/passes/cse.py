"""Common subexpressions: equal pure equations on equal operands are computed once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from tetrax.ir.atoms import Atom, Literal, Var
from tetrax.ir.program import ClosedProgram, Equation


def eliminate_common_subexpressions(closed: ClosedProgram) -> ClosedProgram:
    program = closed.program
    replaced: dict[Var, Atom] = {}
    seen: dict[Hashable, Equation] = {}
    eqns = []
    for eqn in program.eqns:
        invars = [replaced.get(a, a) if isinstance(a, Var) else a for a in eqn.invars]
        eqn = eqn.replace(invars=invars)
        key = _key(eqn)
        earlier = seen.get(key) if key is not None else None
        if earlier is not None:
            replaced.update(zip(eqn.outvars, earlier.outvars, strict=True))
            continue
        if key is not None:
            seen[key] = eqn
        eqns.append(eqn)
    outvars = [replaced.get(a, a) if isinstance(a, Var) else a for a in program.outvars]
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
        return (np.asarray(atom.val, atom.aval.dtype).tobytes(), atom.aval)
    return atom
