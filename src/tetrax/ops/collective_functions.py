"""Collectives as users call them: on trees of arrays, with names of mapped axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import tree
from tetrax.ops import axes as ax
from tetrax.ops.base import dtype_kind
from tetrax.ops.collective import (
    AllReduce,
    all_gather_p,
    all_to_all_p,
    axis_index_p,
    pmax_p,
    pmin_p,
    ppermute_p,
    psum_p,
    psum_scatter_p,
    pvary_p,
)
from tetrax.ops.collective_native import AxisName, names_of
from tetrax.ops.convert import convert_element_type
from tetrax.runtime.array import as_value
from tetrax.tracing.trace import axis_size_of, state
from tetrax.tracing.value import get_aval


def _frozen(groups: Any, axis_name: AxisName) -> tuple[tuple[int, ...], ...] | None:
    """Groups as tuples. Raises ValueError unless they hold every index once."""
    if groups is None:
        return None
    frozen = tuple(tuple(int(i) for i in group) for group in groups)
    size = axis_size_of(axis_name)
    if sorted(i for group in frozen for i in group) != list(range(size)):
        raise ValueError(
            f"axis_index_groups must cover all indices exactly once: got {groups} for axis "
            f"{axis_name!r} of size {size}"
        )
    return frozen


def _group_size(groups: tuple[tuple[int, ...], ...] | None, axis_name: AxisName) -> int:
    """How many exchange with each other. Raises ValueError for groups of different sizes."""
    if groups is None:
        return axis_size_of(axis_name)
    if len(set(map(len, groups))) > 1:
        raise ValueError(f"axis_index_groups must all be the same size, got {groups}")
    return len(groups[0])


def _varying(x: Any, axes: Sequence[Any]) -> Any:
    """`x` as a value that may differ along the axes, where types say so."""
    missing = tuple(a for a in axes if a in state.tracked_axes and a not in get_aval(x).vma)
    return pvary_p.bind(x, axes=missing) if missing else x


def _reduce_tree(primitive: AllReduce, x: Any, axis_name: AxisName, groups: Any) -> Any:
    axes = names_of(axis_name)
    axis_size_of(tuple(a for a in axes if not isinstance(a, int)))
    leaves, treedef = tree.flatten(x)
    leaves = [as_value(leaf) for leaf in leaves]
    if primitive is psum_p:
        leaves = [
            convert_element_type(leaf, np.int32) if dtype_kind(leaf.dtype) == "b" else leaf
            for leaf in leaves
        ]
    frozen = _frozen(groups, axis_name)
    leaves = [_varying(leaf, axes) for leaf in leaves]
    return tree.unflatten(treedef, primitive.bind(*leaves, axes=axes, axis_index_groups=frozen))


def psum(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The sum of `x` over the named axis, the same for every element.

    Raises NameError for a name that no vmap, pmap or shard_map around binds.
    """
    if isinstance(x, int | float | complex) and not isinstance(x, bool) and not axis_index_groups:
        names = tuple(a for a in names_of(axis_name) if not isinstance(a, int))
        return x * axis_size_of(names)
    return _reduce_tree(psum_p, x, axis_name, axis_index_groups)


def pmean(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The mean of `x` over the named axis."""
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    count = len(axis_index_groups[0]) if axis_index_groups else psum(1, axis_name)
    return tree.map(lambda leaf: leaf / count, total)


def pmax(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The largest `x` along the named axis."""
    return _reduce_tree(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The smallest `x` along the named axis."""
    return _reduce_tree(pmin_p, x, axis_name, axis_index_groups)


def axis_index(axis_name: AxisName) -> Any:
    """The position of this element along the named axis, int32 (row-major for several names)."""
    names = names_of(axis_name)
    position: Any = None
    for name in names:
        here = axis_index_p.bind(axis_name=name)
        size = axis_size_of(name)
        position = here if position is None else position * np.int32(size) + here
    return position


def axis_size(axis_name: AxisName) -> int:
    """The size of the named axis, a Python int."""
    return axis_size_of(axis_name)


def all_gather(
    x: Any,
    axis_name: AxisName,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
) -> Any:
    """All values along the named axis, stacked along `axis` (joined there if `tiled`)."""
    groups = _frozen(axis_index_groups, axis_name)
    size = _group_size(groups, axis_name)

    def one(leaf: Any) -> Any:
        leaf = _varying(as_value(leaf), names_of(axis_name))
        dimension = ax.canonical_axis(axis, get_aval(leaf).ndim + (not tiled))
        return all_gather_p.bind(
            leaf,
            axis_name=axis_name,
            axis_size=size,
            all_gather_dimension=dimension,
            tiled=tiled,
            axis_index_groups=groups,
        )

    return tree.map(one, x)


def psum_scatter(
    x: Any,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """The sum over the named axis, of which every element keeps its own part."""
    groups = _frozen(axis_index_groups, axis_name)
    size = _group_size(groups, axis_name)

    def one(leaf: Any) -> Any:
        leaf = _varying(as_value(leaf), names_of(axis_name))
        dimension = ax.canonical_axis(scatter_dimension, get_aval(leaf).ndim)
        extent = get_aval(leaf).shape[dimension]
        if (tiled and extent % size) or (not tiled and extent != size):
            need = "a multiple of" if tiled else "equal to"
            raise ValueError(
                f"psum_scatter: axis {dimension} of size {extent} must be {need} the size "
                f"{size} of axis {axis_name!r}"
            )
        return psum_scatter_p.bind(
            leaf,
            axis_name=axis_name,
            axis_size=size,
            scatter_dimension=dimension,
            tiled=tiled,
            axis_index_groups=groups,
        )

    return tree.map(one, x)


def ppermute(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values along the pairs (source, destination) of `perm`; the others get zeros."""
    axis_size_of(axis_name)
    pairs = tuple((int(s), int(d)) for s, d in perm)
    if len({s for s, _ in pairs}) != len(pairs) or len({d for _, d in pairs}) != len(pairs):
        raise ValueError(f"ppermute sources and destinations must be unique, got {pairs}")
    return tree.map(
        lambda leaf: ppermute_p.bind(
            _varying(as_value(leaf), names_of(axis_name)), axis_name=axis_name, perm=pairs
        ),
        x,
    )


def pshuffle(x: Any, axis_name: AxisName, perm: Sequence[int]) -> Any:
    """Element i gets the value of element perm[i]."""
    size = axis_size_of(axis_name)
    if sorted(perm) != list(range(size)):
        raise ValueError(f"`perm` does not represent a permutation: {perm}")
    return ppermute(x, axis_name, [(source, i) for i, source in enumerate(perm)])


def all_to_all(
    x: Any,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Split `x` along `split_axis`, exchange the parts, join them along `concat_axis`."""
    groups = _frozen(axis_index_groups, axis_name)
    size = _group_size(groups, axis_name)

    def one(leaf: Any) -> Any:
        leaf = _varying(as_value(leaf), names_of(axis_name))
        split = ax.canonical_axis(split_axis, get_aval(leaf).ndim)
        concat = ax.canonical_axis(concat_axis, get_aval(leaf).ndim)
        extent = get_aval(leaf).shape[split]
        if (tiled and extent % size) or (not tiled and extent != size):
            raise ValueError(
                f"all_to_all requires the size of the mapped axis {axis_name!r} to equal x.shape"
                f"[split_axis], but they are {size} and {extent} respectively."
            )
        return all_to_all_p.bind(
            leaf,
            axis_name=axis_name,
            axis_size=size,
            split_axis=split,
            concat_axis=concat,
            tiled=tiled,
            axis_index_groups=groups,
        )

    return tree.map(one, x)


def pswapaxes(x: Any, axis_name: AxisName, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Swap the named axis with the positional `axis`."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def pbroadcast(x: Any, axis_name: AxisName, source: int) -> Any:
    """The value of element `source` along the named axis, for all."""
    gathered = all_gather(x, axis_name)
    return tree.map(lambda leaf: leaf[source], gathered)


def pvary(x: Any, axis_name: AxisName) -> Any:
    """`x` as a value that may differ along the named axes; its elements stay what they are.

    Under `shard_map` types say along which axes values vary. What does not is the same for all
    devices, and its cotangents are summed over them.
    """
    return pcast(x, axis_name, to="varying")


def pcast(x: Any, axis_name: AxisName | None = None, *, to: str) -> Any:
    """`x` with a type that says it varies along the named axes (`to="varying"`).

    Raises ValueError for another `to`.
    """
    if to != "varying":
        raise ValueError(f"pcast only supports to='varying', got {to!r}")
    names = () if axis_name is None else names_of(axis_name)
    axis_size_of(names)
    return tree.map(lambda leaf: _varying(as_value(leaf), names), x)
