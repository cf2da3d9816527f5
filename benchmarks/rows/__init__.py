"""Every row, by family, and how rows are chosen by name, family or pattern."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

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


class Named(Protocol):
    """What can be chosen: rows, and what else is measured."""

    @property
    def name(self) -> str:
        """Its own name."""
        ...

    @property
    def family(self) -> str:
        """The name of its group."""
        ...


Item = TypeVar("Item", bound=Named)


def select(patterns: str, items: tuple[Item, ...]) -> tuple[Item, ...]:
    """The items that comma-separated names, families or shell-style patterns choose; all for ""."""
    wanted = [pattern for pattern in patterns.split(",") if pattern]
    if not wanted:
        return items
    unknown = [p for p in wanted if not any(_chosen(item, p) for item in items)]
    if unknown:
        families = ", ".join(dict.fromkeys(item.family for item in items))
        raise SystemExit(f"no row is called {', '.join(unknown)}; the families are {families}")
    return tuple(item for item in items if any(_chosen(item, pattern) for pattern in wanted))


def _chosen(item: Named, pattern: str) -> bool:
    return item.family == pattern or fnmatchcase(item.name, pattern)
