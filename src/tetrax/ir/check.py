"""The program checker: every rule of the IR, each with a sentence."""

from __future__ import annotations

from typing import Any

from tetrax.errors import ProgramError
from tetrax.ir.atoms import Atom, DropVar, Literal, Var
from tetrax.ir.program import ClosedProgram, Equation, Program, join_effects, subprograms
from tetrax.ir.types import ShapedArray


def check_closed(closed: ClosedProgram) -> None:
    """Check a program and that its constants have the types of its constant variables."""
    program = closed.program
    if len(program.constvars) != len(closed.consts):
        raise ProgramError(
            f"a closed program needs one constant per constant variable: {len(program.constvars)} "
            f"variables, {len(closed.consts)} constants"
        )
    for var, value in zip(program.constvars, closed.consts, strict=True):
        shape = getattr(value, "shape", ())
        if tuple(shape) != var.aval.shape:
            raise ProgramError(
                f"a constant of shape {tuple(shape)} is bound to a variable of type "
                f"{var.aval.str_short()}"
            )
    check_program(program)


def check_program(program: Program) -> None:
    """Raises ProgramError unless `program` follows the rules.

    Variables are defined once and before use; operands and results have the types that the
    operation's shape rule says; effects are those of the equations.
    """
    defined: set[Var] = set()
    for var in (*program.constvars, *program.invars):
        _define(defined, var, "an input")
    for index, eqn in enumerate(program.eqns):
        _check_equation(index, eqn, defined)
    for atom in program.outvars:
        _check_use(atom, defined, "a result of the program")
    if program.effects != join_effects(program.eqns):
        raise ProgramError(
            f"the program declares effects {set(program.effects)}, its equations have "
            f"{set(join_effects(program.eqns))}"
        )


def _define(defined: set[Var], var: Var, what: str) -> None:
    if not isinstance(var, Var):
        raise ProgramError(f"{what} must be a variable, got {var!r}")
    if isinstance(var, DropVar):
        return
    if var in defined:
        raise ProgramError(f"{what} of type {var.aval.str_short()} is defined twice")
    defined.add(var)


def _check_use(atom: Atom, defined: set[Var], what: str) -> None:
    if isinstance(atom, Literal):
        if atom.aval.shape:
            raise ProgramError(
                f"{what} is a literal of shape {atom.aval.shape}; literals are scalars"
            )
        return
    if atom not in defined:
        raise ProgramError(f"{what} of type {atom.aval.str_short()} is used before it is defined")


def _check_equation(index: int, eqn: Equation, defined: set[Var]) -> None:
    name = eqn.primitive.name
    for position, atom in enumerate(eqn.invars):
        _check_use(atom, defined, f"operand {position} of equation {index} ({name})")
    for inner in subprograms(eqn.params):
        check_program(inner)
    avals = [atom.aval for atom in eqn.invars]
    expected = eqn.primitive.out_avals(avals, eqn.params)
    if len(expected) != len(eqn.outvars):
        raise ProgramError(
            f"equation {index} ({name}) has {len(eqn.outvars)} results, its rule gives "
            f"{len(expected)}"
        )
    for position, (var, aval) in enumerate(zip(eqn.outvars, expected, strict=True)):
        if not _same(var.aval, aval):
            raise ProgramError(
                f"result {position} of equation {index} ({name}) is typed "
                f"{var.aval.str_short()}, its "
                f"rule gives {aval.str_short()}"
            )
        _define(defined, var, f"result {position} of equation {index} ({name})")
    wanted = eqn.primitive.effects(*avals, **eqn.params)
    if eqn.effects != wanted:
        raise ProgramError(
            f"equation {index} ({name}) declares effects {set(eqn.effects)}, its rule gives "
            f"{set(wanted)}"
        )


def _same(first: Any, second: Any) -> bool:
    return isinstance(first, ShapedArray) and first.same_type(second)
