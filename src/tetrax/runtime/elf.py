"""Linking x86-64 ELF object code: sections into one image, references filled in.

LLVM's own linker gives every object pages of its own and keeps some tens of kilobytes of records;
this one takes the size of the code. It knows what LLVM emits for position-independent code, and
refuses the rest (`Unsupported`), which is then LLVM's to link.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_SYMBOL_TABLE, _RELOCATIONS, _NO_BITS = 2, 4, 8
_ALLOCATED, _THREAD_LOCAL = 2, 0x400
_UNDEFINED, _ABSOLUTE, _FIRST_RESERVED = 0, 0xFFF1, 0xFF00
_WEAK = 2
# `jmp *[rip + 0]`, followed by the address: how code reaches what is more than 2 GB away.
_JUMP = b"\xff\x25\x00\x00\x00\x00"
_STUB_BYTES = 16


class Unsupported(Exception):
    """Object code that this linker does not take."""


@dataclass
class Section:
    """A section by its header, and where it stands in the image (None: left out)."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    place: int | None = None


class Symbol(NamedTuple):
    """A name with a place in a section, or an undefined one (`section` 0)."""

    name: str
    section: int
    value: int
    weak: bool


class Relocation(NamedTuple):
    """A reference: `kind` at `offset` of section `section`, to a symbol plus `addend`."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


class Object:
    """Object code read, laid out, and ready to be placed somewhere."""

    def __init__(self, code: bytes) -> None:
        if code[:7] != b"\x7fELF\x02\x01\x01" or struct.unpack_from("<HH", code, 16) != (1, 62):
            raise Unsupported("no relocatable x86-64 ELF object")
        self.code = code
        self.sections = self._read_sections()
        self.symbols = self._read_symbols()
        self.relocations = self._read_relocations()
        self.nbytes = self._lay_out()

    # -- reading -------------------------------------------------------------------------------

    def _read_sections(self) -> list[Section]:
        (start,) = struct.unpack_from("<Q", self.code, 40)
        count, names = struct.unpack_from("<HH", self.code, 60)
        headers = [_SECTION.unpack_from(self.code, start + i * _SECTION.size) for i in range(count)]
        table = headers[names][4]
        return [
            Section(self._string(table + name), kind, flags, offset, size, link, info, align)
            for name, kind, flags, _, offset, size, link, info, align, _ in headers
        ]

    def _string(self, at: int) -> str:
        return self.code[at : self.code.index(b"\0", at)].decode()

    def _read_symbols(self) -> list[Symbol]:
        found = []
        for section in self.sections:
            if section.kind == _SYMBOL_TABLE:
                names = self.sections[section.link].offset
                table = self.code[section.offset : section.offset + section.size]
                for name, info, _, index, value, _ in _SYMBOL.iter_unpack(table):
                    if index >= _FIRST_RESERVED and index != _ABSOLUTE:
                        raise Unsupported("common symbols")
                    weak = info >> 4 == _WEAK
                    found.append(Symbol(self._string(names + name), index, value, weak))
        return found

    def _read_relocations(self) -> list[Relocation]:
        found = []
        for section in self.sections:
            if section.kind == _RELOCATIONS and self._is_kept(self.sections[section.info]):
                table = self.code[section.offset : section.offset + section.size]
                for offset, info, addend in _RELOCATION.iter_unpack(table):
                    kind, symbol = info & 0xFFFFFFFF, info >> 32
                    if kind not in _WRITERS:
                        raise Unsupported(f"relocation {kind}")
                    found.append(Relocation(section.info, offset, kind, symbol, addend))
        return found

    @staticmethod
    def _is_kept(section: Section) -> bool:
        # Nothing is ever thrown through our code, so tables for unwinding are left out.
        return bool(section.flags & _ALLOCATED) and not section.name.startswith(".eh_frame")

    # -- layout --------------------------------------------------------------------------------

    def _lay_out(self) -> int:
        """Give sections their places, then stubs and addresses for what is outside; the size."""
        end = 0
        for section in self.sections:
            if self._is_kept(section):
                if section.flags & _THREAD_LOCAL:
                    raise Unsupported("thread-local storage")
                align = max(section.align, 1)
                end = -(-end // align) * align
                section.place = end
                end += section.size
        end = -(-end // _STUB_BYTES) * _STUB_BYTES
        self.stubs: dict[int, int] = {}
        for _, _, kind, symbol, _ in self.relocations:
            if symbol in self.stubs:
                continue
            if kind in _THROUGH_TABLE or self.symbols[symbol].section == _UNDEFINED:
                self.stubs[symbol] = end
                end += _STUB_BYTES
        return end

    # -- placing -------------------------------------------------------------------------------

    def undefined(self) -> list[str]:
        """The names that the code refers to and does not define."""
        used = {relocation.symbol for relocation in self.relocations}
        return [
            symbol.name
            for number, symbol in enumerate(self.symbols)
            if number in used and symbol.section == _UNDEFINED
        ]

    def address_of(self, name: str, base: int) -> int | None:
        """Where a defined symbol is if the image is at `base`."""
        for symbol in self.symbols:
            if symbol.name == name and symbol.section != _UNDEFINED:
                return self._defined(symbol, base)
        return None

    def _defined(self, symbol: Symbol, base: int) -> int:
        if symbol.section == _ABSOLUTE:
            return symbol.value
        place = self.sections[symbol.section].place
        if place is None:
            raise Unsupported(f"reference to {symbol.name!r} in a section that is left out")
        return base + place + symbol.value

    def image(self, base: int, imports: Mapping[str, int]) -> bytearray:
        """The contents of memory at `base`; `imports` are the addresses of undefined names."""
        image = bytearray(self.nbytes)
        for section in self.sections:
            if section.place is not None and section.kind != _NO_BITS:
                piece = self.code[section.offset : section.offset + section.size]
                image[section.place : section.place + section.size] = piece
        targets: dict[int, int] = {}
        for number, place in self.stubs.items():
            symbol = self.symbols[number]
            inside = symbol.section != _UNDEFINED
            address = self._defined(symbol, base) if inside else imports[symbol.name]
            targets[number] = address
            image[place : place + len(_JUMP)] = _JUMP
            struct.pack_into("<Q", image, place + len(_JUMP), address)
        for section_number, offset, kind, number, addend in self.relocations:
            symbol = self.symbols[number]
            inside = symbol.section != _UNDEFINED
            target = self._defined(symbol, base) if inside else targets[number]
            section_place = self.sections[section_number].place
            assert section_place is not None
            at = section_place + offset
            stub = self.stubs.get(number)
            stub_address = None if stub is None else base + stub
            _WRITERS[kind](image, at, base + at, target, addend, stub_address, inside)
        return image


# -- kinds of references ---------------------------------------------------------------------------

Writer = Callable[[bytearray, int, int, int, int, "int | None", bool], None]


def _write_32(image: bytearray, at: int, value: int) -> None:
    if not -(2**31) <= value < 2**31:
        raise Unsupported("a reference over more than 2 GB")
    struct.pack_into("<i", image, at, value)


def _address_64(
    image: bytearray, at: int, here: int, target: int, addend: int, stub: int | None, inside: bool
) -> None:
    struct.pack_into("<q", image, at, target + addend)


def _relative_64(
    image: bytearray, at: int, here: int, target: int, addend: int, stub: int | None, inside: bool
) -> None:
    struct.pack_into("<q", image, at, target + addend - here)


def _relative_32(
    image: bytearray, at: int, here: int, target: int, addend: int, stub: int | None, inside: bool
) -> None:
    _write_32(image, at, target + addend - here)


def _call_32(
    image: bytearray, at: int, here: int, target: int, addend: int, stub: int | None, inside: bool
) -> None:
    """A call, directly where that reaches, else through a stub."""
    distance = target + addend - here
    if not inside and not -(2**31) <= distance < 2**31:
        assert stub is not None
        distance = stub + addend - here
    _write_32(image, at, distance)


def _table_32(
    image: bytearray, at: int, here: int, target: int, addend: int, stub: int | None, inside: bool
) -> None:
    """A load of the address from the table, which is the second part of the stub."""
    assert stub is not None
    _write_32(image, at, stub + len(_JUMP) + addend - here)


_WRITERS: dict[int, Writer] = {
    1: _address_64,
    2: _relative_32,
    4: _call_32,
    9: _table_32,
    24: _relative_64,
    41: _table_32,
    42: _table_32,
}
_THROUGH_TABLE = frozenset((9, 41, 42))
