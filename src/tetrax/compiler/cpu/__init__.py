"""The CPU backend: Kernel IR to LLVM IR text, object code and addresses."""

from __future__ import annotations

from tetrax.compiler.cpu.backend import (
    KernelHandle,
    compile_driver,
    compile_kernels,
    kernel_llvm,
)
from tetrax.compiler.cpu.bounds import take_bounds_error

__all__ = ["KernelHandle", "compile_driver", "compile_kernels", "kernel_llvm", "take_bounds_error"]
