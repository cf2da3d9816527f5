"""Executable memory for machine code, in pieces that are given back when nobody holds the code.

A large mapping is handed out in pieces of 64 bytes, so that a small kernel costs its own size and
no pages of its own; only pages that were touched count. Where the system does not allow memory
that is writable and executable, there is none, and LLVM links the code instead.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from bisect import bisect_left
from collections import deque

_UNIT = 64
_REGION_BYTES = 64 << 20

_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class Region:
    """A mapping and its free pieces."""

    def __init__(self, nbytes: int) -> None:
        protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        self.mapping = mmap.mmap(-1, nbytes, flags=flags, prot=protection)
        self._first = ctypes.c_char.from_buffer(self.mapping)
        self.address = ctypes.addressof(self._first)
        # Sorted, no two of them adjacent.
        self.offsets = [0]
        self.sizes = [nbytes]

    def take(self, size: int) -> int | None:
        """The offset of the first free piece of `size` bytes, or None."""
        for i, room in enumerate(self.sizes):
            if room >= size:
                offset = self.offsets[i]
                if room == size:
                    del self.offsets[i], self.sizes[i]
                else:
                    self.offsets[i], self.sizes[i] = offset + size, room - size
                return offset
        return None

    def give(self, offset: int, size: int) -> None:
        """Take a piece back, joining it with free neighbours."""
        i = bisect_left(self.offsets, offset)
        if i < len(self.offsets) and offset + size == self.offsets[i]:
            size += self.sizes[i]
            del self.offsets[i], self.sizes[i]
        if i and self.offsets[i - 1] + self.sizes[i - 1] == offset:
            self.sizes[i - 1] += size
        else:
            self.offsets.insert(i, offset)
            self.sizes.insert(i, size)


class Code:
    """A piece of executable memory, which is free again when this object is gone."""

    __slots__ = ("__weakref__", "_offset", "_region", "address", "nbytes", "needs")

    def __init__(self, region: Region, offset: int, size: int) -> None:
        self._region = region
        self._offset = offset
        self.nbytes = size
        self.address = region.address + offset
        # Other code that this code calls.
        self.needs: tuple[object, ...] = ()

    def write(self, image: bytes | bytearray) -> None:
        """Fill the piece from its beginning."""
        self._region.mapping[self._offset : self._offset + len(image)] = image

    def __del__(self) -> None:
        # May run anywhere, also while the lock is held: others put the piece back.
        _returned.append((self._region, self._offset, self.nbytes))


_regions: list[Region] = []
_returned: deque[tuple[Region, int, int]] = deque()
_used = 0


def allocate(nbytes: int) -> Code | None:
    """Memory for `nbytes` of code and data, at a multiple of 64; None where there can be none."""
    global _used
    size = -(-max(nbytes, 1) // _UNIT) * _UNIT
    with _lock:
        while _returned:
            region, offset, returned = _returned.popleft()
            region.give(offset, returned)
            _used -= returned
        for region in _regions:
            found = region.take(size)
            if found is not None:
                break
        else:
            try:
                region = Region(max(_REGION_BYTES, size))
            except (OSError, AttributeError):
                return None
            _regions.append(region)
            found = region.take(size)
            assert found is not None
        _used += size
        return Code(region, found, size)


def used_bytes() -> int:
    """How much of the memory is taken."""
    return _used - sum(size for _, _, size in list(_returned))
