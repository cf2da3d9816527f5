"""The dtypes of values: what a Python scalar, a NumPy array or a traced value counts as.

Python's `int`, `float` and `complex` scalars are *weakly typed*: they take the dtype of what they
meet. NumPy values lose 64-bit dtypes while `enable_x64` is off; Tetrax's own values keep the dtype
they have.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, Literal, overload

import numpy as np

from ..config import config
from ..errors import ConcretizationTypeError, TracerArrayConversionError
from ._kinds import (
    BOOL,
    DType,
    ExtendedDType,
    finfo,
    float0,
    is_valid,
    issubdtype,
    narrowed_to_32_bits,
)
from ._promotion import Node, least_upper_bound

# --------------------------------------------------------------------------- defaults

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
_UINT32, _UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_COMPLEX64, _COMPLEX128 = np.dtype(np.complex64), np.dtype(np.complex128)


def default_int_dtype() -> DType:
    """Return the dtype of a Python int: int64 with `enable_x64`, else int32."""
    return _INT64 if config.enable_x64 else _INT32


def default_uint_dtype() -> DType:
    """Return uint64 with `enable_x64`, else uint32."""
    return _UINT64 if config.enable_x64 else _UINT32


def default_float_dtype() -> DType:
    """Return the dtype of a Python float: float64 with `enable_x64`, else float32."""
    return _FLOAT64 if config.enable_x64 else _FLOAT32


def default_complex_dtype() -> DType:
    """Return the dtype of a Python complex: complex128 with `enable_x64`, else complex64."""
    return _COMPLEX128 if config.enable_x64 else _COMPLEX64


_SCALAR_DTYPES: dict[bool, dict[Any, DType]] = {
    True: {bool: BOOL, int: _INT64, float: _FLOAT64, complex: _COMPLEX128},
    False: {bool: BOOL, int: _INT32, float: _FLOAT32, complex: _COMPLEX64},
}
PYTHON_SCALARS = frozenset((bool, int, float, complex))


def scalar_dtype(scalar_type: type, value: int | None = None) -> DType:
    """Return the dtype that values of a Python scalar type get.

    Raises `OverflowError` where an int `value` is given that this dtype cannot hold.
    """
    found = _SCALAR_DTYPES[config.enable_x64][scalar_type]
    if value is not None and scalar_type is int:
        bounds = np.iinfo(found)
        if not bounds.min <= value <= bounds.max:
            hint = "" if config.enable_x64 else " Setting enable_x64 makes integers 64 bits wide."
            raise OverflowError(f"Python int {value} too large to convert to {found}.{hint}")
    return found


def coerce_to_array(x: Any, dtype: Any = None) -> np.ndarray:
    """Return `x` as a NumPy array; Python scalars get the default dtype of their type."""
    if dtype is None and type(x) in PYTHON_SCALARS:
        dtype = scalar_dtype(type(x), x)
    return np.asarray(x, dtype)


# --------------------------------------------------------------------------- 32 and 64 bits


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """Return `dtype` as a NumPy dtype, 64-bit ones narrowed to 32 while `enable_x64` is off."""
    if type(dtype) is np.dtype or isinstance(dtype, np.dtype):
        return dtype if config.enable_x64 else narrowed_to_32_bits(dtype)
    if isinstance(dtype, ExtendedDType):
        if not allow_extended_dtype:
            raise ValueError(f"The extended dtype {dtype} has no NumPy dtype.")
        return dtype
    try:
        plain = np.dtype(dtype)
    except TypeError as error:
        raise TypeError(f"{dtype!r} is not a dtype.") from error
    return plain if config.enable_x64 else narrowed_to_32_bits(plain)


def _honour_explicit(dtype: DType, fun_name: str, stacklevel: int = 4) -> DType:
    """Canonicalise a dtype that the user asked for by name, and say so where it changes."""
    if config.enable_x64 or config.explicit_x64_dtypes == "allow":
        return dtype
    narrow = narrowed_to_32_bits(dtype)
    if narrow == dtype:
        return dtype
    where = f" requested in {fun_name}" if fun_name else ""
    if config.explicit_x64_dtypes == "error":
        raise ValueError(
            f"Explicitly requested dtype {dtype}{where} is not available. "
            "Set enable_x64 (jax_enable_x64), or explicit_x64_dtypes to 'allow', to get it."
        )
    warnings.warn(
        f"Explicitly requested dtype {dtype}{where} is not available, and will be truncated to "
        f"dtype {narrow.name}. To enable more dtypes, set enable_x64: "
        "config.update('jax_enable_x64', True), or JAX_ENABLE_X64=1 in the environment.",
        stacklevel=stacklevel,
    )
    return narrow


def check_and_canonicalize_user_dtype(dtype: Any, fun_name: str | None = None) -> Any:
    """Return the dtype an array gets when the user asks for `dtype`.

    Python's `int`, `float`, `complex` stand for the default dtypes. Warns where a 64-bit dtype is
    asked for by name while `enable_x64` is off; raises `TypeError` where no array can have the
    dtype.
    """
    if dtype is None:
        raise ValueError("A dtype is needed, got None.")
    if isinstance(dtype, ExtendedDType):
        return dtype
    if isinstance(dtype, type) and dtype in PYTHON_SCALARS:
        return _SCALAR_DTYPES[config.enable_x64][dtype]
    if hasattr(dtype, "aval"):
        raise ValueError("An array was given as a dtype: use its dtype, as in dtype=x.dtype.")
    plain = np.dtype(dtype)
    if not is_valid(plain):
        where = f" in {fun_name}" if fun_name else ""
        raise TypeError(f"Arrays hold numbers and booleans only, got dtype {dtype}{where}.")
    return _honour_explicit(plain, fun_name or "")


def check_user_dtype_supported(dtype: Any, fun_name: str | None = None) -> None:
    """Warn or raise, as `check_and_canonicalize_user_dtype` does, where `dtype` cannot be had."""
    if dtype is not None:
        check_and_canonicalize_user_dtype(dtype, fun_name)


# --------------------------------------------------------------------------- dtype of a value


def dtype(x: Any, *, canonicalize: bool = True) -> Any:
    """Return the dtype of an array, a scalar, a scalar type or anything that names a dtype.

    >>> dtype(1.5)
    dtype('float32')

    Args:
        canonicalize: narrow 64-bit dtypes of foreign values while `enable_x64` is off.
    """
    if x is None:
        raise ValueError("None has no dtype.")
    aval = getattr(x, "aval", None)
    if aval is not None and not isinstance(x, type):
        return aval.dtype
    if isinstance(x, type) or type(x) in PYTHON_SCALARS:
        scalar_type = x if isinstance(x, type) else type(x)
        if scalar_type in PYTHON_SCALARS:
            return _SCALAR_DTYPES[config.enable_x64 or not canonicalize][scalar_type]
    by_name = isinstance(x, (str, np.dtype)) or (isinstance(x, type) and issubclass(x, np.generic))
    found = np.dtype(x) if by_name else _foreign_dtype(x)
    if not is_valid(found):
        raise TypeError(
            f"A value of dtype {found} cannot be an array, whose elements are numbers or booleans: "
            f"{_abbreviated(x)}"
        )
    if not canonicalize or isinstance(found, ExtendedDType):
        return found
    return _honour_explicit(found, "dtype") if by_name else canonicalize_dtype(found)


def _foreign_dtype(x: Any) -> Any:
    """Return the dtype of something that is neither ours nor a plain Python scalar."""
    own = getattr(x, "dtype", None)
    if isinstance(own, (np.dtype, ExtendedDType)):
        return own
    if isinstance(x, ExtendedDType):
        return x
    try:
        return np.result_type(x)
    except (TracerArrayConversionError, ConcretizationTypeError):
        raise
    except TypeError as error:
        raise TypeError(f"Cannot tell the dtype of {_abbreviated(x)}") from error


def _abbreviated(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= 200 else text[:197] + "..."


def is_weakly_typed(x: Any) -> bool:
    """Say whether `x` takes the dtype of what it meets: Python numbers and what is made of them.

    A Python bool does not need to: booleans are the lowest dtype anyway.
    """
    scalar_type = type(x)
    if scalar_type is int or scalar_type is float or scalar_type is complex:
        return True
    aval = getattr(x, "aval", None)
    if aval is not None:
        return bool(getattr(aval, "weak_type", False))
    return getattr(x, "weak_type", False) is True


def scalar_type_of(x: Any) -> type:
    """Return `bool`, `int`, `float` or `complex`, whichever goes with the dtype of `x`."""
    found = dtype(x, canonicalize=False)
    for scalar_class, scalar_type in _SCALAR_CLASSES:
        if issubdtype(found, scalar_class):
            return scalar_type
    raise TypeError(f"No Python scalar goes with the dtype {found}.")


_SCALAR_CLASSES = (
    (np.bool_, bool),
    (np.integer, int),
    (np.floating, float),
    (np.complexfloating, complex),
)


# --------------------------------------------------------------------------- promotion


@overload
def result_type(*args: Any, return_weak_type_flag: Literal[True]) -> tuple[Any, bool]: ...
@overload
def result_type(*args: Any, return_weak_type_flag: Literal[False] = False) -> Any: ...
@overload
def result_type(*args: Any, return_weak_type_flag: bool) -> Any: ...
def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """Return the dtype that the arguments are promoted to when they meet in an operation.

    Arguments are arrays, scalars, dtypes or scalar types; Python numbers are weakly typed.

    >>> result_type(np.int8(1), 2.0, return_weak_type_flag=True)
    (dtype('float32'), True)

    Returns:
        The dtype; with `return_weak_type_flag`, also whether the result is weakly typed.
    """
    nodes = tuple([_node(x) for x in args])
    result = _promoted(nodes, config.numpy_dtype_promotion, config.enable_x64)
    return result if return_weak_type_flag else result[0]


def promote_types(a: Any, b: Any) -> DType:
    """Return the dtype that operands of dtypes `a` and `b` are promoted to.

    >>> promote_types("int32", "float16")
    dtype('float16')
    """
    nodes = tuple(_node(x) if x in _WEAK else np.dtype(x) for x in (a, b))
    found = least_upper_bound(nodes, config.numpy_dtype_promotion, config.enable_x64)
    return _SCALAR_DTYPES[True][found] if found in _WEAK else found


class _IdentitySet:
    """Membership by identity: `np.dtype(int) == int`, yet only one of them is the weak type."""

    def __init__(self, *members: object):
        self._members = members

    def __contains__(self, x: object) -> bool:
        return any(x is member for member in self._members)


_WEAK = _IdentitySet(int, float, complex)
_DEFAULT_OF_KIND: dict[bool, dict[str, DType]] = {
    True: {"b": BOOL, "i": _INT64, "u": _UINT64, "f": _FLOAT64, "c": _COMPLEX128},
    False: {"b": BOOL, "i": _INT32, "u": _UINT32, "f": _FLOAT32, "c": _COMPLEX64},
}
_WEAK_OF_KIND: dict[str, Any] = {"b": BOOL, "i": int, "u": int, "f": float, "c": complex}


class _WeakNode:
    """The lattice node of a weakly typed array whose dtype is not the default of its kind."""

    def __init__(self, dtype: DType):
        self.dtype = dtype
        self.scalar_type = _WEAK_OF_KIND.get(dtype.kind, float)


_weak_node = functools.cache(_WeakNode)


def _node(x: Any) -> Node | _WeakNode:
    """Return the place of a value in the promotion lattice."""
    scalar_type = type(x)
    if scalar_type is float or scalar_type is int or scalar_type is complex:
        return scalar_type
    if scalar_type is bool:
        return BOOL
    if scalar_type is type:
        return x if x in _WEAK else dtype(x)
    aval = getattr(x, "aval", None)
    if aval is not None:
        return _weak_node(aval.dtype) if aval.weak_type else aval.dtype
    if x is None:
        return default_float_dtype()
    found = dtype(x)
    return _weak_node(found) if getattr(x, "weak_type", False) is True else found


@functools.lru_cache(8192)
def _promoted(nodes: tuple[Node | _WeakNode, ...], rules: str, x64: bool) -> tuple[Any, bool]:
    if not nodes:
        raise ValueError("At least one array or dtype is needed.")
    defaults = _SCALAR_DTYPES[x64]
    if all(isinstance(node, _WeakNode) or node in _WEAK for node in nodes) and rules != "strict":
        # Nothing but weak types: their own dtypes decide the kind, the kind the (default) width.
        strong = [node.dtype if isinstance(node, _WeakNode) else defaults[node] for node in nodes]
        found = least_upper_bound(tuple(strong), rules, x64)
        if found in _WEAK:
            return defaults[found], True
        return _DEFAULT_OF_KIND[x64].get(found.kind, defaults[float]), found != BOOL
    plain = tuple(node.scalar_type if isinstance(node, _WeakNode) else node for node in nodes)
    first = plain[0]
    if all(node is first or (type(node) is type(first) and node == first) for node in plain):
        # Lets extended dtypes through, which are in no lattice, and 64-bit dtypes as they are.
        return (defaults[first], True) if first in _WEAK else (first, False)
    found = least_upper_bound(plain, rules, x64)
    if found in _WEAK:
        return defaults[found], True
    return found if x64 else narrowed_to_32_bits(found), False


def safe_to_cast(input_dtype_or_value: Any, output_dtype_or_value: Any) -> bool:
    """Say whether promotion could turn the input's dtype into the output's.

    >>> safe_to_cast("int16", "float32"), safe_to_cast("float32", "int16")
    (True, False)
    """
    source, target = dtype(input_dtype_or_value), dtype(output_dtype_or_value)
    return source == target or result_type(input_dtype_or_value, target) == target


# --------------------------------------------------------------------------- related dtypes


def to_numeric_dtype(dtype: Any) -> DType:
    """Return `dtype`, with int32 for booleans."""
    plain = np.dtype(dtype)
    return _INT32 if plain == BOOL else plain


def to_inexact_dtype(dtype: Any) -> DType:
    """Return the dtype that functions such as `sin` compute in: float32 or float64 for integers."""
    plain = np.dtype(dtype)
    if plain in (_INT64, _UINT64):
        return _FLOAT64
    if issubdtype(plain, np.inexact) or not (
        issubdtype(plain, np.integer) or issubdtype(plain, np.bool_)
    ):
        return plain
    return _FLOAT32


def to_floating_dtype(dtype: Any) -> DType:
    """Return the real dtype that goes with `dtype`: float32 for complex64 and for integers."""
    return np.dtype(finfo(to_inexact_dtype(dtype)).dtype)


def to_complex_dtype(dtype: Any) -> DType:
    """Return the complex dtype that holds values of `dtype`."""
    return _COMPLEX128 if to_inexact_dtype(dtype) in (_FLOAT64, _COMPLEX128) else _COMPLEX64


def tangent_dtype(dtype: Any) -> Any:
    """Return the dtype of tangents and cotangents: `dtype` for floats, `float0` for the others."""
    if isinstance(dtype, ExtendedDType) or not issubdtype(dtype, np.inexact):
        return float0
    return dtype


def numpy_dtype(obj: Any) -> Any:
    """Return `np.dtype(obj)`, but the default widths for Python's scalar types."""
    if obj is None:
        return default_float_dtype()
    if isinstance(obj, ExtendedDType):
        return obj
    if isinstance(obj, type) and obj in PYTHON_SCALARS:
        return _SCALAR_DTYPES[config.enable_x64][obj]
    return np.dtype(obj)
