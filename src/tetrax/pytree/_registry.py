"""Which types are nodes of trees, and how each is taken apart and put together.

A `NodeKind` is the whole of what is known of one type. Anything without a kind is a leaf.
Subclasses of `tuple` with `_fields`, as `collections.namedtuple` makes them, get their kind when
first met.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from ..errors import PytreeError
from ._keys import DictKey, FlattenedIndexKey, GetAttrKey, KeyEntry, SequenceKey

T = TypeVar("T")

FlattenFunction: TypeAlias = Callable[[Any], tuple[Iterable[Any], Any]]
UnflattenFunction: TypeAlias = Callable[[Any, Sequence[Any]], Any]
KeyedFlattenFunction: TypeAlias = Callable[[Any], tuple[Iterable[tuple[KeyEntry, Any]], Any]]


class NodeKind:
    """How values of one type are taken apart into children and metadata, and put together again.

    Args:
        type: the type.
        flatten: returns the children and the metadata, which compares with `==`.
        unflatten: makes a value of metadata and a list of children.
        flatten_with_keys: like `flatten`, the children as (key, child) pairs.
        keys: the children's keys by the metadata and their number, where that is all it takes.
        text: how a structure is printed: by metadata and the children's texts.
    """

    __slots__ = ("flatten", "flatten_with_keys", "keys", "text", "type", "unflatten")

    def __init__(
        self,
        type: type,
        flatten: FlattenFunction,
        unflatten: UnflattenFunction,
        *,
        flatten_with_keys: KeyedFlattenFunction | None = None,
        keys: Callable[[Any, int], Iterable[KeyEntry]] | None = None,
        text: Callable[[Any, Sequence[str]], str] | None = None,
    ):
        self.type = type
        self.flatten = flatten
        self.unflatten = unflatten
        self.flatten_with_keys = flatten_with_keys
        self.keys = keys
        self.text = text or self._custom_text

    def _custom_text(self, metadata: Any, children: Sequence[str]) -> str:
        return f"CustomNode({self.type.__name__}[{metadata}], [{', '.join(children)}])"

    def keyed_children(self, x: Any) -> list[tuple[KeyEntry, Any]]:
        """Return the children of a value, each with its key."""
        if self.flatten_with_keys is not None:
            return [(key, child) for key, child in self.flatten_with_keys(x)[0]]
        children, metadata = self.flatten(x)
        children = list(children)
        return list(zip(self.child_keys(metadata, len(children)), children, strict=True))

    def child_keys(self, metadata: Any, count: int) -> list[KeyEntry]:
        """Return the keys of the children, as far as they are known without the value itself."""
        if self.keys is not None:
            return list(self.keys(metadata, count))
        return [FlattenedIndexKey(index) for index in range(count)]

    def __repr__(self) -> str:
        return f"<node kind {self.type.__name__}>"


# --------------------------------------------------------------------------- Python's own


def sorted_keys(dictionary: dict[Any, Any]) -> tuple[Any, ...]:
    """Return the keys in order: equal dictionaries are equal trees however they were built."""
    try:
        return tuple(sorted(dictionary))
    except TypeError:
        pass
    kinds: dict[str, Any] = {}
    for key in dictionary:
        kinds.setdefault(type(key).__name__, key)
    shown = " and ".join(f"{key!r} ({name})" for name, key in list(kinds.items())[:2])
    raise PytreeError(
        f"A dictionary in a tree needs keys that can be sorted, but {shown} do not compare. Use "
        "keys of one type, such as str, or collections.OrderedDict, which keeps its own order."
    )


def _sequence_keys(metadata: Any, count: int) -> Iterator[KeyEntry]:
    return map(SequenceKey, range(count))


def _tuple_text(metadata: Any, children: Sequence[str]) -> str:
    return f"({children[0]},)" if len(children) == 1 else f"({', '.join(children)})"


def _dict_text(metadata: Any, children: Sequence[str]) -> str:
    pairs = zip(metadata, children, strict=True)
    return "{" + ", ".join(f"{key!r}: {child}" for key, child in pairs) + "}"


def _flatten_dict(x: dict[Any, Any]) -> tuple[list[Any], tuple[Any, ...]]:
    keys = sorted_keys(x)
    return [x[key] for key in keys], keys


def _flatten_defaultdict(x: collections.defaultdict[Any, Any]) -> tuple[list[Any], Any]:
    keys = sorted_keys(x)
    return [x[key] for key in keys], (x.default_factory, keys)


NONE = NodeKind(
    type(None), lambda x: ((), None), lambda metadata, children: None, text=lambda m, c: "None"
)
TUPLE = NodeKind(
    tuple,
    lambda x: (x, None),
    lambda metadata, children: tuple(children),
    keys=_sequence_keys,
    text=_tuple_text,
)
LIST = NodeKind(
    list,
    lambda x: (x, None),
    lambda metadata, children: list(children),
    keys=_sequence_keys,
    text=lambda metadata, children: f"[{', '.join(children)}]",
)
DICT = NodeKind(
    dict,
    _flatten_dict,
    lambda keys, children: dict(zip(keys, children)),  # noqa: B905 - counted before, hot
    keys=lambda keys, count: map(DictKey, keys),
    text=_dict_text,
)
ORDERED_DICT = NodeKind(
    collections.OrderedDict,
    lambda x: (list(x.values()), tuple(x)),
    lambda keys, children: collections.OrderedDict(zip(keys, children, strict=True)),
    keys=lambda keys, count: map(DictKey, keys),
)
DEFAULT_DICT = NodeKind(
    collections.defaultdict,
    _flatten_defaultdict,
    lambda metadata, children: collections.defaultdict(
        metadata[0], zip(metadata[1], children, strict=True)
    ),
    keys=lambda metadata, count: map(DictKey, metadata[1]),
)


def _namedtuple_kind(cls: Any) -> NodeKind:
    """Make the kind of a class that `collections.namedtuple` made."""

    def text(metadata: Any, children: Sequence[str]) -> str:
        return f"CustomNode(namedtuple[{cls.__name__}], [{', '.join(children)}])"

    return NodeKind(
        cls,
        lambda x: (x, None),
        lambda metadata, children: cls(*children),
        keys=lambda metadata, count: map(GetAttrKey, cls._fields),
        text=text,
    )


# --------------------------------------------------------------------------- the registry

_kinds: dict[type, NodeKind] = {
    kind.type: kind for kind in (NONE, TUPLE, LIST, DICT, ORDERED_DICT, DEFAULT_DICT)
}
# Told of every new kind, so that what was a leaf before is none any more.
_listeners: list[Callable[[NodeKind], None]] = []


def kind_of(cls: type) -> NodeKind | None:
    """Return the kind of a type, or None for leaves."""
    kind = _kinds.get(cls)
    if kind is None and issubclass(cls, tuple) and hasattr(cls, "_fields"):
        kind = _add(_namedtuple_kind(cls))
    return kind


def on_new_kind(listener: Callable[[NodeKind], None]) -> None:
    """Have `listener` called with every kind there is and will be."""
    _listeners.append(listener)
    for kind in _kinds.values():
        listener(kind)


def _add(kind: NodeKind) -> NodeKind:
    kind = _kinds.setdefault(kind.type, kind)
    for listener in _listeners:
        listener(kind)
    return kind


def is_tree_node(typ: type) -> bool:
    """Say whether values of a type are nodes, rather than leaves, of trees."""
    return kind_of(typ) is not None


def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_with_keys_func: Callable[[T], tuple[Iterable[tuple[KeyEntry, Any]], Any]] | None = None,
) -> None:
    """Make values of a class nodes of trees.

    Args:
        nodetype: the class.
        flatten_func: returns the children, and metadata that can be compared and hashed.
        unflatten_func: makes a value of the metadata and a tuple of children.
        flatten_with_keys_func: like `flatten_func`, with (key, child) pairs for children.
    """
    if nodetype in _kinds:
        raise PytreeError(f"Duplicate registration: {nodetype} is already a node of trees.")
    _add(
        NodeKind(
            nodetype,
            _checked(nodetype, flatten_func),
            lambda metadata, children: unflatten_func(metadata, tuple(children)),
            flatten_with_keys=flatten_with_keys_func,
        )
    )


def _checked(nodetype: type, flatten_func: FlattenFunction) -> FlattenFunction:
    """Turn a flattening function's odd results into an error that names the class."""

    def flatten(x: Any) -> tuple[Iterable[Any], Any]:
        result = flatten_func(x)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise PytreeError(
                f"The flattening function registered for {nodetype} must return a pair "
                f"(children, metadata), got {type(result).__name__}."
            )
        return result

    return flatten


def register_pytree_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[Iterable[tuple[KeyEntry, Any]], Any]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Make values of a class nodes whose children have keys; see `register_pytree_node`."""

    def flatten_without_keys(x: T) -> tuple[Iterable[Any], Any]:
        children, metadata = flatten_with_keys(x)
        return [child for _, child in children], metadata

    register_pytree_node(
        nodetype, flatten_func or flatten_without_keys, unflatten_func, flatten_with_keys
    )


def register_pytree_node_class(cls: Any) -> Any:
    """Class decorator for nodes that have `tree_flatten` and a class method `tree_unflatten`."""
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: Any) -> Any:
    """Class decorator for nodes that have `tree_flatten_with_keys` and `tree_unflatten`."""
    flatten = (lambda x: x.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(
        cls, lambda x: x.tree_flatten_with_keys(), cls.tree_unflatten, flatten
    )
    return cls


def register_static(cls: Any) -> Any:
    """Class decorator for values that are all metadata: nodes without children."""
    register_pytree_node(cls, lambda x: ((), x), lambda metadata, children: metadata)
    return cls


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Hashable]:
    """Return the children and the metadata of a node; raises `PytreeError` for leaves."""
    return _node_kind(tree).flatten(tree)


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[KeyEntry, Any]], Hashable]:
    """Return the (key, child) pairs and the metadata of a node; raises `PytreeError` for leaves."""
    kind = _node_kind(tree)
    return kind.keyed_children(tree), kind.flatten(tree)[1]


def _node_kind(tree: Any) -> NodeKind:
    kind = kind_of(type(tree))
    if kind is None:
        raise PytreeError(f"A leaf, of type {type(tree).__name__}, has no children.")
    return kind
