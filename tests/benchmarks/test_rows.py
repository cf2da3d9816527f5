"""Every row builds and computes the same in Tetrax and in its peers, at a tiny size."""

from __future__ import annotations

from types import ModuleType

import pytest
from benchmarks.child import JOBS
from benchmarks.compile_time import measurements
from benchmarks.harness import Outcome, compare_all, first_results
from benchmarks.row import Row
from benchmarks.rows import ROWS, select

from benchmarks import libraries

torch = libraries.load("torch")  # not a test dependency: its variants are tested where it is there


def modules_of(row: Row) -> dict[str, ModuleType]:
    """Tetrax and one judge, which keeps the tests quick: NumPy where the row has it, else JAX."""
    judge = "numpy" if libraries.takes(row.case(tiny=True), "numpy") else "jax"
    return libraries.load_all((judge,) if torch is None else (judge, "torch"))


def test_names_are_unique():
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_libraries_agree(row: Row):
    case, outcome, modules = row.case(tiny=True), Outcome(row.name, row.family), modules_of(row)
    with libraries.precision(modules, case.x64):
        _, results = first_results(outcome, case, modules)
        assert not outcome.errors
        assert not compare_all(case, results)


def test_rows_are_chosen_by_name_family_and_pattern():
    assert [row.name for row in select("sum_10m,axpy_10m", ROWS)] == ["axpy_10m", "sum_10m"]
    assert {row.family for row in select("fft", ROWS)} == {"fft"}
    assert all(row.name.startswith("sort") for row in select("sort*", ROWS))
    assert select("", ROWS) == ROWS
    with pytest.raises(SystemExit, match="no row is called nothing"):
        select("nothing", ROWS)


def test_first_calls_include_every_row_and_what_is_no_row():
    jobs = measurements(ROWS)
    assert {row.name for row in ROWS} < {job.name for job in jobs}
    assert {job.job for job in jobs} <= set(JOBS)
    assert "memory_adam_10m" in [job.name for job in select("memory", jobs)]
