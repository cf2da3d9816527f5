"""The worker pool's life in this process: its size, forks, and its end before the interpreter's."""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Mapping

from tetrax.config import Config
from tetrax.runtime.threads import worker_count

_routines: dict[str, int] = {}


def take_over(addresses: Mapping[str, int]) -> None:
    """Set the pool up, once its code has been linked."""
    _routines.update(addresses)
    _call("tetrax_pool_setup")
    _resize()
    Config.num_threads.observe(lambda _: _resize())
    os.register_at_fork(after_in_child=lambda: _call("tetrax_pool_forget"))
    # The code that workers run is freed with the interpreter: they must be gone by then.
    atexit.register(_call, "tetrax_pool_resize", 1)


def running_workers() -> int:
    """How many workers have been started and not stopped."""
    if not _routines:
        return 0
    return ctypes.CFUNCTYPE(ctypes.c_int64)(_routines["tetrax_pool_workers"])()


def _resize() -> None:
    _call("tetrax_pool_resize", worker_count())


def _call(symbol: str, *values: int) -> None:
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(values))(_routines[symbol])(*values)
