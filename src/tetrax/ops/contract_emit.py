"""The loop nest of a large product: the library routine, once per batch.

An operand takes part where it stands if its row axes, and its contracting axes, can each be seen as
one axis; otherwise, and where its type is not the one computed in, it is first copied. Complex
products are four real ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_types import ScalarType
from tetrax.ir.views import Stored, element_type, is_complex, parts
from tetrax.ops import axes as ax
from tetrax.ops.nests import flat, load_scalar, store_scalar, vector_nest
from tetrax.ops.products import Matrix, Multiplier, joint_stride

_DTYPES = {
    (32, False): np.dtype(np.float32),
    (64, False): np.dtype(np.float64),
    (32, True): np.dtype(np.complex64),
    (64, True): np.dtype(np.complex128),
}

Side = tuple[Stored, Sequence[int], Sequence[int], Sequence[int]]


@dataclass(frozen=True)
class _Layout:
    """An operand as a batch of matrices: rows are kept axes, columns are contracted."""

    stored: Stored
    batch: tuple[tuple[int, int], ...]
    row: int
    column: int

    def matrix(self, position: Sequence[Any], part: int = 0) -> Matrix:
        """The matrix of one batch; `part` 1 is the imaginary one. Strides count scalars."""
        width = parts(self.stored.dtype)
        offset = flat(position, [width * stride for _, stride in self.batch])
        offset = kernel.add(offset, part)
        return Matrix(self.stored.buffer, offset, width * self.row, width * self.column)


@dataclass(frozen=True)
class _Target:
    """Strides of the result's batch axes, rows and columns, in elements."""

    batch: tuple[int, ...]
    row: int
    column: int


def emit_product(
    builder: KernelBuilder,
    lhs: Side,
    rhs: Side,
    out: Stored,
    compute: ScalarType,
    order: Sequence[int] | None = None,
) -> None:
    """Store the product of two operands; each is given with batch, kept and contracting axes.

    The result has batch, then kept axes of `lhs`, then of `rhs`; `order` says which of them each
    axis of `out` is, where they stand in another order that `stores_in_order` allows.
    """
    if 0 in out.shape:
        return
    lhs, rhs = _aligned(lhs, rhs)
    target = product_target(out.shape, len(lhs[1]), len(lhs[2]), order)
    assert target is not None
    if target.column != 1:
        lhs, rhs, target = rhs, lhs, _Target(target.batch, target.column, target.row)
    left = _layout(builder, lhs, compute, is_complex(out.dtype))
    right = _layout(builder, rhs, compute, is_complex(out.dtype))
    m, n = (ax.product([side[0].shape[axis] for axis in side[2]]) for side in (lhs, rhs))
    k = ax.product([lhs[0].shape[axis] for axis in lhs[3]])
    multiplier = Multiplier(builder, compute, m, n, k)
    extents = [extent for extent, _ in left.batch]
    if is_complex(out.dtype):
        _complex_products(builder, multiplier, left, right, out, extents)
        return
    narrow = element_type(out.dtype) is not compute
    memory = builder.temporary(compute, m * n) if narrow else out.buffer
    with builder.nest(extents) as position:
        base = flat(position, target.batch)
        start, row = (kernel.index(0), n) if narrow else (base, target.row)
        c = Matrix(memory, start, row, 1)
        multiplier.multiply(left.matrix(position), right.matrix(position).transposed(), c)
        if narrow:
            with builder.loop(m * n, "vector") as i:
                value = kernel.convert(builder.load(memory, i), element_type(out.dtype))
                builder.store(out.buffer, kernel.add(base, i), value)


def product_target(
    shape: Sequence[int], batch: int, rows: int, order: Sequence[int] | None
) -> _Target | None:
    """Where rows and columns of a result of `shape` stand; None if they are not one axis each."""
    order = range(len(shape)) if order is None else order
    extents, strides = [0] * len(shape), [0] * len(shape)
    for place, axis in enumerate(order):
        extents[axis], strides[axis] = shape[place], ax.row_major_strides(shape)[place]
    kept = batch + rows
    row = joint_stride(extents[batch:kept], strides[batch:kept])
    column = joint_stride(extents[kept:], strides[kept:])
    if row is None or column is None:
        return None
    if ax.product(extents[kept:]) == 1:
        column = 1
    elif column != 1 and ax.product(extents[batch:kept]) == 1:
        row = 1
    return _Target(tuple(strides[:batch]), row, column) if 1 in (row, column) else None


def _complex_products(
    builder: KernelBuilder,
    multiplier: Multiplier,
    left: _Layout,
    right: _Layout,
    out: Stored,
    extents: Sequence[int],
) -> None:
    size, n = multiplier.m * multiplier.n, multiplier.n
    real, square, imaginary = (builder.temporary(multiplier.type, size) for _ in range(3))

    def times(i: int, j: int, target: Any, accumulate: bool = False) -> None:
        a, b = left.matrix(position, i), right.matrix(position, j).transposed()
        multiplier.multiply(a, b, Matrix(target, kernel.index(0), n, 1), accumulate)

    with builder.nest(extents) as position:
        times(0, 0, real)
        times(1, 1, square)
        times(0, 1, imaginary)
        times(1, 0, imaginary, accumulate=True)
        base = kernel.mul(flat(position, ax.row_major_strides(extents)), size)
        with builder.loop(size, "vector") as i:
            difference = kernel.sub(builder.load(real, i), builder.load(square, i))
            value = scalar.Complex(difference, builder.load(imaginary, i))
            store_scalar(builder, out, kernel.add(base, i), value)


def _aligned(lhs: Side, rhs: Side) -> tuple[Side, Side]:
    """The sides with contracting axes in an order in which both can be seen as one axis, if any."""
    pairs = list(zip(lhs[3], rhs[3], strict=True))
    orders = [pairs, sorted(pairs), sorted(pairs, key=lambda pair: pair[1])]
    for order in orders:
        rows = [[pair[i] for pair in order] for i in (0, 1)]
        if _joint(lhs[0], rows[0]) is not None and _joint(rhs[0], rows[1]) is not None:
            return (*lhs[:3], rows[0]), (*rhs[:3], rows[1])
    return lhs, rhs


def _joint(stored: Stored, axes: Sequence[int]) -> int | None:
    strides = ax.row_major_strides(stored.shape)
    return joint_stride([stored.shape[a] for a in axes], [strides[a] for a in axes])


def _layout(builder: KernelBuilder, side: Side, compute: ScalarType, to_complex: bool) -> _Layout:
    stored, batch, kept, contract = side
    row, column = _joint(stored, kept), _joint(stored, contract)
    fits = element_type(stored.dtype) is compute and is_complex(stored.dtype) == to_complex
    if row is None or column is None or not fits:
        return _copied(builder, side, compute, to_complex)
    strides = ax.row_major_strides(stored.shape)
    return _Layout(stored, tuple((stored.shape[a], strides[a]) for a in batch), row, column)


def _copied(builder: KernelBuilder, side: Side, compute: ScalarType, to_complex: bool) -> _Layout:
    """A copy with batch, kept and contracting axes in order, in the type computed in."""
    stored, batch, kept, contract = side
    order = (*batch, *kept, *contract)
    shape = tuple(stored.shape[axis] for axis in order)
    source_strides = ax.row_major_strides(stored.shape)
    strides = ax.row_major_strides(shape)
    width = 2 if to_complex else 1
    dtype = _DTYPES[compute.bits, to_complex]
    copy = Stored(builder.temporary(compute, width * ax.product(shape)), shape, dtype)
    with vector_nest(builder, shape) as index:
        source = flat(index, [source_strides[axis] for axis in order])
        value = scalar.convert(load_scalar(builder, stored, source), compute, to_complex)
        store_scalar(builder, copy, flat(index, strides), value)
    depth = ax.product([stored.shape[axis] for axis in contract])
    return _Layout(
        copy,
        tuple((stored.shape[axis], strides[i]) for i, axis in enumerate(batch)),
        depth,
        1,
    )
