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

    def __getattr__(self, name: str) -> Any:
        if _operators_missing() and not name.startswith("_"):
            _install()
            return getattr(self, name)
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=self)

    def describe(self) -> str:
        """A phrase for messages: what this value is and where it was made."""
        return f"{type(self).__name__} of type {self.aval.str_short()}"


def install_operators(table: Mapping[str, Callable[..., Any] | property]) -> None:
    """Give every `Value` the methods of `table` (seam 2, filled by the NumPy front-end)."""
    for name, method in table.items():
        setattr(Value, name, method)


# -- until then -----------------------------------------------------------------------------------


def _nothing_to_install() -> None:
    raise RuntimeError("seam 2 is not filled: import tetrax, not one of its modules alone")


_install: Callable[[], None] = _nothing_to_install

_OPERATORS = (
    *("add", "and", "divmod", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow"),
    *("rshift", "sub", "truediv", "xor", "radd", "rand", "rdivmod", "rfloordiv", "rlshift"),
    *("rmatmul", "rmod", "rmul", "ror", "rpow", "rrshift", "rsub", "rtruediv", "rxor"),
    *("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "round"),
    *("getitem", "setitem", "iter", "contains"),
)


class _Late:
    """An operator whose first use has the real ones installed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, value: Any, owner: Any = None) -> Any:
        def operator(*operands: Any) -> Any:
            _install()
            return getattr(value, self.name)(*operands)

        return self if value is None else operator


def set_operators(install: Callable[[], None]) -> None:
    """Say what fills seam 2; it is called when an operator or a method is first used."""
    global _install
    _install = install
    install_operators({f"__{name}__": _Late(f"__{name}__") for name in _OPERATORS})  # type: ignore[dict-item]


def _operators_missing() -> bool:
    return isinstance(vars(Value).get("__add__"), _Late)


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
