"""What statements cost on one thread, in nanoseconds: a rough guess that decides what is shared.

Guesses only have to be right within a factor of two or so, and must depend on the kernel alone:
work that is cut in another way on another day would round in another way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tetrax.compiler.cpu.emit_tasks import touched
from tetrax.compiler.cpu.legalise import expressions
from tetrax.compiler.cpu.vectorise import stores_of
from tetrax.ir.kernel_expr import BINDING_OPS, Buffer, Expr, fold_parts, iterate_parts, walk
from tetrax.ir.kernel_index import stride_of
from tetrax.ir.kernel_operations import TRANSCENDENTAL_BINARY, TRANSCENDENTAL_UNARY
from tetrax.ir.kernel_statements import Block, Call, If, Loop, Statement, Store, While
from tetrax.ir.kernel_types import I64

_NANOSECONDS = 0.15
"""One simple operation, on a register of any width."""
_WEIGHTS = {
    "const": 0.0,
    "var": 0.0,
    "result": 0.0,
    "load": 1.0,
    "div": 6.0,
    "rem": 12.0,
    "sqrt": 6.0,
    "external": 60.0,
    **dict.fromkeys(TRANSCENDENTAL_UNARY, 25.0),
    **dict.fromkeys(TRANSCENDENTAL_BINARY, 80.0),
}
_REGISTER_BITS = 256
"""Lanes are counted as on a common machine, so that the cut is the same on all."""
_UNKNOWN_TURNS = 32
"""Turns of a loop whose number is not known."""
_CALL = 10_000.0
"""A library routine whose work is not known."""
_DIMENSIONS = {"tetrax_gemm": 3, "tetrax_conv": 4}
"""How many of a routine's first sizes make up its multiplications."""
_PER_ELEMENT = {
    **dict.fromkeys(("tetrax_fft_columns", "tetrax_fft_rows", "tetrax_fft_line"), 1.5),
    **dict.fromkeys(("tetrax_fft_split", "tetrax_fft_join"), 1.5),
    **dict.fromkeys(("tetrax_fft_real", "tetrax_fft_unreal"), 0.5),
}
"""Nanoseconds of those that are told how many elements they do, as the first size."""
_NEAR_BYTES = 256 * 1024
"""Memory up to which streaming runs from the core's own cache."""
_NEAR_RATE, _FAR_RATE = 30.0, 8.0
"""Bytes per nanosecond from that cache, and from memory."""
_FAR_SHARE = 8
"""Memory traffic counts for so much less where the question is whether to wake workers: a second
core adds less to it, and after a pause caches are cold.
"""


@dataclass(frozen=True)
class Cost:
    """Nanoseconds of computing and of memory traffic, which overlap."""

    compute: float
    memory: float

    @property
    def time(self) -> float:
        """What it takes on one thread."""
        return max(self.compute, self.memory)

    @property
    def work(self) -> int:
        """What the pool is told."""
        return int(max(self.compute, self.memory / _FAR_SHARE))


def cost_of(statement: Statement) -> Cost:
    """The cost of running a statement once."""
    return Cost(_compute(statement), _memory(statement))


# --- computing ---


def _compute(statement: Statement) -> float:
    if isinstance(statement, Block):
        return sum(_compute(inner) for inner in statement.statements)
    if isinstance(statement, Store):
        return _values([statement.value], 1)
    if isinstance(statement, Call):
        return _call(statement)
    if isinstance(statement, If):
        sides = max(_compute(statement.then), _compute(statement.orelse))
        return _values([statement.condition], 1) + sides
    carried = [c.following for c in statement.carried]
    if isinstance(statement, While):
        step = _compute(statement.body) + _values([statement.condition, *carried], 1)
        return _UNKNOWN_TURNS * step
    turns = turns_of(statement.extent)
    stores = stores_of(statement.body)
    if statement.kind == "vector" and stores is not None:
        values = [s.value for s in stores]
        lanes = lanes_of(statement.variable, values)
        spread = sum(
            _REGISTER_BITS // 32 for s in stores if stride_of(s.offset, statement.variable) != 1
        )
        step = _values(values, lanes, statement.variable) + spread * _NANOSECONDS
        return turns / lanes * (step + 2 * _NANOSECONDS)
    return turns * (_compute(statement.body) + _values(carried, 1) + 4 * _NANOSECONDS)


def turns_of(extent: Expr) -> int:
    """How often a loop is guessed to run."""
    return extent.data if extent.op == "const" else _UNKNOWN_TURNS


def lanes_of(variable: Expr, values: Iterable[Expr]) -> int:
    """The lanes in which values that vary with a variable are computed."""
    bits = [
        node.type.bits
        for node in walk(values)
        if variable in node.free and node.type is not I64 and not node.type.is_bool
    ]
    return max(1, _REGISTER_BITS // max(bits, default=32))


def _values(
    roots: Iterable[Expr],
    lanes: int,
    variable: Expr | None = None,
    inside: frozenset[Expr] = frozenset(),
    outside: list[Expr] | None = None,
) -> float:
    """Nanoseconds to compute values once, in lanes of `variable`.

    What does not depend on the variables `inside` a loop is added to `outside` and not counted.
    """
    total = 0.0
    seen: set[Expr] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if outside is not None and node.free.isdisjoint(inside):
            outside.append(node)
            continue
        if node.op in BINDING_OPS:
            total += _inner_loop(node, lanes, variable)
            continue
        weight = _WEIGHTS.get(node.op, 1.0)
        if node.op == "load":
            if variable is not None and stride_of(node.args[0], variable) not in (0, 1, -1):
                weight *= lanes  # gathered
        else:
            stack.extend(node.args)
        total += weight * _NANOSECONDS
    return total


def _inner_loop(node: Expr, lanes: int, variable: Expr | None) -> float:
    if node.op == "iterate":
        initial, following, condition = iterate_parts(node)
        step = _values([*following, condition], lanes, variable)
        return _values(initial, lanes, variable) + _UNKNOWN_TURNS * step
    extents, _, updates = fold_parts(node)
    turns = 1.0
    for extent in extents:
        turns *= turns_of(extent)
    own = frozenset((*node.data.variables, *node.data.accumulators))
    outside: list[Expr] = []
    if lanes == 1 and node.data.variables and node.data.reassociate is not None:
        inner = node.data.variables[-1]
        width = lanes_of(inner, updates)
        step = (_values(updates, width, inner, own, outside) + _NANOSECONDS) / width
    else:
        step = _values(updates, lanes, variable, own, outside) + 3 * _NANOSECONDS
    return turns * step + _values(outside, lanes, variable)


def _call(statement: Call) -> float:
    name = statement.symbol.rpartition("_")[0]
    sizes = [a for a in statement.arguments if isinstance(a, Expr) and a.type is I64]
    if name in _PER_ELEMENT:
        return 20.0 + turns_of(sizes[0]) * _PER_ELEMENT[name]
    dimensions = _DIMENSIONS.get(name)
    if dimensions is None:
        return _CALL
    sizes = sizes[:dimensions]
    flops = 2.0
    for size in sizes:
        flops *= turns_of(size)
    return 50.0 + flops / 50


# --- memory ---


def _memory(statement: Statement) -> float:
    """Nanoseconds for the bytes that a statement reads and writes, each buffer counted once."""
    traffic = 0.0
    for buffer, turns in _uses(statement).items():
        traffic += min(float(buffer.size), turns) * buffer.element.bytes
    rate = _NEAR_RATE if traffic <= _NEAR_BYTES else _FAR_RATE
    return traffic / rate


def _uses(statement: Statement) -> dict[Buffer, float]:
    """How often each buffer's elements are touched."""
    found: dict[Buffer, float] = {}
    known: dict[Expr, _Reads] = {}

    def add(buffer: Buffer, turns: float) -> None:
        found[buffer] = max(found.get(buffer, 0.0), turns)

    def visit(inner: Statement, turns: float) -> None:
        if isinstance(inner, Block):
            for each in inner.statements:
                visit(each, turns)
            return
        if isinstance(inner, If):
            visit(inner.then, turns)
            visit(inner.orelse, turns)
            return
        if isinstance(inner, Loop | While):
            count = turns_of(inner.extent) if isinstance(inner, Loop) else _UNKNOWN_TURNS
            for carried in inner.carried:
                loads(carried.following, turns * count)
            visit(inner.body, turns * count)
            return
        for buffer in touched(inner):
            add(buffer, turns)
        for root in expressions(inner):
            loads(root, turns)

    def loads(root: Expr, turns: float) -> None:
        inside, buffers = _reads(root, known)
        for buffer in buffers:
            add(buffer, turns * inside)

    visit(statement, 1.0)
    return found


_Reads = tuple[float, frozenset[Buffer]]


def _reads(root: Expr, known: dict[Expr, _Reads]) -> _Reads:
    """The most turns that a fold below a value takes, inner ones counted as often as they run, and
    the buffers that are read; `known` holds the same of values seen before.
    """
    for node in walk([root], known):
        turns, buffers = 1.0, _NO_BUFFERS
        for arg in node.args:
            inner, read = known[arg]
            turns = max(turns, inner)
            if not read <= buffers:
                buffers = buffers | read
        if node.op == "load":
            buffers = buffers | {node.data}
        if node.op == "fold":
            for extent in fold_parts(node)[0]:
                turns *= turns_of(extent)
        known[node] = turns, buffers
    return known[root]


_NO_BUFFERS: frozenset[Buffer] = frozenset()
