"""Algebra that changes no value: identities that hold for every operand, NaN and -0 included.

A rule sees an equation and the definitions of variables, and answers with the atom the result is
equal to, or None. Nothing here rewrites `x + 0.0` (which turns -0 into 0) or reassociates floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tetrax.ir.atoms import Atom, Literal, Var
from tetrax.ir.program import ClosedProgram, Equation

Definitions = Mapping[Var, Equation]
Rule = Callable[[Equation, Definitions], Atom | None]


def simplify(closed: ClosedProgram) -> ClosedProgram:
    program = closed.program
    equal: dict[Atom, Atom] = {}
    definitions: dict[Var, Equation] = {}
    eqns = []
    for eqn in program.eqns:
        eqn = eqn.substitute(equal)
        rule = _RULES.get(eqn.primitive.name)
        found = None if rule is None or eqn.effects else rule(eqn, definitions)
        if found is not None and _same_type(found, eqn.outvars[0]):
            equal[eqn.outvars[0]] = found
            continue
        eqns.append(eqn)
        for var in eqn.outvars:
            definitions[var] = eqn
    outvars = [equal.get(atom, atom) for atom in program.outvars]
    return ClosedProgram(program.replace(eqns=eqns, outvars=outvars), closed.consts)


def _same_type(first: Atom, second: Atom) -> bool:
    return first.aval.shape == second.aval.shape and first.aval.dtype == second.aval.dtype


def uniform_value(atom: Atom, definitions: Definitions) -> Any:
    """The scalar that every element of `atom` equals, or None."""
    if isinstance(atom, Literal):
        return atom.scalar[()]
    eqn = definitions.get(atom)
    if eqn is not None and eqn.primitive.name == "broadcast_in_dim":
        return uniform_value(eqn.invars[0], definitions)
    return None


def _is(atom: Atom, value: int, definitions: Definitions) -> bool:
    constant = uniform_value(atom, definitions)
    return (
        constant is not None
        and getattr(constant, "dtype", None) is not None
        and bool(constant == value)
    )


def _times_one(eqn: Equation, definitions: Definitions) -> Atom | None:
    x, y = eqn.invars
    # A complex product by 1 + 0i is not the identity on infinities.
    if eqn.outvars[0].aval.dtype.kind == "c":
        return None
    if _is(y, 1, definitions):
        return x
    return y if _is(x, 1, definitions) else None


def _over_one(eqn: Equation, definitions: Definitions) -> Atom | None:
    x, y = eqn.invars
    return x if eqn.outvars[0].aval.dtype.kind != "c" and _is(y, 1, definitions) else None


def _plus_zero(eqn: Equation, definitions: Definitions) -> Atom | None:
    x, y = eqn.invars
    if eqn.outvars[0].aval.dtype.kind not in "iu":
        return None
    if _is(y, 0, definitions):
        return x
    return y if _is(x, 0, definitions) else None


def _inverse_of(eqn: Equation, definitions: Definitions) -> Atom | None:
    """The operand's operand, where both are the same involution."""
    (x,) = eqn.invars
    inner = definitions.get(x) if isinstance(x, Var) else None
    if inner is not None and inner.primitive is eqn.primitive and inner.params == eqn.params:
        return inner.invars[0]
    return None


def _no_move(eqn: Equation, definitions: Definitions) -> Atom | None:
    """The operand itself, where the result has its type and order."""
    x = eqn.invars[0]
    if eqn.primitive.name == "transpose":
        order = eqn.params["permutation"]
        return x if tuple(order) == tuple(range(len(order))) else None
    return x


def _undone_transpose(eqn: Equation, definitions: Definitions) -> Atom | None:
    (x,) = eqn.invars
    inner = definitions.get(x) if isinstance(x, Var) else None
    if inner is None or inner.primitive is not eqn.primitive:
        return _no_move(eqn, definitions)
    first, second = inner.params["permutation"], eqn.params["permutation"]
    undone = all(first[axis] == i for i, axis in enumerate(second))
    return inner.invars[0] if undone else _no_move(eqn, definitions)


_RULES: dict[str, Rule] = {
    "mul": _times_one,
    "div": _over_one,
    "add": _plus_zero,
    "add_any": _plus_zero,
    "neg": _inverse_of,
    "not": _inverse_of,
    "rev": _inverse_of,
    "transpose": _undone_transpose,
    # These are the identity where operand and result have one type.
    "reshape": _no_move,
    "convert_element_type": _no_move,
    "squeeze": _no_move,
    "copy": _no_move,
    "stop_gradient": _no_move,
}
