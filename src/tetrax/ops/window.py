"""Reductions of sliding windows (pooling), and what their derivatives need.

Of equal elements of a window a maximum selects the first, and that one gets the derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.lib.stride_tricks import sliding_window_view

import numpy as np
from tetrax import errors
from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_types import BOOL, F32
from tetrax.ir.layout import apart_from
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import View, element_type, is_complex
from tetrax.ops import axes as ax
from tetrax.ops.base import TestFacts, aligned_batch, dtype_kind, register
from tetrax.ops.bits_and_compare import ge_p, le_p
from tetrax.ops.identities import largest, smallest
from tetrax.ops.join import clamp_index, dilated, pad
from tetrax.ops.nests import combined, flat, load_scalar, store_scalar, vector_nest
from tetrax.ops.structure import broadcast_in_dim, full, move_axis, reshape
from tetrax.ops.window_scatter import emit_scatter, suits_lanes
from tetrax.ops.window_shapes import lhs_gradient_pads, windowed_shape
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.value import get_aval


def _check_windows(name: str, operand: ShapedArray, params: dict) -> tuple[int, ...]:
    """The result's shape. Raises ShapeError for windows that do not fit the operand."""
    ndim = operand.ndim
    for key in ("window_dimensions", "window_strides", "base_dilation", "window_dilation"):
        row = params[key]
        if len(row) != ndim or any(n < 1 for n in row):
            raise errors.ShapeError(
                f"{name} {key} must be one positive number per axis of the operand: got {row} for "
                f"shape {operand.shape}"
            )
    if len(params["padding"]) != ndim:
        raise errors.ShapeError(
            f"{name} padding must be one pair per axis of the operand: got {params['padding']} for "
            f"shape {operand.shape}"
        )
    return windowed_shape(operand.shape, *_geometry(params))


def _geometry(params: dict) -> tuple:
    ones = (1,) * len(params["window_dimensions"])
    return (
        params["window_dimensions"],
        params["window_strides"],
        params["padding"],
        params.get("base_dilation", ones),
        params.get("window_dilation", ones),
    )


def _windowed_axes(params: dict) -> list[int]:
    """The axes along which windows are more than the element itself."""
    plain = (1, 1, (0, 0), 1, 1)
    rows = zip(*_geometry(params), strict=True)
    return [
        axis
        for axis, (size, step, pads, *dilations) in enumerate(rows)
        if (size, step, tuple(pads), *dilations) != plain
    ]


def _with_batch_axis(params: dict) -> dict:
    """Parameters for one more axis in front, along which windows have size 1."""
    return {
        key: ((0, 0), *value)
        if key == "padding"
        else (1, *value)
        if key.startswith(("window", "base"))
        else value
        for key, value in params.items()
    }


def _source_index(
    index: Sequence[Any], offsets: Sequence[Any], shape: Sequence[int], params: dict
) -> tuple[tuple[Any, ...], Any]:
    """The operand's index under a place of a window, and whether the operand has it."""
    _, strides, padding, base, inner = _geometry(params)
    inside, rows = kernel.const(True, BOOL), []
    for i, w, extent, stride, (low, high), step, gap in zip(
        index, offsets, shape, strides, padding, base, inner, strict=True
    ):
        place = kernel.add(kernel.mul(i, stride), kernel.mul(w, gap))
        if (low, high, step) == (0, 0, 1):
            rows.append(place)
            continue
        place = kernel.sub(place, kernel.index(low))
        last = dilated(extent, step)
        found = kernel.bit_and(kernel.ge(place, 0), kernel.lt(place, kernel.index(last)))
        place = clamp_index(place, last)
        if step > 1:
            on_grid = kernel.eq(kernel.rem(place, kernel.index(step)), kernel.index(0))
            found = kernel.bit_and(found, on_grid)
            place = kernel.div(place, kernel.index(step))
        inside = kernel.bit_and(inside, found)
        rows.append(place)
    return tuple(rows), inside


def _window_variables(window: Sequence[int]) -> tuple[list[Any], list[tuple[Any, int]]]:
    """Offsets within a window (constant along axes of size 1), and the variables among them."""
    offsets = [
        kernel.index(0) if n == 1 else kernel.index_variable(f"w{i}", n)
        for i, n in enumerate(window)
    ]
    variables = [(w, n) for w, n in zip(offsets, window, strict=True) if n != 1]
    return offsets, variables


def numpy_windows(x: np.ndarray, fill: Any, params: dict) -> np.ndarray:
    """A view of the padded operand with window axes behind the result's axes."""
    window, strides, padding, base, inner = _geometry(params)
    shape = windowed_shape(x.shape, window, strides, padding, base, inner)
    if 0 in shape:
        return np.zeros((*shape, *window), x.dtype)
    config = tuple((low, high, step - 1) for (low, high), step in zip(padding, base, strict=True))
    padded = np.asarray(pad(x, full((), fill, x.dtype), config))
    spans = tuple(dilated(n, gap) for n, gap in zip(window, inner, strict=True))
    views = sliding_window_view(padded, spans)
    starts = tuple(slice(None, None, stride) for stride in strides)
    return views[(*starts, *(slice(None, None, gap) for gap in inner))]


class ReduceWindow(Primitive):
    """Combines the elements of each window with an associative operation."""

    cost = 2
    folds = True

    def __init__(
        self,
        name: str,
        accepts: str,
        combine: Callable[..., scalar.Scalar],
        identity: Callable[[Any], Any],
        numpy: Any,
        mnemonic: str,
        facts: TestFacts,
    ) -> None:
        super().__init__(name)
        self.accepts, self.combine, self.identity = accepts, combine, identity
        self.numpy, self.mnemonic = numpy, mnemonic
        register(self, facts)

    def shape(self, operand, **params):
        if dtype_kind(operand.dtype) not in self.accepts:
            raise errors.ShapeError(
                f"{self.name} does not accept dtype {operand.dtype.name}; convert it first"
            )
        shape = _check_windows(self.name, operand, params)
        return ShapedArray(shape, operand.dtype, operand.weak_type)

    def factors(self, avals, outs, params):
        return apart_from(avals, outs, _windowed_axes(params))

    def reference(self, x, **params):
        wide = x.astype(np.float32) if element_type(x.dtype).is_storage else x
        views = numpy_windows(wide, self.identity(x.dtype), params)
        out = self.numpy.reduce(views, axis=tuple(range(x.ndim, 2 * x.ndim)))
        return np.asarray(out).astype(x.dtype, copy=False)

    def batch(self, operands, dims, **params):
        x = move_axis(operands[0], dims[0], 0)
        return self.bind(x, **_with_batch_axis(params)), 0

    def rereads(self, avals, params):
        return ax.product(params["window_dimensions"]) > 1

    def kernel(self, operands, outs, **params):
        (x,), (out,) = operands, outs
        kind = element_type(out.dtype)
        wide, to_complex = F32 if kind.is_storage else kind, is_complex(out.dtype)
        start = scalar.convert(kernel.const(self.identity(out.dtype), wide), wide, to_complex)

        def at(index):
            offsets, variables = _window_variables(params["window_dimensions"])
            place, inside = _source_index(index, offsets, x.shape, params)
            value = scalar.convert(x.at(place), wide, to_complex)
            value = scalar.select(inside, value, start)
            if variables:
                value = scalar.fold(variables, [start], lambda acc: [self.combine(acc[0], value)])[
                    0
                ]
            return scalar.convert(value, kind, to_complex)

        if 0 in x.shape:
            return View(out.shape, out.dtype, lambda i: scalar.convert(start, kind, to_complex))
        return View(out.shape, out.dtype, at)

    def stablehlo(self, context, operands, outs, **params):
        return context.reduce_window(self.mnemonic, operands, outs, self.identity, **params)


class ReduceWindowSum(ReduceWindow):
    """Linear; the transpose sums windows of the spread-out cotangent."""

    def jvp(self, primals, tangents, **params):
        out = self.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return out, Zero.from_primal_value(out)
        return out, self.bind(tangents[0], **params)

    def transpose(self, ct, x, **params):
        if type(ct) is Zero:
            return [Zero(x.aval)]
        window, strides, padding, base, inner = _geometry(params)
        aval = get_aval(ct)
        if window == strides and all(n == 1 for n in (*base, *inner)):
            return [_spread_over_windows(ct, x.aval.shape, window, padding)]
        pads = lhs_gradient_pads(x.aval.shape, window, strides, aval.shape, padding, base, inner)
        config = [(low, high, step - 1) for (low, high), step in zip(pads, strides, strict=True)]
        spread = pad(ct, full((), 0, aval.dtype), config)
        ones = (1,) * len(window)
        out = self.bind(
            spread,
            window_dimensions=window,
            window_strides=base,
            padding=((0, 0),) * len(window),
            base_dilation=ones,
            window_dilation=inner,
        )
        return [out]


def _spread_over_windows(ct: Any, shape: Sequence[int], window: Sequence[int], padding: Any) -> Any:
    """Each element of `ct` at all places of its window, where windows lie side by side."""
    aval = get_aval(ct)
    wide = [n for pair in zip(aval.shape, window, strict=True) for n in pair]
    repeated = broadcast_in_dim(ct, wide, range(0, 2 * aval.ndim, 2))
    repeated = reshape(repeated, [n * w for n, w in zip(aval.shape, window, strict=True)])
    config = [
        (-low, extent + low - n * w, 0)
        for extent, n, w, (low, _) in zip(shape, aval.shape, window, padding, strict=True)
    ]
    return pad(repeated, full((), 0, aval.dtype), config)


class ReduceWindowExtremum(ReduceWindow):
    def jvp(self, primals, tangents, **params):
        out = self.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return out, Zero.from_primal_value(out)
        select_prim = ge_p if self.name == "reduce_window_max" else le_p
        moved = select_and_gather_add_p.bind(
            tangents[0], primals[0], select_prim=select_prim, **params
        )
        return out, moved


def _selection(select_prim: Primitive, dtype: Any) -> tuple[Callable, Any]:
    """Whether a new element takes the place of the best so far, and what to start from."""
    upwards = select_prim is ge_p
    keeps = kernel.ge if upwards else kernel.le
    start = smallest(dtype) if upwards else largest(dtype)
    return (lambda best, new: kernel.logical_not(keeps(best, new))), start


def _selected(x: View, index: Sequence[Any], params: dict, carried: Callable) -> list[Any]:
    """Fold over a window: what `carried(place)` is at the selected element, 0 without any."""
    kind = x.scalar
    wide = F32 if kind.is_storage else kind
    takes, start = _selection(params["select_prim"], x.dtype)
    offsets, variables = _window_variables(params["window_dimensions"])
    place, inside = _source_index(index, offsets, x.shape, params)
    value = kernel.convert(x.at(place), wide)
    payload = carried(place)

    def step(state: Sequence[Any]) -> list[Any]:
        # Before any element is found everything in the operand is better.
        found, best, kept = state
        better = kernel.bit_or(kernel.logical_not(found), takes(best, value))
        chosen = kernel.bit_and(inside, better)
        return [
            kernel.bit_or(found, inside),
            kernel.select(chosen, value, best),
            scalar.select(chosen, payload, kept),
        ]

    state = [kernel.const(False, BOOL), kernel.const(start, wide), scalar.constant(0, payload)]
    return scalar.fold(variables, state, step) if variables else step(state)


class SelectAndGatherAdd(Primitive):
    """The tangent of the selected element of each window; linear in the tangents."""

    cost = 2
    folds = True
    compile_eagerly = True

    def shape(self, tangents, operand, *, select_prim, **params):
        shape = _check_windows("select_and_gather_add", operand, params)
        if tangents.shape != operand.shape:
            raise errors.ShapeError(
                "select_and_gather_add needs tangents and operand of one shape: got "
                f"{tangents.shape} and {operand.shape}"
            )
        return ShapedArray(shape, tangents.dtype, tangents.weak_type)

    def factors(self, avals, outs, params):
        return apart_from(avals, outs, _windowed_axes(params))

    def jvp(self, primals, tangents, **params):
        out = self.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return out, Zero.from_primal_value(out)
        return out, self.bind(tangents[0], primals[1], **params)

    def transpose(self, ct, tangents, operand, *, select_prim, **params):
        if type(ct) is Zero:
            return [Zero(tangents.aval), None]
        for key in ("base_dilation", "window_dilation"):
            if all(n == 1 for n in params[key]):
                del params[key]
        return [select_and_scatter_add_p.bind(ct, operand, select_prim=select_prim, **params), None]

    def batch(self, operands, dims, *, select_prim, **params):
        moved, _ = aligned_batch(operands, dims)
        return self.bind(*moved, select_prim=select_prim, **_with_batch_axis(params)), 0

    def rereads(self, avals, params):
        return True

    def kernel(self, operands, outs, **params):
        tangents, x = operands
        (out,) = outs
        if 0 in x.shape:
            zero = scalar.constant(0, kernel.const(0, element_type(out.dtype)))
            return View(out.shape, out.dtype, lambda index: zero)
        return View(out.shape, out.dtype, lambda index: _selected(x, index, params, tangents.at)[2])

    def stablehlo(self, context, operands, outs, **params):
        return context.select_and_gather_add(operands, outs, **params)


class SelectAndScatterAdd(Primitive):
    """Adds each element of `source` to the element that its window of `operand` selects.

    Dilations are parameters only where there are any.
    """

    compile_eagerly = True

    def shape(self, source, operand, *, select_prim, **params):
        ones = (1,) * operand.ndim
        full_params = {"base_dilation": ones, "window_dilation": ones, **params}
        shape = _check_windows("select_and_scatter_add", operand, full_params)
        if source.shape != shape:
            raise errors.ShapeError(
                f"select_and_scatter_add source must have one element per window: got "
                f"{source.shape} for windows {shape}"
            )
        return ShapedArray(operand.shape, source.dtype, source.weak_type)

    def factors(self, avals, outs, params):
        return apart_from(avals, outs, _windowed_axes(params))

    def jvp(self, primals, tangents, **params):
        out = self.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return out, Zero.from_primal_value(out)
        return out, self.bind(tangents[0], primals[1], **params)

    def transpose(self, ct, source, operand, **params):
        if type(ct) is Zero:
            return [Zero(source.aval), None]
        ones = (1,) * get_aval(operand).ndim
        params = {"base_dilation": ones, "window_dilation": ones, **params}
        return [select_and_gather_add_p.bind(ct, operand, **params), None]

    def batch(self, operands, dims, *, select_prim, **params):
        moved, _ = aligned_batch(operands, dims)
        return self.bind(*moved, select_prim=select_prim, **_with_batch_axis(params)), 0

    def emit(self, builder, operands, outs, **params):
        source, x = operands
        (out,) = outs
        if 0 in out.shape:
            return
        if suits_lanes(source, params):
            emit_scatter(
                builder, source, x, out, params, _selection(params["select_prim"], x.dtype)
            )
            return
        strides = ax.row_major_strides(x.shape)
        view = View(x.shape, x.dtype, lambda index: load_scalar(builder, x, flat(index, strides)))
        zero = kernel.const(0, element_type(out.dtype))
        with vector_nest(builder, (ax.product(out.shape),)) as (i,):
            store_scalar(builder, out, i, zero)
        with builder.nest(source.shape) as index:
            # The fold carries the flat position of the selected element.
            found, _, position = _selected(view, index, params, lambda place: flat(place, strides))
            given = load_scalar(builder, source, flat(index, ax.row_major_strides(source.shape)))
            with builder.when(found):
                so_far = load_scalar(builder, out, position)
                store_scalar(builder, out, position, combined(scalar.add, so_far, given))

    def stablehlo(self, context, operands, outs, **params):
        return context.select_and_scatter_add(operands, outs, **params)


def _params(window, strides=None, padding=None, base=None, inner=None) -> dict:
    ones = (1,) * len(window)
    return {
        "window_dimensions": window,
        "window_strides": strides or ones,
        "padding": padding or ((0, 0),) * len(window),
        "base_dilation": base or ones,
        "window_dilation": inner or ones,
    }


_GEOMETRIES = [
    ((7,), _params((3,))),
    ((5, 6), _params((2, 3), (2, 1), ((1, 0), (0, 2)))),
    ((9,), _params((3,), (2,), ((2, 3),), (2,), (2,))),
]


def _samples(*names: str) -> Any:
    def samples() -> list[tuple[list[ShapedArray], dict]]:
        return [
            ([ShapedArray(shape, np.dtype(name))], params)
            for name in names
            for shape, params in _GEOMETRIES
        ]

    return samples


def _gather_samples() -> list[tuple[list[ShapedArray], dict]]:
    rows = _samples("float32")()[:2]
    return [([*avals, *avals], {"select_prim": ge_p, **params}) for avals, params in rows]


def _scatter_samples() -> list[tuple[list[ShapedArray], dict]]:
    samples = []
    for avals, params in _gather_samples():
        shape = windowed_shape(avals[0].shape, *_geometry(params))
        kept = {k: v for k, v in params.items() if "dilation" not in k}
        samples.append(([ShapedArray(shape, avals[0].dtype), avals[0]], kept))
    return samples


reduce_window_sum_p = ReduceWindowSum(
    "reduce_window_sum",
    "iufc",
    scalar.add,
    lambda dtype: 0,
    np.add,
    "add",
    TestFacts(ulp=16, samples=_samples("float32", "int32", "complex64")),
)
reduce_window_max_p = ReduceWindowExtremum(
    "reduce_window_max",
    "biuf",
    kernel.maximum,
    smallest,
    np.maximum,
    "maximum",
    TestFacts(ulp=0, samples=_samples("float32", "int32")),
)
reduce_window_min_p = ReduceWindowExtremum(
    "reduce_window_min",
    "biuf",
    kernel.minimum,
    largest,
    np.minimum,
    "minimum",
    TestFacts(ulp=0, samples=_samples("float32", "int32")),
)
select_and_gather_add_p = register(
    SelectAndGatherAdd("select_and_gather_add"), TestFacts(ulp=4, samples=_gather_samples)
)
select_and_scatter_add_p = register(
    SelectAndScatterAdd("select_and_scatter_add"),
    TestFacts(
        ulp=4,
        samples=_scatter_samples,
        excluded=(("jax", "its primitive wants the comparison as a program of its own"),),
    ),
)
