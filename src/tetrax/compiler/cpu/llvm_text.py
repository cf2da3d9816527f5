"""How kernel types and constants are spelled in LLVM IR."""

from __future__ import annotations

import struct

from tetrax.ir.kernel_constants import bits_value
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_types import ALL_TYPES, ScalarType

_REGISTER = {
    type: {"bool": "i1", "float": "float" if type.bits == 32 else "double"}.get(
        type.kind, f"i{type.bits}"
    )
    for type in ALL_TYPES
}
_MEMORY = {type: f"i{8 * type.bytes}" if type.bits < 8 else _REGISTER[type] for type in ALL_TYPES}
_INTRINSIC = {
    type: {"float": "f32", "double": "f64"}.get(_REGISTER[type], _REGISTER[type])
    for type in ALL_TYPES
}


def vector_text(scalar: str, lanes: int) -> str:
    """A scalar type, or the vector of it."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def register_type(type: ScalarType, lanes: int = 1) -> str:
    """The LLVM type of a value in registers."""
    return vector_text(_REGISTER[type], lanes)


def memory_type(type: ScalarType, lanes: int = 1) -> str:
    """The LLVM type of elements in memory; types narrower than a byte take one."""
    return vector_text(_MEMORY[type], lanes)


def intrinsic_suffix(type: ScalarType, lanes: int = 1) -> str:
    """The suffix of an overloaded intrinsic, such as v8f32."""
    return _INTRINSIC[type] if lanes == 1 else f"v{lanes}{_INTRINSIC[type]}"


def float_literal(value: float) -> str:
    """A floating-point literal; LLVM spells f32 constants as f64 bits too."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def constant_literal(node: Expr) -> str:
    """The literal of a constant node of scalar type."""
    if node.type.is_bool:
        return "true" if node.data else "false"
    if not node.type.is_float:
        return str(node.data)
    value = bits_value(node.data, node.type)
    if value == value:
        return float_literal(value)
    if node.type.bits == 64:
        return f"0x{node.data:016X}"
    sign, payload = node.data >> 31, node.data & 0x7FFFFF
    return f"0x{(sign << 63) | (0x7FF << 52) | (payload << 29):016X}"


def constant_text(node: Expr, lanes: int = 1) -> str:
    """The literal of a constant node, repeated in every lane."""
    literal = constant_literal(node)
    return literal if lanes == 1 else f"splat ({_REGISTER[node.type]} {literal})"


def lane_numbers(lanes: int) -> str:
    """The vector 0, 1, 2 … of i64."""
    return "<" + ", ".join(f"i64 {lane}" for lane in range(lanes)) + ">"
