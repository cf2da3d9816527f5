"""`PartitionSpec`: which mesh axes cut which dimension of an array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


class _Unconstrained:
    """What stands for a dimension that the partitioner may cut as it likes."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


class PartitionSpec:
    """One entry per dimension: None, the name of a mesh axis, or a tuple of names, major first.

    Dimensions beyond the last entry are not cut. A leaf of trees, and not a tuple.

        >>> PartitionSpec("x", None), PartitionSpec(("x", "y"))
        (P('x', None), P(('x', 'y'),))
    """

    __slots__ = ("_hash", "partitions", "reduced", "unreduced")
    UNCONSTRAINED = UNCONSTRAINED
    partitions: tuple[Any, ...]
    unreduced: frozenset
    reduced: frozenset
    _hash: int

    def __init__(
        self,
        *partitions: Any,
        unreduced: Iterable[Any] = frozenset(),
        reduced: Iterable[Any] = frozenset(),
    ) -> None:
        entries = tuple(map(_entry, partitions))
        fields = {
            "partitions": entries,
            "unreduced": _axis_set("unreduced", unreduced),
            "reduced": _axis_set("reduced", reduced),
        }
        _check_disjoint(**fields)
        fields["_hash"] = hash(tuple(fields.values()))
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        raise TypeError("Subclassing PartitionSpec is prohibited")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot assign to field {name!r}: a PartitionSpec is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete field {name!r}: a PartitionSpec is immutable")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not PartitionSpec:
            return NotImplemented
        return (
            self.partitions == other.partitions
            and self.unreduced == other.unreduced
            and self.reduced == other.reduced
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        extra = [
            f"{name}={{{', '.join(map(repr, sorted(axes, key=str)))}}}"
            for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced))
            if axes
        ]
        if extra:
            return f"P({', '.join([*map(repr, self.partitions), *extra])})"
        return f"P{self.partitions!r}"

    def __reduce__(self) -> Any:
        return _rebuild, (self.partitions, self.unreduced, self.reduced)

    # -- as a sequence of entries --------------------------------------------------------------

    def __getitem__(self, item: Any) -> Any:
        self._check_plain("indexed")
        return self.partitions[item]

    def __iter__(self) -> Iterator[Any]:
        self._check_plain("iterated over")
        return iter(self.partitions)

    def __len__(self) -> int:
        return len(self.partitions)

    def __add__(self, other: Any) -> PartitionSpec:
        if isinstance(other, PartitionSpec):
            return PartitionSpec(
                *self.partitions,
                *other.partitions,
                unreduced=self.unreduced | other.unreduced,
                reduced=self.reduced | other.reduced,
            )
        if not isinstance(other, tuple):
            return NotImplemented
        return self.update(partitions=self.partitions + other)

    def __radd__(self, other: Any) -> PartitionSpec:
        if not isinstance(other, tuple):
            return NotImplemented
        return self.update(partitions=other + self.partitions)

    def index(self, value: Any) -> int:
        return self.partitions.index(_entry(value))

    def count(self, value: Any) -> int:
        return self.partitions.count(_entry(value))

    def update(
        self, partitions: Any = None, unreduced: Any = None, reduced: Any = None
    ) -> PartitionSpec:
        """The spec with some of its parts replaced."""
        return PartitionSpec(
            *(self.partitions if partitions is None else partitions),
            unreduced=self.unreduced if unreduced is None else unreduced,
            reduced=self.reduced if reduced is None else reduced,
        )

    def to_lo(self) -> PartitionSpec:
        return self

    def to_tangent_spec(self) -> PartitionSpec:
        return self

    def to_ct_spec(self) -> PartitionSpec:
        """Of cotangents: what is reduced of the one is unreduced of the other."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def axes(self) -> tuple[Any, ...]:
        """The mesh axes that cut some dimension, in order.

        >>> PartitionSpec("x", None, ("y", "z")).axes()
        ('x', 'y', 'z')
        """
        return tuple(axis for entry in self.partitions for axis in axes_of(entry))

    def _normalized_spec_for_aval(self, ndim: int) -> PartitionSpec:
        missing = ndim - len(self.partitions)
        return self.update(partitions=self.partitions + (None,) * missing) if missing > 0 else self

    def _check_plain(self, what: str) -> None:
        if self.unreduced or self.reduced:
            raise ValueError(
                f"{self} has unreduced or reduced axes, so it cannot be {what} as a tuple is. Use "
                "its attributes partitions, unreduced and reduced"
            )


P = PartitionSpec


def axes_of(entry: Any) -> tuple[Any, ...]:
    """The mesh axes of one entry of a spec.

    >>> axes_of(None), axes_of("x"), axes_of(("x", "y"))
    ((), ('x',), ('x', 'y'))
    """
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if type(entry) is tuple else (entry,)


def _entry(entry: Any) -> Any:
    """An entry in its one form: no lists, no tuples of one name or none."""
    if not isinstance(entry, tuple | list):
        return entry
    for axis in entry:
        if isinstance(axis, tuple | list):
            raise ValueError(
                f"A tuple inside PartitionSpec cannot contain a nested tuple. Got partition: "
                f"{entry} and the nested tuple: {axis}"
            )
    if not entry:
        return None
    return entry[0] if len(entry) == 1 else tuple(entry)


def _axis_set(name: str, axes: Any) -> frozenset:
    if not isinstance(axes, set | frozenset):
        raise TypeError(f"{name} of a PartitionSpec should be a set of mesh axes, not {axes!r}")
    if None in axes:
        raise ValueError(f"{name} cannot contain None: its elements are names of mesh axes")
    return frozenset(axes)


def _check_disjoint(partitions: tuple, unreduced: frozenset, reduced: frozenset) -> None:
    if not unreduced and not reduced:
        return
    if unreduced & reduced:
        raise ValueError(
            f"`unreduced` and `reduced` of a PartitionSpec cannot overlap. Got unreduced: "
            f"{set(unreduced)} and reduced: {set(reduced)}"
        )
    used = {axis for entry in partitions for axis in axes_of(entry)}
    for name, axes in (("unreduced", unreduced), ("reduced", reduced)):
        if used & axes:
            raise ValueError(
                f"partitions cannot overlap with {name} axes of a PartitionSpec. Got partitions: "
                f"{partitions} and {name} axes: {set(axes)}"
            )


def _rebuild(partitions: tuple, unreduced: frozenset, reduced: frozenset) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)
