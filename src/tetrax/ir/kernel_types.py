"""Scalar types of the kernel IR: what one lane of a register or one element of memory holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes

import numpy as np
from tetrax.errors import KernelError


@dataclass(frozen=True, eq=False)
class ScalarType:
    """One scalar type; interned, so types compare by identity.

    `kind` is 'bool', 'int', 'uint', 'float' or 'storage'. Storage types (narrow floats) may only be
    loaded, stored, selected, bitcast and converted; arithmetic on them happens in f32.
    `bits` is the width of the value; `bytes` is what one element takes in memory.
    """

    name: str
    kind: str
    bits: int
    dtype: np.dtype

    @property
    def bytes(self) -> int:
        """Size of one element in memory; types narrower than a byte take one byte."""
        return max(1, self.bits // 8)

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.kind == "int"

    @property
    def is_float(self) -> bool:
        """True for f32 and f64, the types arithmetic is done in."""
        return self.kind == "float"

    @property
    def is_storage(self) -> bool:
        """True for the narrow floating-point types that only memory holds."""
        return self.kind == "storage"

    @property
    def minimum(self) -> int:
        """Smallest value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def maximum(self) -> int:
        """Largest value of an integer type."""
        return (1 << (self.bits - 1)) - 1 if self.kind == "int" else (1 << self.bits) - 1

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return type_named, (self.name,)


def _type(name: str, kind: str, bits: int, dtype: Any) -> ScalarType:
    return ScalarType(name, kind, bits, np.dtype(dtype))


BOOL = _type("bool", "bool", 1, np.bool_)
I2 = _type("i2", "int", 2, ml_dtypes.int2)
I4 = _type("i4", "int", 4, ml_dtypes.int4)
I8 = _type("i8", "int", 8, np.int8)
I16 = _type("i16", "int", 16, np.int16)
I32 = _type("i32", "int", 32, np.int32)
I64 = _type("i64", "int", 64, np.int64)
U2 = _type("u2", "uint", 2, ml_dtypes.uint2)
U4 = _type("u4", "uint", 4, ml_dtypes.uint4)
U8 = _type("u8", "uint", 8, np.uint8)
U16 = _type("u16", "uint", 16, np.uint16)
U32 = _type("u32", "uint", 32, np.uint32)
U64 = _type("u64", "uint", 64, np.uint64)
F32 = _type("f32", "float", 32, np.float32)
F64 = _type("f64", "float", 64, np.float64)
F16 = _type("f16", "storage", 16, np.float16)
BF16 = _type("bf16", "storage", 16, ml_dtypes.bfloat16)
F8E3M4 = _type("f8e3m4", "storage", 8, ml_dtypes.float8_e3m4)
F8E4M3 = _type("f8e4m3", "storage", 8, ml_dtypes.float8_e4m3)
F8E4M3FN = _type("f8e4m3fn", "storage", 8, ml_dtypes.float8_e4m3fn)
F8E4M3FNUZ = _type("f8e4m3fnuz", "storage", 8, ml_dtypes.float8_e4m3fnuz)
F8E4M3B11FNUZ = _type("f8e4m3b11fnuz", "storage", 8, ml_dtypes.float8_e4m3b11fnuz)
F8E5M2 = _type("f8e5m2", "storage", 8, ml_dtypes.float8_e5m2)
F8E5M2FNUZ = _type("f8e5m2fnuz", "storage", 8, ml_dtypes.float8_e5m2fnuz)
F8E8M0FNU = _type("f8e8m0fnu", "storage", 8, ml_dtypes.float8_e8m0fnu)
F4E2M1FN = _type("f4e2m1fn", "storage", 4, ml_dtypes.float4_e2m1fn)

SIGNED_TYPES = (I2, I4, I8, I16, I32, I64)
UNSIGNED_TYPES = (U2, U4, U8, U16, U32, U64)
INTEGER_TYPES = SIGNED_TYPES + UNSIGNED_TYPES
FLOAT_TYPES = (F32, F64)
STORAGE_TYPES = (
    F16,
    BF16,
    F8E3M4,
    F8E4M3,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E4M3B11FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    F4E2M1FN,
)
ALL_TYPES = (BOOL, *INTEGER_TYPES, *FLOAT_TYPES, *STORAGE_TYPES)
INDEX = I64
"""The type of loop variables and of element offsets."""

_BY_NAME = {type.name: type for type in ALL_TYPES}
_BY_DTYPE = {type.dtype: type for type in ALL_TYPES}
_UNSIGNED_BY_BITS = {type.bits: type for type in UNSIGNED_TYPES}
_SIGNED_BY_BITS = {type.bits: type for type in SIGNED_TYPES}


def scalar_type(dtype: np.dtype) -> ScalarType:
    """The scalar type that holds elements of a NumPy dtype.

    Complex dtypes have none: memory holds pairs of their real type, see `complex_part`.

    >>> scalar_type(np.dtype('float32'))
    f32
    """
    storage = getattr(dtype, "storage", dtype)  # extended dtypes (PRNG keys) name what they store
    found = _BY_DTYPE.get(storage)
    if found is None:
        raise KernelError(
            f"no kernel scalar type for dtype {dtype}; complex values are lowered to pairs of "
            "their real type, and object or string dtypes cannot be compiled"
        )
    return found


def complex_part(dtype: np.dtype) -> ScalarType:
    """The real scalar type of a complex dtype's two halves."""
    return {np.dtype("complex64"): F32, np.dtype("complex128"): F64}[dtype]


def type_named(name: str) -> ScalarType:
    """The scalar type of a given printed name."""
    return _BY_NAME[name]


def unsigned_of(bits: int) -> ScalarType:
    """The unsigned integer type of a given width."""
    return _UNSIGNED_BY_BITS[bits]


def signed_of(bits: int) -> ScalarType:
    """The signed integer type of a given width."""
    return _SIGNED_BY_BITS[bits]
