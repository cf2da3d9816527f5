"""What is done with the elements of a matrix product, done block by block while they are near.

A kernel that reads a product element by element (a bias and an activation, say) becomes the
epilogue of the product: the routine calls it for each block of the result that is finished. Where
nobody else reads the product, it is formed in the memory of a result of the epilogue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from tetrax.compiler.cpu.legalise import is_routine
from tetrax.compiler.nest import row_major
from tetrax.compiler.plain_nests import innermost_stores, loops_of, on_buffers
from tetrax.compiler.steps import KernelStep, SliceSlot, Slot, Step, TempSlot, nested, slots_of
from tetrax.ir.kernel import Kernel
from tetrax.ir.kernel_expr import BINDING_OPS, Buffer, Expr, walk
from tetrax.ir.kernel_operations import add, div, index_variable, mul, rem
from tetrax.ir.kernel_simplify import substitute_simplified
from tetrax.ir.kernel_statements import (
    Address,
    Block,
    Call,
    Loop,
    Procedure,
    Statement,
    Store,
    block,
    index,
)
from tetrax.ir.kernel_types import I32

LEAST_WORK = 800_000
"""Multiplications from which a product, and its epilogue with it, is shared between threads."""
_ROUTINES = {f"tetrax_gemm_{type}": f"tetrax_gemm_then_{type}" for type in ("f32", "f64")}


def fuse_epilogues(steps: Sequence[Step]) -> list[Step]:
    """The steps with kernels that go over a product made part of it."""
    readers: dict[Slot, set[Step]] = {}
    _note_readers(steps, readers)
    return _Fuser(readers).run(list(steps))


def _note_readers(steps: Sequence[Step], readers: dict[Slot, set[Step]]) -> None:
    for step in steps:
        for slot in _whole_slots(step):
            readers.setdefault(slot, set()).add(step)
        for inner in nested(step):
            _note_readers(inner, readers)


def _whole_slots(step: Step) -> set[Slot]:
    """The slots a step names, whole ones where it names a slice."""
    found = set()
    for slot in slots_of(step):
        while isinstance(slot, SliceSlot):
            slot = slot.base
        found.add(slot)
    return found


@dataclass(frozen=True)
class _Product:
    """A kernel that ends in one large product, and the buffer that this fills, row after row."""

    call: Call
    before: tuple[Statement, ...]
    target: Buffer
    rows: int
    columns: int


class _Fuser:
    def __init__(self, readers: Mapping[Slot, set[Step]]) -> None:
        self.readers = readers
        # Equal layers have the same kernels, and must have the same fused ones.
        self._known: dict[tuple[Kernel, Kernel, Buffer, bool], Kernel | None] = {}

    def run(self, steps: list[Step]) -> list[Step]:
        at = 0
        while at < len(steps):
            for inner in nested(steps[at]):
                inner[:] = self.run(inner)
            step, follower, fused = steps[at], None, None
            product = _product_of(step.kernel) if isinstance(step, KernelStep) else None
            if product is not None:
                follower = self._follower(steps, at, product)
            if product is not None and follower is not None:
                fused = self._fused(step, product, steps[follower])
            if fused is None or follower is None:
                at += 1
            else:
                # The epilogue may need what stands between, so the product waits for it.
                steps[follower] = fused
                del steps[at]
        return steps

    def _follower(self, steps: Sequence[Step], at: int, product: _Product) -> int | None:
        """The position of the first step that reads a product, if that can wait until then."""
        step = steps[at]
        assert isinstance(step, KernelStep)
        slot = _slot_of(step, product.target)
        others = _whole_slots(step) - {slot}
        for position in range(at + 1, len(steps)):
            later = steps[position]
            if slot in _all_slots(later):
                return position if isinstance(later, KernelStep) else None
            if others & _written(later):
                return None
        return None

    def _fused(self, step: Step, product: _Product, follower: Step) -> KernelStep | None:
        assert isinstance(step, KernelStep) and isinstance(follower, KernelStep)
        slot = _slot_of(step, product.target)
        places = [i for i, other in enumerate(follower.slots) if other is slot]
        if len(places) != 1:
            return None
        read = follower.kernel.parameters[places[0]]
        alone = isinstance(slot, TempSlot) and self.readers[slot] == {step, follower}
        key = step.kernel, follower.kernel, read, alone
        if key not in self._known:
            self._known[key] = _with_epilogue(step.kernel, product, follower.kernel, read, alone)
        kernel = self._known[key]
        if kernel is None:
            return None
        by_name = _by_name(step, "") | _by_name(follower, "then_")
        fused = KernelStep(kernel, [by_name[buffer.name] for buffer in kernel.parameters])
        for other in _whole_slots(fused):
            self.readers[other].add(fused)
            self.readers[other].difference_update((step, follower))
        return fused


def _by_name(step: KernelStep, prefix: str) -> dict[str, Slot]:
    names = (prefix + buffer.name for buffer in step.kernel.parameters)
    return dict(zip(names, step.slots, strict=True))


def _slot_of(step: KernelStep, buffer: Buffer) -> Slot:
    return step.slots[step.kernel.parameters.index(buffer)]


def _all_slots(step: Step) -> set[Slot]:
    """The slots a step names, and those inside it."""
    inside = chain.from_iterable(_all_slots(s) for steps in nested(step) for s in steps)
    return _whole_slots(step) | set(inside)


def _written(step: Step) -> set[Slot]:
    """The slots that a step may write: all of a step that is no kernel."""
    if not isinstance(step, KernelStep):
        return _all_slots(step)
    pairs = zip(step.kernel.parameters, step.slots, strict=True)
    return {slot for buffer, slot in pairs if buffer.mode != "in"}


# -- kernels ---------------------------------------------------------------------------------------


def _product_of(kernel: Kernel) -> _Product | None:
    """The product that a kernel ends in, if it has one that is worth an epilogue."""
    body = kernel.body
    statements = body.statements if isinstance(body, Block) else (body,)
    call = statements[-1] if statements else None
    if not isinstance(call, Call) or call.symbol not in _ROUTINES:
        return None
    target, accumulate = call.arguments[2], call.arguments[11]
    sizes = [x.data for x in call.arguments[3:11] if isinstance(x, Expr) and x.op == "const"]
    if len(sizes) != 8 or not isinstance(target, Address) or not isinstance(accumulate, Expr):
        return None
    m, n, k, row = *sizes[:3], sizes[7]
    plain = (
        accumulate.type is I32
        and (accumulate.op, accumulate.data) == ("const", 0)
        and (target.offset.op, target.offset.data) == ("const", 0)
        and target.buffer.mode == "out"
        and row == n
        and m * n == target.buffer.size
        and m * n * k >= LEAST_WORK
    )
    return _Product(call, statements[:-1], target.buffer, m, n) if plain else None


def _with_epilogue(
    kernel: Kernel, product: _Product, after: Kernel, read: Buffer, alone: bool
) -> Kernel | None:
    """One kernel of both; None where the second one does not go over the product in order.

    `alone`: nobody else reads the product, so it may lie where a result of the second one will.
    """
    stores = innermost_stores(after.body)
    if stores is None or any(buffer.mode == "temp" for buffer in after.buffers):
        return None
    if not _in_order(stores, read, loops_of(after.body)):
        return None
    buffers = {b: replace(b, name=f"then_{b.name}") for b in after.buffers if b != read}
    place = next((s.buffer for s in stores if s.buffer.element is read.element), None)
    target = buffers[place] if alone and place is not None else product.target
    stores.sort(key=lambda store: buffers[store.buffer] == target)  # last: others read the product
    moved = [on_buffers(store, {**buffers, read: target}) for store in stores]
    epilogue = _over_blocks(moved, loops_of(after.body), product)
    if epilogue is None:
        return None
    call = product.call
    arguments = [*call.arguments, epilogue]
    arguments[2] = Address(target, index(0))
    last = Call(_ROUTINES[call.symbol], tuple(arguments))
    own = [b for b in kernel.buffers if b != product.target or target == product.target]
    return Kernel("product", (*own, *buffers.values()), (), block(*product.before, last))


def _in_order(stores: Sequence[Store], read: Buffer, loops: Sequence[tuple[Expr, Expr]]) -> bool:
    """Whether a nest goes over the elements in row-major order, and reads and stores just there.

    What computes long is not worth it: loops of known length do that faster, and memory hides.
    """
    if any(extent.op != "const" for _, extent in loops):
        return False
    offset = row_major([extent.data for _, extent in loops], [variable for variable, _ in loops])
    values = list(walk(chain.from_iterable((s.value, s.offset) for s in stores)))
    reads = [node.args[0] for node in values if node.op == "load" and node.data == read]
    costly = any(node.op in BINDING_OPS or is_routine(node) for node in values)
    return not costly and all(place is offset for place in [*reads, *(s.offset for s in stores)])


def _over_blocks(
    stores: Sequence[Store], loops: Sequence[tuple[Expr, Expr]], product: _Product
) -> Procedure | None:
    """The stores for the elements of a block; None where its columns are no loop of the nest."""
    first_row, rows, first_column, columns = parameters = tuple(
        index_variable(name) for name in ("row0", "rows", "column0", "columns")
    )
    i, j = index_variable("i", rows), index_variable("j", columns)
    row, column = add(first_row, i), add(first_column, j)
    (*outer, (last, extent)) = loops
    places: dict[Expr, Expr] = {}
    if extent.data == product.columns:
        places[last] = column
        for variable, size in reversed(outer):
            places[variable] = row if variable is outer[0][0] else rem(row, size)
            row = div(row, size)
    elif not outer:
        places[last] = add(mul(row, product.columns), column)
    else:
        return None
    roots = [x for store in stores for x in (store.offset, store.value)]
    parts = iter(substitute_simplified(roots, places))
    moved = [Store(store.buffer, next(parts), next(parts)) for store in stores]
    inner = Loop(j, columns, block(*moved), (), "vector")
    return Procedure(parameters, Loop(i, rows, inner))
