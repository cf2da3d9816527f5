"""Seam 1: what runs an operation outside any transformation.

What an operation on operands of given types and parameters amounts to is found out once and kept
as a plan: run its NumPy reference, or the program of just this operation, compiled.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax._lazy import lazy_module
from tetrax.compiler import kept
from tetrax.compiler.executable import Executable
from tetrax.compiler.meshes import meshes_in
from tetrax.compiler.references import LATER, NEVER, NOW, Run, reference_run, when_to_compile
from tetrax.config import config, settings, settings_now, trace_context
from tetrax.ir.control import Constraint, Inline, Manual
from tetrax.ir.program import ClosedProgram, Literal
from tetrax.ir.types import ShapedArray
from tetrax.runtime.array import Array, as_value
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.staging import stage
from tetrax.tracing.trace import Tracer, leaked
from tetrax.tracing.value import Value

# Programs that never compile anything need no compiler.
pipeline = lazy_module("tetrax.compiler.pipeline")
sharded = lazy_module("tetrax.compiler.sharded")

_LIMIT = 20_000
CALLS_BEFORE_COMPILING = 4
_plans: dict[Any, Run] = {}
_single: dict[Any, Executable] = {}
_by_program: weakref.WeakKeyDictionary[ClosedProgram, dict[Any, Executable]] = (
    weakref.WeakKeyDictionary()
)
_programs: weakref.WeakKeyDictionary[ClosedProgram, Executable] = weakref.WeakKeyDictionary()


def evaluate(primitive: Primitive, args: Sequence[Any], params: dict) -> Any:
    """The value of `primitive` on concrete operands. Raises UnexpectedTracerError for others."""
    arrays: list[Any] = [x if type(x) is Array else _operand(x) for x in args]
    now = settings_now[0] or settings()
    if not _ON_ONE_DEVICE.issuperset(map(type, arrays)):
        outs: Any = _run_sharded(primitive, arrays, params)
    elif primitive.reference is None and primitive.structure is not None:
        outs = _run_compiled(primitive, arrays, params)
    else:
        plan = _plan(primitive, now, arrays, params)
        outs = plan(arrays)
    if not now.direct and (config.debug_nans or config.debug_infs):
        check_special(primitive.name, outs if primitive.multiple_results else [outs])
    return outs


_ON_ONE_DEVICE = frozenset([Array])


def _run_sharded(primitive: Primitive, arrays: Sequence[Array], params: dict) -> Any:
    """Run the operation on arrays of which some are cut over devices."""
    avals = [x.aval for x in arrays]
    structure = primitive.structure
    described = None if structure is None else structure(avals, **params)
    if isinstance(described, Inline):
        closed = described.program
        if config.debug_nans or config.debug_infs:
            return _run_checked(closed, arrays)
    else:
        closed = _equation_program(primitive, avals, params)
    outs = sharded.sharded_executable(closed, sharded.shardings_of(arrays))(arrays)
    return outs if primitive.multiple_results else outs[0]


_equations: dict[Any, ClosedProgram] = {}


def _equation_program(
    primitive: Primitive, avals: Sequence[ShapedArray], params: dict
) -> ClosedProgram:
    """The program of one equation, the same object each time where the parameters hash."""
    key = (primitive, trace_context(), *avals, *params.items())
    try:
        found = _equations.get(key)
    except TypeError:  # a parameter without a hash
        return _single_equation(primitive, avals, params)
    if found is None:
        if len(_equations) >= _LIMIT:
            _equations.clear()
        found = _equations[key] = _single_equation(primitive, avals, params)
    return found


def _operand(x: Any) -> Value:
    if isinstance(x, Tracer):
        raise leaked(x)
    return as_value(x)


def _plan(primitive: Primitive, now: Any, arrays: Sequence[Array], params: dict) -> Run:
    """How to run an operation on arrays of these types."""
    try:
        if params:
            key: Any = (primitive, now, *[x.aval for x in arrays], *params.items())
        else:
            key = (primitive, now, *[x.aval for x in arrays])
        found = _plans.get(key)
    except TypeError:  # a parameter without a hash
        return _make_plan(primitive, [x.aval for x in arrays], params)
    if found is None:
        found = _make_plan(primitive, [x.aval for x in arrays], params)
        if len(_plans) >= _LIMIT:
            _plans.clear()
        _plans[key] = found
    return found


def _make_plan(primitive: Primitive, avals: Sequence[ShapedArray], params: dict) -> Run:
    outs = primitive.out_avals(avals, params)
    when = when_to_compile(primitive, avals, outs, params)

    def compiled(arrays: Sequence[Array]) -> Any:
        return _run_compiled(primitive, arrays, params)

    if when == NOW:
        return compiled
    reference = reference_run(primitive, avals, outs, params)
    if when == NEVER:
        return reference
    assert when == LATER
    calls = 0

    def reference_first(arrays: Sequence[Array]) -> Any:
        nonlocal calls
        calls += 1
        return (reference if calls <= CALLS_BEFORE_COMPILING else compiled)(arrays)

    return reference_first


def _run_compiled(primitive: Primitive, arrays: Sequence[Array], params: dict) -> Any:
    outs = _compiled(primitive, arrays, params)
    return outs if primitive.multiple_results else outs[0]


def _compiled(primitive: Primitive, arrays: Sequence[Array], params: dict) -> list[Array]:
    """Run the operation as a program of one equation."""
    avals = [x.aval for x in arrays]
    structure = primitive.structure
    described = None if structure is None else structure(avals, **params)
    if isinstance(described, Manual | Constraint) or (
        isinstance(described, Inline) and meshes_in(described.program)
    ):
        outs = _run_sharded(primitive, arrays, params)
        return list(outs) if primitive.multiple_results else [outs]
    if isinstance(described, Inline):
        if config.debug_nans or config.debug_infs:
            return _run_checked(described.program, arrays)
        return executable_of(described.program)(arrays)
    cache = _cache_for(params)
    key: Any = (primitive, *avals, *((name, _held_weakly(v)) for name, v in params.items()))
    try:
        executable = cache.get(key)
    except TypeError:  # a parameter without a hash
        return pipeline.compile_program(_single_equation(primitive, avals, params))(arrays)
    if executable is None:
        executable = pipeline.compile_program(_single_equation(primitive, avals, params))
        cache[key] = executable
        executable.kept = kept.keep(executable.nbytes, partial(_forget, cache, key))
    elif executable.kept is not None:
        kept.use(executable.kept)
    return executable(arrays)


def _forget(cache: dict[Any, Executable], key: Any) -> bool:
    cache.pop(key, None)
    return True


def _cache_for(params: dict) -> dict[Any, Executable]:
    """Executables of single operations; those that hold programs live as long as the first one."""
    for value in params.values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, ClosedProgram):
                return _by_program.setdefault(item, {})
    return _single


def _held_weakly(value: Any) -> Any:
    """A parameter as part of a key that does not keep programs alive."""
    if isinstance(value, ClosedProgram):
        return weakref.ref(value)
    return tuple(map(_held_weakly, value)) if type(value) is tuple else value


def _run_checked(closed: ClosedProgram, arrays: Sequence[Any]) -> list[Any]:
    """Run a program equation by equation, so that an error about NaN names the user's line."""
    program = closed.program
    values: dict[Any, Any] = dict(zip(program.constvars, closed.consts, strict=True))
    values.update(zip(program.invars, arrays, strict=True))
    read = lambda atom: atom.val if isinstance(atom, Literal) else values[atom]
    for eqn in program.eqns:
        try:
            outs = eqn.primitive.rebind([read(atom) for atom in eqn.invars], eqn.params)
        except FloatingPointError as error:
            line = eqn.source_line()
            if line is None or '  File "' in str(error):
                raise
            raise FloatingPointError(
                f'{error}\n  File "{line.file}", line {line.line}, in {line.function}'
            ) from None
        values.update(
            zip(eqn.outvars, outs if eqn.primitive.multiple_results else [outs], strict=True)
        )
    return [as_value(read(atom)) for atom in program.outvars]


def _single_equation(
    primitive: Primitive, avals: Sequence[ShapedArray], params: dict
) -> ClosedProgram:
    def run(*args: Any) -> tuple[list[Any], None]:
        outs = primitive.rebind(args, params)
        return (list(outs) if primitive.multiple_results else [outs]), None

    return stage(run, avals)[0]


def executable_of(closed: ClosedProgram, donated: tuple[int, ...] = ()) -> Executable:
    """Machine code of a program, compiled once per program object if it uses up no operand."""
    if donated:
        return pipeline.compile_program(closed, donated)
    found = _programs.get(closed)
    if found is None:
        found = _programs[closed] = pipeline.compile_program(closed)
    return found


def clear_caches() -> None:
    """Forget compiled programs and remembered result types."""
    for cache in (_plans, _single, _by_program, _programs, _equations):
        cache.clear()


def check_special(name: str, outs: Sequence[Array]) -> None:
    """Raises FloatingPointError for NaN or infinity, as config.debug_nans and debug_infs ask."""
    for out in outs:
        if out.is_deleted() or not dtypes.issubdtype(out.aval.dtype, np.inexact):
            continue
        if config.debug_nans and np.isnan(out._npy).any():
            raise FloatingPointError(f"invalid value (nan) encountered in {name}")
        if config.debug_infs and np.isinf(out._npy).any():
            raise FloatingPointError(f"invalid value (inf) encountered in {name}")
