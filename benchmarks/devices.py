"""The `--devices` mode: programs of several virtual devices of one CPU, Tetrax and JAX in turns.

The number of devices is settled before the libraries are loaded (`set_up`), so this is a mode of
its own.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from benchmarks.dispatch import Cost
from benchmarks.harness import message
from benchmarks.libraries import Thunk, tree_map
from benchmarks.machine import Machine
from benchmarks.rows import training

DEVICES = 4
_MEGABYTES = 4
_CALLS = 10_000


def set_up() -> None:
    """Give this process virtual devices; before any library is loaded."""
    os.environ["TETRAX_NUM_CPU_DEVICES"] = str(DEVICES)
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"


def _mesh(library: Any, count: int) -> Any:
    return library.sharding.Mesh(np.array(library.devices()[:count]), ("devices",))


def _put(library: Any, mesh: Any, tree: Any, *names: Any) -> Any:
    place = library.sharding.NamedSharding(mesh, library.sharding.PartitionSpec(*names))
    return tree_map(lambda leaf: library.device_put(np.array(leaf), place), tree)


def _all_reduce(library: Any) -> Thunk:
    """The sum of an array of each device, for all of them."""
    mesh, spec = _mesh(library, DEVICES), library.sharding.PartitionSpec("devices")
    total = lambda x: library.lax.psum(x, "devices")
    sums = library.jit(
        library.shard_map(total, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    )
    source = np.random.default_rng(0)
    rows = source.standard_normal((DEVICES, _MEGABYTES << 18)).astype(np.float32)
    placed = _put(library, mesh, rows, "devices")
    return lambda: library.block_until_ready(sums(placed))


def _training(devices: int) -> Callable[[Any], Thunk]:
    """The training step of the row `mlp_step`, its batch cut over devices."""

    def make(library: Any) -> Thunk:
        case = training.mlp_step(batch=128, widths=(784, 512, 512, 10))
        step = library.jit(case.program(library), donate_argnums=0)
        parameters, images, labels = case.inputs
        if devices == 1:
            placed = [tree_map(library.numpy.array, part) for part in case.inputs]
        else:
            mesh = _mesh(library, devices)
            cut = (_put(library, mesh, part, "devices") for part in (images, labels))
            placed = [_put(library, mesh, parameters), *cut]

        def run() -> Any:
            placed[0], value = library.block_until_ready(step(*placed))
            return value

        return run

    return make


def _pmap(devices: int) -> Callable[[Any], Thunk]:
    def make(library: Any) -> Thunk:
        function = library.pmap(lambda x: x + 1)
        held = [function(np.arange(float(devices), dtype=np.float32))]

        def run() -> None:
            held[0] = function(held[0])

        return run

    return make


def _in_turns(runs: Mapping[str, Thunk], repeats: int, calls: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            for _ in range(calls):
                run()
            found = (time.perf_counter() - start) / calls
            times[name] += [found] if turn else []  # the first turn is for warming up
    return {name: statistics.median(found) for name, found in times.items()}


def measure(
    libraries: Mapping[str, Any], machine: Machine, repeats: int
) -> list[Callable[[], Cost]]:
    """One measurement per program."""

    def guarded(name: str, target: str, make: Callable[[], dict[str, float]]) -> Cost:
        try:
            return Cost(name, target, make())
        except Exception as error:
            return Cost(name, target, errors={"call": message(error)})

    def reduced() -> dict[str, float]:
        found = _in_turns({n: _all_reduce(lib) for n, lib in libraries.items()}, repeats, 10)
        # Every operand is read once, and every result written.
        moved = 2 * DEVICES * _MEGABYTES << 20
        return {**found, "limit": moved / machine.copy_bytes}

    def trained() -> dict[str, float]:
        runs: dict[str, Thunk] = {}
        for name, library in libraries.items():
            runs[name] = _training(2)(library)
            runs[f"{name} on one device"] = _training(1)(library)
        return _in_turns(runs, repeats, 10)

    def called(devices: int) -> dict[str, float]:
        runs = {name: _pmap(devices)(library) for name, library in libraries.items()}
        return _in_turns(runs, 5, _CALLS // 5)

    return [
        lambda: guarded(f"all-reduce of 4 MB, {DEVICES} devices", "", reduced),
        lambda: guarded("mlp_step, 2 devices", "1.1 x one device", trained),
        *(
            lambda n=n: guarded(f"pmap(x + 1), {n} devices", "0.5 x JAX", lambda: called(n))
            for n in (1, 2, 4)
        ),
    ]
