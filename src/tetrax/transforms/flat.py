"""Between user functions (trees of arguments) and the engines (flat lists of values)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tetrax import tree
from tetrax.ir.program import DebugInfo
from tetrax.runtime.array import as_value
from tetrax.tracing.value import Value, is_operand


def function_name(fun: Callable[..., Any]) -> str:
    """A name for messages, also for partials and callable objects."""
    inner = getattr(fun, "func", None)
    if inner is not None and not hasattr(fun, "__name__"):
        return function_name(inner)
    return getattr(fun, "__name__", type(fun).__name__)


def function_location(fun: Callable[..., Any]) -> str:
    """`name at file:line` where that can be found."""
    inner = inspect.unwrap(fun)
    code = getattr(inner, "__code__", None)
    name = function_name(fun)
    return f"{name} at {code.co_filename}:{code.co_firstlineno}" if code is not None else name


def flatten_function(
    fun: Callable[..., Any], in_tree: Any, what: str = "function"
) -> Callable[..., tuple[list[Any], Any]]:
    """`fun(*args, **kwargs)` as a function of leaves that gives (leaves, tree)."""

    def flat(*leaves: Any) -> tuple[list[Any], Any]:
        args, kwargs = tree.unflatten(in_tree, leaves)
        return flatten_output(fun, fun(*args, **kwargs))

    return flat


def flatten_output(fun: Callable[..., Any], out: Any) -> tuple[list[Any], Any]:
    """Leaves and tree of a result. Raises TypeError for a leaf that is no array, by its path."""
    leaves, out_tree = tree.flatten(out)
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, Value):
            if not is_operand(leaf) and not hasattr(leaf, "__jax_array__"):
                raise TypeError(_bad_output(fun, out, i))
            leaves[i] = as_value(leaf)
    return leaves, out_tree


def _bad_output(fun: Callable[..., Any], out: Any, position: int) -> str:
    path, leaf = tree.leaves_with_path(out)[position]
    where = tree.keystr(path)
    return (
        f"function {function_location(fun)} returned a value of type {type(leaf)}"
        f"{' at output component ' + where if where else ''}, which is not a valid JAX type: "
        "transformed functions return arrays, numbers, or pytrees of them"
    )


def check_argument_leaves(fun: Callable[..., Any], what: str, args: Any) -> None:
    """Raises TypeError naming the path of an argument that is no array."""
    for path, leaf in tree.leaves_with_path(args):
        if not is_operand(leaf) and not hasattr(leaf, "__jax_array__"):
            where = argument_path(fun, path)
            raise TypeError(
                f"Argument {where} of {what}({function_name(fun)}) is {leaf!r:.80} of type "
                f"{type(leaf)}, which is not a valid JAX type: pass an array or a number"
                + (
                    "; to pass anything else to a jitted function, mark it static "
                    "(static_argnums, static_argnames)"
                    if what == "jit"
                    else ""
                )
            )


def argument_path(fun: Callable[..., Any], path: Sequence[Any]) -> str:
    """`x['a'][0]` for a path into (args, kwargs), by parameter name where known."""
    names = argument_names(fun)
    if not path:
        return "<arguments>"
    kind = getattr(path[0], "idx", 0)
    if len(path) == 1:
        return "args" if kind == 0 else "kwargs"
    key = path[1]
    if kind == 0:
        position = getattr(key, "idx", 0)
        name = names[position] if position < len(names) else f"args[{position}]"
    else:
        name = str(getattr(key, "key", key))
    return name + tree.keystr(tuple(path[2:]))


def argument_names(fun: Callable[..., Any]) -> list[str]:
    """Names of the positional parameters, as far as they can be found."""
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (ValueError, TypeError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def debug_info(fun: Callable[..., Any], args: tuple, kwargs: dict) -> DebugInfo:
    """Function and argument names for the messages of a trace."""
    paths = [path for path, _ in tree.leaves_with_path((args, kwargs))]
    return DebugInfo(function_name(fun), tuple(argument_path(fun, path) for path in paths))


def with_fixed(
    fun: Callable[..., Any], args: Sequence[Any], positions: Sequence[int]
) -> Callable[..., Any]:
    """`fun` as a function of the arguments at `positions` (and keywords); the others are `args`."""
    if len(positions) == len(args):
        return fun

    def partial_fun(*dynamic: Any, **named: Any) -> Any:
        full = list(args)
        for position, value in zip(positions, dynamic, strict=True):
            full[position] = value
        return fun(*full, **named)

    partial_fun.__name__ = function_name(fun)
    return partial_fun
