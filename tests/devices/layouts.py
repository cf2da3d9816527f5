"""Shardings over eight devices that the tests here share."""

from __future__ import annotations

import numpy as np
import tetrax
from tetrax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

P = PartitionSpec


def mesh_of(ids: object, names: str) -> Mesh:
    """The mesh of the devices with these ids; one letter is the name of one axis."""
    table = np.array(ids)
    devices = np.array([tetrax.devices()[i] for i in table.flat], object)
    return Mesh(devices.reshape(table.shape), tuple(names))


def shardings() -> dict[str, Sharding]:
    """Ways to lay out arrays of two dimensions whose sizes divide by 8."""
    line, grid = mesh_of(range(8), "x"), mesh_of(np.arange(8).reshape(2, 4), "xy")
    turned = mesh_of(np.arange(8)[::-1].reshape(4, 2), "xy")
    some = mesh_of([6, 1, 4, 3], "x")
    return {
        "rows": NamedSharding(line, P("x")),
        "columns": NamedSharding(line, P(None, "x")),
        "tiles": NamedSharding(grid, P("x", "y")),
        "turned": NamedSharding(turned, P("y", "x")),
        "both": NamedSharding(grid, P(("y", "x"))),
        "halves": NamedSharding(grid, P("x")),
        "everywhere": NamedSharding(grid, P()),
        "some": NamedSharding(some, P(None, "x")),
        "single": SingleDeviceSharding(tetrax.devices()[5]),
    }
