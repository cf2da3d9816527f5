"""`Array`: an immutable array on a device, held as a read-only NumPy array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tetrax import dtypes, errors
from tetrax.ir.types import ShapedArray
from tetrax.runtime.devices import Device, SingleDeviceSharding, default_device
from tetrax.tracing.value import Value


class Array(Value):
    """An immutable n-dimensional array.

    Made by `tetrax.numpy.array` and by every operation, never by calling this class.
    """

    __slots__ = ("__weakref__", "_address", "_npy", "_placed", "aval")
    __hash__ = None  # type: ignore[assignment]
    _npy: np.ndarray
    aval: ShapedArray

    def __init__(self, npy: np.ndarray, aval: ShapedArray, device: Device | None = None) -> None:
        self._npy = npy
        self.aval = aval
        self._placed = device
        # Where the elements are, once somebody asked: see `address`.
        self._address: int | None = None

    # -- the elements --------------------------------------------------------------------------

    @property
    def _value(self) -> np.ndarray:
        """The elements as a read-only NumPy array. Raises DonatedBufferError after deletion."""
        if self._npy is None:
            raise errors.DonatedBufferError(
                f"Array of type {self.aval.str_short()} has been deleted: it was donated to a "
                "compiled call, or delete() was called. Keep a copy (x.copy()) of what you need, "
                "or "
                "leave it out of donate_argnums"
            )
        return self._npy

    @property
    def address(self) -> int:
        """Where the elements are, in row-major order, for native code. Raises as `_value` does."""
        found = self._address
        if found is None:
            npy = self._value
            if not npy.flags.c_contiguous:
                npy = self._npy = _frozen(np.ascontiguousarray(npy))
            found = self._address = int(npy.__array_interface__["data"][0])
        return found

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
        return bool(self._value)

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
        return int(self._value)

    def _scalar(self, kind: str) -> Any:
        value = self._value
        if value.ndim:
            raise TypeError(
                f"Only scalar arrays can be converted to Python scalars; got an array of type "
                f"{self.aval.str_short()}. Use .item() for an array of one element"
            )
        return value.item() if value.dtype.kind in "biufc" else value.astype(np.float64).item()

    def item(self, *args: int) -> Any:
        """The element as a Python scalar. Raises ValueError unless there is exactly one."""
        return self._value.item(*args)

    def tolist(self) -> Any:
        return self._value.tolist()

    def tobytes(self, order: str = "C") -> bytes:
        return self._value.tobytes(order)  # type: ignore[arg-type]

    def __format__(self, spec: str) -> str:
        return format(self._value[()] if not self.aval.shape else self._value, spec)

    def __repr__(self) -> str:
        if self._npy is None:
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
        return Array(_frozen(self._value.copy()), self.aval, self._placed)

    # -- device --------------------------------------------------------------------------------

    @property
    def device(self) -> Device:
        return self._placed or default_device()

    def devices(self) -> set[Device]:
        return {self.device}

    @property
    def sharding(self) -> SingleDeviceSharding:
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
        return [Shard(self.device, tuple(slice(None) for _ in self.aval.shape), 0, self)]

    global_shards = addressable_shards

    def addressable_data(self, index: int) -> Array:
        return self.addressable_shards[index].data

    def block_until_ready(self) -> Array:
        self._value  # noqa: B018  raises for a deleted array
        return self

    def copy_to_host_async(self) -> None:
        return None

    def on_device_size_in_bytes(self) -> int:
        return self._value.nbytes

    def is_ready(self) -> bool:
        return True

    def is_deleted(self) -> bool:
        return self._npy is None

    def delete(self) -> None:
        """Free the elements now; later uses raise DonatedBufferError."""
        self._npy = None  # type: ignore[assignment]
        self._address = None


@dataclass(frozen=True)
class Shard:
    """The part of an array that one device holds."""

    device: Device
    index: tuple
    replica_id: int
    data: Array


def _frozen(npy: np.ndarray) -> np.ndarray:
    npy.flags.writeable = False
    return npy


def wrap(npy: Any, aval: ShapedArray) -> Array:
    """An array over `npy`, which the caller gives up: nobody may write to it any more."""
    if type(npy) is not np.ndarray:
        npy = np.asarray(npy)
    npy.flags.writeable = False
    return Array(npy, aval)


def make_array(
    npy: Any, *, weak_type: bool = False, dtype: Any = None, device: Device | None = None
) -> Array:
    """An array with the elements of `npy`, never aliasing a writable NumPy array.

    64-bit input becomes 32-bit unless x64 is enabled. `dtype` names an extended dtype (typed keys)
    whose storage `npy` holds.
    """
    npy = np.asarray(npy)
    if isinstance(dtype, dtypes.ExtendedDType):
        return Array(_frozen(npy.copy()), ShapedArray(npy.shape, dtype), device)
    canonical = dtypes.canonicalize_dtype(dtype if dtype is not None else npy.dtype)
    if npy.dtype != canonical:
        npy = npy.astype(canonical)
    elif npy.flags.writeable or not npy.flags.owndata:
        npy = npy.copy()
    return Array(_frozen(npy), ShapedArray(npy.shape, canonical, weak_type), device)


def as_value(x: Any) -> Value:
    """Operands as arrays or tracers: numbers become weakly typed scalars."""
    if isinstance(x, Value):
        return x
    if isinstance(x, np.ndarray | np.generic):
        return make_array(x)
    if isinstance(x, bool | int | float | complex):
        dtype = dtypes.dtype(x, canonicalize=True)
        return wrap(np.asarray(x, dtype), ShapedArray((), dtype, type(x) is not bool))
    if hasattr(x, "__jax_array__"):
        return as_value(x.__jax_array__())
    raise TypeError(
        f"Value {x!r:.60} of type {type(x).__name__} is not a valid Tetrax operand: pass an array, "
        "a NumPy array or a number"
    )


def _rebuild(npy: np.ndarray, dtype: Any, weak_type: bool) -> Array:
    npy.flags.writeable = False
    return Array(npy, ShapedArray(npy.shape, dtype, weak_type))
