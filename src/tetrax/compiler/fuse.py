"""Fusion: which values are stored, and which equations share a kernel.

The answer for a straight-line program is a list of items in execution order: a `Group` of pure
equations with one iteration space (one kernel), or a single equation of another kind.

Storing rules, in this order. Results of the program, operands and results of equations that need
memory (sorts, loops, library calls) are stored. So are results of reductions. A pure value is
computed where it is used if it has one reader that reads each element once, or if it is cheap;
otherwise it is stored, and readers of the same shape join its kernel.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tetrax.compiler.kernel_cache import KernelCache, Signatures
from tetrax.compiler.nest import Nest, NestBuilder, NotFusable, unknown
from tetrax.compiler.rows import RowNestBuilder
from tetrax.ir.atoms import DropVar, Var
from tetrax.ir.program import Equation, Program
from tetrax.ir.scalar import Scalar
from tetrax.ops import axes as ax
from tetrax.ops.structure import broadcast_in_dim_p

# A value computed in place may take this many equations with it (expressions are nested functions,
# and text grows with each use).
MAX_INLINED = 48
# Values up to this cost (see `Primitive.cost`) are recomputed by every reader.
CHEAP = 2
MAX_GROUP_MEMBERS = 24
# A kernel of more equations than this costs LLVM more than another kernel would.
MAX_GROUP_EQUATIONS = 128
MAX_LOOKBACK = 8
# Rows of fewer elements are better done side by side, in lanes; fewer rows, each in parallel.
SHORTEST_ROW = 16
FEWEST_ROWS = 8


@dataclass(eq=False)
class Group:
    """Pure values of one shape, computed by one kernel; `members` in order of dependence."""

    shape: tuple[int, ...]
    members: list[Var] = field(default_factory=list)
    reads: set[Var] = field(default_factory=set)
    equations: int = 0
    # Whether members may be longer than `shape`: vectors along rows of that shape.
    by_rows: bool = False


Item = Group | Equation


@dataclass
class Plan:
    """Execution order, the stored variables, and the definitions of the others."""

    items: list[Item]
    stored: set[Var]
    definitions: dict[Var, Equation]
    readers: dict[Var, int]
    # How many equations computing a stored variable takes.
    equations: dict[Var, int]
    cache: KernelCache
    signatures: Signatures = field(init=False)

    def __post_init__(self) -> None:
        self.signatures = Signatures(self.definitions, self.stored.__contains__, self.cache)

    def nest(self, group: Group, writes: list[Var]) -> Nest:
        """The kernel of a group that stores `writes`. Raises NotFusable if there is none."""
        kind = RowNestBuilder if group.by_rows else NestBuilder
        stored = self.stored.__contains__

        def build() -> Nest:
            builder = kind(group.shape, self.definitions, stored)
            return builder.build(group.members, writes, "kernel")

        signature = self.signatures.together(group.members)
        return self.cache.nest((kind, group.shape), group.members, writes, signature, build)


def is_pure(eqn: Equation) -> bool:
    """Whether the equation can be computed element by element from its kernel rule."""
    primitive = eqn.primitive
    if primitive.kernel is None or eqn.effects:
        return False
    return not primitive.stores([atom.aval for atom in eqn.invars], eqn.params)


def fuse(program: Program, cache: KernelCache) -> Plan:
    """Decide what is stored and group the pure equations."""
    decisions = _Decisions(program)
    plan = Plan(
        [],
        decisions.stored,
        decisions.definitions,
        decisions.readers,
        decisions.equations,
        cache,
    )
    placement = _Placement(plan)
    for eqn in program.eqns:
        if eqn not in decisions.pure:
            placement.add_equation(eqn)
            continue
        for var in eqn.outvars:
            if var in decisions.stored:
                placement.add(var)
    plan.items = _merge_rows(plan)
    return plan


class _Decisions:
    """Goes over the program once, in order, and settles what is stored."""

    def __init__(self, program: Program) -> None:
        self.definitions: dict[Var, Equation] = {}
        self.readers: dict[Var, int] = defaultdict(int)
        self.stored: set[Var] = {*program.constvars, *program.invars}
        self.equations: dict[Var, int] = {}
        self._inlined: dict[Var, int] = {}
        self._cost: dict[Var, int] = {}
        self._rereads: set[Var] = set()
        self._pieces: set[Var] = set()
        self._needs_memory = {a for a in program.outvars if isinstance(a, Var)}
        self.pure = {eqn for eqn in program.eqns if is_pure(eqn)}
        for eqn in program.eqns:
            self._note_uses(eqn)
        for eqn in program.eqns:
            self._decide(eqn)

    def _note_uses(self, eqn: Equation) -> None:
        pure = eqn in self.pure
        for atom in {a for a in eqn.invars if isinstance(a, Var)}:
            self.readers[atom] += 1
            if not pure:
                self._needs_memory.add(atom)
            elif eqn.primitive.rereads([a.aval for a in eqn.invars], eqn.params):
                self._rereads.add(atom)

    def _decide(self, eqn: Equation) -> None:
        if eqn not in self.pure:
            self.stored.update(v for v in eqn.outvars if not isinstance(v, DropVar))
            return
        if eqn.primitive.folds:
            self._store_pieces(eqn)
        inputs = [a for a in eqn.invars if isinstance(a, Var) and a not in self.stored]
        inlined = 1 + sum(self._inlined[a] for a in inputs)
        cost = eqn.primitive.cost
        if not _repeats_outside(eqn):
            cost += sum(self._cost[a] for a in inputs)
        for var in eqn.outvars:
            if isinstance(var, DropVar):
                continue
            self.definitions[var] = eqn
            if self._must_store(eqn, var, inlined, cost):
                self.stored.add(var)
                self.equations[var] = inlined
            else:
                self._inlined[var], self._cost[var] = inlined, cost
                avals = [a.aval for a in eqn.invars]
                if any(a in self._pieces for a in inputs) or eqn.primitive.piecewise(
                    avals, eqn.params
                ):
                    self._pieces.add(var)

    def _store_pieces(self, eqn: Equation) -> None:
        """Keep what is put together of pieces out of a fold."""
        for atom in eqn.invars:
            if isinstance(atom, Var) and atom in self._pieces:
                self._pieces.remove(atom)
                self.stored.add(atom)
                self.equations[atom] = self._inlined[atom]

    def _must_store(self, eqn: Equation, var: Var, inlined: int, cost: int) -> bool:
        if var in self._needs_memory or inlined > MAX_INLINED or eqn.primitive.folds:
            return True
        several = self.readers[var] > 1 or var in self._rereads
        return several and cost > CHEAP and var.aval.size > 1


def _repeats_outside(eqn: Equation) -> bool:
    """Whether one element of the operand serves a whole inner loop, which computes it once."""
    if eqn.primitive is not broadcast_in_dim_p:
        return False
    operand, out = eqn.invars[0].aval, eqn.outvars[0].aval
    kept = [
        axis
        for axis, extent in zip(eqn.params["broadcast_dimensions"], operand.shape, strict=True)
        if extent != 1
    ]
    inner = out.shape[len(kept) :]
    return kept == list(range(len(kept))) and ax.product(inner) >= SHORTEST_ROW


class _Placement:
    """Puts values into groups, in program order; remembers where everything is computed."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._positions: dict[Var, int] = {}
        self._unknowns: dict[Var, Scalar] = {}
        self._reads_of: dict[Var, frozenset[Var]] = {}
        # Groups by what they read or compute, apart from scalars (sharing those gains nothing).
        self._groups_about: dict[Var, list[int]] = defaultdict(list)

    def add_equation(self, eqn: Equation) -> None:
        self._positions.update((var, len(self.plan.items)) for var in eqn.outvars)
        self.plan.items.append(eqn)

    def add(self, var: Var) -> None:
        """Put `var` into the latest group that takes it, or into a new one at the end."""
        plan = self.plan
        own = Group(var.aval.shape, [var])
        own.reads = set(self._reads(var))
        own.equations = plan.equations[var]
        # A group before everything that is read is too early.
        earliest = max((self._positions.get(v, 0) for v in own.reads), default=0)
        for at in self._candidates(own.reads, earliest):
            group = plan.items[at]
            if isinstance(group, Group) and self._joins(group, own):
                group.members.append(var)
                group.reads |= own.reads - set(group.members)
                group.equations += own.equations
                self._note(own, at)
                return
        plan.items.append(own)
        self._note(own, len(plan.items) - 1)

    def _joins(self, group: Group, own: Group) -> bool:
        if group.shape != own.shape or len(group.members) >= MAX_GROUP_MEMBERS:
            return False
        if group.equations + own.equations > MAX_GROUP_EQUATIONS:
            return False
        (var,) = own.members
        if var.aval.size == 0:
            return False
        own_signature = self.plan.signatures.of(var)
        if own_signature.key is None:
            return self._fits(group, var)
        inside = tuple([read in group.members for read in own_signature.stored])
        key = group.shape, own_signature.key, inside
        return self.plan.cache.fits(key, lambda: self._fits(group, var))

    def _fits(self, group: Group, var: Var) -> bool:
        builder = NestBuilder(group.shape, self.plan.definitions, self.plan.stored.__contains__)
        return builder.fits({member: self._unknown(member) for member in group.members}, var)

    def _unknown(self, var: Var) -> Scalar:
        found = self._unknowns.get(var)
        if found is None:
            found = self._unknowns[var] = unknown(var)
        return found

    def _reads(self, var: Var) -> frozenset[Var]:
        """The stored variables that computing `var` reads."""
        found = self._reads_of.get(var)
        if found is None:
            plan, reads = self.plan, frozenset()
            for atom in plan.definitions[var].invars:
                if isinstance(atom, Var):
                    reads |= {atom} if atom in plan.stored else self._reads(atom)
            found = self._reads_of[var] = reads
        return found

    def _candidates(self, reads: set[Var], earliest: int) -> list[int]:
        found = {at for v in reads for at in self._groups_about[v][-MAX_LOOKBACK:]}
        return sorted((at for at in found if at >= earliest), reverse=True)[:MAX_LOOKBACK]

    def _note(self, own: Group, at: int) -> None:
        (var,) = own.members
        self._positions[var] = at
        for about in (*own.reads, var):
            if about.aval.size > 1:
                self._groups_about[about].append(at)


# -- rows ------------------------------------------------------------------------------------------


def _merge_rows(plan: Plan) -> list[Item]:
    """Join groups that reduce rows with those that make the rows or use the results."""
    items: list[Item] = []
    for item in plan.items:
        if not isinstance(item, Group) or not _merged(plan, items, item):
            items.append(item)
    return items


def _merged(plan: Plan, items: list[Item], group: Group) -> bool:
    """Join `group` to an earlier one over the same rows, where there is one and it is legal."""
    for distance, at in enumerate(range(len(items) - 1, -1, -1)):
        if distance >= MAX_LOOKBACK:
            return False
        earlier = items[at]
        if isinstance(earlier, Group) and (found := _joined_rows(plan, earlier, group)):
            items[at] = found
            return True
        if group.reads & _writes(earlier):
            return False
    return False


def _joined_rows(plan: Plan, earlier: Group, group: Group) -> Group | None:
    rows = _common_rows(plan, earlier, group)
    if rows is None or earlier.equations + group.equations > MAX_GROUP_EQUATIONS:
        return None
    members = [*earlier.members, *group.members]
    if len(members) > MAX_GROUP_MEMBERS:
        return None
    joined = Group(rows, members, by_rows=True, equations=earlier.equations + group.equations)
    try:
        plan.nest(joined, members)
    except NotFusable:
        return None
    joined.reads = (earlier.reads | group.reads) - set(members)
    return joined


def _common_rows(plan: Plan, earlier: Group, group: Group) -> tuple[int, ...] | None:
    """The rows that two groups can be computed along, if one reduces what the other is about."""
    related = group.reads & (earlier.reads | set(earlier.members))
    if not related:
        return None
    first = earlier.shape if earlier.by_rows else _without_ones(earlier.shape)
    second = group.shape if group.by_rows else _without_ones(group.shape)
    rows, longer = sorted((first, second), key=len)
    if not rows or ax.product(rows) < FEWEST_ROWS or longer[: len(rows)] != rows:
        return None
    members = [*earlier.members, *group.members]
    folds = any(plan.definitions[v].primitive.folds for v in members)
    lengths = {ax.product(v.aval.shape) // ax.product(rows) for v in members}
    operands = {v for v in (*earlier.reads, *group.reads) if v.aval.shape[: len(rows)] == rows}
    lengths |= {ax.product(v.aval.shape) // ax.product(rows) for v in operands}
    lengths.discard(1)
    return rows if folds and lengths and min(lengths) >= SHORTEST_ROW else None


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without axes of size 1 at its end."""
    while shape and shape[-1] == 1:
        shape = shape[:-1]
    return shape


def _writes(item: Item) -> set[Var]:
    return set(item.members) if isinstance(item, Group) else set(item.outvars)


__all__ = ["Group", "Item", "Plan", "fuse", "is_pure"]
