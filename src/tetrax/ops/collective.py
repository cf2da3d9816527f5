"""Collectives: operations across a named, mapped axis.

Under `vmap(axis_name=...)` the axis is a batch axis, and a collective is a reduction or a
rearrangement along it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import errors, tree
from tetrax.ir.types import ShapedArray
from tetrax.ops import axes as ax
from tetrax.ops.arithmetic import div, mul
from tetrax.ops.base import dtype_kind, instantiate
from tetrax.ops.creation import broadcasted_iota
from tetrax.ops.join import concatenate
from tetrax.ops.reduce import reduce_max, reduce_min
from tetrax.ops.slicing import slice_in_dim
from tetrax.ops.structure import (
    batch_at,
    broadcast_in_dim,
    full,
    move_axis,
    reduce_sum,
    reshape,
    transpose,
    zeros,
)
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.trace import axis_size_of
from tetrax.tracing.value import get_aval

AxisName = Any


def _names(axis_name: AxisName) -> tuple[Any, ...]:
    return tuple(axis_name) if isinstance(axis_name, tuple | list) else (axis_name,)


class Collective(Primitive):
    """Base: `axes` or `axis_name` in the parameters names what the operation works across."""

    is_pure = True

    def names(self, params: dict) -> tuple[Any, ...]:
        return _names(params["axes"] if "axes" in params else params["axis_name"])

    def uses_axis(self, name: Any, params: dict) -> bool:
        return name is not None and name in self.names(params)

    def reference(self, *arrays: np.ndarray, **params: Any) -> Any:
        raise NameError(f"unbound axis name in {self.name}: {self.names(params)}")

    def stablehlo(self, context: Any, operands: Any, outs: Any, **params: Any) -> Any:
        raise self.missing("stablehlo")


def _positional_shift(axes: Sequence[Any], dim: int) -> tuple[Any, ...]:
    """Positional axes among `axes`, moved for a batch axis at `dim`; names are kept."""
    return tuple(a + (a >= dim) if isinstance(a, int) else a for a in axes)


class AllReduce(Collective):
    """Reduce across named axes (and positional ones); the result is the same for all."""

    multiple_results = True

    def __init__(self, name: str, reduce: Callable[[Any, Sequence[int]], Any]) -> None:
        super().__init__(name)
        self.reduce = reduce

    def shape(self, *avals: ShapedArray, axes: tuple[Any, ...], axis_index_groups: Any = None):
        positional = [a for a in axes if isinstance(a, int)]
        return [ShapedArray(ax.without(a.shape, positional), a.dtype) for a in avals]

    def jvp(self, primals, tangents, **params):
        if self.name != "psum":
            raise NotImplementedError(f"{self.name} has no derivative; only psum and pmean do")
        outs = self.bind(*primals, **params)
        pushed = [
            Zero.from_primal_value(out) if type(t) is Zero else self.bind(t, **params)[0]
            for t, out in zip(tangents, outs, strict=True)
        ]
        return outs, pushed

    def transpose(self, cts, *operands, axes, axis_index_groups=None):
        positional = [a for a in axes if isinstance(a, int)]
        names = tuple(a for a in axes if not isinstance(a, int))
        results = []
        for ct, x in zip(cts, operands, strict=True):
            if type(ct) is Zero:
                results.append(Zero(x.aval))
                continue
            if names:
                (ct,) = self.bind(ct, axes=names, axis_index_groups=axis_index_groups)
            if positional:
                kept = [i for i in range(x.aval.ndim) if i not in positional]
                ct = broadcast_in_dim(ct, x.aval.shape, kept)
            results.append(ct)
        return results

    def batch_axis(self, axis, operands, dims, *, axes, axis_index_groups=None):
        if axis.name is None or axis.name not in axes:
            return self._pass_through(operands, dims, axes, axis_index_groups)
        if axis_index_groups is not None:
            raise NotImplementedError(
                f"axis_index_groups not supported in vmap: {self.name} over {axes}"
            )
        rest = tuple(a for a in axes if a != axis.name)
        outs = []
        for x, d in zip(operands, dims, strict=True):
            if d is None:
                outs.append(self._of_equal(x, axis.size))
            else:
                outs.append(self.reduce(x, (d,)))
        if rest:
            outs = self.bind(*outs, axes=rest, axis_index_groups=None)
        return outs, [None] * len(outs)

    def _of_equal(self, x: Any, size: int) -> Any:
        """The reduction of `size` equal values."""
        if self.name != "psum":
            return x
        aval = get_aval(x)
        return mul(x, full(aval.shape, size, aval.dtype))

    def _pass_through(self, operands, dims, axes, groups):
        outs, out_dims = [], []
        for x, d in zip(operands, dims, strict=True):
            shifted = axes if d is None else _positional_shift(axes, d)
            (out,) = self.bind(x, axes=shifted, axis_index_groups=groups)
            outs.append(out)
            out_dims.append(
                None if d is None else d - sum(a < d for a in shifted if isinstance(a, int))
            )
        return outs, out_dims


psum_p = AllReduce("psum", reduce_sum)
pmax_p = AllReduce("pmax", reduce_max)
pmin_p = AllReduce("pmin", reduce_min)


class AxisIndex(Collective):
    """The position along a named axis, int32."""

    def shape(self, *, axis_name: AxisName):
        axis_size_of(axis_name)
        return ShapedArray((), np.int32)

    def jvp(self, primals, tangents, **params):
        out = self.bind(**params)
        return out, Zero.from_primal_value(out)

    def batch_axis(self, axis, operands, dims, *, axis_name):
        return broadcasted_iota(np.int32, (axis.size,), 0), 0


axis_index_p = AxisIndex("axis_index")


class AllGather(Collective):
    """The values of all along a new axis (or, `tiled`, along an old one)."""

    def shape(
        self, x, *, axis_name, axis_size, all_gather_dimension, tiled, axis_index_groups=None
    ):
        if tiled:
            shape = list(x.shape)
            shape[all_gather_dimension] *= axis_size
        else:
            shape = list(ax.insert(x.shape, all_gather_dimension, axis_size))
        return ShapedArray(shape, x.dtype)

    def jvp(self, primals, tangents, **params):
        return _linear_jvp(self, primals, tangents, params)

    def transpose(self, ct, x, **params):
        if type(ct) is Zero:
            return [Zero(x.aval)]
        params = dict(params)
        params["scatter_dimension"] = params.pop("all_gather_dimension")
        return [psum_scatter_p.bind(ct, **params)]

    def batch_axis(self, axis, operands, dims, *, axis_name, all_gather_dimension, tiled, **params):
        (x,), (d,) = operands, dims
        names = _names(axis_name)
        if axis.name not in names:
            target = all_gather_dimension + (d <= all_gather_dimension)
            out = self.bind(
                x, axis_name=axis_name, all_gather_dimension=target, tiled=tiled, **params
            )
            return out, d + (not tiled and target <= d)
        if len(names) > 1:
            raise NotImplementedError("all_gather over several vmapped axes at once")
        x = batch_at(x, d, axis.size)
        out = move_axis(x, 0, all_gather_dimension)
        if tiled:
            shape = list(get_aval(x).shape[1:])
            shape[all_gather_dimension] *= axis.size
            out = reshape(out, shape)
        return out, None


class PsumScatter(Collective):
    """The sum of all, each keeping its own part along `scatter_dimension`."""

    def shape(self, x, *, axis_name, axis_size, scatter_dimension, tiled, axis_index_groups=None):
        shape = list(x.shape)
        if tiled:
            shape[scatter_dimension] //= axis_size
        else:
            del shape[scatter_dimension]
        return ShapedArray(shape, x.dtype)

    def jvp(self, primals, tangents, **params):
        return _linear_jvp(self, primals, tangents, params)

    def transpose(self, ct, x, **params):
        if type(ct) is Zero:
            return [Zero(x.aval)]
        params = dict(params)
        params["all_gather_dimension"] = params.pop("scatter_dimension")
        return [all_gather_p.bind(ct, **params)]

    def batch_axis(self, axis, operands, dims, *, axis_name, scatter_dimension, tiled, **params):
        (x,), (d,) = operands, dims
        if axis.name not in _names(axis_name):
            target = scatter_dimension + (d <= scatter_dimension)
            out = self.bind(x, axis_name=axis_name, scatter_dimension=target, tiled=tiled, **params)
            return out, d - (not tiled and target < d)
        summed = mul_size(x, axis.size) if d is None else reduce_sum(x, (d,))
        shape = get_aval(summed).shape
        if not tiled:
            return move_axis(summed, scatter_dimension, 0), 0
        part = shape[scatter_dimension] // axis.size
        split = (*shape[:scatter_dimension], axis.size, part, *shape[scatter_dimension + 1 :])
        return move_axis(reshape(summed, split), scatter_dimension, 0), 0


def mul_size(x: Any, size: int) -> Any:
    """`size` times `x`."""
    aval = get_aval(x)
    return mul(x, full(aval.shape, size, aval.dtype))


all_gather_p = AllGather("all_gather")
psum_scatter_p = PsumScatter("reduce_scatter")


class Ppermute(Collective):
    """Values move along pairs (source, destination); who is no destination gets zeros."""

    def shape(self, x, *, axis_name, perm):
        return x

    def jvp(self, primals, tangents, **params):
        return _linear_jvp(self, primals, tangents, params)

    def transpose(self, ct, x, *, axis_name, perm):
        if type(ct) is Zero:
            return [Zero(x.aval)]
        inverse = tuple((d, s) for s, d in perm)
        return [self.bind(ct, axis_name=axis_name, perm=inverse)]

    def batch_axis(self, axis, operands, dims, *, axis_name, perm):
        (x,), (d,) = operands, dims
        if axis.name not in _names(axis_name):
            return self.bind(x, axis_name=axis_name, perm=perm), d
        x = batch_at(x, d, axis.size)
        sources = np.full(axis.size, -1, np.int32)
        for source, destination in perm:
            sources[destination] = source
        rows = [
            zeros(get_aval(x).update(shape=(1, *get_aval(x).shape[1:])))
            if source < 0
            else slice_in_dim(x, int(source), int(source) + 1)
            for source in sources
        ]
        return concatenate(rows, 0), 0


ppermute_p = Ppermute("ppermute")


class AllToAll(Collective):
    """Split along one axis, send part i to device i, stack what arrives along another."""

    def shape(self, x, *, axis_name, axis_size, split_axis, concat_axis, tiled, **params):
        shape = list(x.shape)
        if tiled:
            shape[split_axis] //= axis_size
            shape[concat_axis] *= axis_size
        else:
            del shape[split_axis]
            shape.insert(concat_axis, axis_size)
        return ShapedArray(shape, x.dtype)

    def jvp(self, primals, tangents, **params):
        return _linear_jvp(self, primals, tangents, params)

    def transpose(self, ct, x, *, split_axis, concat_axis, **params):
        if type(ct) is Zero:
            return [Zero(x.aval)]
        return [self.bind(ct, split_axis=concat_axis, concat_axis=split_axis, **params)]

    def batch_axis(
        self, axis, operands, dims, *, axis_name, split_axis, concat_axis, tiled, **params
    ):
        (x,), (d,) = operands, dims
        if axis.name not in _names(axis_name):
            x = move_axis(x, d, 0)
            out = self.bind(
                x,
                axis_name=axis_name,
                split_axis=split_axis + 1,
                concat_axis=concat_axis + 1,
                tiled=tiled,
                **params,
            )
            return out, 0
        x = batch_at(x, d, axis.size)
        if not tiled:
            # (sender, ..., receiver, ...) -> (receiver, ..., sender, ...)
            x = move_axis(x, split_axis + 1, 0)
            return move_axis(x, 1, concat_axis + 1), 0
        return _tiled_all_to_all(x, axis.size, split_axis + 1, concat_axis + 1), 0


def _tiled_all_to_all(x: Any, size: int, split_axis: int, concat_axis: int) -> Any:
    shape = get_aval(x).shape
    split = (*shape[:split_axis], size, shape[split_axis] // size, *shape[split_axis + 1 :])
    x = reshape(x, split)
    ndim = len(split)
    target = concat_axis + (concat_axis > split_axis)
    # New order: receiver first, the sender right before the axis it is joined to.
    order = [i for i in range(ndim) if i not in (0, split_axis)]
    order.insert(order.index(target if target != split_axis else split_axis + 1), 0)
    x = transpose(x, (split_axis, *order))
    out = list(shape)
    out[split_axis] //= size
    out[concat_axis] *= size
    return reshape(x, out)


all_to_all_p = AllToAll("all_to_all")


def _linear_jvp(self: Primitive, primals: Any, tangents: Any, params: dict) -> Any:
    out = self.bind(*primals, **params)
    if type(tangents[0]) is Zero:
        return out, Zero.from_primal_value(out)
    return out, self.bind(instantiate(tangents[0]), **params)


# -- functions -----------------------------------------------------------------------------------


def _reduce_tree(primitive: AllReduce, x: Any, axis_name: AxisName, groups: Any) -> Any:
    axes = _names(axis_name)
    axis_size_of(tuple(a for a in axes if not isinstance(a, int)))
    leaves, treedef = tree.flatten(x)
    leaves = [as_value(leaf) for leaf in leaves]
    if primitive is psum_p:
        leaves = [
            mul(leaf, full((), 1, np.int32)) if dtype_kind(leaf.dtype) == "b" else leaf
            for leaf in leaves
        ]
    frozen = None if groups is None else tuple(map(tuple, groups))
    return tree.unflatten(treedef, primitive.bind(*leaves, axes=axes, axis_index_groups=frozen))


def psum(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The sum of `x` over the named axis, the same for every element.

    Raises NameError for a name that no vmap, pmap or shard_map around binds.
    """
    if isinstance(x, int | float | complex) and not isinstance(x, bool) and not axis_index_groups:
        names = tuple(a for a in _names(axis_name) if not isinstance(a, int))
        return x * axis_size_of(names)
    return _reduce_tree(psum_p, x, axis_name, axis_index_groups)


def pmean(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The mean of `x` over the named axis."""
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    count = len(axis_index_groups[0]) if axis_index_groups else psum(1, axis_name)
    return tree.map(lambda leaf: div(as_value(leaf), float(count)), total)


def pmax(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The largest `x` along the named axis."""
    return _reduce_tree(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The smallest `x` along the named axis."""
    return _reduce_tree(pmin_p, x, axis_name, axis_index_groups)


def axis_index(axis_name: AxisName) -> Any:
    """The position of this element along the named axis, int32 (row-major for several names)."""
    names = _names(axis_name)
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
    size = axis_size_of(axis_name)

    def one(leaf: Any) -> Any:
        leaf = as_value(leaf)
        dimension = ax.canonical_axis(axis, get_aval(leaf).ndim + (not tiled))
        return all_gather_p.bind(
            leaf,
            axis_name=axis_name,
            axis_size=size,
            all_gather_dimension=dimension,
            tiled=tiled,
            axis_index_groups=axis_index_groups,
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
    size = axis_size_of(axis_name)

    def one(leaf: Any) -> Any:
        leaf = as_value(leaf)
        extent = get_aval(leaf).shape[scatter_dimension]
        if (tiled and extent % size) or (not tiled and extent != size):
            need = "a multiple of" if tiled else "equal to"
            raise errors.ShapeError(
                f"psum_scatter: axis {scatter_dimension} of size {extent} must be {need} the size "
                f"{size} of axis {axis_name!r}"
            )
        return psum_scatter_p.bind(
            leaf,
            axis_name=axis_name,
            axis_size=size,
            scatter_dimension=scatter_dimension,
            tiled=tiled,
            axis_index_groups=axis_index_groups,
        )

    return tree.map(one, x)


def ppermute(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values along the pairs (source, destination) of `perm`; the others get zeros."""
    axis_size_of(axis_name)
    pairs = tuple((int(s), int(d)) for s, d in perm)
    if len({s for s, _ in pairs}) != len(pairs) or len({d for _, d in pairs}) != len(pairs):
        raise ValueError(f"ppermute sources and destinations must be unique, got {pairs}")
    return tree.map(
        lambda leaf: ppermute_p.bind(as_value(leaf), axis_name=axis_name, perm=pairs), x
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
    size = axis_size_of(axis_name)

    def one(leaf: Any) -> Any:
        leaf = as_value(leaf)
        extent = get_aval(leaf).shape[split_axis]
        if (tiled and extent % size) or (not tiled and extent != size):
            raise errors.ShapeError(
                f"all_to_all requires the size of the mapped axis {axis_name!r} to equal x.shape"
                f"[split_axis], but they are {size} and {extent} respectively."
            )
        return all_to_all_p.bind(
            leaf,
            axis_name=axis_name,
            axis_size=size,
            split_axis=split_axis,
            concat_axis=concat_axis,
            tiled=tiled,
            axis_index_groups=axis_index_groups,
        )

    return tree.map(one, x)


def pswapaxes(x: Any, axis_name: AxisName, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Swap the named axis with the positional `axis`."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def pbroadcast(x: Any, axis_name: AxisName, source: int) -> Any:
    """The value of element `source` along the named axis, for all."""
    gathered = all_gather(x, axis_name)
    return tree.map(lambda leaf: leaf[source], gathered)
