"""The state of emitting one kernel: scopes of instructions, bindings of variables, values already
computed.

Every expression is computed once, in the outermost scope where its variables are known: that hoists
what is invariant in a loop, since no LLVM pass will. Three things hold an expression back:
- a load stays inside a loop that stores to the same memory;
- a load that might be out of bounds stays inside a loop that might not run, and inside a branch;
- nothing leaves a branch, so that what is rarely needed is rarely computed.

The rules of the operations live in the `emit_*` modules and are given to the Emitter as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from tetrax.compiler.cpu.llvm_text import constant_text, lane_numbers, register_type
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_expr import BINDING_OPS, Buffer, Expr, fold_parts, iterate_parts, walk
from tetrax.ir.kernel_index import interval_of
from tetrax.ir.kernel_statements import Kernel

AliasClass = Hashable
"""What may be the same memory: all 'inout' buffers together, every other buffer alone."""


def alias_class(buffer: Buffer) -> AliasClass | None:
    """The memory a buffer may share; None for memory that no kernel statement writes."""
    if buffer.mode == "in":
        return None
    return "inout" if buffer.mode == "inout" else buffer


@dataclass(eq=False)
class Scope:
    """A stretch of instructions: the function body, the body of a loop, or one side of a branch."""

    kind: str  # 'function', 'loop' or 'branch'
    label: str
    certain: bool = True  # whether it runs at least once when its parent runs
    stores: frozenset[AliasClass] = frozenset()
    lines: list[str] = field(default_factory=list)
    values: dict[Hashable, str] = field(default_factory=dict)
    stamps: dict[Hashable, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Binding:
    """What a variable is at present.

    `lanes` > 1: the variable differs between lanes. A `linear` one is then `text` (a scalar) plus
    the lane number; otherwise `text` is the vector.
    """

    depth: int
    text: str
    lanes: int = 1
    linear: bool = False


@dataclass(frozen=True)
class Traits:
    """What keeps an expression in its place."""

    reads: frozenset[AliasClass] = frozenset()
    unsafe: bool = False  # contains a load that is not provably in bounds


_PLAIN = Traits()
Rule = Callable[["Emitter", Expr], str]


class Emitter:
    """Instructions of one kernel under construction."""

    def __init__(self, kernel: Kernel, target: Target, rules: dict[str, Rule], check_bounds: bool):
        self.kernel = kernel
        self.target = target
        self.rules = rules
        self.check_bounds = check_bounds
        self.kernel_number = 0
        self.symbol = kernel.name
        self.functions: list[str] = []  # definitions of the functions that tasks run
        self.scopes: list[Scope] = [Scope("function", "entry")]
        self.bindings: dict[Expr, Binding] = {}
        self.addresses: dict[Buffer, str] = {}
        self.declarations: set[str] = set()
        self.versions: dict[AliasClass, int] = {}
        self.tuples: dict[str, tuple[str, ...]] = {}  # the values of loops that are expressions
        self._traits: dict[Expr, Traits] = {}
        self._counter = 0

    def for_function(self, symbol: str) -> Emitter:
        """The emitter of another function of the same kernel."""
        other = Emitter(self.kernel, self.target, self.rules, self.check_bounds)
        other.kernel_number, other.symbol = self.kernel_number, symbol
        other.declarations, other.functions = self.declarations, self.functions
        other._traits = self._traits
        return other

    # --- instructions ---

    @property
    def scope(self) -> Scope:
        """The innermost open scope."""
        return self.scopes[-1]

    def fresh(self, prefix: str) -> str:
        """A new name."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def emit(self, instruction: str) -> str:
        """Append an instruction that gives a value; the value's name is returned."""
        self._counter += 1
        name = f"%v{self._counter}"
        self.scopes[-1].lines.append(f"  {name} = {instruction}")
        return name

    def effect(self, instruction: str) -> None:
        """Append an instruction without a value."""
        self.scopes[-1].lines.append(f"  {instruction}")

    def start_block(self, label: str) -> None:
        """Continue in a new basic block."""
        scope = self.scopes[-1]
        scope.lines.append(f"{label}:")
        scope.label = label

    # --- values ---

    def lanes_of(self, node: Expr) -> int:
        """How many lanes an expression has at present; 1 where all lanes agree."""
        lanes = 1
        for var in node.free:
            binding = self.bindings[var]
            if binding.lanes > lanes:
                lanes = binding.lanes
        return lanes

    def operand(self, node: Expr, lanes: int = 1) -> str:
        """The text of an expression's value, repeated in every lane if it has only one."""
        if node.op == "const":
            return constant_text(node, lanes)
        text = self.value(node)
        if lanes == 1 or self.lanes_of(node) == lanes:
            return text
        return self._splat(node, text, lanes)

    def _splat(self, node: Expr, text: str, lanes: int) -> str:
        found = self.find(node)
        assert found is not None
        return self.once(
            found[1],
            ("splat", text, lanes),
            lambda: self.splat_text(text, register_type(node.type), lanes),
        )

    def once(self, depth: int, key: Hashable, make: Callable[[], str]) -> str:
        """What `make` emits in the scope of a depth, emitted there only once for a key."""
        home = self.scopes[depth]
        text = home.values.get(key)
        if text is None:
            saved, self.scopes = self.scopes, self.scopes[: depth + 1]
            text = make()
            self.scopes = saved
            home.values[key] = text
        return text

    def splat_text(self, text: str, scalar: str, lanes: int) -> str:
        """A scalar value repeated in a vector, in the current block."""
        vector = f"<{lanes} x {scalar}>"
        first = self.emit(f"insertelement {vector} poison, {scalar} {text}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.emit(f"shufflevector {vector} {first}, {vector} poison, {zeros}")

    def value(self, root: Expr) -> str:
        """The text of an expression's own value, computing what is missing."""
        found = self._lookup(root)
        if found is not None:
            return found
        stack = [root]
        while stack:
            node = stack[-1]
            pending = [
                arg
                for arg in eager_arguments(node)
                if arg.op != "const" and self._lookup(arg) is None
            ]
            if pending:
                stack.extend(reversed(pending))
                continue
            stack.pop()
            if self._lookup(node) is None:
                self._compute(node)
        result = self._lookup(root)
        assert result is not None
        return result

    def _compute(self, node: Expr) -> None:
        depth = self._placement(node)
        saved = self.scopes
        self.scopes = saved[: depth + 1]
        text = self.rules[node.op](self, node)
        self.scopes = saved
        self.remember(node, text, depth)

    def remember(self, node: Expr, text: str, depth: int) -> None:
        """Record where a value stands."""
        scope = self.scopes[depth]
        scope.values[node] = text
        reads = self.traits(node).reads
        if reads:
            scope.stamps[node] = self._stamp(reads)

    def _stamp(self, reads: Iterable[AliasClass]) -> int:
        return sum(self.versions.get(memory, 0) for memory in reads)

    def _lookup(self, node: Expr) -> str | None:
        if node.op == "const":
            return constant_text(node)
        if node.op == "var":
            return self._variable(node)
        found = self.find(node)
        return None if found is None else found[0]

    def find(self, node: Expr) -> tuple[str, int] | None:
        """The text of a value already computed, and the depth of the scope it stands in."""
        if node.op == "var":
            return self._variable(node), self.bindings[node].depth
        for depth in range(len(self.scopes) - 1, -1, -1):
            scope = self.scopes[depth]
            text = scope.values.get(node)
            if text is not None:
                stamp = scope.stamps.get(node)
                if stamp is None or stamp == self._stamp(self.traits(node).reads):
                    return text, depth
        return None

    def _variable(self, node: Expr) -> str:
        binding = self.bindings[node]
        if not binding.linear:
            return binding.text
        return self.once(binding.depth, ("lanes", node, binding.text), lambda: self._count(binding))

    def _count(self, binding: Binding) -> str:
        """The vector of a linear variable's values."""
        wide = self.splat_text(binding.text, "i64", binding.lanes)
        return self.emit(f"add <{binding.lanes} x i64> {wide}, {lane_numbers(binding.lanes)}")

    # --- where values go ---

    def bind(self, node: Expr, text: str, lanes: int = 1, linear: bool = False) -> None:
        """Give a variable a value in the innermost scope."""
        previous = self.bindings.get(node)
        if previous is not None and previous.depth == len(self.scopes) - 1:
            values = self.scope.values
            for key in [k for k in values if isinstance(k, Expr) and node in k.free]:
                del values[key]
        self.bindings[node] = Binding(len(self.scopes) - 1, text, lanes, linear)

    def written(self, memory: Iterable[AliasClass]) -> None:
        """Forget loads from memory that may just have changed."""
        for item in memory:
            self.versions[item] = self.versions.get(item, 0) + 1

    def _placement(self, node: Expr) -> int:
        innermost = max((self.bindings[var].depth for var in node.free), default=0)
        depth = len(self.scopes) - 1
        if depth == innermost:
            return depth
        traits = self.traits(node)
        while depth > innermost:
            scope = self.scopes[depth]
            if scope.kind == "branch" or (traits.unsafe and not scope.certain):
                break
            if traits.reads and not traits.reads.isdisjoint(scope.stores):
                break
            depth -= 1
        return depth

    def traits(self, node: Expr) -> Traits:
        """What an expression reads, and whether that is known to be in bounds."""
        found = self._traits.get(node)
        if found is not None:
            return found
        for inner in walk([node], self._traits):
            self._traits[inner] = self._own_traits(inner)
        return self._traits[node]

    def _own_traits(self, node: Expr) -> Traits:
        traits = self._traits
        inner = [t for arg in node.args if (t := traits[arg]) is not _PLAIN]
        if node.op != "load" and all(t is inner[0] for t in inner):
            return inner[0] if inner else _PLAIN  # most nodes have what one operand has
        reads = frozenset().union(*(t.reads for t in inner)) if inner else frozenset()
        unsafe = any(t.unsafe for t in inner)
        if node.op == "load":
            memory = alias_class(node.data)
            reads = reads if memory is None else reads | {memory}
            unsafe = unsafe or not in_bounds(node.data, node.args[0])
        return Traits(reads, unsafe)


def in_bounds(buffer: Buffer, offset: Expr) -> bool:
    """Whether an offset is provably inside a buffer."""
    bounds = interval_of(offset)
    return bounds is not None and bounds[0] >= 0 and bounds[1] < buffer.size


def eager_arguments(node: Expr) -> tuple[Expr, ...]:
    """The arguments computed before a node's own rule runs; loop bodies and rare branches are
    not.
    """
    if node.op in BINDING_OPS:
        if node.op == "fold":
            extents, initial, _ = fold_parts(node)
            return extents + initial
        return iterate_parts(node)[0]
    if node.op == "unlikely":
        return node.args[0], node.args[2]
    if node.op == "load":
        return ()  # its offset is taken apart by the rule
    return node.args
