"""The loop nest of a large product: the library routine, once per batch.

An operand takes part where it stands if its row axes, and its contracting axes, can each be seen as
one axis; otherwise, and where its type is not one that is multiplied, it is first copied. Narrow
floats are widened by the routine. Complex products are four real ones of planes copied apart.
Batches of small products are shared between threads, large products share themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_expr import Buffer
from tetrax.ir.kernel_types import F32, ScalarType
from tetrax.ir.views import Stored, element_type, is_complex
from tetrax.ops import axes as ax
from tetrax.ops.nests import flat, load_scalar, store_scalar, vector_nest
from tetrax.ops.products import NARROW, Matrix, Multiplier, is_small, joint_stride

Side = tuple[Stored, Sequence[int], Sequence[int], Sequence[int]]
Batch = tuple[tuple[int, int], ...]

# A product of so many multiplications is shared between threads by itself.
LARGE_PRODUCT = 1 << 23
# Widening narrow operands beforehand costs less than packing them for so few multiplications.
SMALL_NARROW_PRODUCT = 1 << 12


@dataclass(frozen=True)
class _Layout:
    """An operand as a batch of matrices: rows are kept axes, columns are contracted.

    `batch` holds extents and strides; `planes` are the distances of the parts of a complex operand.
    """

    buffer: Buffer
    batch: Batch
    row: int
    column: int
    planes: tuple[int, ...] = (0,)

    def matrix(self, position: Sequence[Any], plane: int = 0) -> Matrix:
        """The matrix of one batch, or one plane of it."""
        offset = kernel.add(flat(position, [s for _, s in self.batch]), self.planes[plane])
        return Matrix(self.buffer, offset, self.row, self.column)

    def with_batch(self, batch: Batch) -> _Layout:
        return _Layout(self.buffer, batch, self.row, self.column, self.planes)


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
    axis of `out` is, where they stand in another order that `product_target` allows.
    """
    if 0 in out.shape:
        return
    lhs, rhs = _aligned(lhs, rhs)
    target = product_target(out.shape, len(lhs[1]), len(lhs[2]), order)
    assert target is not None
    if target.column != 1:
        lhs, rhs, target = rhs, lhs, _Target(target.batch, target.column, target.row)
    m, n = (ax.product([side[0].shape[axis] for axis in side[2]]) for side in (lhs, rhs))
    k = ax.product([lhs[0].shape[axis] for axis in lhs[3]])
    if is_complex(out.dtype):
        left, right = _planes(builder, lhs, compute, True), _planes(builder, rhs, compute, False)
    else:
        costly = is_small(m, n, k) and (n % 8 != 0 or m * n * k < SMALL_NARROW_PRODUCT)
        type = compute if costly else _multiplied_type(lhs[0], rhs[0], compute)
        left, right = _layout(builder, lhs, type), _layout(builder, rhs, type)
    left, right, steps = _joined(left, right, target.batch)
    # a large product shares itself between threads
    kind = "parallel" if m * n * k < LARGE_PRODUCT else "serial"
    multiplier = Multiplier(builder, left.buffer.element, m, n, k)
    with builder.nest([extent for extent, _ in left.batch], kind) as position:
        place = _Place(left, right, position, out, flat(position, steps), target.row)
        emit = _complex_product if is_complex(out.dtype) else _real_product
        emit(multiplier, place, compute)


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


def _multiplied_type(lhs: Stored, rhs: Stored, compute: ScalarType) -> ScalarType:
    """The type in which operands are given to the routine."""
    types = {element_type(operand.dtype) for operand in (lhs, rhs)}
    narrow = compute is F32 and len(types) == 1 and types <= set(NARROW)
    return types.pop() if narrow else compute


@dataclass(frozen=True)
class _Place:
    """One product of a batch: its operands, and where its result begins, row after row."""

    left: _Layout
    right: _Layout
    position: Sequence[Any]
    out: Stored
    base: Any
    row: int

    def operands(self, i: int = 0, j: int = 0) -> tuple[Matrix, Matrix]:
        """The matrices to multiply, or planes of them."""
        left, right = self.left, self.right
        return left.matrix(self.position, i), right.matrix(self.position, j).transposed()


def _real_product(multiplier: Multiplier, place: _Place, compute: ScalarType) -> None:
    builder, n = multiplier.builder, multiplier.n
    kind = element_type(place.out.dtype)
    if kind is compute:
        target = Matrix(place.out.buffer, place.base, place.row, 1)
        multiplier.multiply(*place.operands(), target)
        return
    size = multiplier.m * n
    wide = builder.temporary(compute, size)
    multiplier.multiply(*place.operands(), Matrix(wide, kernel.index(0), n, 1))
    with builder.loop(size, "vector") as i:
        value = kernel.convert(builder.load(wide, i), kind)
        builder.store(place.out.buffer, kernel.add(place.base, i), value)


def _complex_product(multiplier: Multiplier, place: _Place, compute: ScalarType) -> None:
    """Planes of the left operand are its real and imaginary parts, and the latter negated."""
    builder, n = multiplier.builder, multiplier.n
    size = multiplier.m * n
    parts = []
    for terms in (((0, 0), (2, 1)), ((0, 1), (1, 0))):
        part = builder.temporary(compute, size)
        for at, planes in enumerate(terms):
            target = Matrix(part, kernel.index(0), n, 1)
            multiplier.multiply(*place.operands(*planes), target, accumulate=at > 0)
        parts.append(part)
    with builder.loop(size, "vector") as i:
        value = scalar.Complex(*(builder.load(part, i) for part in parts))
        store_scalar(builder, place.out, kernel.add(place.base, i), value)


# --- layouts ---


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


def _joined(
    left: _Layout, right: _Layout, steps: Sequence[int]
) -> tuple[_Layout, _Layout, list[int]]:
    """The layouts and the result's strides with as few batch axes as all three allow."""
    axes: list[tuple[int, tuple[int, int, int]]] = []
    for (extent, a), (_, b), c in zip(left.batch, right.batch, steps, strict=True):
        if extent == 1:
            continue
        if axes:
            outer, strides = axes[-1]
            if strides == (extent * a, extent * b, extent * c):
                axes[-1] = outer * extent, (a, b, c)
                continue
        axes.append((extent, (a, b, c)))
    batches = [tuple((extent, strides[i]) for extent, strides in axes) for i in (0, 1)]
    return (
        left.with_batch(batches[0]),
        right.with_batch(batches[1]),
        [strides[2] for _, strides in axes],
    )


def _layout(builder: KernelBuilder, side: Side, type: ScalarType) -> _Layout:
    """An operand where it stands, or a copy in the type that is multiplied."""
    stored = side[0]
    place = _placed(side, stored.buffer)
    if place is not None and element_type(stored.dtype) is type:
        return place
    return _copied(builder, side, type, lambda value: [scalar.convert(value, type)], 1)


def _planes(builder: KernelBuilder, side: Side, type: ScalarType, negated: bool) -> _Layout:
    """A copy of a complex operand with its parts in planes, the imaginary one also negated."""

    def parts(value: Any) -> list[Any]:
        value = scalar.convert(value, type, True)
        return [value.re, value.im, *([kernel.neg(value.im)] if negated else [])]

    return _copied(builder, side, type, parts, 3 if negated else 2)


def _placed(side: Side, buffer: Buffer, planes: tuple[int, ...] = (0,)) -> _Layout | None:
    """The layout of an operand in memory of its own order; None if it is not one of matrices."""
    stored, batch, kept, contract = side
    row, column = _joint(stored, kept), _joint(stored, contract)
    if row is None or column is None:
        return None
    strides = ax.row_major_strides(stored.shape)
    axes = tuple((stored.shape[axis], strides[axis]) for axis in batch)
    return _Layout(buffer, axes, row, column, planes)


def _copied(
    builder: KernelBuilder, side: Side, type: ScalarType, parts: Any, planes: int
) -> _Layout:
    """A copy of `parts(element)` in planes: in the operand's own order if its matrices can be seen
    there, else with batch, kept and contracting axes in order.
    """
    stored, batch, kept, contract = side
    size = ax.product(stored.shape)
    buffer = builder.temporary(type, size * planes)
    distances = tuple(size * plane for plane in range(planes))
    layout = _placed(side, buffer, distances)
    shape, sources = [size], [1]
    if layout is None:
        order = (*batch, *kept, *contract)
        shape = [stored.shape[axis] for axis in order]
        steps = ax.row_major_strides(stored.shape)
        sources = [steps[axis] for axis in order]
    strides = ax.row_major_strides(shape)
    with vector_nest(builder, shape) as position:
        values = parts(load_scalar(builder, stored, flat(position, sources)))
        for distance, value in zip(distances, values, strict=True):
            builder.store(buffer, kernel.add(flat(position, strides), distance), value)
    if layout is not None:
        return layout
    axes = tuple((stored.shape[axis], strides[i]) for i, axis in enumerate(batch))
    depth = ax.product([stored.shape[axis] for axis in contract])
    return _Layout(buffer, axes, depth, 1, distances)
