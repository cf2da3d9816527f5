"""Times Tetrax beside JAX, PyTorch and NumPy, interleaved in one process run.

`--compile`, `--dispatch` and `--devices` measure first calls (and the families "special" and
"memory"), the cost of calls, and programs of several devices instead. Full runs, those
without `--rows` and `--quick`, are kept in benchmarks/report.json and rendered beside it.

Rows are chosen by name, by family or by a pattern such as 'sort*'; without `--rows` all are run.
Results are compared before anything is timed. Ratios are Tetrax's time to the peer's: below 1,
Tetrax is faster. The limit is the time that the machine's multiply-add peak or its copy bandwidth,
both measured in the same run, would allow.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import Progress

from benchmarks import compile_time, devices, dispatch, libraries, report, table
from benchmarks.harness import QUICK, Plan, run_row
from benchmarks.machine import Machine, measure_machine
from benchmarks.priority import realtime
from benchmarks.row import Row
from benchmarks.rows import ROWS, select

T = TypeVar("T")


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
    made.add_argument("--compile", action="store_true", help="first calls in fresh processes")
    made.add_argument("--dispatch", action="store_true", help="what a call costs by itself")
    made.add_argument("--devices", action="store_true", help="several virtual devices")
    made.add_argument("--render", type=Path, help="only render the report of a JSON file")
    made.add_argument(
        "--realtime", action="store_true", help="real-time priority while the clock runs (root)"
    )
    made.add_argument("--repeats", type=int, help="timed calls per row and library (15)")
    return made


def plan_of(options: argparse.Namespace) -> Plan:
    """How much to measure."""
    plan = replace(QUICK if options.quick else Plan(), realtime=options.realtime)
    return replace(plan, repeats=options.repeats) if options.repeats else plan


def loaded(options: argparse.Namespace) -> dict[str, ModuleType]:
    """The libraries of this run, each on all the threads of the machine."""
    wanted = tuple(name for name in options.peers.split(",") if name)
    unknown = sorted(set(wanted) - set(libraries.PEERS))
    if unknown:
        raise SystemExit(f"no peer is called {', '.join(unknown)}; there are {libraries.PEERS}")
    return libraries.load_all(wanted)


@dataclass
class Run:
    """One run of the command: where its sections are shown, collected and written."""

    console: Console
    modules: dict[str, ModuleType]
    machine: Machine
    path: Path | None
    quick: bool = False
    sections: dict[str, Any] = field(default_factory=dict)

    @property
    def peers(self) -> tuple[str, ...]:
        """The peers that are installed."""
        return tuple(name for name in self.modules if name != "tetrax")

    def record(self) -> dict[str, Any]:
        """What the JSON file holds."""
        versions = {name: libraries.version(module) for name, module in self.modules.items()}
        machine = {**self.machine.record(), "versions": versions, "quick": self.quick}
        return {**self.sections, "machine": machine}

    def add(self, section: str, measured: Any, line: str) -> None:
        """Show a result, and write all that there is so far."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)
        self.sections.setdefault(section, []).append(measured.record())
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(self.record(), indent=1) + "\n")

    def track(self, actions: Sequence[Callable[[], T]], describe: str) -> Iterator[T]:
        """The results of actions, one by one, with a bar that shows how far it is."""
        with Progress(console=self.console, disable=not self.console.is_terminal) as progress:
            for action in progress.track(actions, description=describe):
                yield action()


def measure_rows(run: Run, rows: tuple[Row, ...], plan: Plan) -> None:
    """Time the rows."""
    run.console.print(table.header(run.peers), highlight=False, soft_wrap=True)
    actions = [lambda row=row: run_row(row, run.modules, run.machine, plan) for row in rows]
    for outcome in run.track(actions, "rows"):
        run.add("rows", outcome, table.line(outcome, run.peers))


def measure_compilation(run: Run, chosen: str, quick: bool) -> None:
    """First calls, and what belongs to them."""
    effort = compile_time.QUICK if quick else compile_time.Effort()
    compile_time.build_routines(effort)
    jobs = select(chosen, compile_time.measurements(ROWS))
    entries = []
    for entry in run.track([lambda j=j: j.measure(run.peers, effort) for j in jobs], "first calls"):
        entries.append(entry)
        run.add("compile", entry, entry.line())
    for entry in compile_time.quotients(entries):
        run.add("compile", entry, entry.line())


def measure_dispatch(run: Run, repeats: int) -> None:
    """The cost of calls."""
    compared = {name: m for name, m in run.modules.items() if name in ("tetrax", "jax")}
    for cost in run.track(dispatch.measure(compared, repeats), "calls"):
        run.add("dispatch", cost, cost.line())


def measure_devices(run: Run, repeats: int) -> None:
    """Programs of several devices."""
    compared = {name: m for name, m in run.modules.items() if name in ("tetrax", "jax")}
    for cost in run.track(devices.measure(compared, run.machine, repeats), "devices"):
        run.add("devices", cost, cost.line())


def main() -> None:
    """Run what the command line asks for."""
    options = parser().parse_args()
    if options.render:
        report.render(json.loads(options.render.read_text()))
        return
    if options.devices:
        devices.set_up()
    other = options.compile or options.dispatch or options.devices
    rows = () if other else select(options.rows, ROWS)
    terminal = Console()
    console = terminal if terminal.is_terminal else Console(width=200)
    modules = loaded(options)
    with realtime(options.realtime):
        machine = measure_machine()
    if "torch" in modules:
        modules["torch"].set_num_threads(machine.threads)
    console.print(
        f"{machine.cpu}, {machine.threads} threads, {machine.fma_f32 / 1e9:.0f} GFLOP/s float32, "
        f"copies {machine.copy_bytes / 1e9:.1f} GB/s",
        highlight=False,
    )
    run = Run(console, modules, machine, options.json, options.quick)
    if options.compile:
        measure_compilation(run, options.rows, options.quick)
    if options.dispatch:
        with realtime(options.realtime):
            measure_dispatch(run, options.repeats or 15)
    if options.devices:
        measure_devices(run, options.repeats or 15)
    if rows:
        measure_rows(run, rows, plan_of(options))
    if not (options.rows or options.quick):
        report.update(run.record())


if __name__ == "__main__":
    main()
