"""Working together from several processes: the same values everywhere, points where all meet.

These functions are called by all processes, in the same order. On one process they say what they
would say on several, and exchange nothing. Values keep their dtypes, 64-bit ones too.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tetrax import tree_util
from tetrax.errors import ProcessError
from tetrax.ir.types import storage_dtype
from tetrax.runtime import devices, processes
from tetrax.runtime.array import Array
from tetrax.runtime.array_from_parts import make_array_from_single_device_arrays
from tetrax.runtime.devices import Device
from tetrax.runtime.mesh import Mesh
from tetrax.runtime.partition_spec import PartitionSpec
from tetrax.runtime.placement import device_put
from tetrax.runtime.processes import ProcessGroup
from tetrax.runtime.sharded_array import ShardedArray
from tetrax.runtime.shardings import NamedSharding, shard_layout

__all__ = [
    "ProcessFailureError",
    "assert_equal",
    "broadcast_one_to_all",
    "global_array_to_host_local_array",
    "host_local_array_to_global_array",
    "live_devices",
    "process_allgather",
    "reached_preemption_sync_point",
    "sync_global_devices",
]

ProcessFailureError = ProcessError

_CHANNEL = -1
"""The channel of these functions; programs use others."""
_TEXT_BYTES = 400
_one_at_a_time = threading.RLock()


def _everyone() -> ProcessGroup | None:
    """The group of all processes, or None where there is one."""
    size = devices.process_count()
    return None if size == 1 else processes.group(range(size), _CHANNEL)


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The tree of one process in all of them, as NumPy arrays.

    Args:
        in_tree: a tree of arrays, of the same shapes and dtypes in each process.
        is_source: whether this is the process to take it from; by default that is process 0.
    """
    leaves, structure = tree_util.tree_flatten(in_tree)
    arrays = [np.asarray(leaf) for leaf in leaves]
    group = _everyone()
    if group is None:
        return structure.unflatten(arrays)
    with _one_at_a_time:
        _check_same(group, "broadcast_one_to_all", structure, arrays)
        root = 0 if is_source is None else _source(group, is_source)
        results = []
        for array in arrays:
            buffer = np.array(array, order="C")
            group.broadcast(buffer, root)
            results.append(buffer)
    return structure.unflatten(results)


def _source(group: ProcessGroup, is_source: bool) -> int:
    flags = np.empty(group.size, np.uint8)
    group.all_gather(np.array([is_source], np.uint8), flags)
    sources = [int(rank) for rank in np.flatnonzero(flags)]
    if len(sources) != 1:
        raise ValueError(
            "broadcast_one_to_all needs one process with is_source=True, but there are "
            f"{len(sources)}: {sources}."
        )
    return sources[0]


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The trees of all processes in each of them, as NumPy arrays.

    Args:
        in_tree: a tree of arrays, of the same shapes and dtypes in each process.
        tiled: concatenate along the first axis; otherwise the results have a new first axis, of
            the processes. Scalars always get one. Arrays that lie on devices of several processes
            need `tiled=True`, and come out whole.
    """
    leaves, structure = tree_util.tree_flatten(in_tree)
    group = _everyone()
    results = []
    with _one_at_a_time:
        local = [np.asarray(leaf) for leaf in leaves if not _is_spread(leaf)]
        if group is not None:
            _check_same(group, "process_allgather", structure, local)
        for leaf in leaves:
            if not _is_spread(leaf):
                results.append(_gathered(group, np.asarray(leaf), tiled))
            elif tiled:
                results.append(_whole(leaf))
            else:
                raise ValueError(
                    "Gathering global non-fully-addressable arrays only supports tiled=True"
                )
    return structure.unflatten(results)


def _is_spread(leaf: Any) -> bool:
    """Whether an array lies on devices of several processes."""
    return isinstance(leaf, Array) and not leaf.is_fully_addressable


def _gathered(group: ProcessGroup | None, array: np.ndarray, tiled: bool) -> np.ndarray:
    if group is None:
        return array if tiled else array[None]
    size = group.size
    stacked = np.empty((size, *array.shape), array.dtype)
    group.all_gather(np.ascontiguousarray(array), stacked)
    if tiled and array.ndim:
        return stacked.reshape(size * array.shape[0], *array.shape[1:])
    return stacked


def _whole(array: ShardedArray) -> np.ndarray:
    """All elements of an array that lies on devices of several processes."""
    sharding, aval = array.sharding, array.aval
    if sharding.is_fully_replicated and sharding.has_addressable_devices:
        return np.asarray(array.addressable_data(0))
    group = _everyone()
    assert group is not None
    layout = shard_layout(sharding, aval.shape)
    # each part once: from the process with the first device that holds it
    owned: list[list[Any]] = [[] for _ in range(group.size)]
    for device in sharding.device_tuple:
        if not layout.replica_ids[device]:
            owned[device.process_index].append(layout.indices[device])
    parts = [np.asarray(shard.data) for shard in array.addressable_shards if shard.replica_id == 0]
    dtype, most = storage_dtype(aval.dtype), max(map(len, owned))
    send = np.zeros((most, *layout.shape), dtype)
    for at, part in enumerate(parts):
        send[at] = part
    received = np.empty((group.size, *send.shape), dtype)
    group.all_gather(send, received)
    whole = np.empty(aval.shape, dtype)
    for rank, indices in enumerate(owned):
        for at, index in enumerate(indices):
            whole[index] = received[rank, at]
    return whole


def _check_same(
    group: ProcessGroup, name: str, structure: Any, arrays: Sequence[np.ndarray]
) -> None:
    """Raise ValueError in every process if trees, shapes or dtypes differ between them."""
    text = f"{structure}, {', '.join(f'{x.dtype}{list(x.shape)}' for x in arrays)}"
    digests = np.empty(group.size, np.uint32)
    group.all_gather(np.array([zlib.crc32(text.encode())], np.uint32), digests)
    if (digests == digests[0]).all():
        return
    encoded = np.zeros(_TEXT_BYTES, np.uint8)
    begin = np.frombuffer(text.encode()[:_TEXT_BYTES], np.uint8)
    encoded[: len(begin)] = begin
    texts = np.empty((group.size, _TEXT_BYTES), np.uint8)
    group.all_gather(encoded, texts)
    other = int(np.flatnonzero(digests != digests[0])[0])
    mine, theirs = (bytes(texts[r]).rstrip(b"\0").decode(errors="ignore") for r in (0, other))
    raise ValueError(
        f"{name} needs the same tree of shapes and dtypes in every process, but process 0 has "
        f"{mine} and process {other} has {theirs}."
    )


def sync_global_devices(name: str) -> None:
    """Wait until all processes are here. Raises AssertionError if they give other names."""
    digest = np.uint32(zlib.crc32(name.encode()))
    assert_equal(digest, f"sync_global_devices name mismatch ('{name}')")


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise AssertionError, in every process, unless all have the same tree of values.

    >>> assert_equal({"step": 3})
    """
    gathered = process_allgather(tree_util.tree_map(_local_value, in_tree))
    for values in tree_util.tree_leaves(gathered):
        if not np.all(np.equal(values, values[:1])):
            raise AssertionError(f"{fail_message}. Expected: {gathered}; got: {in_tree}.")


def _local_value(leaf: Any) -> np.ndarray:
    return np.asarray(leaf.addressable_data(0) if _is_spread(leaf) else leaf)


# --------------------------------------------------------------------------- arrays of all


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays on all devices of a mesh, of which each process gives its part.

    Args:
        local_inputs: a tree of arrays: what the devices of this process are to hold.
        global_mesh: the devices of each process must form a grid in it.
        pspecs: how the whole arrays are cut; a tree of specs, or a prefix of one.
    """
    return _converted(local_inputs, pspecs, lambda x, spec: _to_global(x, global_mesh, spec))


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The parts of arrays that the devices of this process hold, as arrays on these devices."""
    return _converted(global_inputs, pspecs, lambda x, spec: _to_local(x, global_mesh, spec))


def _converted(inputs: Any, pspecs: Any, convert: Any) -> Any:
    leaves, structure = tree_util.tree_flatten(inputs)
    specs = tree_util.broadcast_prefix(pspecs, inputs, lambda x: x is None)
    for spec in specs:
        if not isinstance(spec, PartitionSpec):
            raise ValueError(
                f"`{spec}` is not a valid input to the pspecs argument. Please use "
                "PartitionSpec() if you wanted to replicate your input."
            )
    return structure.unflatten(
        [convert(leaf, spec) for leaf, spec in zip(leaves, specs, strict=True)]
    )


def _to_global(array: Any, mesh: Mesh, spec: PartitionSpec) -> Array:
    if _is_spread(array):
        return array
    local = NamedSharding(mesh.local_mesh, spec)
    put = device_put(array, local)
    parts = [shard.data for shard in put.addressable_shards]
    shape = _scaled(put.shape, local, NamedSharding(mesh, spec))
    return make_array_from_single_device_arrays(shape, NamedSharding(mesh, spec), parts)


def _to_local(array: Any, mesh: Mesh, spec: PartitionSpec) -> Any:
    if not _is_spread(array):
        return array
    local = NamedSharding(mesh.local_mesh, spec)
    whole = device_put(array, NamedSharding(mesh, spec))
    parts = [shard.data for shard in whole.addressable_shards]
    shape = _scaled(whole.shape, NamedSharding(mesh, spec), local)
    return make_array_from_single_device_arrays(shape, local, parts)


def _scaled(shape: tuple[int, ...], of: NamedSharding, to: NamedSharding) -> tuple[int, ...]:
    """The shape under another sharding with the same parts."""
    counts = zip(shape, of.tiling(len(shape)).counts, to.tiling(len(shape)).counts, strict=True)
    return tuple(size // before * after for size, before, after in counts)


# --------------------------------------------------------------------------- ends


class _Preemption:
    """Whether this process has been asked to end."""

    asked = False
    watching = False
    reached = False

    @classmethod
    def note(cls, *_: Any) -> None:
        cls.asked = True


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether all processes are to save their work now, since one has been asked to end (SIGTERM).

    All call it at every step; it is true in all of them at the same one, once. From the first call
    on the signal only leaves a note.
    """
    group = _everyone()
    if group is None and processes.world() is None:
        return False
    if not _Preemption.watching and threading.current_thread() is threading.main_thread():
        _Preemption.watching = True
        signal.signal(signal.SIGTERM, _Preemption.note)
    asked = _Preemption.asked
    if group is not None:
        flags = np.empty((group.size, 2), np.int64)
        with _one_at_a_time:
            group.all_gather(np.array([step_id, asked], np.int64), flags)
        if not (flags[:, 0] == step_id).all():
            raise ValueError(
                "reached_preemption_sync_point must be called with the same step by all processes, "
                f"but they are at the steps {flags[:, 0].tolist()}."
            )
        asked = bool(flags[:, 1].any())
    first = asked and not _Preemption.reached
    _Preemption.reached = _Preemption.reached or asked
    return first


@contextlib.contextmanager
def live_devices(device_list: Sequence[Device]) -> Iterator[list[Device]]:
    """The devices of processes that run, for a block that raises if one of them ends meanwhile."""
    world = processes.world()
    if world is not None:
        world.check()
    yield list(device_list)
    if world is not None:
        world.check()
