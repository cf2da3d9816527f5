"""The devices' threads in this process: what a fork does to them, and when they end."""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Mapping

_routines: dict[str, int] = {}


def take_over(addresses: Mapping[str, int]) -> None:
    """Set the threads up, once their code has been linked."""
    _routines.update(addresses)
    _call("tetrax_devices_setup")
    os.register_at_fork(after_in_child=lambda: _call("tetrax_devices_forget"))
    # The code that they run is freed with the interpreter: they must be gone by then.
    atexit.register(_call, "tetrax_devices_stop")


def _call(symbol: str) -> None:
    ctypes.CFUNCTYPE(None)(_routines[symbol])()
