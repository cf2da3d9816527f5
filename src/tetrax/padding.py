"""Making axes divide over devices, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import tree
from tetrax.ops import axes as ax
from tetrax.ops.join import pad
from tetrax.ops.slicing import slice_in_dim
from tetrax.ops.structure import reshape
from tetrax.runtime.array import as_value, make_array
from tetrax.runtime.devices import local_device_count
from tetrax.tracing.value import get_aval


def pad_to_devices(
    x: Any, count: int | None = None, *, axis: int = 0, split: bool = False
) -> tuple[Any, Any]:
    """The tree `x` with an axis padded by zeros until `count` devices divide it, and a mask.

    The mask is float32, one where a row is real and zero where it is padding, and of the size of
    the padded axis. With `split` the axis becomes two, (count, rows of each device), of the arrays
    and of the mask, as `pmap` takes them. `count` is the number of local devices unless given. A
    mean stays exact as `psum((v * mask).sum()) / psum(mask.sum())`. Raises ValueError where the
    arrays' axes differ in size.

    >>> padded, mask = pad_to_devices(np.arange(3.0), 2)
    >>> padded, mask
    (Array([0., 1., 2., 0.], dtype=float32), Array([1., 1., 1., 0.], dtype=float32))
    """
    count = local_device_count() if count is None else count
    if count < 1:
        raise ValueError(f"pad_to_devices takes a positive number of devices, got {count}")
    leaves, treedef = tree.flatten(x)
    values = [as_value(leaf) for leaf in leaves]
    places = [ax.canonical_axis(axis, get_aval(v).ndim) for v in values]
    sizes = {get_aval(v).shape[place] for v, place in zip(values, places, strict=True)}
    if len(sizes) != 1:
        raise ValueError(
            f"pad_to_devices takes arrays whose axis {axis} has one size, got {sorted(sizes)}"
        )
    size = sizes.pop()
    rows = -(-size // count)
    padded = [
        _padded(v, place, rows * count, count if split else None)
        for v, place in zip(values, places, strict=True)
    ]
    mask = (np.arange(rows * count) < size).astype(np.float32)
    return tree.unflatten(treedef, padded), make_array(mask.reshape(count, rows) if split else mask)


def _padded(x: Any, axis: int, size: int, count: int | None) -> Any:
    aval = get_aval(x)
    zero = make_array(np.zeros((), aval.dtype))
    edges = [(0, size - n if i == axis else 0, 0) for i, n in enumerate(aval.shape)]
    grown = pad(x, zero, edges)
    if count is None:
        return grown
    shape = aval.shape
    return reshape(grown, (*shape[:axis], count, size // count, *shape[axis + 1 :]))


def unpad(x: Any, size: int, *, axis: int = 0, split: bool = False) -> Any:
    """The first `size` rows of the arrays of the tree `x`: what `pad_to_devices` began with.

    With `split` the axis is two, as `pad_to_devices(..., split=True)` makes them.

    >>> padded, _ = pad_to_devices(np.arange(3.0), 2, split=True)
    >>> unpad(padded, 3, split=True)
    Array([0., 1., 2.], dtype=float32)
    """

    def one(leaf: Any) -> Any:
        value = as_value(leaf)
        shape = get_aval(value).shape
        place = ax.canonical_axis(axis, len(shape))
        if split:
            joined = shape[place] * shape[place + 1]
            value = reshape(value, (*shape[:place], joined, *shape[place + 2 :]))
        return slice_in_dim(value, 0, size, axis=place)

    return tree.map(one, x)
