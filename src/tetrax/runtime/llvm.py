"""LLVM behind one small interface: IR text to object code, object code to addresses.

Only this module talks to llvmlite. Every call of it is made under one lock (llvmlite serialises
anyway), which is made anew in a forked child.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import llvmlite

from tetrax._lazy import lazy_module

llvm = lazy_module("llvmlite.binding")

_lock = threading.RLock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)

_DECLARED = re.compile(r"^(?:declare [^@\n]*)?@\"?([\w.$]+)\"?(?:\(| = external )", re.MULTILINE)

_LEVEL = 1
"""LLVM's effort for generated code: level 2 takes longer and makes nothing faster."""

VERSION = f"llvmlite-{llvmlite.__version__}"


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def host_cpu() -> tuple[str, str]:
    """(name, features) of the CPU that code is made for; TETRAX_CPU overrides, e.g. x86-64-v2."""
    override = os.environ.get("TETRAX_CPU")
    if override:
        return override, ""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def host_architecture() -> str:
    """The first part of the target triple, such as x86_64."""
    return llvm.get_default_triple().split("-")[0]


@cache
def _machine(level: int) -> Any:
    _initialise()
    cpu, features = host_cpu()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", codemodel="default", jit=True
    )


def compile_object(text: str, optimise: bool = False) -> bytes:
    """Object code of LLVM IR text; `optimise` runs the full pass pipeline first (for library
    code).
    """
    with _lock:
        _initialise()
        module = llvm.parse_assembly(text)
        module.triple = _machine(_LEVEL).triple
        module.verify()
        machine = _machine(3 if optimise else _LEVEL)
        if optimise:
            options = llvm.create_pipeline_tuning_options(speed_level=3)
            builder = llvm.create_pass_builder(machine, options)
            builder.getModulePassManager().run(module, builder)
        return machine.emit_object(module)


def assembly(text: str) -> str:
    """Machine code as text, for people."""
    with _lock:
        _initialise()
        return _machine(_LEVEL).emit_assembly(llvm.parse_assembly(text))


def declared_symbols(text: str) -> list[str]:
    """The symbols an IR text declares and does not define, without LLVM's own."""
    return [name for name in _DECLARED.findall(text) if not name.startswith("llvm.")]


class Linker:
    """Turns object code into addresses; the code lives as long as the linker."""

    def __init__(self) -> None:
        self._jit: Any = None
        self._libraries: list[Any] = []

    def link(
        self, name: str, code: bytes, symbols: list[str], imports: Mapping[str, int]
    ) -> dict[str, int]:
        """Addresses of `symbols` in object code that refers to `imports` by name."""
        with _lock:
            _initialise()
            if self._jit is None:
                self._jit = llvm.create_lljit_compiler(_machine(_LEVEL))
            builder = llvm.JITLibraryBuilder()
            builder.add_object_img(code)
            builder.add_current_process()
            for symbol, address in imports.items():
                builder.import_symbol(symbol, address)
            for symbol in symbols:
                builder.export_symbol(symbol)
            library = builder.link(self._jit, name)
            self._libraries.append(library)
            return {symbol: library[symbol] for symbol in symbols}


class Engine:
    """Addresses of everything compiled in this process, by symbol."""

    def __init__(self) -> None:
        self._linker = Linker()
        self._addresses: dict[str, int] = {}
        self._providers: list[Callable[[str], int | None]] = []
        self._count = 0

    def provide(self, provider: Callable[[str], int | None]) -> None:
        """Add a source of addresses for symbols that are not compiled here (LAPACK, library
        routines).
        """
        self._providers.append(provider)

    def define(self, symbol: str, address: int) -> None:
        """Give a symbol an address."""
        self._addresses[symbol] = address

    def known(self, symbol: str) -> int | None:
        """The address of a compiled or defined symbol, or None."""
        return self._addresses.get(symbol)

    def address(self, symbol: str) -> int | None:
        """The address of a symbol, asking the providers for it if need be."""
        found = self._addresses.get(symbol)
        if found is not None:
            return found
        for provider in self._providers:
            found = provider(symbol)
            if found is not None:
                self._addresses[symbol] = found
                return found
        return None

    def link(self, code: bytes, symbols: list[str], text: str) -> dict[str, int]:
        """Link object code made from an IR text; gives the addresses of `symbols`."""
        with _lock:
            missing = [symbol for symbol in symbols if symbol not in self._addresses]
            if missing:
                # what no provider knows is looked up in the process (the C and mathematics
                # libraries)
                found = {symbol: self.address(symbol) for symbol in declared_symbols(text)}
                imports = {symbol: at for symbol, at in found.items() if at is not None}
                self._count += 1
                name = f"tetrax-{os.getpid()}-{self._count}"
                self._addresses.update(self._linker.link(name, code, symbols, imports))
            return {symbol: self._addresses[symbol] for symbol in symbols}


engine = Engine()
"""The engine of this process."""
