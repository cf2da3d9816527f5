"""Meshes of devices and how arrays are cut over them."""

from __future__ import annotations

from tetrax.higher_order.sharding_constraint import auto_axes, explicit_axes, reshard
from tetrax.runtime.devices import Device
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
    "auto_axes",
    "explicit_axes",
    "get_abstract_mesh",
    "get_mesh",
    "make_single_device_sharding",
    "reshard",
    "set_mesh",
    "use_abstract_mesh",
]


def make_single_device_sharding(
    device: Device, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """The whole array on one device."""
    return SingleDeviceSharding(device, memory_kind=memory_kind)
