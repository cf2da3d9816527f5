"""Results in the memory of donated operands.

Once the steps of a program are known, a result may take the memory of a donated operand of its type
where nothing reads the operand after the result begins: the last reader is an earlier step, a copy
into the result (which then goes), or the kernel that writes it, if that reads each element before
it overwrites it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tetrax.compiler.cpu.vectorise import all_loads
from tetrax.compiler.plain_nests import innermost_stores, on_buffers
from tetrax.compiler.steps import (
    ArgSlot,
    CopyStep,
    KernelStep,
    SliceSlot,
    Slot,
    Step,
    nested,
    slots_of,
)
from tetrax.ir.kernel import Kernel
from tetrax.ir.kernel_expr import Buffer
from tetrax.ir.kernel_statements import Loop, Statement, Store, block

Pair = tuple[Buffer, Buffer]
"""What a kernel reads and what it stores in the same memory."""


@dataclass(frozen=True)
class Sharing:
    """The steps of a program whose results take the memory of operands: `sources[i]` is the operand
    of result i, or None.
    """

    steps: list[Step]
    sources: list[int | None]


def share_memory(
    steps: Sequence[Step], operands: int, candidates: Sequence[Sequence[int]]
) -> Sharing:
    """Give results the memory of operands: of `candidates[i]`, in this order, for result i."""
    uses = _uses(steps)
    sources: list[int | None] = [None] * len(candidates)
    pairs: dict[KernelStep, list[Pair]] = {}
    gone: set[Step] = set()
    for result, wanted in enumerate(candidates):
        written = uses.get(operands + result)
        if not written:
            continue
        for operand in wanted:
            last = max(uses.get(operand, (-1,)))
            step = steps[written[0]]
            if operand in sources or last > written[0]:
                continue
            if last < written[0] or _is_copy(step, operand, operands + result):
                sources[result] = operand
                if last == written[0]:
                    gone.add(step)
                break
            if isinstance(step, KernelStep):
                pair = _pair(step, operand, operands + result)
                known = pairs.get(step, [])
                if pair and _in_order(step.kernel, [*known, pair]) is not None:
                    pairs[step] = [*known, pair]
                    sources[result] = operand
                    break
    for step, shared in pairs.items():
        _share(step, shared)
    return Sharing([step for step in steps if step not in gone], sources)


def _uses(steps: Sequence[Step]) -> dict[int, list[int]]:
    """By argument, the positions of the steps that use it, in order."""
    uses: dict[int, list[int]] = {}
    for position, step in enumerate(steps):
        for argument in _arguments(step):
            places = uses.setdefault(argument, [])
            if not places or places[-1] != position:
                places.append(position)
    return uses


def _arguments(step: Step) -> Iterator[int]:
    for slot in slots_of(step):
        while isinstance(slot, SliceSlot):
            slot = slot.base
        if isinstance(slot, ArgSlot):
            yield slot.index
    for inner in nested(step):
        for held in inner:
            yield from _arguments(held)


def _is_copy(step: Step, operand: int, result: int) -> bool:
    return (
        isinstance(step, CopyStep)
        and _is_argument(step.source, operand)
        and _is_argument(step.destination, result)
    )


def _is_argument(slot: Slot, index: int) -> bool:
    return isinstance(slot, ArgSlot) and slot.index == index


# -- kernels ---------------------------------------------------------------------------------------


def _pair(step: KernelStep, operand: int, result: int) -> Pair | None:
    """The buffers of an operand and a result, if the step reads the one and writes the other."""
    found: list[Buffer] = []
    for argument, mode in ((operand, "in"), (result, "out")):
        places = [i for i, slot in enumerate(step.slots) if _is_argument(slot, argument)]
        if len(places) != 1 or step.kernel.parameters[places[0]].mode != mode:
            return None
        found.append(step.kernel.parameters[places[0]])
    read, stored = found
    alike = (read.element, read.size) == (stored.element, stored.size)
    return (read, stored) if alike else None


def _in_order(kernel: Kernel, pairs: Sequence[Pair]) -> list[Store] | None:
    """The stores of a kernel, each after all that read what it overwrites; None where no order
    does, or where elements are read elsewhere than they are stored.
    """
    stores = innermost_stores(kernel.body)
    if stores is None:
        return None
    reads = [{load.data: load.args[0] for load in all_loads([s.value])} for s in stores]
    before: dict[int, set[int]] = {at: set() for at in range(len(stores))}
    for read, stored in pairs:
        places = [at for at, s in enumerate(stores) if s.buffer == stored]
        if len(places) != 1:
            return None
        at = places[0]
        loads = [load for s in stores for load in all_loads([s.value, s.offset])]
        if any(load.data == read and load.args[0] is not stores[at].offset for load in loads):
            return None
        before[at] |= {other for other, held in enumerate(reads) if read in held} - {at}
    order: list[int] = []
    while len(order) < len(stores):
        ready = [at for at in before if at not in order and before[at] <= set(order)]
        if not ready:
            return None
        order.append(ready[0])
    return [stores[at] for at in order]


def _share(step: KernelStep, pairs: Sequence[Pair]) -> None:
    """Let a step read and write the same memory."""
    stores = _in_order(step.kernel, pairs)
    assert stores is not None
    read_only = {read for read, _ in pairs}
    merged: dict[Buffer, Buffer] = {}
    for read, stored in pairs:
        merged[read] = merged[stored] = replace(stored, mode="update")
    kernel = step.kernel
    step.slots = [
        slot
        for slot, buffer in zip(step.slots, kernel.parameters, strict=True)
        if buffer not in read_only
    ]
    buffers = tuple(merged.get(b, b) for b in kernel.buffers if b not in read_only)
    body = _with_stores(kernel.body, block(*(on_buffers(inner, merged) for inner in stores)))
    step.kernel = replace(kernel, buffers=buffers, body=body)


def _with_stores(statement: Statement, stores: Statement) -> Statement:
    if isinstance(statement, Loop):
        return replace(statement, body=_with_stores(statement.body, stores))
    return stores
