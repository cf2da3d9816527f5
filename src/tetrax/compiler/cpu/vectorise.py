"""Which loops run in lanes: legality, profit and width, decided on the kernel IR before any text is
made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tetrax.compiler.cpu.emitter import AliasClass, Emitter, alias_class
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_expr import BINDING_OPS, Expr, fold_parts
from tetrax.ir.kernel_index import affine_of, stride_of
from tetrax.ir.kernel_statements import Block, If, Loop, Statement, Store
from tetrax.ir.kernel_types import I64

_SMALL_BODY, _MEDIUM_BODY = 16, 24
"""Node counts up to which a fold keeps four, or two, vectors of accumulators in flight."""
_LONG, _WORK = 512, ((16, 1), (100, 4), (400, 2))
"""A loop of so many iterations keeps several vectors in flight, since the operations on one wait
for each other: by the nodes up to which it does, how many. More text takes longer to compile.
"""
_SMALL_PART = 6
"""A sixth of the values computed is a small part."""


_FEW_CARRIES = 3
"""Carries of an inner loop up to which each takes four registers; up to twice as many, two."""


@dataclass(frozen=True)
class FoldPlan:
    """Loops of a fold in the order to run, the last one in lanes: of several registers, `narrow` of
    which fill one.
    """

    loops: tuple[tuple[Expr, Expr], ...]
    lanes: int
    narrow: int


@dataclass(frozen=True)
class LoopPlan:
    """Lanes of a loop.

    `overlapped`: what does not fill a vector is covered by a last vector that repeats a few
    iterations, which is allowed where nothing that is stored is loaded.
    """

    lanes: int
    overlapped: bool


def value_nodes(roots: Iterable[Expr]) -> list[Expr]:
    """Every node that is computed on values, leaving out what only computes offsets."""
    seen: set[Expr] = set()
    order: list[Expr] = []
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        order.append(node)
        if node.op != "load":
            stack.extend(node.args)
    return order


def all_loads(roots: Iterable[Expr]) -> list[Expr]:
    """Every load below the roots, those in offsets too."""
    seen: set[Expr] = set()
    loads: list[Expr] = []
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(node.args)
            if node.op == "load":
                loads.append(node)
    return loads


def _lane_bits(nodes: Iterable[Expr], var: Expr) -> int:
    """The width of what is computed: the widest, unless it is a small part (a sum of much narrower
    values, say) that may as well take several registers.
    """
    bits = sorted(
        node.type.bits
        for node in nodes
        if var in node.free and node.type is not I64 and not node.type.is_bool
    )
    if not bits:
        return 64 if any(var in n.free and n.type is I64 for n in nodes) else 8
    return bits[len(bits) - 1 - len(bits) // _SMALL_PART]


def _fits_lanes(emitter: Emitter, nodes: Iterable[Expr], var: Expr) -> bool:
    """Finished lanes of a while loop go on computing, so it must not load out of bounds."""
    return not any(
        node.op == "iterate" and var in node.free and emitter.traits(node).unsafe for node in nodes
    )


def _power_of_two_up_to(value: int) -> int:
    return 1 << (value.bit_length() - 1)


def _reads_in_order(loads: Iterable[Expr], var: Expr) -> bool | None:
    """Whether some load moves by one or two elements with a variable; None if no load depends on
    it.
    """
    strides = [stride_of(load.args[0], var) for load in loads if var in load.free]
    if not strides:
        return None
    return any(stride in (1, -1, 2) for stride in strides)


def fold_plan(
    emitter: Emitter,
    loops: tuple[tuple[Expr, Expr], ...],
    updates: tuple[Expr, ...],
    operation: str | None,
) -> FoldPlan | None:
    """How a fold runs in lanes, or None where it does not."""
    if operation is None or emitter.check_bounds:
        return None
    if any(extent.op != "const" or extent.data == 0 for _, extent in loops):
        return None
    loads = all_loads(updates)
    chosen: int | None = None
    for at in range(len(loops) - 1, -1, -1):
        var, extent = loops[at]
        in_order = _reads_in_order(loads, var)
        wanted = in_order or (in_order is None and at == len(loops) - 1 and not loads)
        if wanted and extent.data >= 4:
            chosen = at
            break
    if chosen is None:
        return None
    var, extent = loops[chosen]
    nodes = value_nodes(updates)
    if not _fits_lanes(emitter, nodes, var):
        return None
    narrow = emitter.target.natural_lanes(_lane_bits(nodes, var))
    several = 4 if len(nodes) <= _SMALL_BODY else 2 if len(nodes) <= _MEDIUM_BODY else 1
    lanes = narrow * max(several, _vectors_in_flight(nodes, var, extent))
    lanes = min(lanes, _power_of_two_up_to(extent.data))
    ordered = (*loops[:chosen], *loops[chosen + 1 :], loops[chosen])
    return FoldPlan(ordered, lanes, min(narrow, lanes))


# --- loops of statements ---


def stores_of(statement: Statement) -> list[Store] | None:
    """The stores of a statement made of nothing but stores and branches around them, else None."""
    if isinstance(statement, Store):
        return [statement]
    if isinstance(statement, Block):
        parts = [stores_of(inner) for inner in statement.statements]
    elif isinstance(statement, If):
        parts = [stores_of(statement.then), stores_of(statement.orelse)]
    else:
        return None
    if any(part is None for part in parts):
        return None
    return [store for part in parts for store in part or ()]


def conditions_of(statement: Statement) -> list[Expr]:
    """The branch conditions inside a statement made of stores and branches."""
    if isinstance(statement, Block):
        return [c for inner in statement.statements for c in conditions_of(inner)]
    if isinstance(statement, If):
        inner = conditions_of(statement.then) + conditions_of(statement.orelse)
        return [statement.condition, *inner]
    return []


def lane_stores(statement: Statement) -> list[Store] | None:
    """The stores of a statement that can run in lanes: stores, branches and counted loops."""
    if isinstance(statement, Loop):
        return lane_stores(statement.body)
    if isinstance(statement, Block):
        parts = [lane_stores(inner) for inner in statement.statements]
        known = [part for part in parts if part is not None]
        return [s for part in known for s in part] if len(known) == len(parts) else None
    return stores_of(statement)


def _nested_loops(statement: Statement) -> list[Loop]:
    if isinstance(statement, Loop):
        return [statement, *_nested_loops(statement.body)]
    if isinstance(statement, Block):
        return [found for inner in statement.statements for found in _nested_loops(inner)]
    return []


def _same_element(offset: Expr, other: Expr, var: Expr) -> bool:
    """Whether iterations of a loop meet at an element only with themselves: offsets apart by less
    than a stride.
    """
    stride = stride_of(offset, var)
    if not stride or stride_of(other, var) != stride:
        return False
    terms, constant = affine_of(offset)
    other_terms, other_constant = affine_of(other)
    return terms == other_terms and abs(constant - other_constant) < abs(stride)


def _independent(stores: list[Store], loads: list[Expr], var: Expr) -> bool:
    by_memory: dict[AliasClass, list[Expr]] = {}
    for store in stores:
        by_memory.setdefault(alias_class(store.buffer), []).append(store.offset)
    for memory, offsets in by_memory.items():
        read = [load.args[0] for load in loads if alias_class(load.data) == memory]
        if len(offsets) == 1 and not read:
            continue  # lanes are stored in order, even if they meet
        first = offsets[0]
        if not all(_same_element(first, offset, var) for offset in offsets[1:] + read):
            return False
        if not stride_of(first, var):
            return False
    return True


def loop_plan(emitter: Emitter, loop: Loop) -> LoopPlan | None:
    """How a loop of stores runs in lanes, or None where it does not."""
    if _nested_loops(loop.body):
        return _plan_around_loops(emitter, loop)
    stores = stores_of(loop.body)
    if stores is None or not stores or loop.carried or emitter.check_bounds:
        return None
    var = loop.variable
    conditions = conditions_of(loop.body)
    roots = [*(s.value for s in stores), *conditions]
    loads = all_loads([*roots, *(s.offset for s in stores)])
    if loop.kind == "serial" and not _independent(stores, loads, var):
        return None
    contiguous = any(stride_of(s.offset, var) in (1, 2) for s in stores)
    if not contiguous and not _reads_in_order(loads, var):
        return None
    nodes = value_nodes(roots)
    if not _fits_lanes(emitter, nodes, var) or _folds_read_in_order(emitter, nodes, var):
        return None
    bits = _lane_bits(nodes, var)
    if len(nodes) < 2 * _SMALL_PART or not all(s.buffer.element.is_float for s in stores):
        bits = max(bits, *(s.buffer.element.bits for s in stores))
    lanes = _loop_lanes(emitter.target, bits, nodes, loop)
    if loop.extent.op == "const":
        if loop.extent.data < 2:
            return None
        lanes = min(lanes, _power_of_two_up_to(loop.extent.data))
    stored = {alias_class(s.buffer) for s in stores}
    overlapped = (
        loop.extent.op == "const"
        and not any(alias_class(load.data) in stored for load in loads)
        and all(stride_of(s.offset, var) for s in stores)
    )
    return LoopPlan(lanes, overlapped)


def _plan_around_loops(emitter: Emitter, loop: Loop) -> LoopPlan | None:
    """Lanes of a loop around loops with carries, each lane with carries of its own."""
    stores = lane_stores(loop.body)
    extent = loop.extent
    if not stores or loop.kind != "vector" or loop.carried or emitter.check_bounds:
        return None
    if extent.op != "const" or extent.data < 2:
        return None
    inner = _nested_loops(loop.body)
    carried = [c for nested in inner for c in nested.carried]
    roots = [*(s.value for s in stores), *(c.following for c in carried)]
    roots += [c.initial for c in carried]
    loads = all_loads([*roots, *(s.offset for s in stores)])
    nodes = value_nodes(roots)
    if any(var in nested.extent.free for nested in inner for var in (loop.variable,)) or any(
        node.op == "iterate" and emitter.traits(node).unsafe for node in nodes
    ):
        return None
    sizes = [node.type.bits for node in nodes if node.type is not I64 and not node.type.is_bool]
    bits = max(sizes, default=0)
    lanes = emitter.target.natural_lanes(max(bits, *(s.buffer.element.bits for s in stores)))
    # Steps depend on each other, so several registers a carry keep the machine busy.
    lanes *= 4 if len(carried) <= _FEW_CARRIES else 2 if len(carried) <= 2 * _FEW_CARRIES else 1
    lanes = min(lanes, _power_of_two_up_to(extent.data))
    stored = {alias_class(s.buffer) for s in stores}
    overlapped = not any(alias_class(load.data) in stored for load in loads)
    return LoopPlan(lanes, overlapped and all(stride_of(s.offset, loop.variable) for s in stores))


def _folds_read_in_order(emitter: Emitter, nodes: list[Expr], var: Expr) -> bool:
    """Whether a fold inside would run in lanes of its own and read memory in order, but not so
    in lanes of the loop.
    """
    for node in nodes:
        if node.op != "fold" or var not in node.free:
            continue
        extents, _, updates = fold_parts(node)
        loops = tuple(zip(node.data.variables, extents, strict=True))
        loads = all_loads(updates)
        spread = any(stride_of(load.args[0], var) not in (0, 1) for load in loads)
        if loads and spread and fold_plan(emitter, loops, updates, node.data.reassociate):
            return True
    return False


def _loop_lanes(target: Target, bits: int, nodes: list[Expr], loop: Loop) -> int:
    """A full register; several where folds inside run along columns and would read half cache
    lines, or where there is much to compute.
    """
    lanes = target.natural_lanes(bits)
    if any(node.op == "fold" and loop.variable in node.free for node in nodes):
        return lanes * 4 if len(nodes) <= _SMALL_BODY else lanes
    return lanes * _vectors_in_flight(nodes, loop.variable, loop.extent)


def _vectors_in_flight(nodes: list[Expr], var: Expr, extent: Expr) -> int:
    """How many vectors at a time a loop of much computing gains from."""
    if extent.op != "const" or extent.data < _LONG:
        return 1
    varying = [node for node in nodes if var in node.free]
    if any(node.op in BINDING_OPS for node in varying) or all(node.op != "fma" for node in varying):
        return 1
    return next((count for most, count in _WORK if len(varying) <= most), 1)
