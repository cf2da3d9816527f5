"""Scatters: windows of an operand replaced by or combined with updates, at run-time indices.

Updates are applied in row-major order, so duplicate indices have a defined outcome: the last one
wins, and sums are formed in order (large ones in shares, see `scatter_emit.py`). A scatter and the
gather of the same dimension numbers are each other's transposes; both rules stand here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.ir import kernel, scalar
from tetrax.ir.layout import FactorsBuilder
from tetrax.ir.types import ShapedArray
from tetrax.ops import axes as ax
from tetrax.ops import index_maps
from tetrax.ops.arithmetic import add, div, mul, neg
from tetrax.ops.base import TestFacts, batch_size, register
from tetrax.ops.bits_and_compare import eq
from tetrax.ops.creation import full_like, iota
from tetrax.ops.gather import gather, gather_p, gather_samples
from tetrax.ops.index_maps import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    as_gather,
    as_scatter,
)
from tetrax.ops.index_parts import Pointers
from tetrax.ops.join import check_equal_dtypes
from tetrax.ops.nests import Combine
from tetrax.ops.scatter_emit import ScatterWriter, index_map
from tetrax.ops.select import select
from tetrax.ops.structure import batch_at, broadcast_in_dim, full, instantiate, reshape, zeros
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.symbolic import Zero, aval_of, is_undefined
from tetrax.tracing.value import get_aval

CLIP = GatherScatterMode.CLIP
FILL = GatherScatterMode.FILL_OR_DROP


class Scatter(Primitive):
    """The operand with updates combined into it; subclasses say how and have derivatives."""

    updates = 0
    # Whether updates may be added up in any order.
    is_sum = False
    # How devices put together what each made of its own updates; whole updates are needed if "".
    across = ""

    def __init__(self, name: str, combine: Combine | None, numpy: Any, mnemonic: str) -> None:
        super().__init__(name)
        self.combine = combine
        self.numpy = numpy
        self.mnemonic = mnemonic

    def shape(self, operand, indices, updates, *, dimension_numbers, **params):
        check_equal_dtypes(self.name, (operand, updates))
        dims = as_gather(dimension_numbers)
        if len(dims.offset_dims) + indices.ndim - 1 != updates.ndim:
            raise errors.ShapeError(
                f"{self.name}: updates need one axis per window dimension and per axis of the "
                f"indices but the last: got updates shape {updates.shape}, indices shape "
                f"{indices.shape}, {dimension_numbers}"
            )
        if any(not 0 <= axis < updates.ndim for axis in dims.offset_dims):
            raise errors.ShapeError(
                f"{self.name}: update_window_dims {dims.offset_dims} are out of bounds for updates "
                f"of shape {updates.shape}"
            )
        sizes = index_maps.window_sizes(dims, operand.ndim, updates.shape)
        index_maps.check(self.name, operand, indices, dims, sizes)
        expected = index_maps.result_shape(indices.shape, dims, sizes)
        if expected != updates.shape:
            raise errors.ShapeError(
                f"{self.name}: updates must have shape {expected} for indices of shape "
                f"{indices.shape} and window {sizes}; got {updates.shape}"
            )
        return ShapedArray(operand.shape, operand.dtype, operand.weak_type)

    def factors(self, avals, outs, params):
        operand, indices, updates = avals
        build = FactorsBuilder()
        dims = as_gather(params["dimension_numbers"])
        sizes = index_maps.window_sizes(dims, operand.ndim, updates.shape)
        across, located = self.across, "" if indices.dtype == np.int32 else None
        axes = index_maps.factors(build, operand.shape, indices.shape, dims, sizes, across, located)
        found = build.build(axes, axes[:1], added=(0,) if across == "sum" else ())
        return replace(found, aligned=True)

    def positioned(self, operands, outs, place, params):
        # What points out of the part is dropped.
        x, indices, updates = operands
        dims = as_gather(params["dimension_numbers"])
        pointers = Pointers(indices, get_aval(x), place, dims)
        if params["mode"] is CLIP:
            shape = get_aval(updates).shape
            pointers.inside(index_maps.window_sizes(dims, get_aval(x).ndim, shape))
        changed = {**params, "mode": GatherScatterMode.FILL_OR_DROP}
        return [self.bind(x, pointers.local, updates, **changed)]

    def reference(self, x, indices, updates, *, dimension_numbers, mode, **params):
        out = np.array(x)
        if updates.size == 0 or x.size == 0:
            return out
        where = index_map(x.shape, updates.shape, dimension_numbers)
        rows, inside = where.numpy(indices)
        if mode is not CLIP and not inside.all():
            chosen = np.broadcast_to(inside, updates.shape)
            rows = [np.broadcast_to(row, updates.shape)[chosen] for row in rows]
            updates = updates[chosen]
        if self.numpy is None:
            out[tuple(rows)] = updates
        else:
            self.numpy.at(out, tuple(rows), updates)
        return out

    def batch(self, operands, dims, *, dimension_numbers, **params):
        size = batch_size(operands, dims)
        operand, updates = (batch_at(operands[i], dims[i], size) for i in (0, 2))
        indices = operands[1]
        window, inserted, mapped, batching, along = as_gather(dimension_numbers)
        window, inserted, mapped, batching = (
            tuple(axis + 1 for axis in row) for row in (window, inserted, mapped, batching)
        )
        if dims[1] is None:
            window = (0, *window)
        else:
            indices = batch_at(indices, dims[1], size)
            batching, along = (0, *batching), (0, *(axis + 1 for axis in along))
        new = ScatterDimensionNumbers(window, inserted, mapped, batching, along)
        return self.bind(operand, indices, updates, dimension_numbers=new, **params), 0

    def emit(self, builder, operands, outs, *, dimension_numbers, mode, **params):
        _, indices, updates = operands
        (out,) = outs
        if 0 in updates.shape or 0 in out.shape:
            return
        where = index_map(out.shape, updates.shape, dimension_numbers)
        from_end = params.get("counts_from_end", False)
        writer = ScatterWriter(builder, self.combine, where, mode, self.is_sum, from_end)
        writer.write(indices, updates, out)

    def stablehlo(self, context, operands, outs, **params):
        return context.scatter(self.mnemonic, operands, outs, **params)


# -- derivatives ---------------------------------------------------------------------------------


def _read_back(
    x: Any, indices: Any, updates_shape: Sequence[int], params: dict, mode: Any = None
) -> Any:
    """What `x` holds where a scatter writes, shaped like the updates; 0 where it does not."""
    dims = as_gather(params["dimension_numbers"])
    sizes = index_maps.window_sizes(dims, get_aval(x).ndim, updates_shape)
    return gather(x, indices, dims, sizes, mode=mode or params["mode"], fill_value=0)


class ScatterSum(Scatter):
    """Adds or subtracts updates: linear in operand and updates together."""

    is_sum = True
    across = "sum"

    def jvp(self, primals, tangents, **params):
        operand, indices, updates = primals
        out = self.bind(operand, indices, updates, **params)
        if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
            return out, Zero.from_primal_value(out)
        t_operand, t_updates = instantiate(tangents[0]), instantiate(tangents[2])
        return out, self.bind(t_operand, indices, t_updates, **params)

    def transpose(self, ct, operand, indices, updates, **params):
        if type(ct) is Zero:
            zero = [Zero(x.aval) if is_undefined(x) else None for x in (operand, updates)]
            return [zero[0], None, zero[1]]
        updates_ct = None
        if is_undefined(updates):
            updates_ct = _read_back(ct, indices, updates.aval.shape, params)
            if self.name == "scatter-sub":
                updates_ct = neg(updates_ct)
        return [ct if is_undefined(operand) else None, None, updates_ct]


class ScatterReplace(Scatter):
    """Overwrites with updates; the last update of an element is the one that counts."""

    def jvp(self, primals, tangents, **params):
        operand, indices, updates = primals
        out = self.bind(operand, indices, updates, **params)
        if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
            return out, Zero.from_primal_value(out)
        t_operand, t_updates = instantiate(tangents[0]), instantiate(tangents[2])
        return out, self.bind(t_operand, indices, t_updates, **params)

    def transpose(self, ct, operand, indices, updates, **params):
        if type(ct) is Zero:
            zero = [Zero(x.aval) if is_undefined(x) else None for x in (operand, updates)]
            return [zero[0], None, zero[1]]
        shape = aval_of(updates).shape
        operand_ct = updates_ct = None
        if is_undefined(operand):
            nothing = zeros(ShapedArray(shape, get_aval(ct).dtype))
            operand_ct = self.bind(ct, indices, nothing, **params)
        if is_undefined(updates):
            updates_ct = _read_back(ct, indices, shape, params)
            if not params["unique_indices"]:
                counts = self._counts(ct, indices, shape, params)
                updates_ct = select(counts, updates_ct, full_like(updates_ct, 0))
        return [operand_ct, None, updates_ct]

    def _counts(self, ct: Any, indices: Any, shape: Sequence[int], params: dict) -> Any:
        """Which updates were not overwritten by later ones: number them, write, and read back."""
        window = params["dimension_numbers"].update_window_dims
        rows = tuple(1 if axis in window else n for axis, n in enumerate(shape))
        numbers = add(iota("int32", ax.product(rows)), 1)
        numbers = broadcast_in_dim(reshape(numbers, rows), shape, range(len(shape)))
        empty = full(get_aval(ct).shape, 0, np.int32)
        written = self.bind(empty, indices, numbers, **params)
        return eq(_read_back(written, indices, shape, params), numbers)


class ScatterProduct(Scatter):
    """Multiplies by updates. Derivatives to the updates need unique indices."""

    def jvp(self, primals, tangents, **params):
        operand, indices, updates = primals
        t_operand, _, t_updates = tangents
        out = self.bind(operand, indices, updates, **params)
        terms = []
        if type(t_operand) is not Zero:
            terms.append(self.bind(t_operand, indices, updates, **params))
        if type(t_updates) is not Zero:
            _need_unique(params)
            spread = scatter_add_p.bind(full_like(operand, 0), indices, t_updates, **params)
            terms.append(mul(operand, spread))
        if not terms:
            return out, Zero.from_primal_value(out)
        return out, terms[0] if len(terms) == 1 else add(*terms)

    def transpose(self, ct, operand, indices, updates, **params):
        if type(ct) is Zero:
            zero = [Zero(x.aval) if is_undefined(x) else None for x in (operand, updates)]
            return [zero[0], None, zero[1]]
        if is_undefined(operand):
            return [self.bind(ct, indices, updates, **params), None, None]
        _need_unique(params)
        shape = updates.aval.shape
        return [None, None, _read_back(mul(ct, operand), indices, shape, params)]


def _need_unique(params: dict) -> None:
    if not params["unique_indices"]:
        raise NotImplementedError(
            "scatter_mul gradients with respect to the updates are only implemented if "
            "unique_indices=True: pass it if no element is updated twice"
        )


class ScatterExtremum(Scatter):
    """Takes the larger (smaller) of operand and updates; those that tie share the derivative."""

    @property
    def across(self) -> str:
        return self.name.removeprefix("scatter-")

    def jvp(self, primals, tangents, **params):
        operand, indices, updates = primals
        out = self.bind(operand, indices, updates, **params)
        if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
            return out, Zero.from_primal_value(out)
        t_operand, t_updates = instantiate(tangents[0]), instantiate(tangents[2])
        zero, one = full_like(operand, 0), full_like(operand, 1)
        # Where an update equals the outcome it took part in it; so did the operand.
        reached = _read_back(out, indices, get_aval(updates).shape, params)
        took_part = select(eq(updates, reached), full_like(updates, 1), full_like(updates, 0))
        kept = select(eq(operand, out), one, zero)
        shares = scatter_add_p.bind(kept, indices, took_part, **params)
        moved = mul(t_updates, took_part)
        total = scatter_add_p.bind(mul(t_operand, kept), indices, moved, **params)
        return out, div(total, shares)

    def transpose(self, ct, operand, indices, updates, **params):
        raise self.missing("transpose")


def _gather_transpose(
    ct: Any, operand: Any, indices: Any, *, dimension_numbers: GatherDimensionNumbers, **params: Any
) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(operand.aval), None]
    empty = zeros(ShapedArray(operand.aval.shape, get_aval(ct).dtype))
    out = scatter_add_p.bind(
        empty,
        indices,
        ct,
        update_jaxpr=None,
        update_consts=(),
        dimension_numbers=as_scatter(dimension_numbers),
        indices_are_sorted=params["indices_are_sorted"],
        unique_indices=params["unique_indices"],
        mode=params["mode"],
    )
    return [out, None]


gather_p.transpose = _gather_transpose  # type: ignore[method-assign]


def _scatter_samples() -> list[tuple[list[ShapedArray], dict]]:
    samples = []
    for avals, params in gather_samples():
        operand, indices = avals
        dims, sizes = params["dimension_numbers"], params["slice_sizes"]
        shape = index_maps.result_shape(indices.shape, dims, sizes)
        chosen = {
            "dimension_numbers": as_scatter(dims),
            "update_jaxpr": None,
            "update_consts": (),
            "indices_are_sorted": False,
            "unique_indices": False,
            "mode": params["mode"],
        }
        samples.append(([operand, indices, ShapedArray(shape, operand.dtype)], chosen))
    return samples


def _real_samples() -> list[tuple[list[ShapedArray], dict]]:
    return [row for row in _scatter_samples() if row[0][0].dtype.kind != "c"]


_FACTS = TestFacts(samples=_scatter_samples)
_NOT_LINEAR = (("transpose", "not linear"),)
_REAL_FACTS = TestFacts(samples=_real_samples, excluded=_NOT_LINEAR)

scatter_p = register(ScatterReplace("scatter", None, None, "replace"), _FACTS)
scatter_add_p = register(ScatterSum("scatter-add", scalar.add, np.add, "add"), _FACTS)
scatter_sub_p = register(ScatterSum("scatter-sub", scalar.sub, np.subtract, "subtract"), _FACTS)
scatter_mul_p = register(
    ScatterProduct("scatter-mul", scalar.mul, np.multiply, "multiply"),
    TestFacts(
        samples=_scatter_samples,
        excluded=(("unsupported", "scatter_mul gradients with respect to the updates"),),
    ),
)
scatter_min_p = register(
    ScatterExtremum("scatter-min", kernel.minimum, np.minimum, "minimum"), _REAL_FACTS
)
scatter_max_p = register(
    ScatterExtremum("scatter-max", kernel.maximum, np.maximum, "maximum"), _REAL_FACTS
)

__all__ = [
    "Scatter",
    "ScatterDimensionNumbers",
    "scatter_add_p",
    "scatter_max_p",
    "scatter_min_p",
    "scatter_mul_p",
    "scatter_p",
    "scatter_sub_p",
]
