"""Shardings said in the axes of another mesh over the same devices."""

from __future__ import annotations

import itertools
from functools import lru_cache

from tetrax.runtime.mesh import Mesh
from tetrax.runtime.partition_spec import PartitionSpec
from tetrax.runtime.shardings import NamedSharding, Sharding


@lru_cache(maxsize=1024)
def equivalent_on(sharding: Sharding, mesh: Mesh, ndim: int) -> NamedSharding | None:
    """The sharding of `mesh` that puts the same elements of arrays of that rank on each device.

    None where the axes of the mesh cannot say it, or its devices are others or in another order.
    """
    if sharding.device_tuple != mesh.device_tuple:
        return None
    tiling = sharding.tiling(ndim)
    entries: list[tuple | None] = []
    for dimension, count in enumerate(tiling.counts):
        if count == 1:
            entries.append(None)
            continue
        positions = tuple((position[dimension],) for position in tiling.positions)
        axes = _axes_with(mesh, count, positions)
        if axes is None:
            return None
        entries.append(axes)
    while entries and entries[-1] is None:
        entries.pop()
    return NamedSharding(mesh, PartitionSpec(*entries))


def _axes_with(mesh: Mesh, count: int, positions: tuple[tuple[int], ...]) -> tuple | None:
    """Axes of the mesh, major first, along which the devices have these positions."""
    cutting = [name for name in mesh.axis_names if mesh.sizes[name] > 1]
    for number in range(1, len(cutting) + 1):
        for axes in itertools.permutations(cutting, number):
            found = NamedSharding(mesh, PartitionSpec(axes)).tiling(1)
            if found.counts == (count,) and found.positions == positions:
                return axes
    return None
