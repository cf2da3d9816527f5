"""Every exchange, for sizes from nothing to more than MPI sends at once, alone and side by side."""

from __future__ import annotations

import threading

import numpy as np
from tetrax import distributed
from tetrax.runtime import process_records, processes

# Nothing, one byte, odd, a cache line, a megabyte, more than twice what MPI sends eagerly.
SIZES = (0, 1, 3, 64, 65_537, 1 << 20, (5 << 20) + 1)


def pattern(size: int, *numbers: int) -> np.ndarray:
    """Bytes that tell whose they are."""
    seed = sum(number * 31**place for place, number in enumerate(numbers))
    return np.resize(((np.arange(251) * 7 + seed * 13) % 251).astype(np.uint8), size)


def check_all(group: processes.ProcessGroup, size: int, salt: int = 0) -> None:
    rank, count = group.rank, group.size
    received = np.zeros((count, size), np.uint8)
    group.all_gather(pattern(size, rank, salt), received)
    for other in range(count):
        np.testing.assert_array_equal(received[other], pattern(size, other, salt))

    # from where it is to go
    received = np.zeros((count, size), np.uint8)
    received[rank] = pattern(size, rank, salt, 1)
    group.all_gather(received[rank], received)
    for other in range(count):
        np.testing.assert_array_equal(received[other], pattern(size, other, salt, 1))

    send = np.array([pattern(size, rank, to, salt) for to in range(count)], np.uint8)
    received = np.zeros((count, size), np.uint8)
    group.all_to_all(send, received)
    for other in range(count):
        np.testing.assert_array_equal(received[other], pattern(size, other, rank, salt))

    for shift in range(count):
        got = np.zeros(size, np.uint8)
        group.permute(
            pattern(size, rank, shift), (rank + shift) % count, got, (rank - shift) % count
        )
        np.testing.assert_array_equal(got, pattern(size, (rank - shift) % count, shift))

    # only from the first member to the last one
    got = np.zeros(size, np.uint8)
    to = count - 1 if rank == 0 else -1
    source = 0 if rank == count - 1 else -1
    group.permute(pattern(size, rank, salt), to, got, source)
    expected = pattern(size, 0, salt) if rank == count - 1 else np.zeros(size)
    np.testing.assert_array_equal(got, expected)

    for root in range(count):
        buffer = pattern(size, root, salt) if rank == root else np.zeros(size, np.uint8)
        group.broadcast(buffer, root)
        np.testing.assert_array_equal(buffer, pattern(size, root, salt))
    group.barrier()


def main() -> None:
    distributed.initialize()
    world = processes.world()
    assert world is not None and distributed.is_initialized()
    everyone = range(world.size)
    group = processes.group(everyone)
    assert processes.group(tuple(everyone)) is group
    for size in SIZES:
        check_all(group, size)

    # other orders, parts of the processes
    check_all(processes.group(everyone[::-1]), 1000)
    half = [rank for rank in everyone if rank % 2 == world.rank % 2]
    check_all(processes.group(half), 1000)

    # messages that are too large for one call
    limit = world.field(process_records.LIMIT, np.ctypeslib.ctypes.c_int64)
    world.put(process_records.LIMIT, 1000)
    for size in (999, 1000, 1001, 12_345):
        check_all(group, size)
    world.put(process_records.LIMIT, limit)

    # threads side by side, on channels of their own
    errors: list[BaseException] = []

    def run(channel: int) -> None:
        try:
            mine = processes.group(everyone, channel)
            for turn in range(6):
                check_all(mine, 100 * channel + turn, channel)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(channel,)) for channel in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    print(f"exchanges done {world.rank}", flush=True)


main()
