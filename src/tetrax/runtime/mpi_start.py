"""Beginning MPI without waiting for ever for a process that has failed before it got there.

`MPI_Init` waits for all processes, and launchers don't mind one that ends before it. So a thread
looks meanwhile whether the others that the launcher has started on this host are still there.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

from tetrax.errors import ProcessError

RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
"""What launchers of MPI programs (mpiexec, srun) tell each process: its number ..."""
_LOCAL_SIZE_VARIABLES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")
_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
"""... how many there are on this host, and in all."""

_INTERVAL = 0.5
_LOOKS = 4
"""How often in a row somebody must be missing: processes begin one after another."""


def begin(module: ModuleType, seconds: float) -> None:
    """`MPI_Init_thread`, by the library that mpi4py's module has loaded.

    mpi4py would keep Python's lock meanwhile, so that no thread could look. Ends the process where
    another one is missing, or after `seconds` (0: never).
    """
    library = ctypes.CDLL(str(module.__file__))
    provided, begun = ctypes.c_int(), threading.Event()
    threading.Thread(target=_look, args=(begun, seconds), daemon=True).start()
    level = int(module.THREAD_MULTIPLE)
    code = library.MPI_Init_thread(None, None, level, ctypes.byref(provided))
    begun.set()
    if code != 0:
        raise ProcessError(f"MPI cannot begin: MPI_Init_thread answers {code}.")
    for communicator in (module.COMM_WORLD, module.COMM_SELF):
        communicator.Set_errhandler(module.ERRORS_RETURN)


def _look(begun: threading.Event, seconds: float) -> None:
    start, times = time.monotonic(), 0
    while not begun.wait(_INTERVAL):
        missing = missing_ranks()
        times = times + 1 if missing else 0
        if times >= _LOOKS and missing:
            _end(f"before they have called `distributed.initialize`, these have ended: {missing}.")
        elif seconds and time.monotonic() - start > seconds:
            _end(f"not all processes have called `distributed.initialize` within {seconds:g} s.")


def _end(text: str) -> None:
    print(f"tetrax: process {_number(RANK_VARIABLES)} ends: {text}", file=sys.stderr, flush=True)
    os._exit(1)  # the main thread waits in MPI


def _number(names: tuple[str, ...]) -> int:
    return next((int(os.environ[name]) for name in names if name in os.environ), 0)


def missing_ranks() -> str:
    """The processes of this host that have ended, as far as one can see; "" for none."""
    expected = _number(_LOCAL_SIZE_VARIABLES)
    parent = os.getppid()
    try:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    except OSError:
        return ""
    if str(os.getpid()) not in children:
        return ""  # there is something between this process and the launcher
    ranks = {rank for rank in map(_rank_of, children) if rank is not None}
    if len(ranks) >= expected:
        return ""
    size = _number(_SIZE_VARIABLES)
    if size != expected:
        return f"{expected - len(ranks)} of those on this host"
    return ", ".join(str(rank) for rank in range(size) if rank not in ranks)


def _rank_of(pid: str) -> int | None:
    """The number that the launcher has given to a process; None for one that has ended."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    for entry in environment:
        name, _, value = entry.partition(b"=")
        if name.decode(errors="ignore") in RANK_VARIABLES:
            return int(value)
    return None
