"""How values that all devices would compute whole are best cut, given who uses them.

A first pass over a program finds out which values are whole and then cut (`Demands.note`). They are
computed cut from the start in the second pass, if nobody needs them whole.
"""

from __future__ import annotations

from tetrax.compiler.device_groups import DeviceAxes
from tetrax.compiler.partition.choose import choose, layout_of
from tetrax.ir.layout import Layout, is_whole
from tetrax.ir.program import ClosedProgram, Equation, Var


class Demands:
    """What the equations of a program, and of those it holds, want of whole values."""

    def __init__(self) -> None:
        self.layouts: dict[Var, Layout] = {}
        self._needed_whole: set[Var] = set()
        # The equations that all devices do alike, by the program they stand in, in order.
        self._alike: list[Equation] = []

    def note(self, atom: object, layout: Layout) -> None:
        """An equation takes a whole value, cut so."""
        if not isinstance(atom, Var):
            return
        if is_whole(layout):
            self._needed_whole.add(atom)
        else:
            self.layouts.setdefault(atom, layout)

    def done_by_all(self, eqn: Equation) -> None:
        self._alike.append(eqn)

    def settle(self, closed: ClosedProgram, axes: DeviceAxes) -> dict[Var, Layout]:
        """What to cut: what is wanted cut by all, and what only that is computed from."""
        for atom in closed.program.outvars:
            if isinstance(atom, Var):
                self._needed_whole.add(atom)
        found: dict[Var, Layout] = {}
        for eqn in reversed(self._alike):
            wanted = [
                None if var in self._needed_whole else self.layouts.get(var) for var in eqn.outvars
            ]
            avals, outs = [atom.aval for atom in eqn.invars], [var.aval for var in eqn.outvars]
            factors = None
            if any(layout is not None for layout in wanted) and eqn.primitive.structure is None:
                factors = eqn.primitive.factors(avals, outs, eqn.params)
            if factors is None:
                self._needed_whole.update(a for a in eqn.invars if isinstance(a, Var))
                continue
            cuts = choose(factors, [((),) * aval.ndim for aval in avals], wanted, axes)
            for var, layout in zip(eqn.outvars, wanted, strict=True):
                if layout is not None:
                    found[var] = layout
            for atom, dims in zip(eqn.invars, factors.operands, strict=True):
                self.note(atom, layout_of(dims, cuts))
        return found
