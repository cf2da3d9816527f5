"""Functions of arrays outside transformations: what they do is written down once, then repeated.

A NumPy-style function decides about dtypes, ranks and special cases every time it is called, though
its decisions depend on the types of its operands alone. `planned` stages such a function for the
types it is called with, and from then on runs the operations it came down to: their NumPy
references one after the other for small arrays, one compiled program for large ones.

The function must not look at elements. The first call with given types and settings goes the
ordinary way; so do all calls while settings ask for something to be watched (debug_nans ...).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from tetrax import dtypes
from tetrax.compiler import kept
from tetrax.compiler.eager import CALLS_BEFORE_COMPILING, executable_of
from tetrax.compiler.executable import Executable
from tetrax.compiler.passes.dce import eliminate_dead_code
from tetrax.compiler.passes.inline import inline
from tetrax.compiler.references import LARGE, LATER, NEVER, NOW, when_to_compile
from tetrax.compiler.replay import replay
from tetrax.config import Settings, config, settings, settings_now
from tetrax.ir.program import ClosedProgram
from tetrax.ir.types import ShapedArray
from tetrax.runtime.array import Array, as_value
from tetrax.runtime.devices import Device
from tetrax.runtime.partition_spec import PartitionSpec
from tetrax.runtime.shardings import Sharding
from tetrax.tracing.staging import stage
from tetrax.tracing.trace import EVAL_TRACE, state
from tetrax.tracing.value import Value

Function = TypeVar("Function", bound=Callable[..., Any])
Plan = Callable[..., Any]

NUMBERS = frozenset((bool, int, float, complex))
_LIMIT = 4096
_tables: list[dict[Any, Any]] = []


def forget_plans() -> None:
    """Let go of everything that was written down."""
    for table in _tables:
        table.clear()


def planned(operands: int) -> Callable[[Function], Function]:
    """Decorate a function whose first `operands` arguments are arrays or numbers.

    All other arguments must be static and hashable, or the call goes the ordinary way.
    """
    if operands == 1:
        return _planned_unary
    return _planned_binary if operands == 2 else functools.partial(_planned_any, operands)


def _planned_any(operands: int, function: Any) -> Any:
    table = _Table(function, operands)
    found = table.plans.get

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if state.trace is EVAL_TRACE:
            if len(args) == operands and not kwargs:
                types = [x.aval if type(x) is Array else type(x) for x in args]
                plan = found((settings_now[0], *types))
                if plan is not None:
                    return plan(*args)
            return table.call(args, kwargs)
        return function(*args, **kwargs)

    return call


def _planned_unary(function: Any) -> Any:
    table = _Table(function, 1)
    found = table.plans.get

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if state.trace is EVAL_TRACE:
            if len(args) == 1 and not kwargs and type(args[0]) is Array:
                plan = found((settings_now[0], args[0].aval))
                if plan is not None:
                    return plan(*args)
            return table.call(args, kwargs)
        return function(*args, **kwargs)

    return call


def _planned_binary(function: Any) -> Any:
    table = _Table(function, 2)
    found = table.plans.get

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if state.trace is EVAL_TRACE:
            if len(args) == 2 and not kwargs:
                x, y = args
                first, second = type(x), type(y)
                plan = found(
                    (
                        settings_now[0],
                        x.aval if first is Array else first,
                        y.aval if second is Array else second,
                    )
                )
                if plan is not None:
                    return plan(x, y)
            return table.call(args, kwargs)
        return function(*args, **kwargs)

    return call


class _Table:
    """The plans of one function, by settings, types of operands, and static arguments."""

    def __init__(self, function: Callable[..., Any], operands: int) -> None:
        self.function = function
        self.operands = operands
        self.plans: dict[Any, Plan] = {}
        self.met: dict[Any, None] = {}
        _tables.extend((self.plans, self.met))

    def call(self, args: tuple, kwargs: dict) -> Any:
        now = settings_now[0] or settings()
        operands, static = args[: self.operands], args[self.operands :]
        try:
            key: Any = (now, *[x.aval if type(x) is Array else type(x) for x in operands])
            # 1, 1.0 and True are equal but not the same.
            for value in static:
                key += (type(value), value) if type(value) is not tuple else _typed(value)
            for name, value in kwargs.items():
                key += (name, type(value), value)
            plan = self.plans.get(key)
        except TypeError:  # an argument without a hash
            return self.function(*args, **kwargs)
        if plan is None:
            return self._learn(key, now, operands, static, kwargs)
        return plan(*operands) if plan is not self.function else plan(*args, **kwargs)

    def _learn(self, key: Any, now: Settings, operands: tuple, static: tuple, kwargs: dict) -> Any:
        ordinary = self.function
        large = any(type(x) is Array and x.aval.size >= LARGE for x in operands)
        if key not in self.met and not large:
            if len(self.met) >= _LIMIT:
                self.met.clear()
            self.met[key] = None
            return ordinary(*operands, *static, **kwargs)
        plan = None
        if now.direct and len(operands) == self.operands and not _is_special(static, kwargs):
            plan = make_plan(ordinary, operands, static, kwargs, partial(self._keep, key))
        if len(self.plans) >= _LIMIT:
            self.plans.clear()
        self.plans[key] = plan or ordinary
        return plan(*operands) if plan else ordinary(*operands, *static, **kwargs)

    def _keep(self, key: Any, executable: Executable) -> None:
        """Count the code of a plan in, so that it goes when there is too much."""
        executable.kept = kept.keep(executable.nbytes, partial(self._forget, key))

    def _forget(self, key: Any) -> bool:
        self.plans.pop(key, None)
        return True


def _typed(values: tuple) -> tuple:
    return tuple, values, *map(type, values)


def _is_special(static: tuple, kwargs: dict) -> bool:
    """Whether a call places its result or warns, which a plan would not do."""
    values = (*static, *kwargs.values())
    if any(isinstance(value, Device | Sharding | PartitionSpec) for value in values):
        return True
    if config.numpy_rank_promotion == "warn":
        return True
    return not config.enable_x64 and any(map(_is_64_bits, values))


def _is_64_bits(value: Any) -> bool:
    """Whether a value names a dtype that has to be narrowed."""
    if not isinstance(value, str | type | np.dtype) or value in NUMBERS:
        return False
    try:
        named = np.dtype(value)
    except TypeError:
        return False
    return dtypes.canonicalize_dtype(named) != named


# -- making plans ----------------------------------------------------------------------------------


def make_plan(
    function: Callable[..., Any],
    operands: Sequence[Any],
    static: tuple,
    kwargs: dict,
    keep: Callable[[Executable], None],
) -> Plan | None:
    """The function for operands of these types as a plan, or None where there can be none.

    `keep` is told of what is compiled, now or later.
    """
    if not all(type(x) is Array or type(x) in NUMBERS for x in operands):
        return None
    values: list[Any] = [as_value(x) for x in operands]

    def flat(*tracers: Any) -> tuple[list[Any], None]:
        out = function(*tracers, *static, **kwargs)
        if not isinstance(out, Value):
            raise TypeError("plans are for functions that return one array")
        return [out], None

    try:
        closed = stage(flat, [x.aval for x in values])[0]
    except Exception:
        return None  # the ordinary way raises it too, or needs to know the elements
    if closed.effects or any(isinstance(c, Value) and type(c) is not Array for c in closed.consts):
        return None
    closed = eliminate_dead_code(inline(closed))
    is_number = [type(x) in NUMBERS for x in operands]
    when = _when(closed)
    if when != NEVER and not operands:
        return None  # large and constant: NumPy's views need no memory
    if when == NOW:
        return _compiled(closed, keep)
    repeated = replay(closed, is_number)
    return repeated if when == NEVER else _compiled_later(repeated, closed, keep)


def _when(closed: ClosedProgram) -> str:
    """When to compile the program instead of repeating its operations."""
    found = NEVER
    alone = sum(eqn.primitive.cost > 0 or eqn.primitive.folds for eqn in closed.eqns) <= 1
    for eqn in closed.eqns:
        avals: list[ShapedArray] = [atom.aval for atom in eqn.invars]
        outs = [var.aval for var in eqn.outvars]
        when = when_to_compile(eqn.primitive, avals, outs, eqn.params, alone)
        if when == NOW or eqn.primitive.structure is not None:
            return NOW
        found = LATER if when == LATER else found
    return found


def _compiled(closed: ClosedProgram, keep: Callable[[Executable], None]) -> Plan:
    executable = executable_of(closed)
    keep(executable)

    def plan(*operands: Any) -> Any:
        values: list[Any] = [as_value(x) for x in operands]
        return executable(values)[0]

    return plan


def _compiled_later(first: Plan, closed: ClosedProgram, keep: Callable[[Executable], None]) -> Plan:
    calls, compiled = 0, None

    def plan(*operands: Any) -> Any:
        nonlocal calls, compiled
        if compiled is not None:
            return compiled(*operands)
        calls += 1
        if calls == CALLS_BEFORE_COMPILING:
            compiled = _compiled(closed, keep)
        return first(*operands)

    return plan
