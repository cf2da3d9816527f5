"""The `--compile` mode: what stands between a program and its first result, in fresh processes.

Tetrax's first call is measured with an empty cache folder, and again with the folder that the call
left behind; JAX's as it comes, without a cache.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass, field
from typing import Any

from benchmarks import child, table
from benchmarks.row import Row


@dataclass
class Entry:
    """One measured thing: numbers by library ("tetrax_warm" with a filled cache), errors alike."""

    row: str
    kind: str
    unit: str = "seconds"
    numbers: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    target: str = ""

    def record(self) -> dict[str, Any]:
        """The entry as it stands in the JSON file."""
        return {
            "row": self.row,
            "kind": self.kind,
            "unit": self.unit,
            **self.numbers,
            "errors": self.errors,
            "target": self.target,
        }

    def line(self) -> str:
        """The entry for a terminal."""
        shown = [f"{name} {self.quantity(value)}" for name, value in self.numbers.items()]
        mine, theirs = self.numbers.get("tetrax"), self.numbers.get("jax")
        if mine is not None and theirs:
            shown.append(f"ratio {mine / theirs:.3f}")
        problems = [f"\n    {name}: {text}" for name, text in self.errors.items()]
        wanted = f"  (target: {self.target})" if self.target else ""
        return f"{self.row:40}" + "  ".join(shown) + wanted + "".join(problems)

    def quantity(self, value: float) -> str:
        """A number in its unit."""
        if self.unit == "seconds":
            return table.duration(value)
        return f"{value / 2**20:.1f} MiB" if self.unit == "bytes" else f"{value:.3g}"


@dataclass(frozen=True)
class Effort:
    """Processes per number, and how long each may take."""

    processes: int = 3
    timeout: float = 300.0


QUICK = Effort(processes=1, timeout=100.0)


def build_routines(effort: Effort) -> None:
    """Have Tetrax's library routines built, which an installation does once and keeps."""
    with tempfile.TemporaryDirectory() as cache:
        child.run("routines", "tetrax", "", effort.timeout, cache)


def _note(entry: Entry, name: str, found: list[dict[str, float] | str]) -> None:
    """Enter the median of what the processes gave, or the first error."""
    errors = [result for result in found if isinstance(result, str)]
    if errors:
        entry.errors[name] = errors[0]
        return
    numbers = [result for result in found if not isinstance(result, str)]
    entry.numbers[name] = statistics.median(result[entry.unit] for result in numbers)


@dataclass(frozen=True)
class Measurement:
    """A job to be done in fresh processes, and beside whom."""

    name: str
    family: str
    job: str
    argument: str
    unit: str = "seconds"
    target: str = ""
    peers: tuple[str, ...] = ("jax",)

    def measure(self, peers: tuple[str, ...], effort: Effort) -> Entry:
        """Run the job for Tetrax, cold and warm, and for the peers."""
        kind = self.family if self.family in ("special", "memory") else "first call"
        entry = Entry(self.name, kind, self.unit, target=self.target)
        cold: list[dict[str, float] | str] = []
        warm: list[dict[str, float] | str] = []
        for _ in range(effort.processes):
            with tempfile.TemporaryDirectory() as cache:
                cold.append(child.run(self.job, "tetrax", self.argument, effort.timeout, cache))
                if self.unit == "seconds" and not isinstance(cold[-1], str):
                    warm.append(child.run(self.job, "tetrax", self.argument, effort.timeout, cache))
        _note(entry, "tetrax", cold)
        if warm:
            _note(entry, "tetrax_warm", warm)
        for peer in self.peers:
            if peer in peers:
                runs = range(effort.processes)
                found = [child.run(self.job, peer, self.argument, effort.timeout) for _ in runs]
                _note(entry, peer, found)
        return entry


def measurements(rows: tuple[Row, ...]) -> tuple[Measurement, ...]:
    """Every row's first call, what is measured of compilation besides, the memory of training."""
    training = [row for row in rows if row.family == "training"]
    return (
        *(Measurement(row.name, row.family, "first_call", row.name) for row in rows),
        *(
            Measurement(name, "special", job, argument, unit, target)
            for name, job, argument, unit, target in _SPECIAL
        ),
        *(
            Measurement(
                *(f"memory_{row.name}", "memory", "peak_memory", row.name),
                unit="bytes",
                target="no more than a peer",
                peers=("jax", "torch"),
            )
            for row in training
        ),
    )


_SPECIAL: tuple[tuple[str, str, str, str, str], ...] = (
    # name, job, argument, unit, target
    ("chain_1000", "chain", "1000", "seconds", "below 0.5 s"),
    ("chain_10000", "chain", "10000", "seconds", "below 5 s"),
    ("layers_6", "layers", "6", "seconds", ""),
    ("layers_24", "layers", "24", "seconds", "at most 1.3 x layers_6"),
    ("layers_6_gradient", "layers", "6 gradient", "seconds", "at most 4 x layers_6"),
    ("layers_24_gradient", "layers", "24 gradient", "seconds", "at most 1.3 x layers_6_gradient"),
    ("new_shape", "new_shape", "50", "seconds", "at most 20 ms"),
    ("growth_of_1000_shapes", "shape_growth", "1000", "bytes", "below 10 MB"),
)

_QUOTIENTS = (
    ("layers_24 / layers_6", "layers_24", "layers_6", "at most 1.3"),
    (
        "layers_24_gradient / layers_6_gradient",
        "layers_24_gradient",
        "layers_6_gradient",
        "at most 1.3",
    ),
    ("layers_6_gradient / layers_6", "layers_6_gradient", "layers_6", "at most 4"),
)


def quotients(entries: list[Entry]) -> list[Entry]:
    """How special entries compare with each other."""
    by_name = {entry.row: entry for entry in entries}
    made = []
    for name, over, under, target in _QUOTIENTS:
        if over in by_name and under in by_name:
            a, b = by_name[over].numbers, by_name[under].numbers
            numbers = {library: a[library] / b[library] for library in a if library in b}
            made.append(Entry(name, "special", "ratio", numbers, target=target))
    return made
