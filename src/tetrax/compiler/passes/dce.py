"""Dead code elimination: equations that nobody needs and that have no effects go.

Of operations that hold programs also single results go, with what only they needed.
"""

from __future__ import annotations

from tetrax.ir.atoms import DropVar, Var
from tetrax.ir.program import ClosedProgram, Equation, join_effects


def eliminate_dead_code(closed: ClosedProgram) -> ClosedProgram:
    program = closed.program
    needed = {atom for atom in program.outvars if isinstance(atom, Var)}
    kept: list[Equation] = []
    for eqn in reversed(program.eqns):
        used = [var in needed for var in eqn.outvars]
        if True not in used and not eqn.effects:
            continue
        if eqn.primitive.dce is not None and not eqn.effects:
            eqn = eqn.primitive.dce(eqn, used)
        kept.append(eqn)
        needed.update([atom for atom in eqn.invars if isinstance(atom, Var)])
    kept.reverse()
    alive = [i for i, var in enumerate(program.constvars) if var in needed]
    return ClosedProgram(
        program.replace(
            constvars=[program.constvars[i] for i in alive],
            eqns=[_without_unused(eqn, needed) for eqn in kept],
            effects=join_effects(kept),
        ),
        [closed.consts[i] for i in alive],
    )


def _without_unused(eqn: Equation, needed: set[Var]) -> Equation:
    """Results that nobody reads and that their operation must compute all the same are dropped."""
    if len(eqn.outvars) == 1 or all(v in needed or isinstance(v, DropVar) for v in eqn.outvars):
        return eqn
    return eqn.replace(outvars=[v if v in needed else DropVar(v.aval) for v in eqn.outvars])
