"""Which module holds which library routine; modules are compiled on first use and kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tetrax.compiler.cpu.backend import link_library
from tetrax.compiler.cpu.functions import function_of
from tetrax.compiler.cpu.library.bidiagonal import bidiagonal_module, bidiagonal_symbols
from tetrax.compiler.cpu.library.cholesky import cholesky_module, cholesky_symbols
from tetrax.compiler.cpu.library.collective_reductions import (
    REDUCED_TYPES,
    reduction_module,
    reduction_symbols,
)
from tetrax.compiler.cpu.library.collective_reductions_spread import (
    spread_reduction_module,
    spread_symbols,
)
from tetrax.compiler.cpu.library.collectives import EXCHANGE_SYMBOLS, exchange_module
from tetrax.compiler.cpu.library.collectives_spread import SPREAD_SYMBOLS, spread_module
from tetrax.compiler.cpu.library.conquer import conquer_module, conquer_symbols
from tetrax.compiler.cpu.library.conv import conv_module
from tetrax.compiler.cpu.library.dense_vectors import turn_module, turn_symbols
from tetrax.compiler.cpu.library.devices import DEVICE_SYMBOLS, devices_module
from tetrax.compiler.cpu.library.devices_control import take_over as take_over_devices
from tetrax.compiler.cpu.library.fft import fft_module, fft_symbols
from tetrax.compiler.cpu.library.functions import function_module
from tetrax.compiler.cpu.library.gemm import (
    gemm_module,
    gemm_symbols,
    tile_module,
    tile_symbols,
)
from tetrax.compiler.cpu.library.lu import lu_module, lu_symbols
from tetrax.compiler.cpu.library.mathematics import MATHEMATICS_SYMBOLS, mathematics_module
from tetrax.compiler.cpu.library.pool import POOL_SYMBOLS, pool_module
from tetrax.compiler.cpu.library.pool_control import take_over
from tetrax.compiler.cpu.library.processes import PROCESS_SYMBOLS, processes_module
from tetrax.compiler.cpu.library.qr import qr_module, qr_symbols
from tetrax.compiler.cpu.library.sort import SORT_SYMBOLS, sort_module
from tetrax.compiler.cpu.library.tridiagonal import tridiagonal_module, tridiagonal_symbols
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_types import BF16, F16, F32, F64
from tetrax.runtime import llvm


@dataclass(frozen=True)
class Library:
    """A module of routines.

    `text` writes it, `optimise` says whether LLVM's pass pipeline should run on it, and `linked`
    is called with the routines' addresses once they have some.
    """

    symbols: tuple[str, ...]
    text: Callable[[Target], str]
    optimise: bool = False
    linked: Callable[[Mapping[str, int]], None] | None = None


_LIBRARIES = (
    Library(POOL_SYMBOLS, pool_module, linked=take_over),
    *(Library(tile_symbols(type), partial(tile_module, type)) for type in (F32, F64)),
    *(
        Library(gemm_symbols(operand), partial(gemm_module, operand))
        for operand in (F32, F64, F16, BF16)
    ),
    Library(("tetrax_conv_f32",), partial(conv_module, F32)),
    Library(("tetrax_conv_f64",), partial(conv_module, F64)),
    Library(SORT_SYMBOLS, sort_module, optimise=True),
    *(Library(fft_symbols(type), partial(fft_module, type), optimise=True) for type in (F32, F64)),
    *(
        Library(symbols(type), partial(module, type), optimise=True)
        for symbols, module in (
            (turn_symbols, turn_module),
            (qr_symbols, qr_module),
            (cholesky_symbols, cholesky_module),
            (lu_symbols, lu_module),
            (tridiagonal_symbols, tridiagonal_module),
            (conquer_symbols, conquer_module),
            (bidiagonal_symbols, bidiagonal_module),
        )
        for type in (F32, F64)
    ),
    Library(MATHEMATICS_SYMBOLS, mathematics_module, optimise=True),
    Library(DEVICE_SYMBOLS, devices_module, linked=take_over_devices),
    Library(EXCHANGE_SYMBOLS, exchange_module, optimise=True),
    Library(SPREAD_SYMBOLS, spread_module, optimise=True),
    *(
        Library(symbols(type), partial(module, type), optimise=True)
        for symbols, module in (
            (reduction_symbols, reduction_module),
            (spread_symbols, spread_reduction_module),
        )
        for type in REDUCED_TYPES
    ),
    Library(PROCESS_SYMBOLS, processes_module, optimise=True),
)
_HOME = {symbol: library for library in _LIBRARIES for symbol in library.symbols}


def _function_library(symbol: str) -> Library | None:
    """The module of an elementary function, of which there are too many to list."""
    function = function_of(symbol)
    return Library((symbol,), partial(function_module, function)) if function else None


def library_address(symbol: str) -> int | None:
    """The address of a library routine, or None for a symbol that is none."""
    known = llvm.engine.known(symbol)
    library = _HOME.get(symbol) or _function_library(symbol)
    if library is None or (known is not None and library.linked is None):
        return known
    with llvm.engine.lock():  # nobody calls routines that another thread is setting up
        known = llvm.engine.known(symbol)
        if known is not None:
            return known
        addresses = link_library(library.symbols, library.text, library.optimise)
        if library.linked is not None:
            library.linked(addresses)
        return addresses[symbol]


def build_all() -> None:
    """Build, or load from disk, every module that has a fixed name."""
    for library in _LIBRARIES:
        library_address(library.symbols[0])


llvm.engine.provide(library_address)
