"""Sums over devices joined to buckets, and begun while the work goes on.

The gradients of a training step come one after another, each to be summed over devices. Sums of one
kind are collected until there are enough bytes to pay for a meeting. A bucket whose results are not
used at once is reduced by the devices' shadows meanwhile, and awaited where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tetrax.compiler.device_groups import Meetings
from tetrax.compiler.steps import (
    AwaitStep,
    BeginStep,
    Bucket,
    CarrySlot,
    ExchangeStep,
    KernelStep,
    LoopStep,
    ReduceStep,
    SliceSlot,
    Slot,
    Step,
    TempSlot,
    nested,
    slots_of,
)
from tetrax.ir.kernel_types import type_named

BUCKET_BYTES = 4 << 20
"""A bucket of so many bytes is reduced without waiting for more."""


def overlap_sums(
    steps: Sequence[Step], meetings: Meetings, early: Callable[[int], bool]
) -> list[Step]:
    """The steps with their sums in buckets.

    `early` says for a partition whether shadows do them.
    """
    collected = _Collector().run(steps)
    return _begun(collected, meetings, early)


class _Collector:
    """Goes over the steps once and collects sums that nobody needs yet."""

    def __init__(self) -> None:
        self.out: list[Step] = []
        self.open: dict[tuple[str, int], Bucket] = {}

    def run(self, steps: Sequence[Step]) -> list[Step]:
        for step in steps:
            if isinstance(step, ExchangeStep) and "_all_reduce_" in step.routine:
                self._add(step)
                continue
            touched = touched_slots(step)
            for bucket in list(self.open.values()):
                if touched & _slots(bucket):
                    self._close(bucket)
            self.out.append(step)
        for bucket in list(self.open.values()):
            self._close(bucket)
        return self.out

    def _add(self, step: ExchangeStep) -> None:
        mine = {_base(step.source), _base(step.destination)}
        for bucket in list(self.open.values()):
            # The operand may be a sum that is collected, or its memory that of one.
            if mine & _slots(bucket):
                self._close(bucket)
        key = (step.routine, step.partition)
        bucket = self.open.get(key)
        if bucket is None:
            routine = step.routine.replace("_all_reduce_", "_all_reduce_many_")
            bucket = Bucket(routine, step.partition, step.site, [], TempSlot(0))
            self.open[key] = bucket
        bucket.arrays.append((step.source, step.destination, step.count))
        bucket.table.nbytes = 24 * len(bucket.arrays)
        if _nbytes(bucket) >= BUCKET_BYTES:
            self._close(bucket)

    def _close(self, bucket: Bucket) -> None:
        self.out.append(ReduceStep(bucket))
        self.open = {key: held for key, held in self.open.items() if held is not bucket}


def _begun(steps: Sequence[Step], meetings: Meetings, early: Callable[[int], bool]) -> list[Step]:
    """The steps with buckets begun early where work stands between them and their use."""
    out: list[Step] = []
    pending: list[Bucket] = []
    for position, step in enumerate(steps):
        touched = touched_slots(step)
        for bucket in [b for b in pending if touched & _slots(b)]:
            out.append(AwaitStep(bucket))
            pending.remove(bucket)
        if isinstance(step, ReduceStep) and early(step.bucket.partition):
            bucket = step.bucket
            if _work_before_use(steps[position + 1 :], bucket):
                bucket.partition = meetings.of_shadows(bucket.partition)
                out.append(BeginStep(bucket))
                pending.append(bucket)
                continue
        out.append(step)
    return [*out, *map(AwaitStep, pending)]


def _work_before_use(steps: Sequence[Step], bucket: Bucket) -> bool:
    slots = _slots(bucket)
    for step in steps:
        if touched_slots(step) & slots:
            return False
        if isinstance(step, KernelStep | LoopStep):
            return True
    return False


def _slots(bucket: Bucket) -> set[Slot]:
    return {_base(slot) for array in bucket.arrays for slot in array[:2]}


def _base(slot: Slot) -> Slot:
    while isinstance(slot, SliceSlot):
        slot = slot.base
    return slot


def touched_slots(step: Step) -> set[Slot]:
    """The memory that a step and those inside it use."""
    found = set()
    for slot in slots_of(step):
        base = _base(slot)
        if isinstance(base, CarrySlot):
            carry = base.loop.carries[base.index]
            found |= {carry.first, carry.second}
        else:
            found.add(base)
    for inner in nested(step):
        for held in inner:
            found |= touched_slots(held)
    return found


def _nbytes(bucket: Bucket) -> int:
    element = type_named(bucket.routine.rsplit("_", 1)[1])
    return element.bytes * sum(count for _, _, count in bucket.arrays)
