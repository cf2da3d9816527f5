"""The memory plan: every temporary gets an offset in one arena, by lifetime.

Time is counted over all steps in program order, nested ones included. A temporary that a nested
step list uses and that was made outside lives until the loop or branch ends, as loops come round.
One that a loop fills slice by slice lives from the loop's start: what its second turn computes must
not overwrite the slice of the first.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from tetrax.compiler.steps import (
    LoopStep,
    SliceSlot,
    Step,
    TempSlot,
    nested,
    slots_of,
    temporaries,
)

ALIGNMENT = 64


@dataclass
class _Lifetime:
    slot: TempSlot
    first: int
    last: int


def plan_arena(steps: Sequence[Step]) -> int:
    """Set the offsets of all temporaries; returns the size of the arena in bytes."""
    lifetimes: dict[TempSlot, _Lifetime] = {}
    _visit(steps, 0, lifetimes)
    return _assign(sorted(lifetimes.values(), key=lambda life: life.first))


def _visit(steps: Sequence[Step], clock: int, lifetimes: dict[TempSlot, _Lifetime]) -> int:
    for step in steps:
        start = clock
        known = set(lifetimes) if nested(step) else set()
        used = [t for slot in slots_of(step) for t in temporaries(slot)]
        if isinstance(step, LoopStep):
            used += _stacked(step, step.body)
        _touch(lifetimes, used, start)
        clock += 1
        inner: set[TempSlot] = set()
        for inner_steps in nested(step):
            clock = _visit(inner_steps, clock, lifetimes)
            inner.update(_all_temporaries(inner_steps))
        _touch(lifetimes, [*used, *(inner & known)], clock)
        clock += 1
    return clock


def _stacked(loop: LoopStep, steps: Sequence[Step]) -> list[TempSlot]:
    """The temporaries of which the steps use one slice in each turn of `loop`."""
    found = []
    for step in steps:
        for slot in slots_of(step):
            while isinstance(slot, SliceSlot):
                if slot.loop is loop:
                    found += temporaries(slot.base)
                slot = slot.base
        for inner in nested(step):
            found += _stacked(loop, inner)
    return found


def _all_temporaries(steps: Sequence[Step]) -> set[TempSlot]:
    found = {t for step in steps for slot in slots_of(step) for t in temporaries(slot)}
    for step in steps:
        for inner in nested(step):
            found |= _all_temporaries(inner)
    return found


def _touch(lifetimes: dict[TempSlot, _Lifetime], slots: Sequence[TempSlot], time: int) -> None:
    for slot in slots:
        life = lifetimes.setdefault(slot, _Lifetime(slot, time, time))
        life.last = max(life.last, time)


def _assign(lifetimes: Sequence[_Lifetime]) -> int:
    """First fit: walk in order of birth, each block goes to the first gap that takes it."""
    gaps = _Gaps()
    ends: list[tuple[int, int, int]] = []  # a heap of (last use, offset, end)
    total = 0
    for life in lifetimes:
        while ends and ends[0][0] < life.first:
            gaps.give(*heappop(ends)[1:])
        size = -(-max(life.slot.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        life.slot.offset = offset = gaps.take(size)
        heappush(ends, (life.last, offset, offset + size))
        total = max(total, offset + size)
    return total


class _Gaps:
    """The free ranges of an arena that may grow, in order, no two of them adjacent."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = [(0, sys.maxsize)]

    def take(self, size: int) -> int:
        """The start of the first range of that size."""
        for i, (start, end) in enumerate(self._ranges):
            if end - start >= size:
                self._ranges[i : i + 1] = [] if end - start == size else [(start + size, end)]
                return start
        raise MemoryError(f"no arena is large enough for {size} bytes more")

    def give(self, start: int, end: int) -> None:
        """Take a range back."""
        i = bisect_left(self._ranges, (start, end))
        first = last = i
        if i < len(self._ranges) and self._ranges[i][0] == end:
            end, last = self._ranges[i][1], i + 1
        if i and self._ranges[i - 1][1] == start:
            start, first = self._ranges[i - 1][0], i - 1
        self._ranges[first:last] = [(start, end)]
