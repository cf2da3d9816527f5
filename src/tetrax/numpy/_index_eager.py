"""Indexing outside transformations: NumPy carries it out where it means the same as ours.

It does for positions inside the array. For positions outside, NumPy raises, and the caller takes
the ordinary way, which moves them to the edge, leaves them out, or raises our error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tetrax.compiler.references import QUIET
from tetrax.config import settings, settings_now
from tetrax.ir.types import ShapedArray
from tetrax.runtime.array import Array, as_value, wrap
from tetrax.tracing.trace import EVAL_TRACE, state

_PLAIN = frozenset((int, slice, type(None), type(Ellipsis)))
_SMALL_BYTES = 1 << 16


def is_direct(x: Any) -> bool:
    """Whether `x` is an array outside transformations, and nothing asks for being watched."""
    return type(x) is Array and state.trace is EVAL_TRACE and (settings_now[0] or settings()).direct


def read(x: Array, index: Any) -> Array | None:
    """`x[index]`, or None where the ordinary way must be taken."""
    found = index if type(index) in _PLAIN else _for_numpy(index)
    if found is _NONE_SUCH:
        return None
    npy = x._npy
    try:
        out = npy[found]
    except (IndexError, TypeError, ValueError):
        return None
    if type(out) is not np.ndarray:
        out = np.asarray(out)
    elif out.base is not None and _should_copy(out, npy):
        out = out.copy()
    aval = x.aval
    return wrap(out, ShapedArray(out.shape, aval.dtype, aval.weak_type))


def _should_copy(part: np.ndarray, whole: np.ndarray) -> bool:
    """Whether a view would keep far more memory alive than it needs."""
    if whole.nbytes <= _SMALL_BYTES:
        return part.size < whole.size
    base = part.base
    held = base.nbytes if isinstance(base, np.ndarray) else whole.nbytes
    return 2 * part.nbytes < held


_NONE_SUCH = object()


def _for_numpy(index: Any) -> Any:
    """An index with NumPy arrays in the place of ours, or `_NONE_SUCH`."""
    if type(index) is tuple:
        found = []
        for item in index:
            if type(item) not in _PLAIN:
                item = _array_for_numpy(item)
                if item is _NONE_SUCH:
                    return item
            found.append(item)
        return tuple(found)
    return _array_for_numpy(index)


def _array_for_numpy(item: Any) -> Any:
    if type(item) is Array and item.aval.dtype.kind in "biu":
        npy = item._npy
    elif type(item) is np.ndarray and item.dtype.kind in "biu":
        npy = item
    else:
        return _NONE_SUCH
    # A boolean scalar adds an axis, a rare thing better left to the ordinary way.
    return npy if npy.ndim or npy.dtype.kind != "b" else _NONE_SUCH


def rows(x: Array) -> Iterator[Array]:
    """The parts of `x` along its first axis."""
    aval = x.aval
    row = ShapedArray(aval.shape[1:], aval.dtype, aval.weak_type)
    return (wrap(np.array(part), row) for part in x._npy)


# -- changed copies --------------------------------------------------------------------------------

# What to do with the elements at an index: as a ufunc of old and new ones.
_COMBINE: dict[str, np.ufunc] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}
_TAKERS = {bool: "b", int: "iuf", float: "f"}


def changed(x: Array, index: Any, values: Any, operation: str) -> Array | None:
    """`x` with values combined into its elements at an index, or None for the ordinary way."""
    dtype = x.aval.dtype
    if dtype.kind not in "biuf" or (dtype.kind == "b" and operation != "set"):
        return None
    new = _new_values(values, dtype)
    found = index if type(index) in _PLAIN else _for_numpy(index)
    if new is None or found is _NONE_SUCH:
        return None
    change, restore, ignore = QUIET
    token = change(ignore)
    try:
        out = x._npy.copy()
        if new.ndim > np.ndim(out[found]):
            return None  # NumPy would drop axes of size one
        if operation == "set":
            out[found] = new
        elif _has_arrays(found):
            if dtype.itemsize < 4:
                return None  # sums of repeated positions are rounded once
            _COMBINE[operation].at(out, found, new)
        else:
            out[found] = _COMBINE[operation](out[found], new)
    except (IndexError, TypeError, ValueError):
        return None
    finally:
        restore(token)
    return wrap(out, x.aval)


def _new_values(values: Any, dtype: np.dtype) -> np.ndarray | None:
    if type(values) is Array:
        return values._npy if values.aval.dtype == dtype else None
    if dtype.kind not in _TAKERS.get(type(values), ""):
        return None
    if type(values) is int:
        as_value(values)  # raises where it does not fit the default integer
    return np.asarray(values).astype(dtype)


def _has_arrays(index: Any) -> bool:
    if type(index) is tuple:
        return any(isinstance(item, np.ndarray) for item in index)
    return isinstance(index, np.ndarray)
