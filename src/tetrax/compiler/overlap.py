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
    CopyStep,
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
    """Goes over the steps once and collects sums that nobody needs yet.

    A bucket is reduced where the last of its operands is there.
    """

    def __init__(self) -> None:
        self.out: list[Step] = []
        self.open: dict[tuple[str, int], ReduceStep] = {}

    def run(self, steps: Sequence[Step]) -> list[Step]:
        for step in steps:
            if isinstance(step, ExchangeStep) and "_all_reduce_" in step.routine:
                self._add(step)
                continue
            self._close_for(step)
            self.out.append(step)
        return self.out

    def _add(self, step: ExchangeStep) -> None:
        self._close_for(step)  # its operand may be a sum that is collected
        key = (step.routine, step.partition)
        reduction = self.open.get(key)
        if reduction is None:
            routine = step.routine.replace("_all_reduce_", "_all_reduce_many_")
            reduction = ReduceStep(Bucket(routine, step.partition, step.site, [], TempSlot(0)))
            self.open[key] = reduction
        else:
            self.out.remove(reduction)
        self.out.append(reduction)
        bucket = reduction.bucket
        bucket.arrays.append((step.source, step.destination, step.count))
        bucket.table.nbytes = 24 * len(bucket.arrays)
        if _nbytes(bucket) >= BUCKET_BYTES:
            del self.open[key]

    def _close_for(self, step: Step) -> None:
        """Take nothing more into buckets whose results the step uses."""
        self.open = {k: r for k, r in self.open.items() if not _conflict(step, r.bucket)}


def _begun(steps: Sequence[Step], meetings: Meetings, early: Callable[[int], bool]) -> list[Step]:
    """The steps with buckets begun early where work stands between them and their use."""
    out: list[Step] = []
    pending: list[Bucket] = []
    for position, step in enumerate(steps):
        for bucket in [b for b in pending if _conflict(step, b)]:
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
    for step in steps:
        if _conflict(step, bucket):
            return False
        if isinstance(step, KernelStep | LoopStep):
            return True
    return False


def _conflict(step: Step, bucket: Bucket) -> bool:
    """Whether a step uses results of a bucket, or changes what it reduces."""
    results = {_base(array[1]) for array in bucket.arrays}
    if touched_slots(step) & results:
        return True
    return bool(written_slots(step) & {_base(array[0]) for array in bucket.arrays})


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


def written_slots(step: Step) -> set[Slot]:
    """The memory that a step may change."""
    if isinstance(step, KernelStep):
        parameters = zip(step.slots, step.kernel.parameters, strict=True)
        found = {_base(slot) for slot, buffer in parameters if buffer.mode != "in"}
        return found | ({step.scratch} if step.scratch else set())
    if isinstance(step, CopyStep | ExchangeStep):
        return {_base(step.destination)}
    return touched_slots(step)


def _nbytes(bucket: Bucket) -> int:
    element = type_named(bucket.routine.rsplit("_", 1)[1])
    return element.bytes * sum(count for _, _, count in bucket.arrays)
