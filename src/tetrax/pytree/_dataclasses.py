"""Data classes as nodes of trees: which fields are children and which are metadata."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

from ._keys import GetAttrKey
from ._registry import register_pytree_node

T = TypeVar("T", bound=type)


def static(**kwargs: Any) -> Any:
    """Return a data class field that is metadata rather than a child; arguments as `field`'s.

    >>> static(default=3).metadata["static"]
    True
    """
    metadata = {**(kwargs.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(metadata=metadata, **kwargs)


def register_dataclass(
    nodetype: T,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> T:
    """Make a data class a node of trees.

    Args:
        nodetype: the class; any class whose constructor takes the fields by name, where they are
            given.
        data_fields: names of the fields that are children; by default all that are not `static`.
        meta_fields: names of the fields that are metadata: hashable, compared by `==`.
        drop_fields: names of fields that are neither and get their default.

    Returns:
        The class, so that this serves as a decorator.
    """
    if (data_fields is None) != (meta_fields is None):
        raise TypeError(
            "register_dataclass takes data_fields and meta_fields together or not at all, got "
            f"{data_fields=} and {meta_fields=}."
        )
    if data_fields is None or meta_fields is None:
        data, meta = _fields_by_declaration(nodetype)
    else:
        data, meta = tuple(data_fields), tuple(meta_fields)
    _check_fields(nodetype, data, meta, drop_fields)

    def flatten(x: Any) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(x, name) for name in data], tuple([getattr(x, name) for name in meta])

    def flatten_with_keys(x: Any) -> tuple[list[tuple[GetAttrKey, Any]], tuple[Any, ...]]:
        children, metadata = flatten(x)
        return list(zip(map(GetAttrKey, data), children, strict=True)), metadata

    def unflatten(metadata: Any, children: Any) -> Any:
        children = dict(zip(data, children, strict=True))
        return nodetype(**children, **dict(zip(meta, metadata, strict=True)))

    register_pytree_node(nodetype, flatten, unflatten, flatten_with_keys)
    return nodetype


def _fields_by_declaration(nodetype: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not dataclasses.is_dataclass(nodetype):
        raise TypeError(
            f"{nodetype} is not a data class, so data_fields and meta_fields must be given."
        )
    fields = dataclasses.fields(nodetype)
    return (
        tuple(field.name for field in fields if not field.metadata.get("static", False)),
        tuple(field.name for field in fields if field.metadata.get("static", False)),
    )


def _check_fields(
    nodetype: Any, data: tuple[str, ...], meta: tuple[str, ...], dropped: Sequence[str]
) -> None:
    """Raise `ValueError` unless every field the constructor takes is given exactly one role."""
    both = set(data) & set(meta)
    name = nodetype.__name__
    if both:
        raise ValueError(f"Fields cannot be in data_fields and meta_fields both: {sorted(both)}.")
    if not dataclasses.is_dataclass(nodetype):
        return
    needed = {field.name for field in dataclasses.fields(nodetype) if field.init} - set(dropped)
    missing = sorted(needed - {*data, *meta})
    unexpected = sorted({*data, *meta} - needed)
    if missing or unexpected:
        raise ValueError(
            f"data_fields and meta_fields must name the fields of {name} that its "
            "constructor takes, and no others."
            + (f" Missing: {missing} (drop_fields leaves fields out)." if missing else "")
            + (f" Unexpected: {unexpected}." if unexpected else "")
        )
