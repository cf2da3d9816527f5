"""Which meshes of devices a program speaks of."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tetrax.ir.control import Constraint, Manual
from tetrax.ir.program import ClosedProgram, Equation
from tetrax.transforms.program_cache import cached_on_program


@cached_on_program
def meshes_in(closed: ClosedProgram) -> tuple[Any, ...]:
    """The meshes that a program names, in it and in the programs it holds."""
    found: list[Any] = []
    for eqn in closed.eqns:
        for held in _held(eqn):
            if isinstance(held, Manual | Constraint):
                found.append(held.mesh)
            elif isinstance(held, ClosedProgram):
                found += meshes_in(held)
    return tuple(dict.fromkeys(found))


def _held(eqn: Equation) -> list[Any]:
    structure = eqn.primitive.structure
    if structure is None:
        return []
    described = structure([atom.aval for atom in eqn.invars], **eqn.params)
    parts = [getattr(described, field.name) for field in fields(described)]
    programs = [p for part in parts for p in (part if isinstance(part, tuple) else (part,))]
    return [described, *(p for p in programs if isinstance(p, ClosedProgram))]
