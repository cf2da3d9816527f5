"""`Value`: what concrete arrays and tracers share.

Operators, indexing and the array methods are not defined here: the NumPy front-end installs them
once through `install_operators` (the second of the two late-bound seams).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax.ir.types import ShapedArray


class Value:
    """Base class of arrays and tracers; `aval` says shape, dtype and weak type."""

    __slots__ = ()
    # NumPy's binary operators give way to ours.
    __array_priority__ = 100
    aval: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    def __len__(self) -> int:
        return len(self.aval)

    def describe(self) -> str:
        """A phrase for messages: what this value is and where it was made."""
        return f"{type(self).__name__} of type {self.aval.str_short()}"


def install_operators(table: Mapping[str, Callable[..., Any] | property]) -> None:
    """Give every `Value` the methods of `table` (seam 2, filled by the NumPy front-end)."""
    for name, method in table.items():
        setattr(Value, name, method)


_scalar_avals: dict[tuple[type, bool], ShapedArray] = {}


def get_aval(x: Any) -> ShapedArray:
    """The type of an operand: arrays, tracers, NumPy arrays and scalars, Python scalars.

    Raises TypeError for anything else.
    """
    if isinstance(x, Value):
        return x.aval
    if isinstance(x, np.ndarray | np.generic):
        return ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype))
    if isinstance(x, bool | int | float | complex):
        return ShapedArray((), dtypes.dtype(x, canonicalize=True), weak_type=type(x) is not bool)
    raise TypeError(
        f"Value {_short(x)!r} of type {type(x).__name__} is not a valid Tetrax operand: "
        "pass an array, a NumPy array or a number"
    )


def is_operand(x: Any) -> bool:
    """Whether `get_aval` takes `x`."""
    return isinstance(x, Value | np.ndarray | np.generic | bool | int | float | complex)


def _short(x: Any) -> str:
    text = repr(x)
    return text if len(text) < 60 else text[:57] + "..."
