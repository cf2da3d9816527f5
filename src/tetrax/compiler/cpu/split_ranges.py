"""Kernel to kernel: loops cut where a condition on their variable changes.

A concatenation, a padding or a roll asks of every element which operand it comes from. The answer
changes at a few places; between them the condition is constant, and what is left is a plain copy.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from tetrax.compiler.cpu.legalise import expressions, map_expressions
from tetrax.ir.kernel_expr import Expr, walk
from tetrax.ir.kernel_index import affine_of, index_constant
from tetrax.ir.kernel_operations import COMPARE_OPS, add, index_variable, sub
from tetrax.ir.kernel_simplify import substitute_simplified
from tetrax.ir.kernel_statements import Block, If, Kernel, Loop, Statement, While, block, loop
from tetrax.ir.kernel_types import I64

SHORTEST = 64
"""Loops of fewer turns are left whole."""
MOST_CUTS = 4
MOST_NODES = 400
"""Bodies of more expressions are not copied."""


def split_ranges(kernel: Kernel) -> Kernel:
    """The same kernel with loops cut at the changes of their conditions."""
    return replace(kernel, body=_split(kernel.body))


def _split(statement: Statement) -> Statement:
    if isinstance(statement, Block):
        return block(*(_split(inner) for inner in statement.statements))
    if isinstance(statement, If):
        return If(statement.condition, _split(statement.then), _split(statement.orelse))
    if isinstance(statement, While):
        return While(statement.carried, statement.condition, _split(statement.body))
    if not isinstance(statement, Loop):
        return statement
    whole = replace(statement, body=_split(statement.body))
    if whole.carried or whole.extent.op != "const" or whole.extent.data < SHORTEST:
        return whole
    cuts = _cuts(whole)
    if not cuts:
        return whole
    edges = [0, *cuts, whole.extent.data]
    return block(*(_piece(whole, first, last) for first, last in pairwise(edges)))


def _piece(whole: Loop, first: int, last: int) -> Statement:
    variable = index_variable(whole.variable.data.name, last - first)
    place = index_constant(first) if last - first == 1 else add(variable, first)
    body = map_expressions(
        whole.body, lambda node: substitute_simplified([node], {whole.variable: place})[0]
    )
    return loop(variable, last - first, body, kind=whole.kind)


def _cuts(whole: Loop) -> list[int]:
    nodes = walk(expressions(whole.body))
    if len(nodes) > MOST_NODES:
        return []
    exact: set[int] = set()
    loose: set[int] = set()
    for node in nodes:
        meets = _meeting_point(node, whole.variable)
        if meets is not None:
            (loose if node.op in ("min", "max") else exact).update(_changes(node, *meets))
    # Where the sides of a minimum are equal, it may be either: the cut may come a turn later.
    exact |= {cut for cut in loose if cut not in exact and cut + 1 not in exact}
    cuts = sorted(cut for cut in exact if 0 < cut < whole.extent.data)
    return cuts if len(cuts) <= MOST_CUTS else []


def _meeting_point(node: Expr, variable: Expr) -> tuple[int, bool] | None:
    """Where the two sides of a comparison are equal, and whether the first then grows past it."""
    if node.op not in (*COMPARE_OPS, "min", "max") or node.args[0].type is not I64:
        return None
    terms, constant = affine_of(sub(node.args[0], node.args[1]))
    if len(terms) != 1 or terms[0][0] is not variable or terms[0][1] not in (1, -1):
        return None
    rising = terms[0][1] == 1
    return (-constant if rising else constant), rising


def _changes(node: Expr, meets: int, rising: bool) -> list[int]:
    """The values of a loop's variable from which on the answer is another."""
    if node.op in ("eq", "ne"):
        return [meets, meets + 1]
    if node.op in ("min", "max"):
        return [meets]
    # At the meeting point `<` still answers as after it on a rising side, `<=` as before it.
    strict = node.op in ("lt", "ge")
    return [meets if strict == rising else meets + 1]
