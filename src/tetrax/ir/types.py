"""Abstract values: what is known of an array without its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes

Shape = tuple[int, ...]


class AbstractValue:
    """Base of everything a program variable can be typed with."""

    __slots__ = ()

    def at_least_strong(self) -> AbstractValue:
        return self


class ShapedArray(AbstractValue):
    """Shape, dtype and weak type of an array.

    >>> ShapedArray((2, 3), np.dtype("float32"))
    ShapedArray(float32[2,3])
    """

    __slots__ = ("_hash", "dtype", "shape", "weak_type")

    shape: Shape
    dtype: Any
    weak_type: bool

    def __init__(self, shape: Sequence[int], dtype: Any, weak_type: bool = False) -> None:
        self.shape = shape if type(shape) is tuple else tuple(shape)
        self.dtype = dtype if type(dtype) in _DTYPE_CLASSES else dtypes.numpy_dtype(dtype)
        self.weak_type = weak_type
        self._hash = None

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
        fields = {"shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type}
        fields.update(changes)
        return ShapedArray(**fields)

    def strong(self) -> ShapedArray:
        return ShapedArray(self.shape, self.dtype) if self.weak_type else self

    strip_weak_type = strong

    def at_least_strong(self) -> ShapedArray:
        return self.strong()

    def to_tangent_aval(self) -> ShapedArray:
        return ShapedArray(self.shape, tangent_dtype(self.dtype), self.weak_type)

    to_cotangent_aval = to_tangent_aval

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is ShapedArray
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.weak_type == other.weak_type
        )

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.shape, self.dtype, self.weak_type))
        return self._hash

    def same_type(self, other: AbstractValue) -> bool:
        """Equal but for the weak type."""
        return (
            isinstance(other, ShapedArray)
            and self.shape == other.shape
            and self.dtype == other.dtype
        )

    def str_short(self, short_dtypes: bool = False) -> str:
        name = short_dtype_name(self.dtype) if short_dtypes else self.dtype.name
        return f"{name}[{','.join(map(str, self.shape))}]"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-dimensional array")
        return self.shape[0]

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short()}{weak})"


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
