"""`initialize` and `multihost_utils`, with two devices in each process."""

from __future__ import annotations

import os

os.environ["TETRAX_NUM_CPU_DEVICES"] = "2"

import pytest

import numpy as np
import tetrax
from tetrax import distributed
from tetrax.experimental import multihost_utils as together
from tetrax.runtime.mesh import Mesh
from tetrax.runtime.partition_spec import PartitionSpec as P


def check_values(rank: int, size: int) -> None:
    tree = {"a": np.arange(3.0) + rank, "b": [np.int64(2**40 + rank), rank == 1]}
    one = together.broadcast_one_to_all(tree)
    np.testing.assert_array_equal(one["a"], np.arange(3.0))
    assert one["b"][0] == 2**40 and one["b"][0].dtype == np.int64 and not one["b"][1]
    last = together.broadcast_one_to_all(tree, is_source=rank == size - 1)
    np.testing.assert_array_equal(last["a"], np.arange(3.0) + size - 1)

    stacked = together.process_allgather(tree)
    np.testing.assert_array_equal(stacked["a"], np.arange(3.0) + np.arange(size)[:, None])
    np.testing.assert_array_equal(stacked["b"][0], 2**40 + np.arange(size))
    tiled = together.process_allgather(tetrax.numpy.arange(6.0).reshape(2, 3) + rank, tiled=True)
    assert tiled.shape == (2 * size, 3)
    np.testing.assert_array_equal(tiled[2], tiled[0] + 1)

    together.assert_equal({"x": np.arange(4)})
    with pytest.raises(AssertionError, match="unlike"):
        together.assert_equal(np.array([rank]), "unlike")
    together.sync_global_devices("here")
    with pytest.raises(AssertionError, match="sync_global_devices name mismatch"):
        together.sync_global_devices(f"here {rank}")
    with pytest.raises(ValueError, match=r"process 0 has .*\[2\] and process 1 has .*\[3\]"):
        together.process_allgather(np.zeros(2 + (rank == 1)))
    with pytest.raises(ValueError, match="one process with is_source=True"):
        together.broadcast_one_to_all(np.zeros(2), is_source=True)
    assert not together.reached_preemption_sync_point(0)
    os.kill(os.getpid(), 15) if rank == 1 else None
    # the signal is seen at the next step at the latest
    reached = [together.reached_preemption_sync_point(step) for step in (1, 2)]
    assert sum(reached) == 1
    assert not together.reached_preemption_sync_point(3)
    with together.live_devices(tetrax.devices()) as live:
        assert len(live) == 2 * size


def check_devices(rank: int, size: int) -> None:
    assert tetrax.process_index() == rank and tetrax.process_count() == size
    assert len(tetrax.devices()) == 2 * size
    assert [device.id for device in tetrax.local_devices()] == [2 * rank, 2 * rank + 1]
    assert float(tetrax.jit(lambda x: x + 1)(1.0)) == 2.0


def check_global_arrays(rank: int, size: int) -> None:
    mesh = Mesh(np.array(tetrax.devices()).reshape(size, 2), ("host", "device"))
    local = np.arange(8, dtype=np.float32).reshape(4, 2) + 100 * rank
    whole = np.concatenate([np.arange(8).reshape(4, 2) + 100 * r for r in range(size)])
    for spec in (P("host"), P(("host", "device")), P("host", "device")):
        array = together.host_local_array_to_global_array(local, mesh, spec)
        assert array.shape == (4 * size, 2) and not array.is_fully_addressable
        with pytest.raises(RuntimeError, match="process_allgather"):
            np.asarray(array)
        np.testing.assert_array_equal(together.process_allgather(array, tiled=True), whole)
        with pytest.raises(ValueError, match="tiled=True"):
            together.process_allgather(array)
        back = together.global_array_to_host_local_array(array, mesh, spec)
        np.testing.assert_array_equal(np.asarray(back), local)
    everywhere = together.host_local_array_to_global_array({"a": np.arange(3)}, mesh, P())
    np.testing.assert_array_equal(np.asarray(everywhere["a"]), np.arange(3))
    with pytest.raises(ValueError, match="PartitionSpec"):
        together.host_local_array_to_global_array(local, mesh, None)


def main() -> None:
    size = int(os.environ["PMI_SIZE"])
    distributed.initialize(num_processes=size)
    with pytest.raises(RuntimeError, match="only be called once"):
        distributed.initialize()
    rank = tetrax.process_index()
    check_devices(rank, size)
    check_values(rank, size)
    check_global_arrays(rank, size)
    print(f"together done {rank}", flush=True)
    distributed.shutdown()
    assert not distributed.is_initialized()
    distributed.shutdown()


main()
