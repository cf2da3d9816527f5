"""The `--dispatch` mode: what a call costs before anything is computed, Tetrax and JAX in turns."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from benchmarks import table
from benchmarks.harness import message
from benchmarks.libraries import Thunk

_CALLS = 500
_IMPORT = "import time; t = time.perf_counter(); import {name}; print(time.perf_counter() - t)"


@dataclass
class Cost:
    """Seconds per call by library, and what is aimed at."""

    name: str
    target: str
    seconds: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """The cost as it stands in the JSON file."""
        return {
            "name": self.name,
            **self.seconds,
            "target": self.target,
            "errors": self.errors,
        }

    def line(self) -> str:
        """The cost for a terminal."""
        shown = [f"{name} {table.duration(value)}" for name, value in self.seconds.items()]
        if {"tetrax", "jax"} <= set(self.seconds):
            shown.append(f"ratio {self.seconds['tetrax'] / self.seconds['jax']:.3f}")
        problems = [f"\n    {name}: {text}" for name, text in self.errors.items()]
        return f"{self.name:32}{'  '.join(shown)}  (target: {self.target}){''.join(problems)}"


# --------------------------------------------------------------------------- what is called


def _small(library: Any) -> Any:
    return library.numpy.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))


def _jit_one(library: Any) -> Thunk:
    function, x = library.jit(lambda x: x + 1), _small(library)
    return lambda: function(x)


def _jit_ten(library: Any) -> Thunk:
    function = library.jit(lambda *xs: xs[0] + xs[9])
    xs = [_small(library) for _ in range(10)]
    return lambda: function(*xs)


def _tree(library: Any) -> dict[str, list[Any]]:
    return {f"layer{i}": [_small(library) for _ in range(10)] for i in range(10)}


def _jit_tree(library: Any) -> Thunk:
    function = library.jit(lambda tree: sum(sum(part) for part in tree.values()))
    tree = _tree(library)
    return lambda: function(tree)


def _jit_tree_to_tree(library: Any) -> Thunk:
    function = library.jit(lambda tree: library.tree.map(lambda x: x + 1, tree))
    tree = _tree(library)
    return lambda: function(tree)


def _eager_add(library: Any) -> Thunk:
    x = _small(library)
    return lambda: x + 1


def _eager_add_arrays(library: Any) -> Thunk:
    x = _small(library)
    return lambda: x + x


def _eager_sin(library: Any) -> Thunk:
    function, x = library.numpy.sin, _small(library)
    return lambda: function(x)


def _index_integer(library: Any) -> Thunk:
    x = _small(library)
    return lambda: x[2]


def _index_slice(library: Any) -> Thunk:
    x = _small(library)
    return lambda: x[:2]


def _index_steps(library: Any) -> Thunk:
    x = _small(library)
    return lambda: x[1:3, ::2]


def _index_array(library: Any) -> Thunk:
    x, i = _small(library), library.numpy.asarray(np.array([0, 2], np.int32))
    return lambda: x[i]


def _array_of_list(library: Any) -> Thunk:
    make = library.numpy.array
    return lambda: make([1.0, 2.0, 3.0])


def _array_of_numpy(library: Any) -> Thunk:
    make, x = library.numpy.array, np.ones(1, np.float32)
    return lambda: make(x)


_MEASURED: tuple[tuple[str, str, Callable[[Any], Thunk]], ...] = (
    ("jit, 1 argument", "5 us", _jit_one),
    ("jit, 10 arguments", "10 us", _jit_ten),
    ("jit, 100 leaves to 1", "80 us", _jit_tree),
    ("jit, 100 leaves to 100", "", _jit_tree_to_tree),
    ("x + 1", "4 us", _eager_add),
    ("x + x", "4 us", _eager_add_arrays),
    ("sin(x)", "", _eager_sin),
    ("x[2]", "8 us", _index_integer),
    ("x[:2]", "8 us", _index_slice),
    ("x[1:3, ::2]", "8 us", _index_steps),
    ("x[i]", "8 us", _index_array),
    ("array([1., 2., 3.])", "5 us", _array_of_list),
    ("array(numpy array)", "15 us", _array_of_numpy),
)


# --------------------------------------------------------------------------- measuring


def _per_call(run: Thunk) -> float:
    start = time.perf_counter()
    for _ in range(_CALLS):
        run()
    return (time.perf_counter() - start) / _CALLS


def measure(libraries: dict[str, Any], repeats: int) -> list[Callable[[], Cost]]:
    """One measurement per kind of call, and the imports."""

    def in_turns(name: str, target: str, make: Callable[[Any], Thunk]) -> Cost:
        runs = {lib: make(module) for lib, module in libraries.items()}
        times: dict[str, list[float]] = {lib: [] for lib in runs}
        for turn in range(repeats + 1):
            for lib, run in runs.items():
                found = _per_call(run)
                times[lib] += [found] if turn else []  # the first turn is for warming up
        return Cost(name, target, {lib: statistics.median(found) for lib, found in times.items()})

    def guarded(name: str, target: str, make: Callable[[Any], Thunk]) -> Cost:
        try:
            return in_turns(name, target, make)
        except Exception as error:
            return Cost(name, target, errors={"call": message(error)})

    calls = [lambda a=entry: guarded(*a) for entry in _MEASURED]
    return [*calls, lambda: imports(list(libraries), 5)]


def imports(names: list[str], processes: int) -> Cost:
    """Median seconds of the import statement in fresh processes, in turns."""
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(processes):
        for name in names:
            command = [sys.executable, "-c", _IMPORT.format(name=name)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            times[name].append(float(done.stdout))
    return Cost(
        "import", "0.4 x JAX", {name: statistics.median(found) for name, found in times.items()}
    )
