"""Kernels to machine addresses: the public entry of the CPU backend."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tetrax.compiler.cpu.bounds import register_kernel
from tetrax.compiler.cpu.emit import FunctionText, emit_kernel, module_text
from tetrax.compiler.cpu.target import Target, host_target
from tetrax.compiler.cpu.version import code_version
from tetrax.config import config
from tetrax.ir.kernel_check import check
from tetrax.ir.kernel_printer import text
from tetrax.ir.kernel_statements import Kernel
from tetrax.runtime import disk_cache, llvm
from tetrax.runtime.llvm import Effort

BATCH = 10
"""Kernels per module: LLVM's cost per module is shared, and the gain is spent at about ten."""


@dataclass(frozen=True)
class KernelHandle:
    """A compiled kernel: its symbol for driver code, its address for direct calls."""

    symbol: str
    address: int
    # What keeps the code in memory; None for code that is there for ever.
    owner: Any = None


def compile_kernels(kernels: Sequence[Kernel], temporary: bool = False) -> list[KernelHandle]:
    """Compile kernels, each distinct text once in the process and, with a disk cache, once on the
    machine.

    Temporary code goes when nobody holds a handle of it.
    """
    target = host_target()
    bounds = bool(config.check_bounds)
    distinct = {id(kernel): kernel for kernel in kernels}
    names = {key: _symbol(kernel, target, bounds) for key, kernel in distinct.items()}
    symbols = [names[id(kernel)] for kernel in kernels]
    if config.enable_checks:
        for kernel in distinct.values():
            check(kernel)
    if bounds:
        for symbol, kernel in zip(symbols, kernels, strict=True):
            register_kernel(_number(symbol), kernel)
    handles: dict[str, KernelHandle] = {}
    missing: dict[str, Kernel] = {}
    for symbol, kernel in zip(symbols, kernels, strict=True):
        found = _found(symbol, temporary)
        if found is None:
            missing[symbol] = kernel
        else:
            handles[symbol] = KernelHandle(symbol, *found)
    todo = list(missing.items())
    for at in range(0, len(todo), BATCH):
        addresses, owner = _compile_batch(todo[at : at + BATCH], target, bounds, temporary)
        for symbol, address in addresses.items():
            handles[symbol] = KernelHandle(symbol, address, owner)
    return [handles[symbol] for symbol in symbols]


def _found(symbol: str, temporary: bool) -> tuple[int, Any] | None:
    """Address and owner of code that is there already."""
    if temporary:
        return llvm.engine.held(symbol)
    address = llvm.engine.known(symbol)
    return None if address is None else (address, None)


def kernel_llvm(kernel: Kernel) -> str:
    """The LLVM IR of one kernel, for people and tests."""
    target = host_target()
    symbol = _symbol(kernel, target, bool(config.check_bounds))
    return module_text([_emit(symbol, kernel, target, bool(config.check_bounds))])


def compile_driver(
    source: str, symbol: str, kernels: Sequence[KernelHandle] | None = None, once: bool = False
) -> KernelHandle:
    """The function given as LLVM IR text, which may call kernels and library routines by symbol.

    With `kernels`, those that it calls, it is temporary code and keeps theirs; `once` says that it
    has no loops.
    """
    found = _found(symbol, temporary=kernels is not None)
    if found is not None:
        return KernelHandle(symbol, *found)
    key = _digest(source, host_target().key, llvm.VERSION)
    code = disk_cache.programs.read(key)
    if code is None:
        code = llvm.compile_object(source, Effort.ONCE if once else Effort.PLAIN)
        disk_cache.programs.write(key, code)
    if kernels is None:
        return KernelHandle(symbol, llvm.engine.link(code, [symbol], source)[symbol])
    using = {kernel.symbol: (kernel.address, kernel.owner) for kernel in kernels}
    addresses, owner = llvm.engine.link_temporary(code, [symbol], source, using)
    return KernelHandle(symbol, addresses[symbol], owner)


def link_library(
    symbols: Sequence[str], text: Callable[[Target], str], optimise: bool
) -> dict[str, int]:
    """Addresses of library routines; their text is made only where the disk has no object."""
    target = host_target()
    key = _digest("library", *symbols, target.key, llvm.VERSION, code_version(), str(optimise))
    effort = Effort.OPTIMISED if optimise else Effort.PLAIN
    return _linked(disk_cache.library, key, symbols, lambda: text(target), effort)[0]


def _linked(
    store: disk_cache.Store,
    key: str,
    symbols: Sequence[str],
    text: Callable[[], str],
    effort: Effort | None = None,
    temporary: bool = False,
) -> tuple[dict[str, int], Any]:
    """Addresses of symbols in the object kept under a key, which is made from `text()` if need be,
    and the owner of the code.

    Before the object the store keeps the symbols that it refers to.
    """
    stored = store.read(key)
    if stored is None:
        source = text()
        code = llvm.compile_object(source, effort or llvm.effort_for(source))
        needed = llvm.declared_symbols(source)
        declared = "\n".join(f"declare void @{name}()" for name in needed).encode()
        store.write(key, declared + b"\0" + code)
    else:
        declared, _, code = stored.partition(b"\0")
    if temporary:
        return llvm.engine.link_temporary(code, symbols, declared.decode())
    return llvm.engine.link(code, symbols, declared.decode()), None


def _compile_batch(
    batch: list[tuple[str, Kernel]], target: Target, bounds: bool, temporary: bool
) -> tuple[dict[str, int], Any]:
    # the symbols are hashes of all that the code depends on, so they alone name the object
    symbols = [symbol for symbol, _ in batch]
    return _linked(
        disk_cache.programs,
        _digest("batch", *symbols),
        symbols,
        lambda: module_text([_emit(symbol, kernel, target, bounds) for symbol, kernel in batch]),
        temporary=temporary,
    )


def _emit(symbol: str, kernel: Kernel, target: Target, bounds: bool) -> FunctionText:
    return emit_kernel(kernel, symbol, target, bounds, _number(symbol))


def _number(symbol: str) -> int:
    """The number by which a kernel names itself in bounds reports."""
    return int(symbol[-15:], 16)


def _symbol(kernel: Kernel, target: Target, bounds: bool) -> str:
    digest = _digest(text(kernel), target.key, llvm.VERSION, code_version(), str(bounds))
    return f"kernel_{digest[:40]}"


def _digest(*parts: str) -> str:
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(part.encode())
        hashed.update(b"\0")
    return hashed.hexdigest()
