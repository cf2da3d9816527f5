"""Loops do only what must be done every turn, and store only what cannot be had otherwise.

- What does not change in a loop is computed before it (if it costs anything).
- A stacked input that repeats one value is a constant of the loop; one that an elementwise
  operation makes from others is made inside.
- A stacked result that is the same in every turn is broadcast afterwards; those that are cheap
  functions of one value (as residuals of a derivative are) are computed from it afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tetrax.compiler.fuse import is_pure
from tetrax.compiler.nest import nbytes
from tetrax.compiler.passes.control import described_as, description
from tetrax.compiler.passes.loop_products import (
    MAX_STACKED_BYTES,
    accumulated_products,
    product_over_steps,
    products_before,
)
from tetrax.compiler.passes.products import absorb_transposes
from tetrax.ir.atoms import Atom, DropVar, Literal, Var
from tetrax.ir.control import Scan, While
from tetrax.ir.program import ClosedProgram, Equation, join_effects
from tetrax.ops import axes as ax
from tetrax.ops.base import Elementwise
from tetrax.ops.structure import broadcast_in_dim_p

# Operations from this cost on are worth a place in memory to be done once.
WORTH_HOISTING = 2
# A stacked result is computed again where that takes operations of this cost at most.
CHEAP_RESIDUAL = 4
# Slices of fewer elements than this are better computed all at once, in lanes.
FEW_ELEMENTS = 8


def simplify_loops(closed: ClosedProgram) -> ClosedProgram:
    program = closed.program
    if all(eqn.primitive.structure is None for eqn in program.eqns):
        return closed
    readers = Counter(a for eqn in program.eqns for a in eqn.invars if isinstance(a, Var))
    readers.update(a for a in program.outvars if isinstance(a, Var))
    definitions: dict[Var, Equation] = {}
    equal: dict[Atom, Atom] = {}
    eqns: list[Equation] = []
    for eqn in program.eqns:
        eqn = eqn.substitute(equal)
        described = description(eqn)
        made = [eqn]
        if isinstance(described, Scan) and described.length:
            loop = _ScanLoop(eqn, described)
            made = loop.simplified(definitions, readers)
            equal.update(loop.equal)
        elif isinstance(described, While):
            made = _hoisted_from_while(eqn, described)
        eqns += made
        definitions.update((var, e) for e in made for var in e.outvars)
    outvars = [equal.get(atom, atom) for atom in program.outvars]
    return ClosedProgram(program.replace(eqns=eqns, outvars=outvars), closed.consts)


# -- a scan taken apart ----------------------------------------------------------------------------


@dataclass(eq=False)
class _Stacked:
    """One stacked result: the value of a turn, and the variable outside."""

    inside: Atom
    outside: Var


class _ScanLoop:
    def __init__(self, eqn: Equation, described: Scan) -> None:
        self.eqn, self.described = eqn, described
        body = described.body.program
        first, last = described.consts, described.consts + described.carry
        self.constants = list(zip(eqn.invars[:first], body.invars[:first], strict=True))
        self.carries = list(zip(eqn.invars[first:last], body.invars[first:last], strict=True))
        self.slices = list(zip(eqn.invars[last:], body.invars[last:], strict=True))
        self.eqns = list(body.eqns)
        self.following = body.outvars[: described.carry]
        self.stacked = [
            _Stacked(inside, outside)
            for inside, outside in zip(
                body.outvars[described.carry :], eqn.outvars[described.carry :], strict=True
            )
        ]
        self.finals: list[Var] = []
        self.before: list[Equation] = []
        self.after: list[Equation] = []
        # Results that are what other variables are already.
        self.equal: dict[Atom, Atom] = {}

    def simplified(self, definitions: dict[Var, Equation], readers: Counter[Var]) -> list[Equation]:
        """The equations that replace the loop's."""
        self._fuse_producers(definitions, readers)
        self._settle_kept_carries()
        self._hoist()
        self._multiply_slices()
        self._settle_invariant_results()
        self._rebase_results()
        self._multiply_steps()
        return [*self.before, self._equation(), *self.after]

    def _equation(self) -> Equation:
        described = self.described
        body = described.body
        inputs = [inside for _, inside in (*self.constants, *self.carries, *self.slices)]
        program = body.program.replace(
            invars=inputs,
            outvars=[*self.following, *(s.inside for s in self.stacked)],
            eqns=self.eqns,
            effects=join_effects(self.eqns),
        )
        return described_as(
            self.eqn,
            replace(
                described,
                # What was a slice may be a constant now, and its transpose part of a product.
                body=absorb_transposes(ClosedProgram(program, body.consts)),
                consts=len(self.constants),
                carry=len(self.carries),
            ),
            invars=[outside for outside, _ in (*self.constants, *self.carries, *self.slices)],
            outvars=[*self.finals, *(s.outside for s in self.stacked)],
        )

    # -- stacked inputs ------------------------------------------------------------------------

    def _fuse_producers(self, definitions: dict[Var, Equation], readers: Counter[Var]) -> None:
        """Compute slices inside that broadcasts or elementwise operations make from others."""
        wanted, self.slices = self.slices, []
        known: dict[Atom, Var] = {}
        same: dict[Atom, Atom] = {}
        made: list[Equation] = []

        def slice_of(outside: Atom) -> Var:
            found = known.get(outside)
            if found is None:
                aval = outside.aval
                found = known[outside] = Var(aval.update(shape=aval.shape[1:]))
                provide(outside, found)
            return found

        def provide(outside: Atom, inside: Var) -> None:
            producer = definitions.get(outside) if isinstance(outside, Var) else None
            if producer is None or not self._is_fusable(producer, readers[producer.outvars[0]]):
                self.slices.append((outside, inside))
            elif producer.primitive is not broadcast_in_dim_p:
                operands: list[Atom] = [slice_of(atom) for atom in producer.invars]
                made.append(producer.replace(invars=operands, outvars=[inside]))
            else:
                (operand,) = producer.invars
                varies = _keeps_leading_axis(producer)
                params = {**producer.params, **_sliced_broadcast(producer)}
                source = slice_of(operand) if varies else self._constant(operand)
                if source.aval.shape == inside.aval.shape:
                    same[inside] = source
                    return
                made.append(producer.replace(invars=[source], outvars=[inside], params=params))

        for outside, inside in wanted:
            if outside in known:
                same[inside] = known[outside]
                continue
            known[outside] = inside
            provide(outside, inside)
        self.eqns = [*made, *self.eqns]
        self._rename(same)

    def _rename(self, same: dict[Atom, Atom]) -> None:
        """Read one of several slices that are the same."""
        if same:

            def rename(atoms: Sequence[Atom]) -> list[Atom]:
                return [same.get(atom, atom) for atom in atoms]

            self.eqns = [eqn.replace(invars=rename(eqn.invars)) for eqn in self.eqns]
            self.following = rename(self.following)
            for stacked in self.stacked:
                stacked.inside = same.get(stacked.inside, stacked.inside)

    def _is_fusable(self, producer: Equation, readers: int) -> bool:
        if producer.primitive is broadcast_in_dim_p:
            return True
        shapes = {atom.aval.shape for atom in (*producer.invars, *producer.outvars)}
        if not isinstance(producer.primitive, Elementwise) or len(shapes) > 1 or readers > 1:
            return False
        elements = ax.product(producer.outvars[0].aval.shape[1:])
        return producer.primitive.cost <= WORTH_HOISTING or elements >= FEW_ELEMENTS

    def _constant(self, outside: Atom) -> Atom:
        """What a constant of the loop is called inside."""
        if isinstance(outside, Literal):
            return outside
        for known, inside in self.constants:
            if known is outside:
                return inside
        inside = Var(outside.aval)
        self.constants.append((outside, inside))
        return inside

    # -- what does not change ------------------------------------------------------------------

    def _settle_kept_carries(self) -> None:
        """A carry that every turn hands on as it is, is a constant of the loop."""
        kept, results = [], self.eqn.outvars[: len(self.carries)]
        for carry, following, out in zip(self.carries, self.following, results, strict=True):
            if following is carry[1]:
                self.constants.append(carry)
                self.equal[out] = carry[0]
            else:
                kept.append((carry, following, out))
        self.carries = [carry for carry, _, _ in kept]
        self.following = [following for _, following, _ in kept]
        self.finals = [out for _, _, out in kept]

    def _hoist(self) -> None:
        fixed = {inside for _, inside in self.constants}
        outside = {inside: atom for atom, inside in self.constants}
        moved, self.eqns, results = _split_invariant(
            self.eqns,
            fixed | set(self.described.body.program.constvars),
            outside,
            {stacked.inside for stacked in self.stacked},
        )
        self.before += moved
        self.constants += results

    # -- products ------------------------------------------------------------------------------

    def _multiply_slices(self) -> None:
        """Products of slices with constants are done for all slices before the loop."""
        slices = {inside: outside for outside, inside in self.slices}
        constants = {inside: outside for outside, inside in self.constants}
        before, self.eqns, made = products_before(
            self.eqns, slices, constants, self.described.length
        )
        self.before += before
        self.slices += made

    def _multiply_steps(self) -> None:
        """Carries that add up a product become one product after the loop."""
        found = accumulated_products(
            self.eqns,
            [inside for _, inside in self.carries],
            self.following,
            [stacked.inside for stacked in self.stacked],
        )
        slices: dict[Atom, Atom] = {inside: outside for outside, inside in self.slices}
        constants = {inside for _, inside in self.constants}
        gone: set[int] = set()
        room = MAX_STACKED_BYTES
        for sum_ in found:
            operands = [a for a in sum_.product.invars if isinstance(a, Var)]
            known = slices | {s.inside: s.outside for s in self.stacked}
            fresh = {a for a in operands if a not in known}
            size = self.described.length * sum(nbytes(a.aval) for a in fresh)
            if size > room or any(a in constants for a in operands):
                continue
            room -= size
            stacks = [known.get(a) or self._stack_of(a, self.stacked) for a in operands]
            initial, out = self.carries[sum_.position][0], self.finals[sum_.position]
            self.after += product_over_steps(sum_.product, stacks, initial, out)
            drop = (sum_.sum, sum_.product)
            self.eqns = [eqn for eqn in self.eqns if not any(eqn is d for d in drop)]
            gone.add(sum_.position)
        for name in ("carries", "following", "finals"):
            values = getattr(self, name)
            setattr(self, name, [v for i, v in enumerate(values) if i not in gone])

    def _settle_invariant_results(self) -> None:
        """Stacked results that exist already, or are the same in every turn, are not stored."""
        constants = {inside: outside for outside, inside in self.constants}
        known: dict[Atom, Atom] = {inside: outside for outside, inside in self.slices}
        kept = []
        for stacked in self.stacked:
            inside = stacked.inside
            if inside in known:
                self.equal[stacked.outside] = known[inside]
            elif isinstance(inside, Literal) or inside in constants:
                source = inside if isinstance(inside, Literal) else constants[inside]
                dims = range(1, len(stacked.outside.aval.shape))
                self.after.append(_broadcast(source, stacked.outside, dims))
            else:
                known[inside] = stacked.outside
                kept.append(stacked)
        self.stacked = kept

    # -- stacked results -----------------------------------------------------------------------

    def _rebase_results(self) -> None:
        """Store one value instead of several cheap functions of it."""
        definitions = {var: eqn for eqn in self.eqns for var in eqn.outvars}
        bases: dict[Var, list[_Stacked]] = {}
        for stacked in self.stacked:
            base = self._base(stacked.inside, definitions)
            if base is not None:
                bases.setdefault(base, []).append(stacked)
        slices: dict[Var, Atom] = {inside: outside for outside, inside in self.slices}
        for base, functions in bases.items():
            members = [s for s in functions if s.inside is not base]
            source = slices.get(base)
            if not members or (source is None and len(functions) < 2):
                continue
            if source is None:
                source = self._stack_of(base, functions)
            stacks: dict[Atom, Atom] = {base: source}
            for stacked in members:
                self.after += self._stacked_chain(stacked, definitions, stacks)
            self.stacked = [s for s in self.stacked if s not in members]

    def _stack_of(self, base: Var, functions: Sequence[_Stacked]) -> Var:
        """The stacked result that holds `base`, made if there is none."""
        held = next((s for s in functions if s.inside is base), None)
        if held is None:
            aval = base.aval
            held = _Stacked(base, Var(aval.update(shape=(self.described.length, *aval.shape))))
            self.stacked.append(held)
        return held.outside

    def _base(self, atom: Atom, definitions: dict[Var, Equation]) -> Var | None:
        """The variable that a value is a cheap elementwise function of (perhaps itself)."""
        cost = 0
        while isinstance(atom, Var):
            eqn = definitions.get(atom)
            if eqn is None or not isinstance(eqn.primitive, Elementwise):
                return atom
            cost += eqn.primitive.cost
            variants = {a for a in eqn.invars if not self._is_uniform(a, definitions)}
            same = all(a.aval.shape == atom.aval.shape for a in eqn.invars)
            if cost > CHEAP_RESIDUAL or len(variants) != 1 or not same:
                return atom
            (atom,) = variants
        return None

    def _is_uniform(self, atom: Atom, definitions: dict[Var, Equation]) -> bool:
        """Whether a value is a literal, or a literal in every element."""
        if isinstance(atom, Literal):
            return True
        eqn = definitions.get(atom)
        return (
            eqn is not None
            and eqn.primitive is broadcast_in_dim_p
            and isinstance(eqn.invars[0], Literal)
        )

    def _stacked_chain(
        self, stacked: _Stacked, definitions: dict[Var, Equation], stacks: dict[Atom, Atom]
    ) -> Iterator[Equation]:
        """The equations of a cheap function on stacked values."""
        assert isinstance(stacked.inside, Var)
        chain = []
        atom = stacked.inside
        while atom not in stacks:
            eqn = definitions[atom]
            chain.append(eqn)
            (atom,) = {a for a in eqn.invars if not self._is_uniform(a, definitions)}
            assert isinstance(atom, Var)
        for eqn in reversed(chain):
            (result,) = eqn.outvars
            aval = result.aval.update(shape=(self.described.length, *result.aval.shape))
            out = stacked.outside if result is stacked.inside else Var(aval)
            operands: list[Atom] = []
            for a in eqn.invars:
                if a in stacks:
                    operands.append(stacks[a])
                    continue
                literal = a if isinstance(a, Literal) else definitions[a].invars[0]
                spread = Var(a.aval.update(shape=aval.shape))
                yield _broadcast(literal, spread, ())
                operands.append(spread)
            stacks[result] = out
            yield eqn.replace(invars=operands, outvars=[out])


def _broadcast(source: Atom, out: Var, dimensions: Sequence[int]) -> Equation:
    params = {
        "shape": out.aval.shape,
        "broadcast_dimensions": tuple(dimensions),
        "sharding": None,
    }
    return Equation([source], [out], broadcast_in_dim_p, params)


def _keeps_leading_axis(producer: Equation) -> bool:
    """Whether the slices of a broadcast are those of its operand."""
    dimensions = producer.params["broadcast_dimensions"]
    operand = producer.invars[0].aval
    return bool(dimensions) and dimensions[0] == 0 and operand.shape[0] != 1


def _sliced_broadcast(producer: Equation) -> dict:
    """Parameters of a broadcast without its leading axis."""
    dimensions = producer.params["broadcast_dimensions"]
    inner = dimensions[1:] if _keeps_leading_axis(producer) else dimensions
    return {
        "shape": producer.params["shape"][1:],
        "broadcast_dimensions": tuple(d - 1 for d in inner),
    }


# -- invariant code --------------------------------------------------------------------------------


def _split_invariant(
    eqns: Sequence[Equation],
    fixed: set[Var],
    outside: dict[Var, Atom],
    wanted: Collection[Atom] = (),
) -> tuple[list[Equation], list[Equation], list[tuple[Atom, Var]]]:
    """Equations to do before a loop, those that stay, and (outside, inside) of what stays to read.

    `fixed` are variables that never change; `outside` names those of them that exist outside.
    What is `wanted` outside is moved whatever it costs.
    """
    invariant: dict[Var, Equation] = {}
    worth: list[Equation] = []
    for eqn in eqns:
        inputs = [a for a in eqn.invars if isinstance(a, Var)]
        if eqn.effects or not all(a in fixed or a in invariant for a in inputs):
            continue
        if not all(_available(a, fixed, outside, invariant) for a in inputs):
            continue
        invariant.update((var, eqn) for var in eqn.outvars)
        costly = eqn.primitive.cost >= WORTH_HOISTING or eqn.primitive.folds
        if costly or not is_pure(eqn) or any(var in wanted for var in eqn.outvars):
            worth.append(eqn)
    if not worth:
        return [], list(eqns), []
    moving: set[int] = set()
    stack = list(worth)
    while stack:
        eqn = stack.pop()
        if id(eqn) not in moving:
            moving.add(id(eqn))
            stack += [invariant[a] for a in eqn.invars if isinstance(a, Var) and a in invariant]
    names = dict(outside)
    moved, results = [], []
    for eqn in eqns:
        if id(eqn) in moving:
            fresh = [v if isinstance(v, DropVar) else Var(v.aval) for v in eqn.outvars]
            invars = [names[a] if isinstance(a, Var) else a for a in eqn.invars]
            moved.append(eqn.replace(invars=invars, outvars=fresh))
            names.update(zip(eqn.outvars, fresh, strict=True))
            results += [
                (new, old)
                for new, old in zip(fresh, eqn.outvars, strict=True)
                if not isinstance(old, DropVar)
            ]
    return moved, [eqn for eqn in eqns if id(eqn) not in moving], results


def _available(
    atom: Var, fixed: set[Var], outside: dict[Var, Atom], invariant: dict[Var, Equation]
) -> bool:
    """Whether a fixed variable has a name outside (constants of the body itself have none)."""
    return atom in outside or atom in invariant or atom not in fixed


def _hoisted_from_while(eqn: Equation, described: While) -> list[Equation]:
    """The loop with what its body computes from constants alone done before it."""
    tests, consts = described.condition_consts, described.body_consts
    body = described.body
    outside = dict(
        zip(body.program.invars[:consts], eqn.invars[tests : tests + consts], strict=True)
    )
    moved, kept, results = _split_invariant(
        body.program.eqns, set(outside) | set(body.program.constvars), outside
    )
    if not moved:
        return [eqn]
    inputs = body.program.invars
    program = body.program.replace(
        invars=[*inputs[:consts], *(inside for _, inside in results), *inputs[consts:]], eqns=kept
    )
    invars = eqn.invars
    made = described_as(
        eqn,
        replace(
            described, body=ClosedProgram(program, body.consts), body_consts=consts + len(results)
        ),
        invars=[
            *invars[: tests + consts],
            *(new for new, _ in results),
            *invars[tests + consts :],
        ],
    )
    return [*moved, made]
