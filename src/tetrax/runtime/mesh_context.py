"""Which mesh is in force, and making meshes of the devices there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax.runtime.devices import Device, devices
from tetrax.runtime.mesh import (
    EMPTY_ABSTRACT_MESH,
    EMPTY_MESH,
    AbstractMesh,
    AxisType,
    Mesh,
    context,
)


class set_mesh:
    """Set the mesh that `PartitionSpec`s refer to, in this thread.

    Called as a statement it holds from now on, in a `with` statement until its end.
    """

    def __init__(self, mesh: Mesh | None) -> None:
        if mesh is None:
            mesh = EMPTY_MESH
        if not isinstance(mesh, Mesh):
            raise ValueError(f"Expected mesh of type `tetrax.sharding.Mesh`. Got {type(mesh)}")
        self._outer = context.concrete, context.abstract
        self._mesh = mesh
        context.concrete = mesh
        context.abstract = EMPTY_ABSTRACT_MESH if mesh.empty else mesh.abstract_mesh
        context.changed()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        context.concrete, context.abstract = self._outer
        context.changed()


class use_abstract_mesh:
    """Set the abstract mesh within a `with` statement, for tracing."""

    def __init__(self, mesh: AbstractMesh) -> None:
        if not isinstance(mesh, AbstractMesh):
            raise ValueError(
                f"Expected mesh of type `tetrax.sharding.AbstractMesh`. Got type: {type(mesh)}"
            )
        self.mesh = mesh
        self._outer: list[AbstractMesh] = []

    def __enter__(self) -> None:
        self._outer.append(context.abstract)
        context.abstract = self.mesh
        context.changed()

    def __exit__(self, *exception: object) -> None:
        context.abstract = self._outer.pop()
        context.changed()


def get_mesh() -> Mesh:
    """The mesh given to `set_mesh`, or an empty one."""
    return context.concrete


def get_abstract_mesh() -> AbstractMesh:
    """The abstract mesh in force, or an empty one."""
    return context.abstract


def current_mesh() -> Mesh:
    """The mesh that a `PartitionSpec` on its own refers to: `set_mesh`'s, or `with mesh:`'s."""
    return context.physical if context.concrete.empty else context.concrete


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str],
    axis_types: Any = None,
    *,
    devices: Sequence[Device] | None = None,
) -> Mesh:
    """A mesh of the first devices there are, or of `devices`, with axes of the given sizes.

    Its axes are `Explicit` if `axis_types` does not say otherwise. Raises ValueError if there are
    not enough devices.

        >>> make_mesh((1,), ("batch",)).size
        1
    """
    shape = tuple(axis_shapes)
    available = _available(devices)
    needed = math.prod(shape)
    if len(available) < needed:
        raise ValueError(
            f"Number of devices {len(available)} must be >= the product of mesh_shape {shape}. "
            "More virtual CPU devices: set TETRAX_NUM_CPU_DEVICES, or config.num_cpu_devices right "
            "after the import"
        )
    if axis_types is None:
        axis_types = (AxisType.Explicit,) * len(shape)
    return Mesh(create_device_mesh(shape, available[:needed]), axis_names, axis_types)


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Device] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """The devices as an array of shape `mesh_shape`, neighbours along the last axis closest.

    Raises ValueError unless the shape needs just as many devices as there are.
    """
    shape = tuple(mesh_shape)
    available = _available(devices)
    if math.prod(shape) != len(available):
        raise ValueError(
            f"Number of devices {len(available)} must equal the product of mesh_shape {shape}"
        )
    return _object_array(available).reshape(shape)


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Device] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """Devices of several processes: `mesh_shape` inside a process, `dcn_mesh_shape` of processes.

    The result has the products of both as its shape. Raises ValueError for other than CPU devices
    grouped by process, and where the numbers do not fit.
    """
    inner, outer = tuple(mesh_shape), tuple(dcn_mesh_shape)
    available = _available(devices)
    if not process_is_granule:
        raise ValueError(
            f"Device {available[0]} does not have attribute slice_index. See the "
            "`process_is_granule` option."
        )
    groups: dict[int, list[Device]] = {}
    for device in available:
        groups.setdefault(device.process_index, []).append(device)
    if math.prod(outer) != len(groups):
        raise ValueError(
            f"Number of slices {len(groups)} must equal the product of dcn_mesh_shape {outer}"
        )
    keys = sorted(groups) if should_sort_granules_by_key else list(groups)
    parts = np.array([create_device_mesh(inner, groups[key]) for key in keys], dtype=object)
    rank = len(inner)
    grid = parts.reshape(*outer, *inner)
    # Process axis i goes before the axis i inside the process.
    order = [axis for i in range(rank) for axis in (i, rank + i)]
    return grid.transpose(order).reshape([a * b for a, b in zip(outer, inner, strict=True)])


def _available(given: Sequence[Device] | None) -> list[Device]:
    return devices() if given is None else list(np.ravel(_object_array(given)))


def _object_array(items: Any) -> np.ndarray:
    return items if isinstance(items, np.ndarray) else np.array(items, dtype=object)
