"""The names of the routines that compute elementary functions in lanes, from value to value.

A kernel of many such functions calls them (`legalise.py`); `library/functions.py` writes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tetrax.ir.kernel_types import F32, F64, ScalarType

_TYPES = {type.name: type for type in (F32, F64)}
_SYMBOL = re.compile(r"tetrax_function_(\w+)_(f32|f64)_(\d+)")


@dataclass(frozen=True)
class Function:
    """An operation on values of a type, so many at a time."""

    operation: str
    type: ScalarType
    lanes: int


def function_symbol(operation: str, type: ScalarType, lanes: int) -> str:
    """The name of a routine."""
    return f"tetrax_function_{operation}_{type.name}_{lanes}"


def function_of(symbol: str) -> Function | None:
    """What a routine of this name computes; None for other names."""
    found = _SYMBOL.fullmatch(symbol)
    return Function(found[1], _TYPES[found[2]], int(found[3])) if found else None
