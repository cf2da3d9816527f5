"""The array-level IR: a `Program` is a list of equations between typed variables.

Field names (`eqns, invars, outvars, constvars, primitive, params, aval`) are the ones that
libraries written for JAX read and build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tetrax.ir.atoms import Atom, DropVar, Literal, Var
from tetrax.ir.printer import program_text
from tetrax.ir.types import AbstractValue


@dataclass(frozen=True)
class Effect:
    """Something an equation does besides computing its results."""

    name: str
    ordered: bool = False


__all__ = [
    "NO_EFFECTS",
    "Atom",
    "ClosedProgram",
    "DebugInfo",
    "DropVar",
    "Effect",
    "Effects",
    "Equation",
    "Literal",
    "Program",
    "SourceLine",
    "Var",
    "fresh_vars",
    "join_effects",
    "live_equations",
    "subprograms",
]

Effects = frozenset[Effect]
NO_EFFECTS: Effects = frozenset()


@dataclass(frozen=True)
class SourceLine:
    """The user's line that made an equation."""

    file: str
    line: int
    function: str
    name_stack: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


@dataclass(frozen=True, slots=True, eq=False)
class Equation:
    """`outvars = primitive[params](*invars)`."""

    invars: list[Atom]
    outvars: list[Var]
    primitive: Any
    params: dict[str, Any]
    effects: Effects = NO_EFFECTS
    source: Callable[[], SourceLine | None] | None = None

    def replace(self, **changes: Any) -> Equation:
        return replace(self, **changes)

    def between(self, invars: list[Atom], outvars: list[Var]) -> Equation:
        """The same operation on other operands, with other results."""
        return Equation(invars, outvars, self.primitive, self.params, self.effects, self.source)

    def substitute(self, replacements: Mapping[Atom, Atom]) -> Equation:
        """The equation on other operands; itself where none of its operands is replaced."""
        for atom in self.invars:
            if atom in replacements:
                invars = [replacements.get(atom, atom) for atom in self.invars]
                return self.between(invars, self.outvars)
        return self

    def source_line(self) -> SourceLine | None:
        return None if self.source is None else self.source()


@dataclass(frozen=True)
class DebugInfo:
    """Where a program came from: function name and argument paths, for messages."""

    function: str = "<unknown>"
    arg_names: tuple[str, ...] = ()
    result_paths: tuple[str, ...] = ()

    @property
    def func_src_info(self) -> str:
        return self.function


@dataclass(frozen=True, eq=False)
class Program:
    """Equations over `constvars + invars`, giving `outvars`."""

    constvars: list[Var]
    invars: list[Var]
    outvars: list[Atom]
    eqns: list[Equation]
    effects: Effects = NO_EFFECTS
    debug_info: DebugInfo = field(default_factory=DebugInfo)

    def replace(self, **changes: Any) -> Program:
        return replace(self, **changes)

    def __str__(self) -> str:
        return program_text(self)

    __repr__ = __str__

    @property
    def in_avals(self) -> list[Any]:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[Any]:
        return [v.aval for v in self.outvars]

    @property
    def is_high(self) -> bool:
        return False


@dataclass(frozen=True, eq=False)
class ClosedProgram:
    """A program with the values of its `constvars`."""

    program: Program
    consts: list[Any]

    @property
    def jaxpr(self) -> Program:
        return self.program

    @property
    def literals(self) -> list[Any]:
        return self.consts

    @property
    def in_avals(self) -> list[Any]:
        return [v.aval for v in self.program.invars]

    @property
    def out_avals(self) -> list[Any]:
        return [v.aval for v in self.program.outvars]

    @property
    def eqns(self) -> list[Equation]:
        return self.program.eqns

    @property
    def effects(self) -> Effects:
        return self.program.effects

    def replace(self, **changes: Any) -> ClosedProgram:
        if "jaxpr" in changes:
            changes["program"] = changes.pop("jaxpr")
        return replace(self, **changes)

    def map_program(self, f: Callable[[Program], Program]) -> ClosedProgram:
        return ClosedProgram(f(self.program), self.consts)

    def __str__(self) -> str:
        return program_text(self.program)

    __repr__ = __str__


def subprograms(params: dict[str, Any]) -> Iterator[Program]:
    """The programs that an equation holds in its parameters."""
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, ClosedProgram):
                yield item.program
            elif isinstance(item, Program):
                yield item


def join_effects(eqns: Sequence[Equation]) -> Effects:
    """The union of the effects of `eqns`."""
    found: set[Effect] = set()
    for eqn in eqns:
        if eqn.effects:
            found |= eqn.effects
    return frozenset(found) if found else NO_EFFECTS


def fresh_vars(avals: Sequence[AbstractValue]) -> list[Var]:
    """One new variable per type."""
    return [Var(aval) for aval in avals]


def live_equations(eqns: Sequence[Equation], outvars: Sequence[Atom]) -> list[Equation]:
    """The equations whose results are needed for `outvars`, or that have effects."""
    needed = {atom for atom in outvars if isinstance(atom, Var)}
    kept = []
    for eqn in reversed(eqns):
        if eqn.effects or any(var in needed for var in eqn.outvars):
            kept.append(eqn)
            needed.update(atom for atom in eqn.invars if isinstance(atom, Var))
    kept.reverse()
    return kept


def needed_inputs(program: Program, wanted: Sequence[bool]) -> list[bool]:
    """Which inputs the `wanted` results (and effects) of a program depend on."""
    outs = [atom for atom, want in zip(program.outvars, wanted, strict=True) if want]
    needed = {atom for atom in outs if isinstance(atom, Var)}
    for eqn in live_equations(program.eqns, outs):
        needed.update(atom for atom in eqn.invars if isinstance(atom, Var))
    return [var in needed for var in program.invars]


def restrict(
    closed: ClosedProgram, inputs: Sequence[bool], outputs: Sequence[bool]
) -> ClosedProgram:
    """The program with some of its inputs and outputs; those left out must not be needed."""
    program = closed.program
    return ClosedProgram(
        program.replace(
            invars=[v for v, keep in zip(program.invars, inputs, strict=True) if keep],
            outvars=[v for v, keep in zip(program.outvars, outputs, strict=True) if keep],
            eqns=live_equations(
                program.eqns,
                [v for v, keep in zip(program.outvars, outputs, strict=True) if keep],
            ),
        ),
        closed.consts,
    )
