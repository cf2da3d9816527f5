"""Devices and the placement of one array on one device."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tetrax.config import config


@dataclass(frozen=True, eq=False)
class Device:
    """One place where programs run."""

    id: int
    platform: str = "cpu"
    device_kind: str = "cpu"
    process_index: int = 0

    @property
    def local_hardware_id(self) -> int:
        return self.id

    @property
    def host_id(self) -> int:
        return self.process_index

    def memory_stats(self) -> None:
        """Memory use is not tracked per CPU device."""
        return None

    def __str__(self) -> str:
        return (
            f"CpuDevice(id={self.id})" if self.platform == "cpu" else f"{self.platform}:{self.id}"
        )

    __repr__ = __str__


_cpu_devices: list[Device] = []


def devices(backend: str | None = None) -> list[Device]:
    """All devices of `backend` ('cpu'). Raises RuntimeError for a backend that is not there."""
    if backend not in (None, "cpu"):
        raise RuntimeError(
            f"Unknown backend: {backend!r} requested, but no platforms that are instances of "
            f"{backend} are present. Platforms present are: cpu"
        )
    count = max(1, int(config.num_cpu_devices or 1))
    while len(_cpu_devices) < count:
        _cpu_devices.append(Device(len(_cpu_devices)))
    return _cpu_devices[:count]


local_devices = devices


def default_device() -> Device:
    chosen = config.default_device
    return chosen if isinstance(chosen, Device) else devices()[0]


def device_count(backend: str | None = None) -> int:
    return len(devices(backend))


local_device_count = device_count


def default_backend() -> str:
    return "cpu"


def process_index(backend: str | None = None) -> int:
    return 0


def process_count(backend: str | None = None) -> int:
    return 1


def cpu_count() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Sharding:
    """Base of the placements of an array's elements on devices."""

    memory_kind: str | None = None

    @property
    def device_set(self) -> set[Device]:
        raise NotImplementedError

    @property
    def is_fully_replicated(self) -> bool:
        return len(self.device_set) == 1

    @property
    def is_fully_addressable(self) -> bool:
        return True

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(global_shape)


@dataclass(frozen=True)
class SingleDeviceSharding(Sharding):
    """The whole array on one device."""

    device: Device
    memory_kind: str | None = None

    @property
    def device_set(self) -> set[Device]:
        return {self.device}

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, Any]:
        return {self.device: tuple(slice(None) for _ in global_shape)}

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        return self == other

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self.device!r}, memory_kind=unpinned_host)"
