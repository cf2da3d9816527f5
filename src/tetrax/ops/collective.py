"""Collectives: operations across a named, mapped axis.

Under `vmap(axis_name=...)` the axis is a batch axis, and a collective is a reduction or a
rearrangement along it. Under `pmap` and `shard_map` it is one of devices, and they meet
(`collective_native.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from tetrax.ir.control import Inline, Position
from tetrax.ir.program import ClosedProgram
from tetrax.ir.types import ShapedArray
from tetrax.ops import axes as ax
from tetrax.ops import collective_native as native
from tetrax.ops.arithmetic import mul
from tetrax.ops.base import instantiate
from tetrax.ops.collective_native import AxisName, as_program, names_of
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
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.trace import axis_size_of, state
from tetrax.tracing.value import get_aval


class Collective(Primitive):
    """Base: `axes` or `axis_name` in the parameters names what the operation works across."""

    is_pure = True
    # What devices do, for reports; "" where they exchange nothing.
    kind = ""

    def names(self, params: dict) -> tuple[Any, ...]:
        return names_of(params["axes"] if "axes" in params else params["axis_name"])

    def uses_axis(self, name: Any, params: dict) -> bool:
        return name is not None and name in self.names(params)

    def stablehlo(self, context: Any, operands: Any, outs: Any, **params: Any) -> Any:
        raise self.missing("stablehlo")


def _positional_shift(axes: Sequence[Any], dim: int) -> tuple[Any, ...]:
    """Positional axes among `axes`, moved for a batch axis at `dim`; names are kept."""
    return tuple(a + (a >= dim) if isinstance(a, int) else a for a in axes)


class AllReduce(Collective):
    """Reduce across named axes (and positional ones); the result is the same for all."""

    kind = "all_reduce"
    multiple_results = True

    def __init__(self, operation: str, reduce: Callable[[Any, Sequence[int]], Any]) -> None:
        super().__init__(f"p{operation}")
        self.operation = operation
        self.reduce = reduce

    def shape(self, *avals: ShapedArray, axes: tuple[Any, ...], axis_index_groups: Any = None):
        positional = [a for a in axes if isinstance(a, int)]
        return [ShapedArray(ax.without(a.shape, positional), a.dtype) for a in avals]

    def expansion(self, avals: Sequence[ShapedArray], params: dict) -> ClosedProgram:
        return as_program(native.all_reduce(self.operation, self.reduce), avals, params)

    def jvp(self, primals, tangents, **params):
        if self.name != "psum":
            raise NotImplementedError(f"{self.name} has no derivative; only psum and pmean do")
        outs = self.bind(*primals, **params)
        pushed = [
            Zero.from_primal_value(out) if type(t) is Zero else self.bind(t, **params)[0]
            for t, out in zip(tangents, outs, strict=True)
        ]
        return outs, pushed

    def varying(self, avals, outs, params):
        # What groups of devices have differs between groups.
        names = () if params["axis_index_groups"] else self.names(params)
        return [out.varying(a.vma.difference(names)) for a, out in zip(avals, outs, strict=True)]

    def transpose(self, cts, *operands, axes, axis_index_groups=None):
        positional = [a for a in axes if isinstance(a, int)]
        names = tuple(a for a in axes if not isinstance(a, int))
        results = []
        for ct, x in zip(cts, operands, strict=True):
            if type(ct) is Zero:
                results.append(Zero(x.aval))
                continue
            same = () if axis_index_groups else x.aval.vma
            tracked = tuple(name for name in names if name in same)
            rest = tuple(name for name in names if name not in same)
            if tracked:
                ct = pvary_p.bind(ct, axes=tracked)
            if rest:
                (ct,) = self.bind(ct, axes=rest, axis_index_groups=axis_index_groups)
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


psum_p = AllReduce("sum", reduce_sum)
pmax_p = AllReduce("max", reduce_max)
pmin_p = AllReduce("min", reduce_min)


class Pvary(Collective):
    """A value that is the same along some axes of devices as one that may differ there."""

    def shape(self, x, *, axes):
        return x.varying(x.vma.union(axes))

    def varying(self, avals, outs, params):
        return list(outs)

    def jvp(self, primals, tangents, *, axes):
        return _linear_jvp(self, primals, tangents, {"axes": axes})

    def transpose(self, ct, x, *, axes):
        return [Zero(x.aval) if type(ct) is Zero else sum_over(ct, set(axes) - x.aval.vma)]

    def batch_axis(self, axis, operands, dims, *, axes):
        return self.bind(operands[0], axes=axes), dims[0]

    def structure(self, avals: Sequence[ShapedArray], *, axes: Sequence[Any]) -> Inline:
        return Inline(as_program(lambda x: [x], avals, {}))


pvary_p = Pvary("pvary")


def sum_over(x: Any, names: Iterable[Any]) -> Any:
    """The sum of `x` over named axes of devices."""
    ordered = tuple(sorted(names, key=str))
    if not ordered:
        return x
    return psum_p.bind(x, axes=ordered, axis_index_groups=None)[0]


def vary_over(x: Any, names: Iterable[Any]) -> Any:
    """`x` as a value that may differ along named axes of devices."""
    ordered = tuple(sorted(names, key=str))
    return pvary_p.bind(x, axes=ordered) if ordered else x


class AxisIndex(Collective):
    """The position along a named axis, int32."""

    def shape(self, *, axis_name: AxisName):
        return ShapedArray((), np.int32, False, state.tracked_axes & {axis_name})

    def structure(self, avals: Sequence[ShapedArray], *, axis_name: AxisName) -> Position:
        return Position(axis_name)

    def jvp(self, primals, tangents, **params):
        out = self.bind(**params)
        return out, Zero.from_primal_value(out)

    def batch_axis(self, axis, operands, dims, *, axis_name):
        return broadcasted_iota(np.int32, (axis.size,), 0), 0


axis_index_p = AxisIndex("axis_index")


class AllGather(Collective):
    """The values of all along a new axis (or, `tiled`, along an old one)."""

    kind = "all_gather"

    def shape(
        self, x, *, axis_name, axis_size, all_gather_dimension, tiled, axis_index_groups=None
    ):
        if tiled:
            shape = list(x.shape)
            shape[all_gather_dimension] *= axis_size
        else:
            shape = list(ax.insert(x.shape, all_gather_dimension, axis_size))
        return ShapedArray(shape, x.dtype)

    def expansion(self, avals: Sequence[ShapedArray], params: dict) -> ClosedProgram:
        return as_program(native.all_gather, avals, params)

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
        names = names_of(axis_name)
        if axis.name not in names:
            target = all_gather_dimension + (d <= all_gather_dimension)
            out = self.bind(
                x, axis_name=axis_name, all_gather_dimension=target, tiled=tiled, **params
            )
            return out, d + (not tiled and target <= d)
        no_groups(self, params)
        blocks = batch_at(x, d, axis.size)
        before, behind, sizes = beside(names, axis.name)
        if before or behind:
            rest = (*before, *behind)
            blocks = self.bind(
                blocks,
                axis_name=rest,
                axis_size=sizes[0] * sizes[1],
                all_gather_dimension=0,
                tiled=False,
                axis_index_groups=None,
            )
            shape = get_aval(blocks).shape
            blocks = move_axis(reshape(blocks, (*sizes, *shape[1:])), 1, 2)
            blocks = reshape(blocks, (ax.product(sizes) * axis.size, *shape[2:]))
        out = move_axis(blocks, 0, all_gather_dimension)
        return native.joined(out, all_gather_dimension) if tiled else out, None


class PsumScatter(Collective):
    """The sum of all, each keeping its own part along `scatter_dimension`."""

    kind = "reduce_scatter"

    def shape(self, x, *, axis_name, axis_size, scatter_dimension, tiled, axis_index_groups=None):
        shape = list(x.shape)
        if tiled:
            shape[scatter_dimension] //= axis_size
        else:
            del shape[scatter_dimension]
        return ShapedArray(shape, x.dtype)

    def expansion(self, avals: Sequence[ShapedArray], params: dict) -> ClosedProgram:
        return as_program(native.psum_scatter, avals, params)

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
        if axis.name not in names_of(axis_name):
            target = scatter_dimension + (d <= scatter_dimension)
            out = self.bind(x, axis_name=axis_name, scatter_dimension=target, tiled=tiled, **params)
            return out, d - (not tiled and target < d)
        no_groups(self, params)
        summed = mul_size(x, axis.size) if d is None else reduce_sum(x, (d,))
        before, behind, sizes = beside(names_of(axis_name), axis.name)
        size = ax.product(sizes) * axis.size
        if tiled:
            summed = native.split(summed, scatter_dimension, size)
        blocks = move_axis(summed, scatter_dimension, 0)
        if not before and not behind:
            return blocks, 0
        shape = get_aval(blocks).shape[1:]
        parts = move_axis(reshape(blocks, (sizes[0], axis.size, sizes[1], *shape)), 1, 0)
        parts = reshape(parts, (axis.size, sizes[0] * sizes[1], *shape))
        out = self.bind(
            parts,
            axis_name=(*before, *behind),
            axis_size=sizes[0] * sizes[1],
            scatter_dimension=1,
            tiled=False,
            axis_index_groups=None,
        )
        return out, 0


def mul_size(x: Any, size: int) -> Any:
    """`size` times `x`."""
    aval = get_aval(x)
    return mul(x, full(aval.shape, size, aval.dtype))


def no_groups(primitive: Primitive, params: dict) -> None:
    """Raises NotImplementedError for groups along a batch axis."""
    if params.get("axis_index_groups") is not None:
        raise NotImplementedError(f"axis_index_groups not supported in vmap: {primitive.name}")


def beside(
    names: tuple[Any, ...], name: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[int, int]]:
    """The names before and behind one of several, and the sizes of both."""
    at = names.index(name)
    before, behind = names[:at], names[at + 1 :]
    return before, behind, (axis_size_of(before), axis_size_of(behind))


all_gather_p = AllGather("all_gather")
psum_scatter_p = PsumScatter("reduce_scatter")


class Ppermute(Collective):
    """Values move along pairs (source, destination); who is no destination gets zeros."""

    kind = "permute"

    def shape(self, x, *, axis_name, perm):
        return x

    def expansion(self, avals: Sequence[ShapedArray], params: dict) -> ClosedProgram:
        return as_program(native.ppermute, avals, params)

    def jvp(self, primals, tangents, **params):
        return _linear_jvp(self, primals, tangents, params)

    def transpose(self, ct, x, *, axis_name, perm):
        if type(ct) is Zero:
            return [Zero(x.aval)]
        inverse = tuple((d, s) for s, d in perm)
        return [self.bind(ct, axis_name=axis_name, perm=inverse)]

    def batch_axis(self, axis, operands, dims, *, axis_name, perm):
        (x,), (d,) = operands, dims
        if axis.name not in names_of(axis_name):
            return self.bind(x, axis_name=axis_name, perm=perm), d
        if names_of(axis_name) != (axis.name,):
            raise NotImplementedError(
                f"ppermute over {axis_name} at once, of which vmap maps {axis.name!r}: permute "
                "along one axis after the other"
            )
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

    kind = "all_to_all"

    def shape(self, x, *, axis_name, axis_size, split_axis, concat_axis, tiled, **params):
        shape = list(x.shape)
        if tiled:
            shape[split_axis] //= axis_size
            shape[concat_axis] *= axis_size
        else:
            del shape[split_axis]
            shape.insert(concat_axis, axis_size)
        return ShapedArray(shape, x.dtype)

    def expansion(self, avals: Sequence[ShapedArray], params: dict) -> ClosedProgram:
        return as_program(native.all_to_all, avals, params)

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
        if axis.name not in names_of(axis_name):
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
        no_groups(self, params)
        x = batch_at(x, d, axis.size)
        before, behind, sizes = beside(names_of(axis_name), axis.name)
        if tiled:
            x = native.split(x, split_axis + 1, ax.product(sizes) * axis.size)
        # (sender, receiver's number before, its number, behind, ...) -> receiver first
        blocks = move_axis(x, split_axis + 1, 1)
        shape = get_aval(blocks).shape
        blocks = reshape(blocks, (axis.size, sizes[0], axis.size, sizes[1], *shape[2:]))
        blocks = transpose(blocks, (2, 1, 0, 3, *range(4, len(shape) + 2)))
        blocks = reshape(blocks, shape)
        if before or behind:
            blocks = self._beside(blocks, (*before, *behind), sizes)
        out = move_axis(blocks, 1, concat_axis + 1)
        return native.joined(out, concat_axis + 1) if tiled else out, 0

    def _beside(self, blocks: Any, names: tuple[Any, ...], sizes: tuple[int, int]) -> Any:
        """Blocks (mapped, number of all, ...) exchanged over the names that are not mapped."""
        shape = get_aval(blocks).shape
        middle, rest = shape[0], shape[2:]
        blocks = move_axis(reshape(blocks, (middle, sizes[0], middle, sizes[1], *rest)), 2, 3)
        blocks = reshape(blocks, (middle, sizes[0] * sizes[1], middle, *rest))
        blocks = self.bind(
            blocks,
            axis_name=names,
            axis_size=sizes[0] * sizes[1],
            split_axis=1,
            concat_axis=1,
            tiled=False,
            axis_index_groups=None,
        )
        blocks = reshape(blocks, (middle, sizes[0], sizes[1], middle, *rest))
        return reshape(move_axis(blocks, 3, 2), shape)


all_to_all_p = AllToAll("all_to_all")


def _linear_jvp(self: Primitive, primals: Any, tangents: Any, params: dict) -> Any:
    out = self.bind(*primals, **params)
    if type(tangents[0]) is Zero:
        return out, Zero.from_primal_value(out)
    return out, self.bind(instantiate(tangents[0]), **params)
