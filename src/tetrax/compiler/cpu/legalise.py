"""Kernel to kernel: what no machine instruction does is written out in operations that have one.

Transcendental functions become polynomials, narrow floats become integer arithmetic, and products
that feed one sum become fused multiply-adds (decided here and not by LLVM, so that every copy of an
expression rounds alike). A kernel of very many transcendental functions calls library routines for
them instead: the time to compile it would be that of the polynomials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import chain

from tetrax.compiler.cpu.conversions import expand_conversion
from tetrax.compiler.cpu.expansions import EXPANSIONS, SHORT_EXPANSIONS
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_expr import Expr, rebuild, rewrite, walk
from tetrax.ir.kernel_operations import fma, neg
from tetrax.ir.kernel_statements import (
    Address,
    Block,
    Call,
    Carried,
    If,
    Kernel,
    Loop,
    Procedure,
    Statement,
    Store,
    While,
)

MOST_INLINE = 12
"""Transcendental functions that a kernel computes without calls; calls cost it a tenth or so."""


def legalise(kernel: Kernel, target: Target) -> Kernel:
    """The same kernel in operations that the emitter has rules for."""
    roots = list(dict.fromkeys(expressions(kernel.body)))
    functions = sum(1 for node in walk(roots) if is_routine(node))
    legal = legal_expressions(roots, target, calls=functions > MOST_INLINE)
    replacements = dict(zip(roots, legal, strict=True))
    body = map_expressions(kernel.body, lambda node: replacements[node])
    return Kernel(kernel.name, kernel.buffers, kernel.scalars, body)


def legal_expressions(roots: list[Expr], target: Target, calls: bool = False) -> list[Expr]:
    """The same expressions in operations that the emitter has rules for; `calls` leaves those that
    library routines compute.
    """
    expanded = _expand(roots, target.has_f16c, calls)
    return _contract(expanded) if target.has_fma else expanded


def is_routine(node: Expr) -> bool:
    """Whether a library routine computes an expression: a long expansion of floats."""
    return node.op in EXPANSIONS and node.op not in SHORT_EXPANSIONS and node.type.is_float


def _expand(roots: list[Expr], native_half: bool, calls: bool) -> list[Expr]:
    done: dict[Expr, Expr] = {}

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if calls and is_routine(node):
            return rebuild(node, args)
        if node.op == "convert" and node.data is None:  # marked ones are legal
            new = expand_conversion(args[0], node.type, native_half)
        elif node.op in EXPANSIONS:
            new = EXPANSIONS[node.op](*args)
        else:
            return rebuild(node, args)
        if new.op == node.op and new.args == args:
            return new
        # an expansion may use operations that are themselves expanded; its operands are legal
        # already
        done.update((arg, arg) for arg in args)
        return rewrite([new], rule, done)[0]

    return rewrite(roots, rule, done)


# --- fused multiply-add ---


def _contract(roots: list[Expr]) -> list[Expr]:
    """`a * b + c` where the product has no other use, as one operation with one rounding."""
    nodes = walk(roots)
    uses = Counter(chain(roots, *[node.args for node in nodes]))
    done: dict[Expr, Expr] = {}
    replaced = done.__getitem__
    for node in nodes:
        args = tuple(map(replaced, node.args))
        done[node] = _fuse(node, args, uses) or rebuild(node, args)
    return [done[root] for root in roots]


def _fuse(node: Expr, args: tuple[Expr, ...], uses: dict[Expr, int]) -> Expr | None:
    if node.op not in ("add", "sub") or not node.type.is_float or node.data == "strict":
        return None
    for side in (0, 1):
        product = node.args[side]
        if product.op == "mul" and product.data != "strict" and uses[product] == 1:
            # the product's own arguments are rebuilt already: take them from its replacement
            a, b = args[side].args
            other = args[1 - side]
            if node.op == "add":
                return fma(a, b, other)
            return fma(a, b, neg(other)) if side == 0 else fma(neg(a), b, other)
    return None


# --- expressions of statements ---


def expressions(statement: Statement) -> list[Expr]:
    """The expressions that a statement uses directly, in order."""
    if isinstance(statement, Block):
        return [e for inner in statement.statements for e in expressions(inner)]
    if isinstance(statement, Store):
        return [statement.offset, statement.value]
    if isinstance(statement, If):
        return [statement.condition, *expressions(statement.then), *expressions(statement.orelse)]
    if isinstance(statement, Call):
        return [e for argument in statement.arguments for e in _argument_expressions(argument)]
    carried = [e for c in statement.carried for e in (c.initial, c.following)]
    own = statement.extent if isinstance(statement, Loop) else statement.condition
    return [own, *carried, *expressions(statement.body)]


def _argument_expressions(argument: Expr | Address | Procedure) -> list[Expr]:
    if isinstance(argument, Procedure):
        return expressions(argument.body)
    return [argument.offset if isinstance(argument, Address) else argument]


def _map_argument(
    argument: Expr | Address | Procedure, rule: Callable[[Expr], Expr]
) -> Expr | Address | Procedure:
    if isinstance(argument, Procedure):
        return Procedure(argument.parameters, map_expressions(argument.body, rule))
    if isinstance(argument, Address):
        return Address(argument.buffer, rule(argument.offset))
    return rule(argument)


def map_expressions(statement: Statement, rule: Callable[[Expr], Expr]) -> Statement:
    """The same statement with every expression replaced."""
    if isinstance(statement, Block):
        return Block(tuple(map_expressions(inner, rule) for inner in statement.statements))
    if isinstance(statement, Store):
        return Store(statement.buffer, rule(statement.offset), rule(statement.value))
    if isinstance(statement, If):
        return If(
            rule(statement.condition),
            map_expressions(statement.then, rule),
            map_expressions(statement.orelse, rule),
        )
    if isinstance(statement, Call):
        return Call(
            statement.symbol,
            tuple(_map_argument(argument, rule) for argument in statement.arguments),
        )
    carried = tuple(
        Carried(c.variable, rule(c.initial), rule(c.following)) for c in statement.carried
    )
    body = map_expressions(statement.body, rule)
    if isinstance(statement, Loop):
        extent = rule(statement.extent)
        return replace(statement, extent=extent, body=body, carried=carried)
    return While(carried, rule(statement.condition), body)
