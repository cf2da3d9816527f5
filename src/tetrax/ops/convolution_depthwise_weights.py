"""The gradient of depthwise convolutions' weights: few places, each a sum over all images.

As a convolution it has a group of the batch for every feature, and images as features. Where
features are neighbours they are the lanes: sums for all places of the result are formed in one pass
over a row of an image, and rows in a fixed number of parts. Otherwise neighbouring places of
the images are the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_expr import Buffer, Expr
from tetrax.ir.kernel_types import ScalarType
from tetrax.ir.views import Stored, element_type
from tetrax.ops import axes as ax
from tetrax.ops.convolution_emit import Geometry
from tetrax.ops.join import clamp_index
from tetrax.ops.nests import flat, vector_nest

MOST_TAPS = 49
"""Places of the result that are written out at most."""
SUMS = 12
"""Sums formed in one pass: as many as registers hold."""
SEVERAL = 4
"""Places of a row taken at a time."""
MOST_EDGES = 64
"""Places near the ends of a row that are written out at most."""
COLUMNS = 32
"""Neighbouring places whose sums stay apart to the end."""
PARTS = 16
"""Parts in which rows are summed."""


@dataclass(frozen=True)
class Line:
    """One spatial axis: tap `k` and place `o` meet the element at `begin + k step + o gap`."""

    taps: int
    count: int
    size: int
    begin: int
    step: int
    gap: int

    def range(self, tap: int) -> tuple[int, int]:
        """The places whose elements are inside: first and end."""
        start = self.begin + tap * self.step
        low = max(0, -(start // self.gap))
        high = min(self.count, (self.size - 1 - start) // self.gap + 1)
        return min(low, self.count), max(min(low, self.count), high)

    @property
    def common(self) -> tuple[int, int]:
        """The places whose elements are inside for every tap."""
        ranges = [self.range(tap) for tap in range(self.taps)]
        low = max(first for first, _ in ranges)
        return low, max(low, min(end for _, end in ranges))

    @property
    def inside(self) -> bool:
        """Whether all elements are inside."""
        return self.common == (0, self.count)


def _lines(g: Geometry) -> list[Line]:
    return [
        Line(
            g.out_shape[g.specs.out_spec[2 + i]],
            g.rhs_shape[g.specs.rhs_spec[2 + i]],
            g.lhs_shape[g.specs.lhs_spec[2 + i]],
            -g.padding[i][0],
            g.strides[i],
            g.rhs_dilation[i],
        )
        for i in g.spatial
    ]


def _along_features(g: Geometry) -> bool:
    lhs, rhs = (
        ax.strides_in_order(g.lhs_shape, g.specs.lhs_spec),
        ax.strides_in_order(g.rhs_shape, g.specs.rhs_spec),
    )
    edges = _lines(g)[-1]
    low, high = edges.common
    few = edges.count - (high - low) <= MOST_EDGES
    return lhs[0] == rhs[0] == 1 and few


def _along_places(g: Geometry) -> bool:
    lhs, rhs = (
        ax.strides_in_order(g.lhs_shape, g.specs.lhs_spec),
        ax.strides_in_order(g.rhs_shape, g.specs.rhs_spec),
    )
    return lhs[-1] == rhs[-1] == 1 and g.rhs_dilation[-1] == 1


def suits_depthwise_weights(geometry: Geometry) -> bool:
    """Whether this is the gradient of a depthwise convolution's weights, in a fitting layout."""
    g = geometry
    if g.batch_groups < 2 or not g.strides or any(n > 1 for n in g.lhs_dilation):
        return False
    if g.features != 1 or g.lhs_shape[g.specs.lhs_spec[0]] != g.batch_groups:
        return False
    taps = ax.product([g.out_shape[axis] for axis in g.specs.out_spec[2:]])
    return 0 < taps <= MOST_TAPS and (_along_features(g) or _along_places(g))


def emit_depthwise_weights(
    builder: KernelBuilder,
    geometry: Geometry,
    lhs: Stored,
    rhs: Stored,
    out: Stored,
    compute: ScalarType,
) -> None:
    """Store the convolution of `lhs` and `rhs`, computed in f32 or f64."""
    _Weights(builder, geometry, lhs, rhs, out, compute).run()


class _Weights:
    def __init__(
        self,
        builder: KernelBuilder,
        geometry: Geometry,
        lhs: Stored,
        rhs: Stored,
        out: Stored,
        compute: ScalarType,
    ) -> None:
        self.builder, self.geometry, self.compute = builder, geometry, compute
        self.lhs, self.rhs, self.out = lhs, rhs, out
        specs = geometry.specs
        self.lhs_feature, self.lhs_image, *self.lhs_steps = ax.strides_in_order(
            lhs.shape, specs.lhs_spec
        )
        self.rhs_feature, self.rhs_image, *self.rhs_steps = ax.strides_in_order(
            rhs.shape, specs.rhs_spec
        )
        _, self.out_feature, *self.out_steps = ax.strides_in_order(out.shape, specs.out_spec)
        self.features = geometry.batch_groups
        self.images = lhs.shape[specs.lhs_spec[1]]
        self.lines = _lines(geometry)
        self.taps = list(product(*(range(line.taps) for line in self.lines)))

    def run(self) -> None:
        if _along_features(self.geometry):
            self.in_parts()
        else:
            self.one_by_one()

    def store(self, feature: Any, tap: Sequence[int], value: Expr) -> None:
        start = sum(k * step for k, step in zip(tap, self.out_steps, strict=True))
        place = kernel.add(kernel.mul(feature, self.out_feature), kernel.index(start))
        self.builder.store(
            self.out.buffer, place, kernel.convert(value, element_type(self.out.dtype))
        )

    # --- elements ---

    def position(self, places: Sequence[Any], tap: Sequence[int]) -> list[Any]:
        return [
            kernel.add(kernel.mul(place, line.gap), kernel.index(line.begin + k * line.step))
            for line, place, k in zip(self.lines, places, tap, strict=True)
        ]

    def element(self, image: Any, position: Sequence[Any], feature: Any) -> Expr:
        steps = [self.lhs_image, *self.lhs_steps, self.lhs_feature]
        offset = flat([image, *position, feature], steps)
        return kernel.convert(self.builder.load(self.lhs.buffer, offset), self.compute)

    def factor(self, image: Any, places: Sequence[Any], feature: Any) -> Expr:
        steps = [self.rhs_image, *self.rhs_steps, self.rhs_feature]
        offset = flat([image, *places, feature], steps)
        return kernel.convert(self.builder.load(self.rhs.buffer, offset), self.compute)

    # --- lanes over places ---

    def one_by_one(self) -> None:
        """Feature by feature, in lanes as many columns at a time as there are."""
        low, high = self.lines[-1].common
        turns = (high - low) // COLUMNS
        outer = list(product(*(range(line.taps) for line in self.lines[:-1])))
        lanes = self.builder.temporary(self.compute, max(1, turns and len(self.taps) * COLUMNS))
        with self.builder.loop(self.features, "parallel") as feature:
            if turns:
                for taps in outer:
                    self.column_sums(feature, taps, lanes, turns)
            for number, tap in enumerate(self.taps):
                first, end = self.lines[-1].range(tap[-1])
                total = self.whole_sum(feature, tap, first, low if turns else end)
                if turns:
                    begin = low + turns * COLUMNS
                    total = kernel.add(total, self.whole_sum(feature, tap, begin, end))
                    column = kernel.index_variable("column", COLUMNS)
                    place = kernel.add(column, number * COLUMNS)
                    sums = kernel.load(lanes, place)
                    total = kernel.add(total, kernel.reduce_sum([(column, COLUMNS)], sums))
                self.store(feature, tap, total)

    def column_sums(self, feature: Any, outer: Sequence[int], lanes: Buffer, turns: int) -> None:
        """Sums over the places inside for every tap of the last axis, apart for each column."""
        line, low = self.lines[-1], self.lines[-1].common[0]
        ranges = [row.range(k) for row, k in zip(self.lines[:-1], outer, strict=True)]
        extents = [self.images, *(end - first for first, end in ranges), turns]
        for start in range(0, line.taps, SUMS):
            taps = [(*outer, k) for k in range(start, min(start + SUMS, line.taps))]
            numbers = [self.taps.index(tap) for tap in taps]
            with self.builder.loop(COLUMNS, "vector") as column:
                variables = [kernel.index_variable(f"o{i}", n) for i, n in enumerate(extents)]
                image, *rows, turn = variables
                places = [kernel.add(o, first) for o, (first, _) in zip(rows, ranges, strict=True)]
                at = kernel.add(kernel.mul(turn, COLUMNS), kernel.add(column, low))
                step = self.step(image, [*places, at], feature, taps)
                totals: list[Any] = [kernel.const(0, self.compute) for _ in taps]
                if 0 not in extents:
                    totals = scalar.fold(list(zip(variables, extents, strict=True)), totals, step)
                for number, total in zip(numbers, totals, strict=True):
                    self.builder.store(lanes, kernel.add(column, number * COLUMNS), total)

    def step(self, image: Any, places: Sequence[Any], feature: Any, taps: Sequence) -> Any:
        """What adds the products of one place to the sums of `taps`."""
        factor = self.factor(image, places, feature)
        values = [self.element(image, self.position(places, tap), feature) for tap in taps]
        return lambda sums: [
            kernel.add(total, kernel.mul(x, factor)) for total, x in zip(sums, values, strict=True)
        ]

    def whole_sum(self, feature: Any, tap: Sequence[int], first: int, end: int) -> Expr:
        """The sum of one tap over places from `first` to `end` of the last axis."""
        ranges = [line.range(k) for line, k in zip(self.lines[:-1], tap[:-1], strict=True)]
        ranges.append((first, end))
        extents = [self.images, *(end - first for first, end in ranges)]
        if min(extents) <= 0:
            return kernel.const(0, self.compute)
        variables = [kernel.index_variable(f"o{i}", n) for i, n in enumerate(extents)]
        image, *places = variables
        places = [kernel.add(o, first) for o, (first, _) in zip(places, ranges, strict=True)]
        x = self.element(image, self.position(places, tap), feature)
        term = kernel.mul(x, self.factor(image, places, feature))
        return kernel.reduce_sum(list(zip(variables, extents, strict=True)), term)

    # --- all sums together ---

    def in_parts(self) -> None:
        builder = self.builder
        counts = [line.count for line in self.lines[:-1]]
        rows = self.images * ax.product(counts)
        each = -(-rows // min(PARTS, rows))
        parts = -(-rows // each)
        size = len(self.taps) * self.features
        self.sums = builder.temporary(self.compute, parts * size)
        with builder.loop(parts, "parallel") as part:
            start = kernel.mul(part, size)
            with builder.loop(size, "vector") as i:
                builder.store(self.sums, kernel.add(start, i), kernel.const(0, self.compute))
            first = kernel.mul(part, each)
            count = kernel.minimum(kernel.sub(kernel.index(rows), first), kernel.index(each))
            with builder.loop(count) as turn:
                row, places = kernel.add(first, turn), []
                for extent in reversed(counts):
                    places.insert(0, kernel.rem(row, kernel.index(extent)))
                    row = kernel.div(row, kernel.index(extent))
                self.row(start, row, places)
        with vector_nest(builder, (self.features,)) as (feature,):
            for number, tap in enumerate(self.taps):
                total = builder.load(self.sums, kernel.add(feature, number * self.features))
                for part in range(1, parts):
                    place = kernel.add(feature, part * size + number * self.features)
                    total = kernel.add(total, builder.load(self.sums, place))
                self.store(feature, tap, total)

    def row(self, start: Any, image: Any, places: Sequence[Any]) -> None:
        """Add a row of an image to the sums from `start` on."""
        tests: list[Expr] = []
        for line, place in zip(self.lines[:-1], places, strict=True):
            if not line.inside:
                low, high = line.common
                tests.append(kernel.ge(place, kernel.index(low)))
                tests.append(kernel.lt(place, kernel.index(high)))
        if not tests:
            self.row_sums(start, image, places, False)
            return
        inside = tests[0]
        for test in tests[1:]:
            inside = kernel.bit_and(inside, test)
        with self.builder.when(inside):
            self.row_sums(start, image, places, False)
        with self.builder.otherwise():
            self.row_sums(start, image, places, True)

    def row_sums(self, start: Any, image: Any, places: Sequence[Any], masked: bool) -> None:
        groups = -(-len(self.taps) // SUMS)
        most = -(-len(self.taps) // groups)
        for first in range(0, len(self.taps), most):
            chosen = range(first, min(first + most, len(self.taps)))
            with self.builder.loop(self.features, "vector") as feature:
                totals = self.pass_over(image, places, feature, chosen, masked)
                for number, total in zip(chosen, totals, strict=True):
                    place = kernel.add(kernel.add(start, feature), number * self.features)
                    so_far = self.builder.load(self.sums, place)
                    self.builder.store(self.sums, place, kernel.add(so_far, total))

    def pass_over(
        self, image: Any, places: Sequence[Any], feature: Any, chosen: range, masked: bool
    ) -> list[Any]:
        """The sums of some taps over one row: ends first, then several places at a time."""
        line = self.lines[-1]
        low, high = line.common
        turns = (high - low) // SEVERAL
        ends = [*range(low), *range(low + turns * SEVERAL, line.count)]
        totals: list[Any] = [kernel.const(0, self.compute) for _ in chosen]
        for place in ends:
            totals = self.terms(image, [*places, kernel.index(place)], feature, chosen, masked,
                                totals, place)  # fmt: skip
        if not turns:
            return totals

        def step(sums: Sequence[Any]) -> list[Any]:
            sums = list(sums)
            for i in range(SEVERAL):
                place = kernel.add(kernel.mul(turn, SEVERAL), kernel.index(low + i))
                sums = self.terms(image, [*places, place], feature, chosen, masked, sums, None)
            return sums

        turn = kernel.index_variable("turn", turns)
        return scalar.fold([(turn, turns)], totals, step)

    def terms(
        self, image: Any, places: Sequence[Any], feature: Any, chosen: range, masked: bool,
        sums: Sequence[Any], at: int | None,
    ) -> list[Any]:  # fmt: skip
        """The sums with the products of one place; `at` is its place in the row near the ends."""
        factor, found = self.factor(image, places, feature), []
        for number, total in zip(chosen, sums, strict=True):
            tap = self.taps[number]
            first, end = self.lines[-1].range(tap[-1])
            if at is not None and not first <= at < end:
                found.append(total)
                continue
            position, inside = self.position(places, tap), None
            if masked:
                for axis, line in enumerate(self.lines[:-1]):
                    here = kernel.bit_and(
                        kernel.ge(position[axis], kernel.index(0)),
                        kernel.lt(position[axis], kernel.index(line.size)),
                    )
                    inside = here if inside is None else kernel.bit_and(inside, here)
                    position[axis] = clamp_index(position[axis], line.size)
            x = self.element(image, position, feature)
            if inside is not None:
                x = kernel.select(inside, x, kernel.const(0, self.compute))
            found.append(kernel.add(total, kernel.mul(x, factor)))
        return found


__all__ = ["emit_depthwise_weights", "suits_depthwise_weights"]
