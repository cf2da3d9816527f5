"""The processes of one program, and the exchanges between them.

`begin` makes them known to each other, through MPI; then there is a `World`. A `ProcessGroup` is
some of them that exchange data: its record, at `address`, is what machine code passes to the
routines of `compiler/cpu/library/processes.py`; Python calls them by the group's methods. What
happens when a process fails is `process_exit.py`'s.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tetrax.config import Config, config
from tetrax.errors import ProcessError
from tetrax.runtime import mpi, process_board, process_watch
from tetrax.runtime import process_records as records
from tetrax.runtime.llvm import engine
from tetrax.runtime.process_board import Board
from tetrax.runtime.threads import available_cores

POLLS = 2000
"""Polls before a wait sleeps, where each device has a core: some hundred microseconds."""
POLLS_CROWDED = 500
"""The same where devices share cores: who polls keeps the core from whom it waits for."""
_ENTRY_BYTES = 8


@dataclass(frozen=True)
class Member:
    """One process of the program, as it has introduced itself."""

    rank: int
    host: str
    # Equal for processes that see each other's numbers and memory.
    place: tuple[str, ...]
    pid: int
    devices: int

    def __str__(self) -> str:
        return f"process {self.rank} (pid {self.pid} on {self.host})"


class World:
    """This process among the others."""

    def __init__(
        self, library: mpi.Mpi | None, communicator: Any, members: Sequence[Member], rank: int
    ) -> None:
        self.mpi = library
        self.communicator = communicator
        self.members = tuple(members)
        self.rank = rank
        self.size = len(members)
        self.pid = os.getpid()
        self.board, self.seen = _shared_board(self, communicator)
        self.record = ctypes.create_string_buffer(records.PROCESS_BYTES)
        self.address = ctypes.addressof(self.record)
        self.watch = process_watch.Watch(
            self.board, {r: members[r].pid for r in self.seen if r != rank}
        )
        self.groups: dict[tuple[tuple[int, ...], int], ProcessGroup] = {}
        self.group_at: dict[int, ProcessGroup] = {}
        self._making: dict[tuple[tuple[int, ...], int], threading.Lock] = {}
        self._lock = threading.Lock()
        self._fill_record()

    def _fill_record(self) -> None:
        crowded = available_cores() < sum(self.members[rank].devices for rank in self.seen)
        self.put(records.SPINS, POLLS_CROWDED if crowded else POLLS, ctypes.c_int32)
        self.put(records.BOARD, self.board.address)
        self.put(records.OWN_SLOT, self.board.slot(self.rank))
        self.put(records.LIMIT, 2**62)
        self.set_patience(config.process_timeout)
        self.put(records.MAIN, threading.main_thread().ident or 0)
        for offset, function in _INTERRUPTION.items():
            self.put(offset, function)
        if self.mpi is not None:
            self.put(records.ISEND, self.mpi.functions["Isend"])
            self.put(records.IRECV, self.mpi.functions["Irecv"])
            self.put(records.TEST, self.mpi.functions["Test"])
            self.put(records.BYTE, self.mpi.handle(self.mpi.module.BYTE))
            self.put(records.LIMIT, self.mpi.limit)

    def put(self, offset: int, value: int, kind: Any = ctypes.c_int64) -> None:
        """Write a field of this process's record."""
        kind.from_address(self.address + offset).value = value

    def field(self, offset: int, kind: Any = ctypes.c_int32) -> int:
        return kind.from_address(self.address + offset).value

    def set_patience(self, seconds: float) -> None:
        """Let waits take so long; 0: as long as they like."""
        self.put(records.PATIENCE, int(seconds * 1e9))

    @property
    def failure(self) -> int:
        """Why no exchange is possible any more (the numbers of `process_records`), or 0."""
        return self.field(0) or self.board.failed.value

    def fail(self, code: int) -> None:
        """Make all exchanges of this process fail from now on."""
        if not self.field(0):
            self.put(0, code, ctypes.c_int32)

    def check(self) -> None:
        """Raise ProcessError if a process has failed."""
        self.watch.notice()
        if self.failure:
            raise failure(self.failure)

    def group(self, ranks: Sequence[int], channel: int = 0) -> ProcessGroup:
        """The group of some processes, made at the first call of all of them.

        Groups that exchange data at the same time need different channels, or ranks.
        """
        key = (tuple(ranks), channel)
        found = self.groups.get(key)
        if found is not None:
            return found
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        # A lock for each group: the others may need another one to be made first.
        with making:
            found = self.groups.get(key)
            if found is None:
                found = ProcessGroup(self, key[0], channel)
                self.group_at[found.address] = found
                self.groups[key] = found
        return found


class ProcessGroup:
    """Some processes, in an order, and a communicator of their own.

    Exchanges are made by all members, in the same order, by one thread at a time. Arrays are
    exchanged as they lie in memory; they must be contiguous.
    """

    def __init__(self, world: World, ranks: tuple[int, ...], channel: int) -> None:
        if world.rank not in ranks:
            raise ValueError(f"Process {world.rank} is not a member of the group {ranks}.")
        self.world = world
        self.ranks = ranks
        self.channel = channel
        self.rank = ranks.index(world.rank)
        self.size = len(ranks)
        # Never 0, which marks an entry of the board that is free.
        self.key = zlib.crc32(repr((ranks, channel)).encode()) | 1
        self.communicator = self._make_communicator()
        slots = [world.board.slot(rank) if rank in world.seen else 0 for rank in ranks]
        self._slots = (ctypes.c_int64 * self.size)(*slots)
        self._ranks = (ctypes.c_int32 * self.size)(*ranks)
        self._spare_entry = ctypes.create_string_buffer(_ENTRY_BYTES)
        entry = world.board.add_entry(world.rank, ctypes.c_int32(self.key).value)
        self._record = ctypes.create_string_buffer(records.GROUP_BYTES)
        self.address = ctypes.addressof(self._record)
        for offset, value in (
            (records.COMMUNICATOR, self._handle()),
            (records.RANK, self.rank),
            (records.SIZE, self.size),
            (records.PROCESS, world.address),
            (records.ENTRY, entry or ctypes.addressof(self._spare_entry)),
            (records.KEY, self.key),
            (records.SLOTS, ctypes.addressof(self._slots)),
            (records.RANKS, ctypes.addressof(self._ranks)),
        ):
            ctypes.c_int64.from_address(self.address + offset).value = value

    def _make_communicator(self) -> Any:
        world = self.world
        if world.mpi is None or self.size == 1:
            return None
        module, members = world.mpi.module, world.communicator.Get_group().Incl(self.ranks)

        def make() -> Any:
            made = world.communicator.Create_group(members, self.key % 2**15)
            made.Set_errhandler(module.ERRORS_RETURN)
            return made

        what = f"Making a group of the processes {', '.join(map(str, self.ranks))}"
        return mpi.patiently(make, config.process_timeout, world.check, what)

    def _handle(self) -> int:
        return 0 if self.communicator is None else self.world.mpi.handle(self.communicator)  # type: ignore[union-attr]

    @property
    def started(self) -> int:
        """How many exchanges this process has begun."""
        return ctypes.c_int64.from_address(self.address + records.STARTED).value

    def all_gather(self, send: np.ndarray, recv: np.ndarray) -> None:
        """recv[r] = what member r sends."""
        assert recv.nbytes == self.size * send.nbytes
        _call("tetrax_process_all_gather", self, _in(send), _out(recv), send.nbytes)

    def all_to_all(self, send: np.ndarray, recv: np.ndarray) -> None:
        """recv[r] = the part for this member of what member r sends; arrays of `size` parts."""
        assert send.nbytes == recv.nbytes and send.nbytes % self.size == 0
        nbytes = send.nbytes // self.size
        _call("tetrax_process_all_to_all", self, _in(send), _out(recv), nbytes)

    def permute(self, send: np.ndarray, to: int, recv: np.ndarray, source: int) -> None:
        """Send to member `to`, and receive from member `source`; -1 for neither."""
        assert send.nbytes == recv.nbytes
        _call("tetrax_process_permute", self, _in(send), to, _out(recv), source, send.nbytes)

    def broadcast(self, buffer: np.ndarray, root: int = 0) -> None:
        """Give every member what `root` has in its array."""
        _call("tetrax_process_broadcast", self, _out(buffer), root, buffer.nbytes)

    def barrier(self) -> None:
        """Wait until all members are here."""
        _call("tetrax_process_barrier", self)

    def __repr__(self) -> str:
        return f"ProcessGroup(ranks={self.ranks}, channel={self.channel})"


# --------------------------------------------------------------------------- this process's world

_world: World | None = None


def world() -> World | None:
    """The processes of the program, or None where there is only this one."""
    return _world


def group(ranks: Sequence[int], channel: int = 0) -> ProcessGroup:
    """The group of some processes of the program; see `World.group`."""
    if _world is None:
        raise ProcessError(
            "There are no other processes: call `tetrax.distributed.initialize()` first."
        )
    return _world.group(ranks, channel)


def begin(devices: int, seconds: float) -> World:
    """Meet the other processes that the launcher has started; `devices` is what this one has."""
    library = mpi.load(seconds)
    module = library.module

    def meet() -> tuple[Any, list[Member]]:
        communicator = module.COMM_WORLD.Dup()
        communicator.Set_errhandler(module.ERRORS_RETURN)
        return communicator, communicator.allgather(_self(communicator.Get_rank(), devices))

    what = "Meeting the other processes"
    communicator, members = mpi.patiently(meet, seconds, lambda: None, what)
    return _set_world(World(library, communicator, members, communicator.Get_rank()))


def begin_alone(devices: int) -> World:
    """A world of one process, without MPI."""
    return _set_world(World(None, None, [_self(0, devices)], 0))


def forget() -> None:
    """Have no world any more."""
    global _world
    _world = None


def _set_world(made: World) -> World:
    global _world
    _world = made
    return made


def _in_forked_child() -> None:
    if _world is not None:
        _world.fail(records.FORKED)


os.register_at_fork(after_in_child=_in_forked_child)
Config.process_timeout.observe(lambda value: _world and _world.set_patience(value))


def _self(rank: int, devices: int) -> Member:
    """What this process says of itself."""
    places = ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid")
    host = socket.gethostname()
    try:
        place = (Path(places[0]).read_text().strip(), str(os.readlink(places[1])))
    except OSError:
        place = (host,)
    return Member(rank, host, place, os.getpid(), devices)


def _shared_board(world: World, communicator: Any) -> tuple[Board, frozenset[int]]:
    """The board of this host, and the ranks that use it: this one alone if it cannot be shared."""
    own = world.members[world.rank].place
    here = [member.rank for member in world.members if member.place == own]
    board, path = None, None
    if world.rank == here[0]:
        board, path = process_board.create(world.size)
    if communicator is None:
        assert board is not None and path is not None
        path.unlink()
        board.hold(world.rank)
        return board, frozenset(here)
    found = communicator.allgather((path, board.mark.value if board else 0))
    if board is None:
        path_of_first, mark = found[here[0]]
        board = process_board.join(path_of_first, world.size, mark)
    if board is not None:
        board.hold(world.rank)
    joined = communicator.allgather(board is not None)
    if path is not None:
        path.unlink()
    if board is not None and all(joined[rank] for rank in here):
        return board, frozenset(here)
    alone, path = process_board.create(world.size)
    path.unlink()
    return alone, frozenset((world.rank,))


# --------------------------------------------------------------------------- calls and failures


def _in(array: np.ndarray) -> int:
    assert array.flags.c_contiguous
    return array.__array_interface__["data"][0]


def _out(array: np.ndarray) -> int:
    assert array.flags.c_contiguous and array.flags.writeable
    return array.__array_interface__["data"][0]


_routines: dict[str, Callable[..., int]] = {}


def _routine(symbol: str, arguments: int) -> Callable[..., int]:
    address = engine.address(symbol)
    assert address is not None, symbol
    kinds = [ctypes.c_void_p, *[ctypes.c_int64] * arguments]
    return ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(address)


def _call(symbol: str, group: ProcessGroup, *values: int) -> None:
    """Make an exchange; other threads of Python run meanwhile."""
    routine = _routines.get(symbol)
    if routine is None:
        routine = _routines[symbol] = _routine(symbol, len(values))
    code = routine(group.address, *values)
    if code != 0:
        raise failure(code)


def failure(code: int) -> BaseException:
    """The error for what an exchange has returned: a ProcessError, or what a signal has raised."""
    current = _world
    if current is not None and code == records.INTERRUPTED:
        return _raised(current)
    if current is None or code == records.SHUT_DOWN:
        return ProcessError(
            "`tetrax.distributed.shutdown()` has been called: no exchange is possible any more."
        )
    if code == records.FORKED:
        return ProcessError(
            "This is a forked child of a process that exchanges data with others; it cannot take "
            "part. Compute in the parent, or start children by 'spawn' (multiprocessing)."
        )
    current.board.number(current.rank, records.NOTED).value = 1
    group = current.group_at.get(current.field(records.FAILED_GROUP, ctypes.c_int64))
    kind = records.kind_names[current.field(records.FAILED_KIND)]
    doing = f", while waiting in {kind} with {_who(group, current)}" if group else ""
    if code > 0:
        return ProcessError(_gone(current, code - 1) + doing + ".", code - 1)
    if code == records.BROKEN:
        error = current.field(records.MPI_ERROR)
        text = current.mpi.module.Get_error_string(error) if current.mpi else str(error)
        return ProcessError(f"MPI reports '{' '.join(text.split())}'{doing}.")
    assert group is not None
    return ProcessError(_late(current, group, kind))


def _raised(current: World) -> BaseException:
    """What the handler of a signal has raised while an exchange waited; once."""
    values = [current.field(records.RAISED + 8 * at, ctypes.c_int64) for at in range(3)]
    if not values[0]:
        return ProcessError("An exchange has been interrupted, so no more are possible.")
    current.put(records.RAISED, 0)
    try:
        ctypes.pythonapi.PyErr_Restore(*map(ctypes.c_void_p, values))
    except BaseException as error:
        return error
    raise AssertionError("a signal has raised nothing")


def _interruption() -> dict[int, int]:
    """Functions of CPython by which machine code lets signals be handled."""
    if sys.implementation.name != "cpython":
        return {}
    names = {
        records.ENSURE: "PyGILState_Ensure",
        records.RELEASE: "PyGILState_Release",
        records.CHECK_SIGNALS: "PyErr_CheckSignals",
        records.FETCH: "PyErr_Fetch",
    }
    found = {}
    for offset, name in names.items():
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        assert address is not None, name
        found[offset] = address
    return found


_INTERRUPTION = _interruption()


def _who(group: ProcessGroup, current: World) -> str:
    others = [str(rank) for rank in group.ranks if rank != current.rank]
    return f"process{'es' if len(others) > 1 else ''} {', '.join(others)}"


def _gone(current: World, rank: int) -> str:
    """What has become of a process."""
    member = current.members[rank]
    who = f"Process {rank} of {current.size} (pid {member.pid} on {member.host})"
    state = current.board.state(rank)
    if state == records.CRASHED:
        return f"{who} has ended with an error, {current.board.text(rank)}"
    if state == records.LEFT:
        return f"{who} has ended (it came to the end of its program, or called sys.exit)"
    return f"{who} has ended without a word (killed, crashed in native code, or by os._exit)"


def _late(current: World, group: ProcessGroup, kind: str) -> str:
    """For whom an exchange has waited too long, and what they do instead."""
    number = group.started
    key = ctypes.c_int32(group.key).value
    lines = []
    for rank in group.ranks:
        member = current.members[rank]
        if rank == current.rank:
            continue
        if rank not in current.seen:
            lines.append(f"{member}: on another host, so nothing is known of it")
            continue
        made = current.board.made(rank, key)
        doing = records.kind_names[current.board.number(rank, records.WAITING).value]
        if made < number - 1 or (made == number - 1 and doing != kind):
            state = "waits in" if doing in _WAITS else "is in"
            lines.append(f"{member}: has made {made} exchanges of this group; {state} {doing}")
    return (
        f"Exchange {number} of processes {', '.join(map(str, group.ranks))} ({kind}, in process "
        f"{current.rank}) has taken longer than process_timeout = {config.process_timeout:g} "
        "seconds. It waits for:\n  " + "\n  ".join(lines or ["nobody who is known to be late"])
    )


_WAITS = frozenset(name for number, name in records.kind_names.items() if number)
