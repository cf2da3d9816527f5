"""How much memory the programs of a process may take together, and which of them go first.

Every compiled program is `keep`ed with a function that lets go of it. When all of them take too
much, those that were used longest ago are let go; they are compiled again if they are needed again.
Programs that are in constant use need not report it: their holder refuses to let go.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_OVERHEAD = 8 << 10
"""What a program takes beside its code and constants: its equations, types and tables."""

_limit = 256 << 20
_lock = threading.RLock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


@dataclass(eq=False, slots=True)
class Entry:
    """A program that is kept."""

    nbytes: int
    # Lets go of it; False: not now, it is in use.
    release: Callable[[], bool]


@dataclass
class Statistics:
    """How many programs are kept, their bytes, and how many had to go so far."""

    programs: int
    nbytes: int
    limit_bytes: int
    released: int


_entries: OrderedDict[Entry, None] = OrderedDict()
_nbytes = 0
_released = 0


def statistics() -> Statistics:
    """What is kept now."""
    return Statistics(len(_entries), _nbytes, _limit, _released)


def set_limit(nbytes: int) -> None:
    """Keep at most so many bytes of programs."""
    global _limit
    _limit = nbytes
    with _lock:
        _shrink()


def keep(nbytes: int, release: Callable[[], bool]) -> Entry:
    """Count a program of so many bytes of code and constants in."""
    global _nbytes
    entry = Entry(nbytes + _OVERHEAD, release)
    with _lock:
        _entries[entry] = None
        _nbytes += entry.nbytes
        if _nbytes > _limit:
            _shrink()
    return entry


def use(entry: Entry) -> None:
    """Say that a program has been used."""
    with contextlib.suppress(KeyError):  # let go meanwhile
        _entries.move_to_end(entry)


def drop(entry: Entry) -> None:
    """Count a program out that its holder has let go of."""
    global _nbytes
    with _lock:
        if entry in _entries:
            del _entries[entry]
            _nbytes -= entry.nbytes


def _shrink() -> None:
    global _released
    # Each is asked once: if all are in use, all stay.
    for entry in list(_entries):
        if _nbytes <= _limit:
            return
        if entry.release():
            drop(entry)
            _released += 1
        else:
            use(entry)
