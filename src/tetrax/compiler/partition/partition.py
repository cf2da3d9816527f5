"""Partitioning: a program on whole arrays becomes the program of one device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tetrax.compiler.device_groups import DeviceAxes
from tetrax.compiler.partition import control, manual
from tetrax.compiler.partition.partitioner import Partitioner
from tetrax.compiler.partition.placed import Placed, local_aval
from tetrax.compiler.partition.report import Report
from tetrax.compiler.passes.control import unify_control
from tetrax.compiler.passes.dce import eliminate_dead_code
from tetrax.compiler.passes.inline import inline
from tetrax.ir.layout import Layout
from tetrax.ir.program import ClosedProgram, Var
from tetrax.tracing.staging import stage

_HANDLERS = {**control.HANDLERS, **manual.HANDLERS}


@dataclass(frozen=True)
class Partitioned:
    """The program of one device, and how its results are cut."""

    program: ClosedProgram
    axes: DeviceAxes
    out_layouts: tuple[Layout, ...]
    report: Report


def _prepared(closed: ClosedProgram) -> ClosedProgram:
    """Without calls, so that each has variables of its own, and without what nobody needs."""
    return eliminate_dead_code(unify_control(inline(closed), _prepared))


def partition(
    closed: ClosedProgram,
    axes: DeviceAxes,
    in_layouts: Sequence[Layout],
    out_layouts: Sequence[Layout | None],
) -> Partitioned:
    """The program of one of the devices; None in `out_layouts` leaves it to the program."""
    closed = _prepared(closed)
    avals = [
        local_aval(aval, layout, axes)
        for aval, layout in zip(closed.in_avals, in_layouts, strict=True)
    ]

    def attempt(settled: dict[Var, Layout]) -> tuple[Partitioned, Partitioner]:
        partitioner = Partitioner(axes, Report(axes.size), _HANDLERS, settled)

        def run(*parts: Any) -> tuple[list[Any], tuple[Layout, ...]]:
            triples = zip(parts, closed.in_avals, in_layouts, strict=True)
            values = [Placed(*triple) for triple in triples]
            outs = partitioner.run(closed, values, out_layouts)
            return [out.value for out in outs], tuple(out.layout for out in outs)

        program, found = stage(run, avals, closed.program.debug_info)
        return Partitioned(program, axes, found, partitioner.report), partitioner

    first, partitioner = attempt({})
    settled = partitioner.demands.settle(axes)
    return attempt(settled)[0] if settled else first
