"""LLVM behind one small interface: IR text to object code, object code to addresses.

Only this module talks to llvmlite. Every call of it is made under one lock (llvmlite serialises
anyway), which is made anew in a forked child.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Any

from tetrax._lazy import lazy_module
from tetrax.runtime import code_memory, elf
from tetrax.runtime.host import VERSION, host_architecture, host_cpu

llvm = lazy_module("llvmlite.binding")

_lock = threading.RLock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)

_DECLARED = re.compile(r"^(?:declare [^@\n]*)?@\"?([\w.$]+)\"?(?:\(| = external )", re.MULTILINE)

_LEVEL = 1
"""LLVM's effort for generated code: level 2 takes longer and makes nothing faster."""
_LEVEL_ONCE = 0
"""The effort for code that runs once a call: half the time, some more instructions."""
_SHORT_TEXT = 4000
"""Text without loops that is longer than this is worth the usual effort, in bytes."""


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def _machine(level: int) -> Any:
    _initialise()
    cpu, features = host_cpu()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", codemodel="default", jit=True
    )


class Effort(Enum):
    """What LLVM does for a module."""

    ONCE = "no loops: each instruction runs once a call"
    PLAIN = "text in its final form"
    OPTIMISED = "text that needs the full pass pipeline first"


def effort_for(text: str) -> Effort:
    """The effort for text in its final form: what has no loops and branches is done quickly."""
    return Effort.PLAIN if " phi " in text or len(text) > _SHORT_TEXT else Effort.ONCE


_LEVELS = {Effort.ONCE: _LEVEL_ONCE, Effort.PLAIN: _LEVEL, Effort.OPTIMISED: 3}


def compile_object(text: str, effort: Effort = Effort.PLAIN) -> bytes:
    """Object code of LLVM IR text."""
    with _lock:
        _initialise()
        module = llvm.parse_assembly(text)
        module.triple = _machine(_LEVEL).triple
        module.verify()
        machine = _machine(_LEVELS[effort])
        if effort is Effort.OPTIMISED:
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


NOTHING: Mapping[str, Any] = MappingProxyType({})


class Linker:
    """LLVM's own linker; for object code that ours (`elf`) does not take."""

    def __init__(self) -> None:
        self._jit: Any = None
        self._libraries: list[Any] = []

    def link(
        self, name: str, code: bytes, symbols: Sequence[str], imports: Mapping[str, int]
    ) -> dict[str, int]:
        """Addresses of `symbols` in object code that refers to `imports` by name.

        The code lives as long as the linker.
        """
        addresses, owner = self.link_owned(name, code, symbols, imports)
        self._libraries.append(owner)
        return addresses

    def link_owned(
        self, name: str, code: bytes, symbols: Sequence[str], imports: Mapping[str, int]
    ) -> tuple[dict[str, int], Any]:
        """The same for code that lives as long as its owner, which is given beside."""
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
            return {symbol: library[symbol] for symbol in symbols}, library


class Engine:
    """Addresses of everything compiled in this process, by symbol.

    Code is kept for ever, or, if it was linked as temporary, as long as somebody holds its owner.
    """

    def __init__(self) -> None:
        self._linker = Linker()
        self._addresses: dict[str, int] = {}
        self._temporary: dict[str, tuple[weakref.ref[Any], int]] = {}
        self._gone: deque[weakref.ref[Any]] = deque()
        self._symbols_of: dict[weakref.ref[Any], Sequence[str]] = {}
        self._kept: list[Any] = []
        self._count = 0
        self._providers: list[Callable[[str], int | None]] = []

    def lock(self) -> Any:
        """What a thread holds while it links, or sets up what it has linked."""
        return _lock

    def provide(self, provider: Callable[[str], int | None]) -> None:
        """Add a source of addresses for symbols that are not compiled here (LAPACK, library
        routines).
        """
        self._providers.append(provider)

    def define(self, symbol: str, address: int) -> None:
        """Give a symbol an address."""
        self._addresses[symbol] = address

    def known(self, symbol: str) -> int | None:
        """The address of a compiled or defined symbol that is there for ever, or None."""
        return self._addresses.get(symbol)

    def held(self, symbol: str) -> tuple[int, Any] | None:
        """The address of a symbol and what must be held meanwhile, or None if it is not there."""
        address = self._addresses.get(symbol)
        if address is not None:
            return address, None
        reference, address = self._temporary.get(symbol, (None, 0))
        owner = None if reference is None else reference()
        return None if owner is None else (address, owner)

    def address(self, symbol: str) -> int | None:
        """The address of a symbol that is there for ever, asking the providers if need be."""
        found = self._addresses.get(symbol)
        if found is not None:
            return found
        for provider in self._providers:
            found = provider(symbol)
            if found is not None:
                self._addresses[symbol] = found
                return found
        return None

    def link(self, code: bytes, symbols: Sequence[str], text: str) -> dict[str, int]:
        """Link object code made from an IR text, for ever; gives the addresses of `symbols`."""
        with _lock:
            if any(symbol not in self._addresses for symbol in symbols):
                addresses, owner = self._linked(code, symbols, text)
                self._kept.append(owner)
                self._addresses.update(addresses)
            return {symbol: self._addresses[symbol] for symbol in symbols}

    def link_temporary(
        self,
        code: bytes,
        symbols: Sequence[str],
        text: str,
        using: Mapping[str, tuple[int, Any]] = NOTHING,
    ) -> tuple[dict[str, int], Any]:
        """Link object code; gives the addresses of `symbols`, good as long as the owner lives.

        `using` are the addresses and owners of temporary code that it calls; they live as long.
        """
        with _lock:
            while self._gone:
                gone = self._gone.popleft()
                for symbol in self._symbols_of.pop(gone, ()):
                    if self._temporary.get(symbol, (None,))[0] is gone:
                        del self._temporary[symbol]
            known = {symbol: address for symbol, (address, _) in using.items()}
            addresses, owner = self._linked(code, symbols, text, known)
            owner.needs = tuple(needed for _, needed in using.values())
            reference = weakref.ref(owner, self._gone.append)
            self._symbols_of[reference] = tuple(symbols)
            for symbol, address in addresses.items():
                self._temporary[symbol] = (reference, address)
            return addresses, owner

    def _linked(
        self,
        code: bytes,
        symbols: Sequence[str],
        text: str,
        known: Mapping[str, int] = NOTHING,
    ) -> tuple[dict[str, int], Any]:
        # what no provider knows is looked up in the process (the C and mathematics libraries)
        found = {name: known.get(name) or self.address(name) for name in declared_symbols(text)}
        imports = {symbol: at for symbol, at in found.items() if at is not None}
        try:
            return _link_here(code, symbols, imports)
        except elf.Unsupported:
            self._count += 1
            name = f"tetrax-{os.getpid()}-{self._count}"
            return self._linker.link_owned(name, code, symbols, imports)


def _link_here(
    code: bytes, symbols: Sequence[str], imports: Mapping[str, int]
) -> tuple[dict[str, int], Any]:
    """Link without LLVM. Raises Unsupported where that does not work."""
    found = elf.Object(code)
    addresses = {name: imports.get(name) or _process_symbol(name) for name in found.undefined()}
    memory = code_memory.allocate(found.nbytes)
    if memory is None:
        raise elf.Unsupported("no executable memory")
    memory.write(found.image(memory.address, addresses))
    places = {symbol: found.address_of(symbol, memory.address) for symbol in symbols}
    assert None not in places.values(), f"not all of {symbols} are defined"
    return places, memory  # type: ignore[return-value]


@cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _process_symbol(name: str) -> int:
    """The address of a symbol of the libraries that this process has loaded."""
    try:
        address = ctypes.cast(_process()[name], ctypes.c_void_p).value
    except (AttributeError, OSError, TypeError):
        address = None
    if address is None:
        raise elf.Unsupported(f"no symbol {name!r}")
    return address


engine = Engine()
"""The engine of this process."""

__all__ = [
    "VERSION",
    "Effort",
    "Engine",
    "Linker",
    "assembly",
    "compile_object",
    "declared_symbols",
    "engine",
    "host_architecture",
    "host_cpu",
]
