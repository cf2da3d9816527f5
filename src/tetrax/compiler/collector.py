"""Python's search for garbage in cycles, while programs are made.

Next to nothing that tracing and compiling make is garbage before their end, and looking for it
takes a sixth of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = 100_000
"""Objects after which Python looks all the same while functions of users run."""


@contextmanager
def without_collector() -> Iterator[None]:
    """Nobody looks for cycles meanwhile."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def with_rare_collections() -> Iterator[None]:
    """Cycles are looked for seldom meanwhile."""
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], _SELDOM), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
