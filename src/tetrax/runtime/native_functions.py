"""Builtin functions of this interpreter, made of machine code.

Their text (`native_functions_text`) calls functions of CPython's stable interface only. Where there
is no CPython, or `TETRAX_NATIVE_CALLS=0`, everything that uses them has a twin in Python.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from tetrax.runtime import disk_cache, llvm
from tetrax.runtime.native_functions_text import (
    ADDRESS_SYMBOL,
    CALL_SYMBOL,
    IMPORTS,
    functions_text,
)


@cache
def work() -> bool:
    """Whether this interpreter can call machine code directly."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8:
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False  # the text relies on the lock
    return os.environ.get("TETRAX_NATIVE_CALLS", "1") != "0"


class _MethodDefinition(ctypes.Structure):
    """PyMethodDef, which is part of the stable interface."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_METH_O = 0x08
_METH_FASTCALL = 0x80


_made: dict[str, _MethodDefinition] = {}


def _definitions() -> dict[str, _MethodDefinition]:
    """What the functions are to the interpreter; kept for ever, since they point to it."""
    if not _made:
        with llvm.engine.lock():  # two threads must not make two, of which one is dropped
            if not _made:
                _made.update(_new_definitions())
    return _made


def _new_definitions() -> dict[str, _MethodDefinition]:
    for name in IMPORTS:
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        assert address is not None
        llvm.engine.define(name, address)
    text = functions_text()
    symbols = [CALL_SYMBOL, ADDRESS_SYMBOL]
    addresses = llvm.engine.link(_object(text), symbols, text)
    return {
        CALL_SYMBOL: _MethodDefinition(
            b"run", addresses[CALL_SYMBOL], _METH_FASTCALL, b"Run a compiled program."
        ),
        ADDRESS_SYMBOL: _MethodDefinition(
            b"address_of", addresses[ADDRESS_SYMBOL], _METH_O, b"The address of an array."
        ),
    }


def _object(text: str) -> bytes:
    """The object code of the text, which changes with this package only."""
    parts = (text, llvm.VERSION, *llvm.host_cpu(), llvm.host_architecture())
    key = "native-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()
    code = disk_cache.library.read(key)
    if code is None:
        code = llvm.compile_object(text)
        disk_cache.library.write(key, code)
    return code


def make(symbol: str, held: Any) -> Callable[..., Any]:
    """The builtin function `symbol` with `held` as what C calls self."""
    new_function: Any = ctypes.pythonapi.PyCFunction_NewEx
    new_function.restype = ctypes.py_object
    new_function.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return new_function(ctypes.addressof(_definitions()[symbol]), held, None)


@cache
def _native_address_of() -> Callable[[np.ndarray], int] | None:
    return make(ADDRESS_SYMBOL, "__array_struct__") if work() else None


def address_of(array: np.ndarray) -> int:
    """The address of the first element."""
    native = _native_address_of()
    return array.__array_interface__["data"][0] if native is None else native(array)
