"""Exchanges without end, until process 2 ends in the way that the argument names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
from tetrax import config, distributed, errors
from tetrax.runtime import processes

VICTIM = 2


def main(how: str, delay: float) -> None:
    distributed.initialize()
    world = processes.world()
    assert world is not None
    group = processes.group(range(world.size))
    group.barrier()
    if how == "late":
        config.update("process_timeout", 1.0)
    if how == "kill" and world.rank == VICTIM:
        threading.Timer(delay, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    mine, all_of_them = np.zeros(5000), np.zeros((world.size, 5000))
    step = 0
    while True:
        if step == 50 and world.rank == VICTIM:
            end(how, group)
        if how == "fork" and step == 50:
            in_child(group)
            return
        if how == "signals" and step == 50:
            disturbed(group)
            return
        group.all_gather(mine + step, all_of_them)
        assert (all_of_them == step).all()
        step += 1


def end(how: str, group: processes.ProcessGroup) -> None:
    if how == "exit code":
        os._exit(3)
    if how == "exception":
        raise ValueError("the loss is\nnot a number")
    if how == "end":
        sys.exit(0)
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "late":
        group.barrier()


def disturbed(group: processes.ProcessGroup) -> None:
    """A wait lets signals be handled, and goes on unless a handler raises."""
    seen = []
    signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    if group.rank == 0:
        # from outside: a process gives its own signals to any thread
        command = f"sleep 0.5; kill -USR1 {os.getpid()}; sleep 0.5; kill -INT {os.getpid()}"
        subprocess.Popen(["/bin/sh", "-c", command])
        try:
            group.barrier()
            group.barrier()
        except KeyboardInterrupt:
            print(f"interrupted after {seen}", flush=True)
        raise ValueError("so ends this process")
    group.barrier()
    time.sleep(3)


def in_child(group: processes.ProcessGroup) -> None:
    """A forked child takes no part, and its end is not its parent's."""
    child = os.fork()
    if child == 0:
        try:
            group.barrier()
        except errors.ProcessError as error:
            os._exit(7 if "forked child" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    group.barrier()
    print("fork done", flush=True)


main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
