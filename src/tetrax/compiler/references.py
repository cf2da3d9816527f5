"""Running an operation's NumPy reference, and deciding when machine code is better.

A reference is at hand at once, whatever the shape; machine code must be compiled for every shape,
and then wins on large arrays by its vectors and threads. Whether an operation runs compiled must
not change what it gives: it depends on sizes alone where the two may differ in the last bit, and
where they never do, it may also depend on how often the operation has been met.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax.ir.types import ShapedArray, storage_dtype
from tetrax.runtime.array import Array, wrap
from tetrax.tracing.primitive import Primitive

Run = Callable[[Sequence[Array]], Any]

LARGE = 1 << 15
"""Elements from which machine code wins over NumPy even for cheap operations."""

_MANY_FLOPS = 1 << 22
"""Work of a product from which machine code is used; below, compiling would take longer."""

_MANY_ELEMENTS_OF_PRODUCTS = 1 << 10
"""Products of smaller operands need no look at the work."""

_AT_ONCE = 1 << 22
"""Elements from which one run of a NumPy reference takes longer than compiling."""

# Operations on real numbers whose every result is fully determined: compiled or not, the bits are
# the same.
_EXACT = frozenset(
    (
        *("add", "add_any", "sub", "mul", "neg", "abs", "max", "min", "sign", "square"),
        *("floor", "ceil", "round", "is_finite", "select_n", "clamp", "convert_element_type"),
        *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "div", "sqrt"),
        *("shift_left", "shift_right_logical", "shift_right_arithmetic"),
        *("sort", "top_k", "cummax", "cummin", "scatter", "scatter-min", "scatter-max"),
    )
)

# Loop nests of their own that are several times as fast as NumPy's on much.
_ROUTINES = frozenset(
    (
        *("sort", "top_k", "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"),
        *("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"),
    )
)

# Those of them that NumPy does with vector instructions: alone they gain little by being compiled.
_QUICK = _EXACT - {"sign", "round", "select_n", "clamp", "convert_element_type"}
_QUICK_SIZE = 1 << 20
# And one that it does element by element.
_SLOW_SIZE = {"select_n": 1 << 12}

NEVER, LATER, NOW = "never", "later", "now"


def when_to_compile(
    primitive: Primitive,
    avals: Sequence[ShapedArray],
    outs: Sequence[ShapedArray],
    params: dict,
    alone: bool = True,
) -> str:
    """When an eager call should be compiled: NEVER, LATER (after some calls), or NOW.

    `alone`: it would be a program of its own, so that nothing is saved but its own time.
    """
    if primitive.reference is None or primitive.runs_compiled(avals, params):
        return NOW
    size = max([aval.size for aval in (*avals, *outs)], default=0)
    flops = getattr(primitive, "flops", None)
    if flops is not None and size >= _MANY_ELEMENTS_OF_PRODUCTS:
        return NOW if flops(avals, params) >= _MANY_FLOPS else NEVER
    if size < _SLOW_SIZE.get(primitive.name, LARGE) or (
        primitive.kernel is None and primitive.emit is None
    ):
        return NEVER
    gains = primitive.cost > 0 or primitive.folds or primitive.name in _ROUTINES
    if not gains and primitive.name not in _SLOW_SIZE:
        return NEVER  # NumPy's views move nothing
    if primitive.name not in _EXACT or any(aval.dtype.kind == "c" for aval in avals):
        return NOW
    if alone and size < _QUICK_SIZE and primitive.name in _QUICK:
        return NEVER
    return NOW if size >= _AT_ONCE else LATER


# -- running a reference --------------------------------------------------------------------------


class _ErrorSettings:
    """What NumPy does about overflow and the like, for versions that keep it elsewhere."""

    def set(self, how: Any) -> Any:
        return np.seterr(all="ignore")

    def reset(self, token: Any) -> None:
        np.seterr(**token)


# NumPy's own variable for that: setting it takes a tenth of the time of `np.errstate`.
_errors: Any = getattr(np._core.umath, "_extobj_contextvar", None)  # type: ignore[attr-defined]
if _errors is None:
    _errors = _ErrorSettings()
    _IGNORE = None
else:
    with np.errstate(all="ignore"):
        _IGNORE = _errors.get()

QUIET = (_errors.set, _errors.reset, _IGNORE)
"""`token = QUIET[0](QUIET[2])` silences NumPy in this thread until `QUIET[1](token)`."""

_new = object.__new__


def reference_run(
    primitive: Primitive, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], params: dict
) -> Run:
    """A function that runs the reference on arrays of the given types."""
    function = primitive.prepared(avals, params)
    if primitive.multiple_results:
        return _run_many(function, outs)
    if isinstance(function, np.ufunc) and only_integers(*avals, *outs):
        return _run_integers(function, outs[0])
    return _run_one(function, outs[0])


def only_integers(*avals: ShapedArray) -> bool:
    """Whether arithmetic on these types cannot raise floating-point warnings."""
    return all(aval.dtype.kind in "biu" for aval in avals)


def _run_one(function: Callable[..., Any], aval: ShapedArray) -> Run:
    storage, (change, restore, ignore) = storage_dtype(aval.dtype), QUIET

    def run(arrays: Sequence[Array]) -> Array:
        token = change(ignore)
        try:
            out = function(*[x._npy for x in arrays])
        finally:
            restore(token)
        if type(out) is not np.ndarray:
            out = np.asarray(out)
        if out.dtype is not storage and out.dtype != storage:
            out = out.astype(storage)
        # As `wrap` does, without a call.
        array = _new(Array)
        array._npy = out
        array._owner = None
        array.aval = aval
        return array

    return run


def _run_integers(function: np.ufunc, aval: ShapedArray) -> Run:
    """For arithmetic that cannot raise floating-point warnings."""
    storage = storage_dtype(aval.dtype)

    def run(arrays: Sequence[Array]) -> Array:
        out = function(*[x._npy for x in arrays])
        if type(out) is not np.ndarray:
            out = np.asarray(out)
        if out.dtype is not storage and out.dtype != storage:
            out = out.astype(storage)
        return wrap(out, aval)

    return run


def _run_many(function: Callable[..., Any], avals: Sequence[ShapedArray]) -> Run:
    storages = [storage_dtype(aval.dtype) for aval in avals]
    change, restore, ignore = QUIET

    def run(arrays: Sequence[Array]) -> list[Array]:
        token = change(ignore)
        try:
            outs = function(*[x._npy for x in arrays])
        finally:
            restore(token)
        return [
            wrap(np.asarray(out, storage), aval)
            for out, storage, aval in zip(outs, storages, avals, strict=True)
        ]

    return run
