"""What is measured in processes of its own: first calls, memory, imports.

The parent calls `run`; the child, `python -m benchmarks.child JOB LIBRARY ARGUMENT`, prints one
line of JSON. A job gets the library and its argument and gives numbers by name.
"""

from __future__ import annotations

import compileall
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import libraries
from benchmarks.row import Case
from benchmarks.rows import ROWS
from benchmarks.rows.common import normal
from benchmarks.rows.training import transformer_loss, transformer_parameters

_ROOT = Path(__file__).resolve().parent.parent
# front-ends that Tetrax imports at first use; a program's own import statements load them
_PARTS = ("nn", "random", "scipy.special", "numpy.linalg", "numpy.fft")


@cache
def _compile_bytecode() -> None:
    """Bytecode of the checkout, which an installed package has too."""
    compileall.compile_dir(_ROOT / "src", quiet=1)
    compileall.compile_dir(_ROOT / "benchmarks", quiet=1)


def run(
    job: str, library: str, argument: str, timeout: float, cache: str | None = None
) -> dict[str, float] | str:
    """Numbers from a fresh process, or what went wrong; `cache` is Tetrax's folder of code."""
    _compile_bytecode()
    environment = {k: v for k, v in os.environ.items() if "CACHE_DIR" not in k}
    environment["TETRAX_CACHE_DIR"] = cache or "off"
    command = [sys.executable, "-m", "benchmarks.child", job, library, argument]
    try:
        done = subprocess.run(
            command, env=environment, cwd=_ROOT, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return f"took longer than {timeout:.0f} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return lines[-1][:400]
    return json.loads(done.stdout.splitlines()[-1])


# --------------------------------------------------------------------------- memory


def memory_now() -> dict[str, int]:
    """Resident bytes of this process now (`VmRSS`) and at most (`VmHWM`).

    Not from `getrusage`, whose maximum a child inherits from its parent.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return {name: int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM")}


# --------------------------------------------------------------------------- jobs


def _seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _case(name: str) -> Case:
    return next(row.case() for row in ROWS if row.name == name)


def first_call(library: Any, name: str) -> dict[str, float]:
    """A row's first call: trace, compile, run."""
    case = _case(name)
    with libraries.precision({library.__name__: library}, case.x64):
        return {"seconds": _seconds(libraries.jitted(case, library))}


def peak_memory(library: Any, name: str) -> dict[str, float]:
    """The most memory a row's process ever held, and what it held before the row was built."""
    before = memory_now()["VmRSS"]
    call = libraries.thunk(_case(name), library.__name__, library)
    for _ in range(5):
        call()
    return {"bytes": memory_now()["VmHWM"], "before": before}


def _first(library: Any, function: Callable[..., Any], *inputs: Any) -> dict[str, float]:
    jitted = library.jit(function)
    placed = libraries.tree_map(library.numpy.asarray, inputs)
    return {"seconds": _seconds(lambda: library.block_until_ready(jitted(*placed)))}


def chain(library: Any, length: str) -> dict[str, float]:
    """The first call of many elementwise operations in a row."""

    def function(x: Any) -> Any:
        for i in range(int(length) // 4):
            x = library.numpy.sin(x) * 1.01 + 0.001 * i - x
        return x

    return _first(library, function, normal(1000))


def layers(library: Any, argument: str) -> dict[str, float]:
    """The first call of equal transformer layers: "6" for the loss, "6 gradient" for both."""
    count, *gradient = argument.split()
    loss = transformer_loss(library, heads=4)
    parameters = transformer_parameters(vocabulary=100, width=64, layers=int(count))
    tokens = np.arange(32, dtype=np.int32).reshape(2, 16)
    function = library.value_and_grad(loss) if gradient else loss
    return _first(library, function, parameters, tokens, np.roll(tokens, -1, 1))


def _small(library: Any) -> Callable[..., Any]:
    return library.jit(lambda v: library.numpy.tanh(v * 2 + 1).sum() / v.shape[0])


def new_shape(library: Any, count: str) -> dict[str, float]:
    """Calls of a small function with lengths that it has not seen."""
    function = _small(library)
    inputs = [library.numpy.asarray(np.ones(n, np.float32)) for n in range(3, 4 + int(count))]
    times = [_seconds(lambda v=v: library.block_until_ready(function(v))) for v in inputs]
    return {"seconds": statistics.median(times[1:])}


def shape_growth(library: Any, count: str) -> dict[str, float]:
    """Growth of the process over many new shapes, after the first fifty."""
    function = _small(library)

    def call(lengths: range) -> None:
        for n in lengths:
            library.block_until_ready(function(library.numpy.asarray(np.ones(n, np.float32))))

    call(range(10, 60))
    before = memory_now()["VmRSS"]
    call(range(60, 60 + int(count)))
    return {"bytes": memory_now()["VmRSS"] - before}


def routines(library: Any, _argument: str) -> dict[str, float]:
    """Tetrax's own routines, which are built once a machine; at once where that was done."""
    registry = importlib.import_module(f"{library.__name__}.compiler.cpu.library.registry")
    return {"seconds": _seconds(registry.build_all)}


JOBS: dict[str, Callable[[Any, str], dict[str, float]]] = {
    "first_call": first_call,
    "peak_memory": peak_memory,
    "chain": chain,
    "routines": routines,
    "layers": layers,
    "new_shape": new_shape,
    "shape_growth": shape_growth,
}


def main() -> None:
    """Run one job."""
    job, name, argument = sys.argv[1:]
    library = importlib.import_module(name)
    if name != "torch":
        for part in _PARTS:
            importlib.import_module(f"{name}.{part}")
        # the backend and the compiler are up
        library.block_until_ready(library.jit(lambda x: x + 1)(library.numpy.zeros(3)))
    print(json.dumps(JOBS[job](library, argument)))


if __name__ == "__main__":
    main()
