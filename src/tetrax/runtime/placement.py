"""Putting values on devices and getting them back."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
from tetrax import dtypes, tree
from tetrax.runtime.array import Array, as_value
from tetrax.runtime.devices import Device, devices
from tetrax.runtime.mesh_context import current_mesh
from tetrax.runtime.partition_spec import PartitionSpec
from tetrax.runtime.resharding import commit, put_on_sharding, renewed
from tetrax.runtime.sharded_array import ShardedArray
from tetrax.runtime.shardings import NamedSharding, Sharding
from tetrax.tracing.trace import Tracer
from tetrax.tracing.value import Value, get_aval

_TARGETS = (Device, Sharding, PartitionSpec, str)


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None
) -> Any:
    """The tree `x` as arrays on `device`: a Device, a sharding, or a tree of them.

    With `donate` the arrays of `x` are deleted. Raises ValueError for shapes that a sharding does
    not fit.

    >>> device_put(np.arange(2))
    Array([0, 1], dtype=int32)
    """
    simple = device is None or isinstance(device, _TARGETS)
    if simple and not donate:
        target = _target(device)
        return tree.map(lambda leaf: _put(leaf, target), x)
    leaves, treedef = tree.flatten(x)
    targets = tree.flatten_axes("device_put device", treedef, device)
    gifts = tree.flatten_axes("device_put donate", treedef, donate)
    aliases = tree.flatten_axes("device_put may_alias", treedef, may_alias)
    placed = []
    for leaf, target, gift, alias in zip(leaves, targets, gifts, aliases, strict=True):
        if gift and alias:
            raise ValueError("may_alias and donate cannot be True at the same time.")
        value = _put(leaf, _target(target))
        placed.append(_taken(leaf, value) if gift else value)
    return tree.unflatten(treedef, placed)


def _taken(leaf: Any, value: Any) -> Any:
    """`value`, after its source has been deleted."""
    if not isinstance(leaf, Array) or value is leaf:
        return value
    kept = renewed(value)
    leaf.delete()
    return kept


def _target(device: Any) -> Device | Sharding | None:
    """What a target given by the user means. Raises ValueError for other objects."""
    if device is None or isinstance(device, Device | Sharding):
        return device
    if isinstance(device, PartitionSpec):
        mesh = current_mesh()
        if mesh.empty:
            raise ValueError(
                "Please set a mesh via `tetrax.set_mesh` if a PartitionSpec is passed to device_put"
            )
        return NamedSharding(mesh, device)
    if isinstance(device, str):
        return devices(device)[0]
    raise ValueError(
        "device_put only accepts None, a Device, a tetrax.sharding.Sharding, or a tree of these. "
        f"Received invalid value: {device!r:.200}"
    )


def _put(leaf: Any, target: Device | Sharding | None) -> Any:
    if isinstance(leaf, Tracer):
        return leaf
    try:
        value = as_value(leaf)
    except TypeError:
        raise TypeError(
            f"Cannot interpret value of type {type(leaf)} as an abstract array; it does not have a "
            "dtype attribute"
        ) from None
    if target is None or not isinstance(value, Array):
        return value
    return placed_array(value, target)


def placed_array(array: Array, target: Device | Sharding) -> Array:
    """The array on a device or laid out as a sharding says."""
    if isinstance(target, Device):
        return commit(array, target)
    return put_on_sharding(array, target)


def put_array(array: Array, target: Any) -> Array:
    """The array on whatever `device_put` takes as its target."""
    found = _target(target)
    return array if found is None else placed_array(array, found)


def put_known(x: Any, target: Any) -> Any:
    """The same for values that may be traced, which stay where they are."""
    return x if target is None or not isinstance(x, Array) else put_array(x, target)


def sharding_for(model: Any, shape: tuple[int, ...]) -> Sharding | None:
    """How a new array of that shape lies that is made after `model`: as it does, if sharded."""
    if isinstance(model, ShardedArray) and model.aval.shape == shape:
        return model.sharding
    return None


def device_get(x: Any) -> Any:
    """The tree `x` with NumPy arrays in place of arrays.

    >>> type(device_get(device_put(1.0))).__name__
    'ndarray'
    """
    return tree.map(_get, x)


def _get(leaf: Any) -> Any:
    if isinstance(leaf, Value):
        if isinstance(leaf.dtype, dtypes.ExtendedDType):
            return leaf
        return np.array(leaf)
    return leaf


def block_until_ready(x: Any) -> Any:
    """`x` itself, once all its arrays are computed."""
    for leaf in tree.leaves(x):
        if hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()
    return x


def copy_to_host_async(x: Any) -> Any:
    """`x` itself: CPU arrays are on the host already."""
    return x


def live_arrays(platform: str | None = None) -> list[Array]:
    """All arrays that are alive and not deleted; the parts of others are left out."""
    found = [x for x in gc.get_objects() if isinstance(x, Array) and not x.is_deleted()]
    parts = {id(part) for x in found if isinstance(x, ShardedArray) for part in x._shards}
    return [x for x in found if id(x) not in parts]


def typeof(x: Any) -> Any:
    """The type (shape, dtype, weak type) of a value.

    >>> typeof(1.0)
    ShapedArray(float32[], weak_type=True)
    """
    return get_aval(x)
