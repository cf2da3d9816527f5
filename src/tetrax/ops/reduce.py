"""Reductions over axes: extrema, products, logical ones, and the positions of extrema.

Sums stand in `structure.py`. Maxima and minima propagate NaN; elements that tie share the
derivative equally. Positions are those of the first extremum, or of the first NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from tetrax import dtypes, errors
from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_types import F32
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import View, element_type, is_complex
from tetrax.ops import axes as ax
from tetrax.ops import structure
from tetrax.ops.arithmetic import div, mul
from tetrax.ops.base import TestFacts, dtype_kind, register
from tetrax.ops.bits_and_compare import eq
from tetrax.ops.creation import full_like
from tetrax.ops.cumulative import cumprod
from tetrax.ops.identities import largest, smallest
from tetrax.ops.join import pad
from tetrax.ops.select import select
from tetrax.ops.structure import (
    batch_reduction,
    broadcast_in_dim,
    check_reduction_axes,
    full,
    reduce_sum_p,
    reduction_factors,
    reduction_index,
    reshape,
    transpose,
    widened,
)
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import Primitive, rule
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.value import get_aval

Combine = Callable[[Any, Any], Any]


class Reduction(Primitive):
    """Combines elements along `axes` with an associative operation."""

    cost = 1
    folds = True

    def __init__(
        self,
        name: str,
        accepts: str,
        combine: Combine,
        identity: Callable[[Any], Any],
        numpy: Any,
        reassociate: str | None,
        mnemonic: str,
        facts: TestFacts,
    ) -> None:
        super().__init__(name)
        self.accepts, self.combine, self.identity = accepts, combine, identity
        self.numpy, self.reassociate, self.mnemonic = numpy, reassociate, mnemonic
        register(self, facts)

    def shape(self, operand, *, axes, **params):
        check_reduction_axes(self.name, operand, axes)
        if dtype_kind(operand.dtype) not in self.accepts:
            raise errors.ShapeError(
                f"{self.name} does not accept dtype {operand.dtype.name}; convert the operand first"
            )
        return ShapedArray(ax.without(operand.shape, axes), operand.dtype, self.weak(operand))

    def factors(self, avals, outs, params):
        dtype = avals[0].dtype
        across = None if is_complex(dtype) else self._reassociation(dtype)
        known = across if across in ("max", "min") else ""
        return reduction_factors(avals[0].shape, params["axes"], known)

    def weak(self, operand: ShapedArray) -> bool:
        return operand.weak_type

    def reference(self, x, *, axes, **params):
        narrow = element_type(x.dtype).is_storage
        wide = x.astype(np.float32) if narrow else x
        options = {} if x.size else {"initial": self.identity(x.dtype)}
        out = self.numpy.reduce(wide, axis=axes, **options)
        return np.asarray(out).astype(x.dtype, copy=False)

    @rule
    def prepared(self, avals, params):
        (aval,) = avals
        if element_type(aval.dtype).is_storage or not aval.size:
            return super().prepared(avals, params)
        return partial(self.numpy.reduce, axis=tuple(params["axes"]))

    def batch(self, operands, dims, *, axes, **params):
        return batch_reduction(
            lambda x, new: self.bind(x, axes=new, **params), operands[0], dims[0], axes
        )

    def kernel(self, operands, outs, *, axes, **params):
        (x,) = operands
        (out,) = outs
        kind = element_type(out.dtype)
        wide = F32 if kind.is_storage else kind
        to_complex = is_complex(out.dtype)
        reassociate = None if to_complex else self._reassociation(out.dtype)

        def at(index):
            variables, full_index = reduction_index(x.shape, axes, index)
            start = self.identity(out.dtype)
            initial = scalar.convert(kernel.const(start, wide), wide, to_complex)
            value = widened(x, full_index)
            total = scalar.fold(
                variables, [initial], lambda acc: [self.combine(acc[0], value)], reassociate
            )[0]
            return scalar.convert(total, kind, to_complex)

        return View(out.shape, out.dtype, at)

    def _reassociation(self, dtype: Any) -> str | None:
        return self.reassociate

    def stablehlo(self, context, operands, outs, *, axes, **params):
        return context.reduce(self.mnemonic, operands, outs, axes)


class ReduceExtremum(Reduction):
    def jvp(self, primals, tangents, *, axes, **params):
        (x,) = primals
        out = self.bind(x, axes=axes, **params)
        if type(tangents[0]) is Zero:
            return out, Zero.from_primal_value(out)
        kept = ax.without(range(get_aval(x).ndim), axes)
        reached = eq(x, broadcast_in_dim(out, get_aval(x).shape, kept))
        share = select(reached, full_like(x, 1), full_like(x, 0))
        total = structure.reduce_sum(mul(tangents[0], share), axes)
        return out, div(total, structure.reduce_sum(share, axes))


class ReduceProduct(Reduction):
    def jvp(self, primals, tangents, *, axes, **params):
        (x,) = primals
        out = self.bind(x, axes=axes, **params)
        if type(tangents[0]) is Zero:
            return out, Zero.from_primal_value(out)
        others = mul(_products_before(x, axes, False), _products_before(x, axes, True))
        moved = _last(tangents[0], axes)
        return out, structure.reduce_sum(mul(moved, others), (get_aval(moved).ndim - 1,))


def _last(x: Any, axes: Sequence[int]) -> Any:
    """`x` with `axes` made one axis, the last."""
    shape = get_aval(x).shape
    kept = ax.without(range(len(shape)), axes)
    moved = transpose(x, (*kept, *axes))
    size = ax.product([shape[axis] for axis in axes])
    return reshape(moved, (*(shape[axis] for axis in kept), size))


def _products_before(x: Any, axes: Sequence[int], reverse: bool) -> Any:
    """For each element the product of those before it (after it), axes as in `_last`."""
    flat = _last(x, axes)
    aval = get_aval(flat)
    axis = aval.ndim - 1
    row = (-1, 1, 0) if reverse else (1, -1, 0)
    config = [(0, 0, 0)] * axis + [row]
    return pad(cumprod(flat, axis, reverse), full((), 1, aval.dtype), config)


class ReduceLogical(Reduction):
    """Bitwise; has no derivative."""

    def weak(self, operand):
        return False

    def jvp(self, primals, tangents, **params):
        out = self.bind(*primals, **params)
        return out, Zero.from_primal_value(out)

    def _reassociation(self, dtype):
        return self.reassociate if dtype == np.bool_ else None


class ArgExtremum(Primitive):
    """The position of the extremum along one axis."""

    cost = 2
    folds = True

    def __init__(self, name: str, extremum: Reduction, numpy: Any, facts: TestFacts) -> None:
        super().__init__(name)
        self.extremum, self.numpy = extremum, numpy
        register(self, facts)

    def shape(self, operand, *, axes, index_dtype):
        (axis,) = axes
        if not 0 <= axis < operand.ndim:
            raise ValueError(f"Invalid axis {axis} for operand shape {operand.shape}")
        if operand.shape[axis] < 1:
            raise ValueError(
                "argmin and argmax require non-empty reduced dimension. "
                f"operand.shape={operand.shape} {axis=}"
            )
        if not dtypes.issubdtype(index_dtype, np.integer):
            raise errors.ShapeError(f"index_dtype must be an integer type, but got {index_dtype}")
        if dtype_kind(operand.dtype) not in "biuf":
            raise errors.ShapeError(
                f"{self.name} does not accept dtype {operand.dtype.name}: it has no order"
            )
        return ShapedArray(ax.without(operand.shape, axes), index_dtype)

    def factors(self, avals, outs, params):
        return reduction_factors(avals[0].shape, params["axes"], "")

    def reference(self, x, *, axes, index_dtype):
        wide = x.astype(np.float32) if element_type(x.dtype).is_storage else x
        return self.numpy(wide, axis=axes[0]).astype(index_dtype)

    def jvp(self, primals, tangents, **params):
        out = self.bind(*primals, **params)
        return out, Zero.from_primal_value(out)

    def batch(self, operands, dims, *, axes, index_dtype):
        return batch_reduction(
            lambda x, new: self.bind(x, axes=new, index_dtype=index_dtype),
            operands[0],
            dims[0],
            axes,
        )

    def rereads(self, avals, params):
        return True

    def kernel(self, operands, outs, *, axes, index_dtype):
        """The extremum first, then the first position where it (or a NaN) stands."""
        (x,) = operands
        (out,) = outs
        aval = ShapedArray(x.shape, x.dtype)
        best = self.extremum.kernel([x], [ShapedArray(out.shape, aval.dtype)], axes=axes)
        extent = x.shape[axes[0]]

        def at(index):
            variables, full_index = reduction_index(x.shape, axes, index)
            value, target = widened(x, full_index), widened(best, index)
            found = kernel.eq(value, target)
            if dtype_kind(x.dtype) == "f":
                found = kernel.bit_or(found, kernel.ne(value, value))
            position = kernel.select(found, variables[0][0], kernel.index(extent))
            first = scalar.fold(
                variables,
                [kernel.index(extent)],
                lambda acc: [kernel.minimum(acc[0], position)],
                "min",
            )[0]
            return scalar.convert(first, element_type(out.dtype))

        return View(out.shape, out.dtype, at)

    def stablehlo(self, context, operands, outs, *, axes, index_dtype):
        return context.arg_extremum(self.name, operands, outs, axes[0], index_dtype)


def _complex_extremum(largest_first: bool) -> Combine:
    """Maximum or minimum; complex numbers are ordered by real, then by imaginary part."""

    def combine(x: Any, y: Any) -> Any:
        if not isinstance(x, scalar.Complex):
            return kernel.maximum(x, y) if largest_first else kernel.minimum(x, y)
        a, b = (x, y) if largest_first else (y, x)
        later = kernel.bit_or(
            kernel.gt(b.re, a.re),
            kernel.bit_and(kernel.eq(b.re, a.re), kernel.gt(b.im, a.im)),
        )
        y_is_nan = kernel.bit_or(kernel.ne(y.re, y.re), kernel.ne(y.im, y.im))
        x_is_nan = kernel.bit_or(kernel.ne(x.re, x.re), kernel.ne(x.im, x.im))
        takes = kernel.bit_and(kernel.bit_or(later, y_is_nan), kernel.logical_not(x_is_nan))
        return scalar.select(takes, y, x)

    return combine


def _real_start(start: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The start for complex dtypes too: that of the real part."""
    return lambda dtype: start(np.dtype(np.float64) if dtype.kind == "c" else dtype)


def _samples(*names: str) -> Any:
    def samples() -> list[tuple[list[ShapedArray], dict]]:
        shapes = (((7,), (0,)), ((3, 5), (0,)), ((3, 5), (1,)), ((2, 3, 4), (0, 2)), ((2, 0), (1,)))
        return [
            ([ShapedArray(shape, np.dtype(name))], {"axes": axes, "out_sharding": None})
            for name in names
            for shape, axes in shapes
        ]

    return samples


def _plain(samples: Any) -> Any:
    return lambda: [(avals, {"axes": params["axes"]}) for avals, params in samples()]


def _arg_samples() -> list[tuple[list[ShapedArray], dict]]:
    return [
        (avals, {"axes": params["axes"], "index_dtype": np.dtype(np.int32)})
        for avals, params in _samples("float32", "int32", "bool")()
        if len(params["axes"]) == 1 and avals[0].size
    ]


_NOT_LINEAR = (("transpose", "not linear"),)
_EXTREMA = TestFacts(
    ulp=0, samples=_plain(_samples("float32", "int32", "bool")), excluded=_NOT_LINEAR
)
_LOGICAL = TestFacts(ulp=0, samples=_plain(_samples("bool", "int32")), excluded=_NOT_LINEAR)
_ARG = TestFacts(ulp=0, samples=_arg_samples, excluded=_NOT_LINEAR)

register(reduce_sum_p, TestFacts(ulp=16, samples=_samples("float32", "int32", "complex64")))
reduce_max_p = ReduceExtremum(
    "reduce_max",
    "biufc",
    _complex_extremum(True),
    _real_start(smallest),
    np.maximum,
    "max",
    "maximum",
    _EXTREMA,
)
reduce_min_p = ReduceExtremum(
    "reduce_min",
    "biufc",
    _complex_extremum(False),
    _real_start(largest),
    np.minimum,
    "min",
    "minimum",
    _EXTREMA,
)
reduce_prod_p = ReduceProduct(
    "reduce_prod",
    "iufc",
    scalar.mul,
    lambda dtype: 1,
    np.multiply,
    "mul",
    "multiply",
    TestFacts(
        ulp=16,
        samples=_plain(_samples("float32", "int32", "complex64")),
        excluded=_NOT_LINEAR,
    ),
)
reduce_and_p = ReduceLogical(
    "reduce_and",
    "biu",
    kernel.bit_and,
    lambda dtype: -1 if dtype_kind(dtype) == "i" else largest(dtype),
    np.bitwise_and,
    "min",
    "and",
    _LOGICAL,
)
reduce_or_p = ReduceLogical(
    "reduce_or",
    "biu",
    kernel.bit_or,
    lambda dtype: 0,
    np.bitwise_or,
    "max",
    "or",
    _LOGICAL,
)
reduce_xor_p = ReduceLogical(
    "reduce_xor", "biu", kernel.bit_xor, lambda dtype: 0, np.bitwise_xor, None, "xor", _LOGICAL
)
argmax_p = ArgExtremum("argmax", reduce_max_p, np.argmax, _ARG)
argmin_p = ArgExtremum("argmin", reduce_min_p, np.argmin, _ARG)


# -- functions -----------------------------------------------------------------------------------


def _reduce(primitive: Primitive, operand: Any, axes: Any, **params: Any) -> Any:
    operand = as_value(operand)
    return primitive.bind(operand, axes=ax.canonical_axes(axes, operand.ndim, "axes"), **params)


def reduce_sum(operand: Any, axes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """The sum of `operand` over `axes`; narrow floats are summed in float32.

    >>> reduce_sum(np.ones((2, 3), "float32"), (1,))
    Array([3., 3.], dtype=float32)
    """
    return _reduce(reduce_sum_p, operand, axes, out_sharding=None)


def reduce_prod(operand: Any, axes: Sequence[int]) -> Any:
    """The product of `operand` over `axes`; its derivative is exact at zeros."""
    return _reduce(reduce_prod_p, operand, axes)


def reduce_max(operand: Any, axes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """The maximum of `operand` over `axes`; NaN if there is a NaN."""
    return _reduce(reduce_max_p, operand, axes)


def reduce_min(operand: Any, axes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """The minimum of `operand` over `axes`; NaN if there is a NaN."""
    return _reduce(reduce_min_p, operand, axes)


def reduce_and(operand: Any, axes: Sequence[int]) -> Any:
    """Whether all elements over `axes` are true; bitwise for integers."""
    return _reduce(reduce_and_p, operand, axes)


def reduce_or(operand: Any, axes: Sequence[int]) -> Any:
    """Whether any element over `axes` is true; bitwise for integers."""
    return _reduce(reduce_or_p, operand, axes)


def reduce_xor(operand: Any, axes: Sequence[int]) -> Any:
    """Whether an odd number of elements over `axes` is true; bitwise for integers."""
    return _reduce(reduce_xor_p, operand, axes)


def argmax(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The position of the first maximum (or NaN) along `axis`, as `index_dtype`.

    >>> argmax(np.array([1.0, 3.0, 3.0], "float32"), 0, "int32")
    Array(1, dtype=int32)
    """
    return _arg(argmax_p, operand, axis, index_dtype)


def argmin(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The position of the first minimum (or NaN) along `axis`, as `index_dtype`."""
    return _arg(argmin_p, operand, axis, index_dtype)


def _arg(primitive: Primitive, operand: Any, axis: int, index_dtype: Any) -> Any:
    operand = as_value(operand)
    dtype = dtypes.check_and_canonicalize_user_dtype(index_dtype, primitive.name)
    axes = (ax.canonical_axis(axis, operand.ndim),)
    return primitive.bind(operand, axes=axes, index_dtype=dtype)


__all__ = [
    "argmax",
    "argmax_p",
    "argmin",
    "argmin_p",
    "reduce_and",
    "reduce_and_p",
    "reduce_max",
    "reduce_max_p",
    "reduce_min",
    "reduce_min_p",
    "reduce_or",
    "reduce_or_p",
    "reduce_prod",
    "reduce_prod_p",
    "reduce_sum",
    "reduce_sum_p",
    "reduce_xor",
    "reduce_xor_p",
]
