"""The CPU backend: Kernel IR to LLVM IR text, object code and addresses.

Importing it also gives the engine its sources of symbols: the library routines and LAPACK.
"""

from __future__ import annotations

from tetrax.compiler.cpu.backend import (
    KernelHandle,
    compile_driver,
    compile_kernels,
    kernel_llvm,
)
from tetrax.compiler.cpu.bounds import take_bounds_error
from tetrax.compiler.cpu.library import library_address
from tetrax.runtime.lapack import routine_address

__all__ = [
    "KernelHandle",
    "compile_driver",
    "compile_kernels",
    "kernel_llvm",
    "library_address",
    "routine_address",
    "take_bounds_error",
]
