"""How many devices there are, and those of other processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import tetrax
from tetrax.sharding import AbstractMesh, AxisType, Mesh


def run(code: str, **environment: str) -> str:
    """What a Python process prints whose devices nobody has asked for yet."""
    kept = {k: v for k, v in os.environ.items() if k != "TETRAX_NUM_CPU_DEVICES"}
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**kept, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


COUNT = "import tetrax; print(tetrax.device_count(), tetrax.local_device_count())"
FORCED = "--xla_cpu_enable_fast_math=false --xla_force_host_platform_device_count=3"


def test_how_many_is_said_in_several_ways():
    assert run(COUNT) == "1 1"
    assert run(COUNT, XLA_FLAGS=FORCED) == "3 3"
    assert run(COUNT, TETRAX_NUM_CPU_DEVICES="5", XLA_FLAGS=FORCED) == "5 5"
    assert run(COUNT, JAX_NUM_CPU_DEVICES="6") == "6 6"
    update = "import tetrax; tetrax.config.update('jax_num_cpu_devices', 4);"
    assert run(update + COUNT, XLA_FLAGS=FORCED) == "4 4"


def test_the_flags_are_read_when_devices_are_first_asked_for():
    code = f"import os, tetrax; os.environ['XLA_FLAGS'] = '{FORCED}';"
    assert run(code + COUNT) == "3 3"


def test_the_number_cannot_change_once_they_are_there():
    code = """
        import tetrax
        tetrax.config.update("num_cpu_devices", 2)
        tetrax.config.update("num_cpu_devices", 3)
        tetrax.devices()
        tetrax.config.update("num_cpu_devices", 3)
        try:
            tetrax.config.update("num_cpu_devices", 4)
        except RuntimeError as error:
            print(error, tetrax.config.num_cpu_devices, tetrax.device_count())
    """
    assert run(code).endswith("TETRAX_NUM_CPU_DEVICES 3 3")


def test_devices_of_this_process():
    devices = tetrax.devices()
    assert [d.id for d in devices] == list(range(8))
    assert tetrax.local_devices() == devices
    assert tetrax.local_devices(process_index=0, backend="cpu") == devices
    assert devices[0] is tetrax.devices("cpu")[0]
    assert tetrax.numpy.zeros(2).devices() == {devices[0]}
    with pytest.raises(ValueError, match="Unknown process_index 1"):
        tetrax.local_devices(1)
    with pytest.warns(UserWarning, match="process_index"):
        assert tetrax.local_devices(host_id=0) == devices


PROCESSES = """
        import numpy as np, tetrax
        from tetrax.runtime.devices import set_processes
        from tetrax.sharding import *
        set_processes(1, [2, 4, 2])
        P, devices = PartitionSpec, tetrax.devices()
        mesh = Mesh(np.array(devices).reshape(4, 2), ("x", "y"))
"""


def test_devices_of_other_processes():
    code = """
        print([d.id for d in tetrax.local_devices()], [d.process_index for d in devices])
        print(tetrax.process_index(), tetrax.process_count(), tetrax.process_indices())
        print([d.local_hardware_id for d in tetrax.local_devices(2)], tetrax.device_count())
        print(mesh.is_multi_process, mesh.local_mesh, [d.id for d in mesh.local_devices])
        print(tetrax.numpy.zeros(2).devices())
        try:
            set_processes(0, [1])
        except RuntimeError as error:
            print(str(error)[:26])
    """
    assert run(PROCESSES + code).split("\n") == [
        "[2, 3, 4, 5] [0, 0, 1, 1, 1, 1, 2, 2]",
        "1 3 [0, 1, 2]",
        "[0, 1] 8",
        "True Mesh('x': 2, 'y': 2, axis_types=(Auto, Auto)) [2, 3, 4, 5]",
        "{CpuDevice(id=2)}",
        "The devices are in use alr",
    ]


def test_arrays_over_several_processes():
    code = """
        value = np.arange(16.0).reshape(8, 2)
        rows = NamedSharding(mesh, P("x"))
        array = tetrax.make_array_from_callback((8, 2), rows, lambda i: value[i])
        print(array, array.is_fully_addressable, len(array.addressable_shards))
        print([(s.index[0].start, s.data is None) for s in array.global_shards[1:5]])
        try:
            np.asarray(array)
        except RuntimeError as error:
            print(str(error)[:60])
        local = tetrax.make_array_from_process_local_data(rows, value[:4])
        print(local.shape, np.asarray(local.addressable_shards[2].data).tolist())
        whole = tetrax.make_array_from_process_local_data(rows, value, (8, 2))
        print(whole.shape, np.asarray(whole.addressable_shards[2].data).tolist())
        copies = tetrax.device_put(value, NamedSharding(mesh, P()))
        print(np.asarray(copies)[0], copies.is_fully_addressable, copies.is_fully_replicated)
        inside = NamedSharding(mesh.local_mesh, P("y"))
        try:
            tetrax.device_put(array, inside)
        except RuntimeError as error:
            print(str(error)[:40])
        print(np.asarray(tetrax.device_put(copies, inside)).sum())
    """
    assert run(PROCESSES + code).split("\n") == [
        "Array(shape=(8, 2), dtype=float32) False 4",
        "[(0, True), (2, False), (2, False), (4, False)]",
        "Fetching the value of an array that spans non-addressable (n",
        "(8, 2) [[4.0, 5.0], [6.0, 7.0]]",
        "(8, 2) [[8.0, 9.0], [10.0, 11.0]]",
        "[0. 1.] False True",
        "Devices of other processes hold elements",
        "120.0",
    ]


def test_the_stand_in_has_the_names():
    code = """
        from tetrax.compat.jax import install
        install()
        from tests.devices.questions import names_of
        names = names_of("jax")
        print(names.Mesh.__module__, names.P is names.PartitionSpec, len(names.d))
    """
    found = run(code, XLA_FLAGS="--xla_force_host_platform_device_count=3")
    assert found == "tetrax.runtime.mesh True 3"


def test_meshes_are_one_object_per_mesh():
    devices = tetrax.devices()
    mesh = Mesh(devices, "x")
    assert Mesh(devices, ("x",), axis_types=AxisType.Auto) is mesh
    assert Mesh(devices, ("x",), axis_types=AxisType.Explicit) is not mesh
    assert mesh.update(axis_names=("y",)).update(axis_names=("x",)) is mesh
    assert AbstractMesh((8,), "x") is AbstractMesh((8,), ("x",))
    with pytest.raises(AttributeError, match="immutable"):
        mesh.size = 3  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        mesh.devices[0] = None
    with pytest.raises(ValueError, match="use_abstract_mesh"), AbstractMesh((8,), "x"):
        pass


def test_every_thread_has_its_own_mesh():
    code = """
        import threading, tetrax
        mesh = tetrax.make_mesh((1,), ("x",))
        tetrax.set_mesh(mesh)
        def look():
            print(tetrax.sharding.get_mesh().empty)
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        print(tetrax.sharding.get_mesh() is mesh)
        tetrax.set_mesh(None)
        print(tetrax.sharding.get_mesh().empty)
    """
    assert run(code).split() == ["True", "True", "True"]
