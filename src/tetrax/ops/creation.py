"""Arrays made from nothing but a shape: constants and counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, errors
from tetrax.ir import kernel, scalar
from tetrax.ir.layout import FactorsBuilder, pointwise
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import View, element_type, is_complex
from tetrax.ops import axes as ax
from tetrax.ops.arithmetic import add
from tetrax.ops.base import TestFacts, register
from tetrax.ops.convert import convert_element_type
from tetrax.ops.structure import broadcast_in_dim
from tetrax.runtime.array import wrap
from tetrax.runtime.placement import put_known, sharding_for
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.value import Value


class Iota(Primitive):
    """The index along `dimension`, as an element of every position."""

    def shape(self, *, dtype, shape, dimension, sharding=None):
        if not dtypes.issubdtype(dtype, np.number):
            raise errors.ShapeError(
                f"iota does not accept dtype {np.dtype(dtype).name}. Accepted dtypes are numbers"
            )
        if not 0 <= dimension < len(shape):
            raise errors.ShapeError(
                f"iota dimension must be within the rank of shape: got dimension={dimension} "
                f"for shape {tuple(shape)}"
            )
        return ShapedArray(shape, dtype)

    def factors(self, avals, outs, params):
        build = FactorsBuilder()
        axes = build.axes(outs[0].shape)
        dimension = params["dimension"]
        axes[dimension] = build.new(outs[0].shape[dimension], positional=True)
        return build.build([], [axes])

    def local_params(self, params, avals, outs):
        return {**params, "shape": outs[0].shape}

    def positioned(self, operands, outs, place, params):
        (out,), (starts,) = outs, place.results
        count = out.dtype if dtypes.issubdtype(out.dtype, np.integer) else np.dtype(np.int32)
        here = self.bind(**{**params, "shape": out.shape, "dtype": count})
        start = convert_element_type(starts[params["dimension"]], count)
        return [convert_element_type(add(here, full_like(here, start)), out.dtype)]

    def reference(self, *, dtype, shape, dimension, sharding=None):
        line = np.arange(shape[dimension]).astype(dtype)
        expanded = [1] * len(shape)
        expanded[dimension] = shape[dimension]
        return np.broadcast_to(line.reshape(expanded), shape)

    def kernel(self, operands, outs, *, dtype, shape, dimension, sharding=None):
        kind, to_complex = element_type(outs[0].dtype), is_complex(outs[0].dtype)
        return View(
            outs[0].shape,
            outs[0].dtype,
            lambda index: scalar.convert(index[dimension], kind, to_complex),
        )

    def stablehlo(self, context, operands, outs, *, dtype, shape, dimension, sharding=None):
        return context.op("iota", operands, outs, iota_dimension=context.i64(dimension))


class Empty(Primitive):
    """An array whose elements are not specified; here zeros, so that runs repeat."""

    def shape(self, *, shape, dtype, out_sharding=None):
        return ShapedArray(shape, dtype)

    def factors(self, avals, outs, params):
        return pointwise(avals, outs)

    def local_params(self, params, avals, outs):
        return {**params, "shape": outs[0].shape}

    def reference(self, *, shape, dtype, out_sharding=None):
        return np.zeros(shape, dtype)

    def kernel(self, operands, outs, *, shape, dtype, out_sharding=None):
        zero = kernel.const(0, element_type(outs[0].dtype))
        value = scalar.Complex(zero, zero) if is_complex(outs[0].dtype) else zero
        return View(outs[0].shape, outs[0].dtype, lambda index: value)

    def stablehlo(self, context, operands, outs, *, shape, dtype, out_sharding=None):
        return context.splat(0, outs[0])


def _iota_samples():
    names = ("int32", "uint8", "int8", "float32", "float16", "bfloat16", "complex64", "float64")
    rows = [
        ([], {"dtype": dtypes.numpy_dtype(name), "shape": (3, 7), "dimension": 1, "sharding": None})
        for name in names
    ]
    first = rows[0][1]
    return [*rows, ([], {**first, "shape": (0,), "dimension": 0}), ([], {**first, "dimension": 0})]


def _empty_samples():
    return [([], {"shape": (2, 3), "dtype": np.dtype(np.float32), "out_sharding": None})]


iota_p = register(Iota("iota"), TestFacts(samples=_iota_samples))
empty_p = register(Empty("empty"), TestFacts(samples=_empty_samples))


def iota(dtype: Any, size: int) -> Any:
    """The integers from 0 up to `size`, as a vector of `dtype`.

    >>> iota("int32", 3)
    Array([0, 1, 2], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(
    dtype: Any, shape: Sequence[int], dimension: int, *, out_sharding: Any = None
) -> Any:
    """An array of `shape` whose elements are their index along `dimension`.

    >>> broadcasted_iota("int32", (2, 2), 0)
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    shape = ax.canonical_shape(shape)
    return iota_p.bind(
        dtype=dtypes.check_and_canonicalize_user_dtype(dtype, "iota"),
        shape=shape,
        dimension=ax.canonical_axis(dimension, len(shape), "dimension"),
        sharding=out_sharding,
    )


def full(shape: Any, fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Any:
    """An array of `shape` with every element `fill_value`, which must be a scalar.

    Raises ShapeError if `fill_value` has axes.

    >>> full((2,), 1.5)
    Array([1.5, 1.5], dtype=float32, weak_type=True)
    """
    shape = ax.canonical_shape(shape)
    if np.shape(fill_value):
        raise errors.ShapeError(
            "full must be called with scalar fill_value, got fill_value.shape "
            f"{np.shape(fill_value)}. Use broadcast_in_dim for arrays"
        )
    if isinstance(dtype, dtypes.ExtendedDType):
        keys = wrap(np.full(shape, fill_value, dtype.storage), ShapedArray(shape, dtype))
        return put_known(keys, sharding)
    weak = dtype is None and dtypes.is_weakly_typed(fill_value)
    if dtype is None:
        dtype = dtypes.dtype(fill_value, canonicalize=True)
    else:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "full")
    return put_known(broadcast_in_dim(_scalar_of(fill_value, dtype, weak), shape, ()), sharding)


def _scalar_of(value: Any, dtype: Any, weak: bool) -> Any:
    if isinstance(value, Value):
        return convert_element_type(value, dtype)
    return wrap(np.asarray(value).astype(dtype), ShapedArray((), dtype, weak))


def full_like(
    x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, sharding: Any = None
) -> Any:
    """An array like `x` (shape, dtype, weak type) with every element `fill_value`.

    It lies where a sharded `x` of that shape does, unless `sharding` says otherwise.

    >>> full_like(iota("int32", 2), 7)
    Array([7, 7], dtype=int32)
    """
    shape = np.shape(x) if shape is None else ax.canonical_shape(shape)
    if sharding is None:
        sharding = sharding_for(x, shape)
    weak = dtype is None and dtypes.is_weakly_typed(x)
    if dtype is None:
        dtype = dtypes.dtype(x, canonicalize=True)
    if isinstance(dtype, dtypes.ExtendedDType):
        return full(shape, fill_value, dtype, sharding=sharding)
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "full_like")
    return put_known(broadcast_in_dim(_scalar_of(fill_value, dtype, weak), shape, ()), sharding)


def zeros_like(x: Any) -> Any:
    """Zeros of the shape, dtype and weak type of `x`."""
    return full_like(x, 0)


def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Any:
    """An array of `shape` whose elements are not specified."""
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "empty")
    return empty_p.bind(shape=ax.canonical_shape(shape), dtype=dtype, out_sharding=out_sharding)


def shape_as_value(shape: Sequence[int]) -> Any:
    """The extents of `shape` as an int32 vector."""
    return wrap(np.asarray(shape, np.int32), ShapedArray((len(shape),), np.dtype(np.int32)))


__all__ = [
    "broadcasted_iota",
    "empty",
    "empty_p",
    "full",
    "full_like",
    "iota",
    "iota_p",
    "shape_as_value",
    "zeros_like",
]
