"""Matrix products that a scan repeats on its slices, as one large product outside.

- A product of a slice with a constant of the loop needs no turn of its own: all slices are
  multiplied at once, before the loop.
- A cotangent that adds up a product every turn (the gradient of a weight) is one product that
  contracts the steps too, after the loop. Only sums that differentiation made (`add_any`) are
  taken: their order is nobody's wish.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tetrax.compiler.nest import nbytes
from tetrax.compiler.passes.products import ordered_product_p
from tetrax.ir.atoms import Atom, Var
from tetrax.ir.program import Equation
from tetrax.ops import axes as ax
from tetrax.ops.base import REGISTRY
from tetrax.ops.contract import Contraction, dot_general_p

MAX_STACKED_BYTES = 1 << 27
"""Memory that one loop's products may take while they wait for the loop, or for its end."""
SHORTEST_SUM = 16
"""Products over fewer elements cost no more than the memory for their results."""


def products_before(
    eqns: Sequence[Equation], slices: dict[Var, Atom], constants: dict[Var, Atom], length: int
) -> tuple[list[Equation], list[Equation], list[tuple[Var, Var]]]:
    """Equations before a loop, those that stay in it, and (outside, inside) of its new slices."""
    before: list[Equation] = []
    kept: list[Equation] = []
    made: list[tuple[Var, Var]] = []
    room = MAX_STACKED_BYTES
    for eqn in eqns:
        operands = _sliced_operands(eqn, slices, constants)
        size = length * nbytes(eqn.outvars[0].aval) if operands else 0
        if operands is None or size > room:
            kept.append(eqn)
            continue
        room -= size
        (result,) = eqn.outvars
        aval = result.aval
        outside = Var(aval.update(shape=(length, *aval.shape)))
        before.append(eqn.replace(invars=operands[:2], outvars=[outside], params=operands[2]))
        made.append((outside, result))
    return before, kept, made


def _sliced_operands(
    eqn: Equation, slices: dict[Var, Atom], constants: dict[Var, Atom]
) -> tuple[Atom, Atom, dict[str, Any]] | None:
    """The operands and parameters of the product of all slices at once."""
    if eqn.primitive is not dot_general_p:
        return None
    lhs, rhs = eqn.invars
    (lhs_contract, rhs_contract), (lhs_batch, _) = eqn.params["dimension_numbers"]
    c = Contraction.of(lhs.aval.ndim, rhs.aval.ndim, eqn.params["dimension_numbers"])
    depth = ax.product([lhs.aval.shape[axis] for axis in lhs_contract])
    if (
        lhs_batch
        or depth < SHORTEST_SUM
        or not dot_general_p.stores([lhs.aval, rhs.aval], eqn.params)
    ):
        return None
    shifted = lambda axes: tuple(axis + 1 for axis in axes)
    if lhs in slices and rhs in constants:
        numbers = ((shifted(lhs_contract), tuple(rhs_contract)), ((), ()))
        return slices[lhs], constants[rhs], {**eqn.params, "dimension_numbers": numbers}
    if rhs in slices and lhs in constants and not c.rhs_kept:
        numbers = ((shifted(rhs_contract), tuple(lhs_contract)), ((), ()))
        return slices[rhs], constants[lhs], {**eqn.params, "dimension_numbers": numbers}
    return None


@dataclass(frozen=True)
class Accumulated:
    """A carry that only adds up a product."""

    position: int
    sum: Equation
    product: Equation


def accumulated_products(
    eqns: Sequence[Equation],
    carries: Sequence[Var],
    following: Sequence[Atom],
    stacked: Sequence[Atom],
) -> list[Accumulated]:
    """The carries that are nothing but sums of one product a turn."""
    uses = Counter(a for eqn in eqns for a in eqn.invars if isinstance(a, Var))
    uses.update(a for a in (*following, *stacked) if isinstance(a, Var))
    definitions = {var: eqn for eqn in eqns for var in eqn.outvars}
    found = []
    for position, (carry, after) in enumerate(zip(carries, following, strict=True)):
        total = definitions.get(after) if isinstance(after, Var) else None
        if total is None or total.primitive is not REGISTRY["add_any"] or uses[carry] != 1:
            continue
        others = [atom for atom in total.invars if atom is not carry]
        if len(others) != 1 or uses[total.outvars[0]] != 1:
            continue
        (added,) = others
        product = definitions.get(added) if isinstance(added, Var) and uses[added] == 1 else None
        if product is None or product.primitive not in (dot_general_p, ordered_product_p):
            continue
        if all(isinstance(a, Var) for a in product.invars) and dot_general_p.stores(
            [a.aval for a in product.invars], product.params
        ):
            found.append(Accumulated(position, total, product))
    return found


def product_over_steps(
    product: Equation, operands: Sequence[Atom], initial: Atom, out: Var
) -> list[Equation]:
    """The equations of `initial` plus the products of all steps; `operands` are stacked."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = product.params["dimension_numbers"]
    shifted = lambda axes: tuple(axis + 1 for axis in axes)
    numbers = (
        ((0, *shifted(lhs_contract)), (0, *shifted(rhs_contract))),
        (shifted(lhs_batch), shifted(rhs_batch)),
    )
    total = Var(product.outvars[0].aval)
    return [
        product.replace(
            invars=list(operands),
            outvars=[total],
            params={**product.params, "dimension_numbers": numbers},
        ),
        Equation([initial, total], [out], REGISTRY["add_any"], {}, source=product.source),
    ]
