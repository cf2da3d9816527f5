"""The dtype objects `jnp.float32`, `jnp.int8` ...: dtypes that make scalars when called."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax.numpy._convert import asarray
from tetrax.numpy._promote import ensure_arraylike
from tetrax.numpy._typing import Array, ArrayLike


class _ScalarMeta(type):
    """The type of `jnp.float32`: compares as NumPy's scalar type; a call makes an Array."""

    dtype: np.dtype

    def __call__(cls, x: ArrayLike) -> Array:
        return asarray(x, dtype=cls.dtype)

    def __eq__(cls, other: object) -> bool:
        return cls is other or bool(cls.dtype.type == other)

    def __ne__(cls, other: object) -> bool:
        return not cls == other

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.dtype.type)


def _scalar_type(scalar_type: type) -> Any:
    dtype = np.dtype(scalar_type)
    name = dtype.name
    doc = f"The dtype {name}: use it as a dtype, or call it to make an array of that dtype."
    made = _ScalarMeta(name, (object,), {"dtype": dtype, "__doc__": doc})
    made.__module__ = "jax.numpy"
    return made


bool_ = _scalar_type(np.bool_)
uint1 = _scalar_type(dtypes.uint1)
uint2 = _scalar_type(dtypes.uint2)
uint4 = _scalar_type(dtypes.uint4)
uint8 = _scalar_type(np.uint8)
uint16 = _scalar_type(np.uint16)
uint32 = _scalar_type(np.uint32)
uint64 = _scalar_type(np.uint64)
int1 = _scalar_type(dtypes.int1)
int2 = _scalar_type(dtypes.int2)
int4 = _scalar_type(dtypes.int4)
int8 = _scalar_type(np.int8)
int16 = _scalar_type(np.int16)
int32 = _scalar_type(np.int32)
int64 = _scalar_type(np.int64)
float4_e2m1fn = _scalar_type(dtypes.float4_e2m1fn)
float6_e2m3fn = _scalar_type(dtypes.float6_e2m3fn)
float6_e3m2fn = _scalar_type(dtypes.float6_e3m2fn)
float8_e3m4 = _scalar_type(dtypes.float8_e3m4)
float8_e4m3 = _scalar_type(dtypes.float8_e4m3)
float8_e4m3b11fnuz = _scalar_type(dtypes.float8_e4m3b11fnuz)
float8_e4m3fn = _scalar_type(dtypes.float8_e4m3fn)
float8_e4m3fnuz = _scalar_type(dtypes.float8_e4m3fnuz)
float8_e5m2 = _scalar_type(dtypes.float8_e5m2)
float8_e5m2fnuz = _scalar_type(dtypes.float8_e5m2fnuz)
float8_e8m0fnu = _scalar_type(dtypes.float8_e8m0fnu)
bfloat16 = _scalar_type(dtypes.bfloat16)
float16 = _scalar_type(np.float16)
float32 = _scalar_type(np.float32)
float64 = _scalar_type(np.float64)
complex64 = _scalar_type(np.complex64)
complex128 = _scalar_type(np.complex128)

single = float32
double = float64
csingle = complex64
cdouble = complex128
int_ = int64
uint = uint64
float_ = float64
complex_ = complex128


# --------------------------------------------------------------------------- questions about dtypes

dtype = np.dtype
finfo = dtypes.finfo
iinfo = dtypes.iinfo

_KINDS_IN_ORDER = "biufc"


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Tell whether the first dtype is, or belongs to, the second.

    >>> issubdtype(bfloat16, np.floating)
    True
    """
    return dtypes.issubdtype(arg1, arg2)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Tell whether a dtype is of a kind: a dtype, a kind's name, or a tuple of these."""
    return dtypes.isdtype(dtype, kind)


def promote_types(a: Any, b: Any) -> np.dtype:
    """Return the dtype to which two dtypes promote.

    >>> promote_types("int32", "float16")
    dtype('float16')
    """
    return dtypes.promote_types(a, b)


def result_type(*args: Any) -> np.dtype:
    """Return the dtype of an operation on the arguments: arrays, numbers or dtypes.

    >>> result_type(np.int8(1), 2.0)
    dtype('float32')
    """
    return dtypes.result_type(*args)


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Tell whether a cast between dtypes can occur under NumPy's rule of the given name."""
    return np.can_cast(from_, to, casting=casting)  # type: ignore[arg-type]


def iscomplexobj(x: Any) -> bool:
    """Tell whether the argument has a complex dtype."""
    if x is None:
        return False
    try:
        kind = x.dtype.type
    except AttributeError:
        kind = np.asarray(x).dtype.type
    return issubclass(kind, np.complexfloating)


def isrealobj(x: Any) -> bool:
    """Tell whether the argument has a real dtype."""
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Tell whether the argument is a number or a zero-dimensional array."""
    if np.isscalar(element):
        return True
    if hasattr(element, "__jax_array__"):
        element = element.__jax_array__()
    return hasattr(element, "dtype") and np.ndim(element) == 0


def iterable(y: Any) -> bool:
    """Tell whether `iter(y)` works."""
    if hasattr(y, "ndim") and np.ndim(y) == 0:
        return False
    return np.iterable(y)


def ndim(a: ArrayLike) -> int:
    """Return the number of axes."""
    return len(shape(a))


def shape(a: ArrayLike) -> tuple[int, ...]:
    """Return the size along each axis."""
    return ensure_arraylike("shape", a).shape


def size(a: ArrayLike, axis: Any = None) -> int:
    """Return the number of elements, in all or along one or more axes."""
    array = ensure_arraylike("size", a)
    if axis is None:
        return array.size
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return int(np.prod([array.shape[i] for i in axes], dtype=int))
