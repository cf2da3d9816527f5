"""The driver: all steps of a program as one native function that calls the kernels.

`i32 name(ptr args, ptr arena, i64 context)`: `args` holds the addresses of inputs, constants and
outputs, and of the record of the device where several run the program. The result is 0, or 1 if a
host function raised (Python then has the exception) or a meeting of devices failed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tetrax.compiler.cpu.library.device_layout import DEVICE_WORDS
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

HOST_CALL_SYMBOL = "tetrax_host_call"


class DriverText:
    """Writes the function.

    `symbols` gives the name of each kernel step's code, `record` is the place of the device's
    record among the arguments.
    """

    def __init__(self, symbols: dict[KernelStep, str], record: int = -1) -> None:
        self.symbols = symbols
        self.record = record
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.numbers = itertools.count()
        self.arguments: dict[int, str] = {}
        self.declared: dict[str, int] = {}
        self.exchanges: dict[str, str] = {}
        # The numbers by which buckets that were begun are awaited.
        self.begun: dict[Bucket, str] = {}
        self.block = "entry"
        self._positions: dict[LoopStep, str] = {}
        self._carries: dict[LoopStep, list[tuple[str, str]]] = {}

    def text(self, name: str, steps: Sequence[Step]) -> str:
        self._steps(steps)
        declarations = [
            f"declare void @{symbol}({', '.join(['ptr'] * count)})"
            for symbol, count in sorted(self.declared.items())
        ]
        return "\n".join(
            [
                f"declare i32 @{HOST_CALL_SYMBOL}(i64, i64, ptr)",
                "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
                *declarations,
                *(self.exchanges[symbol] for symbol in sorted(self.exchanges)),
                f"define i32 @{name}(ptr %args, ptr %arena, i64 %context) {{",
                "entry:",
                *self.entry,
                "  br label %start",
                "start:",
                *self.lines,
                "  ret i32 0",
                "failed:",
                "  ret i32 1",
                "}",
                "",
            ]
        )

    # -- helpers -------------------------------------------------------------------------------

    def _fresh(self, stem: str) -> str:
        return f"%{stem}{next(self.numbers)}"

    def _emit(self, line: str) -> None:
        self.lines.append("  " + line)

    def _label(self, name: str) -> None:
        self.lines.append(f"{name[1:]}:")
        self.block = name

    def pointer(self, slot: Slot) -> str:
        """The address of a slot in the current place."""
        if isinstance(slot, ArgSlot):
            return self._argument(slot.index)
        if isinstance(slot, TempSlot):
            return self._offset("%arena", str(slot.offset))
        if isinstance(slot, CoordinateSlot):
            offset = 8 * DEVICE_WORDS["COORDINATES"] + 4 * slot.axis
            return self._offset(self._argument(self.record), str(offset))
        if isinstance(slot, SliceSlot):
            base = self.pointer(slot.base)
            distance = self._fresh("d")
            self._emit(f"{distance} = mul i64 {self._positions[slot.loop]}, {slot.stride}")
            return self._offset(base, distance)
        current, following = self._carries[slot.loop][slot.index]
        return following if slot.following else current

    def _argument(self, index: int) -> str:
        found = self.arguments.get(index)
        if found is None:
            # Loaded in the entry block, so that the address is there on every path.
            place, found = self._fresh("q"), self._fresh("p")
            self.entry.append(f"  {place} = getelementptr ptr, ptr %args, i64 {index}")
            self.entry.append(f"  {found} = load ptr, ptr {place}, align 8")
            self.arguments[index] = found
        return found

    def _offset(self, base: str, distance: str) -> str:
        if distance == "0":
            return base
        result = self._fresh("p")
        self._emit(f"{result} = getelementptr i8, ptr {base}, i64 {distance}")
        return result

    # -- steps ---------------------------------------------------------------------------------

    def _steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            _WRITERS[type(step)](self, step)

    def _kernel(self, step: KernelStep) -> None:
        symbol = self.symbols[step]
        pointers = [self.pointer(slot) for slot in step.slots]
        pointers.append(self.pointer(step.scratch) if step.scratch else "null")
        self.declared[symbol] = len(pointers)
        self._emit(f"call void @{symbol}({', '.join('ptr ' + p for p in pointers)})")

    def _copy(self, step: CopyStep) -> None:
        self._memcpy(self.pointer(step.destination), self.pointer(step.source), step.nbytes)

    def _memcpy(self, destination: str, source: str, count: int) -> None:
        if count:
            self._emit(
                f"call void @llvm.memcpy.p0.p0.i64(ptr {destination}, ptr {source}, "
                f"i64 {count}, i1 false)"
            )

    def _branch(self, step: BranchStep) -> None:
        index, end = self._fresh("index"), self._fresh("end")
        labels = [self._fresh("case") for _ in step.branches]
        self._emit(f"{index} = load i32, ptr {self.pointer(step.index)}, align 4")
        # Out of range means the nearest branch: below the first, above the last.
        low, clamped = self._fresh("low"), self._fresh("clamped")
        self._emit(f"{low} = icmp slt i32 {index}, 0")
        self._emit(f"{clamped} = select i1 {low}, i32 0, i32 {index}")
        cases = " ".join(f"i32 {i}, label {label}" for i, label in enumerate(labels))
        self._emit(f"switch i32 {clamped}, label {labels[-1]} [{cases}]")
        for label, steps in zip(labels, step.branches, strict=True):
            self._label(label)
            self._steps(steps)
            self._emit(f"br label {end}")
        self._label(end)

    def _loop(self, step: LoopStep) -> None:
        before, head, body, done = (self._fresh(s) for s in ("before", "head", "body", "done"))
        firsts = [(self.pointer(c.first), self.pointer(c.second)) for c in step.carries]
        self._emit(f"br label {before}")
        self._label(before)
        self._emit(f"br label {head}")
        self._label(head)
        count, following = self._fresh("count"), self._fresh("next")
        phis = len(self.lines)
        names = []
        for carry in step.carries:
            current = self._fresh("current")
            names.append((current, current if carry.in_place else self._fresh("following")))
        self._carries[step] = names
        self._positions[step] = count
        if step.length is None:
            self._steps(step.condition)
            flag, test = self._fresh("flag"), self._fresh("test")
            self._emit(f"{flag} = load i8, ptr {self.pointer(step.condition_slot)}, align 1")  # type: ignore[arg-type]
            self._emit(f"{test} = icmp ne i8 {flag}, 0")
        else:
            test = self._fresh("test")
            self._emit(f"{test} = icmp slt i64 {count}, {step.length}")
        self._emit(f"br i1 {test}, label {body}, label {done}")
        self._label(body)
        if step.reverse:
            position = self._fresh("position")
            self._emit(f"{position} = sub i64 {(step.length or 0) - 1}, {count}")
            self._positions[step] = position
        self._steps(step.body)
        self._emit(f"{following} = add i64 {count}, 1")
        back = self.block
        self._emit(f"br label {head}")
        lines = [f"  {count} = phi i64 [ 0, {before} ], [ {following}, {back} ]"]
        for carry, (current, after), (first, second) in zip(
            step.carries, names, firsts, strict=True
        ):
            lines.append(f"  {current} = phi ptr [ {first}, {before} ], [ {after}, {back} ]")
            if not carry.in_place:
                lines.append(f"  {after} = phi ptr [ {second}, {before} ], [ {current}, {back} ]")
        self.lines[phis:phis] = lines
        self._label(done)
        for (current, _), carry, slot in zip(names, step.carries, step.results, strict=True):
            if slot is not None:
                self._memcpy(self.pointer(slot), current, carry.nbytes)

    def _host(self, step: HostStep) -> None:
        slots = [*step.inputs, *step.outputs]
        pointers = [self.pointer(slot) for slot in slots]
        table, status, bad, on = (self._fresh(s) for s in ("table", "status", "bad", "on"))
        # Allocas belong to the entry block: one in a loop would grow the stack each turn.
        self.entry.append(f"  {table} = alloca [{max(len(slots), 1)} x ptr], align 8")
        for i, pointer in enumerate(pointers):
            place = self._offset(table, str(8 * i))
            self._emit(f"store ptr {pointer}, ptr {place}, align 8")
        self._emit(
            f"{status} = call i32 @{HOST_CALL_SYMBOL}(i64 %context, i64 {step.index}, ptr {table})"
        )
        self._go_on(status, bad, on)

    def _go_on(self, status: str, bad: str, on: str) -> None:
        self._emit(f"{bad} = icmp ne i32 {status}, 0")
        self._emit(f"br i1 {bad}, label %failed, label {on}")
        self._label(on)

    def _exchange(self, step: ExchangeStep) -> None:
        status, bad, on = (self._fresh(s) for s in ("status", "bad", "on"))
        operands = [
            f"ptr {self._argument(self.record)}",
            f"i64 {step.partition}",
            f"i64 {step.site}",
            f"ptr {self.pointer(step.source)}",
            f"ptr {self.pointer(step.destination)}",
            f"i64 {step.count}",
        ]
        if step.sources is not None:
            operands.append(f"ptr {self.pointer(step.sources)}")
        types = ", ".join(operand.split()[0] for operand in operands)
        self.exchanges[step.routine] = f"declare i32 @{step.routine}({types})"
        self._emit(f"{status} = call i32 @{step.routine}({', '.join(operands)})")
        self._go_on(status, bad, on)

    def _table(self, bucket: Bucket) -> str:
        """The address of a bucket's table, which is filled in."""
        table = self.pointer(bucket.table)
        for index, (source, destination, count) in enumerate(bucket.arrays):
            words = (f"ptr {self.pointer(source)}", f"ptr {self.pointer(destination)}")
            for place, word in enumerate((*words, f"i64 {count}")):
                target = self._offset(table, str(24 * index + 8 * place))
                self._emit(f"store {word}, ptr {target}, align 8")
        self.exchanges[bucket.routine] = (
            f"declare i32 @{bucket.routine}(ptr, i64, i64, ptr, ptr, i64)"
        )
        return table

    def _reduce(self, step: ReduceStep) -> None:
        bucket, record = step.bucket, self._argument(self.record)
        status, bad, on = (self._fresh(s) for s in ("status", "bad", "on"))
        table = self._table(bucket)
        self._emit(
            f"{status} = call i32 @{bucket.routine}(ptr {record}, i64 {bucket.partition}, "
            f"i64 {bucket.site}, ptr {table}, ptr null, i64 {len(bucket.arrays)})"
        )
        self._go_on(status, bad, on)

    def _begin(self, step: BeginStep) -> None:
        bucket, record = step.bucket, self._argument(self.record)
        number = self.begun[bucket] = self._fresh("number")
        self.exchanges["begin"] = "declare i64 @tetrax_devices_begin(ptr, ptr, i64, i64, ptr, i64)"
        table = self._table(bucket)
        self._emit(
            f"{number} = call i64 @tetrax_devices_begin(ptr {record}, ptr @{bucket.routine}, "
            f"i64 {bucket.partition}, i64 {bucket.site}, ptr {table}, i64 {len(bucket.arrays)})"
        )

    def _await(self, step: AwaitStep) -> None:
        status, bad, on = (self._fresh(s) for s in ("status", "bad", "on"))
        record, number = self._argument(self.record), self.begun[step.bucket]
        self.exchanges["await"] = "declare i32 @tetrax_devices_await(ptr, i64)"
        self._emit(f"{status} = call i32 @tetrax_devices_await(ptr {record}, i64 {number})")
        self._go_on(status, bad, on)


_WRITERS = {
    KernelStep: DriverText._kernel,
    CopyStep: DriverText._copy,
    BranchStep: DriverText._branch,
    LoopStep: DriverText._loop,
    HostStep: DriverText._host,
    ExchangeStep: DriverText._exchange,
    ReduceStep: DriverText._reduce,
    BeginStep: DriverText._begin,
    AwaitStep: DriverText._await,
}

__all__ = ["HOST_CALL_SYMBOL", "DriverText"]
