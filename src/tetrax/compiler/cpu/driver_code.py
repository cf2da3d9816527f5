"""The driver as machine code, written here: it passes addresses to kernels and counts loops, which
needs no compiler. `driver_text.py` says the same to LLVM, for other machines than x86-64.

The function has a frame of words below RBP, one for each counter, loop carry and address in a
table; addresses that do not fit in registers are passed below them, at RSP.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from functools import cache

from tetrax.compiler.cpu.backend import KernelHandle
from tetrax.compiler.cpu.library.device_layout import DEVICE_WORDS
from tetrax.compiler.cpu.machine_code import (
    R8,
    R9,
    R11,
    R12,
    R13,
    R14,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    MachineCode,
)
from tetrax.compiler.steps import (
    ArgSlot,
    AwaitStep,
    BeginStep,
    BranchStep,
    Bucket,
    CoordinateSlot,
    CopyStep,
    ExchangeStep,
    HostStep,
    KernelStep,
    LoopStep,
    ReduceStep,
    SliceSlot,
    Slot,
    Step,
    TempSlot,
)
from tetrax.runtime import code_memory, llvm
from tetrax.runtime.host import host_architecture

_PASSED = (RDI, RSI, RDX, RCX, R8, R9)
_SAVED = (RBX, R12, R13, R14)  # the last one for the alignment of the stack
_ARGUMENTS, _ARENA, _CONTEXT = RBX, R12, R13
_SHORT_COPY = 64
"""Bytes up to which a copy is a few moves."""


def assembled_driver(
    steps: Sequence[Step],
    kernels: Mapping[KernelStep, KernelHandle],
    host_call: int,
    record: int = -1,
) -> KernelHandle | None:
    """The function that runs `steps`, or None where it cannot be written here.

    `record` is the place of the device's record among the arguments.
    """
    if host_architecture() != "x86_64" or sys.platform == "win32":
        return None
    addresses = {step: handle.address for step, handle in kernels.items()}
    code = DriverCode(addresses, host_call, record).function(steps)
    memory = code_memory.allocate(len(code))
    if memory is None:
        return None
    memory.write(code)
    memory.needs = tuple(handle.owner for handle in kernels.values())
    return KernelHandle("", memory.address, memory)


@cache
def _memcpy() -> int:
    return ctypes.cast(ctypes.CDLL(None).memcpy, ctypes.c_void_p).value or 0


class DriverCode:
    """Writes the function; `kernels` are the addresses of the code of kernel steps."""

    def __init__(self, kernels: Mapping[KernelStep, int], host_call: int, record: int) -> None:
        self.kernels = kernels
        self.host_call = host_call
        self.record = record
        self.body = MachineCode()
        self.words = 0  # of the frame
        self.passed = 0  # words for addresses passed on the stack
        self.failed = self.body.label()
        self._positions: dict[LoopStep, int] = {}
        self._carries: dict[LoopStep, list[tuple[int, int]]] = {}
        # Where the numbers are by which buckets that were begun are awaited.
        self._begun: dict[Bucket, int] = {}

    def function(self, steps: Sequence[Step]) -> bytes:
        """`i32 driver(ptr args, ptr arena, i64 context)` that runs the steps."""
        code, done = self.body, self.body.label()
        self._steps(steps)
        code.number(RAX, 0)
        code.jump(done)
        code.place(self.failed)
        code.number(RAX, 1)
        code.place(done)
        code.address(RSP, RBP, -8 * len(_SAVED))
        for register in reversed(_SAVED):
            code.pop(register)
        code.pop(RBP)
        code.ret()
        return self._prologue() + code.finish()

    def _prologue(self) -> bytes:
        code = MachineCode()
        code.push(RBP)
        code.move(RBP, RSP)
        for register in _SAVED:
            code.push(register)
        words = self.words + self.passed
        code.address(RSP, RSP, -16 * ((words + 1) // 2))
        for register, given in zip((_ARGUMENTS, _ARENA, _CONTEXT), _PASSED, strict=False):
            code.move(register, given)
        return code.finish()

    # -- places --------------------------------------------------------------------------------

    def _word(self, count: int = 1) -> int:
        """The place of new words in the frame, relative to RBP."""
        self.words += count
        return -8 * (len(_SAVED) + self.words)

    def _pointer(self, register: int, slot: Slot) -> None:
        """register = the address of a slot in the current place."""
        code = self.body
        if isinstance(slot, ArgSlot):
            code.load(register, _ARGUMENTS, 8 * slot.index)
        elif isinstance(slot, TempSlot):
            code.address(register, _ARENA, slot.offset)
        elif isinstance(slot, CoordinateSlot):
            code.load(register, _ARGUMENTS, 8 * self.record)
            offset = 8 * DEVICE_WORDS["COORDINATES"] + 4 * slot.axis
            code.address(register, register, offset)
        elif isinstance(slot, SliceSlot):
            self._pointer(register, slot.base)
            code.product(R11, RBP, self._positions[slot.loop], slot.stride)
            code.add(register, R11)
        else:
            current, following = self._carries[slot.loop][slot.index]
            code.load(register, RBP, following if slot.following else current)

    # -- steps ---------------------------------------------------------------------------------

    def _steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            _WRITERS[type(step)](self, step)

    def _kernel(self, step: KernelStep) -> None:
        slots: list[Slot | None] = [*step.slots, step.scratch]
        rest = slots[len(_PASSED) :]
        self.passed = max(self.passed, len(rest))
        for at, slot in enumerate(rest):
            self._given(RAX, slot)
            self.body.store(RAX, RSP, 8 * at)
        for register, slot in zip(_PASSED, slots, strict=False):
            self._given(register, slot)
        self.body.call(self.kernels[step])

    def _given(self, register: int, slot: Slot | None) -> None:
        if slot is None:
            self.body.number(register, 0)
        else:
            self._pointer(register, slot)

    def _copy(self, step: CopyStep) -> None:
        if step.nbytes:
            self._pointer(RDI, step.destination)
            self._pointer(RSI, step.source)
            self._copied(step.nbytes)

    def _copied(self, nbytes: int) -> None:
        """Copy from RSI to RDI."""
        if nbytes > _SHORT_COPY:
            self.body.number(RDX, nbytes)
            self.body.call(_memcpy())
            return
        at = 0
        for size in (8, 4, 2, 1):
            while nbytes - at >= size:
                self.body.copy(RAX, size, RSI, RDI, at)
                at += size

    def _branch(self, step: BranchStep) -> None:
        code = self.body
        labels, end = [code.label() for _ in step.branches], code.label()
        self._pointer(RAX, step.index)
        code.load_half(RAX, RAX)
        # Out of range means the nearest branch: below the first, above the last.
        for number, label in enumerate(labels[:-1]):
            code.compare_half(number)
            code.jump(label, "less or equal")
        for label, steps in reversed(list(zip(labels, step.branches, strict=True))):
            code.place(label)
            self._steps(steps)
            code.jump(end)
        code.place(end)

    def _loop(self, step: LoopStep) -> None:
        code = self.body
        head, done, count = code.label(), code.label(), self._word()
        carries = [self._carry(carry.in_place) for carry in step.carries]
        for carry, (current, following) in zip(step.carries, carries, strict=True):
            self._pointer(RAX, carry.first)
            code.store(RAX, RBP, current)
            if not carry.in_place:
                self._pointer(RAX, carry.second)
                code.store(RAX, RBP, following)
        self._carries[step], self._positions[step] = carries, count
        code.number(RAX, 0)
        code.store(RAX, RBP, count)
        code.place(head)
        self._test(step, count, done)
        if step.reverse:
            self._positions[step] = self._word()
            code.number(RAX, (step.length or 0) - 1)
            code.subtract(RAX, RBP, count)
            code.store(RAX, RBP, self._positions[step])
        self._steps(step.body)
        for current, following in carries:
            if current != following:
                code.load(RAX, RBP, current)
                code.load(RCX, RBP, following)
                code.store(RCX, RBP, current)
                code.store(RAX, RBP, following)
        code.increment(RBP, count)
        code.jump(head)
        code.place(done)
        for (current, _), carry, slot in zip(carries, step.carries, step.results, strict=True):
            if slot is not None and carry.nbytes:
                self._pointer(RDI, slot)
                code.load(RSI, RBP, current)
                self._copied(carry.nbytes)

    def _carry(self, in_place: bool) -> tuple[int, int]:
        current = self._word()
        return current, current if in_place else self._word()

    def _test(self, step: LoopStep, count: int, done: int) -> None:
        """Go to `done` where the loop ends."""
        code = self.body
        if step.length is None:
            assert step.condition_slot is not None
            self._steps(step.condition)
            self._pointer(RAX, step.condition_slot)
            code.compare_byte(RAX, 0)
            code.jump(done, "equal")
        else:
            code.number(RAX, step.length)
            code.compare(RAX, RBP, count)
            code.jump(done, "less or equal")

    def _host(self, step: HostStep) -> None:
        code = self.body
        slots = [*step.inputs, *step.outputs]
        table = self._word(max(len(slots), 1))
        for at, slot in enumerate(slots):
            self._pointer(RAX, slot)
            code.store(RAX, RBP, table + 8 * at)
        code.move(RDI, _CONTEXT)
        code.number(RSI, step.index)
        code.address(RDX, RBP, table)
        self._called(self.host_call)

    def _called(self, address: int) -> None:
        """Call a function whose result is 0 unless it failed."""
        self.body.call(address)
        self.body.compare_half(0)
        self.body.jump(self.failed, "not equal")

    def _exchange(self, step: ExchangeStep) -> None:
        code = self.body
        if step.sources is not None:
            self.passed = max(self.passed, 1)
            self._pointer(RAX, step.sources)
            code.store(RAX, RSP, 0)
        code.load(RDI, _ARGUMENTS, 8 * self.record)
        code.number(RSI, step.partition)
        code.number(RDX, step.site)
        self._pointer(RCX, step.source)
        self._pointer(R8, step.destination)
        code.number(R9, step.count)
        self._called(_routine(step.routine))

    def _table(self, bucket: Bucket) -> None:
        """Fill in the table of a bucket."""
        code = self.body
        self._pointer(RDX, bucket.table)
        for index, (source, destination, count) in enumerate(bucket.arrays):
            for place, slot in enumerate((source, destination)):
                self._pointer(RAX, slot)
                code.store(RAX, RDX, 24 * index + 8 * place)
            code.number(RAX, count)
            code.store(RAX, RDX, 24 * index + 16)

    def _reduce(self, step: ReduceStep) -> None:
        code, bucket = self.body, step.bucket
        self._table(bucket)
        code.load(RDI, _ARGUMENTS, 8 * self.record)
        code.number(RSI, bucket.partition)
        code.number(RDX, bucket.site)
        self._pointer(RCX, bucket.table)
        code.number(R8, 0)
        code.number(R9, len(bucket.arrays))
        self._called(_routine(bucket.routine))

    def _begin(self, step: BeginStep) -> None:
        code, bucket = self.body, step.bucket
        self._table(bucket)
        code.load(RDI, _ARGUMENTS, 8 * self.record)
        code.number(RSI, _routine(bucket.routine))
        code.number(RDX, bucket.partition)
        code.number(RCX, bucket.site)
        self._pointer(R8, bucket.table)
        code.number(R9, len(bucket.arrays))
        code.call(_routine("tetrax_devices_begin"))
        self._begun[bucket] = self._word()
        code.store(RAX, RBP, self._begun[bucket])

    def _await(self, step: AwaitStep) -> None:
        code = self.body
        code.load(RDI, _ARGUMENTS, 8 * self.record)
        code.load(RSI, RBP, self._begun[step.bucket])
        self._called(_routine("tetrax_devices_await"))


def _routine(name: str) -> int:
    address = llvm.engine.address(name)
    assert address is not None, f"no routine {name}"
    return address


_WRITERS = {
    KernelStep: DriverCode._kernel,
    CopyStep: DriverCode._copy,
    BranchStep: DriverCode._branch,
    LoopStep: DriverCode._loop,
    HostStep: DriverCode._host,
    ExchangeStep: DriverCode._exchange,
    ReduceStep: DriverCode._reduce,
    BeginStep: DriverCode._begin,
    AwaitStep: DriverCode._await,
}

__all__ = ["DriverCode", "assembled_driver"]
