"""The functions users call on trees; `tetrax.tree` and `tetrax.tree_util` name them."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import PytreeError
from ._prefix import broadcast_prefix
from ._registry import flatten_one_level, flatten_one_level_with_keys, is_tree_node, kind_of
from ._structure import IsLeaf, PyTreeDef, flatten


class _Unspecified:
    def __repr__(self) -> str:
        return "<Unspecified>"


UNSPECIFIED: Any = _Unspecified()


def leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """Return the leaves of a tree, depth first, dictionaries in the order of their keys.

    >>> leaves({"b": (1, 2), "a": None})
    [1, 2]
    """
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """Return the structure of a tree.

    >>> structure([1, (2,)])
    PyTreeDef([*, (*,)])
    """
    return flatten(tree, is_leaf)[1]


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Map a function over the leaves of a tree, or over those of several trees at once.

    The further trees need the structure of the first; where it has a leaf they may have subtrees.

    >>> map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    first, treedef = flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(leaf) for leaf in first])
    columns = [first]
    for number, other in enumerate(rest, start=1):
        name = "the second tree" if len(rest) == 1 else f"tree number {number + 1}"
        columns.append(treedef.flatten_up_to(other, name=name))
    return treedef.unflatten([f(*row) for row in zip(*columns, strict=True)])


def reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = UNSPECIFIED,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Combine the leaves of a tree from left to right.

    >>> reduce(lambda x, y: x + y, [1, (2, 3)])
    6
    """
    if initializer is UNSPECIFIED:
        return functools.reduce(function, leaves(tree, is_leaf))
    return functools.reduce(function, leaves(tree, is_leaf), initializer)


def reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = UNSPECIFIED,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Combine the leaves of a tree pairwise, half with half, for an associative operation.

    >>> reduce_associative(lambda x, y: f"({x}{y})", list("abcd"))
    '((ab)(cd))'
    """
    items = leaves(tree, is_leaf)
    if not items:
        if identity is UNSPECIFIED:
            raise TypeError("A tree without leaves has no value here unless identity is given.")
        return identity
    return _halves(operation, items)


def _halves(operation: Callable[[Any, Any], Any], items: list[Any]) -> Any:
    if len(items) == 1:
        return items[0]
    middle = len(items) // 2
    return operation(_halves(operation, items[:middle]), _halves(operation, items[middle:]))


def all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Say whether all leaves are true.

    >>> all({"a": True, "b": [1, 0]})
    False
    """
    return builtins.all(leaves(tree, is_leaf))


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Say whether every element is a leaf."""
    return builtins.all(
        kind_of(type(x)) is None or (is_leaf is not None and is_leaf(x)) for x in iterable
    )


def transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Turn an outer tree of inner trees inside out.

    >>> transpose(structure([0, 0]), structure((0, 0)), [(1, 2), (3, 4)])
    ([1, 3], [2, 4])

    Args:
        outer_treedef: the structure of the outer tree.
        inner_treedef: the structure of the inner ones; by default that of the first.
        pytree_to_transpose: the tree.
    """
    items, treedef = flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    expected = outer_treedef.compose(inner_treedef)
    if treedef != expected:
        # JAX raises TypeError here, everywhere else ValueError; programs catch either.
        raise _TransposeError(f"The tree to transpose is {treedef}, expected {expected}.")
    width = inner_treedef.num_leaves
    columns = [outer_treedef.unflatten(items[start::width]) for start in range(width)]
    return inner_treedef.unflatten(columns)


class _TransposeError(PytreeError, TypeError):
    """The tree to transpose has another structure than the two given."""


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Return a tree with the structure of `full_tree` and the values of `prefix_tree`.

    >>> broadcast({"a": 0, "b": 1}, {"a": "x", "b": ["y", "z"]})
    {'a': 0, 'b': [1, 1]}
    """
    values = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return structure(full_tree, is_leaf).unflatten(values)


def build_tree(treedef: PyTreeDef, xs: Iterable[Any]) -> Any:
    """Return a tree of a structure whose children come from nested iterables."""
    return treedef.from_iterable_tree(xs)


class PyTreeRegistry:
    """The one registry of node types, as an object for programs that pass it around."""

    def flatten(
        self, tree: Any, leaf_predicate: IsLeaf | None = None
    ) -> tuple[list[Any], PyTreeDef]:
        """Return the leaves of a tree and its structure."""
        return flatten(tree, leaf_predicate)

    def flatten_one_level(self, tree: Any) -> tuple[Iterable[Any], Any] | None:
        """Return the children and the metadata of a node, or None for a leaf."""
        return flatten_one_level(tree) if is_tree_node(type(tree)) else None

    def flatten_one_level_with_keys(self, tree: Any) -> tuple[Iterable[Any], Any] | None:
        """Return the (key, child) pairs and the metadata of a node, or None for a leaf."""
        return flatten_one_level_with_keys(tree) if is_tree_node(type(tree)) else None

    def is_node(self, typ: type) -> bool:
        """Say whether values of a type are nodes of trees."""
        return is_tree_node(typ)


default_registry = PyTreeRegistry()
