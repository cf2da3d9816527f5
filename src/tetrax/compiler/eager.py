"""Seam 1: what runs an operation outside any transformation.

An operation with a NumPy reference runs it at once; the others are compiled, with a cache.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax.compiler.executable import Executable
from tetrax.compiler.pipeline import compile_program
from tetrax.config import config
from tetrax.ir.control import Inline
from tetrax.ir.program import ClosedProgram, Literal
from tetrax.ir.types import ShapedArray, storage_dtype
from tetrax.runtime.array import Array, as_value, wrap
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.staging import stage

_LIMIT = 20_000
_types: dict[Any, list[ShapedArray]] = {}
_single: dict[Any, Executable] = {}
_by_program: weakref.WeakKeyDictionary[ClosedProgram, dict[Any, Executable]] = (
    weakref.WeakKeyDictionary()
)
_programs: weakref.WeakKeyDictionary[ClosedProgram, Executable] = weakref.WeakKeyDictionary()


def evaluate(primitive: Primitive, args: Sequence[Any], params: dict) -> Any:
    """The value of `primitive` on concrete operands."""
    arrays: list[Any] = [x if type(x) is Array else as_value(x) for x in args]
    reference = primitive.reference
    if reference is None or primitive.runs_compiled([x.aval for x in arrays], params):
        outs = _compiled(primitive, arrays, params)
        outs = outs if primitive.multiple_results else outs[0]
    else:
        out_avals = result_types(primitive, [x.aval for x in arrays], params)
        with np.errstate(all="ignore"):
            values = reference(*[x._value for x in arrays], **params)
        if primitive.multiple_results:
            outs: Any = [_result(v, aval) for v, aval in zip(values, out_avals, strict=True)]
        else:
            outs = _result(values, out_avals[0])
    if config.debug_nans or config.debug_infs:
        check_special(primitive.name, outs if primitive.multiple_results else [outs])
    return outs


def _result(out: Any, aval: ShapedArray) -> Array:
    if type(out) is not np.ndarray:
        out = np.asarray(out)
    storage = storage_dtype(aval.dtype)
    if out.dtype != storage:
        out = out.astype(storage)
    return wrap(out, aval)


def result_types(
    primitive: Primitive, avals: Sequence[ShapedArray], params: dict
) -> list[ShapedArray]:
    """`primitive.out_avals`, remembered per operand types and parameters."""
    try:
        key = (primitive, *avals, *params.items()) if params else (primitive, *avals)
        found = _types.get(key)
    except TypeError:  # a parameter without a hash
        return primitive.out_avals(avals, params)
    if found is None:
        if len(_types) >= _LIMIT:
            _types.clear()
        found = _types[key] = primitive.out_avals(avals, params)
    return found


def _compiled(primitive: Primitive, arrays: Sequence[Array], params: dict) -> list[Array]:
    """Run the operation as a program of one equation."""
    avals = [x.aval for x in arrays]
    structure = primitive.structure
    described = None if structure is None else structure(avals, **params)
    if isinstance(described, Inline):
        if config.debug_nans or config.debug_infs:
            return _run_checked(described.program, arrays)
        return executable_of(described.program)(arrays)
    cache = _cache_for(params)
    key: Any = (primitive, *avals, *((name, _held_weakly(v)) for name, v in params.items()))
    try:
        executable = cache.get(key)
    except TypeError:  # a parameter without a hash
        return compile_program(_single_equation(primitive, avals, params))(arrays)
    if executable is None:
        executable = compile_program(_single_equation(primitive, avals, params))
        if len(cache) >= _LIMIT:
            cache.clear()
        cache[key] = executable
    return executable(arrays)


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


def executable_of(closed: ClosedProgram) -> Executable:
    """Machine code of a program, compiled once per program object."""
    found = _programs.get(closed)
    if found is None:
        found = _programs[closed] = compile_program(closed)
    return found


def clear_caches() -> None:
    """Forget compiled programs and remembered result types."""
    for cache in (_types, _single, _by_program, _programs):
        cache.clear()


def check_special(name: str, outs: Sequence[Array]) -> None:
    """Raises FloatingPointError for NaN or infinity, as config.debug_nans and debug_infs ask."""
    for out in outs:
        value = out._npy
        if value is None or not dtypes.issubdtype(out.aval.dtype, np.inexact):
            continue
        if config.debug_nans and np.isnan(value).any():
            raise FloatingPointError(f"invalid value (nan) encountered in {name}")
        if config.debug_infs and np.isinf(value).any():
            raise FloatingPointError(f"invalid value (inf) encountered in {name}")
