"""The board: memory that the processes of one host share, in which they say how they are.

It is a file in memory that has no name any more once all have opened it. Machine code reads and
writes it too; `process_records` says what stands where.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import tempfile
import threading
from pathlib import Path

from tetrax.runtime import process_records as records

_MARK = 60
"""Where the header has a number by which a process knows that it has opened the right file."""


class Board:
    """The board as this process sees it."""

    def __init__(self, file: int, size: int) -> None:
        self.file = file
        self.size = size
        self._memory = mmap.mmap(file, board_bytes(size))
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        # It stays mapped until the very end, when the system marks the mutex in it: Python frees
        # what is referred to by objects alone.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._memory))

    def slot(self, rank: int) -> int:
        """The address of a rank's slot."""
        return self.address + records.HEADER_BYTES + rank * records.SLOT_BYTES

    def number(self, rank: int, offset: int) -> ctypes.c_int32:
        """A number in a rank's slot."""
        return ctypes.c_int32.from_address(self.slot(rank) + offset)

    @property
    def failed(self) -> ctypes.c_int32:
        """1 + the first process that failed, or 0."""
        return ctypes.c_int32.from_address(self.address)

    @property
    def mark(self) -> ctypes.c_int32:
        return ctypes.c_int32.from_address(self.address + _MARK)

    def state(self, rank: int) -> int:
        return self.number(rank, 0).value

    def set_state(self, rank: int, state: int) -> None:
        """Say what has become of a process; a failure is one of all processes."""
        self.number(rank, 0).value = state
        if state in (records.CRASHED, records.GONE) and not self.failed.value:
            self.failed.value = 1 + rank

    def text(self, rank: int) -> str:
        """What a process that failed says of it."""
        length = self.number(rank, records.TEXT_LENGTH).value
        return ctypes.string_at(self.slot(rank) + records.TEXT, length).decode(errors="ignore")

    def write_text(self, rank: int, text: str) -> None:
        encoded = text.encode(errors="replace")[: records.TEXT_BYTES]
        ctypes.memmove(self.slot(rank) + records.TEXT, encoded, len(encoded))
        self.number(rank, records.TEXT_LENGTH).value = len(encoded)

    def made(self, rank: int, key: int) -> int:
        """How many exchanges of a group a process has made."""
        start = self.slot(rank) + records.ENTRIES_AT
        for entry in range(records.ENTRIES):
            found = ctypes.c_int32.from_address(start + 8 * entry).value
            if found == key:
                return ctypes.c_int32.from_address(start + 8 * entry + 4).value
            if found == 0:
                break
        return 0

    def hold(self, rank: int) -> None:
        """Let the system tell the others when this process ends: lock a mutex, and die with it.

        The thread that holds it must live as long as the process. Without effect where there are
        no robust mutexes.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        library, attributes = ctypes.CDLL(None), ctypes.create_string_buffer(64)
        mutex = ctypes.c_void_p(self.slot(rank) + records.MUTEX)
        try:
            library.pthread_mutexattr_init(attributes)
            failed = library.pthread_mutexattr_setpshared(attributes, 1)
            failed = failed or library.pthread_mutexattr_setrobust(attributes, 1)
            failed = failed or library.pthread_mutex_init(mutex, attributes)
            failed = failed or library.pthread_mutex_lock(mutex)
        except AttributeError:
            return
        self.number(rank, records.HELD).value = not failed

    def has_ended(self, rank: int) -> bool:
        """Whether a process that holds its mutex is gone."""
        if not self.number(rank, records.HELD).value:
            return False
        library = ctypes.CDLL(None)
        mutex = ctypes.c_void_p(self.slot(rank) + records.MUTEX)
        code = library.pthread_mutex_trylock(mutex)
        if code in (0, errno.EOWNERDEAD):
            library.pthread_mutex_unlock(mutex)
        return code in (errno.EOWNERDEAD, errno.ENOTRECOVERABLE)

    def add_entry(self, rank: int, key: int) -> int | None:
        """The address of a new entry for a group, or None where there is no room."""
        start = self.slot(rank) + records.ENTRIES_AT
        for entry in range(records.ENTRIES):
            place = ctypes.c_int32.from_address(start + 8 * entry)
            if place.value == 0:
                place.value = key
                return start + 8 * entry
        self.number(rank, records.OVERFLOW).value = 1
        return None


def board_bytes(size: int) -> int:
    return records.HEADER_BYTES + size * records.SLOT_BYTES


def create(size: int) -> tuple[Board, Path]:
    """A new board for so many processes, and the file by which the others find it."""
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    file, name = tempfile.mkstemp(prefix="tetrax-", dir=folder)
    os.ftruncate(file, board_bytes(size))
    board = Board(file, size)
    board.mark.value = int.from_bytes(os.urandom(3))
    return board, Path(name)


def join(path: Path, size: int, mark: int) -> Board | None:
    """The board that another process has created, or None where it cannot be reached."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    if os.fstat(file).st_size == board_bytes(size):
        board = Board(file, size)
        if board.mark.value == mark:
            return board
    return None
