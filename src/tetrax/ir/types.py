"""Abstract values: what is known of an array without its elements."""

from __future__ import annotations

import operator
import os
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes

Shape = tuple[int, ...]


class AbstractValue:
    """Base of everything a program variable can be typed with."""

    __slots__ = ()

    # Names of the axes of devices along which the value may differ, where that is tracked.
    vma: frozenset[Any] = frozenset()

    def at_least_strong(self) -> AbstractValue:
        return self


class ShapedArray(AbstractValue):
    """Shape, dtype and weak type of an array; equal types are one and the same object.

    Inside `shard_map` a type also says along which axes of devices the value varies.

    So types are compared and hashed by identity, which every cache of compiled code relies on.

    >>> ShapedArray((2, 3), np.dtype("float32"))
    ShapedArray(float32[2,3])
    >>> ShapedArray([2, 3], np.float32) is ShapedArray((2, 3), np.dtype("float32"))
    True
    """

    __slots__ = ("__weakref__", "dtype", "shape", "vma", "weak_type")

    shape: Shape
    dtype: Any
    weak_type: bool

    def __new__(
        cls,
        shape: Sequence[int],
        dtype: Any,
        weak_type: bool = False,
        vma: frozenset[Any] = frozenset(),
    ) -> ShapedArray:
        if vma:
            return _find_or_make(shape, dtype, weak_type, vma)
        try:
            # The commonest call: all three are in their canonical form.
            found = _types[shape, dtype, weak_type]()
            if found is not None:
                return found
        except (KeyError, TypeError):
            pass
        return _find_or_make(shape, dtype, weak_type)

    def __reduce__(self) -> tuple:
        return ShapedArray, (self.shape, self.dtype, self.weak_type, self.vma)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        total = 1
        for extent in self.shape:
            total *= extent
        return total

    def update(self, **changes: Any) -> ShapedArray:
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "weak_type": self.weak_type,
            "vma": self.vma,
        }
        fields.update(changes)
        return ShapedArray(**fields)

    def strong(self) -> ShapedArray:
        return ShapedArray(self.shape, self.dtype, False, self.vma) if self.weak_type else self

    def varying(self, names: frozenset[Any]) -> ShapedArray:
        """The type of such a value that varies along `names`."""
        if names == self.vma:
            return self
        return ShapedArray(self.shape, self.dtype, self.weak_type, names)

    strip_weak_type = strong

    def at_least_strong(self) -> ShapedArray:
        return self.strong()

    def to_tangent_aval(self) -> ShapedArray:
        return ShapedArray(self.shape, tangent_dtype(self.dtype), self.weak_type, self.vma)

    to_cotangent_aval = to_tangent_aval

    def same_type(self, other: AbstractValue) -> bool:
        """Equal but for the weak type and for what it varies along."""
        return (
            isinstance(other, ShapedArray)
            and self.shape == other.shape
            and self.dtype == other.dtype
        )

    def str_short(self, short_dtypes: bool = False) -> str:
        name = short_dtype_name(self.dtype) if short_dtypes else self.dtype.name
        varies = f"{{V:({','.join(sorted(map(str, self.vma)))})}}" if self.vma else ""
        return f"{name}[{','.join(map(str, self.shape))}]{varies}"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-dimensional array")
        return self.shape[0]

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short()}{weak})"


# --------------------------------------------------------------------------- one object per type


class _Reference(weakref.ref):
    """How the table holds a type: it goes when nobody else holds it."""

    __slots__ = ("key",)
    key: tuple


_types: dict[tuple, _Reference] = {}
# References to types that are gone; taken out of the table under the lock, where no other thread
# can have put a new one in their place meanwhile.
_gone: deque[_Reference] = deque()
# Reentrant: making an object may run finalisers, which may ask for a type.
_lock = threading.RLock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def _find_or_make(
    shape: Sequence[int], dtype: Any, weak_type: bool, vma: frozenset[Any] = frozenset()
) -> ShapedArray:
    """The type in the table that equals these, whatever form they have."""
    dtype = dtype if type(dtype) in _DTYPE_CLASSES else dtypes.numpy_dtype(dtype)
    fields = (tuple([_extent(n) for n in shape]), dtype, bool(weak_type))
    key = (*fields, frozenset(vma)) if vma else fields
    with _lock:
        while _gone:
            dead = _gone.popleft()
            if _types.get(dead.key) is dead:
                del _types[dead.key]
        made = object.__new__(ShapedArray)
        made.shape, made.dtype, made.weak_type = fields
        made.vma = frozenset(vma)
        new = _Reference(made, _gone.append)
        new.key = key
        reference = _types.get(key)
        found = None if reference is None else reference()
        if found is None:
            found, _types[key] = made, new
    return found


def _extent(n: Any) -> Any:
    """A size as a plain int: NumPy's integers are equal to one, but print and divide otherwise."""
    return n if type(n) is int else operator.index(n)


_DTYPE_CLASSES: set[type] = {type(np.dtype(code)) for code in "?bhilqBHILQefdFD"}

_SHORT_PREFIXES = {
    "float": "f",
    "uint": "u",
    "int": "i",
    "complex": "c",
    "bfloat": "bf",
}


def short_dtype_name(dtype: Any) -> str:
    """`f32` for float32, `bool` for bool, as printed in programs."""
    name = dtype.name
    for prefix in ("bfloat", "float", "uint", "int", "complex"):
        if name.startswith(prefix):
            return _SHORT_PREFIXES[prefix] + name[len(prefix) :]
    return name


def tangent_dtype(dtype: Any) -> Any:
    """The dtype of tangents: float0 for what has no derivative."""
    if dtype == dtypes.float0:
        return dtype
    if dtypes.issubdtype(dtype, np.inexact):
        return dtype
    return dtypes.float0


def storage_dtype(dtype: Any) -> np.dtype:
    """The NumPy dtype of the memory behind `dtype`: what an extended dtype stores, or itself."""
    return dtype.storage if isinstance(dtype, dtypes.ExtendedDType) else dtype
