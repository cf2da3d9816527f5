"""Seeing that a process of this host has ended.

Each process holds a mutex on the board, and the system marks it when its holder dies, however that
happens. Waits in machine code look at it (`compiler/cpu/library/processes.py`), so no thread is
needed, which a program that holds Python's lock would keep from running. Where there is no such
mutex a thread looks for the processes by their numbers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from tetrax.runtime import process_records as records
from tetrax.runtime.process_board import Board

_INTERVAL = 0.5
"""Seconds between two looks of the thread."""


class Watch:
    """Watches the given processes (rank -> pid) and writes on the board what becomes of them."""

    def __init__(self, board: Board, pids: Mapping[int, int]) -> None:
        self._board = board
        self._holding = [rank for rank in pids if board.number(rank, records.HELD).value]
        self._stop = threading.Event()
        others = {rank: pid for rank, pid in pids.items() if rank not in self._holding}
        if others:
            threading.Thread(target=self._look, args=(others,), daemon=True).start()

    def notice(self) -> None:
        """Write on the board which processes have ended."""
        for rank in self._holding:
            if self._board.state(rank) == records.RUNNING and self._board.has_ended(rank):
                self._gone(rank)

    def _gone(self, rank: int) -> None:
        if self._board.state(rank) == records.RUNNING:
            self._board.set_state(rank, records.GONE)

    def _look(self, pids: dict[int, int]) -> None:
        while pids and not self._stop.wait(_INTERVAL):
            for rank, pid in list(pids.items()):
                if not _is_there(pid):
                    self._gone(rank)
                    del pids[rank]

    def close(self) -> None:
        """Watch no more."""
        self._stop.set()


def _is_there(pid: int) -> bool:
    """Whether a process runs; one that has ended may still have its number."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except (OSError, IndexError):
        return True
    return state not in ("Z", "X")
