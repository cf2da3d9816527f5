"""`Shard`: the part of an array that one device holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tetrax.runtime.devices import Device
from tetrax.runtime.shardings import Index, Sharding, shard_layout


class Shard:
    """The part of an array that one device holds; `data` is None for other processes' devices."""

    __slots__ = ("_shape", "_sharding", "data", "device")

    def __init__(
        self, device: Device, sharding: Sharding, global_shape: Sequence[int], data: Any = None
    ) -> None:
        self.device = device
        self.data = data
        self._sharding = sharding
        self._shape = tuple(global_shape)

    @property
    def index(self) -> Index:
        """Where in the array the part is, as a tuple of slices."""
        return shard_layout(self._sharding, self._shape).indices[self.device]

    @property
    def replica_id(self) -> int:
        """How many devices before this one, in mesh order, hold the same part."""
        return shard_layout(self._sharding, self._shape).replica_ids[self.device]

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={self.data})"
        )
