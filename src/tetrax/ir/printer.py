"""Programs as text: the form that `print(program)`, golden tests and the parser share."""

from __future__ import annotations

import enum
import string
from typing import Any

import numpy as np
from tetrax.ir.atoms import DropVar, Literal
from tetrax.ir.types import ShapedArray

_INDENT = "  "


class Names:
    """Gives variables the names a, b, …, z, ba, bb, … in order of first sight."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}

    def __call__(self, atom: Any) -> str:
        if isinstance(atom, Literal):
            return literal_text(atom)
        if isinstance(atom, DropVar):
            return "_"
        name = self._names.get(atom)
        if name is None:
            name = self._names[atom] = _letters(len(self._names))
        return name


def _letters(number: int) -> str:
    digits = []
    while True:
        number, digit = divmod(number, 26)
        digits.append(string.ascii_lowercase[digit])
        if not number:
            return "".join(reversed(digits))


def literal_text(literal: Literal) -> str:
    value = literal.val
    value = value.item() if hasattr(value, "item") else value
    return f"{value!r}:{aval_text(literal.aval)}"


def aval_text(aval: Any) -> str:
    if isinstance(aval, ShapedArray):
        return aval.str_short(short_dtypes=True) + ("~" if aval.weak_type else "")
    return str(aval)


Shared = dict[int, str]
"""The names of programs that are printed once, by the identity of the program."""


def program_text(program: Any) -> str:
    """The text of `program`; nested ones that several equations hold are defined before it."""
    shared: Shared = {}
    definitions = []
    for inner in _held_several_times(program):
        text = _program_text(inner, 0, shared)
        shared[id(inner)] = f"program{len(shared) + 1}"
        definitions.append(f"let {shared[id(inner)]} = {text} in\n")
    return "".join(definitions) + _program_text(program, 0, shared)


def _held_several_times(program: Any) -> list[Any]:
    """The programs inside that more than one equation holds, inner ones first."""
    counts: dict[int, int] = {}
    order: list[Any] = []

    def visit(value: Any) -> None:
        for eqn in value.eqns:
            for inner in _programs_in(tuple(eqn.params.values())):
                counts[id(inner)] = counts.get(id(inner), 0) + 1
                if counts[id(inner)] == 1:
                    visit(inner)
                    order.append(inner)

    visit(program)
    return [inner for inner in order if counts[id(inner)] > 1 and inner.eqns]


def _programs_in(value: Any) -> list[Any]:
    if hasattr(value, "program"):
        return [value.program]
    if hasattr(value, "eqns"):
        return [value]
    if isinstance(value, tuple):
        return [program for item in value for program in _programs_in(item)]
    return []


def _program_text(program: Any, indent: int, shared: Shared) -> str:
    names = Names()
    pad = _INDENT * indent

    def typed(v):
        return f"{names(v)}:{aval_text(v.aval)}"

    consts = " ".join(map(typed, program.constvars))
    args = " ".join(map(typed, program.invars))
    head = f"{{ lambda {consts + ' ' if consts else ''}; {args}. let"
    lines = [head]
    lines += [
        pad + _INDENT * 2 + _equation_text(eqn, names, indent + 2, shared) for eqn in program.eqns
    ]
    results = ", ".join(map(names, program.outvars)) + ("," if len(program.outvars) == 1 else "")
    lines.append(f"{pad}{_INDENT}in ({results}) }}")
    return "\n".join(lines)


def _equation_text(eqn: Any, names: Names, indent: int, shared: Shared) -> str:
    outs = " ".join(f"{names(v)}:{aval_text(v.aval)}" for v in eqn.outvars)
    params = " ".join(
        f"{key}={_param_text(value, indent, shared)}" for key, value in sorted(eqn.params.items())
    )
    operands = "".join(" " + names(v) for v in eqn.invars)
    return f"{outs} = {eqn.primitive.name}{f'[{params}]' if params else ''}{operands}"


def _param_text(value: Any, indent: int, shared: Shared) -> str:
    """One parameter; programs are printed in full or by the name they have, functions by name."""
    if hasattr(value, "program") or hasattr(value, "eqns"):
        program = getattr(value, "program", value)
        return shared.get(id(program)) or _program_text(program, indent, shared)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        inner = ", ".join(_param_text(item, indent, shared) for item in value)
        return f"({inner}{',' if len(value) == 1 else ''})"
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    return repr(value)
