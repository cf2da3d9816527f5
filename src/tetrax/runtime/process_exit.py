"""How a process leaves the others: at the end of its program, after an error, or when asked to.

Who comes to its end waits for the others to come to theirs, and ends MPI with them. Those who still
wait for data from it are told after a while that none will come. Who fails says so on the board,
stays until the others have noticed and had time to save something, and then ends without MPI's
`MPI_Finalize`, which would wait for the dead. Launchers usually kill what is left when a process
ends like that; a process of our own (`process_reporter.py`) then says which one was the first.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from tetrax.runtime import process_records as records
from tetrax.runtime import processes
from tetrax.runtime.processes import World

PATIENCE_OF_OTHERS = 2.0
"""Seconds at the end of a program before those who wait for its data are told to stop."""
NOTICE_SECONDS = 5.0
"""Seconds that the others have to notice a failure; who has not then is ended."""
SAVE_SECONDS = 30.0
"""Seconds that they have to end by themselves once they have been told."""

_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]
_previous_hook: _Hook = sys.excepthook
_shutdown_seconds = 300.0
_installed = False


def prepare(world: World, shutdown_seconds: float) -> None:
    """Take care of what happens when this process or another one ends."""
    global _previous_hook, _shutdown_seconds, _installed
    _shutdown_seconds = shutdown_seconds
    if len(world.seen) > 1 and world.rank == min(world.seen):
        _start_reporter(world)
    if not _installed:
        _installed = True
        _previous_hook = sys.excepthook
        sys.excepthook = _uncaught
        atexit.register(_at_exit)


def leave(seconds: float) -> None:
    """Leave the other processes, when all of them do; there is no world afterwards."""
    world = processes.world()
    if world is None or os.getpid() != world.pid:
        return
    if not world.failure and _all_leave(world, seconds):
        world.board.set_state(world.rank, records.LEFT)
        _end_mpi(world)
    else:
        _depart(world)
    world.fail(records.SHUT_DOWN)
    world.watch.close()
    processes.forget()


def _at_exit() -> None:
    leave(_shutdown_seconds)


def _uncaught(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    """Tell the others of the error that ends this process."""
    world = processes.world()
    if world is None or os.getpid() != world.pid:
        _previous_hook(kind, value, trace)
        return
    world.board.write_text(world.rank, _in_one_line(value, trace))
    world.board.set_state(world.rank, records.CRASHED)
    report = io.StringIO()
    with contextlib.redirect_stderr(report):
        _previous_hook(kind, value, trace)
    # In one piece: other processes write to the same place.
    text = f"tetrax: process {world.rank} of {world.size} ends with an error:\n"
    sys.stderr.write(text + report.getvalue())
    sys.stderr.flush()


def _in_one_line(value: BaseException, trace: TracebackType | None) -> str:
    text = " ".join("".join(traceback.format_exception_only(value)).split())
    frames = traceback.extract_tb(trace, limit=-1)
    place = f" ({os.path.basename(frames[0].filename)}, line {frames[0].lineno})" if frames else ""
    room = records.TEXT_BYTES - len(place.encode())
    return text.encode()[:room].decode(errors="ignore") + place


def _all_leave(world: World, seconds: float) -> bool:
    """Wait until all processes leave; whether they do."""
    if world.mpi is None:
        return True
    request = world.communicator.Ibarrier()
    begun, step = time.monotonic(), 0.0005
    while not request.Test():
        world.watch.notice()
        waited = time.monotonic() - begun
        if world.failure:
            return False
        if waited > PATIENCE_OF_OTHERS and world.board.state(world.rank) == records.RUNNING:
            world.board.set_state(world.rank, records.LEFT)
        if waited > seconds:
            _say(f"process {world.rank} has waited {seconds:g} seconds for the others to end.")
            return False
        time.sleep(step)
        step = min(2 * step, 0.02)
    return True


def _end_mpi(world: World) -> None:
    """End MPI, together with all others."""
    if world.mpi is None:
        return
    for group in world.groups.values():
        if group.communicator is not None:
            group.communicator.Free()
    world.communicator.Free()
    if not world.mpi.ends_itself:
        world.mpi.module.Finalize()


def _depart(world: World) -> None:
    """Leave without the others: after a failure, or because they do not come."""
    if world.board.state(world.rank) == records.RUNNING:
        world.board.set_state(world.rank, records.LEFT)
    sys.stdout.flush()
    sys.stderr.flush()
    others = world.seen - {world.rank}
    begun, late = time.monotonic(), False
    while running := [rank for rank in others if world.board.state(rank) == records.RUNNING]:
        noted = all(world.board.number(rank, records.NOTED).value for rank in running)
        if time.monotonic() - begun > (SAVE_SECONDS if noted else NOTICE_SECONDS):
            late = True
            break
        time.sleep(0.01)
        world.watch.notice()
    if world.board.state(world.rank) == records.LEFT:
        _let_failed_ones_go_first(world)
    if world.mpi is None:
        return
    if late:
        names = ", ".join(map(str, running))
        _say(f"process {world.rank} ends the others that have not ended by themselves: {names}.")
    if late or world.mpi.ends_itself or len(world.seen) < world.size:
        world.mpi.module.COMM_WORLD.Abort(1)


def _let_failed_ones_go_first(world: World) -> None:
    """Wait for the end of those who have failed: launchers report how the first one ends."""
    begun = time.monotonic()
    failed = [rank for rank in world.seen if world.board.state(rank) == records.CRASHED]
    while any(not world.board.has_ended(rank) for rank in failed):
        if time.monotonic() - begun > NOTICE_SECONDS:
            return
        time.sleep(0.01)
    if failed:
        time.sleep(0.2)  # their memory goes first, then the launcher sees it


def _say(text: str) -> None:
    print(f"tetrax: {text}", file=sys.stderr, flush=True)


def _start_reporter(world: World) -> None:
    """Start the process that speaks when launchers leave no time for it to anybody else."""
    told = {
        "board": [world.board.file, world.size, records.HEADER_BYTES, records.SLOT_BYTES],
        "held": records.HELD,
        "mutex": records.MUTEX,
        "waiting": records.WAITING,
        "kinds": list(records.kind_names.values()),
        "litter": _shared_files(),
        "members": [[rank, *_named(world, rank)] for rank in sorted(world.seen)],
    }
    script = Path(__file__).with_name("process_reporter.py")
    try:
        reporter = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), json.dumps(told)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[world.board.file],
            # Launchers kill the group of processes that theirs belong to.
            start_new_session=True,
        )
    except OSError:
        return  # programs run without it
    reporter.returncode = 0  # nobody waits for it: it ends after this process


def _shared_files() -> list[str]:
    """Files in memory by which MPICH's processes meet: only `MPI_Finalize` removes them."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    return sorted({line[line.index("/") :] for line in lines if "/dev/shm/mpich_shm_" in line})


def _named(world: World, rank: int) -> tuple[int, str]:
    return world.members[rank].pid, world.members[rank].host
