"""Moving the elements of arrays to where another sharding wants them.

An array is looked at as pieces with a place in the whole. The part that a device is to hold is a
piece that is there, a view of a larger one, or put together from those that overlap it; the whole
is never built for that. Devices of one CPU share memory, and so do equal parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.ir.types import ShapedArray, storage_dtype
from tetrax.runtime.array import Array
from tetrax.runtime.devices import Device, devices
from tetrax.runtime.sharded_array import ShardedArray, make_sharded, whole_if_known
from tetrax.runtime.shardings import (
    Index,
    Sharding,
    SingleDeviceSharding,
    Tiling,
    shard_layout,
)

# First and last index (excluded) along each dimension.
_Box = tuple[tuple[int, int], ...]
_Pieces = Sequence[tuple[_Box, np.ndarray]]


def put_on_sharding(array: Array, sharding: Sharding) -> Array:
    """The array laid out as the sharding says. Raises ValueError if it does not fit the shape."""
    if isinstance(sharding, SingleDeviceSharding):
        return commit(array, sharding.device)
    sharding.check_compatible_aval(array.aval.shape)
    if isinstance(array, ShardedArray):
        if array._sharding == sharding:
            return array
        return _resharded(array, sharding)
    return _cut(array, sharding)


def commit(array: Array, device: Device) -> Array:
    """The whole array, committed to one device.

    On other devices than the first it is a `ShardedArray` of one part, so that the quick ways of
    calling programs, which run on the first device, do not take it.
    """
    part = put_on_device(array, device)
    if device is devices()[0]:
        return part
    return make_sharded(array.aval, SingleDeviceSharding(device), [part])


def put_on_device(array: Array, device: Device) -> Array:
    """The part of an array that one device has, where it has all of it."""
    if type(array) is Array and array._placed is device:
        return array
    return Array(array._value, array.aval, device)


def renewed(array: Array) -> Array:
    """Another array over the same memory, which lives on when the first one is deleted."""
    if isinstance(array, ShardedArray):
        parts = [Array(part._value, part.aval, part._placed) for part in array._shards]
        return make_sharded(array.aval, array._sharding, parts)
    return Array(array._value, array.aval, array._placed)


def _cut(array: Array, sharding: Sharding) -> ShardedArray:
    """An array that is in one piece, as views of it."""
    value = array._value
    layout = shard_layout(sharding, array.aval.shape)
    aval = part_type(array.aval, layout.shape)
    parts = [Array(value[index], aval, device) for device, index in layout.local]
    made = make_sharded(array.aval, sharding, parts)
    made._npy = value
    return made


def _resharded(array: ShardedArray, sharding: Sharding) -> ShardedArray:
    aval = array.aval
    array.block_until_ready()
    if array._sharding.is_equivalent_to(sharding, aval.ndim):
        return make_sharded(aval, sharding, [renewed(part) for part in array._shards])
    if whole_if_known(array) is not None:
        return _cut(array, sharding)
    layout = shard_layout(sharding, aval.shape)
    tiling: Tiling = sharding.tiling(aval.ndim)
    pieces = _pieces(array)
    part_aval = part_type(aval, layout.shape)
    found: dict[tuple[int, ...], np.ndarray] = {}
    parts: list[Array] = []
    local = set(sharding.local_device_tuple)
    for device, position in zip(sharding.device_tuple, tiling.positions, strict=True):
        if device not in local:
            continue
        value = found.get(position)
        if value is None:
            box = _box(layout.indices[device], aval.shape)
            value = found[position] = _gathered(box, pieces, array)
        parts.append(Array(value, part_aval, device))
    return make_sharded(aval, sharding, parts)


def part_type(aval: ShapedArray, shape: tuple[int, ...]) -> ShapedArray:
    """The type of a part of that shape."""
    return aval if aval.shape == shape else ShapedArray(shape, aval.dtype, aval.weak_type)


def _pieces(array: ShardedArray) -> _Pieces:
    """The distinct parts there are of an array, each with its place."""
    layout = shard_layout(array._sharding, array.aval.shape)
    seen: dict[_Box, np.ndarray] = {}
    for device, part in zip(array._sharding.local_device_tuple, array._shards, strict=True):
        box = _box(layout.indices[device], array.aval.shape)
        if box not in seen:
            seen[box] = part._value
    return list(seen.items())


def _box(index: Index, shape: Sequence[int]) -> _Box:
    return tuple(
        (0, size) if part.start is None else (part.start, part.stop)
        for part, size in zip(index, shape, strict=True)
    )


def _gathered(box: _Box, pieces: _Pieces, array: ShardedArray) -> np.ndarray:
    """The elements of a box, from the pieces that overlap it."""
    overlaps = list(_overlaps(box, pieces))
    for inside, source in overlaps:
        if inside == box:
            return source
    shape = tuple(stop - start for start, stop in box)
    value = np.empty(shape, storage_dtype(array.aval.dtype))
    covered = 0
    for inside, source in overlaps:
        value[_slices(inside, box)] = source
        covered += source.size
    if covered != value.size:
        raise errors.NotAddressableError(
            f"Devices of other processes hold elements that are needed here: an array of type "
            f"{array.aval.str_short()} with {array._sharding} has {covered} of {value.size} "
            f"elements of {box} in this process. Compute with it under tetrax.jit, where the "
            "processes exchange them"
        )
    value.flags.writeable = False
    return value


def _overlaps(box: _Box, pieces: _Pieces) -> Iterator[tuple[_Box, np.ndarray]]:
    """Where pieces overlap a box, and their elements there."""
    for place, source in pieces:
        inside = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, place, strict=True))
        if all(start < stop for start, stop in inside) or inside == box:
            yield inside, source[_slices(inside, place)]


def _slices(inside: _Box, outer: _Box) -> tuple[Any, ...]:
    pairs = zip(inside, outer, strict=True)
    return (*[slice(a - c, b - c) for (a, b), (c, _) in pairs], ...)
