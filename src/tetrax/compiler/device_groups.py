"""Which devices meet which: the axes of a mesh, and partitions of its devices into groups."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tetrax.ir.program import Equation

Groups = tuple[tuple[int, ...], ...]
"""Groups of devices, by their positions in the mesh, row-major; each in order of rank."""


@dataclass(frozen=True)
class DeviceAxes:
    """The named axes of a mesh of devices; devices are numbered row-major."""

    names: tuple[Any, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """How many devices there are."""
        total = 1
        for size in self.sizes:
            total *= size
        return total

    def product(self, names: Sequence[Any]) -> int:
        """How many devices there are along some axes."""
        total = 1
        for name in names:
            total *= self.sizes[self.index(name)]
        return total

    def index(self, name: Any) -> int:
        """The place of an axis. Raises NameError for a name that is none."""
        if name not in self.names:
            known = ", ".join(map(repr, self.names)) or "none"
            raise NameError(
                f"unbound axis name: {name}. Names bound here: {known}. "
                "Bind it by vmap(..., axis_name=...), pmap or shard_map around this call"
            )
        return self.names.index(name)

    def coordinates(self, device: int) -> tuple[int, ...]:
        """The position of a device along every axis."""
        found = []
        for size in reversed(self.sizes):
            device, position = divmod(device, size)
            found.append(position)
        return tuple(reversed(found))

    def groups(self, names: Sequence[Any], parts: Groups | None) -> Groups:
        """The devices that differ along `names` only, row-major in this order of names.

        `parts` divides each of these groups further, by ranks in it.
        """
        along = [self.index(name) for name in names]
        others = [axis for axis in range(len(self.sizes)) if axis not in along]
        strides = [1] * len(self.sizes)
        for axis in reversed(range(len(self.sizes) - 1)):
            strides[axis] = strides[axis + 1] * self.sizes[axis + 1]

        def positions(axes: Sequence[int]) -> list[int]:
            ranges = [range(self.sizes[axis]) for axis in axes]
            return [
                sum(at * strides[axis] for at, axis in zip(place, axes, strict=True))
                for place in itertools.product(*ranges)
            ]

        members = positions(along)
        whole = [[start + member for member in members] for start in positions(others)]
        if parts is None:
            return tuple(map(tuple, whole))
        return tuple(tuple(group[rank] for rank in part) for group in whole for part in parts)


@dataclass(frozen=True)
class Site:
    """A place in a program where devices meet, for messages."""

    routine: str
    line: str


@dataclass
class Meetings:
    """The partitions into groups, and the sites, that a program of several devices has."""

    axes: DeviceAxes = DeviceAxes()
    # The process that each device is in.
    processes: tuple[int, ...] = ()
    partitions: list[Groups] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    # Partitions of shadows, which do collectives beside the work.
    shadows: set[int] = field(default_factory=set)

    def axis(self, name: Any) -> int:
        return self.axes.index(name)

    def partition(self, names: Sequence[Any], parts: Groups | None) -> int:
        """The number of the partition into groups along `names`."""
        groups = self.axes.groups(names, parts)
        for number, known in enumerate(self.partitions):
            if known == groups and number not in self.shadows:
                return number
        self.partitions.append(groups)
        return len(self.partitions) - 1

    def of_shadows(self, partition: int) -> int:
        """The partition of the devices' shadows that is like one of devices."""
        groups = self.partitions[partition]
        for number in self.shadows:
            if self.partitions[number] == groups:
                return number
        self.partitions.append(groups)
        self.shadows.add(len(self.partitions) - 1)
        return len(self.partitions) - 1

    def is_spread(self, partition: int) -> bool:
        """Whether devices of one group are in several processes."""
        if len(set(self.processes)) <= 1:
            return False
        groups = self.partitions[partition]
        return any(len({self.processes[device] for device in group}) > 1 for group in groups)

    def site(self, eqn: Equation, routine: str) -> int:
        """A number for the place of an equation."""
        line = eqn.source_line()
        where = "" if line is None else f" at {line}"
        self.sites.append(Site(routine.removeprefix("tetrax_"), where))
        return len(self.sites) - 1
