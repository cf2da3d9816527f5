"""Shardings: which part of an array lies on which device.

A sharding cuts each dimension into tiles of one size and says for every device which tile it
holds; `tiling(ndim)` is that, and all other questions are answered from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.runtime import devices as _devices
from tetrax.runtime.devices import Device, checked_memory_kind
from tetrax.runtime.mesh import AbstractMesh, Mesh
from tetrax.runtime.partition_spec import PartitionSpec, axes_of

Index = tuple[slice, ...]


class Tiling:
    """Into how many tiles each dimension is cut, and the tile of every device, in mesh order."""

    __slots__ = ("counts", "positions")

    def __init__(self, counts: tuple[int, ...], positions: tuple[tuple[int, ...], ...]) -> None:
        self.counts = counts
        self.positions = positions

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tiling):
            return NotImplemented
        return self.counts == other.counts and self.positions == other.positions

    def __hash__(self) -> int:
        return hash((self.counts, self.positions))


class Sharding:
    """Base of the placements of an array's elements on devices."""

    # -- what a subclass says ------------------------------------------------------------------

    @property
    def device_tuple(self) -> tuple[Device, ...]:
        """The devices in the order of the mesh."""
        raise NotImplementedError("Subclasses should implement this method.")

    @property
    def memory_kind(self) -> str | None:
        raise NotImplementedError("Subclasses should implement this method.")

    def tiling(self, ndim: int) -> Tiling:
        """How arrays of so many dimensions are cut. Raises ValueError if they cannot be."""
        raise NotImplementedError("Subclasses should implement this method.")

    def with_memory_kind(self, kind: str) -> Sharding:
        raise NotImplementedError("Subclasses should implement this method.")

    def explain(self, dimension: int) -> str:
        """What cuts a dimension, for messages."""
        return repr(self)

    # -- what follows from it ------------------------------------------------------------------

    @property
    def _where(self) -> tuple[Device, ...] | None:
        """The devices, or None where only the axes of the mesh are known."""
        return self.device_tuple

    @property
    def num_devices(self) -> int:
        return len(self.device_tuple)

    @cached_property
    def device_set(self) -> set[Device]:
        return set(self.device_tuple)

    @cached_property
    def local_device_tuple(self) -> tuple[Device, ...]:
        """The devices of this process in the order of the mesh: that of an array's shards."""
        return tuple(device for device in self.device_tuple if _devices.is_local(device))

    @cached_property
    def addressable_devices(self) -> set[Device]:
        return set(self.local_device_tuple)

    @property
    def has_addressable_devices(self) -> bool:
        return bool(self.local_device_tuple)

    @cached_property
    def is_fully_addressable(self) -> bool:
        return len(self.local_device_tuple) == len(self.device_tuple)

    @cached_property
    def is_fully_replicated(self) -> bool:
        raise NotImplementedError("Subclasses should implement this method.")

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the part that one device holds. Raises ValueError where it is not even."""
        return part_shape(self, tuple(global_shape))

    def devices_indices_map(self, global_shape: Sequence[int]) -> Mapping[Device, Index]:
        """The part of an array of that shape that each device holds, as a tuple of slices."""
        return dict(shard_layout(self, tuple(global_shape)).indices)

    def addressable_devices_indices_map(
        self, global_shape: Sequence[int]
    ) -> Mapping[Device, Index]:
        """The same for the devices of this process."""
        indices = shard_layout(self, tuple(global_shape)).indices
        return {device: indices[device] for device in self.local_device_tuple}

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether both put the same elements on the same devices, for arrays of that rank."""
        if self is other:
            return True
        return (
            isinstance(other, Sharding)
            and self._where == other._where
            and self.memory_kind == other.memory_kind
            and self.tiling(ndim) == other.tiling(ndim)
        )

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """Raise ValueError if arrays of that shape have too few dimensions for this sharding."""


class ShardLayout:
    """The parts of an array of one shape under one sharding."""

    __slots__ = ("indices", "local", "replica_ids", "shape")

    def __init__(
        self,
        shape: tuple[int, ...],
        indices: dict[Device, Index],
        replica_ids: dict[Device, int],
        local: tuple[Device, ...],
    ) -> None:
        # Of one part; where each device's part is; how many devices before it hold the same part.
        self.shape = shape
        self.indices = indices
        self.replica_ids = replica_ids
        # This process's devices and where their parts are; the dots keep scalars arrays.
        self.local = tuple((device, (*indices[device], ...)) for device in local)


def part_shape(sharding: Sharding, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of one part. Raises ValueError for sizes that do not divide."""
    part = []
    for dimension, (size, count) in enumerate(
        zip(shape, sharding.tiling(len(shape)).counts, strict=True)
    ):
        if size % count:
            raise _indivisible(sharding, shape, dimension, count)
        part.append(size // count)
    return tuple(part)


@lru_cache(maxsize=4096)
def shard_layout(sharding: Sharding, shape: tuple[int, ...]) -> ShardLayout:
    """The parts of an array of that shape. Raises ValueError for sizes that do not divide."""
    part = part_shape(sharding, shape)
    tiling = sharding.tiling(len(shape))
    indices: dict[Device, Index] = {}
    replica_ids: dict[Device, int] = {}
    # By where the parts begin, which says more than the tile only for dimensions of size 0.
    holders: dict[tuple[int, ...], int] = {}
    for device, position in zip(sharding.device_tuple, tiling.positions, strict=True):
        starts = tuple(at * size for at, size in zip(position, part, strict=True))
        indices[device] = tuple(
            slice(None) if count == 1 else slice(start, start + size)
            for start, size, count in zip(starts, part, tiling.counts, strict=True)
        )
        replica_ids[device] = holders.get(starts, 0)
        holders[starts] = replica_ids[device] + 1
    return ShardLayout(part, indices, replica_ids, sharding.local_device_tuple)


def _indivisible(
    sharding: Sharding, shape: tuple[int, ...], dimension: int, count: int
) -> errors.IndivisibleError:
    size = shape[dimension]
    return errors.IndivisibleError(
        f"Dimension {dimension} of an array of shape {shape} has size {size}, which is not "
        f"divisible by {count}: {sharding.explain(dimension)} cuts it into {count} equal parts. "
        f"Pad it to {-(-size // count) * count} (tetrax.pad_to_devices), cut another dimension, or "
        "keep it whole (None in the PartitionSpec)"
    )


class SingleDeviceSharding(Sharding):
    """The whole array on one device."""

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        self._device = device
        self._memory_kind = checked_memory_kind(memory_kind)

    @property
    def device(self) -> Device:
        return self._device

    @property
    def memory_kind(self) -> str:
        return self._memory_kind

    @property
    def device_tuple(self) -> tuple[Device, ...]:
        return (self._device,)

    @property
    def is_fully_replicated(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return True

    def tiling(self, ndim: int) -> Tiling:
        return Tiling((1,) * ndim, ((0,) * ndim,))

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        return SingleDeviceSharding(self._device, memory_kind=kind)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SingleDeviceSharding):
            return NotImplemented
        return self._device is other._device and self._memory_kind == other._memory_kind

    def __hash__(self) -> int:
        return hash((self._device, self._memory_kind))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self._memory_kind})"


class NamedSharding(Sharding):
    """An array cut along the axes of a mesh as a `PartitionSpec` says.

    Raises ValueError for axes that the mesh does not have and for axes that are used twice.
    """

    def __init__(
        self, mesh: Mesh | AbstractMesh, spec: PartitionSpec, memory_kind: str | None = None
    ) -> None:
        if not isinstance(mesh, Mesh | AbstractMesh):
            raise TypeError(
                f"NamedSharding needs a tetrax.sharding.Mesh, got {mesh!r:.80} of type {type(mesh)}"
            )
        if not isinstance(spec, PartitionSpec):
            raise TypeError(
                f"NamedSharding needs a tetrax.sharding.PartitionSpec, got {spec!r:.80} of type "
                f"{type(spec)}. An array that is not cut has PartitionSpec()"
            )
        _check_axes(mesh, spec)
        concrete = isinstance(mesh, Mesh)
        self.mesh = mesh
        self.spec = spec
        self.memory_kind = checked_memory_kind(memory_kind) if concrete else memory_kind  # pyright: ignore
        self._hash = hash((mesh, spec, self.memory_kind))
        self._tilings: dict[int, Tiling] = {}

    memory_kind: str | None = None  # pyright: ignore[reportIncompatibleMethodOverride]

    @property
    def device_tuple(self) -> tuple[Device, ...]:
        mesh = self.mesh
        if isinstance(mesh, AbstractMesh):
            raise ValueError(
                "A NamedSharding of an AbstractMesh has no devices, so no array can lie on them. "
                "Give it a tetrax.sharding.Mesh"
            )
        return mesh.device_tuple

    @property
    def _where(self) -> tuple[Device, ...] | None:
        return self.device_tuple if isinstance(self.mesh, Mesh) else None

    @property
    def num_devices(self) -> int:
        return self.mesh.size

    @cached_property
    def is_fully_replicated(self) -> bool:
        sizes = self.mesh.sizes
        return all(sizes[axis] == 1 for axis in self.spec.axes())

    @cached_property
    def replicated_axes(self) -> frozenset:
        """The mesh axes along which all devices hold the same elements."""
        spec = self.spec
        used = {*spec.axes(), *spec.unreduced, *spec.reduced}
        return frozenset(self.mesh.axis_names) - used

    def tiling(self, ndim: int) -> Tiling:
        found = self._tilings.get(ndim)
        if found is None:
            found = self._tilings[ndim] = self._new_tiling(ndim)
        return found

    def _new_tiling(self, ndim: int) -> Tiling:
        entries, sizes = self.spec.partitions, self.mesh.sizes
        # What cuts nothing may stand for dimensions that are not there; `device_put` is stricter.
        while len(entries) > ndim and all(sizes[axis] == 1 for axis in axes_of(entries[-1])):
            entries = entries[:-1]
        if len(entries) > ndim:
            raise self._too_few_dimensions(ndim)
        places = np.indices(self.mesh.axis_sizes).reshape(len(sizes), -1)
        by_name = dict(zip(self.mesh.axis_names, places, strict=True))
        devices = places.shape[1]
        counts, positions = [1] * ndim, np.zeros((devices, ndim), int)
        for dimension, entry in enumerate(entries):
            for axis in axes_of(entry):
                counts[dimension] *= sizes[axis]
                positions[:, dimension] = positions[:, dimension] * sizes[axis] + by_name[axis]
        return Tiling(tuple(counts), tuple(map(tuple, positions.tolist())))

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        if len(self.spec) > len(aval_shape):
            raise self._too_few_dimensions(len(aval_shape))

    def _too_few_dimensions(self, ndim: int) -> ValueError:
        scalar = " For scalars the PartitionSpec should be P()" if ndim == 0 else ""
        return ValueError(
            f"{self} is only valid for values of rank at least {len(self.spec)}, but was applied "
            f"to a value of rank {ndim}.{scalar}"
        )

    def explain(self, dimension: int) -> str:
        entry = self.spec.partitions[dimension]
        axes = " and ".join(f"{axis!r} of size {self.mesh.sizes[axis]}" for axis in axes_of(entry))
        noun = "axes" if isinstance(entry, tuple) else "axis"
        return f"the mesh {noun} {axes} in {self.spec}"

    def with_memory_kind(self, kind: str) -> NamedSharding:
        return NamedSharding(self.mesh, self.spec, memory_kind=kind)

    def with_spec(self, spec: PartitionSpec | Sequence[Any]) -> NamedSharding:
        """The same mesh and kind of memory with another spec."""
        made = spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec)
        return NamedSharding(self.mesh, made, memory_kind=self.memory_kind)

    def update(self, **kwargs: Any) -> NamedSharding:
        """The sharding with `mesh`, `spec` or `memory_kind` replaced."""
        spec = kwargs.pop("spec", self.spec)
        made = spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec)
        fields = {"mesh": self.mesh, "memory_kind": self.memory_kind, **kwargs}
        return NamedSharding(spec=made, **fields)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, NamedSharding):
            return NotImplemented
        return (
            self._hash == other._hash
            and self.mesh is other.mesh
            and self.spec == other.spec
            and self.memory_kind == other.memory_kind
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return NamedSharding, (self.mesh, self.spec, self.memory_kind)

    def __repr__(self) -> str:
        kind = f", memory_kind={self.memory_kind}" if self.memory_kind else ""
        return f"NamedSharding(mesh={self.mesh}, spec={self.spec}{kind})"


def _check_axes(mesh: Mesh | AbstractMesh, spec: PartitionSpec) -> None:
    seen: set[Any] = set()
    for axis in spec.axes():
        if axis not in mesh.sizes:
            raise ValueError(
                f"Resource axis: {axis} of {spec} is not found in mesh: {mesh.axis_names}."
            )
        if axis in seen:
            raise errors.DuplicateSpecError(
                f"A NamedSharding can use every mesh axis for at most one dimension, but {spec} "
                f"has duplicate entries for `{axis}`"
            )
        seen.add(axis)
    for name, axes in (("Unreduced", spec.unreduced), ("Reduced", spec.reduced)):
        unknown = [axis for axis in axes if axis not in mesh.sizes]
        if unknown:
            raise ValueError(f"{name} axes {unknown} of {spec} are not in {mesh}")
        if axes:
            raise ValueError(
                f"{name} axes are not supported: {spec} on {mesh}. They leave partial sums on the "
                "devices; sum with tetrax.lax.psum inside shard_map instead"
            )
