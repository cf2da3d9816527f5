"""Structures: what a tree is without its leaves, and the way there and back.

A structure is `LEAF` or a plain tuple (kind, metadata, children's structures). Plain tuples are
made, compared and hashed by CPython itself, which makes flattening faster than through a C++
extension's objects. `PyTreeDef` is the public face of a structure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from ..errors import PytreeError
from ._builder import make_builder
from ._keys import KeyEntry, keystr
from ._registry import DICT, LIST, NONE, TUPLE, NodeKind, kind_of, on_new_kind, sorted_keys


class _Leaf:
    """The structure of a leaf; there is one instance."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return "LEAF"

    def __repr__(self) -> str:
        return "*"


LEAF = _Leaf()
Structure: TypeAlias = Any  # LEAF or tuple[NodeKind, metadata, tuple[Structure, ...]]
IsLeaf: TypeAlias = Callable[[Any], bool]

# --------------------------------------------------------------------------- flattening

# By the type of a value: what appends its leaves and returns its structure; None for leaves.
_flatteners: dict[type, Callable[[Any, list[Any]], Structure] | None] = {}


def _classify(x: Any, leaves: list[Any]) -> Structure:
    """Flatten a value of a type not met before, and remember whether the type is a leaf's."""
    if kind_of(type(x)) is not None:  # which has added its flattener
        flattener = _flatteners[type(x)]
        assert flattener is not None
        return flattener(x, leaves)
    _flatteners[type(x)] = None
    leaves.append(x)
    return LEAF


def flatten_children(children: Iterable[Any], leaves: list[Any]) -> tuple[Structure, ...]:
    """Append the leaves of all children to `leaves` and return the children's structures."""
    structures = []
    flattener_of = _flatteners.get
    for child in children:
        flattener = flattener_of(type(child), _classify)
        if flattener is None:
            leaves.append(child)
            structures.append(LEAF)
        else:
            structures.append(flattener(child, leaves))
    return tuple(structures)


def _add_flattener(kind: NodeKind) -> None:
    def flattener(x: Any, leaves: list[Any]) -> Structure:
        children, metadata = flatten(x)
        return kind, metadata, flatten_children(children, leaves)

    flatten = kind.flatten
    _flatteners[kind.type] = flattener


on_new_kind(_add_flattener)

# The commonest kinds by hand: most of the time that a compiled function takes to be called is spent
# here. Tuples and lists also save a call per node by repeating the loop of `flatten_children`.


def _flatten_tuple(x: tuple[Any, ...], leaves: list[Any]) -> Structure:
    if not x:
        return _EMPTY_TUPLE
    structures = []
    for child in x:
        flattener = _flatteners.get(type(child), _classify)
        if flattener is None:
            leaves.append(child)
            structures.append(LEAF)
        else:
            structures.append(flattener(child, leaves))
    return TUPLE, None, tuple(structures)


def _flatten_dict(x: dict[Any, Any], leaves: list[Any]) -> Structure:
    if not x:
        return _EMPTY_DICT
    keys = sorted_keys(x)
    structures = []
    for key in keys:
        child = x[key]
        flattener = _flatteners.get(type(child), _classify)
        if flattener is None:
            leaves.append(child)
            structures.append(LEAF)
        else:
            structures.append(flattener(child, leaves))
    return DICT, keys, tuple(structures)


_NONE: Structure = (NONE, None, ())
_EMPTY_TUPLE: Structure = (TUPLE, None, ())
_EMPTY_DICT: Structure = (DICT, (), ())
_flatteners[type(None)] = lambda x, leaves: _NONE
_flatteners[tuple] = _flatten_tuple
_flatteners[list] = lambda x, leaves: (LIST, None, flatten_children(x, leaves))
_flatteners[dict] = _flatten_dict


def _flatten_until(x: Any, leaves: list[Any], is_leaf: IsLeaf) -> Structure:
    """Flatten, taking for leaves also what `is_leaf` says is one."""
    kind = None if is_leaf(x) else kind_of(type(x))
    if kind is None:
        leaves.append(x)
        return LEAF
    children, metadata = kind.flatten(x)
    return kind, metadata, tuple([_flatten_until(child, leaves, is_leaf) for child in children])


def flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    """Return the leaves of a tree and its structure.

    >>> flatten({"b": (1, 2), "a": 3})
    ([3, 1, 2], PyTreeDef({'a': *, 'b': (*, *)}))
    """
    leaves: list[Any] = []
    if is_leaf is not None:
        return leaves, PyTreeDef(_flatten_until(tree, leaves, is_leaf))
    flattener = _flatteners.get(type(tree), _classify)
    if flattener is None:
        return [tree], LEAF_DEF
    return leaves, PyTreeDef(flattener(tree, leaves))


# --------------------------------------------------------------------------- building


def _build(structure: Structure, next_leaf: Callable[[], Any]) -> Any:
    kind, metadata, children = structure
    parts = [next_leaf() if child is LEAF else _build(child, next_leaf) for child in children]
    return kind.unflatten(metadata, parts)


def count_leaves(structure: Structure) -> int:
    """Return how many leaves a structure has."""
    if structure is LEAF:
        return 1
    return sum([count_leaves(child) for child in structure[2]])


def _count_nodes(structure: Structure) -> int:
    return 1 if structure is LEAF else 1 + sum(map(_count_nodes, structure[2]))


def _text(structure: Structure) -> str:
    if structure is LEAF:
        return "*"
    kind, metadata, children = structure
    return kind.text(metadata, [_text(child) for child in children])


def _substitute(structure: Structure, inner: Structure) -> Structure:
    if structure is LEAF:
        return inner
    kind, metadata, children = structure
    return kind, metadata, tuple(_substitute(child, inner) for child in children)


# --------------------------------------------------------------------------- matching


class Mismatch(Exception):
    """A tree does not begin with a structure; collects the path on its way up to the caller."""

    def __init__(self, expected: str, found: str):
        super().__init__(expected, found)
        self.expected = expected
        self.found = found
        self.path: list[KeyEntry] = []

    def message(self, name: str) -> str:
        """Say where and how the tree called `name` differs."""
        where = f"{name}{keystr(tuple(self.path))}"
        return f"The trees do not match at {where}: expected {self.expected}, found {self.found}."


def node_text(kind: NodeKind, metadata: Any, count: int) -> str:
    """Describe the root of a structure for an error: its type and what tells it from its like."""
    name = kind.type.__name__
    if kind is NONE:
        return "None"
    if metadata is None or kind.type in (tuple, list):
        return f"a {name} of {count}"
    text = repr(metadata)
    return f"a {name} with {'keys' if kind.type is dict else 'metadata'} {text[:300]}"


def _subtrees(structure: Structure, tree: Any, found: list[Any]) -> None:
    """Append the parts of `tree` that stand where `structure` has leaves; raise `Mismatch`."""
    if structure is LEAF:
        found.append(tree)
        return
    kind, metadata, children = structure
    other = kind_of(type(tree))
    if other is not kind:
        raise Mismatch(node_text(kind, metadata, len(children)), _value_text(other, tree))
    parts, other_metadata = kind.flatten(tree)
    parts = parts if isinstance(parts, (list, tuple)) else list(parts)
    if len(parts) != len(children) or metadata != other_metadata:
        raise Mismatch(
            node_text(kind, metadata, len(children)), node_text(kind, other_metadata, len(parts))
        )
    for index, (child, part) in enumerate(zip(children, parts, strict=True)):
        if child is LEAF:
            found.append(part)
            continue
        try:
            _subtrees(child, part, found)
        except Mismatch as mismatch:
            mismatch.path.insert(0, kind.child_keys(metadata, len(children))[index])
            raise


def _value_text(kind: NodeKind | None, tree: Any) -> str:
    if kind is None:
        return f"a leaf of type {type(tree).__name__}"
    children, metadata = kind.flatten(tree)
    return node_text(kind, metadata, len(list(children)))


# --------------------------------------------------------------------------- PyTreeDef


class PyTreeDef:
    """The structure of a tree: what is left of it without its leaves; immutable and hashable."""

    __slots__ = ("_builder", "_hash", "_num_leaves", "_uses", "structure")

    structure: Structure
    _builder: Callable[[Sequence[Any]], Any]

    def __init__(self, structure: Structure):
        self.structure = structure
        self._uses = 0

    @property
    def num_leaves(self) -> int:
        """How many leaves there are."""
        try:
            return self._num_leaves
        except AttributeError:
            self._num_leaves: int = count_leaves(self.structure)
            return self._num_leaves

    @property
    def num_nodes(self) -> int:
        """How many nodes there are, leaves included."""
        return _count_nodes(self.structure)

    @property
    def num_children(self) -> int:
        """How many children the root has."""
        return 0 if self.structure is LEAF else len(self.structure[2])

    def is_leaf(self) -> bool:
        """Say whether this is the structure of a single leaf."""
        return self.structure is LEAF

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tree of this structure with the given leaves."""
        if not isinstance(leaves, (list, tuple)):
            leaves = list(leaves)
        try:
            builder = self._builder
        except AttributeError:
            return self._unflatten_by_walking(leaves)
        try:
            return builder(leaves)
        except ValueError:
            self._check_count(leaves)
            raise

    def _unflatten_by_walking(self, leaves: Sequence[Any]) -> Any:
        self._check_count(leaves)
        if self.structure is LEAF:
            return leaves[0]
        # The second time, a function made for this structure begins to pay.
        self._uses += 1
        if self._uses == 2:
            builder = make_builder(self.structure, LEAF)
            if builder is not None:
                self._builder = builder
        return _build(self.structure, iter(leaves).__next__)

    def _check_count(self, leaves: Sequence[Any]) -> None:
        given, needed = len(leaves), self.num_leaves
        if given != needed:
            few_or_many = "few" if given < needed else "many"
            raise PytreeError(f"Too {few_or_many} leaves: {self} takes {needed}, got {given}.")

    def flatten_up_to(self, tree: Any, *, name: str = "tree") -> list[Any]:
        """Return the parts of `tree` that stand where this structure has leaves.

        Raises `PytreeError` with the path to the place where `tree`, called `name`, differs.
        """
        found: list[Any] = []
        try:
            _subtrees(self.structure, tree, found)
        except Mismatch as mismatch:
            raise PytreeError(mismatch.message(name)) from None
        return found

    def children(self) -> list[PyTreeDef]:
        """Return the structures of the root's children."""
        return [] if self.structure is LEAF else [PyTreeDef(child) for child in self.structure[2]]

    def node_data(self) -> tuple[type, Any] | None:
        """Return the type and the metadata of the root, or None for a leaf."""
        if self.structure is LEAF:
            return None
        kind, metadata, _ = self.structure
        return kind.type, list(metadata) if kind.type is dict else metadata

    @staticmethod
    def from_node_data_and_children(
        registry: object, node_data: tuple[type, Any] | None, children: Iterable[PyTreeDef]
    ) -> PyTreeDef:
        """Return the structure with the given root and children; the inverse of the two methods."""
        if node_data is None:
            return LEAF_DEF
        cls, metadata = node_data
        kind = kind_of(cls)
        if kind is None:
            raise PytreeError(f"{cls} is not registered as a node of trees.")
        metadata = tuple(metadata) if cls is dict else metadata
        return PyTreeDef((kind, metadata, tuple(child.structure for child in children)))

    make_from_node_data_and_children = from_node_data_and_children

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """Return the structure with `inner` in the place of every leaf."""
        return PyTreeDef(_substitute(self.structure, inner.structure))

    def from_iterable_tree(self, tree: Iterable[Any]) -> Any:
        """Return a tree of this structure whose children come from nested iterables."""
        return _from_iterables(self.structure, tree)

    def walk(
        self,
        f_node: Callable[[Any, Any], Any],
        f_leaf: Callable[[Any], Any] | None,
        leaves: Iterable[Any],
    ) -> Any:
        """Combine leaves bottom up: `f_node(children, metadata)` at nodes, `f_leaf` at leaves."""
        return _walk(self.structure, f_node, f_leaf, iter(leaves))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        return self.structure == other.structure

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash: int = hash(self.structure)
            return self._hash

    def __repr__(self) -> str:
        return f"PyTreeDef({_text(self.structure)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (_portable(self.structure),)


LEAF_DEF = PyTreeDef(LEAF)


def _walk(
    structure: Structure,
    f_node: Callable[[Any, Any], Any],
    f_leaf: Callable[[Any], Any] | None,
    leaves: Iterator[Any],
) -> Any:
    if structure is LEAF:
        leaf = next(leaves)
        return leaf if f_leaf is None else f_leaf(leaf)
    _, metadata, children = structure
    return f_node(tuple(_walk(child, f_node, f_leaf, leaves) for child in children), metadata)


def _from_iterables(structure: Structure, tree: Any) -> Any:
    if structure is LEAF:
        return tree
    kind, metadata, children = structure
    parts = zip(children, tree, strict=True)
    return kind.unflatten(metadata, [_from_iterables(child, part) for child, part in parts])


def _portable(structure: Structure) -> Any:
    """Return a structure with types in the place of kinds, for pickling."""
    if structure is LEAF:
        return LEAF
    kind, metadata, children = structure
    return kind.type, metadata, tuple(_portable(child) for child in children)


def _unpickled(portable: Any) -> PyTreeDef:
    return PyTreeDef(_with_kinds(portable))


def _with_kinds(portable: Any) -> Structure:
    if portable is LEAF:
        return LEAF
    cls, metadata, children = portable
    kind = kind_of(cls)
    if kind is None:
        raise PytreeError(f"{cls} must be registered as a node of trees before this is unpickled.")
    return kind, metadata, tuple(_with_kinds(child) for child in children)


def unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """Return the tree of a structure with the given leaves.

    >>> unflatten(flatten([0, (0,)])[1], "ab")
    ['a', ('b',)]
    """
    return treedef.unflatten(leaves)


def treedef_tuple(treedefs: Sequence[PyTreeDef] | Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the structure of a tuple whose children have the given structures."""
    return PyTreeDef((TUPLE, None, tuple(treedef.structure for treedef in treedefs)))


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures of the root's children."""
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Say whether a structure is a single node: a leaf, or an empty container."""
    return treedef.num_nodes == 1
