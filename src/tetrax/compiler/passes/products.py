"""Transposes around matrix products: the product reads and writes in any order of axes itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tetrax.ir.atoms import Atom, DropVar, Var
from tetrax.ir.program import ClosedProgram, Equation
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import is_complex
from tetrax.ops import axes as ax
from tetrax.ops.contract import Contraction, compute_scalar, dot_general_p
from tetrax.ops.contract_emit import emit_product, product_target
from tetrax.ops.structure import transpose_p
from tetrax.tracing.primitive import Primitive


class OrderedProduct(Primitive):
    """`dot_general` whose result axis `i` is axis `order[i]` of what it would be."""

    cost = 1
    folds = True

    def shape(self, lhs: ShapedArray, rhs: ShapedArray, *, order: Any, **params: Any) -> Any:
        out = dot_general_p.shape(lhs, rhs, **params)
        return out.update(shape=tuple(out.shape[axis] for axis in order))

    def flops(self, avals: Sequence[ShapedArray], params: dict) -> int:
        rest = {name: value for name, value in params.items() if name != "order"}
        return dot_general_p.flops(avals, rest)

    def emit(self, builder, operands, outs, *, dimension_numbers, order, **params):
        lhs, rhs = operands
        c = Contraction.of(len(lhs.shape), len(rhs.shape), dimension_numbers)
        emit_product(
            builder,
            (lhs, c.lhs_batch, c.lhs_kept, c.lhs_contract),
            (rhs, c.rhs_batch, c.rhs_kept, c.rhs_contract),
            outs[0],
            compute_scalar(outs[0].dtype),
            order,
        )


ordered_product_p = OrderedProduct("dot_general_ordered")


def absorb_transposes(closed: ClosedProgram) -> ClosedProgram:
    """Products of transposed operands and transposed products as one operation each."""
    program = closed.program
    if all(eqn.primitive is not dot_general_p for eqn in program.eqns):
        return closed
    definitions: dict[Var, Equation] = {}
    readers = Counter(a for eqn in program.eqns for a in eqn.invars if isinstance(a, Var))
    readers.update(a for a in program.outvars if isinstance(a, Var))
    eqns: list[Equation] = []
    places: dict[Var, int] = {}
    for eqn in program.eqns:
        if eqn.primitive is dot_general_p:
            eqn = _with_plain_operands(eqn, definitions)
        elif eqn.primitive is transpose_p:
            source = eqn.invars[0]
            product = definitions.get(source) if isinstance(source, Var) else None
            if product is not None and isinstance(source, Var) and readers[source] == 1:
                ordered = _ordered(product, eqn)
                if ordered is not None:
                    definitions[eqn.outvars[0]] = ordered
                    eqns[places[source]] = ordered
                    continue
        for var in eqn.outvars:
            places[var], definitions[var] = len(eqns), eqn
        eqns.append(eqn)
    return ClosedProgram(program.replace(eqns=eqns), closed.consts)


def _with_plain_operands(eqn: Equation, definitions: dict[Var, Equation]) -> Equation:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = eqn.params["dimension_numbers"]
    lhs, lhs_contract, lhs_batch = _untransposed(
        eqn.invars[0], lhs_contract, lhs_batch, definitions
    )
    rhs, rhs_contract, rhs_batch = _untransposed(
        eqn.invars[1], rhs_contract, rhs_batch, definitions
    )
    if [lhs, rhs] == eqn.invars:
        return eqn
    numbers = ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))
    return eqn.replace(invars=[lhs, rhs], params={**eqn.params, "dimension_numbers": numbers})


def _untransposed(
    atom: Atom, contract: Sequence[int], batch: Sequence[int], definitions: dict[Var, Equation]
) -> tuple[Atom, tuple[int, ...], tuple[int, ...]]:
    """The operand before a transpose, with its axes, where the kept ones stay in order."""
    unchanged = atom, tuple(contract), tuple(batch)
    eqn = definitions.get(atom) if isinstance(atom, Var) else None
    if eqn is None or eqn.primitive is not transpose_p:
        return unchanged
    permutation = eqn.params["permutation"]
    kept = [permutation[a] for a in ax.without(range(len(permutation)), (*contract, *batch))]
    if kept != sorted(kept):
        return unchanged
    return (
        eqn.invars[0],
        tuple(permutation[a] for a in contract),
        tuple(permutation[a] for a in batch),
    )


def _ordered(product: Equation, transposed: Equation) -> Equation | None:
    """A product that gives its transposed result, if it can store so."""
    if product.primitive is not dot_general_p or isinstance(transposed.outvars[0], DropVar):
        return None
    (out,) = product.outvars
    avals = [atom.aval for atom in product.invars]
    if not dot_general_p.stores(avals, product.params) or is_complex(out.aval.dtype):
        return None
    if compute_scalar(out.aval.dtype).bits != 8 * out.aval.dtype.itemsize:
        return None
    order = transposed.params["permutation"]
    c = Contraction.of(avals[0].ndim, avals[1].ndim, product.params["dimension_numbers"])
    shape = transposed.outvars[0].aval.shape
    if product_target(shape, len(c.lhs_batch), len(c.lhs_kept), order) is None:
        return None
    return product.replace(
        outvars=transposed.outvars,
        primitive=ordered_product_p,
        params={**product.params, "order": tuple(order)},
    )
