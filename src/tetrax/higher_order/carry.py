"""What loops and branches share: comparing types by path, and settling the types of a carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tetrax import tree
from tetrax.ir.program import ClosedProgram
from tetrax.ir.types import ShapedArray
from tetrax.ops.collective import pvary_p
from tetrax.ops.convert import convert_element_type
from tetrax.tracing.staging import evaluate_closed, stage
from tetrax.tracing.value import get_aval

Typed = tuple[Any, Sequence[ShapedArray]]


def check_same_types(
    sentence: str, first: str, first_types: Typed, second: str, second_types: Typed
) -> None:
    """Raises TypeError with `sentence` and the leaves that differ, by path.

    Weak types do not count.
    """
    (tree_a, avals_a), (tree_b, avals_b) = first_types, second_types
    if tree_a != tree_b:
        raise TypeError(
            f"{sentence}.\n{first} has the tree {tree_a}\n{second} has the tree {tree_b}"
        )
    differing = differences(tree_a, avals_a, avals_b)
    if differing:
        lines = "\n".join(
            f"  * at {path}: {first} has type {a.str_short()}, {second} has type {b.str_short()}"
            for path, a, b in differing
        )
        raise TypeError(f"{sentence}:\n{lines}")


def differences(
    treedef: Any, first: Sequence[ShapedArray], second: Sequence[ShapedArray]
) -> list[tuple[str, ShapedArray, ShapedArray]]:
    """(path, type, other type) of the leaves whose shape or dtype differ."""
    paths = [path for path, _ in tree.leaves_with_path(treedef.unflatten(range(len(first))))]
    return [
        (tree.keystr(path) or "the value itself", a, b)
        for path, a, b in zip(paths, first, second, strict=True)
        if not a.same_type(b)
    ]


def settle_carry(
    trace: Callable[[Sequence[ShapedArray]], tuple[ClosedProgram, Any]],
    leaves: Sequence[Any],
    same_tree: Callable[[Any], bool],
    extra_avals: Sequence[ShapedArray] = (),
) -> tuple[ClosedProgram, Any, list[Any]]:
    """Stage a loop's body; a weakly typed initial carry takes the type that the body gives it.

    `trace(carry types)` stages the body (carry first, then `extra_avals`). Returns the program,
    what `trace` said of the trees, and the initial carry. Types only go from weak to strong, and
    from equal to varying, so this ends.
    """
    leaves = list(leaves)
    while True:
        closed, trees = trace([get_aval(x) for x in leaves])
        if not same_tree(trees):
            return closed, trees, leaves
        promoted = promote_weak_carry(leaves, closed.out_avals[: len(leaves)])
        if promoted is None:
            return closed, trees, leaves
        pairs = zip(leaves, promoted, strict=True)
        same = all(get_aval(a).same_type(get_aval(b)) for a, b in pairs)
        leaves = promoted
        if same:
            # Only weak types differ: the user's code need not run again.
            in_avals = [*(get_aval(x) for x in leaves), *extra_avals]
            return retyped(closed, in_avals), trees, leaves


def retyped(closed: ClosedProgram, in_avals: Sequence[ShapedArray]) -> ClosedProgram:
    """The program on inputs that differ in weak types only, without running the user's code."""
    run = lambda *args: (evaluate_closed(closed, *args), None)
    return stage(run, in_avals, closed.program.debug_info)[0]


def promote_weak_carry(
    init_leaves: Sequence[Any], out_avals: Sequence[ShapedArray]
) -> list[Any] | None:
    """Initial carries in the types of the loop's results, where only weak ones change, or along
    which axes of devices they vary.
    """
    changed = False
    result = []
    for leaf, out in zip(init_leaves, out_avals, strict=True):
        aval = get_aval(leaf)
        if aval.weak_type and aval.shape == out.shape and aval != out and not out.weak_type:
            leaf, changed = convert_element_type(leaf, out.dtype), True
        if out.vma - aval.vma:
            leaf, changed = pvary_p.bind(leaf, axes=tuple(out.vma - aval.vma)), True
        result.append(leaf)
    return result if changed else None
