"""Calling machine code with arrays, and arrays out of it, without running Python in between.

A compiled program is called through a `runner`: `runner(*arrays)` checks that it is given arrays of
the types that the program was compiled for, makes the results, and calls the program. It answers

    the result, or a list of them     as `Call.single` says
    MISMATCH                          the arguments are not of these types; nothing was run
    FAILED                            a function of Python that the program called has raised

and raises what making the results raises (MemoryError), or using a deleted argument.

Programs with a large arena or large results take two arguments more, in front: the arena's address
and the blocks for the results that have none of their own (`Call.given`).

On CPython a runner is a builtin function made of machine code, with the text of
`native_functions_text`. It calls functions of the C API only and knows the layout of no object.
Elsewhere, and where `TETRAX_NATIVE_CALLS=0`, it is a function of Python that does the same.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tetrax.ir.types import ShapedArray, storage_dtype
from tetrax.runtime import native_functions
from tetrax.runtime.array import Array, calls_in_flight
from tetrax.runtime.native_functions_text import CALL_SYMBOL

MISMATCH = None
FAILED = False
Runner = Callable[..., Any]

MAX_STACK_ARENA = 16 << 10
"""Arenas up to this size are on the stack of the caller, who may thus be called again meanwhile."""

_MOST_VALUES = 4096


@dataclass(frozen=True)
class Call:
    """All that a runner must know of a program."""

    entry: int
    context: int
    in_avals: Sequence[ShapedArray]
    out_avals: Sequence[ShapedArray]
    # For each result: whether the caller gives a block for it.
    given: Sequence[bool]
    constants: Sequence[int]
    arena_bytes: int
    # The program has one result and the runner gives just that.
    single: bool
    # Let other threads of Python run meanwhile: the program is long, or calls Python.
    release: bool
    # What must live as long as the runner: constants, code.
    keep: Any = None

    @property
    def takes_memory(self) -> bool:
        """Whether the runner's first arguments are an arena and blocks."""
        return self.arena_bytes > MAX_STACK_ARENA or any(self.given)


def make_runner(call: Call) -> Runner:
    """The fastest runner that this interpreter allows."""
    values = len(call.in_avals) + len(call.out_avals) + len(call.constants)
    if native_functions.work() and values <= _MOST_VALUES:
        return native_runner(call)
    return python_runner(call)


def out_bytes(aval: ShapedArray) -> int:
    """The size of a result in memory."""
    return aval.size * storage_dtype(aval.dtype).itemsize


# --------------------------------------------------------------------------- in machine code


def native_runner(call: Call) -> Runner:
    """A builtin function that runs the program."""
    objects = (Array, "aval", "_address", "_owner", "address", MISMATCH, FAILED)
    record = (
        *(call.entry, call.context),
        *(len(call.in_avals), len(call.out_avals), len(call.constants)),
        2 if call.takes_memory else 0,
        0 if call.arena_bytes > MAX_STACK_ARENA else call.arena_bytes,
        *(int(call.single), int(call.release), ctypes.addressof(calls_in_flight)),
        *map(id, objects),
        *map(id, call.in_avals),
        *map(id, call.out_avals),
        *(
            -1 if given else out_bytes(aval)
            for aval, given in zip(call.out_avals, call.given, strict=True)
        ),
        *call.constants,
    )
    packed = struct.pack(f"{len(record)}q", *record)
    # The function holds its record, and with it every object that the record points to.
    held = (packed, *objects, *call.in_avals, *call.out_avals, call.keep)
    return native_functions.make(CALL_SYMBOL, held)


# --------------------------------------------------------------------------- in Python

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def python_runner(call: Call) -> Runner:
    """A function of Python that runs the program."""
    entry = _ENTRY(call.entry)
    in_avals, constants = tuple(call.in_avals), tuple(call.constants)
    outs = [
        (aval, storage_dtype(aval.dtype), given)
        for aval, given in zip(call.out_avals, call.given, strict=True)
    ]
    own_arena = 0 if call.arena_bytes > MAX_STACK_ARENA else call.arena_bytes
    context, single = call.context, call.single

    def run_with(arena: int, blocks: Sequence[Any], *args: Any) -> Any:
        if tuple([getattr(x, "aval", None) for x in args]) != in_avals:
            return MISMATCH
        if any(type(x) is not Array for x in args):
            return MISMATCH
        held = [x._npy for x in args]  # in case another thread deletes an argument meanwhile
        results: list[Any] = []
        remaining = iter(blocks)
        for aval, dtype, given in outs:
            array = Array(np.empty(aval.shape, dtype), aval) if not given else _new(aval)
            if given:
                array._owner = block = next(remaining)
                array._address = block.address
            results.append(array)
        addresses = [*[x._address for x in args], *[x._address for x in results], *constants]
        table = struct.pack(f"{len(addresses)}Q", *addresses)
        memory = ctypes.create_string_buffer(own_arena + 64) if own_arena else None
        if memory is not None:
            start = ctypes.addressof(memory)
            arena = start + -start % 64
        status = entry(table, arena, context)
        del held
        if status:
            return FAILED
        return results[0] if single else results

    def run(*args: Any) -> Any:
        return run_with(0, (), *args)

    run_with.__dict__["keep"] = call.keep
    return run_with if call.takes_memory else run


def _new(aval: ShapedArray) -> Array:
    array = object.__new__(Array)
    array.aval = aval
    return array
