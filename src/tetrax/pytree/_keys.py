"""Keys: the steps of a path from the root of a tree to one of its leaves."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

KeyEntry: TypeAlias = Any  # one of the classes below, or a key of the user's own
KeyPath: TypeAlias = tuple[KeyEntry, ...]


@dataclass(frozen=True)
class SequenceKey:
    """A step into a tuple or a list: the position."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclass(frozen=True)
class DictKey:
    """A step into a dictionary: the key."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclass(frozen=True)
class GetAttrKey:
    """A step into an object with attributes: the attribute's name."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclass(frozen=True)
class FlattenedIndexKey:
    """A step into a node that names no keys: the position among its children."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


_SIMPLE_FIELD: dict[type, str] = {
    SequenceKey: "idx",
    DictKey: "key",
    GetAttrKey: "name",
    FlattenedIndexKey: "key",
}


def _simple(key: KeyEntry) -> str:
    field = _SIMPLE_FIELD.get(type(key))
    return str(getattr(key, field) if field else key)


def keystr(keys: Sequence[KeyEntry], *, simple: bool = False, separator: str = "") -> str:
    """Return a path as text.

    >>> keystr((DictKey("w"), SequenceKey(0)))
    "['w'][0]"
    >>> keystr((DictKey("w"), SequenceKey(0)), simple=True, separator="/")
    'w/0'

    Args:
        keys: the path.
        simple: write the bare keys, without brackets, quotes and dots.
        separator: what stands between two keys.
    """
    return separator.join(map(_simple if simple else str, keys))
