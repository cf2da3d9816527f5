"""Which loops may run their iterations at the same time, and what statements use."""

from __future__ import annotations

from collections.abc import Iterator

from tetrax.compiler.cpu.emit_tasks import touched
from tetrax.compiler.cpu.emitter import AliasClass, alias_class
from tetrax.compiler.cpu.legalise import expressions
from tetrax.compiler.cpu.vectorise import all_loads
from tetrax.ir.kernel_expr import Buffer, Expr
from tetrax.ir.kernel_index import affine_of, from_affine, interval_of, stride_of
from tetrax.ir.kernel_statements import (
    Address,
    Block,
    Call,
    If,
    Loop,
    Procedure,
    Statement,
    Store,
    While,
)

ONLY_READ = {
    "tetrax_gemm": 2,
    "tetrax_gemm_small": 2,
    "tetrax_gemm_then": 2,
    "tetrax_conv": 5,
    "tetrax_fft_split": 4,
    "tetrax_fft_join": 2,
    "tetrax_fft_columns": 2,
    "tetrax_fft_rows": 2,
    "tetrax_fft_line": 2,
    "tetrax_fft_real": 2,
    "tetrax_fft_unreal": 2,
}
"""How many of a library routine's first arguments it only reads."""


def leaves(statement: Statement) -> Iterator[Store | Call]:
    """The stores and calls inside a statement."""
    if isinstance(statement, Store | Call):
        yield statement
        for argument in statement.arguments if isinstance(statement, Call) else ():
            if isinstance(argument, Procedure):
                yield from leaves(argument.body)
    elif isinstance(statement, Block):
        for inner in statement.statements:
            yield from leaves(inner)
    elif isinstance(statement, If):
        yield from leaves(statement.then)
        yield from leaves(statement.orelse)
    else:
        yield from leaves(statement.body)


def loads_of(statement: Statement) -> list[Expr]:
    """Every load in a statement."""
    return all_loads(expressions(statement))


def buffers_of(statement: Statement) -> set[Buffer]:
    """Every buffer that a statement uses."""
    return {load.data for load in loads_of(statement)} | set(touched(statement))


def private_buffers(loop: Loop, used_elsewhere: set[Buffer]) -> list[Buffer]:
    """The temporary buffers that each task of a 'parallel' loop needs a copy of: those used only
    there, and those whose elements all iterations use, which by the promise they must not share.
    """
    if loop.kind != "parallel":
        return []
    accesses: dict[Buffer, list[Expr]] = {}
    for load in loads_of(loop.body):
        accesses.setdefault(load.data, []).append(load.args[0])
    for leaf in leaves(loop.body):
        for buffer, offset in _places(leaf):
            accesses.setdefault(buffer, []).append(offset)
    own = [
        buffer
        for buffer, offsets in accesses.items()
        if buffer.mode == "temp"
        and (
            buffer not in used_elsewhere
            or any(loop.variable not in offset.free for offset in offsets)
        )
    ]
    stored = {buffer for leaf in leaves(loop.body) for buffer in _written(leaf)}
    return sorted((b for b in own if b in stored), key=lambda buffer: buffer.name)


def _written(leaf: Store | Call) -> list[Buffer]:
    """The buffers that a statement may write."""
    if isinstance(leaf, Store):
        return [leaf.buffer]
    only_read = ONLY_READ.get(leaf.symbol.rpartition("_")[0], 0)
    return [a.buffer for a in leaf.arguments[only_read:] if isinstance(a, Address)]


def _places(leaf: Store | Call) -> list[tuple[Buffer, Expr]]:
    if isinstance(leaf, Store):
        return [(leaf.buffer, leaf.offset)]
    return [(a.buffer, a.offset) for a in leaf.arguments if isinstance(a, Address)]


def is_independent(loop: Loop) -> bool:
    """Whether no iteration of a loop touches what another one stores: promised, or proven."""
    if loop.carried or loop.kind == "tasks":
        return False
    if loop.kind == "parallel":
        return True
    inner = list(leaves(loop.body))
    if any(isinstance(leaf, Call) for leaf in inner):
        return False
    stores = [leaf for leaf in inner if isinstance(leaf, Store)]
    if loop.kind == "vector":
        # the promise, as far as lanes need no order
        return all(stride_of(store.offset, loop.variable) for store in stores)
    return _are_apart(stores, loads_of(loop.body), loop)


def _are_apart(stores: list[Store], loads: list[Expr], loop: Loop) -> bool:
    """Whether the elements that stores and loads of one memory touch move on with the loop by more
    than they spread.
    """
    accesses: dict[AliasClass | None, list[tuple[Buffer, Expr]]] = {}
    for store in stores:
        accesses.setdefault(alias_class(store.buffer), []).append((store.buffer, store.offset))
    for load in loads:
        if alias_class(load.data) in accesses:
            accesses[alias_class(load.data)].append((load.data, load.args[0]))
    own = _variables_inside(loop)
    return all(
        len({buffer.element for buffer, _ in places}) == 1
        and (
            _move_on([offset for _, offset in places], loop.variable, own)
            or _are_digits([offset for _, offset in places], loop.variable, own)
        )
        for places in accesses.values()
    )


def _move_on(offsets: list[Expr], var: Expr, own: set[Expr]) -> bool:
    """Whether a step of the loop is longer than all that one iteration spans."""
    stride: int | None = None
    outside: Expr | None = None
    lowest, highest = 0, 0
    for at, offset in enumerate(offsets):
        step = stride_of(offset, var)
        if not step:
            return False
        terms, constant = affine_of(offset)
        fixed = tuple((t, c) for t, c in terms if t is not var and t.free.isdisjoint(own))
        moving = tuple((t, c) for t, c in terms if t is not var and not t.free.isdisjoint(own))
        bounds = interval_of(from_affine((moving, constant)))
        if bounds is None or any(term.op == "load" for term, _ in moving):
            return False
        base = from_affine((fixed, 0))
        if at == 0:
            stride, outside = step, base
            lowest, highest = bounds
        elif step != stride or base is not outside:
            return False
        lowest, highest = min(lowest, bounds[0]), max(highest, bounds[1])
    return stride is not None and highest - lowest < abs(stride)


def _are_digits(offsets: list[Expr], var: Expr, own: set[Expr]) -> bool:
    """Whether the variables in equal offsets are like the digits of a number: each steps over all
    that the lesser ones reach, so that no element is met twice.
    """
    terms = affine_of(offsets[0])[0]
    if any(affine_of(offset)[0] != terms for offset in offsets) or not stride_of(offsets[0], var):
        return False
    constants = [affine_of(offset)[1] for offset in offsets]
    reached = max(constants) - min(constants)
    moving = [(abs(c), t) for t, c in terms if t is var or not t.free.isdisjoint(own)]
    for coefficient, term in sorted(moving, key=lambda pair: pair[0]):
        bounds = interval_of(term) if term.op == "var" else None
        if bounds is None or coefficient <= reached:
            return False
        reached += coefficient * (bounds[1] - bounds[0])
    return True


def _variables_inside(loop: Loop) -> set[Expr]:
    """The variables that change within one iteration."""
    found: set[Expr] = set()
    stack: list[Statement] = [loop.body]
    while stack:
        statement = stack.pop()
        if isinstance(statement, Block):
            stack.extend(statement.statements)
        elif isinstance(statement, If):
            stack += [statement.then, statement.orelse]
        elif isinstance(statement, Loop | While):
            found.update(c.variable for c in statement.carried)
            if isinstance(statement, Loop):
                found.add(statement.variable)
            stack.append(statement.body)
    return found


def may_run_twice(loop: Loop, private: list[Buffer]) -> bool:
    """Whether running an iteration again, even at the same time, changes nothing."""
    inner = list(leaves(loop.body))
    if any(isinstance(leaf, Call) for leaf in inner):
        return False
    own = set(private)
    stored = {alias_class(b) for b in touched(loop.body) if b not in own}
    return not any(alias_class(load.data) in stored for load in loads_of(loop.body))
