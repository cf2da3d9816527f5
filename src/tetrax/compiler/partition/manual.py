"""Partitioning of programs that are those of one device already (`shard_map`, `pmap`)."""

from __future__ import annotations

from tetrax.compiler.partition.partitioner import Handler, Partitioner
from tetrax.compiler.partition.placed import Placed
from tetrax.ir.control import Manual
from tetrax.ir.layout import Layout
from tetrax.ir.program import Equation


def _manual(
    self: Partitioner, eqn: Equation, described: Manual, operands: list[Placed]
) -> list[Placed]:
    manual, program = described.manual, described.program
    self.demands.keep(eqn.invars)
    inner = []
    for x, given, aval in zip(operands, described.in_layouts, program.in_avals, strict=True):
        automatic = tuple(tuple(n for n in names if n not in manual) for names in x.layout)
        placed = self.reshard(x, _joined(given, automatic), "shard_map takes it so")
        rest = tuple(names[len(own) :] for names, own in zip(placed.layout, given, strict=True))
        inner.append(Placed(placed.value, aval.varying(frozenset()), rest))
    with self.inside(manual):
        outs = self.run(program, inner)
    layouts = [
        _joined(given, out.layout) for given, out in zip(described.out_layouts, outs, strict=True)
    ]
    return [
        Placed(out.value, var.aval.varying(frozenset()), layout)
        for out, var, layout in zip(outs, eqn.outvars, layouts, strict=True)
    ]


def _joined(first: Layout, second: Layout) -> Layout:
    return tuple((*a, *b) for a, b in zip(first, second, strict=True))


HANDLERS: dict[type, Handler] = {Manual: _manual}
