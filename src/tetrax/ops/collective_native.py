"""Collectives of devices as exchanges of blocks (`exchange.py`), for the compiler: axes are moved
to the front before and back after, narrow types are converted.

The functions take the operands and parameters of the operations in `collective.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax.ir.program import ClosedProgram
from tetrax.ir.types import ShapedArray
from tetrax.ops import axes as ax
from tetrax.ops import exchange
from tetrax.ops.base import dtype_kind
from tetrax.ops.convert import convert_element_type
from tetrax.ops.structure import move_axis, reshape
from tetrax.tracing.staging import stage_flat
from tetrax.tracing.value import get_aval

AxisName = Any


def names_of(axis_name: AxisName) -> tuple[Any, ...]:
    """The names in a name or a tuple of them."""
    return tuple(axis_name) if isinstance(axis_name, tuple | list) else (axis_name,)


def as_program(
    fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], params: dict
) -> ClosedProgram:
    """What `fun` does with operands of these types and with the parameters."""
    return stage_flat(lambda *operands: fun(*operands, **params), list(avals))


_WIDE = {"f": np.dtype(np.float32), "i": np.dtype(np.int32), "u": np.dtype(np.uint32)}
_REDUCED = frozenset(
    np.dtype(name)
    for name in (
        *("float32", "float64", "complex64", "complex128"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    )
)


def _reduced_as(dtype: Any) -> Any:
    """The dtype in which elements are reduced."""
    if dtype in _REDUCED:
        return dtype
    if dtype == np.bool_:
        return np.dtype(np.uint8)
    if dtypes.issubdtype(dtype, np.floating):
        return _WIDE["f"]
    return _WIDE[dtype_kind(dtype)]


def _through(x: Any, reduce: Callable[[Any], Any]) -> Any:
    """`reduce(x)` with the elements in a type that there are routines for."""
    dtype = get_aval(x).dtype
    wide = _reduced_as(dtype)
    if wide == dtype:
        return reduce(x)
    return convert_element_type(reduce(convert_element_type(x, wide)), dtype)


def all_reduce(
    operation: str, reduce: Callable[[Any, Sequence[int]], Any]
) -> Callable[..., Sequence[Any]]:
    """A reduction over names; `reduce` does it over positional axes."""

    def one(x: Any, axes: Sequence[Any], groups: Any) -> Any:
        positional = [a for a in axes if isinstance(a, int)]
        names = tuple(a for a in axes if not isinstance(a, int))
        if positional:
            x = reduce(x, positional)
        if not names:
            return x
        params = {"operation": operation, "names": names, "groups": groups}
        return _through(x, lambda y: exchange.all_reduce_p.bind(y, **params))

    def run(*operands: Any, axes: Sequence[Any], axis_index_groups: Any = None) -> Sequence[Any]:
        return [one(x, axes, axis_index_groups) for x in operands]

    return run


def all_gather(
    x: Any,
    *,
    axis_name: AxisName,
    axis_size: int,
    all_gather_dimension: int,
    tiled: bool,
    axis_index_groups: Any = None,
) -> Sequence[Any]:
    names = names_of(axis_name)
    blocks = exchange.all_gather_p.bind(x, size=axis_size, names=names, groups=axis_index_groups)
    out = move_axis(blocks, 0, all_gather_dimension)
    return [joined(out, all_gather_dimension) if tiled else out]


def psum_scatter(
    x: Any,
    *,
    axis_name: AxisName,
    axis_size: int,
    scatter_dimension: int,
    tiled: bool,
    axis_index_groups: Any = None,
) -> Sequence[Any]:
    if tiled:
        x = split(x, scatter_dimension, axis_size)
    blocks = move_axis(x, scatter_dimension, 0)
    names = names_of(axis_name)

    def reduce(y: Any) -> Any:
        return exchange.reduce_scatter_p.bind(
            y, operation="sum", names=names, groups=axis_index_groups
        )

    return [_through(blocks, reduce)]


def all_to_all(
    x: Any,
    *,
    axis_name: AxisName,
    axis_size: int,
    split_axis: int,
    concat_axis: int,
    tiled: bool,
    axis_index_groups: Any = None,
) -> Sequence[Any]:
    if tiled:
        x = split(x, split_axis, axis_size)
    blocks = move_axis(x, split_axis, 0)
    blocks = exchange.all_to_all_p.bind(blocks, names=names_of(axis_name), groups=axis_index_groups)
    out = move_axis(blocks, 0, concat_axis)
    return [joined(out, concat_axis) if tiled else out]


def ppermute(x: Any, *, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Sequence[Any]:
    pairs = tuple((int(s), int(d)) for s, d in perm)
    return [exchange.permute_p.bind(x, names=names_of(axis_name), pairs=pairs)]


def split(x: Any, axis: int, size: int) -> Any:
    """`x` with an axis of `size` parts before `axis`."""
    shape = get_aval(x).shape
    return reshape(x, (*shape[:axis], size, shape[axis] // size, *shape[axis + 1 :]))


def joined(x: Any, axis: int) -> Any:
    """`x` with `axis` and the one behind it as one."""
    shape = get_aval(x).shape
    return reshape(x, (*shape[:axis], ax.product(shape[axis : axis + 2]), *shape[axis + 2 :]))
