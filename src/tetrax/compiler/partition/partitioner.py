"""What partitioning does with equations: devices each do a part where the operation says how.

Every equation is done on parts where its operation says how (`Primitive.factors`): operands are
brought into layouts that fit, the operation runs on what each device has, and what was reduced over
a factor that is cut is reduced over the devices. What can't be cut is gathered and done by all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np
from tetrax.compiler.device_groups import DeviceAxes
from tetrax.compiler.partition.choose import choose, layout_of
from tetrax.compiler.partition.demands import Demands
from tetrax.compiler.partition.placed import Placed, Share, fitting, local_aval
from tetrax.compiler.partition.report import Report
from tetrax.compiler.partition.reshard import position, reshard
from tetrax.ir.control import HostCall
from tetrax.ir.layout import Factors, Layout, Place, is_whole, whole_layout
from tetrax.ir.program import Atom, ClosedProgram, Equation, Literal, Program, Var
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import add, mul
from tetrax.ops.collective import Collective, pmax_p, pmin_p, psum_p, psum_scatter_p
from tetrax.ops.creation import full_like
from tetrax.tracing.source import inherit_source
from tetrax.tracing.value import get_aval

_REDUCTIONS = {"sum": psum_p, "max": pmax_p, "min": pmin_p}
SUMS = ("add", "add_any")
Wanted = dict[Var, Layout]
Handler = Callable[["Partitioner", Equation, Any, list[Placed]], list[Placed]]


class Partitioner:
    """Runs programs on placed values under the current trace, which writes the parts down.

    `handlers` say what is done with operations that hold programs, by how they describe themselves.
    """

    def __init__(
        self,
        axes: DeviceAxes,
        report: Report,
        handlers: Mapping[type, Handler],
        settled: Wanted | None = None,
    ) -> None:
        self._handlers = handlers
        self.axes = axes
        self.report = report
        # What whole values are wanted cut, found by a pass before; and what this one finds.
        self.settled = settled or {}
        self.demands = Demands()
        # Variables that are used once, to be added to something.
        self._only_added: set[Var] = set()
        # Values that were brought into other layouts, so that nothing is moved twice.
        self._moved: dict[tuple[int, Layout], tuple[Any, Placed]] = {}
        # The axes for which a program is that of one device already.
        self.manual: frozenset[Any] = frozenset()

    @property
    def automatic(self) -> tuple[Any, ...]:
        """The other axes of devices."""
        return tuple(name for name in self.axes.names if name not in self.manual)

    @contextmanager
    def inside(self, manual: frozenset[Any]) -> Iterator[None]:
        """Partition a program that is that of one device along `manual`."""
        before = self.manual
        self.manual = before | manual
        try:
            yield
        finally:
            self.manual = before

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Partition something without saying so in the report, or what it demands."""
        before = self.report, self.demands
        self.report, self.demands = Report(self.report.devices), Demands()
        try:
            yield
        finally:
            self.report, self.demands = before

    @contextmanager
    def repeated(self, times: int) -> Iterator[None]:
        """Partition what runs so many times."""
        before = self.report.times
        self.report.times *= times
        try:
            yield
        finally:
            self.report.times = before

    def run(
        self,
        closed: ClosedProgram,
        operands: Sequence[Placed],
        out_layouts: Sequence[Layout | None] = (),
        free: Collection[Atom] = (),
    ) -> list[Placed]:
        """The results of a program, in `out_layouts` where these say something.

        They are needed as they are, but for those that are `free`.
        """
        program = closed.program
        values: dict[Var, Placed] = dict(zip(program.invars, operands, strict=True))
        for var, value in zip(program.constvars, closed.consts, strict=True):
            values[var] = Placed(value, var.aval, whole_layout(var.aval.ndim))

        def read(atom: Any) -> Placed:
            if isinstance(atom, Literal):
                return Placed(atom.val, atom.aval, whole_layout(atom.aval.ndim))
            return values[atom]

        wanted = self.wanted(closed, operands, out_layouts)
        self._only_added |= only_added(program)
        outer = inherit_source(None)
        try:
            for eqn in program.eqns:
                inherit_source(eqn.source or outer)
                line = eqn.source_line()
                self.report.line = "" if line is None else f"{line.file}:{line.line}"
                outs = self.equation(eqn, [read(atom) for atom in eqn.invars], wanted)
                values.update(zip(eqn.outvars, outs, strict=True))
        finally:
            inherit_source(outer)
        outs = [self.summed(read(atom)) for atom in program.outvars]
        self.demands.keep([atom for atom in program.outvars if atom not in free])
        if not out_layouts:
            return outs
        return [
            out if layout is None else self.reshard(out, layout, "a result is wanted so")
            for out, layout in zip(outs, out_layouts, strict=True)
        ]

    def wanted(
        self,
        closed: ClosedProgram,
        operands: Sequence[Placed],
        out_layouts: Sequence[Layout | None],
    ) -> Wanted:
        """How variables are best cut for what comes later."""
        found = dict(self.settled)
        if out_layouts:
            for atom, layout in zip(closed.program.outvars, out_layouts, strict=True):
                if layout is not None and isinstance(atom, Var):
                    found[atom] = layout
        return found

    def reshard(self, x: Placed, layout: Layout, reason: str) -> Placed:
        """`x` in another layout, or as near to it as sizes allow."""
        layout = fitting(layout, x.aval, self.axes)
        if layout == x.layout:
            return x
        known = self._moved.get((id(x.value), layout))
        if known is not None and known[0] is x.value:
            return known[1]
        moved = reshard(x, layout, self.axes, self.report, reason)
        self._moved[id(x.value), layout] = x.value, moved
        return moved

    # -- equations -----------------------------------------------------------------------------

    def equation(self, eqn: Equation, operands: list[Placed], wanted: Wanted) -> list[Placed]:
        if eqn.primitive.name in SUMS and _one_sum(operands):
            return self._sum_of_shares(eqn, operands, wanted)
        if any(x.share for x in operands):
            operands = [self.summed(x) for x in operands]
        structure = eqn.primitive.structure
        if structure is not None:
            described = structure([x.aval for x in operands], **eqn.params)
            handler = self._handlers.get(type(described))
            if handler is not None:
                return handler(self, eqn, described, operands)
        if isinstance(eqn.primitive, Collective) and eqn.primitive.kind:
            self._note_collective(eqn.primitive, eqn.params, operands)
        layouts = [x.layout for x in operands]
        cut = not all(map(is_whole, layouts)) or any(x.before for x in operands)
        if not cut and wanted.keys().isdisjoint(eqn.outvars):
            self.demands.done(eqn, layouts)
            if eqn.primitive.is_pure or self._factors(eqn) is not None:
                return self.whole(eqn, operands)
        factors = self._factors(eqn)
        if factors is None and not eqn.primitive.is_pure:
            return self._handlers[HostCall](self, eqn, None, operands)
        if factors is None:
            reason = f"{eqn.primitive.name} needs all of it"
            self.demands.keep(eqn.invars)
            gathered = [self.reshard(x, whole_layout(x.aval.ndim), reason) for x in operands]
            return self.whole(eqn, gathered)
        return self._parts(eqn, operands, factors, wanted)

    def _note_collective(
        self, primitive: Collective, params: dict, operands: Sequence[Placed]
    ) -> None:
        """A collective of a program that is that of one device already."""
        groups = params.get("axis_index_groups")
        names = tuple(name for name in primitive.names(params) if name in self.axes.names)
        size = len(groups[0]) if groups else self.axes.product(names)
        for x in operands:
            aval = get_aval(x.value)
            if primitive.kind == "all_gather":
                aval = aval.update(shape=(size, *aval.shape))
            self.report.add(primitive.kind, names, size, aval, "the program asks for it")

    def _factors(self, eqn: Equation) -> Factors | None:
        outs = [var.aval for var in eqn.outvars]
        return eqn.primitive.factors([atom.aval for atom in eqn.invars], outs, eqn.params)

    def noted(
        self,
        eqn: Equation,
        operands: Sequence[Placed],
        layouts: Sequence[Layout],
        but: Collection[int] = (),
    ) -> None:
        """An equation that holds programs takes its operands so, `but` for some."""
        for i, (atom, x, layout) in enumerate(zip(eqn.invars, operands, layouts, strict=True)):
            if i not in but:
                self.demands.note(atom, x.layout, layout)

    def whole(self, eqn: Equation, operands: Sequence[Placed]) -> list[Placed]:
        """All devices do the same."""
        outs = self._done(eqn, eqn.params, [x.value for x in operands])
        return _all_placed(outs, eqn, [whole_layout(var.aval.ndim) for var in eqn.outvars])

    def _done(self, eqn: Equation, params: dict, values: Sequence[Any]) -> list[Any]:
        outs = eqn.primitive.rebind(values, params)
        return list(outs) if eqn.primitive.multiple_results else [outs]

    def _parts(
        self, eqn: Equation, operands: Sequence[Placed], factors: Factors, wanted: Wanted
    ) -> list[Placed]:
        """Each device does its part."""
        primitive, axes = eqn.primitive, self.axes
        targets = [wanted.get(var) for var in eqn.outvars]
        cuts = choose(factors, [x.layout for x in operands], targets, axes)
        reason = f"{primitive.name} is cut differently"
        self.demands.done(eqn, [x.layout for x in operands], factors, cuts)
        fitted = [
            self.reshard(x, layout_of(dims, cuts), reason)
            for x, dims in zip(operands, factors.operands, strict=True)
        ]
        layouts = [layout_of(dims, cuts) for dims in factors.results]
        avals = [
            local_aval(var.aval, layout, axes)
            for var, layout in zip(eqn.outvars, layouts, strict=True)
        ]
        values = [x.value for x in fitted]
        if factors.positional.isdisjoint(cuts):
            parts = [get_aval(x) for x in values]
            compute = partial(self._done, eqn, primitive.local_params(eqn.params, parts, avals))
        else:
            place = Place(
                [x.aval for x in operands],
                [self._starts(x.layout, get_aval(x.value)) for x in fitted],
                [self._starts(*pair) for pair in zip(layouts, avals, strict=True)],
            )
            compute = partial(primitive.positioned, outs=avals, place=place, params=eqn.params)
        across = [(cuts[f], operation) for f, operation in factors.reduced.items() if f in cuts]
        if across:
            return self._reduced(eqn, values, compute, layouts, factors, across, wanted)
        found = _all_placed(compute(values), eqn, layouts)
        if not factors.aligned:
            return found
        return [
            self._as_before(out, operands) if target is None else out
            for out, target in zip(found, targets, strict=True)
        ]

    def _as_before(self, out: Placed, operands: Sequence[Placed]) -> Placed:
        """A result, cut again where the largest operand was before it was gathered."""
        alike = [x for x in operands if x.aval.ndim == out.aval.ndim]
        largest = max(alike, key=lambda x: x.aval.size)
        used = {name for names in out.layout for name in names}
        pairs = zip(out.layout, largest.before or largest.layout, strict=True)
        layout = tuple(own or (old if used.isdisjoint(old) else ()) for own, old in pairs)
        cut = self.reshard(out, layout, "")
        if cut is not out:
            self._moved[id(cut.value), out.layout] = cut.value, out
        return cut if cut.layout == layout else replace(cut, before=layout)

    def _starts(self, layout: Layout, part: ShapedArray) -> list[Any]:
        """Where the part of this device begins in the whole, an int32 for every axis."""
        return [
            mul(position(names, self.axes), np.int32(extent)) if names else np.int32(0)
            for names, extent in zip(layout, part.shape, strict=True)
        ]

    def _reduced(
        self,
        eqn: Equation,
        values: list[Any],
        compute: Callable[[list[Any]], Sequence[Any]],
        layouts: Sequence[Layout],
        factors: Factors,
        across: Sequence[tuple[tuple[Any, ...], str]],
        wanted: Wanted,
    ) -> list[Placed]:
        """The one result of an equation of which each device makes a share."""
        (var,), (layout,) = eqn.outvars, layouts
        added = {i: values[i] for i in factors.added}
        values = [full_like(x, 0) if i in added else x for i, x in enumerate(values)]
        out = Placed(compute(values)[0], var.aval, layout)
        reason = f"{eqn.primitive.name} is reduced over an axis that is cut"
        goal = wanted.get(var)
        shares = [
            (operation, Share(names, goal, reason, self.report.line)) for names, operation in across
        ]
        if var in self._only_added and not added and [name for name, _ in shares] == ["sum"]:
            return [replace(out, share=shares[0][1])]
        for operation, share in shares:
            if operation == "sum":
                out = self.summed(replace(out, share=share))
            else:
                out = replace(out, value=self._all_reduce(out.value, operation, share))
        for x in added.values():
            rest = self.reshard(Placed(x, var.aval, layout), out.layout, "the sum is cut so")
            out = Placed(add(rest.value, out.value), var.aval, out.layout)
        return [out]

    def _all_reduce(self, value: Any, operation: str, share: Share) -> Any:
        size = self.axes.product(share.names)
        self.report.add("all_reduce", share.names, size, get_aval(value), share.reason, share.line)
        return _REDUCTIONS[operation].bind(value, axes=share.names, axis_index_groups=None)[0]

    def _sum_of_shares(
        self, eqn: Equation, operands: Sequence[Placed], wanted: Wanted
    ) -> list[Placed]:
        """Shares of two sums over devices are added first, so that there is one such sum."""
        (var,), first = eqn.outvars, operands[0]
        assert first.share is not None
        share = replace(first.share, wanted=wanted.get(var))
        self.demands.done(eqn, [x.layout for x in operands])
        value = eqn.primitive.rebind([x.value for x in operands], eqn.params)
        out = Placed(value, var.aval, first.layout, share)
        return [out if var in self._only_added else self.summed(out)]

    def summed(self, x: Placed) -> Placed:
        """The sum of all devices' shares; each keeps a part of it where that is wanted."""
        share = x.share
        if share is None:
            return x
        aval = get_aval(x.value)
        found = _extended(x.layout, share, aval.shape, self.axes)
        if found is None:
            return Placed(self._all_reduce(x.value, "sum", share), x.aval, x.layout)
        axis, names = found
        size = self.axes.product(names)
        self.report.add("reduce_scatter", names, size, aval, share.reason, share.line)
        value = psum_scatter_p.bind(
            x.value,
            axis_name=names,
            axis_size=size,
            scatter_dimension=axis,
            tiled=True,
            axis_index_groups=None,
        )
        layout = tuple((*own, *names) if i == axis else own for i, own in enumerate(x.layout))
        rest = tuple(name for name in share.names if name not in names)
        if rest:
            value = self._all_reduce(value, "sum", replace(share, names=rest))
        return Placed(value, x.aval, layout)


def _one_sum(operands: Sequence[Placed]) -> bool:
    """Whether all are shares of sums over the same devices, cut alike."""
    first = operands[0]
    return first.share is not None and all(
        x.share is not None and x.share.names == first.share.names and x.layout == first.layout
        for x in operands
    )


def _extended(
    layout: Layout, share: Share, shape: Sequence[int], axes: DeviceAxes
) -> tuple[int, tuple[Any, ...]] | None:
    """An axis that is wanted cut over some of the axes of devices that are summed over, and these.

    Of several the one that is cut into most parts.
    """
    found: list[tuple[int, int, tuple[Any, ...]]] = []
    for axis, (own, goal) in enumerate(zip(layout, share.wanted or layout, strict=True)):
        names = tuple(takewhile(share.names.__contains__, goal[len(own) :]))
        if names and goal[: len(own)] == own and shape[axis] % axes.product(names) == 0:
            found.append((axes.product(names), axis, names))
    if not found:
        return None
    _, axis, names = max(found, key=lambda item: item[0])
    return axis, names


def only_added(program: Program) -> set[Var]:
    """The variables that are used once, to be added to something."""
    uses = Counter(
        atom
        for atoms in (*(eqn.invars for eqn in program.eqns), program.outvars)
        for atom in atoms
        if isinstance(atom, Var)
    )
    return {
        atom
        for eqn in program.eqns
        if eqn.primitive.name in SUMS
        for atom in eqn.invars
        if isinstance(atom, Var) and uses[atom] == 1
    }


def _all_placed(outs: Sequence[Any], eqn: Equation, layouts: Sequence[Layout]) -> list[Placed]:
    avals = [var.aval for var in eqn.outvars]
    return [Placed(*found) for found in zip(outs, avals, layouts, strict=True)]
