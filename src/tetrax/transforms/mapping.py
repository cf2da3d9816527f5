"""`vmap`: the public form of batching, with every shape of `in_axes` and `out_axes`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from tetrax import tree
from tetrax.ops.structure import batch_at
from tetrax.runtime.array import as_value
from tetrax.tracebacks import boundary
from tetrax.tracing.value import get_aval
from tetrax.transforms.derivatives import documented
from tetrax.transforms.flat import (
    argument_path,
    check_argument_leaves,
    flatten_function,
    function_name,
)
from tetrax.transforms.vmap import AxisData, batch


def vmap(
    fun: Callable[..., Any],
    in_axes: int | Sequence[Any] | None = 0,
    out_axes: Any = 0,
    axis_name: Hashable | None = None,
    axis_size: int | None = None,
    spmd_axis_name: Hashable | tuple[Hashable, ...] | None = None,
    sum_match: bool = False,
) -> Callable[..., Any]:
    """`fun` applied to every slice of its arguments along their mapped axes, as one computation.

    `in_axes` (an int, None, or a tuple of them or of trees of them, one per argument) says which
    axis is mapped; `out_axes` where it goes in the results. Raises ValueError where sizes differ or
    an argument has too few axes, naming the argument.

    >>> import numpy as np
    >>> vmap(lambda x, y: x + y, in_axes=(0, None))(np.arange(3), 1)
    Array([1, 2, 3], dtype=int32)
    """
    if not callable(fun):
        raise TypeError(f"vmap takes a function, got {fun!r:.60} of type {type(fun).__name__}")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or type(in_axes) in (int, tuple) or hasattr(in_axes, "__index__")):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
            "positional "
            f"arguments passed to the function, but got {in_axes}."
        )
    for name, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if not all(type(leaf) is int or hasattr(leaf, "__index__") for leaf in tree.leaves(axes)):
            raise TypeError(
                f"vmap {name} must be an int, None, or (nested) container with those types as "
                "leaves, "
                f"but got {axes}."
            )

    @documented(fun, "vmap")
    @boundary
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                "positional arguments passed to the function, but got "
                f"{len(in_axes)=}, {len(args)=}"
            )
        check_argument_leaves(fun, "vmap", (args, kwargs))
        leaves, in_tree = tree.flatten((args, kwargs))
        leaves = [as_value(x) for x in leaves]
        dims = _input_dims(fun, in_axes, args, kwargs, in_tree)
        size = _axis_size(fun, args, kwargs, leaves, dims, axis_size)
        dims = [
            d if d is None or d >= 0 else d + get_aval(x).ndim
            for x, d in zip(leaves, dims, strict=True)
        ]
        axis = AxisData(axis_name, size, spmd_axis_name)
        outs, out_dims, out_tree = batch(flatten_function(fun, in_tree), axis, leaves, dims)
        wanted = _output_dims(out_axes, out_tree)
        return tree.unflatten(
            out_tree,
            [
                _placed(fun, axis, x, have, want, out_axes)
                for x, have, want in zip(outs, out_dims, wanted, strict=True)
            ],
        )

    return mapped


def _input_dims(
    fun: Callable[..., Any], in_axes: Any, args: tuple, kwargs: dict, in_tree: Any
) -> list[int | None]:
    """The mapped axis of every leaf; keyword arguments are mapped along axis 0."""
    axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
    try:
        return tree.flatten_axes("vmap in_axes", in_tree, (axes, 0))
    except ValueError as error:
        raise ValueError(
            "vmap in_axes specification must be a tree prefix of the corresponding value, got "
            f"specification {in_axes} for the arguments of {function_name(fun)}: {error}"
        ) from None


def _output_dims(out_axes: Any, out_tree: Any) -> list[int | None]:
    try:
        return tree.flatten_axes("vmap out_axes", out_tree, out_axes)
    except ValueError as error:
        raise ValueError(
            f"vmap out_axes specification must be a tree prefix of the corresponding value, got "
            f"specification {out_axes}: {error}"
        ) from None


def _axis_size(
    fun: Callable[..., Any],
    args: tuple,
    kwargs: dict,
    leaves: Sequence[Any],
    dims: Sequence[int | None],
    axis_size: int | None,
) -> int:
    paths = [argument_path(fun, path) for path, _ in tree.leaves_with_path((args, kwargs))]
    sizes: list[tuple[str, int, int, Any]] = []
    for path, leaf, dim in zip(paths, leaves, dims, strict=True):
        if dim is None:
            continue
        aval = get_aval(leaf)
        if not -aval.ndim <= dim < aval.ndim:
            needed = dim + 1 if dim >= 0 else -dim
            raise ValueError(
                f"vmap was requested to map its argument along axis {dim}, which implies that "
                "its rank "
                f"should be at least {needed}, but is only {aval.ndim} (its shape is "
                f"{aval.shape}): "
                f"argument {path} of {function_name(fun)}"
            )
        sizes.append((path, dim, aval.shape[dim], aval))
    found = {size for _, _, size, _ in sizes}
    if len(found) > 1:
        raise ValueError(_size_mismatch(fun, sizes))
    if axis_size is not None:
        if found and found != {axis_size}:
            raise ValueError(
                f"vmap got axis_size={axis_size}, but the mapped axes have size {found.pop()}"
            )
        return axis_size
    if not found:
        raise ValueError(
            "vmap must have at least one non-None value in in_axes "
            f"(vmap of {function_name(fun)}), or axis_size"
        )
    return found.pop()


def _size_mismatch(fun: Callable[..., Any], sizes: Sequence[tuple[str, int, int, Any]]) -> str:
    counts = Counter(size for _, _, size, _ in sizes)
    lines = []
    for size, count in counts.most_common():
        examples = [
            f"axis {dim} of argument {path} of type {aval.str_short()}"
            for path, dim, s, aval in sizes
            if s == size
        ]
        which = "one axis" if count == 1 else f"{count} axes"
        prefix = "e.g. " if count > 1 else ""
        lines.append(f"  * {which} had size {size}: {prefix}{examples[0]}")
    return (
        f"vmap got inconsistent sizes for array axes to be mapped (vmap of {function_name(fun)}):\n"
        + ";\n".join(lines)
    )


def _placed(
    fun: Callable[..., Any], axis: AxisData, x: Any, have: int | None, want: Any, out_axes: Any
) -> Any:
    if want is None:
        if have is not None:
            raise ValueError(
                f"vmap has mapped output but out_axes is None: {function_name(fun)} gives a result "
                f"that depends on the mapped axis, of type {get_aval(x).str_short()}, with "
                f"out_axes={out_axes}"
            )
        return x
    ndim = get_aval(x).ndim + (have is None)
    if not -ndim <= want < ndim:
        raise ValueError(f"vmap out_axes={want} is out of range for a result with {ndim} axes")
    return batch_at(x, have, axis.size, want % ndim)
