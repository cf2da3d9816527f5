"""How many worker threads kernels may use, and how they will use them.

Loops of kind 'parallel' run serially today. The pool they are meant for, and the seam left for it:

- A library routine `tetrax_parallel(ptr function, ptr context, i64 tasks)` calls
  `function(context, task)` for every task. Workers claim tasks by compare-and-swap on one 64-bit
  word (epoch in the upper half, tasks left in the lower); they spin for some 3000 pauses after the
  last task, then sleep in a futex on the epoch. The caller works too and waits for tasks, not for
  workers, so a pool without workers (a forked child) still finishes. A busy flag makes nested and
  concurrent calls run inline.
- A parallel loop becomes a function of (context, task), the context being the kernel's own pointers
  and scalars, and a call of the routine. Kernels keep their signature, so drivers do not change.
- The number of tasks is a function of the loop's extent and of the work per turn, never of the
  number of threads: results have the same bits for any number of them. Temporary buffers need one
  copy per task; a loop that uses them stays serial at first.
- The matrix product splits the longer of its rows and columns at multiples of a tile.
- Workers are started at the first parallel loop and stopped before the interpreter ends, since
  they must not outlive the memory of the code they run.
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
