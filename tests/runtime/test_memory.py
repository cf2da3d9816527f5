"""The cache of memory blocks: reuse, alignment, bounds, and who keeps a block alive."""

from __future__ import annotations

import gc
import threading

import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax.runtime import memory


@pytest.fixture(autouse=True)
def own_limit():
    before = memory.statistics().limit_bytes
    memory.set_limit(0)  # begin with nothing
    memory.set_limit(64 << 20)
    yield
    memory.set_limit(before)


@pytest.mark.parametrize("nbytes", [1, 4096, 1 << 18, 1_000_000, (2 << 20) + 1, 40_000_000])
def test_size_classes_waste_little(nbytes):
    size = memory.size_class(nbytes)
    assert nbytes <= size <= max(1.25 * nbytes, 4096)
    assert memory.size_class(size) == size
    block = memory.take(nbytes)
    assert block.nbytes == size
    assert block.address % (memory.HUGE_PAGE if size >= memory.HUGE_PAGE else 64) == 0


def test_blocks_come_back():
    block = memory.take(3 << 20)
    address, before = block.address, memory.statistics()
    del block
    assert memory.statistics().free_bytes == before.free_bytes + (3 << 20)
    again = memory.take(3 << 20)
    assert again.address == address
    assert memory.statistics().reused == before.reused + 1


def test_arrays_keep_their_block():
    block = memory.take(1 << 20)
    array = block.array((10, 20), np.dtype(np.float32), writable=True)
    array[...] = 7
    part = array[3:]
    del block, array
    assert memory.statistics().free_bytes == 0
    other = memory.take(1 << 20).array((10, 20), np.dtype(np.float32), writable=True)
    other[...] = 8
    assert (part == 7).all()
    del part
    assert memory.statistics().free_bytes == 1 << 20


def test_the_limit_holds():
    blocks = [memory.take(16 << 20) for _ in range(6)]
    released = memory.statistics().released
    del blocks
    now = memory.statistics()
    assert now.free_bytes <= now.limit_bytes
    assert now.released > released
    memory.set_limit(0)
    assert memory.statistics().free_bytes == 0


def test_results_of_compiled_calls_use_it():
    f = tetrax.jit(lambda x: x + 1)
    x = jnp.ones((512, 512))
    y = f(x)
    address = y._address
    view = np.asarray(y)
    assert not view.flags.writeable
    del y
    assert f(x)._address != address  # `view` still needs it
    del view
    before = memory.statistics().reused
    for _ in range(5):
        f(x)
    assert memory.statistics().reused >= before + 4


def test_in_many_threads():
    def work():
        for size in (1 << 18, 1 << 20, 3 << 20) * 30:
            block = memory.take(size)
            block.array((16,), np.dtype(np.int32), writable=True)[...] = size

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    now = memory.statistics()
    assert now.free_bytes <= now.limit_bytes
