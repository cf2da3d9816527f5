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
from tetrax.ir.layout import Layout
from tetrax.ir.program import ClosedProgram
from tetrax.tracing.staging import stage

_HANDLERS = {**control.HANDLERS, **manual.HANDLERS}


@dataclass(frozen=True)
class Partitioned:
    """The program of one device, and how its results are cut."""

    program: ClosedProgram
    out_layouts: tuple[Layout, ...]
    report: Report


def partition(
    closed: ClosedProgram,
    axes: DeviceAxes,
    in_layouts: Sequence[Layout],
    out_layouts: Sequence[Layout | None],
) -> Partitioned:
    """The program of one of the devices; None in `out_layouts` leaves it to the program."""
    report = Report(axes.size)

    def run(*parts: Any) -> tuple[list[Any], tuple[Layout, ...]]:
        partitioner = Partitioner(axes, report, _HANDLERS)
        values = [
            Placed(part, aval, layout)
            for part, aval, layout in zip(parts, closed.in_avals, in_layouts, strict=True)
        ]
        outs = partitioner.run(closed, values, out_layouts)
        return [out.value for out in outs], tuple(out.layout for out in outs)

    avals = [
        local_aval(aval, layout, axes)
        for aval, layout in zip(closed.in_avals, in_layouts, strict=True)
    ]
    program, found = stage(run, avals, closed.program.debug_info)
    return Partitioned(program, found, report)
