"""From a fused program to steps: gives every stored variable a slot and lowers each item.

A region is a straight-line program with slots for its inputs and results; loop bodies and branches
are regions inside regions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tetrax.compiler.device_groups import Meetings
from tetrax.compiler.fuse import Group, Item, Plan, fuse
from tetrax.compiler.kernel_cache import KernelCache
from tetrax.compiler.nest import nbytes
from tetrax.compiler.register_loops import loop_kernel
from tetrax.compiler.steps import (
    ArgSlot,
    BranchStep,
    Carry,
    CarrySlot,
    CoordinateSlot,
    CopyStep,
    ExchangeStep,
    HostFunction,
    HostStep,
    KernelStep,
    LoopStep,
    SliceSlot,
    Slot,
    Step,
    TempSlot,
)
from tetrax.compiler.unused import without_results
from tetrax.ir.atoms import Atom, DropVar, Literal, Var
from tetrax.ir.control import Branch, Exchange, HostCall, Position, Scan, While
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_expr import Buffer
from tetrax.ir.program import ClosedProgram, Equation
from tetrax.ir.types import ShapedArray, storage_dtype
from tetrax.ir.views import Stored, element_type, parts
from tetrax.ops.shape import squeeze_p
from tetrax.ops.structure import broadcast_in_dim_p, reshape_p
from tetrax.runtime.array import Array


@dataclass
class Module:
    """What all regions of one compiled program share."""

    constants: list[Any] = field(default_factory=list)
    constant_slots: list[ArgSlot] = field(default_factory=list)
    host_functions: list[HostFunction] = field(default_factory=list)
    cache: KernelCache = field(default_factory=KernelCache)
    first_constant: int = 0
    meetings: Meetings = field(default_factory=Meetings)
    _known: dict[Any, ArgSlot] = field(default_factory=dict)

    def constant(self, value: Any, aval: Any) -> ArgSlot:
        """The hidden argument that holds `value`; equal scalars share one."""
        array = value if aval.shape else _scalar(value, aval)
        key = (array.tobytes(), aval.dtype) if not aval.shape else id(value)
        slot = self._known.get(key)
        if slot is None:
            slot = self._known[key] = ArgSlot(self.first_constant + len(self.constants))
            self.constants.append((array, aval))
        return slot


def _scalar(value: Any, aval: Any) -> np.ndarray:
    """A scalar in the type in which it is stored, keys too."""
    elements = value._value if isinstance(value, Array) else value
    return np.asarray(elements, storage_dtype(aval.dtype))


class Region:
    """Lowers one program."""

    def __init__(
        self,
        module: Module,
        closed: ClosedProgram,
        in_slots: Sequence[Slot],
        loop: LoopStep | None = None,
    ) -> None:
        self.module = module
        # The loop whose body this is. Only the body itself may decide to keep or update a carry in
        # place: what happens inside a branch does not happen on every turn.
        self.loop = loop
        self.closed = closed
        program = self.closed.program
        self.slots: dict[Var, Slot] = dict(zip(program.invars, in_slots, strict=True))
        for var, value in zip(program.constvars, self.closed.consts, strict=True):
            self.slots[var] = module.constant(value, var.aval)
        self.owned: set[Var] = set()
        self.steps: list[Step] = []
        self.readers: dict[Var, list[Item]] = {}
        self.aliases: dict[Var, Var] = {}

    def lower(self, out_slots: Sequence[Slot | None]) -> list[Step]:
        """The steps that leave result `i` in `out_slots[i]` (where that is not None)."""
        program = self.closed.program
        self.plan = fuse(program, self.module.cache)
        copies = self._place_results(program.outvars, out_slots)
        reads = [_reads(item) for item in self.plan.items]
        for item, names in zip(self.plan.items, reads, strict=True):
            for var in names:
                self.readers.setdefault(var, []).append(item)
        self._find_aliases()
        self.last_read = {self._root(var): i for i, names in enumerate(reads) for var in names}
        self.last_read.update(
            {self._root(atom): len(reads) for atom in program.outvars if isinstance(atom, Var)}
        )
        for position, item in enumerate(self.plan.items):
            if isinstance(item, Group) and item.members[0] in self.aliases:
                self.slots[item.members[0]] = self.slot(self._root(item.members[0]))
            elif isinstance(item, Group):
                self._group(item)
            else:
                self._equation(item, position)
        for atom, slot in copies:
            self._copy(slot, self.slot(atom), atom.aval)
        return self.steps

    def _place_results(
        self, outvars: Sequence[Atom], out_slots: Sequence[Slot | None]
    ) -> list[tuple[Atom, Slot]]:
        """Let results be computed where they are wanted; returns the copies that remain."""
        copies = []
        for atom, slot in zip(outvars, out_slots, strict=True):
            if slot is None:
                continue
            if isinstance(atom, Literal):
                copies.append((atom, slot))
            elif atom in self.slots:
                if self._is_own_carry(self.slots[atom], slot):
                    self.loop.carries[slot.index].in_place = True  # type: ignore[union-attr]
                copies.append((atom, slot))
            else:
                self.slots[atom] = slot
        return copies

    # -- one memory under several names --------------------------------------------------------

    def _find_aliases(self) -> None:
        """Values that are another one in the same order of elements need no memory of their own."""
        for item in self.plan.items:
            if not isinstance(item, Group) or len(item.members) != 1:
                continue
            (var,) = item.members
            eqn = self.plan.definitions[var]
            source = eqn.invars[0] if eqn.invars else None
            if (
                var not in self.slots
                and isinstance(source, Var)
                and source in self.plan.stored
                and _keeps_memory(eqn)
            ):
                self.aliases[var] = source

    def _root(self, var: Var) -> Var:
        while var in self.aliases:
            var = self.aliases[var]
        return var

    # -- slots ---------------------------------------------------------------------------------

    def slot(self, atom: Atom) -> Slot:
        if isinstance(atom, Literal):
            return self.module.constant(getattr(atom.val, "_npy", atom.val), atom.aval)
        found = self.slots.get(atom)
        if found is None:
            found = self.slots[atom] = TempSlot(nbytes(atom.aval))
            self.owned.add(atom)
        return found

    def _copy(self, destination: Slot, source: Slot, aval: Any) -> None:
        if destination is not source and not _same_carry(destination, source):
            self.steps.append(CopyStep(destination, source, nbytes(aval)))

    def _in_place(self, eqn: Equation, position: int) -> None:
        """Let the result overwrite the operand it updates, where nobody reads that any more."""
        index = eqn.primitive.updates
        operand = eqn.invars[index] if index is not None else None
        if not isinstance(operand, Var):
            return
        operand = self._root(operand)
        if self.last_read.get(operand, -1) > position:
            return
        out = eqn.outvars[0]
        source, target = self.slots.get(operand), self.slots.get(out)
        if operand in self.owned and target is None:
            self.slots[out] = source  # type: ignore[assignment]
            self.owned.add(out)
        elif self._is_own_carry(source, target):
            self.loop.carries[target.index].in_place = True  # type: ignore[union-attr]

    def _is_own_carry(self, source: Slot | None, target: Slot | None) -> bool:
        """Whether both are the same carry of the loop whose body this is."""
        return (
            isinstance(source, CarrySlot)
            and isinstance(target, CarrySlot)
            and source.loop is target.loop is self.loop
            and source.index == target.index
        )

    # -- items ---------------------------------------------------------------------------------

    def _group(self, group: Group) -> None:
        writes = [var for var in group.members if self._is_read_outside(var, group)]
        if not writes or group.members[0].aval.size == 0:
            return
        nest = self.plan.nest(group, writes)
        slots = [self.slot(var) for var in (*nest.reads, *nest.writes)]
        self.steps.append(KernelStep(nest.kernel, slots))

    def _is_read_outside(self, var: Var, group: Group) -> bool:
        if var in self.slots:
            return True
        return any(reader is not group for reader in self.readers.get(var, ()))

    def _equation(self, eqn: Equation, position: int) -> None:
        primitive = eqn.primitive
        structure = primitive.structure
        if structure is not None:
            described = structure([a.aval for a in eqn.invars], **eqn.params)
            _LOWERINGS[type(described)](self, eqn, described)
        elif primitive.emit is not None:
            self._in_place(eqn, position)
            self._emit(eqn)
        elif primitive.reference is not None:
            self._host(eqn, HostCall(_reference_call(eqn)))
        else:
            raise primitive.missing("kernel")

    def _emit(self, eqn: Equation) -> None:
        """Let the operation write its own loop nest over stored operands.

        An operand that the operation updates shares one 'inout' buffer with the result; it is
        copied there first unless the two are the same memory.
        """
        update = eqn.primitive.updates
        slots = [self.slot(atom) for i, atom in enumerate(eqn.invars) if i != update]
        if update is not None:
            source, target = self.slot(eqn.invars[update]), self.slot(eqn.outvars[0])
            self._copy(target, source, eqn.outvars[0].aval)
            slots.append(target)
        else:
            slots += [self.slot(var) for var in eqn.outvars]
        kernel = self.module.cache.emitted(eqn, lambda: _emitted(eqn))
        kept = {buffer.name for buffer in kernel.parameters}
        named = zip(slots, _parameter_names(eqn), strict=True)
        self.steps.append(KernelStep(kernel, [slot for slot, name in named if name in kept]))

    # -- several devices -----------------------------------------------------------------------

    def _exchange(self, eqn: Equation, described: Exchange) -> None:
        if eqn.outvars[0].aval.size == 0:
            return
        meetings = self.module.meetings
        partition = meetings.partition(described.names, described.groups)
        site = meetings.site(eqn, described.routine)
        routine = described.routine
        if meetings.is_spread(partition):
            routine = routine.replace("tetrax_", "tetrax_spread_", 1)
        table = None
        if described.pairs is not None:
            sources = np.full(len(meetings.partitions[partition][0]), -1, np.int64)
            for member, destination in described.pairs:
                sources[destination] = member
            table = self.module.constant(sources, ShapedArray(sources.shape, np.int64))
        source, target = self.slot(eqn.invars[0]), self.slot(eqn.outvars[0])
        self.steps.append(
            ExchangeStep(routine, partition, site, source, target, described.count, table)
        )

    def _position(self, eqn: Equation, described: Position) -> None:
        axis = self.module.meetings.axis(described.name)
        self._copy(self.slot(eqn.outvars[0]), CoordinateSlot(axis), eqn.outvars[0].aval)

    # -- control flow --------------------------------------------------------------------------

    def _host(self, eqn: Equation, described: HostCall) -> None:
        functions = self.module.host_functions
        functions.append(
            HostFunction(
                described.function, [a.aval for a in eqn.invars], [v.aval for v in eqn.outvars]
            )
        )
        inputs = [self.slot(atom) for atom in eqn.invars]
        outputs = [self.slot(var) for var in eqn.outvars]
        self.steps.append(HostStep(len(functions) - 1, inputs, outputs))

    def _branch(self, eqn: Equation, described: Branch) -> None:
        inputs = [self.slot(atom) for atom in eqn.invars[1:]]
        outputs = [None if isinstance(v, DropVar) else self.slot(v) for v in eqn.outvars]
        step = BranchStep(self.slot(eqn.invars[0]))
        for branch in described.branches:
            step.branches.append(Region(self.module, branch, inputs).lower(outputs))
        self.steps.append(step)

    def _register_loop(self, eqn: Equation, described: Scan | While) -> bool:
        """Lower a loop whose carries fit in registers to one kernel; False where they do not."""
        wanted = [not isinstance(v, DropVar) for v in eqn.outvars]
        found = loop_kernel(eqn, described, wanted)
        if found is None:
            return False
        slots = [
            self.slot(eqn.invars[operand.position])
            if operand.constant is None
            else self.module.constant(operand.constant, operand.aval)
            for operand in found.reads
        ]
        slots += [self.slot(eqn.outvars[i]) for i in found.writes]
        self.steps.append(KernelStep(found.kernel, slots))
        return True

    def _while(self, eqn: Equation, described: While) -> None:
        if self._register_loop(eqn, described):
            return
        split = described.condition_consts + described.body_consts
        slots = [self.slot(atom) for atom in eqn.invars]
        condition_consts = slots[: described.condition_consts]
        body_consts = slots[described.condition_consts : split]
        loop = LoopStep(None)
        current, following = self._carries(loop, eqn.invars[split:], slots[split:], eqn.outvars)
        loop.condition_slot = TempSlot(1)
        loop.condition = Region(
            self.module, described.condition, [*condition_consts, *current]
        ).lower([loop.condition_slot])
        body = Region(self.module, described.body, [*body_consts, *current], loop)
        loop.body = body.lower(following)
        self._finish_loop(loop)

    def _scan(self, eqn: Equation, described: Scan) -> None:
        if self._register_loop(eqn, described):
            return
        first, last = described.consts, described.consts + described.carry
        slots = [self.slot(atom) for atom in eqn.invars]
        loop = LoopStep(described.length, described.reverse)
        current, following = self._carries(
            loop, eqn.invars[first:last], slots[first:last], eqn.outvars[: described.carry]
        )
        stacked_in = [
            SliceSlot(slot, loop, _slice_bytes(atom.aval))
            for slot, atom in zip(slots[last:], eqn.invars[last:], strict=True)
        ]
        stacked_out = [
            None if isinstance(v, DropVar) else SliceSlot(self.slot(v), loop, _slice_bytes(v.aval))
            for v in eqn.outvars[described.carry :]
        ]
        body = Region(self.module, described.body, [*slots[:first], *current, *stacked_in], loop)
        loop.body = body.lower([*following, *stacked_out])
        self._finish_loop(loop)

    def _finish_loop(self, loop: LoopStep) -> None:
        for carry in loop.carries:
            if carry.in_place:
                carry.second = carry.first
        self.steps.append(loop)

    def _carries(
        self,
        loop: LoopStep,
        atoms: Sequence[Atom],
        initial: Sequence[Slot],
        outvars: Sequence[Var],
    ) -> tuple[list[CarrySlot], list[CarrySlot]]:
        for atom, slot, var in zip(atoms, initial, outvars, strict=True):
            size = nbytes(atom.aval)
            carry = Carry(TempSlot(size), TempSlot(size), size)
            loop.carries.append(carry)
            self.steps.append(CopyStep(carry.first, slot, size))
            loop.results.append(None if isinstance(var, DropVar) else self.slot(var))
        count = range(len(atoms))
        return (
            [CarrySlot(loop, i, False) for i in count],
            [CarrySlot(loop, i, True) for i in count],
        )


_LOWERINGS: dict[type, Callable[[Region, Equation, Any], None]] = {
    Branch: Region._branch,
    While: Region._while,
    Scan: Region._scan,
    HostCall: Region._host,
    Exchange: Region._exchange,
    Position: Region._position,
}


def _reads(item: Item) -> set[Var]:
    if isinstance(item, Group):
        return item.reads
    return {atom for atom in item.invars if isinstance(atom, Var)}


def _keeps_memory(eqn: Equation) -> bool:
    """Whether the result has the elements of the operand in the same order."""
    if eqn.primitive not in (reshape_p, squeeze_p, broadcast_in_dim_p):
        return False
    operand, out = eqn.invars[0].aval, eqn.outvars[0].aval
    # A reshape with `dimensions` transposes first; a squeeze has axes of that name.
    plain = eqn.primitive is squeeze_p or eqn.params.get("dimensions") is None
    return operand.size == out.size and plain


def _same_carry(a: Slot, b: Slot) -> bool:
    """Whether two slots are one in-place carry."""
    return (
        isinstance(a, CarrySlot)
        and isinstance(b, CarrySlot)
        and a.loop is b.loop
        and a.index == b.index
        and (a.following == b.following or a.loop.carries[a.index].in_place)
    )


def _slice_bytes(aval: Any) -> int:
    return nbytes(aval) // aval.shape[0] if aval.shape[0] else 0


def _stored(builder: KernelBuilder, name: str, aval: Any, mode: str) -> Stored:
    buffer: Buffer = builder.buffer(
        name, element_type(aval.dtype), aval.size * parts(aval.dtype), mode
    )
    return Stored(buffer, aval.shape, aval.dtype)


def _parameter_names(eqn: Equation) -> list[str]:
    """The names of the buffers of an operation's own kernel; an operand it updates comes last."""
    update = eqn.primitive.updates
    names = [f"in{i}" for i in range(len(eqn.invars)) if i != update]
    results = [f"out{i}" for i in range(len(eqn.outvars))] if update is None else ["updated"]
    return [*names, *results]


def _emitted(eqn: Equation) -> Any:
    """The kernel that an operation writes itself, without the results that nobody reads."""
    builder = KernelBuilder()
    update = eqn.primitive.updates
    operands: list[Any] = [
        None if i == update else _stored(builder, f"in{i}", atom.aval, "in")
        for i, atom in enumerate(eqn.invars)
    ]
    if update is not None:
        operands[update] = _stored(builder, "updated", eqn.outvars[0].aval, "inout")
        outs = [operands[update]]
    else:
        outs = [_stored(builder, f"out{i}", v.aval, "out") for i, v in enumerate(eqn.outvars)]
    eqn.primitive.emit(builder, operands, outs, **eqn.params)
    unused = [
        out.buffer for var, out in zip(eqn.outvars, outs, strict=True) if isinstance(var, DropVar)
    ]
    return without_results(builder.build(eqn.primitive.name), unused)


def _reference_call(eqn: Equation) -> Callable[..., Any]:
    """The NumPy reference as a host function, for operations without native code."""
    primitive, params = eqn.primitive, eqn.params

    def call(*arrays: np.ndarray) -> Sequence[np.ndarray]:
        with np.errstate(all="ignore"):
            outs = primitive.reference(*arrays, **params)
        return outs if primitive.multiple_results else [outs]

    return call


__all__ = ["Module", "Plan", "Region"]
