"""A compiled program: one native call with the addresses of arguments, constants and results."""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from tetrax import errors
from tetrax._lazy import lazy_module
from tetrax.compiler import kept
from tetrax.compiler.steps import HostFunction
from tetrax.config import config
from tetrax.ir.types import ShapedArray, storage_dtype
from tetrax.runtime import memory
from tetrax.runtime.array import Array, calls_in_flight
from tetrax.runtime.native_call import (
    FAILED,
    MAX_STACK_ARENA,
    MISMATCH,
    Call,
    Runner,
    make_runner,
    out_bytes,
)
from tetrax.runtime.native_functions import address_of

bounds = lazy_module("tetrax.compiler.cpu.bounds")

_SHORT_BYTES = 64 << 10
"""Programs without loops that touch no more than this are done before another thread could run."""


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
        has_loops: bool = True,
        sources: Sequence[int | None] = (),
    ) -> None:
        self.address = address
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
        self.has_loops = has_loops
        # For every result the operand whose memory it takes, or None.
        self.sources = list(sources) or [None] * len(self.out_avals)
        self._keep = keep
        # Where exceptions of host functions go that other threads than the caller's run.
        self.failures: list[BaseException] | None = None
        # Its place among what the process keeps, if a cache holds it.
        self.kept: kept.Entry | None = None
        if host_functions:
            _executables[self.context] = self

    def __del__(self) -> None:
        if self.kept is not None:
            kept.drop(self.kept)

    @property
    def code(self) -> Any:
        """What keeps the machine code in memory."""
        return self._keep

    @property
    def held(self) -> Any:
        """What else must live as long as a runner."""
        return None

    @property
    def nbytes(self) -> int:
        """Bytes of code and constants."""
        owners = {id(handle.owner): handle.owner for handle in self._keep or ()}
        code = sum(getattr(owner, "nbytes", 0) for owner in owners.values())
        return code + sum(constant.nbytes for constant in self.constants)

    def __call__(self, args: Sequence[Array]) -> list[Array]:
        """Results for operands of the types `in_avals`, or differing only in the weak type."""
        outs = self.run(*args)
        if outs is MISMATCH:
            outs = self.run(*map(as_type, args, self.in_avals))
        if outs is FAILED:
            raise take_exception()
        assert outs is not MISMATCH
        return outs

    @cached_property
    def run(self) -> Runner:
        """Runs the program, with a list of results; see `native_call` for what it answers."""
        return self._runner(single=False)

    @cached_property
    def run_single(self) -> Runner:
        """The same for a program of one result, which comes without the list."""
        return self._runner(single=True)

    @property
    def is_short(self) -> bool:
        """Whether a call is done before another thread could have begun."""
        touched = sum(map(out_bytes, (*self.in_avals, *self.out_avals))) + self.arena_bytes
        return not (self.has_loops or self.host_functions or touched > _SHORT_BYTES)

    def call(self, single: bool) -> Call:
        """What a runner must know."""
        sizes = [out_bytes(aval) for aval in self.out_avals]
        return Call(
            entry=self.address,
            context=self.context,
            in_avals=self.in_avals,
            out_avals=self.out_avals,
            given=[size >= memory.SMALLEST for size in sizes],
            constants=[address_of(c) for c in self.constants],
            arena_bytes=self.arena_bytes,
            single=single,
            release=not self.is_short,
            # Host functions find this object by `context`.
            keep=self if self.host_functions else (self.constants, self._keep, self.held),
        )

    def _runner(self, single: bool) -> Runner:
        call = self.call(single)
        runner = make_runner(call)
        if call.takes_memory:
            results = zip(call.out_avals, call.given, self.sources, strict=True)
            wanted = [(out_bytes(aval), source) for aval, flag, source in results if flag]
            arena = self.arena_bytes if self.arena_bytes > MAX_STACK_ARENA else 0
            if any(source is not None for _, source in wanted):
                runner = _with_memory_of_operands(runner, arena, wanted, self.in_avals)
            else:
                runner = _with_memory(runner, arena, [size for size, _ in wanted])
        return _with_check(runner) if self.checked else runner


def _with_memory(runner: Runner, arena_bytes: int, sizes: Sequence[int]) -> Runner:
    """A runner that gets scratch memory and memory for large results from the cache of blocks."""

    def run(*args: Any) -> Any:
        blocks = [memory.take(size) for size in sizes]
        if not arena_bytes:
            return runner(0, blocks, *args)
        arena = memory.take(max(arena_bytes, memory.SMALLEST))
        return runner(arena.address, blocks, *args)

    return run


def _with_memory_of_operands(
    runner: Runner,
    arena_bytes: int,
    wanted: Sequence[tuple[int, int | None]],
    in_avals: Sequence[ShapedArray],
) -> Runner:
    """The same where results take the memory of operands, which are used up."""
    taken = [source for _, source in wanted if source is not None]

    def run(*args: Any) -> Any:
        for source in taken:
            if type(args[source]) is not Array or args[source].aval is not in_avals[source]:
                return MISMATCH
        # An array that is passed twice is read as another operand as well.
        apart = len(set(map(id, args))) == len(args) and not calls_in_flight.value
        blocks: list[memory.Block] = []
        for size, source in wanted:
            if source is None:
                blocks.append(memory.take(size))
            else:
                blocks.append(_memory_of(args[source], size, apart))
        if not arena_bytes:
            return runner(0, blocks, *args)
        arena = memory.take(max(arena_bytes, memory.SMALLEST))
        return runner(arena.address, blocks, *args)

    return run


_REFERENCES = 3  # that of the array, the local one, and that of the call that counts


def _memory_of(array: Array, size: int, apart: bool) -> memory.Block:
    """The memory of an array, if nobody else has it, or a copy."""
    address = array.address
    owner = array._owner
    if apart and type(owner) is memory.Block and sys.getrefcount(owner) == _REFERENCES:
        return owner
    block = memory.take(size)
    ctypes.memmove(block.address, address, size)
    return block


def _with_check(runner: Runner) -> Runner:
    """A runner that reports what kernels with bounds checks have found."""

    def run(*args: Any) -> Any:
        outs = runner(*args)
        fault = bounds.take_bounds_error()
        if fault is not None:
            raise errors.KernelError(f"compiled code left its memory: {fault}")
        return outs

    return run


def as_type(array: Array, aval: ShapedArray) -> Array:
    """The array in one piece, with the weak type that a program was compiled for."""
    if array.aval is aval and type(array) is Array:
        return array
    assert array.aval.same_type(aval), f"compiled for {aval}, called with {array.aval}"
    return Array(array._value, aval)


# -- host functions ------------------------------------------------------------------------------

_contexts = itertools.count(1)
_executables: weakref.WeakValueDictionary[int, Executable] = weakref.WeakValueDictionary()


@dataclass
class _Raised(threading.local):
    exception: BaseException | None = field(default=None)
    # Whether this thread is a device that runs a host function.
    is_device: bool = field(default=False)


_raised = _Raised()


def runs_host_function_of_device() -> bool:
    """Whether this thread is one of several devices, and runs a host function for it."""
    return _raised.is_device


def take_exception() -> BaseException:
    """What a host function has raised in this thread."""
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
    executable = _executables[context]
    before, _raised.is_device = (
        _raised.is_device,
        _raised.is_device or executable.failures is not None,
    )
    try:
        host = executable.host_functions[index]
        count = len(host.in_avals)
        arrays = [_view(table[i], aval).copy() for i, aval in enumerate(host.in_avals)]
        outs = host.function(*arrays)
        for i, (out, aval) in enumerate(zip(outs, host.out_avals, strict=True)):
            _view(table[count + i], aval)[...] = out
    except BaseException as exception:
        if executable.failures is None:
            _raised.exception = exception
        else:
            executable.failures.append(exception)
        return 1
    finally:
        _raised.is_device = before
    return 0


HOST_CALL_ADDRESS = ctypes.cast(host_call, ctypes.c_void_p).value or 0
