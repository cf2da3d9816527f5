"""MPI, through mpi4py: loaded when a program of several processes begins, and not before.

Only this module loads mpi4py. Compiled code calls MPI's functions by their addresses, which are
found through the extension module that mpi4py has loaded: whichever MPI that is, it is the same.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from tetrax.errors import ProcessError
from tetrax.runtime import mpi_start

T = TypeVar("T")

_MOST_INT = 2**31 - 1


@dataclass(frozen=True)
class Mpi:
    """What is used of MPI."""

    module: ModuleType
    # Addresses of MPI_Isend, MPI_Irecv and MPI_Test, by these names.
    functions: Mapping[str, int]
    # The most bytes that one message can have.
    limit: int
    # mpi4py ends MPI itself, since somebody else has loaded it before.
    ends_itself: bool

    def handle(self, value: Any) -> int:
        """The handle of a communicator or datatype: an `int` or a pointer, as the MPI has it."""
        size = self.module._sizeof(value)
        return int.from_bytes(ctypes.string_at(self.module._addressof(value), size), sys.byteorder)


def launched() -> bool:
    """Whether a launcher of MPI programs has started this process."""
    return any(name in os.environ for name in mpi_start.RANK_VARIABLES)


def load(seconds: float) -> Mpi:
    """Begin MPI, within so many seconds.

    Raises ImportError without mpi4py, ProcessError where MPI lacks something.
    """
    there = "mpi4py.MPI" in sys.modules
    try:
        package = importlib.import_module("mpi4py")
    except ImportError as error:
        raise ImportError(
            "Programs of several processes need mpi4py and an MPI: "
            "`pip install 'tetrax[mpi]'`, or `pip install mpi4py mpich`."
        ) from error
    if not there:
        # MPI_Finalize waits for every process, also for those that have died.
        package.rc.finalize = False
        package.rc.initialize = False
    module = importlib.import_module("mpi4py.MPI")
    if not module.Is_initialized():
        mpi_start.begin(module, seconds)
    if module.Query_thread() != module.THREAD_MULTIPLE:
        raise ProcessError(
            "Exchanges between processes are made by several threads, which this MPI was not told "
            "to expect, or cannot serve (MPI_THREAD_MULTIPLE). Load mpi4py with its own settings, "
            "and use an MPI that is built with support for threads."
        )
    functions, limit = _functions(module)
    return Mpi(module, functions, limit, there and package.rc.finalize is not False)


def _functions(module: ModuleType) -> tuple[dict[str, int], int]:
    """Addresses of the functions, and the bytes that a message may have with them."""
    library = ctypes.CDLL(str(module.__file__))
    large = hasattr(library, "MPI_Isend_c") and hasattr(library, "MPI_Irecv_c")
    suffix = "_c" if large else ""
    names = {"Isend": f"MPI_Isend{suffix}", "Irecv": f"MPI_Irecv{suffix}", "Test": "MPI_Test"}
    addresses = {}
    for name, symbol in names.items():
        address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
        assert address is not None, symbol
        addresses[name] = address
    return addresses, 2**62 if large else _MOST_INT


def patiently(function: Callable[[], T], seconds: float, check: Callable[[], None], what: str) -> T:
    """The result of a function that blocks, such as MPI's that make communicators.

    It runs in a thread of its own, so that one may give up: `check` raises when there is nothing
    more to wait for. Raises ProcessError where it takes longer than `seconds` (0: any).
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name=f"tetrax: {what}", daemon=True)
    thread.start()
    step, waited = 0.001, 0.0
    while thread.is_alive():
        thread.join(step)
        if not thread.is_alive():
            break
        check()
        waited += step
        step = min(2 * step, 0.05)
        if seconds and waited > seconds:
            raise ProcessError(
                f"{what} has taken longer than {seconds:g} seconds: not every process takes part."
            )
    if errors:
        raise errors[0]
    return results[0]
