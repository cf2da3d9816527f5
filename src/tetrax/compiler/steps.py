"""What a compiled program does, step by step: kernels, copies, loops, branches, host calls.

Slots are places in memory, named before anybody knows the addresses. `buffers.py` gives the
temporary ones an offset in the arena, `cpu/driver_code.py` turns everything into one native
function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tetrax.ir.kernel import Kernel
from tetrax.ir.types import ShapedArray


@dataclass(eq=False)
class ArgSlot:
    """Memory the caller passes: an input, a constant or an output."""

    index: int


@dataclass(eq=False)
class TempSlot:
    """A temporary of the arena."""

    nbytes: int
    offset: int = -1


@dataclass(eq=False)
class SliceSlot:
    """One step's part of stacked memory: `base + step * stride` of loop `loop`."""

    base: Slot
    loop: LoopStep
    stride: int


@dataclass(eq=False)
class CarrySlot:
    """A loop carry: read from `current`, written to `following`; the two swap after each turn."""

    loop: LoopStep
    index: int
    following: bool


@dataclass(eq=False)
class CoordinateSlot:
    """Where the record of the device says its position along an axis (int32)."""

    axis: int


Slot = ArgSlot | TempSlot | SliceSlot | CarrySlot | CoordinateSlot


@dataclass(eq=False)
class KernelStep:
    """Call `kernel` on the memory of `slots`, in the order of its parameters."""

    kernel: Kernel
    slots: list[Slot]
    scratch: TempSlot | None = None


@dataclass(eq=False)
class CopyStep:
    destination: Slot
    source: Slot
    nbytes: int


@dataclass(eq=False)
class BranchStep:
    """Run the steps that `index` (int32, clamped) chooses."""

    index: Slot
    branches: list[list[Step]] = field(default_factory=list)


@dataclass(eq=False)
class Carry:
    """Both buffers of a carry. `in_place`: the body updates `first`, nothing is swapped."""

    first: TempSlot
    second: TempSlot
    nbytes: int
    in_place: bool = False


@dataclass(eq=False)
class LoopStep:
    """`length` turns of `body`, or (`condition_slot`) turns while the condition holds."""

    length: int | None
    reverse: bool = False
    carries: list[Carry] = field(default_factory=list)
    condition: list[Step] = field(default_factory=list)
    condition_slot: Slot | None = None
    body: list[Step] = field(default_factory=list)
    # Where the last carries go, where anybody wants them.
    results: list[Slot | None] = field(default_factory=list)


@dataclass(eq=False)
class HostStep:
    """Call Python: `index` is the position in the executable's list of host functions."""

    index: int
    inputs: list[Slot]
    outputs: list[Slot]


@dataclass(eq=False)
class ExchangeStep:
    """Meet the other devices of the group in a partition, and run a routine there."""

    routine: str
    partition: int
    site: int
    source: Slot
    destination: Slot
    count: int
    # A constant: whose operand each member gets.
    sources: Slot | None = None


@dataclass(eq=False)
class Bucket:
    """Arrays that are reduced at one meeting: (operand, result, elements) of each."""

    routine: str
    partition: int
    site: int
    arrays: list[tuple[Slot, Slot, int]]
    # Where the addresses are written.
    table: TempSlot


@dataclass(eq=False)
class ReduceStep:
    """Reduce a bucket now."""

    bucket: Bucket


@dataclass(eq=False)
class BeginStep:
    """Let the shadow of the device reduce a bucket."""

    bucket: Bucket


@dataclass(eq=False)
class AwaitStep:
    """Wait until a bucket that was begun is reduced."""

    bucket: Bucket


Step = (
    KernelStep
    | CopyStep
    | BranchStep
    | LoopStep
    | HostStep
    | ExchangeStep
    | ReduceStep
    | BeginStep
    | AwaitStep
)


@dataclass(eq=False)
class HostFunction:
    """A Python function with the types of its operands and results."""

    function: Any
    in_avals: Sequence[ShapedArray]
    out_avals: Sequence[ShapedArray]


def nested(step: Step) -> list[list[Step]]:
    """The step lists inside a step."""
    if isinstance(step, LoopStep):
        return [step.condition, step.body]
    return step.branches if isinstance(step, BranchStep) else []


def slots_of(step: Step) -> list[Slot]:
    """The slots a step itself names (not those of the steps inside it)."""
    if isinstance(step, KernelStep):
        return [*step.slots, *([step.scratch] if step.scratch else [])]
    if isinstance(step, CopyStep):
        return [step.destination, step.source]
    if isinstance(step, BranchStep):
        return [step.index]
    if isinstance(step, ExchangeStep):
        table = [step.sources] if step.sources is not None else []
        return [step.source, step.destination, *table]
    if isinstance(step, HostStep):
        return [*step.inputs, *step.outputs]
    if isinstance(step, ReduceStep | BeginStep | AwaitStep):
        arrays = step.bucket.arrays
        return [step.bucket.table, *(slot for array in arrays for slot in array[:2])]
    carries = [slot for carry in step.carries for slot in (carry.first, carry.second)]
    results = [slot for slot in step.results if slot is not None]
    condition = [step.condition_slot] if step.condition_slot is not None else []
    return [*carries, *results, *condition]


def temporaries(slot: Slot) -> list[TempSlot]:
    """The arena memory behind a slot."""
    if isinstance(slot, TempSlot):
        return [slot]
    if isinstance(slot, SliceSlot):
        return temporaries(slot.base)
    if isinstance(slot, CarrySlot):
        carry = slot.loop.carries[slot.index]
        return [carry.first, carry.second]
    return []
