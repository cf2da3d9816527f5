"""Trees with the paths to their leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ._keys import KeyPath
from ._registry import kind_of
from ._structure import LEAF, PyTreeDef, Structure


def flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """Return the leaves of a tree, each with its path, and the tree's structure.

    >>> [(str(path[0]), leaf) for path, leaf in flatten_with_path({"a": 1})[0]]
    [("['a']", 1)]

    Args:
        tree: the tree.
        is_leaf: says of a node that it shall be a leaf.
        is_leaf_takes_path: `is_leaf` is called with the path and the node.
    """
    found: list[tuple[KeyPath, Any]] = []
    stops = _stops(is_leaf, is_leaf_takes_path)
    return found, PyTreeDef(_collect((), tree, stops, found))


def _stops(is_leaf: Callable[..., bool] | None, takes_path: bool) -> Callable[[KeyPath, Any], bool]:
    if is_leaf is None:
        return lambda path, x: False
    return is_leaf if takes_path else lambda path, x: is_leaf(x)


def _collect(
    path: KeyPath,
    x: Any,
    stops: Callable[[KeyPath, Any], bool],
    found: list[tuple[KeyPath, Any]],
) -> Structure:
    kind = None if stops(path, x) else kind_of(type(x))
    if kind is None:
        found.append((path, x))
        return LEAF
    children = kind.keyed_children(x)
    _, metadata = kind.flatten(x)
    return (
        kind,
        metadata,
        tuple([_collect((*path, key), child, stops, found) for key, child in children]),
    )


def leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """Return the leaves of a tree, each with its path; arguments as `flatten_with_path`'s."""
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Map `f(path, leaf, *leaves_of_the_rest)` over trees.

    >>> map_with_path(lambda path, x: f"{path[0]}={x}", {"a": 1})
    {'a': "['a']=1"}
    """
    pairs, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    others = [treedef.flatten_up_to(other) for other in rest]
    columns = zip(*others, strict=True) if others else ((),) * len(pairs)
    return treedef.unflatten(
        [f(path, leaf, *more) for (path, leaf), more in zip(pairs, columns, strict=True)]
    )


def generate_key_paths(tree: Any, is_leaf: Callable[..., bool] | None = None) -> Iterator[Any]:
    """Yield the (path, leaf) pairs of a tree."""
    yield from flatten_with_path(tree, is_leaf)[0]
