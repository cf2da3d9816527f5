"""`Array`: an immutable array on a device, over memory that a NumPy array or a compiled call gave.

An array made by a compiled call knows where its elements are and who owns that memory; the NumPy
array over them is made when somebody asks for it, and the other way round: `__getattr__` fills the
slots `_npy` and `_address` at their first use.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax import dtypes, errors
from tetrax.config import config
from tetrax.ir.types import ShapedArray, storage_dtype
from tetrax.runtime.devices import Device, default_device
from tetrax.runtime.native_functions import address_of
from tetrax.runtime.shard import Shard
from tetrax.runtime.shardings import Sharding, SingleDeviceSharding
from tetrax.tracing.value import Value


class Array(Value):
    """An immutable n-dimensional array.

    Made by `tetrax.numpy.array` and by every operation, never by calling this class.
    """

    __slots__ = ("__weakref__", "_address", "_npy", "_owner", "_placed", "aval")
    __hash__ = None  # type: ignore[assignment]
    # The elements as a NumPy array, writable until `_value` hands it out.
    _npy: np.ndarray
    # Where the elements are, in row-major order.
    _address: int
    # What holds the memory at `_address`: `bytes` or a `Block`; None where NumPy does.
    _owner: Any
    _placed: Device | None
    aval: ShapedArray

    def __init__(self, npy: np.ndarray, aval: ShapedArray, device: Device | None = None) -> None:
        self._npy = npy
        self._owner = None
        self.aval = aval
        if device is not None:
            self._placed = device

    def __getattr__(self, name: str) -> Any:
        late = _LATE.get(name)
        return Value.__getattr__(self, name) if late is None else late(self)

    # -- the elements --------------------------------------------------------------------------

    @property
    def _value(self) -> np.ndarray:
        """The elements as a read-only NumPy array. Raises DonatedBufferError after deletion."""
        npy = self._npy
        if npy.flags.writeable:
            npy.flags.writeable = False
        return npy

    @property
    def address(self) -> int:
        """Where the elements are, in row-major order, for native code. Raises as `_value` does."""
        return self._address

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = self._value
        if isinstance(self.aval.dtype, dtypes.ExtendedDType):
            raise TypeError(
                f"JAX array with PRNGKey dtype cannot be converted to a NumPy array "
                f"(type {self.aval.str_short()}). Use tetrax.random.key_data(keys) for the words"
            )
        if dtype is not None and value.dtype != dtype:
            return value.astype(dtype)
        return value.copy() if copy else value

    def __bool__(self) -> bool:
        return bool(self._npy)

    def __int__(self) -> int:
        return int(self._scalar("integer"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if self.aval.shape or not (
            dtypes.issubdtype(self.aval.dtype, np.integer) or self.aval.dtype == np.bool_
        ):
            raise TypeError(
                f"Only integer scalar arrays can be converted to a scalar index, got an array of "
                f"type {self.aval.str_short()}"
            )
        return int(self._npy)

    def _scalar(self, kind: str) -> Any:
        value = self._npy
        if value.ndim:
            raise TypeError(
                f"Only scalar arrays can be converted to Python scalars; got an array of type "
                f"{self.aval.str_short()}. Use .item() for an array of one element"
            )
        return value.item() if value.dtype.kind in "biufc" else value.astype(np.float64).item()

    def item(self, *args: int) -> Any:
        """The element as a Python scalar. Raises ValueError unless there is exactly one."""
        return self._npy.item(*args)

    def tolist(self) -> Any:
        return self._npy.tolist()

    def tobytes(self, order: str = "C") -> bytes:
        return self._npy.tobytes(order)  # type: ignore[arg-type]

    def __format__(self, spec: str) -> str:
        return format(self._value[()] if not self.aval.shape else self._value, spec)

    def __repr__(self) -> str:
        if self.is_deleted():
            return f"<deleted Array {self.aval.str_short()}>"
        if isinstance(self.aval.dtype, dtypes.ExtendedDType):
            words = self._npy.reshape(*self.aval.shape, 1).view(np.uint32)
            return f"Array({self.aval.shape}, dtype={self.aval.dtype.name}) overlaying:\n{words}"
        weak = ", weak_type=True" if self.aval.weak_type else ""
        text = np.array2string(self._npy, separator=", ", prefix="Array(", suffix=")")
        if self._npy.size == 0:
            text = f"[], shape={self.aval.shape}"
        return f"Array({text}, dtype={self.aval.dtype.name}{weak})"

    def __str__(self) -> str:
        if isinstance(self.aval.dtype, dtypes.ExtendedDType):
            return repr(self)
        return str(self._value)

    # -- exchange ------------------------------------------------------------------------------

    def __dlpack__(self, **kwargs: Any) -> Any:
        # A consumer may write through the capsule, so what it gets is a copy of its own.
        return self._value.copy().__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __buffer__(self, flags: int) -> memoryview:
        value: Any = self._value
        return memoryview(value)

    def __reduce__(self) -> Any:
        aval = self.aval
        return _rebuild, (self._value, aval.dtype, aval.weak_type)

    def __copy__(self) -> Array:
        return self

    def __deepcopy__(self, memo: dict) -> Array:
        return Array(self._value.copy(), self.aval, self._placed)

    # -- device --------------------------------------------------------------------------------

    @property
    def device(self) -> Device:
        return self._placed or default_device()

    def devices(self) -> set[Device]:
        return {self.device}

    @property
    def sharding(self) -> Sharding:
        return SingleDeviceSharding(self.device)

    @property
    def committed(self) -> bool:
        return self._placed is not None

    _committed = committed

    @property
    def is_fully_addressable(self) -> bool:
        return True

    @property
    def is_fully_replicated(self) -> bool:
        return True

    @property
    def addressable_shards(self) -> list[Shard]:
        if self._owner is _DELETED:
            self._npy  # noqa: B018  raises
        return [Shard(self.device, self.sharding, self.aval.shape, self)]

    @property
    def global_shards(self) -> list[Shard]:
        return self.addressable_shards

    def addressable_data(self, index: int) -> Array:
        return self.addressable_shards[index].data

    def block_until_ready(self) -> Array:
        if self._owner is _DELETED:
            self._npy  # noqa: B018  raises
        return self

    def copy_to_host_async(self) -> None:
        return None

    def on_device_size_in_bytes(self) -> int:
        return self._value.nbytes

    def is_ready(self) -> bool:
        return True

    def platform(self) -> str:
        return "cpu"

    def unsafe_buffer_pointer(self) -> int:
        """Where the elements are, for code outside; the memory is this array's."""
        return self.address

    @property
    def traceback(self) -> None:
        """Which line made the array is not kept."""
        return None

    def is_deleted(self) -> bool:
        return self._owner is _DELETED

    def delete(self) -> None:
        """Free the elements now; later uses raise DonatedBufferError."""
        if self.is_deleted():
            return
        if calls_in_flight.value:
            _perhaps_in_use.append(self._npy)
        else:
            _perhaps_in_use.clear()
        self._owner = _DELETED
        # Set first, since a slot that is not filled cannot be emptied.
        self._npy = self._address = None  # type: ignore[assignment]
        del self._npy, self._address


_DELETED = object()

calls_in_flight = ctypes.c_int64(0)
"""How many native calls run while other threads run Python; changed by machine code."""

# The threads of these calls are not there in a forked child.
os.register_at_fork(after_in_child=lambda: setattr(calls_in_flight, "value", 0))

# Elements that were deleted while such a call, which may read them, was going on.
_perhaps_in_use: list[Any] = []


def _npy_of(array: Array) -> np.ndarray:
    """The NumPy array over the memory that a compiled call gave."""
    aval, owner = array.aval, array._owner
    if owner is _DELETED:
        raise errors.DonatedBufferError(
            f"Array of type {aval.str_short()} has been deleted: it was donated to a compiled "
            "call, or delete() was called. Keep a copy (x.copy()) of what you need, or leave it "
            "out of donate_argnums"
        )
    dtype = storage_dtype(aval.dtype)
    if type(owner) is bytes:
        npy = np.ndarray(aval.shape, dtype, owner)
    else:
        npy = owner.array(aval.shape, dtype)
    array._npy = npy
    return npy


def _address_of(array: Array) -> int:
    npy = array._npy
    if not npy.flags.c_contiguous:
        npy = array._npy = np.ascontiguousarray(npy)
    found = array._address = address_of(npy)
    return found


_LATE: dict[str, Callable[[Array], Any]] = {
    "_npy": _npy_of,
    "_address": _address_of,
    "_placed": lambda array: None,
}


def late_slot(array: Array, name: str) -> Any:
    """The slot of an array that is filled at its first use, or AttributeError."""
    return Array.__getattr__(array, name)


def is_deleted_owner(owner: Any) -> bool:
    """Whether that `_owner` says that the array is deleted."""
    return owner is _DELETED


_new = object.__new__


def wrap(npy: Any, aval: ShapedArray) -> Array:
    """An array over `npy`, which the caller gives up: nobody may write to it any more."""
    # Not by the constructor: this is half of what a small operation costs.
    array = _new(Array)
    array._npy = npy if type(npy) is np.ndarray else np.asarray(npy)
    array._owner = None
    array.aval = aval
    return array


def make_array(
    npy: Any, *, weak_type: bool = False, dtype: Any = None, device: Device | None = None
) -> Array:
    """An array with the elements of `npy`, never aliasing a writable NumPy array.

    64-bit input becomes 32-bit unless x64 is enabled. `dtype` names an extended dtype (typed keys)
    whose storage `npy` holds.
    """
    if type(npy) is not np.ndarray:
        npy = np.asarray(npy)
    if isinstance(dtype, dtypes.ExtendedDType):
        return Array(npy.copy(), ShapedArray(npy.shape, dtype), device)
    canonical = dtypes.canonicalize_dtype(npy.dtype if dtype is None else dtype)
    if not canonical.isnative:
        canonical = canonical.newbyteorder("=")
    if npy.dtype != canonical:
        npy = npy.astype(canonical)
    else:
        flags = npy.flags
        if flags.writeable or not flags.owndata:
            npy = npy.copy()
    return Array(npy, ShapedArray(npy.shape, canonical, weak_type), device)


# The types of Python's numbers as operands, without and with 64 bits.
_NUMBER_TYPES: dict[bool, dict[type, ShapedArray]] = {
    False: {
        bool: ShapedArray((), np.bool_),
        int: ShapedArray((), np.int32, True),
        float: ShapedArray((), np.float32, True),
        complex: ShapedArray((), np.complex64, True),
    },
    True: {
        bool: ShapedArray((), np.bool_),
        int: ShapedArray((), np.int64, True),
        float: ShapedArray((), np.float64, True),
        complex: ShapedArray((), np.complex128, True),
    },
}


def as_value(x: Any) -> Value:
    """Operands as arrays or tracers: numbers become weakly typed scalars."""
    aval = _NUMBER_TYPES[config.enable_x64].get(type(x))
    if aval is not None:
        return wrap(np.asarray(x, aval.dtype), aval)
    if isinstance(x, Value):
        return x
    if isinstance(x, np.ndarray | np.generic):
        return make_array(x)
    if isinstance(x, bool | int | float | complex):
        dtype = dtypes.dtype(x, canonicalize=True)
        return wrap(np.asarray(x, dtype), ShapedArray((), dtype, True))
    if hasattr(x, "__jax_array__"):
        return as_value(x.__jax_array__())
    raise TypeError(
        f"Value {x!r:.60} of type {type(x).__name__} is not a valid Tetrax operand: pass an array, "
        "a NumPy array or a number"
    )


ALWAYS_CANONICAL = frozenset(map(np.dtype, ("float32", "int32", "bool", "uint8", "complex64")))
"""The dtypes most met, which need no look at the settings."""


def borrowed(x: Any) -> Any:
    """Like `as_value`, but a NumPy array is not copied if that can be avoided.

    For operands of a compiled call, which is over before anybody can write to the NumPy array.
    Nothing else may be done with the array.
    """
    if isinstance(x, np.ndarray | np.generic):
        dtype = x.dtype
        if dtype in ALWAYS_CANONICAL or (
            dtype.isnative and dtypes.canonicalize_dtype(dtype) == dtype
        ):
            return wrap(x, ShapedArray(x.shape, dtype))
    return as_value(x)


def _rebuild(npy: np.ndarray, dtype: Any, weak_type: bool) -> Array:
    return Array(npy, ShapedArray(npy.shape, dtype, weak_type))
