"""Single figures that show whether the design works, read off the measured rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Goal:
    """A figure of every row that a pattern chooses: the number's name, and the bound it is to keep
    (an upper bound, or a lower one where `at_least`).
    """

    rows: str
    figure: str
    bound: float
    at_least: bool = False

    def kept(self, value: float) -> bool:
        """Whether a figure keeps the bound."""
        return value >= self.bound if self.at_least else value <= self.bound


GOALS = (
    Goal("gelu_10m", "time to jax", 0.30),
    Goal("sort_1m_*", "time to numpy", 1.1),
    Goal("cumsum_10m", "time to numpy", 0.3),
    Goal("scatter_add_*", "time to best peer", 0.5),
    Goal("matmul_512_*", "share of limit", 0.85, at_least=True),
    Goal("matmul_1000_f*", "share of limit", 0.85, at_least=True),
    Goal("matmul_1536_f*", "share of limit", 0.85, at_least=True),
    Goal("matmul_2000_f*", "share of limit", 0.85, at_least=True),
    Goal("matmul_*_f32", "time to numpy", 1.0),
    Goal("matmul_*_f64", "time to numpy", 1.0),
    Goal("conv*_forward", "time to torch", 0.95),
    Goal("conv*_gradient", "time to torch", 0.95),
    Goal("transformer_step", "time to torch", 0.85),
    Goal("transformer_step", "share of limit", 0.60, at_least=True),
    Goal("lorenz_100k", "nanoseconds a step", 5.0),
    Goal("adam_10m", "share of limit", 0.9, at_least=True),
    Goal("matmul_*_bf16", "time to the float32 row", 1.5),
    Goal("cartpole_1024x1000", "speed to a plain simulator", 300.0, at_least=True),
)


def best_peer(row: Record) -> float | None:
    """The fastest peer's time."""
    return min(row["peers"].values(), default=None)


def ratio(row: Record, peer: str) -> float | None:
    """Tetrax's time to a peer's, "best" being the fastest; None where either is missing."""
    other = best_peer(row) if peer == "best" else row["peers"].get(peer)
    return row["tetrax"] / other if row["tetrax"] and other else None


def _share_of_limit(row: Record, _: Mapping[str, Record]) -> float | None:
    return row["limit"] / row["tetrax"] if row["limit"] and row["tetrax"] else None


def _to_float32(row: Record, by_name: Mapping[str, Record]) -> float | None:
    other = by_name.get(row["row"].replace("bf16", "f32"), {}).get("tetrax")
    return row["tetrax"] / other if row["tetrax"] and other else None


def _speed_to_plain(row: Record, _: Mapping[str, Record]) -> float | None:
    plain = row.get("plain")
    return plain / row["tetrax"] if plain and row["tetrax"] else None


_FIGURES: dict[str, Callable[[Record, Mapping[str, Record]], float | None]] = {
    "time to jax": lambda row, _: ratio(row, "jax"),
    "time to numpy": lambda row, _: ratio(row, "numpy"),
    "time to torch": lambda row, _: ratio(row, "torch"),
    "time to best peer": lambda row, _: ratio(row, "best"),
    "share of limit": _share_of_limit,
    "nanoseconds a step": lambda row, _: row["tetrax"] and row["tetrax"] * 1e9 / 100_000,
    "time to the float32 row": _to_float32,
    "speed to a plain simulator": _speed_to_plain,
}


def judged(rows: Sequence[Record]) -> Iterator[tuple[Goal, str, float | None]]:
    """Every goal with each row that it speaks of, and the figure found."""
    by_name = {row["row"]: row for row in rows}
    for goal in GOALS:
        for name, row in by_name.items():
            if fnmatchcase(name, goal.rows):
                yield goal, name, _FIGURES[goal.figure](row, by_name)
