"""A process beside those of a program on one host: says which of them has ended without a word.

Launchers of MPI programs kill all processes as soon as one has been killed, so none of them could
say why. This one is not the launcher's. It sleeps until a process ends, writes a line where that
was unexpected, and ends with the last of them, whose litter it removes. It runs this file alone,
without the package: what it must know is told as JSON (`process_exit.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import mmap
import os
import sys
import threading
import time
from typing import Any

_RUNNING, _GONE = 0, 3
_INTERVAL = 0.2
_speaking = threading.Lock()


def main() -> None:
    """Watch until all processes have ended: a thread for each waits for its mutex."""
    told = json.loads(sys.argv[1])
    file, size, header, slot = told["board"]
    board = mmap.mmap(file, header + size * slot)
    start = ctypes.addressof(ctypes.c_char.from_buffer(board))
    places = {rank: start + header + rank * slot for rank, _, _ in told["members"]}
    threads = [
        threading.Thread(target=_watch, args=(told, start, places, rank), daemon=True)
        for rank, place in places.items()
        if _number(place + told["held"]).value
    ]
    for thread in threads:
        thread.start()
    while len(threads) < len(places) or any(thread.is_alive() for thread in threads):
        # Whatever happens, this process must not remain.
        if not any(_is_there(pid) for _, pid, _ in told["members"]):
            break
        begun = time.monotonic()
        for thread in threads:
            thread.join(max(0.0, begun + _INTERVAL - time.monotonic()))
        if not threads:
            time.sleep(_INTERVAL)
    _remove(told["litter"])


def _remove(files: list[str]) -> None:
    """Remove what MPI has left in memory, now that all processes of this host have ended."""
    for file in files:
        with contextlib.suppress(OSError):
            os.unlink(file)


def _is_there(pid: int) -> bool:
    """Whether a process runs; one that has ended keeps its number until its parent asks."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except ProcessLookupError:
        return False
    except (OSError, IndexError):
        return True


def _watch(told: Any, start: int, places: dict[int, int], rank: int) -> None:
    mutex = ctypes.c_void_p(places[rank] + told["mutex"])
    code = ctypes.CDLL(None).pthread_mutex_lock(mutex)
    if code not in (errno.EOWNERDEAD, errno.ENOTRECOVERABLE):
        return
    with _speaking:
        state, first = _number(places[rank]), _number(start)
        # who has failed before explains why others end
        if state.value in (_RUNNING, _GONE) and first.value in (0, rank + 1):
            state.value, first.value = _GONE, rank + 1
            _say(told, places, rank)


def _number(place: int) -> ctypes.c_int32:
    return ctypes.c_int32.from_address(place)


def _say(told: Any, places: dict[int, int], gone: int) -> None:
    waiting: dict[str, list[str]] = {}
    for rank, place in places.items():
        if rank != gone:
            kind = told["kinds"][_number(place + told["waiting"]).value]
            waiting.setdefault(kind, []).append(str(rank))
    doing = "; ".join(
        f"process{'es' if len(ranks) > 1 else ''} {', '.join(ranks)} waited in {kind}"
        for kind, ranks in waiting.items()
        if kind != told["kinds"][0]
    )
    pid, host = next((pid, host) for rank, pid, host in told["members"] if rank == gone)
    text = (
        f"tetrax: Process {gone} of {told['board'][1]} (pid {pid} on {host}) has ended without a "
        "word: it was killed (by the system, where memory runs out), crashed in native code, or "
        f"called os._exit{'; meanwhile ' + doing if doing else ''}.\n"
    )
    # in one piece: others write there too
    os.write(2, text.encode())


if __name__ == "__main__":
    main()
