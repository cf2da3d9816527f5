"""How a transform of n numbers is cut into passes, and the tables of roots of unity it needs.

Tables are made once, in double precision, and rounded. The way is chosen by sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

CELL_BYTES = 64
"""Numbers are transformed in cells of so many bytes (see `compiler/cpu/library/fft_text.py`)."""
MOST_IN_LINE_BYTES = 1 << 17
"""Longer lines are split, so that each part stays in a cache."""
MOST_IN_ROWS = 2048
"""So are numbers of this many and more, W lines at a time."""
FEW_ROWS, LEAST_SPLIT = 4, 64
"""Where most lanes would be empty, from so many numbers on one line is split."""
BUTTERFLIES = (2, 3, 4, 5, 7, 8, 11, 13)
"""Passes with code of their own; those of other odd numbers have roots of unity in the table."""
MOST_ODD, _RADIX_BITS = 127, 7
_MOST_PASSES = 64 // _RADIX_BITS
MOST_BLOCKS, LEAST_STRIPS = 4, 8
"""Blocks of columns that are read and written together, where so many strips remain,"""
MOST_STRIP_BYTES = 1 << 21
"""and their panels take no more than this."""
MOST_IN_COLUMN = 1 << 14
"""Longer columns are moved, to become lines."""
_ODD = tuple(p for p in range(MOST_ODD, 2, -2) if all(p % d for d in range(3, 12, 2) if d < p))


def lanes_of(dtype: np.dtype) -> int:
    """The complex numbers in a cell; `dtype` is complex or that of the parts."""
    return CELL_BYTES // (dtype.itemsize if dtype.kind == "c" else 2 * dtype.itemsize)


def lane_order(lanes: int) -> tuple[int, ...]:
    """Which of neighbouring numbers each lane holds."""
    return (0, 1, 4, 5, 2, 3, 6, 7) if lanes == 8 else (0, 2, 1, 3)


@lru_cache(maxsize=1024)
def radices_of(n: int) -> tuple[int, ...] | None:
    """The numbers of the passes, first to last; None where n has a larger prime factor.

    Passes of 8 and 4 stand at the ends: they can read and write memory themselves.
    """
    odd = []
    for prime in _ODD:
        while n % prime == 0:
            odd.append(prime)
            n //= prime
    twos = n.bit_length() - 1
    if n != 1 << twos:
        return None
    even = [8] * (twos // 3)
    if twos % 3 == 2:
        even.append(4)
    elif twos % 3 == 1:
        even[-1:] = [4, 4] if even else [2]
    while len(odd) + len(even) > _MOST_PASSES and odd[-2:] == [3, 3]:
        odd[-2:] = []
        odd.insert(0, 9)
    found = (*even[:1], *odd, *even[1:])
    return found if len(found) <= _MOST_PASSES else None


def code_of(radices: Sequence[int]) -> int:
    """Passes as the routines want them."""
    return sum(radix << _RADIX_BITS * at for at, radix in enumerate(radices))


@dataclass(frozen=True)
class Plan:
    """The way for lines of n numbers.

    kind 'rows': a line in each lane. 'line': W columns of the line in lanes, one pass, then their
    results. 'split': n = n1 n2, the columns of n1 in lanes, then those of n2.
    """

    kind: str
    n: int
    lanes: int
    first: int = 1  # n1 of 'split', W of 'line'

    @property
    def second(self) -> int:
        """The numbers of what is left."""
        return self.n // self.first

    @property
    def group(self) -> int:
        """Lines that one call does."""
        return self.lanes if self.kind == "rows" else 1


def plan_of(n: int, count: int, dtype: np.dtype) -> Plan:
    """The way for `count` lines of n numbers; n has small factors only."""
    lanes = lanes_of(dtype)
    bytes_per = CELL_BYTES // lanes
    if n % lanes == 0 and n >= lanes * lanes and n * bytes_per <= MOST_IN_LINE_BYTES:
        return Plan("line", n, lanes, lanes)
    first = _near_root(n)
    few = count < FEW_ROWS and n >= LEAST_SPLIT
    if first > 1 and (few or n > MOST_IN_ROWS):
        return Plan("split", n, lanes, first)
    return Plan("rows", n, lanes)


def strip_of(columns: int, n: int, lanes: int) -> int:
    """How many neighbouring columns of n are done at once: several blocks of W where there are
    many.
    """
    fitting = MOST_STRIP_BYTES // (2 * CELL_BYTES * n)
    return lanes * max(1, min(MOST_BLOCKS, columns // lanes // LEAST_STRIPS, fitting))


def has_columns(shape: Sequence[int], axes: Sequence[int]) -> bool:
    """Whether an array can be transformed where it stands: lines of any length, columns up to one,
    and no large prime factors.
    """
    last = len(shape) - 1
    return all(
        radices_of(shape[axis]) is not None and (axis == last or shape[axis] <= MOST_IN_COLUMN)
        for axis in axes
    )


def _near_root(n: int) -> int:
    """The largest divisor that is not above the square root."""
    return next(d for d in range(math.isqrt(n), 0, -1) if n % d == 0)


def _rounded_up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


# --- tables ---


def roots(n: int, powers: np.ndarray) -> np.ndarray:
    """exp(-2 pi i p / n): of the angle's part below an eighth of a turn, so that small errors of
    large angles do not come in.
    """
    eighths, rest = np.divmod(8 * (powers % n), n)
    # an odd eighth counts back from the next even one
    back = eighths % 2 == 1
    angle = 2 * np.pi / 8 * (np.where(back, n - rest, rest) / n)
    x, y = np.cos(angle), np.sin(angle)
    quarter = (eighths + 1) // 2 % 4
    y = np.where(back, -y, y)
    re = np.choose(quarter, [x, -y, -x, y])
    im = np.choose(quarter, [y, x, -y, -x])
    return re - 1j * im


def panel_table(radices: Sequence[int]) -> np.ndarray:
    """Twiddles of all passes over a panel."""
    left, parts = math.prod(radices), []
    for radix in radices:
        m = left // radix
        if radix not in BUTTERFLIES:
            parts.append(roots(radix, np.arange(radix)))
        powers = np.outer(np.arange(1, m), np.arange(1, radix))
        parts.append(roots(left, powers).ravel())
        left = m
    return np.concatenate(parts) if parts else np.zeros(0, complex)


def _cells(values: np.ndarray) -> np.ndarray:
    """Numbers along the last axis, one per lane, with parts apart: as what complex numbers would
    have as parts if they alternated.
    """
    return np.concatenate([np.real(values), np.imag(values)], -1).ravel().view(complex)


def front_table(n: int, lanes: int) -> np.ndarray:
    """Twiddles of the first pass of a line."""
    m = n // lanes
    starts = np.minimum(np.arange(0, m, lanes), m - lanes)
    columns = starts[:, None, None] + np.asarray(lane_order(lanes))
    return _cells(roots(n, columns * np.arange(1, lanes)[:, None]))


def lane_table(plan: Plan) -> np.ndarray:
    """The part of the twiddles between the halves of a split that depends on the lane."""
    rows = np.arange(_rounded_up(plan.first, plan.lanes))
    return _cells(roots(plan.n, rows[:, None] * np.asarray(lane_order(plan.lanes))))


def block_table(plan: Plan) -> np.ndarray:
    """The part that depends on the block of lanes; a row for each."""
    rows = np.arange(_rounded_up(plan.first, plan.lanes))
    blocks = np.arange(0, plan.second, plan.lanes)
    return roots(plan.n, blocks[:, None] * rows).ravel()


@dataclass(frozen=True)
class Transform:
    """A transform of the last axes of an array with `lines` lines of n numbers along the last one;
    `extents` are (before, n, behind) of the other axes, last to first.

    A real one has spectra of half the length, and is of an even number, or through lines of complex
    numbers of full length.
    """

    lines: int
    n: int
    extents: tuple[tuple[int, int, int], ...]
    inverse: bool
    real: bool
    dtype: np.dtype  # of the parts

    @classmethod
    def of(
        cls,
        spectrum: Sequence[int],
        axes: Sequence[int],
        length: int,
        inverse: bool,
        real: bool,
        dtype: Any,
    ) -> Transform:
        """A transform of `axes`; `spectrum` is the shape of what is, or is made to be, complex, and
        `length` that of the last axis.
        """
        last = len(spectrum) - 1
        extents = []
        for axis in sorted(axes, reverse=True):
            outer, inner = math.prod(spectrum[:axis]), math.prod(spectrum[axis + 1 :])
            if axis != last and spectrum[axis] > 1:
                extents.append((outer, spectrum[axis], inner))
        lines, n = math.prod(spectrum[:-1]), length
        if last not in axes:
            lines, n = math.prod(spectrum), 1
        return cls(lines, n, tuple(extents), inverse, real, np.dtype(dtype))

    @property
    def has_lines(self) -> bool:
        """Whether there is something to do along the last axis."""
        return self.real or self.n > 1 or not self.extents

    @property
    def halves(self) -> bool:
        """Whether real numbers are taken two by two."""
        return self.real and self.n % 2 == 0

    @property
    def plan(self) -> Plan:
        """The way for lines along the last axis."""
        return plan_of(self.n // 2 if self.halves else self.n, self.lines, self.dtype)

    def table(self) -> np.ndarray:
        """All tables: those of lines, of the step to real numbers, of columns; scalars."""
        parts = _tables(self.plan)
        if self.halves:
            factor = 1.0 if self.inverse else 0.5
            parts.append(factor * roots(self.n, np.arange(self.n // 2 + 1)))
        parts += [panel_table(_smooth(n)) for _, n, _ in self.extents]
        return np.concatenate(parts).view(np.float64).astype(self.dtype)


def _tables(plan: Plan) -> list[np.ndarray]:
    """What a plan needs, in the order in which calls are given it."""
    if plan.kind == "rows":
        return [panel_table(_smooth(plan.n))]
    if plan.kind == "line":
        both = [front_table(plan.n, plan.lanes), panel_table(_smooth(plan.second))]
        return [np.concatenate(both)]
    return [
        panel_table(_smooth(plan.first)),
        lane_table(plan),
        block_table(plan),
        panel_table(_smooth(plan.second)),
    ]


def table_sizes(plan: Plan) -> list[int]:
    """How many numbers each of these tables has."""
    if plan.kind == "rows":
        return [_panel_size(_smooth(plan.n))]
    if plan.kind == "line":
        blocks = -(-plan.second // plan.lanes)
        return [blocks * plan.lanes * (plan.lanes - 1) + _panel_size(_smooth(plan.second))]
    rows = _rounded_up(plan.first, plan.lanes)
    blocks = -(-plan.second // plan.lanes)
    return [
        _panel_size(_smooth(plan.first)),
        rows * plan.lanes,
        rows * blocks,
        _panel_size(_smooth(plan.second)),
    ]


def _panel_size(radices: Sequence[int]) -> int:
    left, total = math.prod(radices), 0
    for radix in radices:
        left //= radix
        total += (left - 1) * (radix - 1) + (0 if radix in BUTTERFLIES else radix)
    return total


def passes_of(n: int) -> tuple[int, int, int]:
    """All passes but the last, the last, and where its table begins, in scalars."""
    *before, last = _smooth(n) or (0,)
    if last in (0, *BUTTERFLIES):
        return code_of(before), last, 0
    return code_of(before), last, 2 * (_panel_size((*before, last)) - last)


def column_table_size(n: int) -> int:
    """How many numbers the table of columns of n has."""
    return _panel_size(_smooth(n))


def _smooth(n: int) -> tuple[int, ...]:
    radices = radices_of(n)
    assert radices is not None
    return radices
