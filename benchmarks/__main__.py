"""Times Tetrax beside JAX, PyTorch and NumPy, interleaved in one process run.

Rows are chosen by name, by family or by a pattern such as 'sort*'; without `--rows` all are run.
Results are compared before anything is timed. Ratios are Tetrax's time to the peer's: below 1,
Tetrax is faster. The limit is the time that the machine's multiply-add peak or its copy bandwidth,
both measured in the same run, would allow.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.progress import Progress

from benchmarks import libraries, table
from benchmarks.harness import QUICK, Outcome, Plan, run_row
from benchmarks.machine import Machine, measure_machine
from benchmarks.row import Row
from benchmarks.rows import select


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = argparse.ArgumentParser(
        prog="scripts/bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--rows", default="", help="names, families or patterns, comma-separated")
    made.add_argument("--peers", default=",".join(libraries.PEERS), help="whom to compare with")
    made.add_argument("--json", type=Path, help="write the results here, after every row")
    made.add_argument("--quick", action="store_true", help="every row with fewer repeats")
    made.add_argument("--repeats", type=int, help="timed calls per row and library (15)")
    return made


def plan_of(options: argparse.Namespace) -> Plan:
    """How much to measure."""
    plan = QUICK if options.quick else Plan()
    return replace(plan, repeats=options.repeats) if options.repeats else plan


def loaded(options: argparse.Namespace) -> dict[str, ModuleType]:
    """The libraries of this run, each on all the threads of the machine."""
    wanted = tuple(name for name in options.peers.split(",") if name)
    unknown = [name for name in wanted if name not in libraries.PEERS]
    if unknown:
        raise SystemExit(f"no peer is called {', '.join(unknown)}; there are {libraries.PEERS}")
    return libraries.load_all(wanted)


def run_rows(
    rows: tuple[Row, ...],
    modules: dict[str, ModuleType],
    machine: Machine,
    options: argparse.Namespace,
    console: Console,
) -> list[Outcome]:
    """Measure the rows one by one; every result is shown, and written, as soon as it is there."""
    outcomes: list[Outcome] = []
    peers = [name for name in modules if name != "tetrax"]
    console.print(table.header(peers), highlight=False)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("measuring", total=len(rows))
        for row in rows:
            progress.update(task, description=row.name)
            outcomes.append(run_row(row, modules, machine, plan_of(options)))
            console.print(table.line(outcomes[-1], peers), highlight=False, markup=False)
            progress.advance(task)
            save(options.json, machine, modules, rows=[o.record() for o in outcomes])
    return outcomes


def save(
    path: Path | None, machine: Machine, modules: dict[str, ModuleType], **sections: Any
) -> None:
    """Write the sections measured so far."""
    if path is not None:
        versions = {name: libraries.version(module) for name, module in modules.items()}
        record = {**sections, "machine": {**machine.record(), "versions": versions}}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n")


def main() -> None:
    """Run what the command line asks for."""
    options = parser().parse_args()
    rows = select(options.rows)
    console = Console(width=None if Console().is_terminal else 200)
    modules = loaded(options)
    machine = measure_machine()
    if "torch" in modules:
        modules["torch"].set_num_threads(machine.threads)
    console.print(
        f"{machine.cpu}, {machine.threads} threads, {machine.fma_f32 / 1e9:.0f} GFLOP/s float32, "
        f"copies {machine.copy_bytes / 1e9:.1f} GB/s",
        highlight=False,
    )
    run_rows(rows, modules, machine, options, console)


if __name__ == "__main__":
    main()
