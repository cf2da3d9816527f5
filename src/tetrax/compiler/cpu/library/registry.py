"""Which module holds which library routine; modules are compiled on first use and kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tetrax.compiler.cpu.backend import cached_object
from tetrax.compiler.cpu.library.gemm import gemm_module
from tetrax.compiler.cpu.target import Target, host_target
from tetrax.ir.kernel_types import F32, F64
from tetrax.runtime import llvm

# symbol -> (function that gives the module's text, whether LLVM's pass pipeline should run on it)
_ROUTINES: dict[str, tuple[Callable[[Target], str], bool]] = {
    "tetrax_gemm_f32": (partial(gemm_module, F32), False),
    "tetrax_gemm_f64": (partial(gemm_module, F64), False),
}


def library_address(symbol: str) -> int | None:
    """The address of a library routine, or None for a symbol that is none."""
    known = llvm.engine.known(symbol)
    if known is not None or symbol not in _ROUTINES:
        return known
    module, optimise = _ROUTINES[symbol]
    source = module(host_target())
    code = cached_object(source, optimise)
    return llvm.engine.link(code, [symbol], source)[symbol]


llvm.engine.provide(library_address)
