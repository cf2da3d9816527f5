"""Prefixes: trees that stand for larger ones, leaf by subtree; and where two trees differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..errors import PytreeError
from ._keys import KeyPath, keystr
from ._registry import NONE, kind_of
from ._structure import (
    LEAF,
    IsLeaf,
    Mismatch,
    PyTreeDef,
    Structure,
    count_leaves,
    flatten,
    node_text,
)


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """Return, for every leaf of `full_tree`, the leaf of `prefix_tree` that stands for it.

    >>> broadcast_prefix((0, 1), ("a", ["b", "c"]))
    [0, 1, 1]
    """
    values, treedef = flatten(prefix_tree, is_leaf)
    subtrees = treedef.flatten_up_to(full_tree, name="full_tree")
    broadcast: list[Any] = []
    for value, subtree in zip(values, subtrees, strict=True):
        broadcast.extend([value] * flatten(subtree, is_leaf)[1].num_leaves)
    return broadcast


def flatten_axes(name: str, treedef: PyTreeDef, axis_tree: Any) -> list[Any]:
    """Return, for every leaf of a structure, the entry of the prefix `axis_tree` for it.

    None is an entry like any other. Raises `PytreeError` where `axis_tree`, called `name` in the
    error, is no prefix of the structure.

    >>> flatten_axes("in_axes", flatten(("x", ["y", "z"]))[1], (0, None))
    [0, None, None]
    """
    found: list[Any] = []
    try:
        _spread(axis_tree, treedef.structure, found)
    except Mismatch as mismatch:
        raise PytreeError(
            f"{name} must be a prefix of the tree it is for, which it is not at "
            f"{name}{keystr(tuple(mismatch.path))}: there it has {mismatch.found}, and the tree "
            f"has {mismatch.expected}. The whole of {name} is {axis_tree!r}; the tree is {treedef}."
        ) from None
    return found


def _spread(entry: Any, structure: Structure, found: list[Any]) -> None:
    kind = kind_of(type(entry))
    if kind is None or kind is NONE:
        found.extend([entry] * count_leaves(structure))
        return
    parts, metadata = kind.flatten(entry)
    parts = list(parts)
    if structure is LEAF:
        raise Mismatch("a leaf", node_text(kind, metadata, len(parts)))
    other, other_metadata, children = structure
    if other is not kind or len(parts) != len(children) or metadata != other_metadata:
        raise Mismatch(
            node_text(other, other_metadata, len(children)), node_text(kind, metadata, len(parts))
        )
    for index, (part, child) in enumerate(zip(parts, children, strict=True)):
        try:
            _spread(part, child, found)
        except Mismatch as mismatch:
            mismatch.path.insert(0, kind.child_keys(metadata, len(parts))[index])
            raise


# --------------------------------------------------------------------------- differences


def equality_errors(
    tree1: Any, tree2: Any, is_leaf: IsLeaf | None = None
) -> Iterator[tuple[KeyPath, str, str, str]]:
    """Yield the places where two trees differ in structure: path, what either has, and the reason.

    >>> list(equality_errors([1, 2], [1, (2,)]))
    [((SequenceKey(idx=1),), 'a leaf', 'a tuple of 1', 'one is a leaf and the other is not')]
    """
    yield from equality_errors_pytreedef(flatten(tree1, is_leaf)[1], flatten(tree2, is_leaf)[1])


def equality_errors_pytreedef(
    tree1: PyTreeDef, tree2: PyTreeDef
) -> Iterator[tuple[KeyPath, str, str, str]]:
    """Yield the places where two structures differ; see `equality_errors`."""
    yield from _differences((), tree1.structure, tree2.structure, leaf_fits_all=False)


def prefix_errors(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None
) -> list[Callable[[str], PytreeError]]:
    """Return the places where one tree is no prefix of another: functions from name to error.

    >>> [str(error("in_axes"))[:45] for error in prefix_errors((0, (1,)), ("a", "b"))]
    ['in_axes must be a prefix of the tree it is fo']
    """
    differences = _differences(
        (), flatten(prefix_tree, is_leaf)[1].structure, flatten(full_tree)[1].structure, True
    )
    return [_prefix_error(*difference) for difference in differences]


def _prefix_error(path: KeyPath, mine: str, theirs: str, why: str) -> Callable[[str], PytreeError]:
    def error(name: str) -> PytreeError:
        return PytreeError(
            f"{name} must be a prefix of the tree it is for, which it is not at "
            f"{name}{keystr(path)}: there it has {mine}, and the tree has {theirs}: {why}."
        )

    return error


def _root_text(structure: Structure) -> str:
    if structure is LEAF:
        return "a leaf"
    kind, metadata, children = structure
    return node_text(kind, metadata, len(children))


def _differences(
    path: KeyPath, a: Structure, b: Structure, leaf_fits_all: bool
) -> Iterator[tuple[KeyPath, str, str, str]]:
    if a is LEAF and (leaf_fits_all or b is LEAF):
        return
    reason = _reason(a, b)
    if reason:
        yield path, _root_text(a), _root_text(b), reason
        return
    kind, metadata, children = a
    keys = kind.child_keys(metadata, len(children))
    for key, child, other in zip(keys, children, b[2], strict=True):
        yield from _differences((*path, key), child, other, leaf_fits_all)


def _reason(a: Structure, b: Structure) -> str | None:
    """Say how the roots of two structures differ, or None where they do not."""
    if a is LEAF or b is LEAF:
        return "one is a leaf and the other is not"
    if a[0] is not b[0]:
        return "the types do not match"
    if len(a[2]) != len(b[2]):
        return "the lengths do not match"
    return None if a[1] == b[1] else "the metadata does not match"
