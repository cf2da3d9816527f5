"""A few instructions of x86-64 as bytes: what it takes to pass addresses on and to count."""

from __future__ import annotations

import struct

RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 = range(16)

CONDITIONS = {"equal": 0x84, "not equal": 0x85, "greater or equal": 0x8D, "less or equal": 0x8E}
"""Jumps by what the last comparison, of signed numbers, has found."""

_LOAD, _STORE, _ADDRESS, _ADD = 0x8B, 0x89, 0x8D, 0x03


def fits(value: int) -> bool:
    """Whether a number fits where instructions have room for 32 bits."""
    return -(2**31) <= value < 2**31


class MachineCode:
    """Instructions one after another; jumps go to labels that may be placed later."""

    def __init__(self) -> None:
        self.code = bytearray()
        self._places: list[int | None] = []
        self._jumps: list[tuple[int, int]] = []

    def finish(self) -> bytes:
        """The instructions with their jumps filled in."""
        for at, label in self._jumps:
            place = self._places[label]
            assert place is not None, "a jump to a label that was not placed"
            struct.pack_into("<i", self.code, at, place - (at + 4))
        return bytes(self.code)

    # -- moves ---------------------------------------------------------------------------------

    def _at_memory(self, operation: int, register: int, base: int, offset: int) -> None:
        """An instruction on a register and the 8 bytes at `base + offset`."""
        self.code.append(0x48 | (register >> 3) << 2 | base >> 3)
        self.code.append(operation)
        self._operands(register, base, offset)

    def _operands(self, register: int, base: int, offset: int) -> None:
        self.code.append(0x80 | (register & 7) << 3 | base & 7)
        if base & 7 == RSP:
            self.code.append(0x24)
        self.code += struct.pack("<i", offset)

    def load(self, register: int, base: int, offset: int) -> None:
        """register = the 8 bytes at base + offset"""
        self._at_memory(_LOAD, register, base, offset)

    def store(self, register: int, base: int, offset: int) -> None:
        """the 8 bytes at base + offset = register"""
        self._at_memory(_STORE, register, base, offset)

    def address(self, register: int, base: int, offset: int) -> None:
        """register = base + offset"""
        if fits(offset):
            self._at_memory(_ADDRESS, register, base, offset)
        else:
            assert register != base
            self.number(register, offset)
            self.add(register, base)

    def move(self, register: int, other: int) -> None:
        """register = other"""
        self.code += bytes((0x48 | (other >> 3) << 2 | register >> 3, 0x89))
        self.code.append(0xC0 | (other & 7) << 3 | register & 7)

    def number(self, register: int, value: int) -> None:
        """register = value"""
        if value == 0:
            self.code += bytes((0x40 | (register >> 3) * 5, 0x31))
            self.code.append(0xC0 | (register & 7) << 3 | register & 7)
        elif fits(value):
            self.code += bytes((0x48 | register >> 3, 0xC7, 0xC0 | register & 7))
            self.code += struct.pack("<i", value)
        else:
            self.code += bytes((0x48 | register >> 3, 0xB8 | register & 7))
            self.code += struct.pack("<Q", value & (1 << 64) - 1)

    def copy(self, register: int, size: int, source: int, target: int, offset: int) -> None:
        """the `size` bytes (1, 2, 4, 8) at target + offset = those at source + offset, by way of
        a register (of the first four)
        """
        for operation, base in ((0x8A, source), (0x88, target)):
            if size == 2:
                self.code.append(0x66)
            wide = 0x48 if size == 8 else 0x40
            self.code.append(wide | base >> 3)
            self.code.append(operation | (size > 1))
            self._operands(register, base, offset)

    # -- arithmetic ----------------------------------------------------------------------------

    def add(self, register: int, other: int) -> None:
        """register += other"""
        self.code += bytes((0x48 | (register >> 3) << 2 | other >> 3, _ADD))
        self.code.append(0xC0 | (register & 7) << 3 | other & 7)

    def subtract(self, register: int, base: int, offset: int) -> None:
        """register -= the 8 bytes at base + offset"""
        self._at_memory(0x2B, register, base, offset)

    def product(self, register: int, base: int, offset: int, factor: int) -> None:
        """register = factor * the 8 bytes at base + offset"""
        if fits(factor):
            self._at_memory(0x69, register, base, offset)
            self.code += struct.pack("<i", factor)
            return
        self.number(register, factor)
        self.code += bytes((0x48 | (register >> 3) << 2 | base >> 3, 0x0F, 0xAF))
        self._operands(register, base, offset)

    def increment(self, base: int, offset: int) -> None:
        """the 8 bytes at base + offset += 1"""
        self._at_memory(0xFF, 0, base, offset)

    # -- tests and jumps -----------------------------------------------------------------------

    def compare(self, register: int, base: int, offset: int) -> None:
        """Compare a register with the 8 bytes at base + offset."""
        self._at_memory(0x3B, register, base, offset)

    def compare_byte(self, base: int, value: int) -> None:
        """Compare the byte at base with a value."""
        self.code += bytes((0x40 | base >> 3, 0x80))
        self._operands(7, base, 0)
        self.code.append(value)

    def load_half(self, register: int, base: int) -> None:
        """register = the 4 bytes at base"""
        self.code += bytes((0x40 | (register >> 3) << 2 | base >> 3, _LOAD))
        self._operands(register, base, 0)

    def compare_half(self, value: int) -> None:
        """Compare the lower half of RAX with a value."""
        self.code.append(0x3D)
        self.code += struct.pack("<i", value)

    def label(self) -> int:
        """A new label."""
        self._places.append(None)
        return len(self._places) - 1

    def place(self, label: int) -> None:
        """Let a label stand here."""
        self._places[label] = len(self.code)

    def jump(self, label: int, condition: str | None = None) -> None:
        """Go on at a label, always or on a condition."""
        self.code += b"\xe9" if condition is None else bytes((0x0F, CONDITIONS[condition]))
        self._jumps.append((len(self.code), label))
        self.code += bytes(4)

    def call(self, address: int) -> None:
        """Call the function at an address."""
        self.number(RAX, address)
        self.code += b"\xff\xd0"

    def push(self, register: int) -> None:
        """Put a register on the stack."""
        self.code += bytes((0x40 | register >> 3, 0x50 | register & 7))

    def pop(self, register: int) -> None:
        """Take a register from the stack."""
        self.code += bytes((0x40 | register >> 3, 0x58 | register & 7))

    def ret(self) -> None:
        """Return."""
        self.code.append(0xC3)
