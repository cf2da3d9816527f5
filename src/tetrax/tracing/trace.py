"""Traces and tracers: who handles an operation.

One trace is current per thread. A transformation makes its trace current, with the former one as
its parent, and runs the user's function; `Primitive.bind` gives every operation to the current
trace. A trace treats values that are not its own tracers as constants, so nested transformations
never confuse each other's values.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from tetrax import errors
from tetrax.tracing.value import Value


class Trace:
    """Base of all interpreters of operations."""

    __slots__ = ("__weakref__",)
    # Whether operations on constants are recorded too (staging) or run at once.
    is_staging = False

    def process_primitive(self, primitive: Any, args: Sequence[Any], params: dict) -> Any:
        raise NotImplementedError

    def process_custom_jvp(
        self, primitive: Any, fun: Callable, jvp: Callable, args: Sequence[Any], params: dict
    ) -> Any:
        raise NotImplementedError

    def process_custom_vjp(
        self,
        primitive: Any,
        fun: Callable,
        fwd: Callable,
        bwd: Callable,
        args: Sequence[Any],
        params: dict,
    ) -> Any:
        raise NotImplementedError


class Tracer(Value):
    """A value that stands for an array while a transformation runs the user's function."""

    __slots__ = ("__weakref__", "_trace")
    _trace: Trace
    __hash__ = None  # type: ignore[assignment]

    def concrete(self) -> Any:
        """The concrete array behind this tracer, or None where there is none."""
        return None

    def __bool__(self) -> bool:
        return bool(concrete_or_error(self, errors.TracerBoolConversionError))

    def __int__(self) -> int:
        return int(concrete_or_error(self, errors.ConcretizationTypeError, "int()"))

    def __float__(self) -> float:
        return float(concrete_or_error(self, errors.ConcretizationTypeError, "float()"))

    def __complex__(self) -> complex:
        return complex(concrete_or_error(self, errors.ConcretizationTypeError, "complex()"))

    def __index__(self) -> int:
        return concrete_or_error(self, errors.TracerIntegerConversionError).__index__()

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        concrete = self.concrete()
        if concrete is None:
            raise errors.TracerArrayConversionError(self)
        return concrete.__array__(*args, **kwargs)

    def item(self, *args: int) -> Any:
        return concrete_or_error(self, errors.ConcretizationTypeError, ".item()").item(*args)

    def tolist(self) -> Any:
        return concrete_or_error(self, errors.ConcretizationTypeError, ".tolist()").tolist()

    def block_until_ready(self) -> Tracer:
        return self

    def copy_to_host_async(self) -> None:
        return None

    def __copy__(self) -> Tracer:
        return self

    def __deepcopy__(self, memo: dict) -> Tracer:
        return self

    def __repr__(self) -> str:
        return f"Traced<{self.aval.str_short()}>with<{type(self._trace).__name__}>"


def concrete_or_error(x: Any, error: type[Exception], context: str = "") -> Any:
    """The concrete array behind `x`; raises `error` where only a traced value is there."""
    if not isinstance(x, Tracer):
        return x
    concrete = x.concrete()
    if concrete is None:
        raise error(x, context) if context else error(x)
    return concrete


def is_concrete(x: Any) -> bool:
    """Whether the elements of `x` are known now."""
    return not isinstance(x, Tracer) or x.concrete() is not None


class EvalTrace(Trace):
    """Outside every transformation: operations run at once through seam 1."""

    __slots__ = ()

    def process_primitive(self, primitive: Any, args: Sequence[Any], params: dict) -> Any:
        # The evaluator refuses tracers, which have outlived their transformation.
        return _evaluator(primitive, args, params)

    def process_custom_jvp(self, primitive, fun, jvp, args, params):
        return fun(*args)

    def process_custom_vjp(self, primitive, fun, fwd, bwd, args, params):
        return fun(*args)


def leaked(tracer: Tracer) -> errors.UnexpectedTracerError:
    """The error for a tracer met after its transformation has ended, or outside of it."""
    return errors.UnexpectedTracerError(
        f"Encountered an unexpected tracer: a value of type {tracer.aval.str_short()} has escaped "
        f"from the function that was being transformed: {tracer.describe()}. It was stored "
        "somewhere (a global, an attribute, a list) and used after that function had returned. "
        "Return it from the function instead"
    )


def _no_evaluator(primitive: Any, args: Sequence[Any], params: dict) -> Any:
    raise RuntimeError("seam 1 is not filled: import tetrax, not one of its modules alone")


_evaluator: Callable[[Any, Sequence[Any], dict], Any] = _no_evaluator


def set_evaluator(evaluate: Callable[[Any, Sequence[Any], dict], Any]) -> None:
    """Fill seam 1: what evaluates an operation outside any transformation."""
    global _evaluator
    _evaluator = evaluate


EVAL_TRACE = EvalTrace()


class _ThreadState(threading.local):
    trace: Trace = EVAL_TRACE
    axis_sizes: Mapping[Any, int] = MappingProxyType({})
    # The axes that are spread over devices (the others are batch axes).
    device_axes: frozenset[Any] = frozenset()
    # The axes of devices for which types say whether values vary along them.
    tracked_axes: frozenset[Any] = frozenset()


state = _ThreadState()


@contextmanager
def current_trace(trace: Trace) -> Iterator[Trace]:
    """Make `trace` handle the operations of this thread."""
    before = state.trace
    state.trace = trace
    try:
        yield trace
    finally:
        state.trace = before


@contextmanager
def named_axes(
    sizes: Mapping[Any, int], devices: bool = False, tracked: bool = False
) -> Iterator[None]:
    """Make axis names known to collectives traced inside.

    `devices`: they are axes of devices; `tracked`: types say what varies along them.
    """
    before = state.axis_sizes, state.tracked_axes, state.device_axes
    state.axis_sizes = {**before[0], **sizes}
    names = frozenset(sizes)
    state.device_axes = before[2] | names if devices else before[2] - names
    state.tracked_axes = before[1] | names if tracked else before[1] - names
    try:
        yield
    finally:
        state.axis_sizes, state.tracked_axes, state.device_axes = before


def axis_size_of(name: Any) -> int:
    """Size of a named axis (a tuple of names: the product). Raises NameError if unbound."""
    if isinstance(name, tuple | list):
        total = 1
        for part in name:
            total *= axis_size_of(part)
        return total
    try:
        return state.axis_sizes[name]
    except (KeyError, TypeError):
        known = ", ".join(map(repr, state.axis_sizes)) or "none"
        raise NameError(
            f"unbound axis name: {name}. Names bound here: {known}. "
            "Bind it by vmap(..., axis_name=...), pmap or shard_map around this call"
        ) from None
