"""Looking at functions without running them: make_jaxpr, eval_shape, closure_convert."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, tree
from tetrax.higher_order.stages import ShapeDtypeStruct, struct_of
from tetrax.ir.program import ClosedProgram
from tetrax.ir.types import ShapedArray
from tetrax.ops.base import dtype_kind
from tetrax.runtime.array import as_value
from tetrax.tracing.staging import evaluate_program, stage
from tetrax.tracing.trace import Tracer, named_axes
from tetrax.tracing.value import Value, get_aval
from tetrax.transforms.flat import debug_info, flatten_function, function_name, with_fixed


def shaped(x: Any) -> ShapedArray:
    """The type of an array, a number, or anything with shape and dtype. Raises TypeError."""
    if isinstance(x, Value | np.ndarray | np.generic | bool | int | float | complex):
        return get_aval(x)
    if isinstance(x, ShapedArray):
        return x
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        dtype = dtypes.canonicalize_dtype(x.dtype, allow_extended_dtype=True)
        return ShapedArray(tuple(x.shape), dtype, bool(getattr(x, "weak_type", False)))
    return get_aval(x)


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that gives the program of `fun` at its arguments (arrays or shapes).

    >>> print(make_jaxpr(lambda x: x + x)(1.0))
    { lambda ; a:f32[]~. let
        b:f32[]~ = add a a
      in (b,) }
    """
    statics = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    def traced(*args: Any, **kwargs: Any) -> Any:
        fixed = {n % len(args) for n in statics if -len(args) <= n < len(args)}
        positions = [i for i in range(len(args)) if i not in fixed]
        dynamic = tuple(args[i] for i in positions)
        partial_fun = with_fixed(fun, args, positions)
        leaves, in_tree = tree.flatten((dynamic, kwargs))
        with named_axes(dict(axis_env or ())):
            closed, out_tree = stage(
                flatten_function(partial_fun, in_tree),
                [shaped(x) for x in leaves],
                debug_info(fun, dynamic, kwargs),
            )
        if not return_shape:
            return closed
        return closed, tree.unflatten(out_tree, [struct_of(a) for a in closed.out_avals])

    traced.__name__ = f"make_jaxpr({function_name(fun)})"
    return traced


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of `fun`'s results as `ShapeDtypeStruct`s; nothing is computed.

    >>> eval_shape(lambda x: x + x, ShapeDtypeStruct((2,), "float32"))
    ShapeDtypeStruct(shape=(2,), dtype=float32)
    """
    leaves, in_tree = tree.flatten((args, kwargs))
    closed, out_tree = stage(
        flatten_function(fun, in_tree), [shaped(x) for x in leaves], debug_info(fun, args, kwargs)
    )
    return tree.unflatten(out_tree, [struct_of(a) for a in closed.out_avals])


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list]:
    """`fun` without the differentiable values it closes over, and the list of those.

    The converted function takes them as further arguments.
    """
    leaves, in_tree = tree.flatten((example_args, {}))
    closed, out_tree = stage(flatten_function(fun, in_tree), [shaped(x) for x in leaves])
    hoist = [isinstance(c, Tracer) and dtype_kind(get_aval(c).dtype) in "fc" for c in closed.consts]
    hoisted = [c for c, h in zip(closed.consts, hoist, strict=True) if h]
    args_tree = tree.structure(tuple(example_args))

    def converted(*args_and_consts: Any) -> Any:
        count = len(hoisted)
        args = args_and_consts[: len(args_and_consts) - count]
        given = iter(args_and_consts[len(args_and_consts) - count :])
        consts = [next(given) if h else c for c, h in zip(closed.consts, hoist, strict=True)]
        values, found = tree.flatten(tuple(args))
        if found != args_tree:
            raise TypeError(
                f"closure-converted function called with arguments of structure {found}, expected "
                f"{args_tree}"
            )
        outs = evaluate_program(closed.program, consts, *[as_value(v) for v in values])
        return tree.unflatten(out_tree, outs)

    return converted, hoisted


def jaxpr_as_fun(closed: ClosedProgram) -> Callable[..., list[Any]]:
    """The program as a function of flat arguments."""
    return lambda *args: evaluate_program(closed.program, closed.consts, *args)


__all__ = [
    "ShapeDtypeStruct",
    "closure_convert",
    "eval_shape",
    "jaxpr_as_fun",
    "make_jaxpr",
    "shaped",
]
