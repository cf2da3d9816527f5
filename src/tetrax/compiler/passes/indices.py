"""Scatters count negative indices from the end themselves: that saves a pass over the indices."""

from __future__ import annotations

from tetrax.compiler.passes.simplify import uniform_value
from tetrax.ir.atoms import Atom, Var
from tetrax.ir.program import ClosedProgram, Equation
from tetrax.ops.scatter import Scatter


def absorb_wrapping(closed: ClosedProgram) -> ClosedProgram:
    """Scatters of `where(i < 0, i + n, i)` as scatters of `i` that are told to do this."""
    definitions: dict[Var, Equation] = {}
    eqns: list[Equation] = []
    for eqn in closed.program.eqns:
        if isinstance(eqn.primitive, Scatter) and isinstance(eqn.invars[1], Var):
            eqns += _absorbed(eqn, definitions)
        else:
            eqns.append(eqn)
        definitions.update((var, eqn) for var in eqn.outvars)
    return ClosedProgram(closed.program.replace(eqns=eqns), closed.consts)


def _absorbed(eqn: Equation, definitions: dict[Var, Equation]) -> list[Equation]:
    mapped = eqn.params["dimension_numbers"].scatter_dims_to_operand_dims
    spread = definitions.get(eqn.invars[1])  # type: ignore[arg-type]
    if len(mapped) != 1 or spread is None or spread.primitive.name != "broadcast_in_dim":
        return [eqn]
    extent = eqn.invars[0].aval.shape[mapped[0]]
    plain = _unwrapped(spread.invars[0], extent, definitions)
    if plain is None:
        return [eqn]
    (out,) = spread.outvars
    indices = Var(out.aval)
    operand, _, updates = eqn.invars
    return [
        spread.replace(invars=[plain], outvars=[indices]),
        eqn.replace(
            invars=[operand, indices, updates], params={**eqn.params, "counts_from_end": True}
        ),
    ]


def _unwrapped(atom: Atom, extent: int, definitions: dict[Var, Equation]) -> Atom | None:
    """`i` of `where(i < 0, i + extent, i)`."""
    chosen = definitions.get(atom) if isinstance(atom, Var) else None
    if chosen is None or chosen.primitive.name != "select_n" or len(chosen.invars) != 3:
        return None
    test, plain, moved = chosen.invars
    negative = definitions.get(test) if isinstance(test, Var) else None
    added = definitions.get(moved) if isinstance(moved, Var) else None
    if negative is None or negative.primitive.name != "lt" or negative.invars[0] is not plain:
        return None
    if added is None or added.primitive.name != "add" or plain not in added.invars:
        return None
    (other,) = [a for a in added.invars if a is not plain] or [plain]
    is_zero = uniform_value(negative.invars[1], definitions)
    distance = uniform_value(other, definitions)
    return plain if is_zero == 0 and distance == extent else None
