"""How arrays are cut over the named axes of devices, and how an operation's axes belong together.

A `Layout` names, for every axis of an array, the axes of devices that it is cut over, the one that
makes the largest steps first. An operation says by `Factors` which axes of its operands and results
are the same: what is cut along one factor can be computed part by part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tetrax.ir.types import ShapedArray

Layout = tuple[tuple[Any, ...], ...]
Axis = tuple[int, ...]
"""The factors that an axis of an array consists of, that of the largest steps first."""


def whole_layout(ndim: int) -> Layout:
    """The layout of an array that every device has all of."""
    return ((),) * ndim


def is_whole(layout: Layout) -> bool:
    return not any(layout)


@dataclass(frozen=True)
class Factors:
    """The axes of operands and results as factors; `sizes` says how long each is.

    `reduced` are those over which results are reduced ('sum', 'max' or 'min'), so that devices may
    each do a part; `whole` those that must not be cut. Operands named in `added` are added to the
    result as they are, so that they must count once where devices reduce. What parts cut along
    `positional` factors are depends on where the device stands: `Primitive.positioned` gives them.
    Where results are `aligned`, their axes are those of operands of their rank, so that those which
    had to be whole may be cut again as they were.
    """

    operands: tuple[tuple[Axis, ...], ...]
    results: tuple[tuple[Axis, ...], ...]
    sizes: Mapping[int, int]
    reduced: Mapping[int, str] = field(default_factory=dict)
    whole: frozenset[int] = frozenset()
    added: frozenset[int] = frozenset()
    positional: frozenset[int] = frozenset()
    aligned: bool = False


@dataclass(frozen=True)
class Place:
    """Where the parts of a device lie: an index per axis of every operand and result.

    `wholes` are the types of the whole operands.
    """

    wholes: Sequence[ShapedArray]
    operands: Sequence[Sequence[Any]]
    results: Sequence[Sequence[Any]]


def pointwise(avals: Sequence[ShapedArray], outs: Sequence[ShapedArray]) -> Factors:
    """Operands and results of one shape, which are cut alike."""
    shape = outs[0].shape
    axes = tuple((i,) for i in range(len(shape)))
    return Factors((axes,) * len(avals), (axes,) * len(outs), dict(enumerate(shape)))


def apart_from(
    avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], axes: Collection[int]
) -> Factors:
    """Operands and results that are cut alike along all axes but `axes`, of which every device has
    all. Operands of another rank (start indices, padding values) are needed whole.
    """
    build = FactorsBuilder()
    common = build.axes(avals[0].shape)

    def dims(aval: ShapedArray) -> list[int]:
        if aval.ndim != len(common):
            return build.axes(aval.shape, range(aval.ndim))
        return [
            build.new(size, whole=True) if axis in axes else common[axis]
            for axis, size in enumerate(aval.shape)
        ]

    found = build.build([dims(aval) for aval in avals], [dims(out) for out in outs])
    return replace(found, aligned=True)


class FactorsBuilder:
    """Makes `Factors` axis by axis."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self._whole: set[int] = set()
        self._reduced: dict[int, str] = {}
        self._positional: set[int] = set()

    def new(
        self, size: int, whole: bool = False, reduced: str = "", positional: bool = False
    ) -> int:
        """A factor of a size."""
        factor = len(self._sizes)
        self._sizes[factor] = size
        if whole:
            self._whole.add(factor)
        if reduced:
            self._reduced[factor] = reduced
        if positional:
            self._positional.add(factor)
        return factor

    def axes(self, shape: Sequence[int], whole: Sequence[int] = ()) -> list[int]:
        """A factor for each axis of an array; those named in `whole` must not be cut."""
        return [self.new(size, axis in whole) for axis, size in enumerate(shape)]

    def build(
        self,
        operands: Sequence[Sequence[int | Axis]],
        results: Sequence[Sequence[int | Axis]],
        added: Sequence[int] = (),
    ) -> Factors:
        """The factors, where `operands` and `results` give those of every axis."""
        return Factors(
            tuple(map(_as_axes, operands)),
            tuple(map(_as_axes, results)),
            self._sizes,
            self._reduced,
            frozenset(self._whole),
            frozenset(added),
            frozenset(self._positional),
        )


def _as_axes(axes: Sequence[int | Axis]) -> tuple[Axis, ...]:
    return tuple(axis if isinstance(axis, tuple) else (axis,) for axis in axes)
