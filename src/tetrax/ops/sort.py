"""Sorting along an axis by one or several keys, and the largest elements.

Floats are in total order with NaN last; -0 and 0 are equal. Every sort is stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_types import I32
from tetrax.ir.layout import apart_from
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import element_type
from tetrax.ops import axes as ax
from tetrax.ops.base import TestFacts, aligned_batch, dtype_kind, register
from tetrax.ops.creation import broadcasted_iota
from tetrax.ops.gather import gather
from tetrax.ops.index_maps import GatherDimensionNumbers
from tetrax.ops.join import slice_along
from tetrax.ops.nests import load_scalar, store_scalar
from tetrax.ops.shape import expand_dims
from tetrax.ops.sort_emit import LineSorter, lexicographic
from tetrax.ops.sort_native import LineOrder, has_native_sort
from tetrax.ops.structure import move_axis
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.value import get_aval


def take_along(x: Any, positions: Any, axis: int) -> Any:
    """The elements of `x` at `positions` along `axis`; the other axes run along."""
    ndim = get_aval(x).ndim
    others = ax.without(range(ndim), (axis,))
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    indices = expand_dims(positions, (ndim,))
    return gather(x, indices, numbers, (1,) * ndim, mode="promise_in_bounds")


@dataclass(frozen=True)
class Lines:
    """Operands seen as lines, with the positions in a line as one more operand if asked for."""

    builder: KernelBuilder
    operands: Sequence[Any]
    length: int
    inner: int
    positions: bool = False

    def read(self, line: Any, position: Any) -> list[scalar.Scalar]:
        offset = _offset(line, position, self.length, self.inner)
        found = [load_scalar(self.builder, x, offset) for x in self.operands]
        return [*found, kernel.convert(position, I32)] if self.positions else found

    def writer(self, outs: Sequence[Any], length: int) -> Any:
        """Stores the elements of a rank into `outs`, whose lines are `length` long."""

        def write(line: Any, rank: Any, elements: Sequence[scalar.Scalar]) -> None:
            offset = _offset(line, rank, length, self.inner)
            for out, element in zip(outs, elements, strict=True):
                store_scalar(self.builder, out, offset, element)

        return write


def _offset(line: Any, position: Any, length: int, inner: int) -> Any:
    outer, column = line
    row = kernel.add(kernel.mul(outer, length), position)
    return kernel.add(kernel.mul(row, inner), column)


class Sort(Primitive):
    """All operands, rearranged along `dimension` so that the first `num_keys` are in order."""

    multiple_results = True

    def shape(self, *operands, dimension, is_stable, num_keys):
        shown = ", ".join(str(x.shape) for x in operands)
        if not operands or any(x.shape != operands[0].shape for x in operands):
            raise errors.ShapeError(f"Arguments to sort must have equal shapes, got: {shown}")
        if not 0 <= dimension < max(operands[0].ndim, 1) or not 1 <= num_keys <= len(operands):
            raise errors.ShapeError(
                f"sort: dimension={dimension} or num_keys={num_keys} is out of range for operands "
                f"of shapes {shown}"
            )
        return list(operands)

    def factors(self, avals, outs, params):
        return apart_from(avals, outs, (params["dimension"],))

    def reference(self, *arrays, dimension, is_stable, num_keys):
        first = arrays[0]
        if first.ndim == 0:
            return arrays
        if len(arrays) == 1 and first.dtype.kind in "biuf":
            # Equal integers are alike; of floats, zeros of both signs keep their order.
            return [np.sort(first, dimension, kind="stable" if first.dtype.kind == "f" else None)]
        order = np.lexsort(_numpy_keys(arrays[:num_keys]), axis=dimension)
        return [np.take_along_axis(x, order, dimension) for x in arrays]

    def jvp(self, primals, tangents, *, dimension, is_stable, num_keys):
        params = {"dimension": dimension, "is_stable": is_stable, "num_keys": num_keys}
        if all(type(t) is Zero for t in tangents):
            outs = self.bind(*primals, **params)
            return outs, [Zero.from_primal_value(out) for out in outs]
        shape = get_aval(primals[0]).shape
        if not shape:
            return self.bind(*primals, **params), list(tangents)
        positions = broadcasted_iota(np.int32, shape, dimension)
        *outs, positions = self.bind(*primals, positions, **params)
        moved = [
            Zero.from_primal_value(out) if type(t) is Zero else take_along(t, positions, dimension)
            for out, t in zip(outs, tangents, strict=True)
        ]
        return outs, moved

    def batch(self, operands, dims, *, dimension, is_stable, num_keys):
        moved, _ = aligned_batch(operands, dims)
        scalars = get_aval(moved[0]).ndim == 1
        if scalars:
            return moved, [0] * len(moved)
        params = {"is_stable": is_stable, "num_keys": num_keys}
        outs = self.bind(*moved, dimension=dimension + 1, **params)
        return outs, [0] * len(outs)

    def emit(self, builder, operands, outs, *, dimension, is_stable, num_keys):
        shape = outs[0].shape
        if 0 in shape:
            return
        if not shape:
            shape = (1,)
        dtypes, kinds = [x.dtype for x in outs], [x.buffer.element for x in outs]
        length, inner = shape[dimension], ax.product(shape[dimension + 1 :])
        if has_native_sort(dtypes, num_keys):
            lines = Lines(builder, operands, length, inner)
            order = LineOrder(builder, shape, dimension, (0, length))
            order.run(kinds[0], len(outs) == 1, lines.read, lines.writer(outs, length))
            return
        sorter = LineSorter(builder, shape, dimension, dtypes, kinds, num_keys, lexicographic)

        def read(line: Any, position: Any) -> list[scalar.Scalar]:
            offset = _offset(line, position, length, inner)
            return [load_scalar(builder, x, offset) for x in operands]

        def write(line: Any, position: Any, elements: Sequence[scalar.Scalar]) -> None:
            offset = _offset(line, position, length, inner)
            for out, element in zip(outs, elements, strict=True):
                store_scalar(builder, out, offset, element)

        sorter.run(read, write)

    def stablehlo(self, context, operands, outs, *, dimension, is_stable, num_keys):
        return context.sort(operands, outs, dimension, is_stable, num_keys)


def _numpy_keys(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Keys as `np.lexsort` wants them: the one that decides first comes last."""
    keys = []
    for x in arrays:
        if x.dtype.kind == "c":
            keys += [np.real(x), np.imag(x)]
        else:
            keys.append(x.astype(np.float32) if element_type(x.dtype).is_storage else x)
    return keys[::-1]


def _sortable(x: np.ndarray) -> np.ndarray:
    """Numbers in the same order, for floats integers: -0 before 0, and NaN, by its sign, before or
    after all.
    """
    wide = x.astype(np.float32) if element_type(x.dtype).is_storage else x
    if wide.dtype.kind != "f":
        return wide
    bits = wide.view(np.dtype(f"i{wide.dtype.itemsize}"))
    ends = np.iinfo(bits.dtype)
    unordered = np.where(bits < 0, ends.min, ends.max)
    return np.where(np.isnan(wide), unordered, np.where(bits < 0, bits ^ ends.max, bits))


class TopK(Primitive):
    """The `k` largest elements along `axis`, largest first, and their positions."""

    multiple_results = True

    def shape(self, operand, *, k, axis):
        if not 0 <= axis < operand.ndim:
            raise errors.ShapeError(f"top_k: axis {axis} is out of bounds for {operand.shape}")
        if not 0 <= k <= operand.shape[axis]:
            raise ValueError(
                f"k argument to top_k must be no larger than size along axis; got k={k} with "
                f"shape={operand.shape} and axis={axis}"
            )
        if dtype_kind(operand.dtype) not in "biuf":
            raise errors.ShapeError(
                f"top_k does not accept dtype {operand.dtype.name}: it has no order"
            )
        shape = ax.replace(operand.shape, axis, k)
        return [
            ShapedArray(shape, operand.dtype, operand.weak_type),
            ShapedArray(shape, np.dtype(np.int32)),
        ]

    def factors(self, avals, outs, params):
        return apart_from(avals, outs, (params["axis"],))

    def reference(self, x, *, k, axis):
        wide = _sortable(x)
        # Sorting the reversed line and reversing the outcome keeps equal elements in order.
        order = np.flip(np.argsort(np.flip(wide, axis), axis, kind="stable"), axis)
        order = x.shape[axis] - 1 - np.take(order, range(k), axis)
        return [np.take_along_axis(x, order, axis), order.astype(np.int32)]

    def jvp(self, primals, tangents, *, k, axis):
        values, positions = self.bind(*primals, k=k, axis=axis)
        rest = Zero.from_primal_value(positions)
        if type(tangents[0]) is Zero:
            return [values, positions], [Zero.from_primal_value(values), rest]
        return [values, positions], [take_along(tangents[0], positions, axis), rest]

    def batch(self, operands, dims, *, k, axis):
        x = move_axis(operands[0], dims[0], 0)
        return self.bind(x, k=k, axis=axis + 1), [0, 0]

    def emit(self, builder, operands, outs, *, k, axis):
        (x,), values = operands, outs[0]
        if 0 in x.shape or k == 0:
            return
        order = LineOrder(builder, x.shape, axis, (0, k), descending=True)
        lines = Lines(builder, [x], order.length, order.inner, positions=True)
        order.run(values.buffer.element, False, lines.read, lines.writer(outs, k))

    def stablehlo(self, context, operands, outs, *, k, axis):
        return context.top_k(operands, outs, k, axis)


def _aval(shape: Sequence[int], dtype: str = "float32") -> ShapedArray:
    return ShapedArray(shape, np.dtype(dtype))


def _sort_samples() -> list[tuple[list[ShapedArray], dict]]:
    def row(avals, dimension=0, num_keys=1):
        return avals, {"dimension": dimension, "is_stable": True, "num_keys": num_keys}

    return [
        row([_aval((33,))]),
        row([_aval((3, 7), "int32")], 1),
        row([_aval((7, 3))], 0),
        row([_aval((9,), "complex64")]),
        row([_aval((9,), "int8"), _aval((9,)), _aval((9,), "bool")], 0, 2),
        row([_aval((0, 3))]),
        row([_aval((1,), "bool")]),
    ]


def _top_k_samples() -> list[tuple[list[ShapedArray], dict]]:
    return [
        ([_aval((9,))], {"k": 3, "axis": 0}),
        ([_aval((3, 7), "int32")], {"k": 7, "axis": 1}),
        ([_aval((7, 3))], {"k": 0, "axis": 0}),
    ]


_NOT_LINEAR = (("transpose", "not linear"),)
sort_p = register(Sort("sort"), TestFacts(ulp=0, samples=_sort_samples, excluded=_NOT_LINEAR))
top_k_p = register(TopK("top_k"), TestFacts(ulp=0, samples=_top_k_samples, excluded=_NOT_LINEAR))


# -- functions -----------------------------------------------------------------------------------


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """An array in ascending order along `dimension`, or several, by the first `num_keys` of them.

    NaN comes last. Raises ShapeError for operands of different shapes.

    >>> sort(np.array([3, 1, 2], "int32"))
    Array([1, 2, 3], dtype=int32)
    """
    several = isinstance(operand, list | tuple)
    operands = [as_value(x) for x in (operand if several else [operand])]
    if not operands:
        raise errors.ShapeError("Sort requires at least one operand")
    if not 1 <= num_keys <= len(operands):
        raise ValueError(f"num_keys={num_keys} must be between 1 and {len(operands)}")
    dimension = ax.canonical_axis(dimension, max(operands[0].ndim, 1), "dimension")
    outs = sort_p.bind(
        *operands, dimension=dimension, is_stable=bool(is_stable), num_keys=int(num_keys)
    )
    return tuple(outs) if several else outs[0]


def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Any, Any]:
    """`keys` in ascending order along `dimension`, and `values` moved along with them."""
    return sort((keys, values), dimension, is_stable, 1)


def top_k(operand: Any, k: int, *, axis: int = -1) -> list[Any]:
    """The `k` largest elements of `operand` along `axis` in descending order, and their positions.

    NaN counts as largest; of equal elements the first is taken first.

    >>> top_k(np.array([1.0, 3.0, 2.0], "float32"), 2)[1]
    Array([1, 2], dtype=int32)
    """
    operand = as_value(operand)
    if operand.ndim == 0:
        raise TypeError("top_k operand must have >= 1 dimension, got ()")
    if k < 0:
        raise ValueError(f"k argument to top_k must be nonnegative, got {k}")
    axis = ax.canonical_axis(axis, operand.ndim)
    return top_k_p.bind(operand, k=int(k), axis=axis)


def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Any]:
    """The `k` largest elements along an axis, and their positions; here exact, as `top_k`."""
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Any]:
    """The `k` smallest elements along an axis in ascending order, and their positions; exact."""
    operand = as_value(operand)
    axis = ax.canonical_axis(reduction_dimension, operand.ndim)
    positions = broadcasted_iota(np.int32, operand.shape, axis)
    return [slice_along(x, axis, 0, k) for x in sort((operand, positions), axis)]


__all__ = [
    "approx_max_k",
    "approx_min_k",
    "sort",
    "sort_key_val",
    "sort_p",
    "take_along",
    "top_k",
    "top_k_p",
]
