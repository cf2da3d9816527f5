"""Staging: run a function on tracers and write down what it does as a `Program`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax.ir.program import (
    Atom,
    ClosedProgram,
    DebugInfo,
    Effects,
    Equation,
    Literal,
    Program,
    SourceLine,
    Var,
    join_effects,
)
from tetrax.ir.types import ShapedArray
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.source import current_source, inherit_source
from tetrax.tracing.trace import Trace, Tracer, current_trace, leaked, state
from tetrax.tracing.value import Value, get_aval, is_operand

Source = Callable[[], SourceLine | None]


class StagingTracer(Tracer):
    """Stands for a variable of the program being written."""

    __slots__ = ("_var", "aval", "origin", "source")

    def __init__(self, trace: Trace, var: Var, source: Source | None, origin: str) -> None:
        self._trace = trace
        self.aval = var.aval
        self._var = var
        self.source = source
        self.origin = origin

    def describe(self) -> str:
        line = self.source() if self.source is not None else None
        made = f" made at {line}" if line is not None else ""
        names = self._trace.arguments_behind(self._var) if self.source is not None else []  # type: ignore[attr-defined]
        depends = f"; it depends on the argument(s) {', '.join(names)}" if names else ""
        return f"a traced {self.aval.str_short()}, {self.origin}{made}{depends}"


class ProgramBuilder:
    """Collects equations; turns constants met on the way into `constvars`."""

    def __init__(self) -> None:
        self.invars: list[Var] = []
        self.constvars: list[Var] = []
        self.consts: list[Any] = []
        self.eqns: list[Equation] = []
        self._const_vars: dict[int, Var] = {}

    def constant(self, x: Any) -> Atom:
        """A scalar becomes a literal, anything else a constant variable (one per object)."""
        if not is_operand(x):
            get_aval(x)  # raises
        literal = scalar_literal(x)
        if literal is not None:
            return literal
        var = self._const_vars.get(id(x))
        if var is None:
            var = self._const_vars[id(x)] = Var(get_aval(x))
            self.constvars.append(var)
            self.consts.append(x)
        return var

    def equation(
        self,
        primitive: Any,
        invars: list[Atom],
        params: dict,
        out_avals: Sequence[ShapedArray],
        effects: Effects,
        source: Source | None,
    ) -> list[Var]:
        outvars = [Var(aval) for aval in out_avals]
        self.eqns.append(Equation(invars, outvars, primitive, params, effects, source))
        return outvars

    def build(self, outvars: list[Atom], debug_info: DebugInfo) -> ClosedProgram:
        used = _used_vars(self.eqns, outvars)
        keep = [i for i, var in enumerate(self.constvars) if var in used]
        program = Program(
            [self.constvars[i] for i in keep],
            self.invars,
            outvars,
            self.eqns,
            join_effects(self.eqns),
            debug_info,
        )
        return ClosedProgram(program, [self.consts[i] for i in keep])


def _used_vars(eqns: Sequence[Equation], outvars: Sequence[Atom]) -> set[Any]:
    used = {atom for eqn in eqns for atom in eqn.invars if isinstance(atom, Var)}
    used.update(atom for atom in outvars if isinstance(atom, Var))
    return used


def scalar_literal(x: Any) -> Literal | None:
    """`x` as a literal if it is a concrete plain scalar."""
    if isinstance(x, Value):
        if isinstance(x, Tracer) or x.aval.shape or x.aval.dtype not in _LITERAL_DTYPES:
            return None
        return Literal(x, x.aval)
    if isinstance(x, np.ndarray) and x.ndim:
        return None
    return Literal(x, get_aval(x))


_LITERAL_DTYPES = {np.dtype(code) for code in "?bhilqBHILQefdFD"}


class StagingTrace(Trace):
    """Records every operation, whatever its operands are."""

    __slots__ = ("builder", "debug_info", "live", "parent")
    is_staging = True

    def __init__(self, debug_info: DebugInfo, parent: Trace | None = None) -> None:
        self.builder = ProgramBuilder()
        self.debug_info = debug_info
        self.live = True
        self.parent = parent

    def argument(self, aval: ShapedArray, name: str = "") -> StagingTracer:
        var = Var(aval)
        self.builder.invars.append(var)
        origin = f"argument {name or len(self.builder.invars) - 1} of {self.debug_info.function}"
        return StagingTracer(self, var, None, origin)

    def arguments_behind(self, var: Var) -> list[str]:
        """Names of the arguments that `var` was computed from."""
        needed = {var}
        for eqn in reversed(self.builder.eqns):
            if any(out in needed for out in eqn.outvars):
                needed.update(a for a in eqn.invars if isinstance(a, Var))
        names = self.debug_info.arg_names
        return [
            names[i] if i < len(names) else str(i)
            for i, v in enumerate(self.builder.invars)
            if v in needed
        ]

    def atom(self, x: Any) -> Atom:
        if isinstance(x, StagingTracer):
            if x._trace is self:
                return x._var
            if not x._trace.live:  # type: ignore[attr-defined]
                raise leaked(x)
        return self.builder.constant(x)

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict) -> Any:
        atoms = [self.atom(x) for x in args]
        avals = [atom.aval for atom in atoms]
        out_avals = primitive.out_avals(avals, params)
        effects = primitive.effects(*avals, **params)
        source = current_source()
        outvars = self.builder.equation(primitive, atoms, params, out_avals, effects, source)
        outs = self.wrap(outvars, source, primitive.name)
        return outs if primitive.multiple_results else outs[0]

    def wrap(self, outvars: Sequence[Var], source: Source | None, name: str) -> list[Any]:
        origin = f"result of {name} in {self.debug_info.function},"
        return [StagingTracer(self, var, source, origin) for var in outvars]

    def process_custom_jvp(self, primitive, fun, jvp, args, params):
        return primitive.stage(self, fun, jvp, args, params)

    def process_custom_vjp(self, primitive, fun, fwd, bwd, args, params):
        return primitive.stage(self, fun, fwd, bwd, args, params)


def stage(
    fun: Callable[..., tuple[Sequence[Any], Any]],
    in_avals: Sequence[ShapedArray],
    debug_info: DebugInfo | None = None,
) -> tuple[ClosedProgram, Any]:
    """Trace `fun` on arguments of types `in_avals`.

    `fun(*values)` returns `(results, aux)`; the answer is the program with the constants it closes
    over (which may be tracers of outer transformations), and `aux`.
    """
    debug_info = debug_info or DebugInfo()
    trace = StagingTrace(debug_info, state.trace)
    names = debug_info.arg_names
    arguments = [
        trace.argument(aval, names[i] if i < len(names) else "") for i, aval in enumerate(in_avals)
    ]
    try:
        with current_trace(trace):
            outs, aux = fun(*arguments)
            outvars = [trace.atom(out) for out in outs]
    finally:
        trace.live = False
    return trace.builder.build(outvars, debug_info), aux


def stage_flat(
    fun: Callable[..., Sequence[Any]],
    in_avals: Sequence[ShapedArray],
    debug_info: DebugInfo | None = None,
) -> ClosedProgram:
    """`stage` for functions without auxiliary output."""
    return stage(lambda *args: (fun(*args), None), in_avals, debug_info)[0]


def evaluate_program(program: Program, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Run the equations of `program` under the current trace."""
    values: dict[Var, Any] = dict(zip(program.constvars, consts, strict=True))
    values.update(zip(program.invars, args, strict=True))

    def read(atom):
        return atom.val if isinstance(atom, Literal) else values[atom]

    last_use = _last_uses(program)
    outer = inherit_source(None)
    try:
        for index, eqn in enumerate(program.eqns):
            inherit_source(eqn.source or outer)
            primitive = eqn.primitive
            outs = primitive.rebind([read(atom) for atom in eqn.invars], eqn.params)
            if primitive.multiple_results:
                values.update(zip(eqn.outvars, outs, strict=True))
            else:
                values[eqn.outvars[0]] = outs
            for var in last_use[index]:
                values.pop(var, None)
    finally:
        inherit_source(outer)
    return [read(atom) for atom in program.outvars]


def evaluate_closed(closed: ClosedProgram, *args: Any) -> list[Any]:
    """`evaluate_program` with the program's own constants."""
    return evaluate_program(closed.program, closed.consts, *args)


def _last_uses(program: Program) -> list[list[Var]]:
    """For each equation, the variables that nobody reads after it."""
    seen: set[Any] = {atom for atom in program.outvars if isinstance(atom, Var)}
    result: list[list[Var]] = []
    for eqn in reversed(program.eqns):
        ending = []
        for atom in (*eqn.invars, *eqn.outvars):
            if isinstance(atom, Var) and atom not in seen:
                seen.add(atom)
                ending.append(atom)
        result.append(ending)
    result.reverse()
    return result
