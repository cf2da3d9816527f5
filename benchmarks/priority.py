"""Real-time priority while the clock runs, for measurements on a machine that others use too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_LEVEL = 20


@contextmanager
def realtime(wanted: bool) -> Iterator[None]:
    """Put every thread of this process, the libraries' workers among them, before other programs.

    Needs the right to do so (`chrt` or root). Threads started meanwhile inherit the priority and
    are put back with the others.
    """
    if not wanted:
        yield
        return
    _schedule_all(os.SCHED_RR, _LEVEL)
    try:
        yield
    finally:
        _schedule_all(os.SCHED_OTHER, 0)


def _schedule_all(policy: int, level: int) -> None:
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setscheduler(int(thread), policy, os.sched_param(level))
        except ProcessLookupError:
            continue  # it ended meanwhile
