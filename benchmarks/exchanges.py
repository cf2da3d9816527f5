"""What exchanges between processes cost, beside mpi4py's own calls on the same communicator.

    mpiexec -n 2 python -m benchmarks.exchanges

Both sides are called from Python (ours as compiled programs call it), in turns; a time is the
median of the rounds of the slowest process. Ratios below 1 are in our favour.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from tetrax import distributed
from tetrax.runtime import processes
from tetrax.runtime.llvm import engine
from tetrax.runtime.processes import ProcessGroup, World

ROUNDS = 9
SIZES = (8, 4 << 10, 64 << 10, 1 << 20, 16 << 20)
Call = Callable[[], object]


def pairs(group: ProcessGroup, communicator: object, size: int) -> dict[str, tuple[Call, Call]]:
    """Our call and mpi4py's, by name, for blocks of `size` bytes."""
    mpi: type = communicator  # type: ignore[assignment]
    count, rank = group.size, group.rank
    block, blocks = np.zeros(size, np.uint8), np.zeros((count, size), np.uint8)
    received, one = np.zeros((count, size), np.uint8), np.zeros(size, np.uint8)
    to, source = (rank + 1) % count, (rank - 1) % count
    at = {id(x): x.__array_interface__["data"][0] for x in (block, blocks, received, one)}
    into, single, many = at[id(received)], at[id(block)], at[id(blocks)]
    return {
        "all_gather": (
            routine(group, "all_gather", single, into, size),
            lambda: mpi.Allgather(block, received),
        ),
        "all_to_all": (
            routine(group, "all_to_all", many, into, size),
            lambda: mpi.Alltoall(blocks, received),
        ),
        "permute": (
            routine(group, "permute", single, to, at[id(one)], source, size),
            lambda: mpi.Sendrecv(block, to, 0, one, source),
        ),
        "broadcast": (
            routine(group, "broadcast", single, 0, size),
            lambda: mpi.Bcast(block, 0),
        ),
    }


def routine(group: ProcessGroup, name: str, *values: int) -> Call:
    """The native routine itself, as compiled programs call it."""
    address = engine.address(f"tetrax_process_{name}")
    assert address is not None
    kinds = [ctypes.c_void_p, *[ctypes.c_int64] * len(values)]
    return partial(ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(address), group.address, *values)


def seconds(world: World, call: Call, repeats: int) -> float:
    """What a call takes in the slowest process."""
    world.communicator.Barrier()
    begun = time.perf_counter()
    for _ in range(repeats):
        call()
    own = (time.perf_counter() - begun) / repeats
    return max(world.communicator.allgather(own))


def compare(world: World, name: str, size: int, ours: Call, theirs: Call) -> None:
    """Print a row of the table."""
    repeats = max(3, min(300, (64 << 20) // max(size, 1) // 8))
    for call in (ours, theirs):
        seconds(world, call, 3)
    times = [
        (seconds(world, ours, repeats), seconds(world, theirs, repeats)) for _ in range(ROUNDS)
    ]
    mine, other = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(a / b for a, b in times)
    if world.rank == 0:
        rate = f"{size / mine / 1e9:8.2f} GB/s" if size >= 1 << 20 else " " * 13
        print(
            f"{name:12}{size:>10}  {mine * 1e6:10.1f} us{rate}  mpi4py {other * 1e6:10.1f} us"
            f"  ratio {ratio:.2f}",
            flush=True,
        )


def main() -> None:
    """Print the table, in process 0."""
    distributed.initialize()
    world = processes.world()
    assert world is not None and world.mpi is not None
    group = processes.group(range(world.size))
    compare(world, "barrier", 0, group.barrier, world.communicator.Barrier)
    for size in SIZES:
        for name, (ours, theirs) in pairs(group, world.communicator, size).items():
            compare(world, name, size, ours, theirs)


if __name__ == "__main__":
    main()
