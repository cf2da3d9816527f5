"""Constant folding: pure operations on literals alone become literals.

Only scalars are folded: a large constant would cost more memory than its computation costs time.
"""

from __future__ import annotations

import numpy as np
from tetrax.ir.atoms import Atom, Literal, Var
from tetrax.ir.program import ClosedProgram, Equation


def fold_constants(closed: ClosedProgram) -> ClosedProgram:
    program = closed.program
    known: dict[Var, Literal] = {}
    eqns = []
    for eqn in program.eqns:
        invars = [known.get(a, a) if isinstance(a, Var) else a for a in eqn.invars]
        eqn = eqn.replace(invars=invars)
        folded = _folded(eqn)
        if folded is None:
            eqns.append(eqn)
        else:
            known[eqn.outvars[0]] = folded
    outvars: list[Atom] = [known.get(a, a) if isinstance(a, Var) else a for a in program.outvars]
    return ClosedProgram(program.replace(eqns=eqns, outvars=outvars), closed.consts)


def _folded(eqn: Equation) -> Literal | None:
    primitive = eqn.primitive
    if (
        eqn.effects
        or not primitive.is_pure
        or primitive.multiple_results
        or primitive.structure is not None
        or primitive.reference is None
        or not eqn.invars
        or not all(isinstance(a, Literal) for a in eqn.invars)
    ):
        return None
    aval = eqn.outvars[0].aval
    if aval.shape or not isinstance(aval.dtype, np.dtype) or aval.dtype.kind not in "biufc":
        return None
    values = [np.asarray(a.val, a.aval.dtype) for a in eqn.invars if isinstance(a, Literal)]
    with np.errstate(all="ignore"):
        result = np.asarray(primitive.reference(*values, **eqn.params))
    return Literal(result.astype(aval.dtype)[()], aval)
