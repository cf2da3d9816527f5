"""Loads and stores: contiguous, repeated, reversed, paired or scattered, according to how the
offset varies by lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tetrax.compiler.cpu.emitter import Emitter, Rule, in_bounds
from tetrax.compiler.cpu.llvm_text import memory_type, register_type
from tetrax.ir.kernel_expr import Buffer, Expr
from tetrax.ir.kernel_index import affine_of, from_affine, interval_of
from tetrax.ir.kernel_types import ScalarType


@dataclass(frozen=True)
class Access:
    """An offset seen by lanes: `base + stride * lane`, or, with stride None, a vector of
    offsets.
    """

    rest: Expr  # what does not vary by lane
    linear: tuple[tuple[Expr, int], ...]  # lane-varying loop variables and their coefficients
    stride: int | None


def access_of(emitter: Emitter, offset: Expr) -> Access:
    """How an offset varies by lane."""
    terms, constant = affine_of(offset)
    varying = tuple((t, c) for t, c in terms if emitter.lanes_of(t) > 1)
    if not all(t.op == "var" and emitter.bindings[t].linear for t, _ in varying):
        return Access(offset, (), None)
    rest = from_affine((tuple((t, c) for t, c in terms if emitter.lanes_of(t) == 1), constant))
    return Access(rest, varying, sum(c for _, c in varying))


def _alignment(type: ScalarType) -> str:
    return f"align {type.bytes}"


def _pointer(emitter: Emitter, buffer: Buffer, access: Access, shift: int = 0) -> str:
    """The address of lane 0, `shift` elements further.

    The parts of the offset are added from the outermost loop inwards, each where it is known.
    """
    parts = [_linear_part(emitter, var, coefficient) for var, coefficient in access.linear]
    if not (access.rest.op == "const" and access.rest.data == 0):
        text = emitter.operand(access.rest)
        found = emitter.find(access.rest)
        parts.append((0 if found is None else found[1], text))
    element = memory_type(buffer.element)
    base, reached = emitter.addresses[buffer], 0
    for depth, text in sorted(parts, key=lambda part: part[0]):
        reached = max(reached, depth)
        base = _moved(emitter, reached, base, element, text)
    return base if shift == 0 else _moved(emitter, reached, base, element, str(shift))


def _moved(emitter: Emitter, depth: int, base: str, element: str, offset: str) -> str:
    instruction = f"getelementptr {element}, ptr {base}, i64 {offset}"
    return emitter.once(depth, instruction, lambda: emitter.emit(instruction))


def _linear_part(emitter: Emitter, var: Expr, coefficient: int) -> tuple[int, str]:
    """(depth, text) of a lane-varying loop variable's share of an offset, in lane 0."""
    binding = emitter.bindings[var]
    if coefficient == 1:
        return binding.depth, binding.text
    instruction = f"mul i64 {binding.text}, {coefficient}"
    text = emitter.once(binding.depth, instruction, lambda: emitter.emit(instruction))
    return binding.depth, text


def from_memory(emitter: Emitter, type: ScalarType, text: str, lanes: int) -> str:
    """The register value of a loaded element."""
    memory, register = memory_type(type, lanes), register_type(type, lanes)
    if memory == register:
        return text
    if type.is_bool:
        return emitter.emit(f"icmp ne {memory} {text}, {'zeroinitializer' if lanes > 1 else '0'}")
    return emitter.emit(f"trunc {memory} {text} to {register}")


def to_memory(emitter: Emitter, type: ScalarType, text: str, lanes: int) -> str:
    """The element to store for a register value."""
    memory, register = memory_type(type, lanes), register_type(type, lanes)
    if memory == register:
        return text
    name = "sext" if type.is_signed else "zext"
    return emitter.emit(f"{name} {register} {text} to {memory}")


def _load_rule(emitter: Emitter, node: Expr) -> str:
    buffer, offset = node.data, node.args[0]
    lanes = emitter.lanes_of(node)
    if lanes == 1:
        pointer = _checked(emitter, buffer, offset, _pointer(emitter, buffer, _plain(offset)))
        text = _load(emitter, buffer.element, pointer, 1)
        return from_memory(emitter, buffer.element, text, 1)
    access = access_of(emitter, offset)
    text = _load_lanes(emitter, buffer, offset, access, lanes)
    return from_memory(emitter, buffer.element, text, lanes)


def _plain(offset: Expr) -> Access:
    return Access(offset, (), 0)


def _load(emitter: Emitter, type: ScalarType, pointer: str, lanes: int) -> str:
    return emitter.emit(f"load {memory_type(type, lanes)}, ptr {pointer}, {_alignment(type)}")


def shuffle(emitter: Emitter, kind: str, text: str, picks: Sequence[int]) -> str:
    """Some lanes of a vector, in a given order."""
    mask = ", ".join(f"i32 {pick}" for pick in picks)
    return emitter.emit(
        f"shufflevector {kind} {text}, {kind} poison, <{len(picks)} x i32> <{mask}>"
    )


def _load_lanes(emitter: Emitter, buffer: Buffer, offset: Expr, access: Access, lanes: int) -> str:
    type = buffer.element
    if access.stride == 1:
        return _load(emitter, type, _pointer(emitter, buffer, access), lanes)
    if access.stride == -1:
        first = _pointer(emitter, buffer, access, 1 - lanes)
        text = _load(emitter, type, first, lanes)
        return shuffle(emitter, memory_type(type, lanes), text, range(lanes - 1, -1, -1))
    if access.stride == 2 and _pair_in_bounds(buffer, offset):
        odd = affine_of(offset)[1] % 2
        pointer = _pointer(emitter, buffer, access, -odd)
        text = _load(emitter, type, pointer, 2 * lanes)
        return shuffle(emitter, memory_type(type, 2 * lanes), text, range(odd, 2 * lanes, 2))
    return _gather(emitter, buffer, offset, access, lanes)


def _pair_in_bounds(buffer: Buffer, offset: Expr) -> bool:
    """Whether the pair an element belongs to lies inside the buffer in every lane."""
    bounds = interval_of(offset)
    odd = affine_of(offset)[1] % 2
    return bounds is not None and bounds[0] - odd >= 0 and bounds[1] + 1 - odd < buffer.size


def _lane_pointers(
    emitter: Emitter, buffer: Buffer, offset: Expr, access: Access, lanes: int
) -> list[str]:
    element = memory_type(buffer.element)
    if access.stride is not None:
        first = _pointer(emitter, buffer, access)
        return [
            emitter.emit(f"getelementptr {element}, ptr {first}, i64 {lane * access.stride}")
            for lane in range(lanes)
        ]
    offsets = emitter.operand(offset, lanes)
    base = emitter.addresses[buffer]
    pointers = []
    for lane in range(lanes):
        one = emitter.emit(f"extractelement <{lanes} x i64> {offsets}, i64 {lane}")
        pointers.append(emitter.emit(f"getelementptr {element}, ptr {base}, i64 {one}"))
    return pointers


def _gather(emitter: Emitter, buffer: Buffer, offset: Expr, access: Access, lanes: int) -> str:
    kind, element = memory_type(buffer.element, lanes), memory_type(buffer.element)
    whole = "poison"
    for lane, pointer in enumerate(_lane_pointers(emitter, buffer, offset, access, lanes)):
        one = _load(emitter, buffer.element, pointer, 1)
        whole = emitter.emit(f"insertelement {kind} {whole}, {element} {one}, i64 {lane}")
    return whole


# --- stores ---


def store_scalar(emitter: Emitter, buffer: Buffer, offset: Expr, value: Expr) -> None:
    """Store one element."""
    text = to_memory(emitter, buffer.element, emitter.operand(value), 1)
    pointer = _pointer(emitter, buffer, _plain(offset))
    pointer = _checked(emitter, buffer, offset, pointer)
    emitter.effect(
        f"store {memory_type(buffer.element)} {text}, ptr {pointer}, {_alignment(buffer.element)}"
    )


def store_lanes(
    emitter: Emitter, buffer: Buffer, offset: Expr, value: Expr, lanes: int, mask: str | None = None
) -> None:
    """Store one element per lane, in the order of the lanes; only where the mask is set if there is
    one.
    """
    type = buffer.element
    text = to_memory(emitter, type, emitter.operand(value, lanes), lanes)
    access = access_of(emitter, offset)
    kind, element = memory_type(type, lanes), memory_type(type)
    if access.stride == 1 and mask is None:
        pointer = _pointer(emitter, buffer, access)
        emitter.effect(f"store {kind} {text}, ptr {pointer}, {_alignment(type)}")
        return
    if access.stride == 1:
        pointer = _pointer(emitter, buffer, access)
        suffix = f"v{lanes}{_INTRINSIC_NAMES.get(element, element)}.p0"
        emitter.effect(
            f"call void @llvm.masked.store.{suffix}({kind} {text}, "
            f"ptr {_alignment(type)} {pointer}, <{lanes} x i1> {mask})"
        )
        return
    for lane, pointer in enumerate(_lane_pointers(emitter, buffer, offset, access, lanes)):
        one = emitter.emit(f"extractelement {kind} {text}, i64 {lane}")
        _store_one(emitter, type, one, pointer, lane, lanes, mask)


_INTRINSIC_NAMES = {"float": "f32", "double": "f64"}


def _store_one(
    emitter: Emitter,
    type: ScalarType,
    text: str,
    pointer: str,
    lane: int,
    lanes: int,
    mask: str | None,
) -> None:
    instruction = f"store {memory_type(type)} {text}, ptr {pointer}, {_alignment(type)}"
    if mask is None:
        emitter.effect(instruction)
        return
    bit = emitter.emit(f"extractelement <{lanes} x i1> {mask}, i64 {lane}")
    then, after = emitter.fresh("store"), emitter.fresh("after")
    emitter.effect(f"br i1 {bit}, label %{then}, label %{after}")
    emitter.start_block(then)
    emitter.effect(instruction)
    emitter.effect(f"br label %{after}")
    emitter.start_block(after)


def store_pairs(
    emitter: Emitter, buffer: Buffer, offset: Expr, even: Expr, odd: Expr, lanes: int
) -> None:
    """Store two elements per lane side by side (real and imaginary parts), `offset` being the even
    one.
    """
    type = buffer.element
    halves = [to_memory(emitter, type, emitter.operand(v, lanes), lanes) for v in (even, odd)]
    kind = memory_type(type, lanes)
    picks = [lane + half * lanes for lane in range(lanes) for half in (0, 1)]
    mask = ", ".join(f"i32 {pick}" for pick in picks)
    text = emitter.emit(
        f"shufflevector {kind} {halves[0]}, {kind} {halves[1]}, <{2 * lanes} x i32> <{mask}>"
    )
    pointer = _pointer(emitter, buffer, access_of(emitter, offset))
    emitter.effect(
        f"store {memory_type(type, 2 * lanes)} {text}, ptr {pointer}, {_alignment(type)}"
    )


def address_text(emitter: Emitter, buffer: Buffer, offset: Expr) -> str:
    """The address of an element, for a call."""
    return _pointer(emitter, buffer, _plain(offset))


# --- bounds ---

BOUNDS_SYMBOL = "tetrax_bounds_error"
"""A block of five i64 words: violated flag, kernel number, buffer index, offset, and a place for
skipped accesses.
"""


def _checked(emitter: Emitter, buffer: Buffer, offset: Expr, pointer: str) -> str:
    """With bounds checks on: the address, or a harmless one after recording the violation."""
    if not emitter.check_bounds or in_bounds(buffer, offset):
        return pointer
    emitter.declarations.add(f"@{BOUNDS_SYMBOL} = external global [8 x i64]")
    place = f"getelementptr (i64, ptr @{BOUNDS_SYMBOL}, i64 4)"
    index = emitter.operand(offset)
    inside = emitter.emit(f"icmp ult i64 {index}, {buffer.size}")
    bad, after = emitter.fresh("outside"), emitter.fresh("after")
    emitter.effect(f"br i1 {inside}, label %{after}, label %{bad}")
    emitter.start_block(bad)
    number = emitter.kernel.buffers.index(buffer)
    words = (1, emitter.kernel_number, number, index)
    for word, text in enumerate(words):
        emitter.effect(
            f"store i64 {text}, ptr getelementptr (i64, ptr @{BOUNDS_SYMBOL}, i64 {word})"
        )
    emitter.effect(f"br label %{after}")
    emitter.start_block(after)
    return emitter.emit(f"select i1 {inside}, ptr {pointer}, ptr {place}")


MEMORY_RULES: dict[str, Rule] = {"load": _load_rule}
