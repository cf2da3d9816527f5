"""Every row, by family, and how rows are chosen by name, family or pattern."""

from __future__ import annotations

from fnmatch import fnmatchcase

from benchmarks.row import Row
from benchmarks.rows import (
    contract,
    control,
    convolution,
    derivatives,
    elementwise,
    fft,
    linalg,
    molecules,
    movement,
    order,
    random,
    reductions,
    simulation,
    training,
)

ROWS: tuple[Row, ...] = (
    *elementwise.ROWS,
    *reductions.ROWS,
    *movement.ROWS,
    *order.ROWS,
    *random.ROWS,
    *contract.ROWS,
    *convolution.ROWS,
    *linalg.ROWS,
    *fft.ROWS,
    *control.ROWS,
    *molecules.ROWS,
    *derivatives.ROWS,
    *simulation.ROWS,
    *training.ROWS,
)


def select(patterns: str) -> tuple[Row, ...]:
    """The rows that comma-separated names, families or shell-style patterns choose; all for ""."""
    wanted = [pattern for pattern in patterns.split(",") if pattern]
    if not wanted:
        return ROWS
    unknown = [p for p in wanted if not any(_chosen(row, p) for row in ROWS)]
    if unknown:
        families = ", ".join(dict.fromkeys(row.family for row in ROWS))
        raise SystemExit(f"no row is called {', '.join(unknown)}; the families are {families}")
    return tuple(row for row in ROWS if any(_chosen(row, pattern) for pattern in wanted))


def _chosen(row: Row, pattern: str) -> bool:
    return row.family == pattern or fnmatchcase(row.name, pattern)
