"""Constant folding: pure operations on literals alone become literals.

Only scalars are folded: a large constant would cost more memory than its computation costs time.
"""

from __future__ import annotations

import numpy as np
from tetrax.ir.atoms import Atom, Literal
from tetrax.ir.program import ClosedProgram, Equation


def fold_constants(closed: ClosedProgram) -> ClosedProgram:
    program = closed.program
    known: dict[Atom, Atom] = {}
    eqns = []
    for eqn in program.eqns:
        eqn = eqn.substitute(known)
        folded = _folded(eqn)
        if folded is None:
            eqns.append(eqn)
        else:
            known[eqn.outvars[0]] = folded
    outvars = [known.get(atom, atom) for atom in program.outvars]
    return ClosedProgram(program.replace(eqns=eqns, outvars=outvars), closed.consts)


def _folded(eqn: Equation) -> Literal | None:
    primitive = eqn.primitive
    if not eqn.invars or not all(isinstance(a, Literal) for a in eqn.invars):
        return None
    if (
        eqn.effects
        or not primitive.is_pure
        or primitive.multiple_results
        or primitive.structure is not None
        or primitive.reference is None
    ):
        return None
    aval = eqn.outvars[0].aval
    if aval.shape or not isinstance(aval.dtype, np.dtype) or aval.dtype.kind not in "biufc":
        return None
    values = [atom.scalar for atom in eqn.invars if isinstance(atom, Literal)]
    with np.errstate(all="ignore"):
        result = np.asarray(primitive.reference(*values, **eqn.params))
    return Literal(result.astype(aval.dtype)[()], aval)
