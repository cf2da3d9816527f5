"""Which dtypes there are, how they are classed, and what is known of each.

Dtypes are NumPy's own, plus the narrow ones of ml_dtypes, plus *extended* dtypes that NumPy cannot
hold: typed random keys. `issubdtype` is NumPy's, taught about all three.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, TypeAlias, cast

import ml_dtypes

import numpy as np

DType: TypeAlias = np.dtype[Any]

# --------------------------------------------------------------------------- extended dtypes


class extended(np.generic):
    """Scalar class of every dtype that NumPy cannot hold; only for `issubdtype`."""


class prng_key(extended):
    """Scalar class of the dtypes of typed random keys; only for `issubdtype`."""


class ExtendedDType:
    """Base of the dtypes that NumPy cannot hold.

    A subclass gives `type` (its scalar class), `name`, `storage` (the NumPy dtype that holds one
    element in memory) and `itemsize`. Instances are compared by `==` and can be hashed.
    """

    type: ClassVar[type] = extended
    name: str
    storage: DType
    # No NumPy kind: such a dtype is neither integer nor float nor anything else NumPy knows.
    kind: ClassVar[str] = "k"

    @property
    def itemsize(self) -> int:
        """Bytes that one element takes in memory."""
        return self.storage.itemsize

    def __repr__(self) -> str:
        return self.name


_KEY_TAGS = {"threefry2x32": "fry", "rbg": "rbg", "unsafe_rbg": "urbg"}


class KeyDType(ExtendedDType):
    """The dtype of random keys of one generator; there is one instance per generator.

    >>> KeyDType("threefry2x32")
    key<fry>
    >>> KeyDType("threefry2x32") is KeyDType("threefry2x32")
    True
    """

    type: ClassVar[type] = prng_key
    _instances: ClassVar[dict[str, KeyDType]] = {}

    impl_name: str

    def __new__(cls, impl_name: str, tag: str | None = None) -> KeyDType:
        known = cls._instances.get(impl_name)
        if known is not None:
            return known
        self = super().__new__(cls)
        self.impl_name = impl_name
        self.name = f"key<{tag or _KEY_TAGS.get(impl_name, impl_name)}>"
        self.storage = np.dtype(np.uint64)
        return cls._instances.setdefault(impl_name, self)

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyDType, (self.impl_name,)


# --------------------------------------------------------------------------- NumPy dtypes

bfloat16 = ml_dtypes.bfloat16
float8_e3m4 = ml_dtypes.float8_e3m4
float8_e4m3 = ml_dtypes.float8_e4m3
float8_e4m3fn = ml_dtypes.float8_e4m3fn
float8_e4m3fnuz = ml_dtypes.float8_e4m3fnuz
float8_e4m3b11fnuz = ml_dtypes.float8_e4m3b11fnuz
float8_e5m2 = ml_dtypes.float8_e5m2
float8_e5m2fnuz = ml_dtypes.float8_e5m2fnuz
float8_e8m0fnu = ml_dtypes.float8_e8m0fnu
float6_e2m3fn = ml_dtypes.float6_e2m3fn
float6_e3m2fn = ml_dtypes.float6_e3m2fn
float4_e2m1fn = ml_dtypes.float4_e2m1fn
int1 = ml_dtypes.int1
int2 = ml_dtypes.int2
int4 = ml_dtypes.int4
uint1 = ml_dtypes.uint1
uint2 = ml_dtypes.uint2
uint4 = ml_dtypes.uint4

# The tangent of an integer or boolean value: an element without content.
float0: DType = np.dtype([("float0", np.void, 0)])

BOOL: DType = np.dtype(np.bool_)


def _dtypes(*scalar_types: Any) -> tuple[DType, ...]:
    return tuple(np.dtype(scalar_type) for scalar_type in scalar_types)


# Floats narrower than 16 bits never promote on their own accord.
SMALL_FLOATS = _dtypes(
    *(float4_e2m1fn, float6_e2m3fn, float6_e3m2fn, float8_e3m4, float8_e4m3, float8_e8m0fnu),
    *(float8_e4m3b11fnuz, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz),
)
# Integers narrower than 8 bits neither.
SMALL_SIGNED = _dtypes(int1, int2, int4)
SMALL_UNSIGNED = _dtypes(uint1, uint2, uint4)

SIGNED = SMALL_SIGNED + _dtypes(np.int8, np.int16, np.int32, np.int64)
UNSIGNED = SMALL_UNSIGNED + _dtypes(np.uint8, np.uint16, np.uint32, np.uint64)
FLOATS = SMALL_FLOATS + _dtypes(bfloat16, np.float16, np.float32, np.float64)
COMPLEX = _dtypes(np.complex64, np.complex128)
ALL_DTYPES: tuple[DType, ...] = (BOOL, *SIGNED, *UNSIGNED, *FLOATS, *COMPLEX)

_VALID = frozenset((*ALL_DTYPES, float0))

_TO_32_BITS: dict[DType, DType] = {
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.complex64),
}


def narrowed_to_32_bits(dtype: DType) -> DType:
    """Return the 32-bit counterpart of a 64-bit dtype, and any other dtype as it is."""
    return _TO_32_BITS.get(dtype, dtype)


def is_valid(dtype: Any) -> bool:
    """Say whether arrays can have this dtype."""
    return isinstance(dtype, ExtendedDType) or dtype in _VALID


def is_extended(dtype: Any) -> bool:
    """Say whether this is a dtype that NumPy cannot hold, such as a random key's."""
    return isinstance(dtype, ExtendedDType)


# --------------------------------------------------------------------------- classes of dtypes

_FLOAT_CLASSES = (np.floating, np.inexact, np.number, np.generic)
_SIGNED_CLASSES = (np.signedinteger, np.integer, np.number, np.generic)
_UNSIGNED_CLASSES = (np.unsignedinteger, np.integer, np.number, np.generic)

# The scalar types of ml_dtypes do not derive from NumPy's abstract classes: say where they belong.
_CLASSES_OF_NARROW: dict[type, tuple[type, ...]] = {
    **{dtype.type: _FLOAT_CLASSES for dtype in (*SMALL_FLOATS, np.dtype(bfloat16))},
    **{dtype.type: _SIGNED_CLASSES for dtype in SMALL_SIGNED},
    **{dtype.type: _UNSIGNED_CLASSES for dtype in SMALL_UNSIGNED},
}


def issubdtype(a: Any, b: Any) -> bool:
    """Say whether dtype `a` belongs to the class (or is the dtype) `b`.

    >>> issubdtype(bfloat16, np.floating)
    True
    >>> issubdtype(KeyDType("threefry2x32"), prng_key)
    True
    """
    known = (type, np.dtype, ExtendedDType)
    return _issubdtype(
        a if isinstance(a, known) else np.dtype(a), b if isinstance(b, known) else np.dtype(b)
    )


@functools.lru_cache(1024)
def _issubdtype(a: Any, b: Any) -> bool:
    if isinstance(b, ExtendedDType):
        return a == b
    scalar = _scalar_class(a)
    target = _scalar_class(b)
    if scalar in _CLASSES_OF_NARROW:
        return target is scalar or target in _CLASSES_OF_NARROW[scalar]
    return bool(np.issubdtype(scalar, target))


def _scalar_class(dtype: Any) -> type:
    """Return the NumPy scalar class that a dtype, or anything standing for one, belongs to."""
    if isinstance(dtype, ExtendedDType):
        return type(dtype).type
    if isinstance(dtype, type) and issubclass(dtype, np.generic):
        return dtype
    return np.dtype(dtype).type


_KINDS: dict[str, frozenset[DType]] = {
    "bool": frozenset((BOOL,)),
    "signed integer": frozenset(SIGNED),
    "unsigned integer": frozenset(UNSIGNED),
    "integral": frozenset(SIGNED + UNSIGNED),
    "real floating": frozenset(FLOATS),
    "complex floating": frozenset(COMPLEX),
    "numeric": frozenset(SIGNED + UNSIGNED + FLOATS + COMPLEX),
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Say whether `dtype` is of a kind, by the names of the array API standard.

    `kind` is a dtype, one of 'bool', 'signed integer', 'unsigned integer', 'integral',
    'real floating', 'complex floating', 'numeric', or a tuple of these.

    >>> isdtype(np.int32, ("integral", bfloat16))
    True
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    # Every entry is looked at, so that a misspelt one is found out whatever the others say.
    return np.dtype(dtype) in frozenset().union(*map(_members, kinds))


def _members(kind: Any) -> frozenset[DType]:
    if isinstance(kind, str) and kind in _KINDS:
        return _KINDS[kind]
    try:
        return frozenset((np.dtype(kind),))
    except TypeError:
        if isinstance(kind, str):
            raise ValueError(
                f"{kind!r} is neither a dtype nor a kind of dtype; the kinds are "
                + ", ".join(repr(name) for name in _KINDS)
            ) from None
        raise TypeError(f"Expected a dtype, a string or a tuple of them, got {kind!r}.") from None


# --------------------------------------------------------------------------- facts about a dtype

finfo = ml_dtypes.finfo
iinfo = ml_dtypes.iinfo

_WITHOUT_INFINITY = frozenset(
    _dtypes(float8_e4m3b11fnuz, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu)
    + _dtypes(float4_e2m1fn, float6_e2m3fn, float6_e3m2fn)
)


def supports_inf(dtype: Any) -> bool:
    """Say whether the dtype can hold an infinity."""
    return issubdtype(dtype, np.inexact) and np.dtype(dtype) not in _WITHOUT_INFINITY


def itemsize_bits(dtype: Any) -> int:
    """Return how many bits one element has: 4 for int4, though it takes a byte of memory.

    >>> itemsize_bits(int4)
    4
    """
    if dtype is None:
        raise ValueError("A dtype is needed, got None.")
    if issubdtype(dtype, np.bool_):
        return 8
    if issubdtype(dtype, np.integer):
        return int(iinfo(dtype).bits)
    if issubdtype(dtype, np.floating):
        return int(finfo(dtype).bits)
    if issubdtype(dtype, np.complexfloating):
        return 2 * int(finfo(dtype).bits)
    raise ValueError(f"{dtype!r} is not a dtype with a fixed number of bits.")


_SHORT_NAMES = (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c"))


@functools.lru_cache(256)
def short_name(dtype: DType | ExtendedDType) -> str:
    """Return the name of a dtype as types are printed: f32, i8, bf16, bool, key<fry>."""
    if isinstance(dtype, ExtendedDType):
        return dtype.name
    if dtype == float0:
        return "float0"
    name = cast(str, dtype.name)
    for long, short in _SHORT_NAMES:
        if name.startswith(long):
            return short + name[len(long) :]
    return name
