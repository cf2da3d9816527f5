"""How many threads compiled code may use.

The pool itself is native (`compiler/cpu/library/pool.py`), and so is all that runs on it; this
module only counts. The number never decides how work is cut: tasks are a function of sizes, so
results have the same bits for any number of threads.
"""

from __future__ import annotations

import os
from functools import cache
from math import ceil
from pathlib import Path

from tetrax.config import config

_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")


@cache
def available_cores() -> int:
    """Cores this process may use: its CPU affinity, further limited by its control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        quota, period = _CGROUP_LIMIT.read_text().split()
        limit = cores if quota == "max" else ceil(int(quota) / int(period))
    except (OSError, ValueError):
        limit = cores
    return max(1, min(cores or 1, limit or 1))


def worker_count() -> int:
    """Threads that compiled code may use: the setting `num_threads`, or every available core."""
    return config.num_threads or available_cores()
