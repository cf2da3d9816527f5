"""Times Tetrax beside NumPy and JAX, interleaved in one process run.

    python -m benchmarks [--rows NAME,NAME] [--repeats 15] [--json FILE]

Results are compared before anything is timed. The printed numbers are medians in milliseconds and
the ratio of Tetrax's time to each peer's (below 1: Tetrax is faster).
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.progress import track

import numpy as np
import tetrax
from benchmarks.rows import ROWS, Row


def jax_or_none() -> Any:
    try:
        import jax  # noqa: PLC0415  an optional peer
    except ImportError:
        return None
    return jax


def contenders(row: Row, jax: Any) -> dict[str, Callable[[], Any]]:
    """One thunk per library; each waits for its result."""
    inputs = row.inputs(np.random.default_rng(0))
    made: dict[str, Callable[[], Any]] = {}
    for name, lib in (("tetrax", tetrax), ("jax", jax)):
        if lib is not None:
            function = lib.jit(row.program(lib))
            placed = tuple(lib.device_put(x) for x in inputs)
            made[name] = lambda f=function, p=placed, b=lib.block_until_ready: b(f(*p))
    if row.numpy is not None:
        made["numpy"] = lambda: row.numpy(*inputs)
    return made


def check(row: Row, made: dict[str, Callable[[], Any]]) -> None:
    """Everybody computes the same before anybody is timed."""
    leaves = {
        name: [np.asarray(x) for x in tetrax.tree.leaves(run())] for name, run in made.items()
    }
    for name, values in leaves.items():
        for mine, theirs in zip(leaves["tetrax"], values, strict=True):
            scale = np.abs(theirs).max() + 1e-30
            if not np.allclose(mine / scale, theirs / scale, atol=1e-3):
                raise SystemExit(f"{row.name}: tetrax and {name} disagree")


def measure(row: Row, jax: Any, repeats: int) -> dict[str, float]:
    """Median seconds per library, taken in turns."""
    made = contenders(row, jax)
    # The Lorenz system is chaotic: libraries that round differently end elsewhere.
    if not row.name.startswith("Lorenz"):
        check(row, made)
    times: dict[str, list[float]] = {name: [] for name in made}
    for run in made.values():
        run()
    for _ in range(repeats):
        for name, run in made.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    wanted = set(filter(None, options.rows.split(",")))
    jax, table = jax_or_none(), []
    rows = [row for row in ROWS if not wanted or row.name in wanted]
    for row in track(rows, description="measuring"):
        found = measure(row, jax, options.repeats)
        mine = found.pop("tetrax")
        table.append({"row": row.name, "tetrax": mine, "peers": found})
    print(f"{'row':30} {'tetrax ms':>10}  peers: ms (ratio)")
    for entry in table:
        peers = "  ".join(
            f"{name} {seconds * 1e3:.2f} ({entry['tetrax'] / seconds:.2f})"
            for name, seconds in entry["peers"].items()
        )
        print(f"{entry['row']:30} {entry['tetrax'] * 1e3:10.2f}  {peers}")
    if options.json:
        options.json.write_text(
            json.dumps({"rows": table, "machine": platform.processor()}, indent=1)
        )


if __name__ == "__main__":
    main()
