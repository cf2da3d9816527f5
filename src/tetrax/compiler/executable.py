"""A compiled program: one native call with the addresses of arguments, constants and results."""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.compiler.cpu.bounds import take_bounds_error
from tetrax.compiler.steps import HostFunction
from tetrax.config import config
from tetrax.ir.types import ShapedArray, storage_dtype
from tetrax.runtime.array import Array

_Entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class Executable:
    """Machine code of a program with everything a call needs."""

    def __init__(
        self,
        address: int,
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        constants: Sequence[tuple[Any, ShapedArray]],
        arena_bytes: int,
        host_functions: Sequence[HostFunction],
        keep: Any = None,
    ) -> None:
        self.entry = _Entry(address)
        self.in_avals = list(in_avals)
        self.out_avals = list(out_avals)
        self.constants = [
            np.ascontiguousarray(getattr(value, "_npy", value), storage_dtype(aval.dtype))
            for value, aval in constants
        ]
        self.arena_bytes = arena_bytes
        self.checked = bool(config.check_bounds)
        self.host_functions = list(host_functions)
        self.context = next(_contexts)
        self._keep = keep
        self._outs = [(aval.shape, storage_dtype(aval.dtype), aval) for aval in out_avals]
        count = len(self.in_avals) + len(self.constants) + len(self.out_avals)
        self._table_type = ctypes.c_void_p * max(count, 1)
        self._constant_addresses = [address_of(c) for c in self.constants]
        if host_functions:
            _executables[self.context] = self

    def __call__(self, args: Sequence[Array]) -> list[Array]:
        """Results for operands of exactly the types `in_avals`."""
        # `args` keeps the operands' memory alive during the call.
        addresses = [arg._address or arg.address for arg in args]
        outs = []
        for shape, dtype, aval in self._outs:
            npy = np.empty(shape, dtype)
            out = Array(npy, aval)
            out._address = address = address_of(npy)
            npy.flags.writeable = False
            addresses.append(address)
            outs.append(out)
        addresses += self._constant_addresses
        table = self._table_type(*addresses)
        arena = self._arena()
        status = self.entry(ctypes.addressof(table), arena[0], self.context)
        if status:
            raise _take_exception()
        if self.checked:
            fault = take_bounds_error()
            if fault is not None:
                raise errors.KernelError(f"compiled code left its memory: {fault}")
        return outs

    def _arena(self) -> tuple[int, Any]:
        """Address and owner of scratch memory, 64-byte aligned.

        Each thread keeps one block for small programs. A program that calls Python may be entered
        again meanwhile, so it gets memory of its own.
        """
        nbytes = self.arena_bytes
        if not nbytes:
            return 0, None
        if nbytes > _KEPT_ARENA or self.host_functions:
            return _new_arena(nbytes)
        kept = _kept.arena
        if kept is None:
            kept = _kept.arena = _new_arena(_KEPT_ARENA)
        return kept


_KEPT_ARENA = 1 << 20


class _Kept(threading.local):
    arena: tuple[int, Any] | None = None


_kept = _Kept()


def _new_arena(nbytes: int) -> tuple[int, Any]:
    memory = np.empty(nbytes + 64, np.uint8)
    start = address_of(memory)
    return start + (-start) % 64, memory


def address_of(array: np.ndarray) -> int:
    """The address of the first element."""
    return array.__array_interface__["data"][0]


# -- host functions ------------------------------------------------------------------------------

_contexts = itertools.count(1)
_executables: weakref.WeakValueDictionary[int, Executable] = weakref.WeakValueDictionary()


@dataclass
class _Raised(threading.local):
    exception: BaseException | None = field(default=None)


_raised = _Raised()


def _take_exception() -> BaseException:
    exception, _raised.exception = _raised.exception, None
    assert exception is not None, "native code reported a failure without an exception"
    return exception


def _view(address: int, aval: ShapedArray) -> np.ndarray:
    dtype = storage_dtype(aval.dtype)
    count = aval.size * dtype.itemsize
    if not count:
        return np.empty(aval.shape, dtype)
    memory = (ctypes.c_uint8 * count).from_address(address)
    return np.ctypeslib.as_array(memory).view(dtype).reshape(aval.shape)


@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p))
def host_call(context: int, index: int, table: Any) -> int:
    """What native code calls to run a host function; exceptions are kept for the caller."""
    try:
        host = _executables[context].host_functions[index]
        count = len(host.in_avals)
        arrays = [_view(table[i], aval).copy() for i, aval in enumerate(host.in_avals)]
        outs = host.function(*arrays)
        for i, (out, aval) in enumerate(zip(outs, host.out_avals, strict=True)):
            _view(table[count + i], aval)[...] = out
    except BaseException as exception:
        _raised.exception = exception
        return 1
    return 0


HOST_CALL_ADDRESS = ctypes.cast(host_call, ctypes.c_void_p).value or 0
