"""Saying in a program how a value is to be cut over the devices of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tetrax.ir.control import Constraint
from tetrax.ir.types import ShapedArray
from tetrax.ops.structure import Linear
from tetrax.tracing.symbolic import Zero

Wanted = tuple[tuple[Any, ...] | None, ...]
"""For every axis the axes of devices that it is to be cut over; None leaves it open."""


class ShardingConstraint(Linear):
    """The operand, cut over `mesh` as `layout` says."""

    def shape(self, x: ShapedArray, *, mesh: Any, layout: Wanted) -> ShapedArray:
        return x

    def structure(self, avals: Sequence[ShapedArray], *, mesh: Any, layout: Wanted) -> Constraint:
        return Constraint(mesh, layout)

    def transpose(self, ct, x, **params):
        return [Zero(x.aval) if type(ct) is Zero else self.bind(ct, **params)]

    def batch_axis(self, axis, operands, dims, *, mesh, layout):
        (x,), (dim,) = operands, dims
        names = () if axis.spmd_name is None else axis.spmd_name
        own = names if isinstance(names, tuple) else (names,)
        wanted = (*layout[:dim], own or None, *layout[dim:])
        return self.bind(x, mesh=mesh, layout=wanted), dim


sharding_constraint_p = ShardingConstraint("sharding_constraint")
