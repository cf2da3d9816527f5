"""Memory for large results: blocks that come back when their array dies, and go out again.

The first touch of fresh pages costs as much as the arithmetic on them, so a block that is given
back is kept for the next result of its size class, within a bound. Blocks are private mappings at
a multiple of the huge page size, for which huge pages are asked.

Blocks come back in finalisers, which may run at any place of any thread. So nothing here takes a
lock: lists are appended to and popped from, each of which is one atomic step.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

SMALLEST = 256 << 10
"""Results below this many bytes are better served by the allocator of the process."""

HUGE_PAGE = 2 << 20
_ALIGNMENT = 64


class Block:
    """A piece of memory; it goes back to where it came from when nobody holds it any more."""

    __slots__ = ("_keep", "address", "nbytes")

    def __init__(self, address: int, nbytes: int, keep: Any) -> None:
        self.address = address
        self.nbytes = nbytes
        # What owns the memory for the operating system.
        self._keep = keep

    def __del__(self) -> None:
        _give_back(self.nbytes, self.address, self._keep)

    def array(self, shape: tuple[int, ...], dtype: np.dtype, writable: bool = False) -> np.ndarray:
        """A NumPy array over the beginning of the block, which it keeps alive."""
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return np.asarray(_Bytes(self, count, writable)).view(dtype).reshape(shape)


class _Bytes:
    """Shows NumPy a part of a block as bytes."""

    def __init__(self, block: Block, count: int, writable: bool) -> None:
        self._block = block
        self.__array_interface__ = {
            "version": 3,
            "shape": (count,),
            "typestr": "|u1",
            "data": (block.address, not writable),
        }


@dataclass
class Statistics:
    """What the cache of blocks holds, in bytes, and how often it could serve."""

    free_bytes: int
    limit_bytes: int
    reused: int
    mapped: int
    released: int


@dataclass
class _Counts:
    reused: int = 0
    mapped: int = 0
    released: int = 0


_counts = _Counts()
# By size class, what was given back: (address, owner) pairs. The order of the keys is that of use.
_free: dict[int, list[tuple[int, Any]]] = {}


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 4 << 30


_limit = _physical_memory() // 16


def statistics() -> Statistics:
    """What the cache holds now and has done so far."""
    return Statistics(_free_bytes(), _limit, _counts.reused, _counts.mapped, _counts.released)


def set_limit(nbytes: int) -> None:
    """Keep at most so many bytes that nobody uses."""
    global _limit
    _limit = nbytes
    _trim()


def take(nbytes: int) -> Block:
    """A block of at least `nbytes`, with unspecified contents, at a multiple of 64."""
    size = size_class(nbytes)
    try:
        address, keep = _free[size].pop()
    except (KeyError, IndexError):
        address, keep = _map(size)
        _counts.mapped += 1
    else:
        _counts.reused += 1
    return Block(address, size, keep)


def size_class(nbytes: int) -> int:
    """The size of the block that serves `nbytes`: at most a quarter more, in whole pages.

    >>> size_class(1_000_000)
    1048576
    """
    unit = max(1 << max(nbytes.bit_length() - 3, 0), 4096)
    return -(-max(nbytes, 1) // unit) * unit


def _give_back(size: int, address: int, keep: Any) -> None:
    if _free is None:  # the interpreter is ending
        return
    kept = _free.get(size)
    if kept is None:
        kept = _free.setdefault(size, [])
    kept.append((address, keep))
    if _free_bytes() > _limit:
        _trim()


def _free_bytes() -> int:
    return sum([size * len(kept) for size, kept in list(_free.items())])


def _trim() -> None:
    """Release the largest blocks until the rest is below the limit."""
    for size in sorted(_free, reverse=True):
        while _free_bytes() > _limit:
            try:
                _free[size].pop(0)
            except IndexError:
                break
            _counts.released += 1


def _map(size: int) -> tuple[int, Any]:
    """Address and owner of fresh memory."""
    align = HUGE_PAGE if size >= HUGE_PAGE else _ALIGNMENT
    if not hasattr(mmap, "MAP_PRIVATE") or size < HUGE_PAGE:
        memory = np.empty(size + align, np.uint8)
        address = memory.__array_interface__["data"][0]
        return address + -address % align, memory
    mapping = mmap.mmap(-1, size + align, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        mapping.madvise(mmap.MADV_HUGEPAGE)
    first = ctypes.c_char.from_buffer(mapping)
    address = ctypes.addressof(first)
    return address + -address % align, first
