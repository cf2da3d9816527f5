"""What a program costs, counted over its equations, those in loops as often as they run."""

from __future__ import annotations

from dataclasses import dataclass

from tetrax.ir.control import Branch, Inline, Scan, While
from tetrax.ir.program import ClosedProgram, Equation
from tetrax.ir.types import ShapedArray, storage_dtype


@dataclass(frozen=True)
class Costs:
    """Floating-point operations, those of products among them, and bytes that products touch."""

    flops: float = 0.0
    product_flops: float = 0.0
    product_bytes: float = 0.0

    def __add__(self, other: Costs) -> Costs:
        return Costs(
            self.flops + other.flops,
            self.product_flops + other.product_flops,
            self.product_bytes + other.product_bytes,
        )

    def __mul__(self, times: int) -> Costs:
        return Costs(self.flops * times, self.product_flops * times, self.product_bytes * times)


def program_costs(closed: ClosedProgram) -> Costs:
    """The costs of one run: one for each element and equation, more for products.

    Of branches the dearest counts, and of a `while_loop`, whose turns nobody knows, one turn.
    """
    total = Costs()
    for eqn in closed.eqns:
        total += _equation_costs(eqn)
    return total


def _equation_costs(eqn: Equation) -> Costs:
    primitive, avals = eqn.primitive, [atom.aval for atom in eqn.invars]
    estimate = getattr(primitive, "flops", None)
    if estimate is not None:
        flops = float(estimate(avals, eqn.params))
        touched = sum(map(nbytes, (*avals, *(var.aval for var in eqn.outvars))))
        return Costs(flops, flops, touched)
    if primitive.structure is not None:
        return _held_costs(primitive.structure(avals, **eqn.params))
    if primitive.cost:
        return Costs(max((a.aval.size for a in (*eqn.invars, *eqn.outvars)), default=0))
    return Costs()


def _held_costs(described: object) -> Costs:
    if isinstance(described, Inline):
        return program_costs(described.program)
    if isinstance(described, Scan):
        return program_costs(described.body) * described.length
    if isinstance(described, While):
        return program_costs(described.body) + program_costs(described.condition)
    if isinstance(described, Branch):
        return max(map(program_costs, described.branches), key=lambda costs: costs.flops)
    return Costs()


def nbytes(aval: ShapedArray) -> int:
    return aval.size * storage_dtype(aval.dtype).itemsize
