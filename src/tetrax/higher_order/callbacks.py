"""Python inside transformed and compiled programs: pure, effectful and debugging callbacks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, tree
from tetrax.higher_order.inspect import shaped
from tetrax.ir.control import HostCall
from tetrax.ir.program import NO_EFFECTS, Effect, Effects
from tetrax.ir.types import ShapedArray
from tetrax.runtime.array import as_value, wrap
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.value import get_aval
from tetrax.transforms.vmap import AxisData

DEBUG = Effect("debug")
ORDERED_DEBUG = Effect("ordered_debug", ordered=True)
IO = Effect("io")
ORDERED_IO = Effect("ordered_io", ordered=True)

FlatCallback = Callable[..., Sequence[np.ndarray]]


class Callback(Primitive):
    """`callback(*arrays)` run by the host; `result_avals` are the types of what it returns."""

    multiple_results = True
    is_pure = False

    def shape(self, *avals: ShapedArray, result_avals: tuple[ShapedArray, ...], **params: Any):
        return list(result_avals)

    def effects(self, *avals: ShapedArray, effect: Effect | None = None, **params: Any) -> Effects:
        return NO_EFFECTS if effect is None else frozenset({effect})

    def structure(self, avals: Sequence[ShapedArray], *, callback: FlatCallback, **params: Any):
        return HostCall(callback)

    def reference(self, *arrays: np.ndarray, callback: FlatCallback, **params: Any):
        return callback(*arrays)

    def stablehlo(self, context, operands, outs, **params):
        raise NotImplementedError("Python callbacks cannot be exported")

    def batch_axis(self, axis: AxisData, operands, dims, **params):
        return _batch(self, axis, operands, dims, **params)


class PureCallback(Callback):
    """A callback without side effects."""

    def jvp(self, primals, tangents, **params):
        raise ValueError(
            "Pure callbacks do not support JVP. Please use `jax.custom_jvp` to use callbacks while "
            "taking gradients."
        )

    def transpose(self, cts, *operands, **params):
        raise ValueError("Pure callbacks do not support transpose. Please use `jax.custom_vjp`.")


class IoCallback(Callback):
    """A callback with side effects and results."""

    def jvp(self, primals, tangents, **params):
        raise ValueError(
            "IO callbacks do not support JVP. Please use `jax.custom_jvp` to use callbacks while "
            "taking gradients."
        )


class DebugCallback(Callback):
    """A callback without results, run wherever the program runs, also when differentiated."""

    def jvp(self, primals, tangents, **params):
        return self.bind(*primals, **params), []

    def transpose(self, cts, *operands, **params):
        return [Zero(x.aval) if hasattr(x, "aval") else None for x in operands]


pure_callback_p = PureCallback("pure_callback")
io_callback_p = IoCallback("io_callback")
debug_callback_p = DebugCallback("debug_callback")


def _batch(
    self: Callback,
    axis: AxisData,
    operands: Sequence[Any],
    dims: Sequence[int | None],
    *,
    callback: FlatCallback,
    result_avals: tuple[ShapedArray, ...],
    vmap_method: str | None = "sequential",
    effect: Effect | None = None,
    **params: Any,
) -> tuple[list[Any], list[int]]:
    if effect is ORDERED_IO:
        raise ValueError("Cannot `vmap` ordered IO callback: the order of the elements is open.")
    if vmap_method is None:
        raise NotImplementedError(
            "vmap is only supported for pure_callback when vmap_method is set: vmap_method="
            "'sequential', 'sequential_unrolled', 'expand_dims', 'broadcast_all' or "
            "'legacy_vectorized'"
        )
    methods: dict[str, Callable[..., FlatCallback]] = {
        "sequential": _one_by_one,
        "sequential_unrolled": _one_by_one,
        "expand_dims": _expanded,
        "broadcast_all": _expanded,
        "legacy_vectorized": _vectorised,
    }
    if vmap_method not in methods:
        raise ValueError(f"vmap_method must be one of {', '.join(methods)}, got {vmap_method!r}")
    fill = axis.size if vmap_method == "broadcast_all" else 1
    batched = methods[vmap_method](callback, axis.size, tuple(dims), len(result_avals), fill)
    avals = tuple(a.update(shape=(axis.size, *a.shape)) for a in result_avals)
    outs = self.bind(
        *operands,
        callback=batched,
        result_avals=avals,
        vmap_method=vmap_method,
        effect=effect,
        **params,
    )
    return outs, [0] * len(outs)


def _one_by_one(
    callback: FlatCallback, size: int, dims: tuple[int | None, ...], count: int, fill: int
) -> FlatCallback:
    """Call once per element, in order, and stack the results."""

    def run(*arrays: np.ndarray) -> Sequence[np.ndarray]:
        rows = [
            callback(
                *(a if d is None else np.take(a, i, d) for a, d in zip(arrays, dims, strict=True))
            )
            for i in range(size)
        ]
        return [np.stack(column) for column in zip(*rows, strict=True)] if count else []

    return run


def _expanded(
    callback: FlatCallback, size: int, dims: tuple[int | None, ...], count: int, fill: int
) -> FlatCallback:
    """Call once with a leading batch axis on every operand: of size 1 (or all) where unmapped."""

    def run(*arrays: np.ndarray) -> Sequence[np.ndarray]:
        moved = [
            np.broadcast_to(a, (fill, *a.shape)) if d is None else np.moveaxis(a, d, 0)
            for a, d in zip(arrays, dims, strict=True)
        ]
        return callback(*moved)

    return run


def _vectorised(
    callback: FlatCallback, size: int, dims: tuple[int | None, ...], count: int, fill: int
) -> FlatCallback:
    def run(*arrays: np.ndarray) -> Sequence[np.ndarray]:
        return callback(
            *(a if d is None else np.moveaxis(a, d, 0) for a, d in zip(arrays, dims, strict=True))
        )

    return run


def _flat_callback(
    callback: Callable[..., Any],
    in_tree: Any,
    avals: Sequence[ShapedArray],
    result_tree: Any,
    result_avals: Sequence[ShapedArray],
    check: bool = True,
) -> FlatCallback:
    """`callback` on NumPy arrays in flat lists; results are checked against the declared types."""
    dtypes_in = [a.dtype for a in avals]
    weak = [a.weak_type for a in avals]

    def run(*arrays: np.ndarray) -> Sequence[np.ndarray]:
        values = [
            wrap(np.array(a), ShapedArray(a.shape, d, w))
            for a, d, w in zip(arrays, dtypes_in, weak, strict=True)
        ]
        args, kwargs = tree.unflatten(in_tree, values)
        out = callback(*args, **kwargs)
        if result_tree is None:
            return []
        leaves, found = tree.flatten(out)
        if found != result_tree:
            raise RuntimeError(
                f"Mismatched result structure: the callback returned {found}, "
                "result_shape_dtypes says "
                f"{result_tree}"
            )
        return [_checked(x, a) for x, a in zip(leaves, result_avals, strict=True)]

    run.__wrapped__ = callback  # type: ignore[attr-defined]
    return run


def _checked(x: Any, aval: ShapedArray) -> np.ndarray:
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        return x._value
    value = np.asarray(x)
    if value.shape[value.ndim - len(aval.shape) :] != aval.shape:
        raise RuntimeError(
            f"Incorrect output shape for return value of the callback: expected {aval.shape}, got "
            f"{value.shape}"
        )
    canonical = dtypes.canonicalize_dtype(value.dtype)
    if canonical != aval.dtype and not isinstance(x, bool | int | float | complex):
        raise RuntimeError(
            f"Incorrect output dtype for return value of the callback: expected {aval.dtype.name}, "
            f"got {value.dtype.name}"
        )
    return value.astype(aval.dtype)


def _bind(
    primitive: Callback,
    callback: Callable[..., Any],
    args: tuple,
    kwargs: dict,
    result_tree: Any,
    result_avals: Sequence[ShapedArray],
    effect: Effect | None,
    vmap_method: str | None,
) -> list[Any]:
    leaves, in_tree = tree.flatten((args, kwargs))
    leaves = [as_value(x) for x in leaves]
    avals = [get_aval(x) for x in leaves]
    flat = _flat_callback(callback, in_tree, avals, result_tree, result_avals)
    return primitive.bind(
        *leaves,
        callback=flat,
        result_avals=tuple(result_avals),
        vmap_method=vmap_method,
        effect=effect,
    )


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """The results of a Python function without side effects, also inside compiled programs.

    `result_shape_dtypes` is a tree of things with shape and dtype. `vmap_method` says how it is
    batched. An exception of the callback arrives at the caller.

    >>> pure_callback(lambda x: x + 1, np.zeros(2, np.float32), np.zeros(2, np.float32))
    Array([1., 1.], dtype=float32)
    """
    wanted, result_tree = tree.flatten(result_shape_dtypes)
    avals = [shaped(x).strong() for x in wanted]
    outs = _bind(pure_callback_p, callback, args, kwargs, result_tree, avals, None, vmap_method)
    return tree.unflatten(result_tree, outs)


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """The results of a Python function with side effects; it runs exactly once per evaluation.

    `ordered` callbacks run in program order and cannot be batched.
    """
    wanted, result_tree = tree.flatten(result_shape_dtypes)
    avals = [shaped(x).strong() for x in wanted]
    effect = ORDERED_IO if ordered else IO
    outs = _bind(io_callback_p, callback, args, kwargs, result_tree, avals, effect, "sequential")
    return tree.unflatten(result_tree, outs)


def debug_callback(
    callback: Callable[..., Any],
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> None:
    """Call a Python function for its effect with the values that arguments have at run time."""
    if not callable(callback):
        raise TypeError("first argument to jax.debug.callback must be callable")
    statics = {k: v for k, v in kwargs.items() if not _is_tree_of_arrays(v)}
    dynamic = {k: v for k, v in kwargs.items() if k not in statics}
    run = (lambda *a, **k: callback(*a, **k, **statics)) if statics else callback
    effect = ORDERED_DEBUG if ordered else DEBUG
    _bind(debug_callback_p, run, args, dynamic, None, (), effect, "sequential")


def _is_tree_of_arrays(value: Any) -> bool:
    try:
        for leaf in tree.leaves(value):
            get_aval(leaf)
    except TypeError:
        return False
    return True


def debug_print(
    fmt: str,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> None:
    """Print `fmt.format(*args, **kwargs)` with the values that arguments have at run time.

    >>> debug_print("x = {}", 3)
    x = 3
    """
    if not skip_format_check:
        _check_format(fmt, args, kwargs)

    def show(*values: Any, **named: Any) -> None:
        sys.stdout.write(fmt.format(*values, **named) + "\n")
        sys.stdout.flush()

    debug_callback(show, *args, ordered=ordered, **kwargs)


class _Accepts:
    """Takes any format specification."""

    def __format__(self, spec: str) -> str:
        return ""

    def __getattr__(self, name: str) -> _Accepts:
        return self

    def __getitem__(self, key: Any) -> _Accepts:
        return self


def _check_format(fmt: str, args: tuple, kwargs: dict) -> None:
    try:
        fmt.format(*(_Accepts() for _ in args), **{k: _Accepts() for k in kwargs})
    except (IndexError, KeyError) as error:
        raise type(error)(
            f"debug.print format {fmt!r} asks for more than it was given: {len(args)} positional "
            f"argument(s) and {sorted(kwargs)}. F-strings are formatted before tracing: use "
            "'{x}' with x=x instead"
        ) from None


def effects_barrier() -> None:
    """Wait for all effects: they run before their call returns, so there is nothing to do."""
