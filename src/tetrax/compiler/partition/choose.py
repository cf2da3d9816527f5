"""Which axes of devices each factor of an operation is cut over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tetrax.compiler.device_groups import DeviceAxes
from tetrax.ir.layout import Axis, Factors, Layout

Cuts = dict[int, tuple[Any, ...]]
"""For each factor that is cut, the axes of devices, the one of the largest steps first."""


def choose(
    factors: Factors, layouts: Sequence[Layout], wanted: Sequence[Layout | None], axes: DeviceAxes
) -> Cuts:
    """How to cut: as the operands are, the largest first, then as the results are wanted.

    An axis of devices cuts one of the factors that belong together; those of operands and results
    that have nothing to do with each other may be cut over the same.
    """
    cuts: Cuts = {}
    group = _groups(factors)
    used: dict[int, set[Any]] = {number: set() for number in group.values()}
    order = sorted(range(len(layouts)), key=lambda i: -_size(factors.operands[i], factors))
    sources = [(factors.operands[i], layouts[i]) for i in order]
    sources += [
        (dims, layout)
        for dims, layout in zip(factors.results, wanted, strict=True)
        if layout is not None
    ]
    for dims, layout in sources:
        for factor, names in _spread(dims, layout, factors, axes):
            taken = used[group[factor]]
            if factor not in cuts and factor not in factors.whole and taken.isdisjoint(names):
                cuts[factor] = names
                taken.update(names)
    return _representable(cuts, factors, axes)


def _groups(factors: Factors) -> dict[int, int]:
    """A number for each factor, the same for those that some operand or result has together."""
    group = {factor: factor for factor in factors.sizes}
    for dims in (*factors.operands, *factors.results):
        together = {group[factor] for axis in dims for factor in axis}
        if len(together) > 1:
            first = min(together)
            group = {f: first if number in together else number for f, number in group.items()}
    return group


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
