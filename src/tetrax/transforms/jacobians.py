"""Jacobians and Hessians: the engines mapped over a basis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, tree
from tetrax.ops.base import instantiate
from tetrax.ops.slicing import slice_in_dim
from tetrax.ops.structure import batch_at, reshape, transpose
from tetrax.runtime.array import as_value, make_array
from tetrax.tracebacks import boundary
from tetrax.tracing.value import get_aval
from tetrax.transforms import jvp as jvp_engine
from tetrax.transforms.derivatives import (
    Argnums,
    argnums_tuple,
    check_callable,
    check_input_dtype,
    check_output_dtype,
    documented,
    flat_with_aux,
    partially_applied,
    pull_back,
    strip_tracers,
)
from tetrax.transforms.vmap import AxisData, batch


def jacfwd(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Jacobian of `fun`, column by column (forward mode): good for few inputs.

    The result has, per output leaf and argument leaf, shape `output.shape + argument.shape`.

    >>> jacfwd(lambda x: x * x)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    check_callable(fun, "jacfwd")

    @documented(fun, "jacfwd")
    @boundary
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        chosen = argnums_tuple(argnums, len(args), "jacfwd")
        selected = tuple(args[i] for i in chosen)
        leaves, in_tree = tree.flatten((selected, {}))
        for leaf in leaves:
            check_input_dtype("jacfwd", holomorphic, False, leaf)
        leaves = [as_value(x) for x in leaves]
        applied = partially_applied(fun, args, kwargs, chosen)
        flat = flat_with_aux(applied, in_tree, has_aux, "jacfwd")
        basis, size = _basis(leaves)

        def push(*tangents: Any) -> tuple[list[Any], Any]:
            outs, out_tangents, (out_tree, aux) = jvp_engine.jvp(flat, leaves, tangents)
            return [instantiate(t) for t in out_tangents], (outs, out_tree, aux)

        columns, (outs, out_tree, aux) = _map_basis(push, basis, size)
        if holomorphic:
            for out in outs:
                check_output_dtype("jacfwd", True, out)
        rows = _jacobian_rows(columns, outs, leaves, size, forward=True)
        result = _assemble(rows, out_tree, in_tree, argnums)
        return (result, strip_tracers(aux)) if has_aux else result

    return jacobian


def jacrev(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of `fun`, row by row (reverse mode): good for few outputs.

    Shapes as for `jacfwd`.

    >>> jacrev(lambda x: x * x)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    check_callable(fun, "jacrev")

    @documented(fun, "jacrev")
    @boundary
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        chosen = argnums_tuple(argnums, len(args), "jacrev")
        selected = tuple(args[i] for i in chosen)
        for leaf in tree.leaves(selected):
            check_input_dtype("jacrev", holomorphic, allow_int, leaf)
        applied = partially_applied(fun, args, kwargs, chosen)
        value, pullback, aux = pull_back(applied, selected, has_aux, "jacrev")
        outs = tree.leaves(value)
        for out in outs:
            check_output_dtype("jacrev", holomorphic, out)
        basis, size = _basis(outs)

        def run(*cts):
            return ([instantiate(ct) for ct in pullback.flat(cts)], None)

        rows, _ = _map_basis(run, basis, size)
        leaves, in_tree = tree.flatten((selected, {}))
        table = _jacobian_rows(rows, leaves, outs, size, forward=False)
        result = _assemble(table, tree.structure(value), in_tree, argnums)
        return (result, aux) if has_aux else result

    return jacobian


jacobian = jacrev


def hessian(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The matrix of second derivatives: forward mode over reverse mode.

    >>> hessian(lambda x: x * x * x)(2.0)
    Array(12., dtype=float32, weak_type=True)
    """
    inner = jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic)
    return jacfwd(inner, argnums, has_aux=has_aux, holomorphic=holomorphic)


def _basis(leaves: Sequence[Any]) -> tuple[list[Any], int]:
    """Per leaf a stack of tangents: together the standard basis of the whole space."""
    avals = [get_aval(x) for x in leaves]
    size = sum(aval.size for aval in avals)
    stacks = []
    start = 0
    for aval in avals:
        stack = np.zeros((size, aval.size), aval.dtype)
        stack[start : start + aval.size] = np.eye(aval.size, dtype=aval.dtype)
        stacks.append(make_array(stack.reshape(size, *aval.shape), weak_type=aval.weak_type))
        start += aval.size
    return stacks, size


def _map_basis(
    run: Callable[..., Any], basis: Sequence[Any], size: int
) -> tuple[list[tuple[Any, Any]], Any]:
    """(value, batch axis) of each result of `run` over the basis, and its aux."""
    values, dims, aux = batch(run, AxisData(None, size), basis, [0] * len(basis))
    return list(zip(values, dims, strict=True)), aux


def _jacobian_rows(
    mapped: Sequence[tuple[Any, Any]],
    results: Sequence[Any],
    mapped_over: Sequence[Any],
    size: int,
    forward: bool,
) -> list[list[Any]]:
    """Blocks of the Jacobian, by output leaf then argument leaf.

    Forward: `mapped` are tangents of outputs over the argument basis. Reverse: cotangents of the
    arguments over the output basis.
    """
    stacks = []
    for (value, dim), result in zip(mapped, results, strict=True):
        aval = get_aval(result)
        if getattr(value, "dtype", None) == dtypes.float0:
            stacks.append(np.zeros((size, *aval.shape), dtypes.float0))
            continue
        stacks.append(batch_at(value, dim, size))
    extents = [get_aval(x).size for x in mapped_over]
    starts = np.cumsum([0, *extents])
    blocks = [
        [
            _block(stack, starts[j], starts[j + 1], get_aval(other).shape, forward)
            for j, other in enumerate(mapped_over)
        ]
        for stack in stacks
    ]
    return blocks if forward else [list(column) for column in zip(*blocks, strict=True)]


def _block(stack: Any, start: int, stop: int, shape: tuple[int, ...], forward: bool) -> Any:
    if getattr(stack, "dtype", None) == dtypes.float0:
        part = stack[int(start) : int(stop)]
    else:
        part = slice_in_dim(stack, int(start), int(stop))
    if forward:
        inner = part.shape[1:]
        moved = transpose(part, (*range(1, part.ndim), 0))
        return reshape(moved, (*inner, *shape))
    if getattr(part, "dtype", None) == dtypes.float0:
        return part.reshape((*shape, *part.shape[1:]))
    return reshape(part, (*shape, *part.shape[1:]))


def _assemble(rows: list[list[Any]], out_tree: Any, in_tree: Any, argnums: Argnums) -> Any:
    def one(row: list[Any]) -> Any:
        args, _ = tree.unflatten(in_tree, row)
        return args[0] if isinstance(argnums, int) else args

    return tree.unflatten(out_tree, [one(row) for row in rows])
