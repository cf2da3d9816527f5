"""The `--compile` mode: what stands between a program and its first result, in fresh processes.

Tetrax's first call is measured with an empty cache folder, and again with the folder that the call
left behind; JAX's as it comes, without a cache.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
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
        return f"{self.row:32}" + "  ".join(shown) + wanted + "".join(problems)

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


def _note(entry: Entry, name: str, found: list[dict[str, float] | str], number: str) -> None:
    """Enter the median of what the processes gave, or the first error."""
    errors = [result for result in found if isinstance(result, str)]
    if errors:
        entry.errors[name] = errors[0]
        return
    entry.numbers[name] = statistics.median(result[number] for result in found)  # type: ignore[index]


def _measure(
    entry: Entry, job: str, argument: str, peers: tuple[str, ...], effort: Effort
) -> Entry:
    """Run a job for Tetrax, cold and warm, and for the peers."""
    number = "bytes" if entry.unit == "bytes" else "seconds"
    cold: list[dict[str, float] | str] = []
    warm: list[dict[str, float] | str] = []
    for _ in range(effort.processes):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(child.run(job, "tetrax", argument, effort.timeout, cache))
            if number == "seconds" and not isinstance(cold[-1], str):
                warm.append(child.run(job, "tetrax", argument, effort.timeout, cache))
    _note(entry, "tetrax", cold, number)
    if warm:
        _note(entry, "tetrax_warm", warm, number)
    for peer in peers:
        runs = [child.run(job, peer, argument, effort.timeout) for _ in range(effort.processes)]
        _note(entry, peer, runs, number)
    return entry


def first_calls(
    rows: tuple[Row, ...], peers: tuple[str, ...], effort: Effort
) -> Iterator[Callable[[], Entry]]:
    """One measurement per row."""
    compiled = tuple(peer for peer in peers if peer == "jax")
    for row in rows:
        entry = Entry(row.name, "first call")
        yield lambda e=entry, n=row.name: _measure(e, "first_call", n, compiled, effort)


_SPECIAL: tuple[tuple[str, str, str, str, str], ...] = (
    # row, job, argument, unit, target
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
    ("value_and_grad / value", "layers_6_gradient", "layers_6", "at most 4"),
)


def special(peers: tuple[str, ...], effort: Effort) -> Iterator[Callable[[], Entry]]:
    """The measurements that are no rows."""
    compiled = tuple(peer for peer in peers if peer == "jax")
    for name, job, argument, unit, target in _SPECIAL:
        entry = Entry(name, "special", unit, target=target)
        yield lambda e=entry, j=job, a=argument: _measure(e, j, a, compiled, effort)


def memory(
    rows: tuple[Row, ...], peers: tuple[str, ...], effort: Effort
) -> Iterator[Callable[[], Entry]]:
    """The most memory that the training rows take."""
    others = tuple(peer for peer in peers if peer in ("jax", "torch"))
    for row in rows:
        if row.family == "training":
            entry = Entry(f"memory of {row.name}", "memory", "bytes", target="no more than a peer")
            yield lambda e=entry, n=row.name: _measure(e, "peak_memory", n, others, effort)


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
