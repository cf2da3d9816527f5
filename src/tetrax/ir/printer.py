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


def program_text(program: Any, indent: int = 0) -> str:
    """The text of `program`; nested programs are indented by `indent` levels."""
    names = Names()
    pad = _INDENT * indent

    def typed(v):
        return f"{names(v)}:{aval_text(v.aval)}"

    consts = " ".join(map(typed, program.constvars))
    args = " ".join(map(typed, program.invars))
    head = f"{{ lambda {consts + ' ' if consts else ''}; {args}. let"
    lines = [head]
    lines += [pad + _INDENT * 2 + _equation_text(eqn, names, indent + 2) for eqn in program.eqns]
    results = ", ".join(map(names, program.outvars)) + ("," if len(program.outvars) == 1 else "")
    lines.append(f"{pad}{_INDENT}in ({results}) }}")
    return "\n".join(lines)


def _equation_text(eqn: Any, names: Names, indent: int) -> str:
    outs = " ".join(f"{names(v)}:{aval_text(v.aval)}" for v in eqn.outvars)
    params = " ".join(
        f"{key}={param_text(value, indent)}" for key, value in sorted(eqn.params.items())
    )
    operands = "".join(" " + names(v) for v in eqn.invars)
    return f"{outs} = {eqn.primitive.name}{f'[{params}]' if params else ''}{operands}"


def param_text(value: Any, indent: int = 0) -> str:
    """One parameter; programs are printed in full, functions by name."""
    if hasattr(value, "program"):
        return program_text(value.program, indent)
    if hasattr(value, "eqns"):
        return program_text(value, indent)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        inner = ", ".join(param_text(item, indent) for item in value)
        return f"({inner}{',' if len(value) == 1 else ''})"
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    return repr(value)
