"""Text to programs: the inverse of `printer.program_text`.

Parameters may be literals, dtypes, tuples, programs, and values whose `repr` names a class the
caller allows. Nothing in the text is ever executed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import ml_dtypes

import numpy as np
from tetrax.errors import ProgramError
from tetrax.ir.atoms import Atom, DropVar, Literal, Var
from tetrax.ir.program import ClosedProgram, DebugInfo, Equation, Program, join_effects
from tetrax.ir.types import ShapedArray

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
    | (?P<number>-?(?:inf|nan|\d+\.?\d*(?:[eE][+-]?\d+)?j?|\.\d+(?:[eE][+-]?\d+)?j?))(?![A-Za-z_])
    | (?P<name>[A-Za-z_][A-Za-z_0-9.]*(?:<[a-z]+>)?)
    | (?P<symbol>[{}()\[\];:,=~<>|*.-])
    )""",
    re.X,
)
_DTYPES = {
    "bool": np.dtype(np.bool_),
    **{
        f"{p}{w}": np.dtype(f"{n}{w}")
        for p, n in (("i", "int"), ("u", "uint"))
        for w in (8, 16, 32, 64)
    },
    **{f"f{w}": np.dtype(f"float{w}") for w in (16, 32, 64)},
    **{f"c{w}": np.dtype(f"complex{w}") for w in (64, 128)},
    "bf16": np.dtype(ml_dtypes.bfloat16),
}
_LONG_DTYPES = {dtype.name: dtype for dtype in _DTYPES.values()}


def parse_program(
    text: str, primitives: Mapping[str, Any], classes: Mapping[str, Any] | None = None
) -> Program:
    """The program that `text` prints as.

    `primitives` gives operations by name, `classes` the constructors that parameters may use.
    Raises ProgramError with the place where the text cannot be understood.
    """
    parser = _Parser(text, primitives, classes or {})
    parser.definitions()
    program = parser.program()
    parser.expect_end()
    return program


class _Parser:
    def __init__(
        self, text: str, primitives: Mapping[str, Any], classes: Mapping[str, Any]
    ) -> None:
        self.text = text
        self.primitives = primitives
        self.classes = classes
        self.tokens: list[tuple[str, str, int]] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                raise ProgramError(f"cannot read {stripped[position : position + 20]!r}")
            kind = match.lastgroup or ""
            self.tokens.append((kind, match.group(kind), match.start(kind)))
            position = match.end()
        self.at = 0
        self.shared: dict[str, ClosedProgram] = {}

    # -- tokens --------------------------------------------------------------------------------

    def peek(self, ahead: int = 0) -> str:
        index = self.at + ahead
        return self.tokens[index][1] if index < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, token: str) -> None:
        found = self.next()
        if found != token:
            where = self.tokens[self.at - 1][2] if self.at <= len(self.tokens) else len(self.text)
            line = self.text.count("\n", 0, where) + 1
            raise ProgramError(f"line {line}: expected {token!r}, found {found!r}")

    def expect_end(self) -> None:
        if self.at < len(self.tokens):
            raise ProgramError(f"unexpected {self.peek()!r} after the program")

    # -- programs ------------------------------------------------------------------------------

    def definitions(self) -> None:
        """`let name = program in`, any number of times."""
        while self.peek() == "let":
            self.next()
            name = self.next()
            self.expect("=")
            self.shared[name] = ClosedProgram(self.program(), [])
            self.expect("in")

    def program(self) -> Program:
        names: dict[str, Var] = {}
        self.expect("{")
        self.expect("lambda")
        constvars = self.typed_names(names, ";")
        self.expect(";")
        invars = self.typed_names(names, "let")
        eqns = []
        self.expect("let")
        while self.peek() != "in":
            eqns.append(self.equation(names))
        self.expect("in")
        self.expect("(")
        outvars = []
        while self.peek() != ")":
            outvars.append(self.atom(names))
            if self.peek() == ",":
                self.next()
        self.expect(")")
        self.expect("}")
        return Program(constvars, invars, outvars, eqns, join_effects(eqns), DebugInfo())

    def typed_names(self, names: dict[str, Var], end: str) -> list[Var]:
        found = []
        while self.peek() != end:
            name = self.next()
            if name == ".":
                continue
            self.expect(":")
            var = DropVar(self.aval()) if name == "_" else Var(self.aval())
            names[name] = var
            found.append(var)
        return found

    def aval(self) -> ShapedArray:
        dtype_name = self.next()
        if dtype_name not in _DTYPES:
            raise ProgramError(f"no dtype is called {dtype_name!r}")
        self.expect("[")
        shape = []
        while self.peek() != "]":
            shape.append(int(self.next()))
            if self.peek() == ",":
                self.next()
        self.expect("]")
        weak = self.peek() == "~"
        if weak:
            self.next()
        return ShapedArray(tuple(shape), _DTYPES[dtype_name], weak)

    def equation(self, names: dict[str, Var]) -> Equation:
        outvars = self.typed_names(names, "=")
        self.expect("=")
        name = self.next()
        if name not in self.primitives:
            raise ProgramError(f"no operation is called {name!r}")
        primitive = self.primitives[name]
        params = self.params() if self.peek() == "[" else {}
        invars = []
        while self.peek() != "in" and not self._starts_equation():
            invars.append(self.atom(names))
        avals = [atom.aval for atom in invars]
        return Equation(invars, outvars, primitive, params, primitive.effects(*avals, **params))

    def _starts_equation(self) -> bool:
        """Whether `name : type` follows (results), as opposed to an operand."""
        return self.tokens[self.at][0] == "name" and self.peek(1) == ":" and self.peek(3) == "["

    def atom(self, names: dict[str, Var]) -> Atom:
        kind, token, _ = self.tokens[self.at]
        is_literal = kind == "number" or token in ("True", "False", "(")
        if not is_literal:
            self.next()
            if token not in names:
                raise ProgramError(f"variable {token!r} is used before it is defined")
            return names[token]
        value = self.value()
        self.expect(":")
        aval = self.aval()
        return Literal(np.asarray(value, aval.dtype)[()], aval)

    # -- parameters ----------------------------------------------------------------------------

    def params(self) -> dict[str, Any]:
        self.expect("[")
        found = {}
        while self.peek() != "]":
            key = self.next()
            self.expect("=")
            found[key] = self.value()
        self.expect("]")
        return found

    def value(self) -> Any:
        kind, token, _ = self.tokens[self.at]
        if token == "{":
            return ClosedProgram(self.program(), [])
        if token == "(":
            return self.sequence("(", ")")
        if token == "[":
            return list(self.sequence("[", "]"))
        self.next()
        if kind == "string":
            return ast.literal_eval(token)
        if kind == "number":
            return _number(token)
        constants = {"None": None, "True": True, "False": False, "inf": np.inf, "nan": np.nan}
        if token in self.shared:
            return self.shared[token]
        if token in constants:
            return constants[token]
        if token in _LONG_DTYPES:
            return _LONG_DTYPES[token]
        return self.construct(token)

    def construct(self, name: str) -> Any:
        """`Name(key=value, …)` or `Name.MEMBER` for a class the caller allows."""
        base, _, member = name.partition(".")
        if base not in self.classes:
            raise ProgramError(f"parameters may not use {name!r}")
        made = self.classes[base]
        if member:
            return getattr(made, member)
        self.expect("(")
        arguments = {}
        while self.peek() != ")":
            key = self.next()
            self.expect("=")
            arguments[key] = self.value()
            if self.peek() == ",":
                self.next()
        self.expect(")")
        return made(**arguments)

    def sequence(self, start: str, end: str) -> tuple:
        self.expect(start)
        items = []
        while self.peek() != end:
            items.append(self.value())
            if self.peek() == ",":
                self.next()
        self.expect(end)
        return tuple(items)


def _number(token: str) -> Any:
    if token.lstrip("-") in ("inf", "nan"):
        return float(token)
    return ast.literal_eval(token)
