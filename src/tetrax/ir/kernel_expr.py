"""Expression nodes of the kernel IR: immutable and interned, so that equality is identity.

Nodes are made by the checked functions of `ir/kernel.py`; only that module and the passes over
expressions call `make` directly.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tetrax.errors import KernelError
from tetrax.ir.kernel_types import ScalarType

BUFFER_MODES = ("in", "out", "inout", "update", "temp")


@dataclass(frozen=True)
class Buffer:
    """A named piece of memory of `size` elements that a kernel reads or writes.

    `mode` 'in' is only loaded, 'out' only has to be stored, 'inout' and 'update' both. Buffers
    never overlap, except that two 'inout' buffers may be one and the same memory. A 'temp' buffer
    lives in the kernel's scratch space; its contents are undefined at the start.
    """

    name: str
    element: ScalarType
    size: int
    mode: str = "in"

    def __post_init__(self) -> None:
        if self.mode not in BUFFER_MODES:
            raise KernelError(f"buffer {self.name}: mode {self.mode!r} is none of {BUFFER_MODES}")
        if self.size < 0:
            raise KernelError(f"buffer {self.name}: negative size {self.size}")


class Expr:
    """One expression node: an operation on argument expressions, giving one scalar.

    `data` holds what is not an expression: a constant's value, a variable's identity, a load's
    buffer, the bound variables of a fold. Arithmetic operators build new nodes; `==` is identity.
    """

    __slots__ = (
        "__weakref__",
        "affine",
        "args",
        "data",
        "free",
        "interval",
        "op",
        "serial",
        "type",
    )

    op: str
    type: ScalarType
    args: tuple[Expr, ...]
    data: Any
    free: frozenset[Expr]
    serial: int
    affine: Any  # caches of ir/kernel_index.py
    interval: Any

    def __repr__(self) -> str:
        return short_text(self)


ExprLike = Expr | int | float | bool
"""What a constructor accepts as an operand; Python scalars take the other operand's type."""

_serial = itertools.count()


class _Reference(weakref.ref[Expr]):
    """A weak reference that knows where it stands in the table."""

    __slots__ = ("key",)

    key: Hashable


_nodes: dict[Hashable, weakref.ref[Expr]] = {}
_gone: deque[Hashable] = deque()
_nodes_lock = threading.Lock()
_no_variables: frozenset[Expr] = frozenset()


def _note_gone(reference: Any) -> None:
    # May run anywhere, also while the lock is held: the next one who holds it clears the table.
    _gone.append(reference.key)


def recall(key: Hashable) -> Expr | None:
    """The node remembered under a key, if it still exists."""
    reference = _nodes.get(key)
    return None if reference is None else reference()


def remember(key: Hashable, node: Expr) -> None:
    """Let a node be found under a key as long as it exists; call with the lock held."""
    while _gone:
        old = _gone.popleft()
        found = _nodes.get(old)
        if found is not None and found() is None:
            del _nodes[old]
    reference = _Reference(node, _note_gone)
    reference.key = key
    _nodes[key] = reference


def make(op: str, type: ScalarType, args: tuple[Expr, ...] = (), data: Hashable = None) -> Expr:
    """The interned node of an operation; checks nothing."""
    key = (op, type, args, data)
    reference = _nodes.get(key)
    if reference is not None:
        found = reference()
        if found is not None:
            return found
    with _nodes_lock:
        found = recall(key)
        if found is None:
            found = Expr()
            found.op = op
            found.type = type
            found.args = args
            found.data = data
            found.serial = next(_serial)
            found.affine = None
            found.interval = ()
            found.free = _free_variables(found)
            remember(key, found)
        return found


def _free_variables(node: Expr) -> frozenset[Expr]:
    if node.op == "var":
        return frozenset((node,))
    args = node.args
    if not args:
        return _no_variables
    free = args[0].free
    for arg in args[1:]:
        if arg.free is not free and arg.free:
            free = free | arg.free
    if node.op in BINDING_OPS:
        free = free - frozenset(bound_variables(node))
    return free


BINDING_OPS = ("fold", "iterate")
"""Operations that bind variables of their own."""


@dataclass(frozen=True)
class FoldShape:
    """How a fold node's arguments divide: extents, then initial values, then updates."""

    variables: tuple[Expr, ...]
    accumulators: tuple[Expr, ...]
    reassociate: str | None


def fold_parts(
    node: Expr,
) -> tuple[tuple[Expr, ...], tuple[Expr, ...], tuple[Expr, ...]]:
    """(extents, initial values, updates) of a fold node."""
    shape: FoldShape = node.data
    loops, carried = len(shape.variables), len(shape.accumulators)
    args = node.args
    return args[:loops], args[loops : loops + carried], args[loops + carried :]


def iterate_parts(node: Expr) -> tuple[tuple[Expr, ...], tuple[Expr, ...], Expr]:
    """(initial values, next values, condition) of an iterate node."""
    count = len(node.data)
    return node.args[:count], node.args[count : 2 * count], node.args[2 * count]


def bound_variables(node: Expr) -> tuple[Expr, ...]:
    """The variables a fold or iterate node binds."""
    if node.op == "fold":
        shape: FoldShape = node.data
        return shape.variables + shape.accumulators
    return node.data if node.op == "iterate" else ()


@dataclass(frozen=True)
class VariableData:
    """Identity of a variable, and for loop variables the inclusive range of its values."""

    name: str
    number: int
    lower: int | None = None
    upper: int | None = None


def new_variable(
    name: str, type: ScalarType, lower: int | None = None, upper: int | None = None
) -> Expr:
    """A fresh variable, different from every other one of the same name."""
    return make("var", type, (), VariableData(name, next(_serial), lower, upper))


def walk(roots: Iterable[Expr], known: Container[Expr] = ()) -> list[Expr]:
    """Every node reachable from the roots once, arguments before their users; not below `known`
    ones.
    """
    order: list[Expr] = []
    seen: set[Expr] = set()
    append, add = order.append, seen.add
    for root in roots:
        if root in seen or root in known:
            continue
        add(root)
        node, arguments = root, iter(root.args)
        above: list[tuple[Expr, Iterator[Expr]]] = []
        while True:
            for arg in arguments:
                if arg in seen or arg in known:
                    continue
                add(arg)
                if arg.args:
                    above.append((node, arguments))
                    node, arguments = arg, iter(arg.args)
                    break
                append(arg)
            else:
                append(node)
                if not above:
                    break
                node, arguments = above.pop()
    return order


def rewrite(
    roots: Iterable[Expr],
    rule: Callable[[Expr, tuple[Expr, ...]], Expr],
    done: dict[Expr, Expr] | None = None,
) -> list[Expr]:
    """Rebuild expressions bottom up: `rule(node, new arguments)` gives each node's replacement.

    `done` holds replacements known already, and is added to.
    """
    roots = list(roots)
    done = {} if done is None else done
    replaced = done.__getitem__
    for node in walk(roots, done):
        done[node] = rule(node, tuple(map(replaced, node.args)))
    return [done[root] for root in roots]


def rebuild(node: Expr, args: tuple[Expr, ...]) -> Expr:
    """The same operation on other arguments of the same types."""
    return node if args == node.args else make(node.op, node.type, args, node.data)


def substitute(roots: Iterable[Expr], replacements: dict[Expr, Expr]) -> list[Expr]:
    """Replace nodes (usually variables) in expressions."""

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        found = replacements.get(node)
        return rebuild(node, args) if found is None else found

    return rewrite(roots, rule)


def short_text(node: Expr, depth: int = 4) -> str:
    """One line of readable text for messages, cut at a depth."""
    if node.op == "var":
        return node.data.name
    if node.op == "const":
        return f"{node.data}:{node.type}"
    if depth == 0:
        return "…"
    inner = ", ".join(short_text(arg, depth - 1) for arg in node.args)
    label = node.data.name + ", " if node.op == "load" else ""
    return f"{node.op}({label}{inner})"
