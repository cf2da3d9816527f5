"""Folds over neighbouring axes as folds over one: `x[3 * i + j]` over i and j is `x[k]` over k.

One long loop reads in vectors where a short inner one could not, and can be cut anywhere.
"""

from __future__ import annotations

from tetrax.compiler.cpu.legalise import expressions, map_expressions
from tetrax.compiler.cpu.schedule_rewrite import substituter
from tetrax.ir.kernel_expr import Expr, FoldShape, fold_parts, make, rebuild, rewrite, walk
from tetrax.ir.kernel_operations import div, index_variable, rem
from tetrax.ir.kernel_statements import Kernel, index


def collapse_folds(kernel: Kernel) -> Kernel:
    """The same kernel with loops of folds joined where that makes no index harder."""
    nodes = walk(expressions(kernel.body))
    if not any(node.op == "fold" and len(node.data.variables) > 1 for node in nodes):
        return kernel
    done: dict[Expr, Expr] = {}

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        node = rebuild(node, args)
        return _collapsed(node) if node.op == "fold" else node

    body = map_expressions(kernel.body, lambda node: rewrite([node], rule, done)[0])
    return Kernel(kernel.name, kernel.buffers, kernel.scalars, body)


def _collapsed(node: Expr) -> Expr:
    at = len(node.data.variables) - 2
    while at >= 0:
        node = _joined(node, at) or node
        at -= 1
    return node


def _joined(node: Expr, at: int) -> Expr | None:
    """A fold with loop `at` and the one inside it as one loop, or None."""
    shape: FoldShape = node.data
    extents, initial, updates = fold_parts(node)
    outer, inner = extents[at], extents[at + 1]
    if outer.op != "const" or inner.op != "const" or inner.data < 1:
        return None
    variable = index_variable(shape.variables[at].data.name, outer.data * inner.data)
    rule = substituter(
        {shape.variables[at]: div(variable, inner), shape.variables[at + 1]: rem(variable, inner)}
    )
    new = tuple(rule(update) for update in updates)
    if any(n.op in ("div", "rem") and variable in n.free for n in walk(new)):
        return None
    variables = (*shape.variables[:at], variable, *shape.variables[at + 2 :])
    sizes = (*extents[:at], index(outer.data * inner.data), *extents[at + 2 :])
    joined = FoldShape(variables, shape.accumulators, shape.reassociate)
    return make("fold", node.type, (*sizes, *initial, *new), joined)
