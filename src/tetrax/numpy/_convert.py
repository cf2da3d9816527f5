"""Making arrays out of numbers, nested lists, NumPy arrays, buffers, DLPack capsules."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.compiler.references import QUIET
from tetrax.errors import ShapeError
from tetrax.ir.types import ShapedArray
from tetrax.numpy._promote import check_arraylike, convert, to_array, user_dtype
from tetrax.numpy._typing import PYTHON_SCALARS, Array, ArrayLike, Device, DTypeLike
from tetrax.runtime.array import ALWAYS_CANONICAL, make_array, wrap
from tetrax.runtime.placement import put_array
from tetrax.tracing.trace import is_concrete
from tetrax.tracing.value import Value


def array(
    object: Any,
    dtype: DTypeLike = None,
    *args: Any,
    copy: bool | None = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: Device = None,
    out_sharding: Any = None,
) -> Array:
    """Make an array from a number, a nested list, or anything array-like.

    A Python number alone makes a weakly typed array. `copy=False` does not copy an Array.

    >>> array([[1, 2], [3, 4.5]])
    Array([[1. , 2. ],
           [3. , 4.5]], dtype=float32)
    """
    if dtype is None and not ndmin and device is None and out_sharding is None:
        quick = _quickly(object)
        if quick is not None:
            return quick
    if args:
        raise TypeError(
            "array() takes the object and the dtype by position; name the other arguments"
        )
    if order not in ("K", None):
        raise NotImplementedError("Only implemented for order='K'")
    if dtype is not None:
        dtype = user_dtype(dtype, "array")
    made = _from_object(object, dtype)
    if copy and isinstance(object, Value) and made is object:
        made = lax.copy_p.bind(made)
    if made.ndim < ndmin:
        made = lax.reshape(made, (1,) * (ndmin - made.ndim) + made.shape)
    return placed(made, device, out_sharding)


def _quickly(x: Any) -> Array | None:
    """An array of a list of Python's numbers, or of a NumPy array of a common dtype; else None."""
    kind = type(x)
    if kind is np.ndarray:
        dtype = x.dtype
        return wrap(x.copy(), ShapedArray(x.shape, dtype)) if dtype in ALWAYS_CANONICAL else None
    if kind is not list:
        return None
    kinds = set(map(type, x))
    if kinds == _LIST:
        kinds = set()
        for row in x:
            kinds.update(map(type, row))
    if not kinds or not kinds <= dtypes.PYTHON_SCALARS:
        return None
    dtype = _common_python_dtype(kinds)
    change, restore, ignore = QUIET
    token = change(ignore)
    try:
        npy = np.array(x, dtype)
    finally:
        restore(token)
    return wrap(npy, ShapedArray(npy.shape, dtype))


_LIST = {list}


def asarray(
    a: Any,
    dtype: DTypeLike = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Device = None,
    out_sharding: Any = None,
) -> Array:
    """Make an array from a number, a nested list, or anything array-like; copy only if needed."""
    if (
        isinstance(a, Value)
        and dtype is None
        and not copy
        and device is None
        and out_sharding is None
    ):
        return a
    return array(a, dtype, copy=bool(copy), order=order, device=device, out_sharding=out_sharding)


def placed(x: Array, device: Device, out_sharding: Any = None) -> Array:
    """Put a new array where the caller wants it."""
    target = device if device is not None else out_sharding
    if target is None:
        return x
    if isinstance(x, Value) and is_concrete(x):
        return put_array(x, target)
    return lax.with_sharding_constraint(x, target) if out_sharding is not None else x


def _from_object(x: Any, dtype: np.dtype | None) -> Array:
    if hasattr(x, "__jax_array__") and not isinstance(x, Value):
        x = x.__jax_array__()
    if isinstance(x, Value):
        return x if dtype is None else convert(x, dtype)
    if isinstance(x, PYTHON_SCALARS):
        if dtype is None:
            return to_array(x)
        return make_array(_checked_number(x, dtype), dtype=dtype)
    if isinstance(x, (np.ndarray, np.generic)):
        return _from_numpy(x, dtype)
    if isinstance(x, (list, tuple)):
        return _from_sequence(x, dtype)
    if x is None:
        raise ValueError("None is not a valid value for jnp.array")
    return _from_foreign(x, dtype)


def _checked_number(x: Any, dtype: np.dtype) -> np.ndarray:
    """Return a Python number in the dtype asked for; an integer that does not fit is an error."""
    if isinstance(x, int) and not isinstance(x, bool) and dtypes.issubdtype(dtype, np.integer):
        return np.asarray(x, dtype)
    with np.errstate(all="ignore"):
        if isinstance(x, complex) and not dtypes.issubdtype(dtype, np.complexfloating):
            _warn_of_lost_imaginary_part()
            x = x.real if dtype != np.bool_ else bool(x)
        return np.asarray(x).astype(dtype)


def _from_numpy(x: Any, dtype: np.dtype | None) -> Array:
    source = np.asarray(x)
    _check_numeric(source, x)
    target = dtypes.canonicalize_dtype(source.dtype) if dtype is None else dtype
    if isinstance(target, dtypes.ExtendedDType):
        raise TypeError(f"An array of numbers cannot be converted to {target}.")
    if source.dtype != target:
        if source.dtype.kind == "c" and not dtypes.issubdtype(target, np.complexfloating):
            source = source.real if target != np.bool_ else source != 0
        with np.errstate(all="ignore"):
            source = source.astype(target)
    return make_array(source)


def _check_numeric(x: np.ndarray, given: Any) -> None:
    if not dtypes.is_valid(x.dtype):
        if given is None or (x.dtype == object and any(item is None for item in x.flat)):
            raise ValueError("None is not a valid value for jnp.array")
        raise TypeError(
            f"Value {given!r:.200} with dtype {x.dtype} is not a valid JAX array type. "
            "Only arrays of numeric types are supported by JAX."
        )


def _leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, (list, tuple)):
        for item in x:
            yield from _leaves(item)
    else:
        yield x.__jax_array__() if hasattr(x, "__jax_array__") and not isinstance(x, Value) else x


def _from_sequence(x: Sequence[Any], dtype: np.dtype | None) -> Array:
    leaves = list(_leaves(x))
    types = set(map(type, leaves))
    if any(leaf is None for leaf in leaves) if type(None) in types else False:
        raise ValueError("None is not a valid value for jnp.array")
    plain = types <= dtypes.PYTHON_SCALARS
    if dtype is None and leaves:
        dtype = _common_python_dtype(types) if plain else _common_dtype(leaves, types, x)
    if plain or not any(isinstance(leaf, Value) for leaf in leaves):
        return make_array(_numpy_from(x, dtype), dtype=dtype or dtypes.default_float_dtype())
    if isinstance(dtype, dtypes.ExtendedDType) or not all(map(is_concrete, leaves)):
        rows = [lax.expand_dims(_from_object(item, dtype), (0,)) for item in x]
        return lax.concatenate(rows, 0)
    try:
        return make_array(_numpy_from(_without_arrays(x), dtype), dtype=dtype)
    except ValueError as error:
        raise ShapeError(f"The parts of a nested list differ in shape: {error}") from None


def _common_python_dtype(types: set[type]) -> np.dtype:
    for scalar_type in (complex, float, int):
        if scalar_type in types:
            return dtypes.scalar_dtype(scalar_type)
    return np.dtype(np.bool_)


def _common_dtype(leaves: Sequence[Any], types: set[type], given: Any) -> np.dtype:
    if any(issubclass(kind, (str, bytes)) for kind in types):
        _check_numeric(np.asarray(given), given)
    distinct: dict[Any, Any] = {}
    for leaf in leaves:
        if isinstance(leaf, PYTHON_SCALARS):
            distinct[type(leaf)] = leaf
        elif isinstance(leaf, (Value, np.ndarray, np.generic)):
            distinct[leaf.dtype, getattr(leaf, "weak_type", False)] = leaf
        else:
            distinct[id(leaf)] = _from_foreign(leaf, None)
    return dtypes.result_type(*distinct.values())


def _without_arrays(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [_without_arrays(item) for item in x]
    if hasattr(x, "__jax_array__") and not isinstance(x, Value):
        x = x.__jax_array__()
    return np.asarray(x) if isinstance(x, Value) else x


def _numpy_from(x: Any, dtype: np.dtype | None) -> np.ndarray:
    """Build a NumPy array; Python integers that do not fit the dtype raise OverflowError."""
    if dtype is None:
        return np.asarray(x, dtypes.default_float_dtype())
    with np.errstate(all="ignore"):
        if dtype.kind in "fV" and dtype != np.float64:
            wide = np.asarray(x)
            _check_numeric(wide, x)
            return wide.astype(dtype) if wide.dtype.kind != "c" else wide.real.astype(dtype)
        return np.asarray(x, dtype)


def _from_foreign(x: Any, dtype: np.dtype | None) -> Array:
    """Take NumPy's word for anything else that offers its elements."""
    if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        return _from_numpy(np.from_dlpack(x), dtype)
    return _from_numpy(_as_numpy(x), dtype)


def _as_numpy(x: Any) -> np.ndarray:
    made = np.asarray(x)
    _check_numeric(made, x)
    return made


def _warn_of_lost_imaginary_part() -> None:
    warnings.warn(
        "Casting complex values to real discards the imaginary part.",
        np.exceptions.ComplexWarning,
        stacklevel=4,
    )


# --------------------------------------------------------------------------- conversions


def astype(
    x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = False, device: Device = None
) -> Array:
    """Convert an array to a dtype.

    Casting a complex array to a real dtype drops the imaginary part.
    """
    check_arraylike("astype", x)
    x = to_array(x)
    dtype = user_dtype(dtypes.default_float_dtype() if dtype is None else dtype, "astype")
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        if dtype == np.bool_:
            x = lax.ne(x, lax.full_like(x, 0, shape=()))
        elif not dtypes.issubdtype(dtype, np.complexfloating):
            warnings.warn(
                "Casting from complex to real dtypes will soon raise a ValueError. "
                "Please first use jnp.real or jnp.imag to take the real/imaginary component of "
                "your input.",
                DeprecationWarning,
                stacklevel=2,
            )
            x = lax.real(x)
    converted = convert(x, dtype)
    if copy and converted is x:
        converted = lax.copy_p.bind(x)
    return placed(converted, device)


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """Return a copy of an array."""
    check_arraylike("copy", a)
    return array(a, copy=True, order=order)


def from_dlpack(x: Any, /, *, device: Device = None, copy: bool | None = None) -> Array:
    """Take an array over from another library through the DLPack protocol."""
    if isinstance(x, Value):
        return array(x, copy=bool(copy), device=device)
    return placed(_from_numpy(np.from_dlpack(x), None), device)


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """Read a buffer of bytes as a one-dimensional array.

    >>> frombuffer(b"ab", np.uint8)
    Array([97, 98], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer, dtype=np.dtype(dtype), count=count, offset=offset))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """Read numbers from a text with separators.

    >>> fromstring("1 2", sep=" ")
    Array([1., 2.], dtype=float32)
    """
    return asarray(np.fromstring(string, dtype=np.dtype(dtype), count=count, sep=sep))


def fromfile(*args: Any, **kwargs: Any) -> Array:
    """Refuse to read a file: use `jnp.asarray(np.fromfile(...))` outside transformations."""
    raise NotImplementedError(
        "jnp.fromfile() is not implemented because it may be non-pure and thus unsafe for use "
        "with JIT "
        "and other transformations. Use jnp.asarray(np.fromfile(...)) outside of them instead."
    )


def fromiter(*args: Any, **kwargs: Any) -> Array:
    """Refuse to run an iterator: use `jnp.asarray(np.fromiter(...))` outside transformations."""
    raise NotImplementedError(
        "jnp.fromiter() is not implemented because it may be non-pure and thus unsafe for use "
        "with JIT "
        "and other transformations. Use jnp.asarray(np.fromiter(...)) outside of them instead."
    )
