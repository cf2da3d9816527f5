"""The devices of this process and of the other processes of the program.

A CPU can be taken for several devices: `config.num_cpu_devices`, `TETRAX_NUM_CPU_DEVICES`, or
`XLA_FLAGS=--xla_force_host_platform_device_count=8`. They are made when somebody first asks for
them; until then the number may change, and other processes may be made known.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from typing import Any

from tetrax.config import Config, config


class Device:
    """One place where programs run. There is one object per device, so `is` compares them."""

    __slots__ = (
        "__weakref__",
        "device_kind",
        "id",
        "local_hardware_id",
        "platform",
        "process_index",
    )

    def __init__(
        self, id: int, platform: str = "cpu", device_kind: str = "cpu", process_index: int = 0
    ) -> None:
        self.id = id
        self.platform = platform
        self.device_kind = device_kind
        self.process_index = process_index
        self.local_hardware_id = id

    @property
    def host_id(self) -> int:
        return self.process_index

    task_id = host_id

    def memory_stats(self) -> None:
        """Memory use is not tracked per CPU device."""
        return None

    def addressable_memories(self) -> list[Memory]:
        return [self.default_memory()]

    def default_memory(self) -> Memory:
        return Memory(self, "device")

    def memory(self, kind: str) -> Memory:
        """The memory of that kind; all kinds are the host's. Raises ValueError for unknown ones."""
        return Memory(self, checked_memory_kind(kind))

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def __copy__(self) -> Device:
        return self

    def __deepcopy__(self, memo: dict) -> Device:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle {self!r}: devices belong to a process")


class Memory:
    """A kind of memory of a device; a CPU has one, under three names."""

    __slots__ = ("device", "kind")

    def __init__(self, device: Device, kind: str) -> None:
        self.device = device
        self.kind = kind

    def addressable_by_devices(self) -> list[Device]:
        return [self.device]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Memory):
            return NotImplemented
        return self.device is other.device and self.kind == other.kind

    def __hash__(self) -> int:
        return hash((self.device, self.kind))

    def __repr__(self) -> str:
        return f"{self.device.platform.upper()}_{self.kind.upper()}_{self.device.id}"


MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")


def checked_memory_kind(kind: str | None) -> str:
    """`kind`, 'device' for None. Raises ValueError for a kind that a CPU does not have."""
    if kind is None:
        return "device"
    if kind not in MEMORY_KINDS:
        raise ValueError(
            f"Could not find memory addressable by device cpu. Device cpu can address the "
            f"following memory kinds: {', '.join(MEMORY_KINDS)}. Got memory kind: {kind}"
        )
    return kind


# -- how many ------------------------------------------------------------------------------------


class _Processes:
    """Which process this is, how many devices each has, and the devices once they are made."""

    index = 0
    # Devices per process; None: this process alone, as many as the settings say.
    counts: tuple[int, ...] | None = None
    devices: tuple[Device, ...] | None = None


_processes = _Processes()
_FORCED = re.compile(r"--xla_force_host_platform_device_count=(\d+)")


def configured_count() -> int:
    """How many devices the settings split this process's CPU into."""
    chosen = config.num_cpu_devices
    if chosen is not None and chosen > 0:
        return chosen
    forced = _FORCED.findall(os.environ.get("XLA_FLAGS", ""))
    return max(1, int(forced[-1])) if forced else 1


def set_processes(index: int, local_counts: Sequence[int]) -> None:
    """Make known that this is process `index` of `len(local_counts)`, each with so many devices.

    Ids run through the processes. Raises RuntimeError once devices were asked for.
    """
    counts = tuple(int(count) for count in local_counts)
    if not 0 <= index < len(counts) or min(counts) < 1:
        raise ValueError(f"Process {index} of processes with {counts} devices does not exist")
    check_unused()
    _processes.index, _processes.counts = index, counts


def check_unused() -> None:
    """Raise RuntimeError if devices were asked for, so that no processes can be added."""
    if _processes.devices is not None:
        raise RuntimeError(
            "The devices are in use already, so other processes cannot be added to them. Start "
            "distributed work (tetrax.distributed.initialize) before the first call that needs a "
            "device"
        )


def _all_devices() -> tuple[Device, ...]:
    made = _processes.devices
    if made is None:
        counts = _processes.counts or (configured_count(),)
        made = _processes.devices = tuple(_made(counts))
    return made


def _made(counts: Sequence[int]) -> list[Device]:
    made: list[Device] = []
    for process, count in enumerate(counts):
        for local in range(count):
            device = Device(len(made), process_index=process)
            device.local_hardware_id = local
            made.append(device)
    return made


def _number_changed(number: int) -> None:
    """The setting changed: refuse it if there are devices already, and not that many."""
    made = _processes.devices
    if made is None or number < 1 or number == local_device_count():
        return
    Config.num_cpu_devices.cell[0] = local_device_count()
    raise RuntimeError(
        f"num_cpu_devices cannot become {number}: the CPU is {local_device_count()} device(s) "
        "already, which were asked for before. Set it right after the import, or by "
        "TETRAX_NUM_CPU_DEVICES"
    )


Config.num_cpu_devices.observe(_number_changed)


# -- asking for them -----------------------------------------------------------------------------


def _check_backend(backend: Any) -> None:
    if backend not in (None, "cpu"):
        raise RuntimeError(
            f"Unknown backend: {backend!r} requested, but no platforms that are instances of "
            f"{backend} are present. Platforms present are: cpu"
        )


def devices(backend: str | None = None) -> list[Device]:
    """All devices of `backend` ('cpu'). Raises RuntimeError for a backend that is not there."""
    _check_backend(backend)
    return list(_all_devices())


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """The devices of one process, by default of this one. Raises ValueError for unknown ones."""
    _check_backend(backend)
    if host_id is not None:
        warnings.warn(
            "The argument host_id of local_devices is called process_index now", stacklevel=2
        )
        process_index = host_id
    if process_index is None:
        process_index = _processes.index
    if process_index not in range(process_count()):
        raise ValueError(f"Unknown process_index {process_index}")
    return [device for device in _all_devices() if device.process_index == process_index]


def is_local(device: Device) -> bool:
    """Whether the device belongs to this process."""
    return device.process_index == _processes.index


_default: list[Device | None] = [None]


def default_device() -> Device:
    """Where arrays that name no device lie."""
    chosen = config.default_device
    if isinstance(chosen, Device):
        return chosen
    first = _default[0]
    if first is None:
        first = _default[0] = local_devices()[0]
    return first


def device_count(backend: str | None = None) -> int:
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    return len(local_devices(backend=backend))


def default_backend() -> str:
    return "cpu"


def process_index(backend: str | None = None) -> int:
    return _processes.index


def process_count(backend: str | None = None) -> int:
    return len(_processes.counts or (0,))


def process_indices(backend: str | None = None) -> list[int]:
    return list(range(process_count()))


def host_id(backend: str | None = None) -> int:
    """The older name of `process_index`."""
    return process_index(backend)


def host_count(backend: str | None = None) -> int:
    """The older name of `process_count`."""
    return process_count(backend)


def host_ids(backend: str | None = None) -> list[int]:
    """The older name of `process_indices`."""
    return process_indices(backend)


def cpu_count() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
