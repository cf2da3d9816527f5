"""`ShardedArray`: an array whose elements lie on several devices, one `Array` per device.

The parts are what programs of several devices read and write. The whole array, for everything
else, is put together when somebody asks for it, and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.ir.types import ShapedArray, storage_dtype
from tetrax.runtime.array import Array, is_deleted_owner, late_slot
from tetrax.runtime.devices import Device
from tetrax.runtime.shard import Shard
from tetrax.runtime.shardings import Sharding, SingleDeviceSharding, shard_layout


class ShardedArray(Array):
    """An immutable array cut over devices; `sharding` says how. Made by `make_sharded`."""

    __slots__ = ("_sharding", "_shards")
    __hash__ = None  # type: ignore[assignment]
    # The parts on the devices of this process, in the order of the sharding's mesh.
    _shards: tuple[Array, ...]
    _sharding: Sharding

    def __getattr__(self, name: str) -> Any:
        late = _LATE.get(name)
        return late_slot(self, name) if late is None else late(self)

    def __repr__(self) -> str:
        if self.is_deleted() or _has_value(self):
            return super().__repr__()
        weak = ", weak_type=True" if self.aval.weak_type else ""
        return f"Array(shape={self.aval.shape}, dtype={self.aval.dtype.name}{weak})"

    def __str__(self) -> str:
        return super().__str__() if _has_value(self) else repr(self)

    def __deepcopy__(self, memo: dict) -> ShardedArray:
        shards = [Array(shard._value.copy(), shard.aval, shard._placed) for shard in self._shards]
        return make_sharded(self.aval, self._sharding, shards)

    # -- device --------------------------------------------------------------------------------

    @property
    def device(self) -> Any:
        sharding = self._sharding
        return sharding.device if isinstance(sharding, SingleDeviceSharding) else sharding

    def devices(self) -> set[Device]:
        return set(self._sharding.device_set)

    @property
    def sharding(self) -> Sharding:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._sharding

    @property
    def committed(self) -> bool:
        return True

    _committed = committed

    @property
    def is_fully_addressable(self) -> bool:
        return self._sharding.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        return self._sharding.is_fully_replicated

    @property
    def addressable_shards(self) -> list[Shard]:
        self._check_alive()
        sharding, shape = self._sharding, self.aval.shape
        pairs = zip(sharding.local_device_tuple, self._shards, strict=True)
        return [Shard(device, sharding, shape, data) for device, data in pairs]

    @property
    def global_shards(self) -> list[Shard]:
        self._check_alive()
        sharding, shape = self._sharding, self.aval.shape
        data = dict(zip(sharding.local_device_tuple, self._shards, strict=True))
        return [Shard(d, sharding, shape, data.get(d)) for d in sharding.device_tuple]

    def addressable_data(self, index: int) -> Array:
        self._check_alive()
        return self._shards[index]

    def unsafe_buffer_pointer(self) -> int:
        if len(self._shards) != 1:
            raise ValueError(
                "unsafe_buffer_pointer() takes an array on one device, but this one is on "
                f"{len(self._shards)}. Ask its addressable_shards"
            )
        return self._shards[0].address

    def block_until_ready(self) -> ShardedArray:
        self._check_alive()
        return self

    def on_device_size_in_bytes(self) -> int:
        """The bytes of all parts, copies counted."""
        self._check_alive()
        return sum(shard.on_device_size_in_bytes() for shard in self._shards)

    def is_deleted(self) -> bool:
        if is_deleted_owner(self._owner):
            return True
        return any(is_deleted_owner(shard._owner) for shard in self._shards)

    def delete(self) -> None:
        """Free the parts on all devices now; later uses raise DonatedBufferError."""
        # The parts after the whole, which is not deleted twice.
        shards, self._shards = self._shards, ()
        super().delete()
        for shard in shards:
            shard.delete()

    def _check_alive(self) -> None:
        if self.is_deleted():
            self.delete()
            self._npy  # noqa: B018  raises


def _has_value(array: ShardedArray) -> bool:
    sharding = array._sharding
    if sharding.is_fully_addressable:
        return True
    return sharding.is_fully_replicated and sharding.has_addressable_devices


def _npy_of(array: ShardedArray) -> np.ndarray:
    """The whole array, put together from its parts."""
    if is_deleted_owner(array._owner):
        return late_slot(array, "_npy")  # raises
    array._check_alive()
    if not _has_value(array):
        raise errors.NotAddressableError(
            f"Fetching the value of an array that spans non-addressable (non process local) "
            f"devices is not possible: {array.aval.str_short()} with {array._sharding}. Use its "
            "`.addressable_shards` for the parts of this process, or "
            "`tetrax.experimental.multihost_utils.process_allgather` to get all of it"
        )
    if array._sharding.is_fully_replicated:
        npy = array._shards[0]._value
    else:
        npy = _assembled(array)
    array._npy = npy
    return npy


def _assembled(array: ShardedArray) -> np.ndarray:
    aval = array.aval
    whole = np.empty(aval.shape, storage_dtype(aval.dtype))
    layout = shard_layout(array._sharding, aval.shape)
    for (device, index), shard in zip(layout.local, array._shards, strict=True):
        if not layout.replica_ids[device]:
            whole[index] = shard._npy
    return whole


_LATE: dict[str, Callable[[ShardedArray], Any]] = {"_npy": _npy_of}

_new = object.__new__


def make_sharded(aval: ShapedArray, sharding: Sharding, shards: Sequence[Array]) -> ShardedArray:
    """The array with these parts, unchecked: one for each device of this process, in mesh order.

    The parts must lie on their devices (`_placed`). Parts that hold the same elements may share
    memory.
    """
    array = _new(ShardedArray)
    array.aval = aval
    array._owner = None
    array._sharding = sharding
    array._shards = tuple(shards)
    return array


def whole_if_known(array: ShardedArray) -> np.ndarray | None:
    """All elements in one piece, if they have been put together already."""
    try:
        return Array._npy.__get__(array)  # type: ignore[attr-defined]
    except AttributeError:
        return None
