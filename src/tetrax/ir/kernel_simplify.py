"""Substitution that simplifies on the way: what becomes constant is folded, as at construction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tetrax.ir.kernel_expr import Expr, rebuild, rewrite
from tetrax.ir.kernel_loops import load
from tetrax.ir.kernel_operations import (
    ARITHMETIC_OPS,
    BITWISE_OPS,
    COMPARE_OPS,
    SHIFT_OPS,
    absolute,
    binary,
    bitcast,
    convert,
    logical_not,
    neg,
    select,
    unlikely,
)

Args = tuple[Expr, ...]


def _binary(node: Expr, args: Args) -> Expr:
    # A strict operation must stay strict; those are never index arithmetic.
    return rebuild(node, args) if node.data is not None else binary(node.op, *args)


_CONSTRUCTORS: dict[str, Callable[[Expr, Args], Expr]] = {
    **dict.fromkeys((*ARITHMETIC_OPS, *BITWISE_OPS, *SHIFT_OPS), _binary),
    **{op: lambda node, args: binary(node.op, *args) for op in COMPARE_OPS},
    "select": lambda node, args: select(*args),
    "unlikely": lambda node, args: unlikely(*args),
    "convert": lambda node, args: convert(args[0], node.type),
    "bitcast": lambda node, args: bitcast(args[0], node.type),
    "not": lambda node, args: logical_not(*args),
    "neg": lambda node, args: neg(*args),
    "abs": lambda node, args: absolute(*args),
    "load": lambda node, args: load(node.data, *args),
}


def rebuild_simplified(node: Expr, args: Args) -> Expr:
    """The same operation on other arguments, through its checked constructor."""
    if args == node.args:
        return node
    constructor = _CONSTRUCTORS.get(node.op)
    return rebuild(node, args) if constructor is None else constructor(node, args)


def substitute_simplified(roots: Sequence[Expr], replacements: Mapping[Expr, Expr]) -> list[Expr]:
    """Replace nodes (usually variables) in expressions and fold what becomes constant."""

    def rule(node: Expr, args: Args) -> Expr:
        found = replacements.get(node)
        return rebuild_simplified(node, args) if found is None else found

    return rewrite(roots, rule)
