"""How values are best cut, given who uses them.

A first pass over a program finds out which values are cut further by all who use them: whole ones
of which every device takes a part, sums over devices of which everyone keeps a part. In the second
pass they are computed so from the start (`Demands.settle`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from tetrax.compiler.device_groups import DeviceAxes
from tetrax.compiler.partition.choose import Cuts, choose, layout_of
from tetrax.ir.layout import Axis, Factors, Layout, is_whole
from tetrax.ir.program import Equation, Var


@dataclass(frozen=True)
class _Passed:
    """A result of a loop, and the variable of its body that it is made of, turn by turn: stacked,
    or added to what the loop begins with.
    """

    outer: Var
    inner: object
    layout: Layout
    begin: object = None
    begun: Layout | None = None


@dataclass(frozen=True)
class _Done:
    """An equation, how its operands lie, and what was cut; no `factors` if all devices did all."""

    eqn: Equation
    layouts: Sequence[Layout]
    factors: Factors | None = None
    cuts: Cuts | None = None


# Results so many times smaller than an operand are no reason to have it whole.
_SMALLER = 8


class Demands:
    """What the equations of a program, and of those it holds, want of the values they take."""

    def __init__(self) -> None:
        self._layouts: dict[Var, Layout] = {}
        self._as_is: set[Var] = set()
        # Equations by the program they stand in, in order.
        self._done: list[_Done | _Passed] = []

    def note(self, atom: object, now: Layout, wanted: Layout) -> None:
        """Somebody takes a value that is cut as `now`, and wants it so."""
        if not isinstance(atom, Var):
            return
        if wanted == now or self._layouts.setdefault(atom, wanted) != wanted:
            self._as_is.add(atom)

    def keep(self, atoms: Sequence[object]) -> None:
        """Somebody takes these values as they are."""
        self._as_is.update(atom for atom in atoms if isinstance(atom, Var))

    def done(
        self,
        eqn: Equation,
        layouts: Sequence[Layout],
        factors: Factors | None = None,
        cuts: Cuts | None = None,
    ) -> None:
        """An equation was partitioned so."""
        self._done.append(_Done(eqn, layouts, factors, cuts))

    def stacked(self, outer: Var, inner: object, layout: Layout) -> None:
        """A loop stacks up what its body leaves in `inner`, cut so, as `outer`."""
        self._done.append(_Passed(outer, inner, layout))

    def summed_up(
        self, outer: Var, inner: object, layout: Layout, begin: object, begun: Layout
    ) -> None:
        """A loop adds to what it begins with, which is cut as `begun`; the sums are in `inner`, and
        at last in `outer`.
        """
        self._done.append(_Passed(outer, inner, layout, begin, begun))

    def settle(self, axes: DeviceAxes) -> dict[Var, Layout]:
        """What to cut further: what is wanted so by all, and what only that is computed from."""
        found: dict[Var, Layout] = {}
        for done in reversed(self._done):
            if isinstance(done, _Passed):
                found.update(self._loop_result(done))
                continue
            eqn, factors, cuts = done.eqn, done.factors, done.cuts
            goals = [None if var in self._as_is else self._layouts.get(var) for var in eqn.outvars]
            if factors is None and eqn.primitive.structure is None:
                avals, outs = ([x.aval for x in atoms] for atoms in (eqn.invars, eqn.outvars))
                factors = eqn.primitive.factors(avals, outs, eqn.params)
            if factors is not None and any(layout is not None for layout in goals):
                cuts = choose(factors, done.layouts, goals, axes)
                found.update(_granted(eqn, factors, cuts, goals))
            if factors is None:
                self.keep(eqn.invars)
                continue
            for atom, now, dims in zip(eqn.invars, done.layouts, factors.operands, strict=True):
                wanted = layout_of(dims, cuts or {})
                if not (wanted == now and is_whole(now) and self._takes_any(eqn, dims, factors)):
                    self.note(atom, now, wanted)
        return found

    def _takes_any(self, eqn: Equation, dims: Sequence[Axis], factors: Factors) -> bool:
        """Whether an operation may as well be done on parts of an operand: nobody needs its results
        as they are, or they are small.
        """
        size = prod(factors.sizes[factor] for axis in dims for factor in axis)
        return factors.whole.isdisjoint(factor for axis in dims for factor in axis) and all(
            var not in self._as_is or var.aval.size * _SMALLER <= size for var in eqn.outvars
        )

    def _loop_result(self, done: _Passed) -> dict[Var, Layout]:
        wanted = None if done.outer in self._as_is else self._layouts.get(done.outer)
        if done.begun is not None:
            self.note(done.inner, done.layout, wanted or done.layout)
            self.note(done.begin, done.begun, wanted or done.layout)
            return {} if wanted is None else {done.outer: wanted}
        if wanted is None or wanted[0]:
            self.keep([done.inner])
        else:
            self.note(done.inner, done.layout, wanted[1:])
        return {}


def _granted(
    eqn: Equation, factors: Factors, cuts: Cuts, wanted: Sequence[Layout | None]
) -> Iterator[tuple[Var, Layout]]:
    """The results that are best cut as they are wanted: at once, or when they are summed."""
    summed = any(factor in cuts for factor in factors.reduced)
    for var, dims, layout in zip(eqn.outvars, factors.results, wanted, strict=True):
        if layout is not None and (summed or layout_of(dims, cuts) == layout):
            yield var, layout
