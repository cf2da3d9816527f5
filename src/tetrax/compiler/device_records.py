"""The records by which native code knows the devices of a program, and where they meet.

`cpu/library/devices.py` says what the words mean. All records of a program are one piece of memory,
every record on cache lines of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.compiler.cpu.library import device_layout as layout
from tetrax.compiler.cpu.library.devices import MOST_DEVICES
from tetrax.compiler.device_groups import Groups, Meetings
from tetrax.runtime import processes
from tetrax.runtime.native_functions import address_of
from tetrax.runtime.threads import available_cores, worker_count

_LINE = 8  # words of a cache line
PATIENCE = 800
"""Pauses before a device that waits sleeps, where every device has a core of its own."""


@dataclass(frozen=True)
class DeviceCode:
    """The program of one device, as its launch needs it."""

    entry: int
    context: int
    inputs: int
    outputs: int
    constants: int
    arena_bytes: int
    # Small programs that do not meet are done one after another before threads would have begun.
    serial: bool = False


class _Memory:
    """Hands out cache lines of one piece of memory, in words."""

    def __init__(self) -> None:
        self.size = 0

    def take(self, words: int) -> int:
        place, self.size = self.size, self.size + -(-words // _LINE) * _LINE
        return place


class DeviceRecords:
    """The records of the devices `positions` (in the mesh) of this process."""

    def __init__(self, code: DeviceCode, meetings: Meetings, positions: Sequence[int]) -> None:
        memory = _Memory()
        count = len(positions)
        if count > MOST_DEVICES:
            raise ValueError(f"{count} devices in one process; at most {MOST_DEVICES}")
        self._meetings = meetings
        self._launch = memory.take(layout.LAUNCH_WORDS["END"])
        device_list = memory.take(2 * count)
        table = code.inputs + code.outputs + code.constants + 1
        words = layout.DEVICE_WORDS["MEMBERSHIPS"] + 2 * len(meetings.partitions)
        self._devices = {
            position: (memory.take(words), memory.take(table)) for position in positions
        }
        ring = layout.RING_WORDS["REQUESTS"] + 8 * layout.REQUESTS
        self._shadows = {
            position: (memory.take(words), memory.take(ring))
            for position in (positions if meetings.shadows else ())
        }
        groups = [
            (
                number,
                group,
                memory.take(layout.GROUP_WORDS["MEMBERS"] + 4 * len(group)),
                memory.take(2 * len(group)),
            )
            for number, partition in enumerate(meetings.partitions)
            for group in partition
            if any(position in self._devices for position in group)
        ]
        group_list = memory.take(max(1, len(groups)))
        held = np.zeros(memory.size + _LINE, np.int64)
        self._base = address_of(held)
        skipped = -self._base % 64 // 8
        self._words = held[skipped:]
        self._base += 8 * skipped
        self._fill_launch(code, count, device_list, len(groups), group_list)
        for index, (position, (place, own_table)) in enumerate(self._devices.items()):
            self._words[device_list + index] = self._address(place)
            self._fill_device(place, position, TABLE=self._address(own_table))
        for index, (position, (place, ring)) in enumerate(self._shadows.items()):
            self._words[device_list + count + index] = self._address(place)
            self._fill_device(place, position, RING=self._address(ring))
            device, _ = self._devices[position]
            self._set(device, layout.DEVICE_WORDS, SHADOW=self._address(place))
            self._set(place, layout.DEVICE_WORDS, SHADOW=self._address(device))
        # What exchanges with other processes must live as long as the records.
        self._held: list[Any] = []
        for index, (number, group, place, tables) in enumerate(groups):
            self._words[group_list + index] = self._address(place)
            self._fill_group(number, group, place, tables)

    @property
    def address(self) -> int:
        """The address of the launch record."""
        return self._address(self._launch)

    @property
    def nbytes(self) -> int:
        return self._words.nbytes

    def _address(self, place: int) -> int:
        return self._base + 8 * place

    def _set(self, place: int, names: dict[str, int], **values: int) -> None:
        for name, value in values.items():
            self._words[place + names[name]] = value

    def _fill_launch(
        self, code: DeviceCode, count: int, device_list: int, groups: int, group_list: int
    ) -> None:
        self._set(
            self._launch,
            layout.LAUNCH_WORDS,
            DEVICES=count,
            PARTICIPANTS=count + len(self._shadows),
            ENTRY=code.entry,
            CONTEXT=code.context,
            INPUTS=code.inputs,
            OUTPUTS=code.outputs,
            CONSTANTS=code.constants,
            STRIDE=code.arena_bytes,
            PATIENCE=PATIENCE if count <= available_cores() else 1,
            HOLD=int(count >= worker_count()),
            SERIAL=int(code.serial),
            GROUPS=groups,
            GROUP_LIST=self._address(group_list),
            DEVICE_LIST=self._address(device_list),
        )

    def _fill_device(self, place: int, position: int, **values: int) -> None:
        self._set(
            place,
            layout.DEVICE_WORDS,
            LAUNCH=self.address,
            INDEX=position,
            **values,
        )
        coordinates = self._meetings.axes.coordinates(position)
        first = place + layout.DEVICE_WORDS["COORDINATES"]
        last = place + layout.DEVICE_WORDS["MEMBERSHIPS"]
        self._words[first:last].view(np.int32)[: len(coordinates)] = coordinates

    def _fill_group(self, number: int, group: Sequence[int], place: int, tables: int) -> None:
        here = [position for position in group if position in self._devices]
        self._set(place, layout.GROUP_WORDS, SIZE=len(here))
        records = self._shadows if number in self._meetings.shadows else self._devices
        for slot, position in enumerate(here):
            device, _ = records[position]
            self._words[place + layout.GROUP_WORDS["MEMBERS"] + 4 * slot] = self._address(device)
            membership = device + layout.DEVICE_WORDS["MEMBERSHIPS"] + 2 * number
            self._words[membership : membership + 2] = self._address(place), slot
        if len(here) < len(group):
            shift = MOST_DEVICES if number in self._meetings.shadows else 0
            self._fill_spread_group(group, place, tables, shift)

    def _fill_spread_group(self, group: Sequence[int], place: int, tables: int, shift: int) -> None:
        """What native code must know of a group with members in other processes.

        Groups that may exchange at the same time do so on different channels; `shift` keeps those
        of devices and of shadows apart.
        """
        home = self._meetings.processes
        members = spread_members(group, home)
        ordinals = [self._ordinal(ranks[0], group) for ranks in members.values()]
        same = len(set(ordinals)) == 1
        mixed = 2 * MOST_DEVICES + zlib.crc32(repr(ordinals).encode()) % 8192
        channel = (ordinals[0] if same else mixed) + shift
        exchange = processes.group(tuple(members), channel)
        own = next(home[position] for position in group if position in self._devices)
        order = [rank for ranks in members.values() for rank in ranks]
        self._words[tables : tables + len(group)] = order
        self._words[tables + len(group) : tables + 2 * len(group)] = np.argsort(order)
        self._set(
            place,
            layout.GROUP_WORDS,
            PROCESSES=exchange.address,
            PROCESS_COUNT=len(members),
            OWN_PROCESS=list(members).index(own),
            RANKS=self._address(tables),
            PLACES=self._address(tables + len(group)),
        )
        self._held.append(exchange)

    def _ordinal(self, rank: int, group: Sequence[int]) -> int:
        """Which of the devices of its process in the mesh a member is."""
        position, home = group[rank], self._meetings.processes
        return sum(other == home[position] for other in home[:position])

    def failure(self) -> BaseException | None:
        """Why the last launch failed, unless one of the devices has an error of its own."""
        get = lambda name: int(self._words[self._launch + layout.LAUNCH_WORDS[name]])
        reason = get("FAILED")
        if reason == layout.PROCESS:
            found = processes.failure(get("STATUS"))
            found.add_note(f"in {self._site(get('SITE_A'))}")
            return found
        if reason == layout.NO_THREADS:
            return errors.CollectiveError(
                f"the system gives no threads for {len(self._devices)} devices of this process"
            )
        where = f"device {get('DEVICE_B')} waits in {self._site(get('SITE_B'))}"
        if reason == layout.MISSING:
            return errors.CollectiveError(
                f"devices wait for each other for ever: {where}, but {self._absence(get)}. "
                "All devices must run the same collectives in "
                "the same order: look for a cond or while_loop around one whose predicate differs "
                "between devices"
            )
        if reason == layout.MISMATCH:
            return errors.CollectiveError(
                f"devices of one group meet in different collectives: {where}, but device "
                f"{get('DEVICE_A')} is in {self._site(get('SITE_A'))}. All devices must run the "
                "same collectives in the same order"
            )
        return None

    def _absence(self, get: Callable[[str], int]) -> str:
        """Who does not come to where a device waits."""
        position = get("DEVICE_A")
        if position == get("DEVICE_B"):
            return "others of its group have ended or wait elsewhere"
        device, _ = self._devices[position]
        if int(self._words[device + layout.DEVICE_WORDS["STATE"]]):
            site = self._site(int(self._words[device + layout.DEVICE_WORDS["SITE"]]))
            return f"device {position} waits in {site}"
        return f"device {position} has ended or waits elsewhere"

    def _site(self, number: int) -> str:
        """A site in words; native code counts the two halves of a meeting."""
        if not 0 <= number // layout.STATIONS < len(self._meetings.sites):
            return "no collective"
        site = self._meetings.sites[number // layout.STATIONS]
        return f"{site.routine}{site.line}"


def spread_members(group: Sequence[int], home: Sequence[int]) -> dict[int, list[int]]:
    """The ranks of the members by process. Raises ValueError where processes have more or fewer."""
    members: dict[int, list[int]] = {}
    for rank, position in enumerate(group):
        members.setdefault(home[position], []).append(rank)
    if len({len(ranks) for ranks in members.values()}) > 1:
        shown = ", ".join(f"{len(ranks)} in process {p}" for p, ranks in members.items())
        raise ValueError(
            "a collective needs equally many devices of its group in each process, but there are "
            f"{shown}"
        )
    return members


__all__ = ["DeviceCode", "DeviceRecords", "Groups"]
