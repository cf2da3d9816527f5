"""From one layout to another: gathering, slicing, and exchanging where an axis of devices moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax.compiler.device_groups import DeviceAxes
from tetrax.compiler.partition.placed import Placed
from tetrax.compiler.partition.report import Report
from tetrax.ir.layout import Layout
from tetrax.ops.arithmetic import add, mul
from tetrax.ops.collective import all_gather_p, all_to_all_p, axis_index_p
from tetrax.ops.slicing import dynamic_slice_in_dim
from tetrax.tracing.value import get_aval


def reshard(x: Placed, layout: Layout, axes: DeviceAxes, report: Report, reason: str) -> Placed:
    """`x` cut as `layout` says, whose axes must divide the sizes."""
    if x.layout == layout:
        return x
    value, now = x.value, list(x.layout)
    moved = _moved_axis(now, layout)
    while moved is not None:
        name, source, target = moved
        value = _exchange(value, name, source, target, axes, report, reason)
        now[source], now[target] = now[source][:-1], (*now[target], name)
        moved = _moved_axis(now, layout)
    for dim, wanted in enumerate(layout):
        extra = now[dim][_common(now[dim], wanted) :]
        if extra:
            value = _gather(value, extra, dim, axes, report, reason)
            now[dim] = now[dim][: -len(extra)]
    for dim, wanted in enumerate(layout):
        missing = wanted[len(now[dim]) :]
        if missing:
            value = _slice(value, missing, dim, axes)
    return Placed(value, x.aval, layout)


def _common(now: Sequence[Any], wanted: Sequence[Any]) -> int:
    """How many axes of devices both begin with."""
    count = 0
    for a, b in zip(now, wanted, strict=False):
        if a != b:
            break
        count += 1
    return count


def _moved_axis(now: Sequence[tuple], wanted: Layout) -> tuple[Any, int, int] | None:
    """An axis of devices that only has to go from one axis of the array to another."""
    for source, names in enumerate(now):
        if not names or _common(names, wanted[source]) == len(names):
            continue
        name = names[-1]
        for target, others in enumerate(wanted):
            length = len(now[target])
            if target != source and others[: length + 1] == (*now[target], name):
                return name, source, target
    return None


def _exchange(
    value: Any,
    name: Any,
    source: int,
    target: int,
    axes: DeviceAxes,
    report: Report,
    reason: str,
) -> Any:
    size = axes.product((name,))
    report.add("all_to_all", (name,), size, get_aval(value), reason)
    return all_to_all_p.bind(
        value,
        axis_name=(name,),
        axis_size=size,
        split_axis=target,
        concat_axis=source,
        tiled=True,
        axis_index_groups=None,
    )


def _gather(
    value: Any, names: tuple, dim: int, axes: DeviceAxes, report: Report, reason: str
) -> Any:
    size = axes.product(names)
    gathered = all_gather_p.bind(
        value,
        axis_name=names,
        axis_size=size,
        all_gather_dimension=dim,
        tiled=True,
        axis_index_groups=None,
    )
    report.add("all_gather", names, size, get_aval(gathered), reason)
    return gathered


def _slice(value: Any, names: tuple, dim: int, axes: DeviceAxes) -> Any:
    extent = get_aval(value).shape[dim] // axes.product(names)
    start = mul(position(names, axes), np.int32(extent))
    return dynamic_slice_in_dim(value, start, extent, dim)


def position(names: Sequence[Any], axes: DeviceAxes) -> Any:
    """Where a device stands along some axes, row-major, int32."""
    found: Any = np.int32(0)
    for name in names:
        here = axis_index_p.bind(axis_name=name)
        found = add(mul(found, np.int32(axes.product((name,)))), here)
    return found
