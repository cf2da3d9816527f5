"""Meshes of devices and how arrays are cut over them."""

from __future__ import annotations

from tetrax.runtime.mesh import AbstractDevice, AbstractMesh, AxisType, Mesh
from tetrax.runtime.mesh_context import (
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
)
from tetrax.runtime.partition_spec import PartitionSpec
from tetrax.runtime.shardings import NamedSharding, Sharding, SingleDeviceSharding

__all__ = [
    "AbstractDevice",
    "AbstractMesh",
    "AxisType",
    "Mesh",
    "NamedSharding",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "get_abstract_mesh",
    "get_mesh",
    "set_mesh",
    "use_abstract_mesh",
]
