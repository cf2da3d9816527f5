"""`conv_general_dilated`: sums of products over sliding windows and features.

Any axis order, strides, dilation of both operands, padding (also negative), groups of features or
of the batch. Both derivatives are convolutions again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.lib.stride_tricks import sliding_window_view

import numpy as np
from tetrax import dtypes, errors
from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_types import BOOL
from tetrax.ir.layout import FactorsBuilder
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import View, element_type, is_complex
from tetrax.ops import axes as ax
from tetrax.ops.base import TestFacts, batch_size, register
from tetrax.ops.bilinear import Bilinear
from tetrax.ops.contract import compute_dtype, compute_scalar, product_dtype
from tetrax.ops.convert import convert_element_type
from tetrax.ops.convolution_depthwise import emit_depthwise, suits_depthwise
from tetrax.ops.convolution_depthwise_weights import (
    emit_depthwise_weights,
    suits_depthwise_weights,
)
from tetrax.ops.convolution_emit import Geometry, emit_convolution
from tetrax.ops.convolution_tiles import emit_tiles, suits_tiles
from tetrax.ops.convolution_weights import emit_weights, suits_weights
from tetrax.ops.join import clamp_index, dilated, pad
from tetrax.ops.shape import rev
from tetrax.ops.structure import batch_at, full, move_axis, reshape, zeros
from tetrax.ops.window_shapes import lhs_gradient_pads, rhs_gradient_pads, windowed_shape
from tetrax.tracing.value import get_aval

# Convolutions of fewer multiplications are written out as sums, which can fuse.
SMALL_CONVOLUTION = 2048
# With fewer result features per group than this, library products do not pay.
FEW_FEATURES = 3


class ConvDimensionNumbers(NamedTuple):
    """Axes of operand, window and result.

    Each is a tuple: (batch, feature, spatial…) for operand and result, (result feature, operand
    feature, spatial…) for the window.
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


class Convolution(Bilinear):
    """The convolution operation; see the module's text."""

    cost = 1
    folds = True

    def shape(self, lhs, rhs, *, preferred_element_type, **params):
        shape = _result_shape(lhs, rhs, params)
        if lhs.dtype != rhs.dtype:
            raise errors.ShapeError(
                f"lax.conv_general_dilated requires arguments to have equal dtypes, got "
                f"{lhs.dtype.name} and {rhs.dtype.name}. Convert one of them first"
            )
        if not dtypes.issubdtype(lhs.dtype, np.number):
            raise errors.ShapeError(
                f"conv_general_dilated does not accept dtype {lhs.dtype.name}: it needs numbers"
            )
        dtype = product_dtype(
            "conv_general_dilated", lhs.dtype, rhs.dtype, preferred_element_type, False
        )
        return ShapedArray(shape, dtype, lhs.weak_type and rhs.weak_type)

    def factors(self, avals, outs, params):
        (lhs, rhs), (out,) = avals, outs
        specs, build = params["dimension_numbers"], FactorsBuilder()
        dims = [build.axes(aval.shape, range(aval.ndim)) for aval in (lhs, rhs, out)]
        lhs_dims, rhs_dims, out_dims = dims
        if params["batch_group_count"] == 1:
            batch = build.new(lhs.shape[specs.lhs_spec[0]])
            lhs_dims[specs.lhs_spec[0]] = out_dims[specs.out_spec[0]] = batch
        if params["feature_group_count"] == 1:
            channels = build.new(lhs.shape[specs.lhs_spec[1]], reduced="sum")
            lhs_dims[specs.lhs_spec[1]] = rhs_dims[specs.rhs_spec[1]] = channels
        if params["feature_group_count"] == params["batch_group_count"] == 1:
            features = build.new(rhs.shape[specs.rhs_spec[0]])
            rhs_dims[specs.rhs_spec[0]] = out_dims[specs.out_spec[1]] = features
        return build.build(dims[:2], dims[2:])

    def reference(self, lhs, rhs, *, preferred_element_type, **params):
        out = product_dtype("", lhs.dtype, rhs.dtype, preferred_element_type, True)
        return _numpy_convolution(lhs, rhs, compute_dtype(out), params).astype(out, copy=False)

    def transpose_lhs(self, ct, lhs, rhs, *, precision, preferred_element_type, **params):
        specs = params["dimension_numbers"]
        rhs_shape, groups = get_aval(rhs).shape, params["feature_group_count"]
        batch_groups = params["batch_group_count"]
        count = max(groups, batch_groups)
        if count > 1:
            first, second = specs.rhs_spec[0], specs.rhs_spec[1]
            rhs = axis_into(first, second, axis_out_of(first, count, rhs))
        geometry = _spatial(lhs.aval.shape, rhs_shape, get_aval(ct).shape, params)
        flipped = rev(rhs, tuple(specs.rhs_spec[2:]))
        ct = _as_dtype(ct, get_aval(rhs).dtype)
        out = conv_general_dilated_p.bind(
            ct,
            flipped,
            window_strides=params["lhs_dilation"],
            padding=tuple(lhs_gradient_pads(*geometry)),
            lhs_dilation=params["window_strides"],
            rhs_dilation=params["rhs_dilation"],
            dimension_numbers=ConvDimensionNumbers(
                specs.out_spec, _swapped(specs.rhs_spec), specs.lhs_spec
            ),
            feature_group_count=count,
            batch_group_count=1,
            precision=precision,
            preferred_element_type=preferred_element_type,
            out_sharding=None,
        )
        if batch_groups > 1:
            batch, feature = specs.lhs_spec[:2]
            out = axis_into(feature, batch, axis_out_of(feature, batch_groups, out))
        return out

    def transpose_rhs(self, ct, lhs, rhs, *, precision, preferred_element_type, **params):
        specs = params["dimension_numbers"]
        if get_aval(ct).size == 0:
            return zeros(ShapedArray(rhs.aval.shape, rhs.aval.dtype))
        geometry = _spatial(get_aval(lhs).shape, rhs.aval.shape, get_aval(ct).shape, params)
        groups, batch_groups = params["feature_group_count"], params["batch_group_count"]
        return conv_general_dilated_p.bind(
            lhs,
            _as_dtype(ct, get_aval(lhs).dtype),
            window_strides=params["rhs_dilation"],
            padding=tuple(rhs_gradient_pads(*geometry)),
            lhs_dilation=params["lhs_dilation"],
            rhs_dilation=params["window_strides"],
            dimension_numbers=ConvDimensionNumbers(
                _swapped(specs.lhs_spec), _swapped(specs.out_spec), _swapped(specs.rhs_spec)
            ),
            feature_group_count=batch_groups if batch_groups > 1 else 1,
            batch_group_count=groups if batch_groups == 1 else 1,
            precision=precision,
            preferred_element_type=preferred_element_type,
            out_sharding=None,
        )

    def batch(self, operands, dims, **params):
        (lhs, rhs), (lhs_dim, rhs_dim) = operands, dims
        lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
        groups, batch_groups = params["feature_group_count"], params["batch_group_count"]
        size = batch_size(operands, dims)
        if rhs_dim is None and batch_groups == 1:
            # The batch joins the operand's own batch axis.
            lhs = axis_into(lhs_dim, lhs_spec[0], lhs)
            out = self.bind(lhs, rhs, **params)
            return axis_out_of(out_spec[0], size, out), out_spec[0]
        if lhs_dim is None and groups == batch_groups == 1:
            # One convolution with all the windows' features.
            assert rhs_dim is not None  # one of the two is batched
            rhs = axis_into(rhs_dim, rhs_spec[0], rhs)
            out = self.bind(lhs, rhs, **params)
            return axis_out_of(out_spec[1], size, out), out_spec[1]
        lhs, rhs = batch_at(lhs, lhs_dim, size), batch_at(rhs, rhs_dim, size)
        rhs = axis_into(0, rhs_spec[0], rhs)
        if batch_groups > 1:
            lhs = axis_into(0, lhs_spec[0], lhs)
            params["batch_group_count"] = size * batch_groups
        else:
            lhs = axis_into(0, lhs_spec[1], lhs)
            params["feature_group_count"] = size * groups
        out = self.bind(lhs, rhs, **params)
        return axis_out_of(out_spec[1], size, out), out_spec[1]

    def flops(self, avals: Sequence[ShapedArray], params: dict) -> int:
        """Additions and multiplications of a call."""
        shape = _result_shape(avals[0], avals[1], params)
        features = avals[1].shape[params["dimension_numbers"].rhs_spec[0]]
        return 2 * ax.product(shape) * (avals[1].size // max(features, 1))

    def rereads(self, avals, params):
        return True

    def stores(self, avals, params):
        lhs, rhs = avals
        dtype = product_dtype("", lhs.dtype, rhs.dtype, params["preferred_element_type"], True)
        if not dtypes.issubdtype(dtype, np.floating) or lhs.dtype.kind == "c":
            return False
        if self.flops(avals, params) < 2 * SMALL_CONVOLUTION:
            return False
        geometry = Geometry.of(lhs.shape, rhs.shape, _result_shape(lhs, rhs, params), params)
        return (
            geometry.features >= FEW_FEATURES
            or suits_depthwise(geometry)
            or suits_depthwise_weights(geometry)
        )

    def kernel(self, operands, outs, **params):
        lhs, rhs = operands
        (out,) = outs
        kind, to_complex = compute_scalar(out.dtype), is_complex(out.dtype)
        specs = params["dimension_numbers"]
        window = [rhs.shape[axis] for axis in specs.rhs_spec[2:]]
        inputs = rhs.shape[specs.rhs_spec[1]]
        zero = scalar.convert(kernel.const(0, kind), kind, to_complex)

        def at(index):
            variables = [
                (kernel.index_variable("c", inputs), inputs),
                *((kernel.index_variable(f"w{i}", n), n) for i, n in enumerate(window)),
            ]
            left, right, inside = _operand_indices(
                index, [v for v, _ in variables], lhs.shape, rhs.shape, out.shape, params
            )
            x = scalar.convert(lhs.at(left), kind, to_complex)
            y = scalar.convert(rhs.at(right), kind, to_complex)
            term = scalar.mul(scalar.select(inside, x, zero), y)
            total = scalar.reduce_sum(variables, term)
            return scalar.convert(total, element_type(out.dtype), to_complex)

        if 0 in lhs.shape or 0 in rhs.shape:
            nothing = scalar.convert(zero, element_type(out.dtype), to_complex)
            return View(out.shape, out.dtype, lambda index: nothing)
        return View(out.shape, out.dtype, at)

    def emit(self, builder, operands, outs, **params):
        lhs, rhs = operands
        geometry = Geometry.of(lhs.shape, rhs.shape, outs[0].shape, params)
        emit = emit_convolution
        if suits_depthwise(geometry):
            emit = emit_depthwise
        elif suits_depthwise_weights(geometry):
            emit = emit_depthwise_weights
        elif suits_weights(geometry):
            emit = emit_weights
        elif suits_tiles(geometry):
            emit = emit_tiles
        emit(builder, geometry, lhs, rhs, outs[0], compute_scalar(outs[0].dtype))

    def stablehlo(self, context, operands, outs, **params):
        return context.convolution(operands, outs, **params)


def _as_dtype(x: Any, dtype: Any) -> Any:
    return x if get_aval(x).dtype == dtype else convert_element_type(x, dtype)


def _swapped(spec: Sequence[int]) -> tuple[int, ...]:
    """A spec with its first two axes exchanged."""
    return (spec[1], spec[0], *spec[2:])


def axis_into(source: int, target: int, x: Any) -> Any:
    """`x` with axis `source` merged, as the outer one, into axis `target` (counted without it)."""
    moved = move_axis(x, source, target)
    shape = get_aval(moved).shape
    merged = shape[target] * shape[target + 1]
    return reshape(moved, (*shape[:target], merged, *shape[target + 2 :]))


def axis_out_of(axis: int, size: int, x: Any) -> Any:
    """`x` with `axis` split into one of `size` and the rest."""
    shape = get_aval(x).shape
    return reshape(x, (*shape[:axis], size, shape[axis] // size, *shape[axis + 1 :]))


def _spatial(
    lhs: Sequence[int], rhs: Sequence[int], out: Sequence[int], params: dict
) -> tuple[Any, ...]:
    """Arguments of the gradients' padding rules."""
    specs = params["dimension_numbers"]
    return (
        [lhs[axis] for axis in specs.lhs_spec[2:]],
        [rhs[axis] for axis in specs.rhs_spec[2:]],
        params["window_strides"],
        [out[axis] for axis in specs.out_spec[2:]],
        params["padding"],
        params["lhs_dilation"],
        params["rhs_dilation"],
    )


def _operand_indices(
    index: Sequence[Any],
    variables: Sequence[Any],
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    out_shape: Sequence[int],
    params: dict,
) -> tuple[tuple[Any, ...], tuple[Any, ...], Any]:
    """Indices of both operands under a result's index and a place of the sum, and the mask."""
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    groups, batch_groups = params["feature_group_count"], params["batch_group_count"]
    channel, *places = variables
    batch, feature = index[out_spec[0]], index[out_spec[1]]
    features, inputs = rhs_shape[rhs_spec[0]], rhs_shape[rhs_spec[1]]
    left: list[Any] = [None] * len(lhs_shape)
    right: list[Any] = [None] * len(rhs_shape)
    right[rhs_spec[0]], right[rhs_spec[1]] = feature, channel
    group = kernel.div(feature, kernel.index(features // groups))
    left[lhs_spec[1]] = kernel.add(kernel.mul(group, inputs), channel)
    batch_group = kernel.div(feature, kernel.index(features // batch_groups))
    left[lhs_spec[0]] = kernel.add(kernel.mul(batch_group, out_shape[out_spec[0]]), batch)
    inside = kernel.const(True, BOOL)
    for i, place in enumerate(places):
        right[rhs_spec[2 + i]] = place
        extent, step = lhs_shape[lhs_spec[2 + i]], params["lhs_dilation"][i]
        low, high = params["padding"][i]
        position = kernel.add(
            kernel.mul(index[out_spec[2 + i]], params["window_strides"][i]),
            kernel.mul(place, params["rhs_dilation"][i]),
        )
        if (low, high, step) != (0, 0, 1):
            position = kernel.sub(position, kernel.index(low))
            last = dilated(extent, step)
            found = kernel.bit_and(kernel.ge(position, 0), kernel.lt(position, last))
            position = clamp_index(position, last)
            if step > 1:
                on_grid = kernel.eq(kernel.rem(position, kernel.index(step)), 0)
                found = kernel.bit_and(found, on_grid)
                position = kernel.div(position, kernel.index(step))
            inside = kernel.bit_and(inside, found)
        left[lhs_spec[2 + i]] = position
    return tuple(left), tuple(right), inside


def _numpy_convolution(lhs: Any, rhs: Any, compute: Any, params: dict) -> np.ndarray:
    """By products of all windows with the weights, one product per group."""
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    x = np.transpose(lhs, lhs_spec).astype(compute, copy=False)
    w = np.transpose(rhs, rhs_spec).astype(compute, copy=False)
    spatial = x.ndim - 2
    config = [(0, 0, 0), (0, 0, 0)] + [
        (low, high, step - 1)
        for (low, high), step in zip(params["padding"], params["lhs_dilation"], strict=True)
    ]
    x = np.asarray(pad(x, full((), 0, x.dtype), config))
    spans = [dilated(n, gap) for n, gap in zip(w.shape[2:], params["rhs_dilation"], strict=True)]
    counts = [
        max(0, (n - span) // stride + 1) if n >= span else 0
        for n, span, stride in zip(x.shape[2:], spans, params["window_strides"], strict=True)
    ]
    groups, batch_groups = params["feature_group_count"], params["batch_group_count"]
    batch = x.shape[0] // batch_groups
    if 0 in counts or x.size == 0 or w.size == 0:
        out = np.zeros((batch, w.shape[0], *counts), compute)
    else:
        views = sliding_window_view(x, spans, axis=tuple(range(2, 2 + spatial)))
        steps = [slice(None, None, stride) for stride in params["window_strides"]]
        gaps = [slice(None, None, gap) for gap in params["rhs_dilation"]]
        views = views[(slice(None), slice(None), *steps, *gaps)]
        count = max(groups, batch_groups)
        split = np.split(views, count, axis=1 if groups > 1 else 0)
        summed = [1, *range(2 + spatial, 2 + 2 * spatial)], [1, *range(2, 2 + spatial)]
        parts = [
            np.tensordot(part, weights, axes=summed)
            for part, weights in zip(split, np.split(w, count, axis=0), strict=True)
        ]
        out = np.moveaxis(np.concatenate(parts, -1), -1, 1)
    return np.transpose(out, ax.inverse_permutation(out_spec))


def _result_shape(lhs: ShapedArray, rhs: ShapedArray, params: dict) -> tuple[int, ...]:
    """The shape of a convolution. Raises ValueError or ShapeError for operands that do not fit."""
    _check(lhs, rhs, params)
    specs = params["dimension_numbers"]
    padding = params["padding"]
    extents = [lhs.shape[axis] for axis in specs.lhs_spec[2:]]
    for extent, (low, high), step in zip(extents, padding, params["lhs_dilation"], strict=True):
        if dilated(extent, step) + low + high < 0:
            raise ValueError(
                "Negative padding is larger than the size of the corresponding dimension: got "
                f"padding={padding} for spatial shape {tuple(extents)}"
            )
    counts = windowed_shape(
        extents,
        [rhs.shape[axis] for axis in specs.rhs_spec[2:]],
        params["window_strides"],
        padding,
        params["lhs_dilation"],
        params["rhs_dilation"],
    )
    batch = lhs.shape[specs.lhs_spec[0]] // params["batch_group_count"]
    row = (batch, rhs.shape[specs.rhs_spec[0]], *counts)
    return tuple(row[i] for i in ax.inverse_permutation(specs.out_spec))


def _check(lhs: ShapedArray, rhs: ShapedArray, params: dict) -> None:
    specs = params["dimension_numbers"]
    groups, batch_groups = params["feature_group_count"], params["batch_group_count"]
    problem = None
    if lhs.ndim != rhs.ndim or lhs.ndim < 2:
        raise ValueError(
            "conv_general_dilated lhs and rhs must have the same number of dimensions, at least 2: "
            f"got {lhs.shape} and {rhs.shape}"
        )
    channels, features = lhs.shape[specs.lhs_spec[1]], rhs.shape[specs.rhs_spec[0]]
    for key in ("window_strides", "padding", "lhs_dilation", "rhs_dilation"):
        if len(params[key]) != lhs.ndim - 2:
            problem = f"needs one entry of {key} per spatial dimension, got {params[key]}"
    if groups < 1 or batch_groups < 1 or (groups > 1 and batch_groups > 1):
        problem = (
            "needs positive feature_group_count and batch_group_count, at most one of them > 1: "
            f"got {groups} and {batch_groups}"
        )
    elif channels % groups or channels // groups != rhs.shape[specs.rhs_spec[1]]:
        problem = (
            "lhs feature dimension size divided by feature_group_count must equal the rhs input "
            f"feature dimension size: {channels} // {groups} != {rhs.shape[specs.rhs_spec[1]]}"
        )
    elif features % groups or features % batch_groups:
        problem = f"group counts must divide the rhs output feature dimension size {features}"
    elif lhs.shape[specs.lhs_spec[0]] % batch_groups:
        problem = (
            f"batch_group_count {batch_groups} must divide lhs batch dimension size "
            f"{lhs.shape[specs.lhs_spec[0]]}"
        )
    elif any(n < 1 for key in ("window_strides", "lhs_dilation", "rhs_dilation")
             for n in params[key]):  # fmt: skip
        problem = "window_strides and dilations must be positive"
    if problem:
        raise ValueError(
            f"conv_general_dilated {problem}. Operand shapes are {lhs.shape} and {rhs.shape}"
        )


def _samples() -> list[tuple[list[ShapedArray], dict]]:
    def row(lhs, rhs, specs, padding, dtype="float32", **changes):
        ones = (1,) * (len(lhs) - 2)
        params = {
            "window_strides": ones,
            "padding": padding,
            "lhs_dilation": ones,
            "rhs_dilation": ones,
            "dimension_numbers": ConvDimensionNumbers(*specs),
            "feature_group_count": 1,
            "batch_group_count": 1,
            "precision": None,
            "preferred_element_type": None,
            "out_sharding": None,
            **changes,
        }
        return [ShapedArray(shape, np.dtype(dtype)) for shape in (lhs, rhs)], params

    plain = ((0, 1, 2, 3),) * 3
    nhwc = ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    line = ((0, 1, 2),) * 3
    return [
        row((2, 3, 5, 6), (4, 3, 2, 3), plain, ((0, 0), (0, 0))),
        row((2, 8, 8, 3), (3, 3, 3, 8), nhwc, ((1, 1), (1, 1))),
        row((1, 2, 9), (2, 2, 3), line, ((2, -1),), lhs_dilation=(2,), rhs_dilation=(2,)),
        row((1, 4, 9), (4, 2, 3), line, ((1, 1),), window_strides=(2,), feature_group_count=2),
        row((4, 2, 9), (4, 2, 3), line, ((0, 0),), batch_group_count=2),
        row((1, 2, 5), (2, 2, 3), line, ((0, 0),), "int32"),
        row((1, 2, 5), (2, 2, 3), line, ((0, 0),), "complex64"),
    ]


conv_general_dilated_p = register(
    Convolution("conv_general_dilated"), TestFacts(ulp=64, samples=_samples)
)

__all__ = ["ConvDimensionNumbers", "axis_into", "axis_out_of", "conv_general_dilated_p"]
