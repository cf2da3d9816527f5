"""The loop nests of depthwise convolutions: every feature has an image and a window of its own.

Places of the window are written out. Lanes run over the features where these are neighbours,
several places of the result at a time; otherwise over neighbouring places. Only near edges is it
asked what lies outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from tetrax.ir import kernel
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_types import ScalarType
from tetrax.ir.views import Stored, element_type
from tetrax.ops import axes as ax
from tetrax.ops.convolution_emit import Geometry
from tetrax.ops.convolution_phases import Phase, axis_phases, phases_of
from tetrax.ops.join import clamp_index
from tetrax.ops.nests import flat, vector_nest

MOST_TAPS = 49
"""Places of a window that are written out at most."""
MANY_TAPS = 25
"""With more of them, fewer places of the result are computed at a time."""


def suits_depthwise(geometry: Geometry) -> bool:
    """Whether each feature of the result comes from one feature of the operand."""
    g = geometry
    window = ax.product([g.rhs_shape[axis] for axis in g.specs.rhs_spec[2:]])
    return (
        bool(g.strides)
        and g.groups > 1
        and g.features == 1
        and g.rhs_shape[g.specs.rhs_spec[1]] == 1
        and 0 < window <= MOST_TAPS
    )


def emit_depthwise(
    builder: KernelBuilder,
    geometry: Geometry,
    lhs: Stored,
    rhs: Stored,
    out: Stored,
    compute: ScalarType,
) -> None:
    """Store the convolution of `lhs` and `rhs`, computed in f32 or f64."""
    if 0 in out.shape:
        return
    _Depthwise(builder, geometry, lhs, rhs, out, compute).run()


class _Depthwise:
    def __init__(
        self,
        builder: KernelBuilder,
        geometry: Geometry,
        lhs: Stored,
        rhs: Stored,
        out: Stored,
        compute: ScalarType,
    ) -> None:
        self.builder, self.compute = builder, compute
        self.lhs, self.rhs, self.out = lhs, rhs, out
        specs = geometry.specs
        self.lhs_image, self.lhs_feature, *self.lhs_steps = ax.strides_in_order(
            lhs.shape, specs.lhs_spec
        )
        self.rhs_feature, _, *self.rhs_steps = ax.strides_in_order(rhs.shape, specs.rhs_spec)
        self.out_image, self.out_feature, *self.out_steps = ax.strides_in_order(
            out.shape, specs.out_spec
        )
        self.images = out.shape[specs.out_spec[0]]
        self.features = out.shape[specs.out_spec[1]]
        self.sizes = [lhs.shape[axis] for axis in specs.lhs_spec[2:]]
        rows = [
            axis_phases(
                out.shape[specs.out_spec[2 + i]],
                rhs.shape[specs.rhs_spec[2 + i]],
                geometry.strides[i],
                geometry.padding[i][0],
                geometry.lhs_dilation[i],
                geometry.rhs_dilation[i],
            )
            for i in geometry.spatial
        ]
        self.phases, self.empty = phases_of(rows)
        self.along_features = self.lhs_feature == 1 and self.out_feature == 1

    def run(self) -> None:
        for phase in self.empty:
            self.clear(phase)
        if self.along_features:
            self.weights = self.neighbouring_weights()
        for phase in self.phases:
            if self.along_features:
                self.in_feature_lanes(phase)
            else:
                self.in_place_lanes(phase)

    def clear(self, phase: Phase) -> None:
        """Zeros where no window meets an element."""
        extents = [self.images, *(axis.count for axis in phase), self.features]
        with vector_nest(self.builder, extents) as (image, *places, feature):
            zero = kernel.const(0, element_type(self.out.dtype))
            self.builder.store(self.out.buffer, self.target(phase, image, places, feature), zero)

    def target(self, phase: Phase, image: Any, places: Sequence[Any], feature: Any) -> Any:
        first = sum(axis.first * step for axis, step in zip(phase, self.out_steps, strict=True))
        steps = [axis.step * step for axis, step in zip(phase, self.out_steps, strict=True)]
        offset = flat([image, *places, feature], [self.out_image, *steps, self.out_feature])
        return kernel.add(offset, first)

    # --- values ---

    def neighbouring_weights(self) -> Stored:
        """The weights with features as the last axis, in the type computed in."""
        if self.rhs_feature == 1 and element_type(self.rhs.dtype) is self.compute:
            return self.rhs
        size = ax.product(self.rhs.shape)
        made = Stored(self.builder.temporary(self.compute, size), (size,), self.rhs.dtype)
        taps = size // self.features
        # by places in the order of memory, apart from the features
        inner = self.rhs_feature
        row = inner * self.features
        with vector_nest(self.builder, (taps // inner, inner, self.features)) as index:
            outer, place, feature = index
            source = flat((outer, feature, place), (row, inner, 1))
            value = kernel.convert(self.builder.load(self.rhs.buffer, source), self.compute)
            self.builder.store(made.buffer, flat(index, (row, self.features, 1)), value)
        self.rhs_steps = [step * self.features if step < inner else step for step in self.rhs_steps]
        self.rhs_feature = 1
        return made

    def taps(self, phase: Phase) -> list[tuple[int, ...]]:
        return list(product(*(range(axis.window_count) for axis in phase)))

    def weight(self, phase: Phase, tap: Sequence[int], feature: Any) -> Expr:
        weights = self.weights if self.along_features else self.rhs
        places = [axis.window_first + axis.window_step * w
                  for axis, w in zip(phase, tap, strict=True)]  # fmt: skip
        start = sum(place * step for place, step in zip(places, self.rhs_steps, strict=True))
        offset = kernel.add(kernel.mul(feature, self.rhs_feature), kernel.index(start))
        return kernel.convert(self.builder.load(weights.buffer, offset), self.compute)

    def element(
        self, phase: Phase, image: Any, places: Sequence[Any], feature: Any, tap: Sequence[int],
        masked: bool,
    ) -> Expr:  # fmt: skip
        """The operand's element under a place of the window, zero outside if `masked`."""
        position, inside = [], None
        for axis, place, w, size in zip(phase, places, tap, self.sizes, strict=True):
            at = kernel.add(kernel.mul(place, axis.move), kernel.index(axis.begin + axis.gap * w))
            if masked and not (axis.begin >= 0 and axis.last < size):
                found = kernel.bit_and(
                    kernel.ge(at, kernel.index(0)), kernel.lt(at, kernel.index(size))
                )
                inside = found if inside is None else kernel.bit_and(inside, found)
                at = clamp_index(at, size)
            position.append(at)
        steps = [self.lhs_image, *self.lhs_steps, self.lhs_feature]
        value = self.builder.load(self.lhs.buffer, flat([image, *position, feature], steps))
        value = kernel.convert(value, self.compute)
        return (
            value if inside is None else kernel.select(inside, value, kernel.const(0, self.compute))
        )

    def total(
        self, phase: Phase, image: Any, places: Sequence[Any], feature: Any, masked: bool
    ) -> Expr:
        """One element of the result."""
        total: Expr | None = None
        for tap in self.taps(phase):
            x = self.element(phase, image, places, feature, tap, masked)
            w = self.weight(phase, tap, feature)
            total = kernel.mul(x, w) if total is None else kernel.add(total, kernel.mul(x, w))
        assert total is not None
        return kernel.convert(total, element_type(self.out.dtype))

    def contained(self, phase: Phase, axis: int, first: Any, last: Any) -> Expr | None:
        """Whether windows from one place of the result to another are inside; None for always."""
        row, size = phase[axis], self.sizes[axis]
        if row.begin >= 0 and row.last < size:
            return None
        low = kernel.add(kernel.mul(first, row.move), kernel.index(row.begin))
        reach = row.begin + row.gap * (row.window_count - 1)
        high = kernel.add(kernel.mul(last, row.move), kernel.index(reach))
        return kernel.bit_and(kernel.ge(low, kernel.index(0)), kernel.lt(high, kernel.index(size)))

    # --- loops ---

    def in_feature_lanes(self, phase: Phase) -> None:
        """Some neighbouring places at a time, each for all features."""
        builder = self.builder
        *outer, last = phase
        several = 4 if len(self.taps(phase)) <= MANY_TAPS else 2
        several = min(several, last.count)
        extents = [self.images, *(axis.count for axis in outer)]
        turns = -(-last.count // several)
        with builder.nest(extents, "parallel") as (image, *rows), builder.loop(turns) as turn:
            start = kernel.minimum(kernel.mul(turn, several), kernel.index(last.count - several))
            ends = kernel.add(start, several - 1)
            tests = [self.contained(phase, axis, row, row) for axis, row in enumerate(rows)]
            tests.append(self.contained(phase, len(rows), start, ends))
            places = [[*rows, kernel.add(start, i)] for i in range(several)]
            self.guarded(tests, lambda masked: self.row(phase, image, places, masked))

    def row(self, phase: Phase, image: Any, places: Sequence[Sequence[Any]], masked: bool) -> None:
        with self.builder.loop(self.features, "vector") as feature:
            for place in places:
                value = self.total(phase, image, place, feature, masked)
                target = self.target(phase, image, place, feature)
                self.builder.store(self.out.buffer, target, value)

    def guarded(self, tests: Sequence[Expr | None], write: Any) -> None:
        """`write(False)` where all tests hold, else `write(True)`."""
        some = [test for test in tests if test is not None]
        if not some:
            write(False)
            return
        inside = some[0]
        for test in some[1:]:
            inside = kernel.bit_and(inside, test)
        with self.builder.when(inside):
            write(False)
        with self.builder.otherwise():
            write(True)

    def in_place_lanes(self, phase: Phase) -> None:
        """Rows of places, one feature after the other."""
        builder = self.builder
        *outer, last = phase
        low, high = _inner_range(last, self.sizes[-1])
        extents = [axis.count for axis in outer]
        # cut as the operand lies in memory, so that most tasks find it in their processor's cache
        everything = self.images * self.features
        with builder.loop(everything, "parallel") as both, builder.nest(extents) as rows:
            image = kernel.div(both, kernel.index(self.features))
            feature = kernel.rem(both, kernel.index(self.features))

            def run(first: int, stop: int, masked: bool) -> None:
                if stop <= first:
                    return
                with builder.loop(stop - first, "vector") as i:
                    place = [*rows, kernel.add(i, first)]
                    value = self.total(phase, image, place, feature, masked)
                    target = self.target(phase, image, place, feature)
                    builder.store(self.out.buffer, target, value)

            run(0, low, True)
            tests = [self.contained(phase, axis, row, row) for axis, row in enumerate(rows)]
            self.guarded(tests, lambda masked: run(low, high, masked))
            run(high, last.count, True)


def _inner_range(axis: Any, size: int) -> tuple[int, int]:
    """The places of the result whose windows lie wholly inside: first and end."""
    low = min(axis.count, max(0, -(axis.begin // axis.move)))
    reach = axis.begin + axis.gap * (axis.window_count - 1)
    high = (size - 1 - reach) // axis.move + 1
    return low, max(low, min(axis.count, high))


__all__ = ["emit_depthwise", "suits_depthwise"]
