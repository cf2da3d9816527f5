"""The harness survives what goes wrong; records, tables and the report hold what they should."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from benchmarks.compile_time import Entry, quotients
from benchmarks.dispatch import Cost
from benchmarks.harness import Outcome, Plan, difference, run_row, take_turns
from benchmarks.machine import Machine
from benchmarks.row import Case, Row

import numpy as np
from benchmarks import goals, libraries, report, table

PLAN = Plan(repeats=2, rounds=1, pause=0.0, torch_compile=False)
MACHINE = Machine(
    cpu="a processor",
    cores=2,
    threads=2,
    vector_bits=256,
    memory_gib=8.0,
    system="Linux",
    python="3.11",
    fma_f32=1e11,
    fma_f64=5e10,
    copy_bytes=1e10,
)


def double(**changes: Any) -> Row:
    """A row of one operation, and what else is to be set."""
    case = Case(
        program=lambda lib: lambda x: 2 * x,
        inputs=(np.arange(4, dtype=np.float32),),
        numpy=lambda x: 2 * x,
        bytes=32.0,
    )
    return Row("double", "elementwise", lambda: replace(case, **changes))


def outcome(**changes: Any) -> Outcome:
    """The outcome of that row beside NumPy."""
    return run_row(double(**changes), libraries.load_all(("numpy",)), MACHINE, PLAN)


def test_a_row_is_timed_in_every_library():
    found = outcome()
    assert set(found.times) == {"tetrax", "numpy"}
    assert (
        found.ratio("numpy")
        == found.ratio("best")
        == pytest.approx(found.times["tetrax"] / found.times["numpy"])
    )
    assert (found.limit, found.limit_kind) == (32.0 / 1e10, "bytes")


def test_an_error_in_one_library_is_reported_and_the_others_are_timed():
    def fails(lib: Any) -> Any:
        raise ValueError("no such\noperation")

    found = outcome(program=fails)
    assert found.errors == {"tetrax": "ValueError: no such operation"}
    assert set(found.times) == {"numpy"}
    assert "ValueError: no such operation" in table.line(found, ["numpy"])


def test_a_wrong_result_is_an_error():
    found = outcome(numpy=lambda x: 2 * x + 1)
    assert "differs from numpy" in found.errors["tetrax"]
    assert outcome(numpy=lambda x: 2 * x + 1, unchecked="chaotic").errors == {}
    assert "shape (4,), not (1, 4)" in outcome(numpy=lambda x: 2 * x[None]).errors["tetrax"]


def test_a_row_that_cannot_be_built_is_an_error():
    row = Row("broken", "elementwise", lambda size: double().case())  # no size is given
    found = run_row(row, libraries.load_all(("numpy",)), MACHINE, PLAN)
    assert list(found.errors) == ["row"]


def test_state_is_passed_on_from_call_to_call():
    case = double(program=lambda lib: lambda x: (2 * x,), updates=1).case()
    call = libraries.thunk(case, "tetrax", libraries.load("tetrax"))
    call()
    np.testing.assert_array_equal(np.asarray(call()[0]), 4 * case.inputs[0])


def test_differences_are_relative_to_the_largest_element():
    a = np.array([1.0, 100.0, np.nan])
    assert difference(a + np.array([1.0, 0.0, 0.0]), a) == pytest.approx(0.01)
    assert difference(np.array([1, 2]), np.array([1, 3])) == 1.0
    assert difference(np.zeros(2), np.zeros(3)) == np.inf


def test_slow_libraries_are_called_less():
    calls: list[int] = []
    times = take_turns(
        {"slow": lambda: calls.append(1)}, replace(PLAN, seconds=0.0, least=1, repeats=4)
    )
    assert len(times["slow"]) == len(calls) == 1


def rows() -> list[dict[str, Any]]:
    """Records of rows that keep and break the aims, one with an error."""
    good = Outcome("sum_10m", "reductions", {"tetrax": 1e-3, "jax": 2e-3, "numpy": 4e-3})
    bad = Outcome("sort_1m_f32", "order", {"tetrax": 3e-3, "jax": 2e-3, "numpy": 1e-3})
    broken = Outcome("adam_10m", "training", {"jax": 1.0}, {"tetrax": "ValueError: a | b"})
    good.limit, good.limit_kind, good.unchecked = 5e-4, "bytes", "chaotic"
    return [good.record(), bad.record(), broken.record()]


def record() -> dict[str, Any]:
    """All sections of a run."""
    warm = Entry("sum_10m", "first call", numbers={"tetrax": 0.1, "tetrax_warm": 0.05, "jax": 0.4})
    memory = Entry("memory", "special", "bytes", {"tetrax": 2.0**20}, {"jax": "took too long"})
    costs = [Cost("x + 1", "4 us", {"tetrax": 4e-6, "jax": 8e-6})]
    return {
        "rows": rows(),
        "compile": [warm.record(), memory.record()],
        "dispatch": [cost.record() for cost in costs],
        "machine": {**MACHINE.record(), "versions": {"tetrax": "0", "numpy": "2"}},
    }


def test_records_hold_what_readers_expect():
    row = rows()[0]
    assert row["row"] == "sum_10m" and row["family"] == "reductions"
    assert row["tetrax"] == 1e-3 and row["peers"] == {"jax": 2e-3, "numpy": 4e-3}
    assert row["limit"] == 5e-4 and row["limit_kind"] == "bytes" and row["errors"] == {}
    assert json.loads(json.dumps(record())) == record()


def test_the_report_names_ratios_errors_and_rows_over_the_aim():
    text = report.markdown(record())
    assert "| against JAX | 2 | 0.866 (aim 0.40) | 1.50 sort_1m_f32 (aim 1.0) | 1 |" in text
    assert "| adam_10m | tetrax | ValueError: a \\| b |" in text
    assert "| sort_1m_f32 | 1.50 | 3.00 | not known yet |" in text
    assert "| sort_1m_f32 | time to numpy | ≤ 1.1 | 3.00 | no |" in text
    assert "| sum_10m | 1 ms | 500 us | 2 ms | 0.50 | 4 ms | 0.25 |" in text
    assert "`sum_10m` is not compared: chaotic." in text
    assert "| sum_10m | 100 ms | 50 ms | 400 ms | 0.25 | 0.12 |" in text
    assert "| memory | 1.0 MiB | - | - | - |  |" in text
    assert "| x + 1 | 4 us | 8 us | 0.50 | 4 us |" in text
    assert (
        text.index("## Missing") < text.index("## Rows over the aim") < text.index("## Reductions")
    )


def test_a_full_run_is_kept_and_rendered(tmp_path):
    whole = record()
    report.update({name: whole[name] for name in ("rows", "machine")}, tmp_path)
    report.update({name: whole[name] for name in ("dispatch", "machine")}, tmp_path)
    assert "## Cost of a call" in (tmp_path / "report.md").read_text()
    assert "## Reductions" in (tmp_path / "report.md").read_text()
    drawn = (tmp_path / "report.svg").read_bytes()
    assert b"sort_1m_f32" in drawn
    report.render(whole, tmp_path)
    assert (tmp_path / "report.svg").read_bytes() == drawn


def test_figures_of_another_machine_are_dropped(tmp_path):
    whole = record()
    report.update(whole, tmp_path)
    machine = {**whole["machine"], "cpu": "another"}
    report.update({"dispatch": whole["dispatch"], "machine": machine}, tmp_path)
    assert "rows" not in json.loads((tmp_path / "report.json").read_text())


def test_goals_speak_of_existing_figures():
    judged = {(name, goal.figure): value for goal, name, value in goals.judged(rows())}
    assert judged["sort_1m_f32", "time to numpy"] == pytest.approx(3.0)
    assert judged["adam_10m", "share of limit"] is None


def test_quotients_compare_entries():
    entries = [
        Entry("layers_6", "special", numbers={"tetrax": 1.0}),
        Entry("layers_24", "special", numbers={"tetrax": 1.5}),
    ]
    assert quotients(entries)[0].numbers == {"tetrax": 1.5}


def test_durations_have_suitable_units():
    assert [table.duration(s) for s in (2.0, 0.0125, 3e-5, 5e-9, None)] == [
        "2 s",
        "12.5 ms",
        "30 us",
        "5 ns",
        "-",
    ]
