"""The chart of all rows: ratios to JAX and to the best peer on a logarithmic axis."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from benchmarks.goals import Record, ratio

_HEIGHT = 0.17  # inches for a row
_INK, _GRID = "#222222", "#dddddd"
_BARS = (
    ("jax", "#4878a8", 0.19, "time to JAX"),
    ("best", "#e0913a", -0.19, "time to the best peer"),
)
_RANGE = (0.01, 30.0)


def draw(rows: list[Record], path: Path) -> None:
    """Write the chart as SVG, the same bytes for the same figures."""
    gaps = len({row["family"] for row in rows})
    with mpl.rc_context({"svg.hashsalt": "tetrax", "font.size": 7, "svg.fonttype": "none"}):
        figure = Figure(figsize=(8, 1 + _HEIGHT * (len(rows) + 1.5 * gaps)), layout="constrained")
        axes = figure.add_subplot()
        places = _places(rows, axes)
        for peer, colour, shift, label in _BARS:
            _bars(axes, rows, places, peer, colour, shift, label)
        _missing(axes, rows, places)
        _finish(axes, rows, places)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def _places(rows: list[Record], axes: Axes) -> list[float]:
    """Heights of the rows, families set apart and named."""
    places, height = [], 0.0
    for family, members in groupby(rows, key=lambda row: row["family"]):
        height -= 1.5
        axes.text(_RANGE[0] * 1.05, height + 0.75, family, weight="bold", color=_INK, va="center")
        for _ in members:
            places.append(height)
            height -= 1
    return places


def _bars(
    axes: Axes,
    rows: list[Record],
    places: list[float],
    peer: str,
    colour: str,
    shift: float,
    label: str,
) -> None:
    found = [(place, ratio(row, peer)) for place, row in zip(places, rows, strict=True)]
    shown = [(place + shift, value) for place, value in found if value is not None]
    if shown:
        heights, values = zip(*shown, strict=True)
        clipped = [min(max(value, _RANGE[0]), _RANGE[1]) for value in values]
        axes.barh(
            heights,
            [abs(value - 1) for value in clipped],
            height=0.36,
            left=[min(value, 1.0) for value in clipped],
            color=colour,
            label=label,
        )


def _missing(axes: Axes, rows: list[Record], places: list[float]) -> None:
    """Say where Tetrax has no time."""
    for place, row in zip(places, rows, strict=True):
        if row["tetrax"] is None:
            axes.text(1.05, place, "error", va="center", color="#b03030")


def _finish(axes: Axes, rows: list[Record], places: list[float]) -> None:
    axes.set_xscale("log")
    axes.set_xlim(*_RANGE)
    axes.set_ylim(min(places) - 1, 0.5)
    axes.axvline(1.0, color=_INK, linewidth=0.8)
    axes.set_yticks(places, [row["row"] for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labeltop=True)
    axes.xaxis.set_major_locator(FixedLocator([0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30]))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="x", color=_GRID, linewidth=0.5)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel("Tetrax's time to the peer's: bars to the left of 1 where Tetrax is faster")
    axes.legend(loc="upper right", frameon=False)
