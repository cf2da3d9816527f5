"""Constants of the kernel IR and the arithmetic on them that is done while expressions are built.

An integer constant holds its value as a Python int, a bool constant a bool, a floating-point one
the bits of its value as an int: so NaNs compare equal to themselves and the two zeros do not.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax.ir.kernel_expr import Expr, make
from tetrax.ir.kernel_types import BOOL, ScalarType

_STRUCT_CODE = {32: "<f", 64: "<d"}
_BITS_DTYPE = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def wrap(value: int, type: ScalarType) -> int:
    """An integer reduced to the range of an integer type, two's complement."""
    return (value - type.minimum) % (1 << type.bits) + type.minimum


def float_bits(value: float, type: ScalarType) -> int:
    """Bits of a value rounded to a floating-point type."""
    code = _STRUCT_CODE.get(type.bits) if type.is_float else None
    if code is not None:
        try:
            return int.from_bytes(struct.pack(code, value), "little")
        except OverflowError:
            value = math.copysign(math.inf, value)
            return int.from_bytes(struct.pack(code, value), "little")
    array = np.array(value, dtype=np.float64)
    with np.errstate(over="ignore"):
        narrowed = array.astype(type.dtype)
    return int(narrowed.view(_BITS_DTYPE[type.bytes]))


def bits_value(bits: int, type: ScalarType) -> float:
    """The value that bits of a floating-point type stand for."""
    return float(np.array(bits, dtype=_BITS_DTYPE[type.bytes]).view(type.dtype).astype(np.float64))


def const(value: Any, type: ScalarType) -> Expr:
    """A constant; integers wrap to the type, floats round to it.

    `value` may be anything NumPy makes a scalar of; bits of integers wider than 53 bits are kept.
    """
    if type.is_integer:
        return make("const", type, (), wrap(int(value), type))
    if type.is_bool:
        return make("const", type, (), bool(value))
    if isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    return make("const", type, (), float_bits(float(value), type))


def const_from_bits(bits: int, type: ScalarType) -> Expr:
    """A floating-point constant given by its bits (for tables and NaN payloads)."""
    return make("const", type, (), bits)


def const_value(node: Expr) -> int | float | bool:
    """The Python value of a constant node."""
    if node.type.is_integer or node.type.is_bool:
        return node.data
    return bits_value(node.data, node.type)


def is_const(node: Expr, value: int | None = None) -> bool:
    """Whether a node is a constant, or that integer or bool constant."""
    if node.op != "const":
        return False
    return value is None or (not node.type.is_float and node.data == value)


def divide_integers(a: int, b: int, type: ScalarType) -> int:
    """Integer division as the kernel IR defines it (never traps)."""
    if b == 0:
        return wrap(-1, type)
    quotient = abs(a) // abs(b)
    return wrap(quotient if (a < 0) == (b < 0) else -quotient, type)


def remainder_integers(a: int, b: int) -> int:
    """Remainder with the sign of the dividend; by zero it is the dividend."""
    if b == 0:
        return a
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _shift_left(a: int, b: int, type: ScalarType) -> int:
    return wrap(a << b, type) if 0 <= b < type.bits else 0


def _shift_right_logical(a: int, b: int, type: ScalarType) -> int:
    return wrap((a % (1 << type.bits)) >> b, type) if 0 <= b < type.bits else 0


def _shift_right_arithmetic(a: int, b: int, type: ScalarType) -> int:
    if type.is_signed:
        return a >> (b if 0 <= b < type.bits else type.bits - 1)
    signed = a - (1 << type.bits) if a >> (type.bits - 1) else a
    return wrap(signed >> (b if 0 <= b < type.bits else type.bits - 1), type)


_INTEGER_FOLDS: dict[str, Callable[[int, int, ScalarType], int]] = {
    "add": lambda a, b, type: wrap(a + b, type),
    "sub": lambda a, b, type: wrap(a - b, type),
    "mul": lambda a, b, type: wrap(a * b, type),
    "div": divide_integers,
    "rem": lambda a, b, type: remainder_integers(a, b),
    "min": lambda a, b, type: min(a, b),
    "max": lambda a, b, type: max(a, b),
    "and": lambda a, b, type: a & b,
    "or": lambda a, b, type: a | b,
    "xor": lambda a, b, type: a ^ b,
    "shl": _shift_left,
    "shr_logical": _shift_right_logical,
    "shr_arithmetic": _shift_right_arithmetic,
}

_COMPARES: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def fold_binary(op: str, a: Expr, b: Expr) -> Expr | None:
    """The constant that an operation on two constants gives, or None where it is not folded."""
    if op in _COMPARES:
        return const(_COMPARES[op](const_value(a), const_value(b)), BOOL)
    if (a.type.is_integer or a.type.is_bool) and op in _INTEGER_FOLDS:
        return const(_INTEGER_FOLDS[op](int(a.data), int(b.data), a.type), a.type)
    return None


def fold_convert(node: Expr, to: ScalarType) -> Expr | None:
    """A converted constant; None where the conversion is not exact and left to the machine code."""
    value = const_value(node)
    if to.is_bool:
        return const(value != 0, BOOL)
    if to.is_float:
        if to.bits == 32 and isinstance(value, int) and abs(value) > 1 << 53:
            return None  # two roundings would follow
        return const(value, to)
    if to.is_integer and not isinstance(value, float):
        return const(int(value), to)
    return None
