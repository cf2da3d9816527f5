"""Which axes of devices each factor of an operation is cut over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tetrax.compiler.device_groups import DeviceAxes
from tetrax.ir.layout import Axis, Factors, Layout, is_whole

Cuts = dict[int, tuple[Any, ...]]
"""For each factor that is cut, the axes of devices, the one of the largest steps first."""


def choose(
    factors: Factors, layouts: Sequence[Layout], wanted: Sequence[Layout | None], axes: DeviceAxes
) -> Cuts:
    """How to cut: as the operands are, then as the results are wanted.

    Where these are cut differently, some must be moved: whichever costs least.
    """
    operands = list(zip(factors.operands, layouts, strict=True))
    results = [
        (dims, layout)
        for dims, layout in zip(factors.results, wanted, strict=True)
        if layout is not None
    ]
    arrays = [*sorted(operands, key=lambda pair: -_size(pair[0], factors)), *results]
    cuts = _taken(arrays, factors, axes)
    doubtful = any(factor in cuts for factor in factors.reduced.keys() & factors.positional)
    if not doubtful and all(layout_of(dims, cuts) == layout for dims, layout in arrays):
        return cuts
    found = [cuts]
    for first in arrays:
        order = [first, *(pair for pair in arrays if pair is not first)]
        found.append({} if is_whole(first[1]) else _taken(order, factors, axes))
        if doubtful:
            found.append(_taken(order[1:], factors, axes))
    costs = [_cost(one, factors, operands, results, axes) for one in found]
    return found[costs.index(min(costs))]


def _taken(
    sources: Sequence[tuple[Sequence[Axis], Layout]], factors: Factors, axes: DeviceAxes
) -> Cuts:
    """The factors cut as arrays are, the first array before the others.

    An axis of devices cuts one of the factors that belong together; those of operands and results
    that have nothing to do with each other may be cut over the same.
    """
    cuts: Cuts = {}
    group = _groups(factors)
    used: dict[int, set[Any]] = {number: set() for number in group.values()}
    for dims, layout in sources:
        for factor, names in _spread(dims, layout, factors, axes):
            taken = used[group[factor]]
            if factor not in cuts and factor not in factors.whole and taken.isdisjoint(names):
                cuts[factor] = names
                taken.update(names)
    return _representable(cuts, factors, axes)


def _groups(factors: Factors) -> dict[int, int]:
    """A number for each factor, the same for those that some operand or result has together.

    What is reduced belongs to the results.
    """
    group = {factor: factor for factor in factors.sizes}
    arrays = [[f for axis in dims for f in axis] for dims in (*factors.operands, *factors.results)]
    if factors.reduced:
        made = [factor for dims in factors.results for axis in dims for factor in axis]
        arrays.append([*made, *factors.reduced])
    for members in arrays:
        together = {group[factor] for factor in members}
        if len(together) > 1:
            first = min(together)
            group = {f: first if number in together else number for f, number in group.items()}
    return group


# What an operation does with an element, and holding one, in terms of sending one.
_WORK, _HOLD = 1 / 16, 1 / 2


def _cost(
    cuts: Cuts,
    factors: Factors,
    operands: Sequence[tuple[Sequence[Axis], Layout]],
    results: Sequence[tuple[Sequence[Axis], Layout]],
    axes: DeviceAxes,
) -> float:
    """About what a device does and sends for an operation, in elements sent."""
    total, work = 0.0, 1.0
    for dims, layout in operands:
        total += _moving(_size(dims, factors), layout, layout_of(dims, cuts), axes)
    reduced = any(factor in cuts for factor in factors.reduced)
    for dims, layout in results:
        size, made = _size(dims, factors), layout_of(dims, cuts)
        total += _moving(size, made, layout, axes)
        # Of a sum over devices everybody may keep the part that is wanted, for half the price.
        total -= reduced * max(size / _parts(made, axes) - size / _parts(layout, axes), 0)
    for dims in factors.results:
        share = _size(dims, factors) / _parts(layout_of(dims, cuts), axes)
        total += share * (2 * reduced + _HOLD)
    for factor, size in factors.sizes.items():
        if factor not in factors.whole:
            work *= size / axes.product(cuts.get(factor, ()))
    return total + work * _WORK


def _moving(size: int, layout: Layout, target: Layout, axes: DeviceAxes) -> float:
    """How many elements a device sends so that an array is cut otherwise."""
    if all(a[: len(b)] == b for a, b in zip(target, layout, strict=True)):
        return 0.0  # everyone takes a part of what they have
    here, there = (size / _parts(names, axes) for names in (layout, target))
    return max(there - here, here)


def _parts(layout: Layout, axes: DeviceAxes) -> int:
    return axes.product(tuple(name for names in layout for name in names))


def _size(dims: Sequence[Axis], factors: Factors) -> int:
    total = 1
    for axis in dims:
        for factor in axis:
            total *= factors.sizes[factor]
    return total


def _spread(
    dims: Sequence[Axis], layout: Layout, factors: Factors, axes: DeviceAxes
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The axes of devices of an array, factor by factor."""
    for axis, names in zip(dims, layout, strict=True):
        rest = list(names)
        for factor in axis:
            taken: tuple[Any, ...] = ()
            size = factors.sizes[factor]
            while rest and size % axes.product((*taken, rest[0])) == 0:
                taken = (*taken, rest.pop(0))
                if axes.product(taken) == size:
                    break
            if taken:
                yield factor, taken
            if axes.product(taken) != size:
                break


def _representable(cuts: Cuts, factors: Factors, axes: DeviceAxes) -> Cuts:
    """Only what layouts can say: a factor is cut if those before it on its axis are cut apart."""
    changed = True
    while changed:
        changed = False
        for dims in (*factors.operands, *factors.results):
            for axis in dims:
                apart = True
                for factor in axis:
                    if not apart and factor in cuts:
                        del cuts[factor]
                        changed = True
                    full = axes.product(cuts.get(factor, ())) == factors.sizes[factor]
                    apart = apart and full
    return cuts


def layout_of(dims: Sequence[Axis], cuts: Mapping[int, tuple[Any, ...]]) -> Layout:
    """The layout of an array whose factors are cut so."""
    return tuple(tuple(name for factor in axis for name in cuts.get(factor, ())) for axis in dims)
