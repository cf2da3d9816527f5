"""What partitioning does with equations: devices each do a part where the operation says how.

Every equation is done on parts where its operation says how (`Primitive.factors`): operands are
brought into layouts that fit, the operation runs on what each device has, and what was reduced over
a factor that is cut is reduced over the devices. What can't be cut is gathered and done by all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tetrax.compiler.device_groups import DeviceAxes
from tetrax.compiler.partition.choose import choose, layout_of
from tetrax.compiler.partition.demands import Demands
from tetrax.compiler.partition.placed import Placed, fitting, local_aval
from tetrax.compiler.partition.report import Report
from tetrax.compiler.partition.reshard import reshard
from tetrax.ir.layout import Factors, Layout, is_whole, whole_layout
from tetrax.ir.program import ClosedProgram, Equation, Literal, Var
from tetrax.ops.collective import Collective, pmax_p, pmin_p, psum_p
from tetrax.tracing.source import inherit_source
from tetrax.tracing.value import get_aval

_REDUCTIONS = {"sum": psum_p, "max": pmax_p, "min": pmin_p}
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
        """Partition something without saying so in the report."""
        before = self.report
        self.report = Report(before.devices)
        try:
            yield
        finally:
            self.report = before

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
    ) -> list[Placed]:
        """The results of a program, in `out_layouts` where these say something."""
        program = closed.program
        values: dict[Var, Placed] = dict(zip(program.invars, operands, strict=True))
        for var, value in zip(program.constvars, closed.consts, strict=True):
            values[var] = Placed(value, var.aval, whole_layout(var.aval.ndim))

        def read(atom: Any) -> Placed:
            if isinstance(atom, Literal):
                return Placed(atom.val, atom.aval, whole_layout(atom.aval.ndim))
            return values[atom]

        wanted = self.wanted(closed, operands, out_layouts)
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
        outs = [read(atom) for atom in program.outvars]
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
        return reshard(x, fitting(layout, x.aval, self.axes), self.axes, self.report, reason)

    # -- equations -----------------------------------------------------------------------------

    def equation(self, eqn: Equation, operands: list[Placed], wanted: Wanted) -> list[Placed]:
        structure = eqn.primitive.structure
        if structure is not None:
            described = structure([x.aval for x in operands], **eqn.params)
            handler = self._handlers.get(type(described))
            if handler is not None:
                return handler(self, eqn, described, operands)
        if isinstance(eqn.primitive, Collective) and eqn.primitive.kind:
            self._note_collective(eqn.primitive, eqn.params, operands)
        if all(is_whole(x.layout) for x in operands) and wanted.keys().isdisjoint(eqn.outvars):
            self.demands.done_by_all(eqn)
            return self.whole(eqn, operands)
        outs = [var.aval for var in eqn.outvars]
        factors = eqn.primitive.factors([x.aval for x in operands], outs, eqn.params)
        if factors is None:
            reason = f"{eqn.primitive.name} needs all of it"
            for atom, x in zip(eqn.invars, operands, strict=True):
                self.demands.note(atom, whole_layout(x.aval.ndim))
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

    def whole(self, eqn: Equation, operands: Sequence[Placed]) -> list[Placed]:
        """All devices do the same."""
        outs = eqn.primitive.rebind([x.value for x in operands], eqn.params)
        outs = outs if eqn.primitive.multiple_results else [outs]
        return [
            Placed(out, var.aval, whole_layout(var.aval.ndim))
            for out, var in zip(outs, eqn.outvars, strict=True)
        ]

    def _parts(
        self, eqn: Equation, operands: Sequence[Placed], factors: Factors, wanted: Wanted
    ) -> list[Placed]:
        """Each device does its part."""
        primitive, axes = eqn.primitive, self.axes
        targets = [wanted.get(var) for var in eqn.outvars]
        cuts = choose(factors, [x.layout for x in operands], targets, axes)
        reason = f"{primitive.name} is cut differently"
        for atom, x, dims in zip(eqn.invars, operands, factors.operands, strict=True):
            if is_whole(x.layout) and x.layout:
                self.demands.note(atom, layout_of(dims, cuts))
        fitted = [
            self.reshard(x, layout_of(dims, cuts), reason)
            for x, dims in zip(operands, factors.operands, strict=True)
        ]
        layouts = [layout_of(dims, cuts) for dims in factors.results]
        avals = [
            local_aval(var.aval, layout, axes)
            for var, layout in zip(eqn.outvars, layouts, strict=True)
        ]
        params = primitive.local_params(eqn.params, [get_aval(x.value) for x in fitted], avals)
        outs = primitive.rebind([x.value for x in fitted], params)
        outs = list(outs) if primitive.multiple_results else [outs]
        for factor, operation in factors.reduced.items():
            names = cuts.get(factor, ())
            if names:
                outs = self._reduced(outs, operation, names, primitive.name)
        return [
            Placed(out, var.aval, layout)
            for out, var, layout in zip(outs, eqn.outvars, layouts, strict=True)
        ]

    def _reduced(self, outs: Sequence[Any], operation: str, names: tuple, name: str) -> list[Any]:
        for out in outs:
            reason = f"{name} is reduced over an axis that is cut"
            self.report.add("all_reduce", names, self.axes.product(names), get_aval(out), reason)
        return _REDUCTIONS[operation].bind(*outs, axes=names, axis_index_groups=None)
