"""Dead code elimination: equations that nobody needs and that have no effects go."""

from __future__ import annotations

from tetrax.ir.atoms import Var
from tetrax.ir.program import ClosedProgram, join_effects, live_equations


def eliminate_dead_code(closed: ClosedProgram) -> ClosedProgram:
    program = closed.program
    kept = live_equations(program.eqns, program.outvars)
    needed = {atom for eqn in kept for atom in eqn.invars if isinstance(atom, Var)}
    needed.update(atom for atom in program.outvars if isinstance(atom, Var))
    alive = [i for i, var in enumerate(program.constvars) if var in needed]
    return ClosedProgram(
        program.replace(
            constvars=[program.constvars[i] for i in alive], eqns=kept, effects=join_effects(kept)
        ),
        [closed.consts[i] for i in alive],
    )
