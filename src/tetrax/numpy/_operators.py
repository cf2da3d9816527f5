"""What Python's operators do on arrays.

Numbers, NumPy arrays and objects with `__jax_array__` take part; lists and tuples are refused
with a TypeError; anything else gets the chance to handle the operation itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.errors import InPlaceAssignmentError
from tetrax.numpy import _arithmetic, _bits, _contract, _elementwise
from tetrax.numpy._convert import asarray
from tetrax.numpy._index_eager import is_direct, rows
from tetrax.numpy._indexing import getitem
from tetrax.numpy._promote import convert
from tetrax.numpy._reductions import any as any_
from tetrax.numpy._typing import PYTHON_SCALARS, Array
from tetrax.tracing.value import Value

_OPERANDS = (Value, np.ndarray, np.generic, *PYTHON_SCALARS)


def _accepts(other: Any, symbol: str, self: Any) -> bool:
    """Tell whether we handle an operand; raise for sequences, which look as if they would work."""
    if isinstance(other, _OPERANDS) or hasattr(other, "__jax_array__"):
        return True
    if isinstance(other, (list, tuple)):
        raise TypeError(
            f"unsupported operand type(s) for {symbol}: '{type(self).__name__}' and "
            f"'{type(other).__name__}'. Convert the sequence first: jnp.asarray(...)."
        )
    return False


def _binary(symbol: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: Value, other: Any) -> Any:
        if isinstance(other, _OPERANDS) or _accepts(other, symbol, self):
            return function(self, other)
        return NotImplemented

    method.__doc__ = function.__doc__
    return method


def _reflected(symbol: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: Value, other: Any) -> Any:
        if isinstance(other, _OPERANDS) or _accepts(other, symbol, self):
            return function(other, self)
        return NotImplemented

    method.__doc__ = function.__doc__
    return method


def _unary(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def method(self: Value) -> Any:
        return function(self)

    method.__doc__ = function.__doc__
    return method


def _setitem(self: Value, index: Any, value: Any) -> None:
    """Refuse assignment in place, and say what to do instead."""
    raise InPlaceAssignmentError()


def _getitem(self: Value, index: Any, /) -> Array:
    """Return the elements at an index, by NumPy's rules."""
    return getitem(self, index)


def _iter(self: Value) -> Iterator[Array]:
    """Iterate over the first axis."""
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d array")
    if is_direct(self):
        return rows(self)  # type: ignore[arg-type]
    count = self.shape[0]
    return (lax.index_in_dim(self, i, 0, keepdims=False) for i in range(count))


def _contains(self: Value, item: Any) -> bool:
    """Tell whether some element equals a value, which must be known."""
    return bool(any_(_arithmetic.equal(self, asarray(item))))


def _round(self: Value, ndigits: int | None = None) -> Array:
    """Round to a number of digits; without one, to integers."""
    rounded = _elementwise.round(self, ndigits or 0)
    return rounded if ndigits is not None else convert(rounded, dtypes.default_int_dtype())


OPERATORS: dict[str, Any] = {
    "__add__": _binary("+", _arithmetic.add),
    "__radd__": _reflected("+", _arithmetic.add),
    "__sub__": _binary("-", _arithmetic.subtract),
    "__rsub__": _reflected("-", _arithmetic.subtract),
    "__mul__": _binary("*", _arithmetic.multiply),
    "__rmul__": _reflected("*", _arithmetic.multiply),
    "__truediv__": _binary("/", _arithmetic.true_divide),
    "__rtruediv__": _reflected("/", _arithmetic.true_divide),
    "__floordiv__": _binary("//", _arithmetic.floor_divide),
    "__rfloordiv__": _reflected("//", _arithmetic.floor_divide),
    "__mod__": _binary("%", _arithmetic.remainder),
    "__rmod__": _reflected("%", _arithmetic.remainder),
    "__divmod__": _binary("divmod", _arithmetic.divmod),
    "__rdivmod__": _reflected("divmod", _arithmetic.divmod),
    "__pow__": _binary("**", _arithmetic.power),
    "__rpow__": _reflected("**", _arithmetic.power),
    "__matmul__": _binary("@", _contract.matmul),
    "__rmatmul__": _reflected("@", _contract.matmul),
    "__and__": _binary("&", _bits.bitwise_and),
    "__rand__": _reflected("&", _bits.bitwise_and),
    "__or__": _binary("|", _bits.bitwise_or),
    "__ror__": _reflected("|", _bits.bitwise_or),
    "__xor__": _binary("^", _bits.bitwise_xor),
    "__rxor__": _reflected("^", _bits.bitwise_xor),
    "__lshift__": _binary("<<", _bits.left_shift),
    "__rlshift__": _reflected("<<", _bits.left_shift),
    "__rshift__": _binary(">>", _bits.right_shift),
    "__rrshift__": _reflected(">>", _bits.right_shift),
    "__eq__": _binary("==", _arithmetic.equal),
    "__ne__": _binary("!=", _arithmetic.not_equal),
    "__lt__": _binary("<", _arithmetic.less),
    "__le__": _binary("<=", _arithmetic.less_equal),
    "__gt__": _binary(">", _arithmetic.greater),
    "__ge__": _binary(">=", _arithmetic.greater_equal),
    "__neg__": _unary(_arithmetic.negative),
    "__pos__": _unary(_elementwise.positive),
    "__abs__": _unary(_elementwise.abs),
    "__invert__": _unary(_bits.invert),
    "__round__": _round,
    "__getitem__": _getitem,
    "__setitem__": _setitem,
    "__iter__": _iter,
    "__contains__": _contains,
}
