"""A value of which each device has a part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tetrax.compiler.device_groups import DeviceAxes
from tetrax.ir.layout import Layout
from tetrax.ir.types import ShapedArray


@dataclass(frozen=True)
class Share:
    """A sum over the devices along `names` that is yet to be done, best cut as `wanted`."""

    names: tuple[Any, ...]
    wanted: Layout | None
    reason: str
    line: str


@dataclass(frozen=True)
class Placed:
    """`value` is the part of a device; `aval` the type of the whole, cut as `layout` says.

    Where there is a `share`, `value` is only this device's share of the part. `before` is how it
    would be cut if sizes allowed.
    """

    value: Any
    aval: ShapedArray
    layout: Layout
    share: Share | None = None
    before: Layout | None = None


def local_aval(aval: ShapedArray, layout: Layout, axes: DeviceAxes) -> ShapedArray:
    """The type of a part. Sizes must divide."""
    shape = tuple(
        size // axes.product(names) for size, names in zip(aval.shape, layout, strict=True)
    )
    return ShapedArray(shape, aval.dtype, aval.weak_type)


def fitting(layout: Layout, aval: ShapedArray, axes: DeviceAxes) -> Layout:
    """The layout without the axes of devices that do not divide the sizes."""
    found = []
    for size, names in zip(aval.shape, layout, strict=True):
        kept: tuple[Any, ...] = ()
        for name in names:
            if size % axes.product((*kept, name)):
                break
            kept = (*kept, name)
        found.append(kept)
    return tuple(found)
