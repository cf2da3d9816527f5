"""`dot_general`: products summed over any axes, along any batch axes, and its special cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from tetrax import dtypes, errors
from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_types import BOOL, F32
from tetrax.ir.layout import FactorsBuilder
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import View, element_type, is_complex
from tetrax.ops import axes as ax
from tetrax.ops.base import TestFacts, real_dtype, register
from tetrax.ops.bilinear import Bilinear
from tetrax.ops.contract_emit import emit_product
from tetrax.ops.precision import DotAlgorithm, DotAlgorithmPreset, canonical_precision
from tetrax.ops.structure import move_axis, transpose
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import rule
from tetrax.tracing.value import get_aval

Axes = tuple[int, ...]

# Products of fewer multiplications (per batch) are written out as sums, which can fuse.
SMALL_PRODUCT = 512


@dataclass(frozen=True)
class Contraction:
    """The axes of a product by role; the result has batch, then lhs, then rhs axes."""

    lhs_contract: Axes
    rhs_contract: Axes
    lhs_batch: Axes
    rhs_batch: Axes
    lhs_kept: Axes
    rhs_kept: Axes

    @classmethod
    def of(cls, lhs_ndim: int, rhs_ndim: int, dimension_numbers: Any) -> Contraction:
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
        return cls(
            tuple(lhs_contract),
            tuple(rhs_contract),
            tuple(lhs_batch),
            tuple(rhs_batch),
            ax.without(range(lhs_ndim), (*lhs_contract, *lhs_batch)),
            ax.without(range(rhs_ndim), (*rhs_contract, *rhs_batch)),
        )

    def sizes(self, lhs: Sequence[int], rhs: Sequence[int]) -> tuple[int, int, int, int]:
        """Sizes of the product as one of matrices: batch, rows, columns, depth."""
        return (
            ax.product([lhs[axis] for axis in self.lhs_batch]),
            ax.product([lhs[axis] for axis in self.lhs_kept]),
            ax.product([rhs[axis] for axis in self.rhs_kept]),
            ax.product([lhs[axis] for axis in self.lhs_contract]),
        )


def _matrix(aval: Any, order: Axes, dtype: Any) -> Callable[[np.ndarray], np.ndarray]:
    """What gives an operand its axes in `order` and its elements in `dtype`."""
    moved, same = order != tuple(range(aval.ndim)), aval.dtype == dtype
    if moved:
        return lambda x: x.transpose(order).astype(dtype, copy=False)
    return (lambda x: x) if same else (lambda x: x.astype(dtype))


class DotGeneral(Bilinear):
    """Products of elements of two operands, summed over the contracting axes."""

    cost = 1
    folds = True

    def shape(
        self, lhs, rhs, *, dimension_numbers, precision, preferred_element_type, out_sharding=None
    ):
        _check(lhs, rhs, dimension_numbers)
        c = Contraction.of(lhs.ndim, rhs.ndim, dimension_numbers)
        shape = (
            *(lhs.shape[axis] for axis in c.lhs_batch),
            *(lhs.shape[axis] for axis in c.lhs_kept),
            *(rhs.shape[axis] for axis in c.rhs_kept),
        )
        loose = isinstance(precision, DotAlgorithm | DotAlgorithmPreset)
        dtype = product_dtype("dot_general", lhs.dtype, rhs.dtype, preferred_element_type, loose)
        return ShapedArray(shape, dtype, lhs.weak_type and rhs.weak_type)

    def factors(self, avals, outs, params):
        lhs, rhs = avals
        c = Contraction.of(lhs.ndim, rhs.ndim, params["dimension_numbers"])
        build = FactorsBuilder()
        left, right = build.axes(lhs.shape), build.axes(rhs.shape)
        for mine, other in zip(c.lhs_batch, c.rhs_batch, strict=True):
            right[other] = left[mine]
        for mine, other in zip(c.lhs_contract, c.rhs_contract, strict=True):
            left[mine] = right[other] = build.new(lhs.shape[mine], reduced="sum")
        kept = [left[axis] for axis in (*c.lhs_batch, *c.lhs_kept)]
        return build.build([left, right], [[*kept, *(right[axis] for axis in c.rhs_kept)]])

    def reference(self, lhs, rhs, **params):
        return self.prepared([lhs, rhs], params)(lhs, rhs)

    @rule
    def prepared(self, avals, params):
        lhs, rhs = avals
        dimension_numbers, preferred = params["dimension_numbers"], params["preferred_element_type"]
        out = product_dtype("", lhs.dtype, rhs.dtype, preferred, True)
        c = Contraction.of(lhs.ndim, rhs.ndim, dimension_numbers)
        batch, rows, columns, depth = c.sizes(lhs.shape, rhs.shape)
        compute = compute_dtype(out)
        head = (batch,) if batch != 1 else ()
        left = _matrix(lhs, (*c.lhs_batch, *c.lhs_kept, *c.lhs_contract), compute)
        right = _matrix(rhs, (*c.rhs_batch, *c.rhs_contract, *c.rhs_kept), compute)
        left_shape, right_shape = (*head, rows, depth), (*head, depth, columns)
        shape = (
            *(lhs.shape[axis] for axis in (*c.lhs_batch, *c.lhs_kept)),
            *(rhs.shape[axis] for axis in c.rhs_kept),
        )

        def product(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
            found = np.matmul(left(lhs).reshape(left_shape), right(rhs).reshape(right_shape))
            return found.reshape(shape).astype(out, copy=False)

        return product

    def transpose_lhs(self, ct, lhs, rhs, *, dimension_numbers, **params):
        return _other_operand(ct, lhs.aval.ndim, rhs, dimension_numbers, False, params)

    def transpose_rhs(self, ct, lhs, rhs, *, dimension_numbers, **params):
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
        swapped = ((rhs_contract, lhs_contract), (rhs_batch, lhs_batch))
        return _other_operand(ct, rhs.aval.ndim, lhs, swapped, True, params)

    def batch(self, operands, dims, *, dimension_numbers, **params):
        (lhs, rhs), (lhs_dim, rhs_dim) = operands, dims
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
        if lhs_dim is not None:
            lhs = move_axis(lhs, lhs_dim, 0)
            lhs_contract, lhs_batch = _shift(lhs_contract), _shift(lhs_batch)
        if rhs_dim is not None:
            rhs = move_axis(rhs, rhs_dim, 0)
            rhs_contract, rhs_batch = _shift(rhs_contract), _shift(rhs_batch)
        if lhs_dim is not None and rhs_dim is not None:
            lhs_batch, rhs_batch, out_dim = (0, *lhs_batch), (0, *rhs_batch), 0
        elif lhs_dim is not None:
            out_dim = len(lhs_batch)
        else:
            out_dim = get_aval(lhs).ndim - len(lhs_contract)
        numbers = ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))
        return self.bind(lhs, rhs, dimension_numbers=numbers, **params), out_dim

    def flops(self, avals: Sequence[ShapedArray], params: dict) -> int:
        """Additions and multiplications of a call."""
        c = Contraction.of(avals[0].ndim, avals[1].ndim, params["dimension_numbers"])
        return 2 * ax.product(c.sizes(avals[0].shape, avals[1].shape))

    def rereads(self, avals, params):
        return True

    def stores(self, avals, params):
        lhs, rhs = avals
        dtype = product_dtype("", lhs.dtype, rhs.dtype, params["preferred_element_type"], True)
        if not dtypes.issubdtype(dtype, np.inexact):
            return False
        c = Contraction.of(lhs.ndim, rhs.ndim, params["dimension_numbers"])
        batch, rows, columns, depth = c.sizes(lhs.shape, rhs.shape)
        return batch > 0 and rows * columns > 1 and rows * columns * depth >= SMALL_PRODUCT

    def kernel(self, operands, outs, *, dimension_numbers, **params):
        lhs, rhs = operands
        (out,) = outs
        c = Contraction.of(len(lhs.shape), len(rhs.shape), dimension_numbers)
        kind = compute_scalar(out.dtype)
        to_complex = is_complex(out.dtype)
        extents = [lhs.shape[axis] for axis in c.lhs_contract]

        def at(index):
            variables = [kernel.index_variable(f"k{i}", n) for i, n in enumerate(extents)]
            batch = len(c.lhs_batch)
            kept = batch + len(c.lhs_kept)
            left = _place(c.lhs_batch, index[:batch], c.lhs_kept, index[batch:kept],
                          c.lhs_contract, variables)  # fmt: skip
            right = _place(c.rhs_batch, index[:batch], c.rhs_kept, index[kept:],
                           c.rhs_contract, variables)  # fmt: skip
            product = scalar.mul(
                scalar.convert(lhs.at(left), kind, to_complex),
                scalar.convert(rhs.at(right), kind, to_complex),
            )
            pairs = list(zip(variables, extents, strict=True))
            return scalar.convert(_sum(pairs, product), element_type(out.dtype), to_complex)

        return View(out.shape, out.dtype, at)

    def emit(self, builder, operands, outs, *, dimension_numbers, **params):
        lhs, rhs = operands
        c = Contraction.of(len(lhs.shape), len(rhs.shape), dimension_numbers)
        emit_product(
            builder,
            (lhs, c.lhs_batch, c.lhs_kept, c.lhs_contract),
            (rhs, c.rhs_batch, c.rhs_kept, c.rhs_contract),
            outs[0],
            compute_scalar(outs[0].dtype),
        )

    def stablehlo(self, context, operands, outs, *, dimension_numbers, precision, **params):
        return context.dot_general(operands, outs, dimension_numbers, precision)


def _sum(variables: Sequence[tuple[Any, int]], value: Any) -> scalar.Scalar:
    if not variables:
        return value
    if value.type is BOOL:
        false = kernel.const(False, BOOL)
        return scalar.fold(variables, [false], lambda acc: [kernel.bit_or(acc[0], value)])[0]
    return scalar.reduce_sum(variables, value)


def _place(*pairs: Any) -> tuple[Any, ...]:
    """An index from (axes, positions) pairs in a row."""
    table = {
        axis: position
        for axes, positions in zip(pairs[::2], pairs[1::2], strict=True)
        for axis, position in zip(axes, positions, strict=True)
    }
    return tuple(table[axis] for axis in range(len(table)))


def _shift(axes: Sequence[int]) -> Axes:
    return tuple(axis + 1 for axis in axes)


def _other_operand(
    ct: Any, ndim: int, other: Any, numbers: Any, swapped: bool, params: dict
) -> Any:
    """The cotangent of one operand of a product, whose axes stand first in `numbers`."""
    (contract, other_contract), (batch, other_batch) = numbers
    kept = ax.without(range(ndim), (*contract, *batch))
    other_kept = ax.without(range(get_aval(other).ndim), (*other_contract, *other_batch))
    first = len(batch) + (0 if swapped else len(kept))
    ct_other = tuple(range(first, first + len(other_kept)))
    ct_batch = tuple(range(len(batch)))
    dims = ((ct_other, other_kept), (ct_batch, tuple(other_batch)))
    out = dot_general_p.bind(ct, other, dimension_numbers=dims, **params)
    by_other = [contract[i] for i in sorted(range(len(contract)), key=other_contract.__getitem__)]
    return transpose(out, ax.inverse_permutation((*batch, *kept, *by_other)))


def compute_dtype(dtype: Any) -> Any:
    """The NumPy dtype in which products of a result dtype are computed."""
    if dtypes.issubdtype(dtype, np.floating) and dtype.itemsize < 4:
        return np.dtype(np.float32)
    if dtype.name in ("int2", "int4", "uint2", "uint4"):
        return np.dtype(np.int32)
    return dtype


def compute_scalar(dtype: Any) -> Any:
    """The scalar type in which products of a result dtype are computed."""
    kind = element_type(dtype)
    return F32 if kind.is_storage else kind


def product_dtype(name: str, lhs: Any, rhs: Any, preferred: Any, loose: bool) -> Any:
    """The dtype of a product: that of the operand of higher precision, or the preferred one."""
    ranks = [_precision_rank(dtype) for dtype in (lhs, rhs)]
    if ranks[0] == ranks[1] and lhs != rhs:
        raise errors.ShapeError(
            f"lax.{name} argument type error: {lhs.name}, {rhs.name}. Convert one of them with "
            "lax.convert_element_type"
        )
    dtype = lhs if ranks[0] >= ranks[1] else rhs
    if preferred is None or preferred == dtype:
        return dtype
    preferred = dtypes.numpy_dtype(preferred)
    is_float = dtypes.issubdtype(dtype, np.floating)
    if not (loose or is_float) and _bits(preferred) < _bits(dtype):
        raise errors.ShapeError(
            f"`preferred_element_type` must not be narrower than the original type, got "
            f"preferred_element_type of {preferred} for result type of {dtype}"
        )
    return preferred


def _bits(dtype: Any) -> int:
    return 1 if dtype == np.bool_ else dtypes.itemsize_bits(dtype)


@cache
def _precision_rank(dtype: Any) -> tuple:
    """Orders dtypes: complex before real, wide exponents before narrow ones, then by bits."""
    is_complex_dtype = dtype.kind == "c"
    real = real_dtype(dtype)
    exponent = mantissa = -1
    if dtypes.issubdtype(real, np.floating):
        info = dtypes.finfo(real)
        exponent, mantissa = int(info.maxexp), int(info.nmant)
    signed = not dtypes.issubdtype(real, np.unsignedinteger)
    return is_complex_dtype, exponent, mantissa, _bits(real), signed


def _check(lhs: ShapedArray, rhs: ShapedArray, dimension_numbers: Any) -> None:
    """Raises ShapeError unless the dimension numbers fit the operands."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    problem = None
    for side, aval, contract, batch in (
        ("lhs", lhs, lhs_contract, lhs_batch),
        ("rhs", rhs, rhs_contract, rhs_batch),
    ):
        if any(not 0 <= axis < aval.ndim for axis in (*contract, *batch)):
            problem = f"{side} dimension numbers must be axes of {side}"
        elif len({*contract, *batch}) != len(contract) + len(batch):
            problem = f"{side} contracting and batch dimensions must be distinct"
    if not problem:
        for what, a, b in (("batch", lhs_batch, rhs_batch),
                           ("contracting", lhs_contract, rhs_contract)):  # fmt: skip
            sizes = [lhs.shape[axis] for axis in a], [rhs.shape[axis] for axis in b]
            if sizes[0] != sizes[1]:
                problem = (
                    f"{what} dimensions must have the same shape, got {sizes[0]} and {sizes[1]}"
                )
    if problem:
        raise errors.ShapeError(
            f"dot_general: {problem}. Operand shapes are {lhs.shape} and {rhs.shape}, "
            f"dimension_numbers={dimension_numbers}"
        )


def _aval(shape: Sequence[int], dtype: str = "float32") -> ShapedArray:
    return ShapedArray(shape, dtypes.numpy_dtype(dtype))


def _samples() -> list[tuple[list[ShapedArray], dict]]:
    def row(lhs, rhs, numbers, dtype="float32", preferred=None):
        params = {
            "dimension_numbers": numbers,
            "precision": None,
            "preferred_element_type": preferred and dtypes.numpy_dtype(preferred),
            "out_sharding": None,
        }
        return [_aval(lhs, dtype), _aval(rhs, dtype)], params

    matmul = (((1,), (0,)), ((), ()))
    return [
        row((3, 4), (4, 5), matmul),
        row((17, 33), (33, 9), matmul),
        row((4, 3), (5, 4), (((0,), (1,)), ((), ()))),
        row((2, 3, 4), (2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
        row((7,), (7,), (((0,), (0,)), ((), ()))),
        row((3, 0), (0, 2), matmul),
        row((3, 4), (4, 5), matmul, "int32"),
        row((3, 4), (4, 5), matmul, "int8", "int32"),
        row((9, 8), (8, 9), matmul, "complex64"),
        row((9, 8), (8, 9), matmul, "bfloat16"),
        row((9, 8), (8, 9), matmul, "float16", "float32"),
        row((3, 4), (4, 5), matmul, "bool"),
    ]


dot_general_p = register(DotGeneral("dot_general"), TestFacts(ulp=32, samples=_samples))


# -- functions -----------------------------------------------------------------------------------


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Products of `lhs` and `rhs` summed over contracting axes, along batch axes.

    `dimension_numbers` is ((lhs contracting, rhs contracting), (lhs batch, rhs batch)). The result
    has the batch axes, the other axes of `lhs`, then those of `rhs`. Narrow floats are summed in
    float32. Raises ShapeError for axes that do not fit.

    >>> x = np.arange(4, dtype="float32").reshape(2, 2)
    >>> dot_general(x, x, (([1], [0]), ([], [])))
    Array([[ 2.,  3.],
           [ 6., 11.]], dtype=float32)
    """
    lhs, rhs = as_value(lhs), as_value(rhs)
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_and_canonicalize_user_dtype(
            preferred_element_type, "dot_general"
        )
    return dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=(
            (_axes(lhs_contract, lhs.ndim), _axes(rhs_contract, rhs.ndim)),
            (_axes(lhs_batch, lhs.ndim), _axes(rhs_batch, rhs.ndim)),
        ),
        precision=canonical_precision(precision),
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def _axes(axes: Any, ndim: int) -> Axes:
    axes = (axes,) if isinstance(axes, int) else axes
    return tuple(int(axis) + ndim if axis < 0 else int(axis) for axis in axes)


def dot(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The product of vectors and matrices, or `dot_general` where dimension numbers are given.

    >>> dot(np.ones(3, "float32"), np.ones(3, "float32"))
    Array(3., dtype=float32)
    """
    lhs, rhs = as_value(lhs), as_value(rhs)
    if dimension_numbers is None:
        if not (1 <= lhs.ndim <= 2 and 1 <= rhs.ndim <= 2 and lhs.shape[-1] == rhs.shape[0]):
            raise errors.ShapeError(
                f"Incompatible shapes for dot: got {lhs.shape} and {rhs.shape}. Pass "
                "dimension_numbers for other products"
            )
        dimension_numbers = (((lhs.ndim - 1,), (0,)), ((), ()))
    return dot_general(
        lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding
    )


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """Matrix products over the last two axes, along equal leading axes.

    >>> batch_matmul(np.ones((2, 3, 4)), np.ones((2, 4, 5))).shape
    (2, 3, 5)
    """
    lhs, rhs = as_value(lhs), as_value(rhs)
    if min(lhs.ndim, rhs.ndim) < 2 or lhs.ndim != rhs.ndim:
        raise ValueError(
            "Arguments to batch_matmul must have the same ndim of at least 2, got "
            f"{lhs.ndim} and {rhs.ndim}"
        )
    batch = tuple(range(lhs.ndim - 2))
    numbers = (((lhs.ndim - 1,), (rhs.ndim - 2,)), (batch, batch))
    return dot_general(lhs, rhs, numbers, precision)


__all__ = ["batch_matmul", "compute_dtype", "dot", "dot_general", "dot_general_p"]
