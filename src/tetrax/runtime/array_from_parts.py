"""Arrays over several devices from what each device or each process has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, errors, tree
from tetrax.ir.types import ShapedArray
from tetrax.runtime.array import Array, as_value
from tetrax.runtime.devices import Device, is_local
from tetrax.runtime.mesh import Mesh
from tetrax.runtime.partition_spec import PartitionSpec
from tetrax.runtime.placement import placed_array
from tetrax.runtime.resharding import commit, put_on_device
from tetrax.runtime.sharded_array import ShardedArray, make_sharded
from tetrax.runtime.shardings import (
    Index,
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    shard_layout,
)
from tetrax.tracing.trace import Tracer


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Sharding,
    data_callback: Callable[[Index], Any],
    dtype: Any = None,
) -> Array:
    """An array whose parts `data_callback(index)` gives, `index` being a tuple of slices.

    It is called once for each different part that this process holds. Raises ValueError for parts
    of another shape than the sharding says, or of different dtypes.
    """
    _check_sharding("make_array_from_callback", sharding)
    shape = tuple(shape)
    layout = shard_layout(sharding, shape)
    positions = dict(zip(sharding.device_tuple, sharding.tiling(len(shape)).positions, strict=True))
    found: dict[Any, Array] = {}
    parts: list[Array] = []
    for device in sharding.local_device_tuple:
        position = positions[device]
        if position not in found:
            found[position] = _data(data_callback(layout.indices[device]))
        parts.append(put_on_device(found[position], device))
    return _checked(shape, sharding, parts, dtype, "make_array_from_callback")


def _data(data: Any) -> Array:
    if isinstance(data, Tracer):
        raise errors.UnexpectedTracerError(
            "make_array_from_callback needs known values, but its callback gave a traced one: call "
            "it outside the function that is traced"
        )
    value = as_value(data)
    assert isinstance(value, Array)
    return value


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Sharding, arrays: Sequence[Array], *, dtype: Any = None
) -> Array:
    """An array whose parts are these arrays, each on a device of the sharding, in any order.

    Nothing is copied. Raises ValueError for parts of another shape than the sharding says, and
    for devices that the sharding does not have.
    """
    name = "make_array_from_single_device_arrays"
    _check_sharding(name, sharding)
    if not isinstance(arrays, list | tuple):
        raise TypeError(f"{name}: `arrays` must be a list or tuple, but got {type(arrays)}.")
    for array in arrays:
        if not isinstance(array, Array):
            raise TypeError(f"Unsupported type for elements in `arrays`: {type(array)}")
    expected = sharding.local_device_tuple
    if arrays and len(arrays) != len(expected):
        raise ValueError(
            f"Expected {len(expected)} per-device arrays (this is how many devices are addressable "
            f"by the sharding), but got {len(arrays)}"
        )
    by_device = {_only_device(array): array for array in arrays}
    if len(by_device) != len(arrays):
        raise ValueError(
            "When making an array from single-device arrays, the input arrays must be from "
            f"distinct devices, but got device IDs {[_only_device(x).id for x in arrays]}"
        )
    strangers = [device for device in by_device if device not in sharding.addressable_devices]
    if strangers:
        raise ValueError(f"Some arrays are on devices that are not in {sharding}: {strangers}")
    parts = [put_on_device(by_device[device], device) for device in expected if by_device]
    return _checked(tuple(shape), sharding, parts, dtype, name)


def _only_device(array: Array) -> Device:
    devices = list(array.devices())
    if len(devices) != 1:
        raise ValueError(
            f"Each of `arrays` must be on a single device, but one is on {array.sharding}"
        )
    return devices[0]


def _check_sharding(name: str, sharding: Any) -> None:
    if not isinstance(sharding, Sharding):
        raise TypeError(
            f"{name}: `sharding` should be a tetrax.sharding.Sharding, got {sharding!r} of type "
            f"{type(sharding)}"
        )


def _checked(
    shape: tuple[int, ...], sharding: Sharding, parts: Sequence[Array], dtype: Any, name: str
) -> Array:
    """The array of these parts, in the order of the sharding's devices."""
    expected = sharding.shard_shape(shape)
    if not parts:
        if dtype is None:
            raise ValueError(
                f"If the array has no addressable shards, {name} needs its `dtype` argument"
            )
        return make_sharded(ShapedArray(shape, dtypes.canonicalize_dtype(dtype)), sharding, ())
    found = parts[0].aval.dtype
    if dtype is not None and dtypes.canonicalize_dtype(dtype) != found:
        raise ValueError(
            f"If `dtype` is given to {name}, it must be that of the addressable shards. Got dtype="
            f"{dtypes.canonicalize_dtype(dtype)} and shard dtype={found}"
        )
    aval = ShapedArray(shape, found)
    for part in parts:
        if part.aval.dtype != found:
            raise ValueError(
                f"Input buffers to an array must have matching dtypes. Got {part.aval.dtype} and "
                f"{found}"
            )
        if part.aval.shape != expected:
            raise ValueError(
                f"Expected shard shape {expected} doesn't match the single device array shape "
                f"{part.aval.shape}. Shape of Array is {aval.str_short()} with sharding {sharding}"
            )
    if isinstance(sharding, SingleDeviceSharding):
        return commit(Array(parts[0]._value, aval), sharding.device)
    return make_sharded(aval, sharding, [_strongly_typed(part) for part in parts])


def _strongly_typed(part: Array) -> Array:
    aval = part.aval
    if not aval.weak_type:
        return part
    return Array(part._value, ShapedArray(aval.shape, aval.dtype), part._placed)


# -- from every process's own data ---------------------------------------------------------------


def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Any = None
) -> Any:
    """Arrays over the devices of all processes, of which every process gives what it has.

    A dimension of `global_shape` is None where the processes' data follow each other along it, or
    of the size of the local data where every process has all of it. Trees of shardings, data and
    shapes are taken too. Raises ValueError for sizes that do not fit the sharding.
    """
    leaves, treedef = tree.flatten(local_data)
    shardings = tree.flatten_axes("sharding", treedef, sharding)
    if global_shape is None or _is_shape(global_shape):
        shapes = [global_shape] * len(leaves)
    else:
        shapes = treedef.flatten_up_to(global_shape)
    made = [
        _from_local(one, data, shape)
        for one, data, shape in zip(shardings, leaves, shapes, strict=True)
    ]
    return tree.unflatten(treedef, made)


def _is_shape(x: Any) -> bool:
    return isinstance(x, tuple | list) and all(size is None or isinstance(size, int) for size in x)


def _from_local(sharding: Sharding, data: Any, global_shape: Any) -> Array:
    _check_sharding("make_array_from_process_local_data", sharding)
    local = as_value(data)
    assert isinstance(local, Array)
    if sharding.is_fully_addressable:
        if global_shape is not None and tuple(global_shape) != local.shape:
            raise ValueError(
                "In a single process, global_shape should be None or that of local_data. Got "
                f"global_shape={tuple(global_shape)} and local_data.shape={local.shape}."
            )
        return placed_array(local, sharding)
    tiling = sharding.tiling(local.ndim)
    given = (None,) * local.ndim if global_shape is None else tuple(global_shape)
    if len(given) != local.ndim:
        raise ValueError(f"global_shape {given} has another rank than local_data {local.shape}")
    pairs = list(zip(sharding.device_tuple, tiling.positions, strict=True))
    own = [position for device, position in pairs if is_local(device)]
    # The tiles of this process along each dimension, in order.
    tiles = [sorted({position[dimension] for position in own}) for dimension in range(local.ndim)]
    shape = tuple(
        _global_size(dimension, local.shape[dimension], count, len(tiles[dimension]), wanted)
        for dimension, (count, wanted) in enumerate(zip(tiling.counts, given, strict=True))
    )
    part_shape = sharding.shard_shape(shape)
    value, parts = local._value, []
    aval = ShapedArray(part_shape, local.aval.dtype)
    for position in own:
        index = []
        for dimension, tile in enumerate(position):
            complete = shape[dimension] == local.shape[dimension]
            place = tile if complete else tiles[dimension].index(tile)
            size = part_shape[dimension]
            index.append(slice(place * size, (place + 1) * size))
        device = sharding.local_device_tuple[len(parts)]
        parts.append(Array(value[(*index, ...)], aval, device))
    return make_sharded(ShapedArray(shape, local.aval.dtype), sharding, parts)


def _global_size(dimension: int, size: int, count: int, own: int, wanted: int | None) -> int:
    """The size of a dimension of the whole array, `own` of whose `count` tiles are local data."""
    if wanted == size:
        return size
    inferred = size * count // own
    if wanted not in (None, inferred) or size * count % own:
        raise ValueError(
            f"Dimension {dimension} of global_shape is {wanted}, but local_data has size {size} "
            f"there, {own} of {count} parts: it must be {inferred}, or {size} if every process has "
            "all of it"
        )
    return inferred


# -- one row each --------------------------------------------------------------------------------


def device_put_sharded(shards: Sequence[Any], devices: Sequence[Device]) -> Any:
    """The trees `shards`, one on each device, stacked along a new first dimension.

    Raises ValueError unless there is one for each device and all are of one type.
    """
    shards, devices = list(shards), list(devices)
    if len(shards) != len(devices) or not shards:
        raise ValueError(
            f"device_put_sharded needs one tree for each device, got len(shards) = {len(shards)} "
            f"and len(devices) = {len(devices)}"
        )
    sharding = _rows("_device_put_sharded", devices)
    return tree.map(lambda *rows: _stacked(rows, sharding), *shards)


def _rows(name: str, devices: Sequence[Device]) -> NamedSharding:
    return NamedSharding(Mesh(np.array(devices, dtype=object), (name,)), PartitionSpec(name))


def _stacked(rows: Sequence[Any], sharding: NamedSharding) -> ShardedArray:
    values: list[Any] = [as_value(row) for row in rows]
    aval = values[0].aval
    for value in values:
        if value.aval.shape != aval.shape or value.aval.dtype != aval.dtype:
            raise ValueError(
                "the shards passed to device_put_sharded must have consistent shape and dtype, but "
                f"got {aval.str_short()} and {value.aval.str_short()}."
            )
    part = ShapedArray((1, *aval.shape), aval.dtype)
    parts = [
        Array(value._value[None], part, device)
        for value, device in zip(values, sharding.device_tuple, strict=True)
    ]
    return make_sharded(ShapedArray((len(rows), *aval.shape), aval.dtype), sharding, parts)


def device_put_replicated(x: Any, devices: Sequence[Device]) -> Any:
    """The tree `x` on each device, stacked along a new first dimension."""
    devices = list(devices)
    if not devices:
        raise ValueError("`devices` argument to device_put_replicated must be a non-empty sequence")
    sharding = _rows("_device_put_sharded", devices)
    return tree.map(lambda leaf: _stacked([leaf] * len(devices), sharding), x)
