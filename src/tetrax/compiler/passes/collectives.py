"""Sums over devices and what is done with their order: transpositions come before them.

So a transposition is that of the product whose result is summed, which then writes its result in
that order, and nothing stands between sums that are to share a meeting.
"""

from __future__ import annotations

from collections import Counter

from tetrax.ir.atoms import Atom, DropVar, Var
from tetrax.ir.program import ClosedProgram, Equation
from tetrax.ops.collective import AllReduce
from tetrax.ops.structure import reshape_p, transpose_p

_MOVES = (transpose_p, reshape_p)


def sum_after_moves(closed: ClosedProgram) -> ClosedProgram:
    """The program with moves of a sum's elements done on what is summed, where nobody else uses the
    sum.
    """
    program = closed.program
    if not any(isinstance(eqn.primitive, AllReduce) for eqn in program.eqns):
        return closed
    readers: Counter[Atom] = Counter(a for eqn in program.eqns for a in eqn.invars)
    readers.update(program.outvars)
    sums: dict[Var, Equation] = {}
    kept: list[Equation | None] = []
    places: dict[Var, int] = {}
    for eqn in program.eqns:
        source = eqn.invars[0] if eqn.primitive in _MOVES else None
        total = sums.get(source) if isinstance(source, Var) and readers[source] == 1 else None
        if total is not None and not isinstance(eqn.outvars[0], DropVar):
            kept[places[source]] = None  # type: ignore[index]
            (operand,), (out,) = total.invars, eqn.outvars
            moved = Var(operand.aval.update(shape=out.aval.shape))
            kept.append(eqn.replace(invars=[operand], outvars=[moved]))
            eqn = total.replace(invars=[moved], outvars=[out])
        if isinstance(eqn.primitive, AllReduce) and _is_plain(eqn):
            sums[eqn.outvars[0]], places[eqn.outvars[0]] = eqn, len(kept)
        kept.append(eqn)
    eqns = [eqn for eqn in kept if eqn is not None]
    return ClosedProgram(program.replace(eqns=eqns), closed.consts)


def _is_plain(eqn: Equation) -> bool:
    """Whether it sums one array, over devices alone."""
    return len(eqn.invars) == 1 and not any(isinstance(a, int) for a in eqn.params["axes"])
