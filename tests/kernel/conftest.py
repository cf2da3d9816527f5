"""Shared helpers of the kernel tests: compile a kernel and call it on NumPy arrays."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

import numpy as np
from tetrax.compiler.cpu import compile_kernels

sys.path.insert(0, str(Path(__file__).parent))


def call_kernel(kernel, *arrays, scalars=()):
    """Run a kernel on arrays (one per parameter buffer) and ctypes scalars."""
    handle = compile_kernels([kernel])[0]
    kinds = [ctypes.c_void_p] * len(arrays) + [type(s) for s in scalars] + [ctypes.c_void_p]
    function = ctypes.CFUNCTYPE(None, *kinds)(handle.address)
    scratch = np.zeros(kernel.scratch_bytes + 64, np.uint8)
    start = scratch.ctypes.data + (-scratch.ctypes.data) % 64
    function(*(a.ctypes.data for a in arrays), *scalars, start)


@pytest.fixture
def run_kernel():
    """`run(kernel, arrays…, scalars=())`."""
    return call_kernel
