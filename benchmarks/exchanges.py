"""What exchanges between processes cost, beside mpi4py's own calls on the same communicator.

    mpiexec -n 2 python -m benchmarks.exchanges

Both sides are called from Python with the same arrays, in turns; a time is the median of the rounds
of the slowest process. Ratios below 1 are in our favour.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from tetrax import distributed
from tetrax.runtime import processes
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
    return {
        "all_gather": (
            lambda: group.all_gather(block, received),
            lambda: mpi.Allgather(block, received),
        ),
        "all_to_all": (
            lambda: group.all_to_all(blocks, received),
            lambda: mpi.Alltoall(blocks, received),
        ),
        "permute": (
            lambda: group.permute(block, to, one, source),
            lambda: mpi.Sendrecv(block, to, 0, one, source),
        ),
        "broadcast": (
            lambda: group.broadcast(block, 0),
            lambda: mpi.Bcast(block, 0),
        ),
    }


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
    times = [(seconds(world, ours, repeats), seconds(world, theirs, repeats)) for _ in range(ROUNDS)]
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
