"""Runs a row: builds it in every library, compares the results, times the libraries in turns.

Peers keep their worker threads spinning for a while after a call, and whoever is called next
suffers; so each library gets a pause, one call that is not timed, and then its timed calls in a
row, and the turns go back and forth.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from benchmarks import libraries
from benchmarks.libraries import Thunk
from benchmarks.machine import Machine
from benchmarks.priority import realtime
from benchmarks.row import Case, Row


@dataclass(frozen=True)
class Plan:
    """How much is measured: `repeats` timed calls per library, fewer where they take long."""

    repeats: int = 15
    rounds: int = 5
    seconds: float = 15.0
    least: int = 3
    pause: float = 0.02
    torch_compile: bool = True
    realtime: bool = False


QUICK = Plan(repeats=9, rounds=3, seconds=0.4, least=1, torch_compile=False)


@dataclass
class Outcome:
    """What was found for one row: median seconds, and an error per library that failed."""

    row: str
    family: str
    times: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    least: dict[str, float] = field(default_factory=dict)
    spread: dict[str, float] = field(default_factory=dict)
    torch_form: str = ""
    limit: float | None = None
    limit_kind: str | None = None
    unchecked: str = ""
    plain: float | None = None

    @property
    def peers(self) -> dict[str, float]:
        """The peers' times."""
        return {name: seconds for name, seconds in self.times.items() if name != "tetrax"}

    def ratio(self, peer: str) -> float | None:
        """Tetrax's time to a peer's; "best" stands for the fastest peer."""
        mine, peers = self.times.get("tetrax"), self.peers
        other = min(peers.values(), default=None) if peer == "best" else peers.get(peer)
        return None if mine is None or other is None else mine / other

    def record(self) -> dict[str, Any]:
        """The row as it stands in the JSON file."""
        return {
            "row": self.row,
            "family": self.family,
            "tetrax": self.times.get("tetrax"),
            "peers": self.peers,
            "limit": self.limit,
            "limit_kind": self.limit_kind,
            "errors": self.errors,
            "least": self.least,
            "spread": self.spread,
            "torch_form": self.torch_form,
            "unchecked": self.unchecked,
            "plain": self.plain,
        }


def message(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:400]


# --------------------------------------------------------------------------- comparison


def difference(mine: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the largest element; infinite for other shapes."""
    if mine.shape != theirs.shape:
        return np.inf
    if mine.size == 0:
        return 0.0
    if mine.dtype.kind in "biu" and theirs.dtype.kind in "biu":
        return float(np.any(mine.astype(np.int64) != theirs.astype(np.int64)))
    kind = np.complex128 if "c" in (mine.dtype.kind, theirs.dtype.kind) else np.float64
    a, b = np.atleast_1d(mine).astype(kind), np.atleast_1d(theirs).astype(kind)
    apart = np.abs(a - b)
    apart[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 0.0
    worst = float(apart.max())
    return worst / scale if scale else worst


def disagreement(case: Case, mine: Any, theirs: Any) -> str:
    """What is wrong with a result, judged by another's; empty where they agree."""
    compare = case.compare or (lambda *leaves: leaves)
    a = libraries.as_arrays(compare(*libraries.as_arrays(mine)))
    b = libraries.as_arrays(compare(*libraries.as_arrays(theirs)))
    if len(a) != len(b):
        return f"{len(a)} results, not {len(b)}"
    shapes = [(x.shape, y.shape) for x, y in zip(a, b, strict=True) if x.shape != y.shape]
    if shapes:
        return f"shape {shapes[0][0]}, not {shapes[0][1]}"
    worst = max((difference(x, y) for x, y in zip(a, b, strict=True)), default=0.0)
    if worst <= case.tolerance:
        return ""
    return f"off by {worst:.1e} of the largest element (tolerance {case.tolerance:.0e})"


def compare_all(case: Case, results: Mapping[str, Any]) -> dict[str, str]:
    """Who disagrees with the judge: NumPy where the row has it, else JAX, else PyTorch."""
    judge = next((name for name in ("numpy", "jax", "torch") if name in results), None)
    if judge is None or case.unchecked:
        return {}
    found: dict[str, str] = {}
    for name, result in results.items():
        problem = disagreement(case, result, results[judge]) if name != judge else ""
        if problem:
            found[name] = f"differs from {judge}: {problem}"
    return found


# --------------------------------------------------------------------------- timing


def timed(run: Thunk) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def calls_per_round(plan: Plan, seconds: float) -> int:
    """Timed calls of a library in each round, from how long one call takes; 0 where it is slow:
    then calls are counted one by one.
    """
    if seconds * plan.repeats > plan.seconds:
        return 0
    # short calls are repeated more often: they cost nothing and vary most
    wanted = max(plan.repeats, min(100, int(0.02 / seconds)))
    return max(1, round(wanted / plan.rounds))


def take_turns(runs: Mapping[str, Thunk], plan: Plan) -> dict[str, list[float]]:
    """Seconds of every timed call, the libraries interleaved."""
    first = {}
    for name, run in runs.items():
        time.sleep(plan.pause)
        first[name] = timed(run)
    counts = {name: calls_per_round(plan, seconds) for name, seconds in first.items()}
    times = {name: [] if counts[name] else [seconds] for name, seconds in first.items()}
    names = list(runs)
    for turn in range(plan.rounds):
        for name in names if turn % 2 else reversed(names):
            add_turn(runs[name], counts[name], times[name], plan)
    return times


def add_turn(run: Thunk, count: int, times: list[float], plan: Plan) -> None:
    """One library's calls of one round; a slow library only makes those that it has time for."""
    time.sleep(plan.pause)
    if count:
        warm_up(run)
        times += [timed(run) for _ in range(count)]
        return
    share = max(1, round(plan.repeats / plan.rounds))
    for _ in range(share):
        if len(times) >= plan.least and sum(times) + times[-1] > plan.seconds:
            return
        times.append(timed(run))


def warm_up(run: Thunk) -> None:
    """Calls until workers are awake and caches filled: the first after a pause take half as long
    again.
    """
    spent = 0.0
    for _ in range(8):
        spent += timed(run)
        if spent > 0.005:
            return


def quartile_spread(values: list[float]) -> float:
    """The distance between the quartiles, relative to the median."""
    if len(values) < 4:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle


# --------------------------------------------------------------------------- one row


def attempt(outcome: Outcome, name: str, action: Callable[[], Any]) -> Any:
    """The action's value, or None with the error noted under a library's name."""
    try:
        return action()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a peer's C++ exception may be anything
        outcome.errors[name] = message(error)
        return None


def first_results(
    outcome: Outcome, case: Case, modules: Mapping[str, ModuleType]
) -> tuple[dict[str, Thunk], dict[str, Any]]:
    """The libraries' thunks after their first call, and what it gave."""
    runs: dict[str, Thunk] = {}
    results: dict[str, Any] = {}
    for name, module in modules.items():
        if not libraries.takes(case, name):
            continue
        run = attempt(outcome, name, lambda n=name, m=module: libraries.thunk(case, n, m))
        result = attempt(outcome, name, run) if run is not None else None
        if name not in outcome.errors and run is not None:
            runs[name], results[name] = run, result
    return runs, results


def add_compiled_torch(
    outcome: Outcome, case: Case, torch: ModuleType, runs: dict[str, Thunk], results: dict[str, Any]
) -> None:
    """Add PyTorch's compiled function as a contender of its own, where it works and agrees."""
    probe = Outcome(outcome.row, outcome.family)
    run = attempt(probe, "torch", lambda: libraries.torch_compiled(case, torch))
    if run is None:
        outcome.torch_form = f"eager (compile: {probe.errors['torch'][:80]})"
        return
    if case.updates or not disagreement_or_error(case, run, results["torch"]):
        runs["torch.compile"] = run


def disagreement_or_error(case: Case, run: Thunk, expected: Any) -> str:
    """What is wrong with a further contender's result; empty where nothing is."""
    try:
        return "" if case.unchecked else disagreement(case, run(), expected)
    except Exception as error:
        return message(error)


def run_row(
    row: Row, modules: Mapping[str, ModuleType], machine: Machine | None, plan: Plan
) -> Outcome:
    """Build, compare and time one row."""
    outcome = Outcome(row.name, row.family)
    case = attempt(outcome, "row", row.case)
    if case is None:
        return outcome
    outcome.unchecked = case.unchecked
    if case.plain is not None:
        part, function = case.plain
        outcome.plain = timed(lambda: function(*case.inputs)) / part
    if machine is not None:
        outcome.limit, outcome.limit_kind = machine.limit(case)
    with libraries.precision(modules, case.x64):
        runs, results = first_results(outcome, case, modules)
        for name, problem in compare_all(case, results).items():
            outcome.errors[name] = problem
            del runs[name]
        if plan.torch_compile and case.torch_compile and "torch" in runs:
            add_compiled_torch(outcome, case, modules["torch"], runs, results)
        results.clear()
        gc.collect()
        gc.disable()
        try:
            with realtime(plan.realtime):
                times = attempt(outcome, "timing", lambda: take_turns(runs, plan)) or {}
        finally:
            gc.enable()
    enter(outcome, times)
    return outcome


def enter(outcome: Outcome, times: dict[str, list[float]]) -> None:
    """Note medians, least times and spreads; PyTorch's are those of the better of its two forms."""
    compiled = times.pop("torch.compile", None)
    if "torch" in times:
        outcome.torch_form = outcome.torch_form or "eager"
        if compiled and statistics.median(compiled) < statistics.median(times["torch"]):
            times["torch"], outcome.torch_form = compiled, "compile"
    outcome.times = {name: statistics.median(values) for name, values in times.items()}
    outcome.least = {name: min(values) for name, values in times.items()}
    outcome.spread = {name: quartile_spread(values) for name, values in times.items()}
