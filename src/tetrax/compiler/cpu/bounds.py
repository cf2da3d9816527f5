"""Reports of out-of-bounds accesses, made by kernels compiled with bounds checks on."""

from __future__ import annotations

import ctypes

from tetrax.compiler.cpu.emit_memory import BOUNDS_SYMBOL
from tetrax.ir.kernel_statements import Kernel
from tetrax.runtime import llvm

_words = (ctypes.c_int64 * 8)()
_kernels: dict[int, Kernel] = {}

llvm.engine.define(BOUNDS_SYMBOL, ctypes.addressof(_words))


def register_kernel(number: int, kernel: Kernel) -> None:
    """Remember a kernel compiled with bounds checks under the number it reports."""
    _kernels[number] = kernel


def take_bounds_error() -> str | None:
    """What the last out-of-bounds access was, or None if there was none; clears the report."""
    if not _words[0]:
        return None
    number, at, offset = _words[1], _words[2], _words[3]
    _words[0] = 0
    kernel = _kernels.get(number)
    if kernel is None:
        return f"an access at offset {offset} of buffer {at} is out of bounds"
    buffer = kernel.buffers[at]
    return (
        f"kernel {kernel.name}: offset {offset} is outside buffer {buffer.name}, "
        f"which has {buffer.size} elements of type {buffer.element}"
    )
