"""Putting values on devices and getting them back."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
from tetrax import dtypes, tree
from tetrax.runtime.array import Array, as_value
from tetrax.runtime.devices import Device, devices
from tetrax.runtime.shardings import Sharding, SingleDeviceSharding
from tetrax.tracing.trace import Tracer
from tetrax.tracing.value import Value, get_aval


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: bool = False, may_alias: Any = None
) -> Any:
    """The tree `x` as arrays on `device` (a Device, a sharding, or a tree of them).

    >>> device_put(np.arange(2))
    Array([0, 1], dtype=int32)
    """
    if device is None or isinstance(device, Device | Sharding | str):
        return tree.map(lambda leaf: _put(leaf, device), x)
    leaves, treedef = tree.flatten(x)
    targets = tree.flatten_axes("device_put device", treedef, device)
    placed = [_put(leaf, target) for leaf, target in zip(leaves, targets, strict=True)]
    return tree.unflatten(treedef, placed)


def _put(leaf: Any, device: Any) -> Any:
    if isinstance(leaf, Tracer):
        return leaf
    try:
        value = as_value(leaf)
    except TypeError:
        raise TypeError(
            f"Cannot interpret value of type {type(leaf)} as an abstract array; it does not have a "
            "dtype attribute"
        ) from None
    target = _device_of(device)
    if target is None or not isinstance(value, Array):
        return value
    return Array(value._value, value.aval, target)


def _device_of(device: Any) -> Device | None:
    if device is None or isinstance(device, Device):
        return device
    if isinstance(device, SingleDeviceSharding):
        return device.device
    if isinstance(device, str):
        return devices(device)[0]
    owned = sorted(device.device_set, key=lambda d: d.id)
    return owned[0]


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
    """All arrays that are alive and not deleted."""
    return [x for x in gc.get_objects() if type(x) is Array and not x.is_deleted()]


def typeof(x: Any) -> Any:
    """The type (shape, dtype, weak type) of a value.

    >>> typeof(1.0)
    ShapedArray(float32[], weak_type=True)
    """
    return get_aval(x)
