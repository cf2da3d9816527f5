"""What loops and branches share: comparing the types of two trees, by path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tetrax import tree
from tetrax.ir.types import ShapedArray

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
