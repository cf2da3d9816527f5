"""The report of full runs: `report.md` and `report.svg` from the figures kept in `report.json`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.causes import CAUSES
from benchmarks.chart import draw
from benchmarks.goals import Record, judged, ratio
from benchmarks.table import duration

FOLDER = Path(__file__).resolve().parent
# (peer, geometric mean aimed at, worst row aimed at)
TARGETS = (("jax", 0.40, 1.0), ("best", 0.75, 1.1))
_NAMES = {"jax": "JAX", "torch": "PyTorch", "numpy": "NumPy", "best": "the best peer"}


def update(sections: Mapping[str, Any], folder: Path = FOLDER) -> None:
    """Keep the sections of a full run, those of earlier runs on the same machine beside them, and
    render all.
    """
    kept = folder / "report.json"
    record: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    if record.get("machine", {}).get("cpu") != sections["machine"]["cpu"]:
        record = {}
    record.update(sections)
    kept.write_text(json.dumps(record, indent=1) + "\n")
    render(record, folder)


def render(record: Mapping[str, Any], folder: Path = FOLDER) -> None:
    """Write the report and its chart."""
    (folder / "report.md").write_text(markdown(record))
    if record.get("rows"):
        draw(record["rows"], folder / "report.svg")


def markdown(record: Mapping[str, Any]) -> str:
    """The whole report."""
    parts = ["# Measurements\n", _machine(record["machine"])]
    if record.get("rows"):
        parts += [
            _summary(record["rows"]),
            _errors(record["rows"]),
            _short_of_target(record["rows"]),
            _goals(record["rows"]),
            _families(record["rows"]),
        ]
    if record.get("compile"):
        parts.append(_compile(record["compile"]))
    if record.get("dispatch"):
        parts.append(_dispatch(record["dispatch"]))
    if record.get("devices"):
        parts.append(_devices(record["devices"]))
    return "\n".join(part for part in parts if part)


_TEXT = {"", "row", "call", "library", "error", "cause", "figure", "aim", "kept"}


def table(header: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """A Markdown table: words to the left, numbers to the right."""
    names = list(header)
    rule = ["---" if name in _TEXT else "---:" for name in names]
    return "\n".join("| " + " | ".join(line) + " |" for line in [names, rule, *lines]) + "\n"


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean, NaN of nothing."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value >= 0.095 else f"{value:.3f}"


def _ratios(rows: list[Record], peer: str) -> dict[str, float]:
    found = {row["row"]: ratio(row, peer) for row in rows}
    return {name: value for name, value in found.items() if value is not None}


# --------------------------------------------------------------------------- sections


def _machine(machine: Record) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    missing = "" if "torch" in machine["versions"] else " PyTorch was not installed."
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads for every "
        f"library, {machine['memory_gib']} GiB, {machine['system']}, Python {machine['python']}. "
        f"{versions}.{missing}\n\n"
        f"Measured in the same run: multiply-adds {machine['fma_f32'] / 1e9:.0f} GFLOP/s in "
        f"float32 and {machine['fma_f64'] / 1e9:.0f} in float64, copies "
        f"{machine['copy_bytes'] / 1e9:.1f} GB/s (bytes read and bytes written). A row's limit is "
        "its arithmetic or its memory traffic at these speeds.\n\n"
        "Ratios are Tetrax's time to the other's: below 1, Tetrax is faster. All libraries ran in "
        "one process, in turns, warmed up; times are medians. JAX's programs are jitted, "
        f"PyTorch's are {_torch_form(machine)}. Results were compared first.\n"
    )


def _torch_form(machine: Mapping[str, Any]) -> str:
    if machine.get("quick"):
        return (
            "eager: this was a run of few repeats (`--quick`) on a machine with other work, and "
            "leaves `torch.compile` out"
        )
    return "the better of eager and `torch.compile`"


def _summary(rows: list[Record]) -> str:
    lines = []
    for peer, aimed, worst_aimed in TARGETS:
        found = _ratios(rows, peer)
        if found:
            worst = max(found, key=lambda name: found[name])
            mean = geometric_mean(found.values())
            over = sum(value > worst_aimed for value in found.values())
            lines.append(
                [
                    f"against {_NAMES[peer]}",
                    str(len(found)),
                    f"{mean:.3f} (aim {aimed:.2f})",
                    f"{found[worst]:.2f} {worst} (aim {worst_aimed:.1f})",
                    str(over),
                ]
            )
    header = ("", "rows", "geometric mean", "worst row", "rows over the aim")
    return "![ratios of all rows](report.svg)\n\n" + table(header, lines)


def _errors(rows: list[Record]) -> str:
    lines = [
        [row["row"], library, text.replace("|", "\\|")]
        for row in rows
        for library, text in row["errors"].items()
    ]
    if not lines:
        return ""
    return "## Missing\n\n" + table(("row", "library", "error"), lines)


def _short_of_target(rows: list[Record]) -> str:
    lines = []
    for row in rows:
        found = {peer: ratio(row, peer) for peer, _, _ in TARGETS}
        if any((found[peer] or 0) > worst for peer, _, worst in TARGETS):
            cause = CAUSES.get(row["row"], "not known yet")
            lines.append([row["row"], _number(found["jax"]), _number(found["best"]), cause])
    if not lines:
        return ""
    header = ("row", "to JAX", "to the best peer", "cause")
    return "## Rows over the aim\n\n" + table(header, lines)


def _goals(rows: list[Record]) -> str:
    lines = [
        [
            name,
            goal.figure,
            f"{'≥' if goal.at_least else '≤'} {goal.bound:g}",
            _number(value),
            "-" if value is None else "yes" if goal.kept(value) else "no",
        ]
        for goal, name, value in judged(rows)
    ]
    return "## Single aims\n\n" + table(("row", "figure", "aim", "measured", "kept"), lines)


def _families(rows: list[Record]) -> str:
    parts = []
    for family, members in groupby(rows, key=lambda row: row["family"]):
        parts.append(f"## {family.capitalize()}\n\n" + _family(list(members)))
    return "\n".join(parts)


def _family(rows: list[Record]) -> str:
    peers = [name for name in _NAMES if any(name in row["peers"] for row in rows)]
    header = ["row", "Tetrax", "limit"]
    for peer in peers:
        header += [_NAMES[peer], "ratio"]
    lines = [_family_line(row, peers) for row in rows]
    means = [_number_or_dash(geometric_mean(_ratios(rows, peer).values())) for peer in peers]
    summary = ["geometric mean", "", ""]
    for mean in means:
        summary += ["", mean]
    notes = [
        f"- `{row['row']}` is not compared: {row['unchecked']}." for row in rows if row["unchecked"]
    ]
    return table(header, [*lines, summary]) + ("\n" + "\n".join(notes) + "\n" if notes else "")


def _number_or_dash(value: float) -> str:
    return "-" if math.isnan(value) else _number(value)


def _family_line(row: Record, peers: list[str]) -> list[str]:
    line = [row["row"], duration(row["tetrax"]), duration(row["limit"])]
    for peer in peers:
        compiled = peer == "torch" and row["torch_form"] == "compile"
        line += [
            duration(row["peers"].get(peer)) + (" (compiled)" if compiled else ""),
            _number(ratio(row, peer)),
        ]
    return line


def _compile(entries: list[Record]) -> str:
    rows = [entry for entry in entries if entry["kind"] == "first call"]
    lines, colds, warms = [], [], []
    for entry in rows:
        cold, warm, jax = (entry.get(name) for name in ("tetrax", "tetrax_warm", "jax"))
        cold_ratio = cold / jax if cold and jax else None
        warm_ratio = warm / jax if warm and jax else None
        colds += [cold_ratio] if cold_ratio else []
        warms += [warm_ratio] if warm_ratio else []
        lines.append(
            [
                *(entry["row"], duration(cold), duration(warm), duration(jax)),
                *(_number(cold_ratio), _number(warm_ratio)),
            ]
        )
    text = "## First results\n\nTrace, compile and run, in fresh processes.\n\n"
    if colds:
        text += (
            f"Geometric mean {geometric_mean(colds):.3f} with an empty cache (aim 0.35), worst row "
            f"{max(colds):.2f} (aim 0.5); with a warm cache {geometric_mean(warms):.3f} (aim 0.25)."
            "\n\n"
        )
    header = ("row", "empty cache", "warm cache", "JAX", "ratio", "ratio, warm")
    return text + table(header, lines) + "\n" + _special(entries) + "\n" + _failures(entries)


def _special(entries: list[Record]) -> str:
    lines = []
    for entry in entries:
        if entry["kind"] != "first call":
            values = [entry.get(name) for name in ("tetrax", "tetrax_warm", "jax", "torch")]
            lines.append(
                [entry["row"], *(quantity(v, entry["unit"]) for v in values), entry["target"]]
            )
    header = ("", "Tetrax", "Tetrax, warm", "JAX", "PyTorch", "aim")
    return table(header, lines) if lines else ""


def _failures(entries: list[Record]) -> str:
    lines = [
        [entry["row"], library, text.replace("|", "\\|")]
        for entry in entries
        for library, text in entry["errors"].items()
    ]
    return table(("row", "library", "error"), lines) if lines else ""


def quantity(value: float | None, unit: str) -> str:
    """A number in its unit."""
    if value is None:
        return "-"
    if unit == "seconds":
        return duration(value)
    return f"{value / 2**20:.1f} MiB" if unit == "bytes" else f"{value:.2f}"


def _devices(costs: list[Record]) -> str:
    """Programs of several virtual devices; beside them one device with all threads, and the limit
    of the memory, where these are measured."""
    lines = []
    for cost in costs:
        mine, theirs, one = (cost.get(n) for n in ("tetrax", "jax", "tetrax on one device"))
        lines.append(
            [
                cost["name"],
                duration(mine),
                duration(theirs),
                _number(mine / theirs if mine and theirs else None),
                _number(mine / one if mine and one else None),
                duration(cost.get("limit")),
                cost["target"],
            ]
        )
    header = ("row", "Tetrax", "JAX", "ratio", "to one device", "limit", "aim")
    return "## Several devices\n\n" + table(header, lines)


def _dispatch(costs: list[Record]) -> str:
    lines = []
    for cost in costs:
        mine, theirs = cost.get("tetrax"), cost.get("jax")
        quotient = mine / theirs if mine and theirs else None
        lines.append(
            [cost["name"], duration(mine), duration(theirs), _number(quotient), cost["target"]]
        )
    return "## Cost of a call\n\n" + table(("call", "Tetrax", "JAX", "ratio", "aim"), lines)
