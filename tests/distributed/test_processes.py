"""Programs of several processes, through MPI."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
from tests.distributed.launch import PROGRAMS, launch

KEEP_OTHERS = ("-disable-auto-cleanup",)
"""Lets mpiexec leave the other processes alone when one has ended with a code."""


@pytest.mark.parametrize("count", [2, 4])
def test_exchanges(count):
    ended = launch(count, "exchanges.py")
    assert ended.code == 0, ended.err
    assert all(f"exchanges done {rank}" in ended.out for rank in range(count)), ended.out
    assert ended.err == ""


def test_working_together():
    ended = launch(2, "together.py")
    assert ended.code == 0, ended.err
    assert all(f"together done {rank}" in ended.out for rank in range(2)), ended.out


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_bits_do_not_depend_on_how_devices_lie_in_processes(count):
    program = PROGRAMS / "spread.py"
    alone = run_alone(program.read_text())
    assert alone.returncode == 0 and alone.stdout.startswith("digest "), alone.stderr
    ended = launch(count, program.name)
    assert ended.code == 0, ended.err
    assert ended.out == alone.stdout


def errors_of(err: str) -> list[str]:
    return [line for line in err.splitlines() if "ProcessError: " in line]


@pytest.mark.parametrize(
    "how, options, words",
    [
        ("exception", (), "has ended with an error, ValueError: the loss is not a number (failing"),
        ("end", (), "has ended (it came to the end of its program"),
        ("exit code", KEEP_OTHERS, "has ended without a word"),
    ],
)
def test_the_others_are_told(how, options, words):
    ended = launch(4, "failing.py", how, options=options)
    told = errors_of(ended.err)
    assert ended.code != 0
    assert len(told) == 3, ended.err
    for line in told:
        assert "Process 2 of 4 (pid " in line and words in line, ended.err
        assert "while waiting in all_gather with processes" in line


@pytest.mark.parametrize("how", ["kill", "crash", "exit code"])
def test_who_was_killed_is_named_though_the_launcher_kills_all(how):
    ended = launch(4, "failing.py", how, "0.1")
    assert ended.code != 0
    check_killed(ended.err)


def test_who_ends_before_initialize_keeps_nobody_waiting():
    ended = launch(3, "absent.py")
    assert ended.code != 0 and "tried" not in ended.out
    assert "before they have called `distributed.initialize`, these have ended: 2" in ended.err


@pytest.mark.slow
def test_killed_at_random_moments():
    moments = random.Random(7)
    for _ in range(10):
        ended = launch(4, "failing.py", "kill", str(moments.uniform(0, 1)))
        check_killed(ended.err)


def check_killed(err: str) -> None:
    """Process 2, and no other, is named by the survivors or by the process that speaks for them."""
    lines = [line for line in err.splitlines() if "has ended without a word" in line]
    assert lines, err
    assert all("Process 2 of 4 (pid " in line for line in lines), err


def test_a_wait_that_takes_too_long_says_for_whom():
    ended = launch(4, "failing.py", "late", options=KEEP_OTHERS)
    assert ended.code != 0
    assert "has taken longer than process_timeout = 1 seconds" in ended.err
    assert "process 2 (pid " in ended.err
    assert "has made 51 exchanges of this group; waits in barrier" in ended.err, ended.err


def test_a_forked_child_takes_no_part():
    ended = launch(2, "failing.py", "fork")
    assert ended.code == 0, ended.err
    assert ended.out.count("fork done") == 2


def test_signals_are_handled_while_an_exchange_waits():
    ended = launch(2, "failing.py", "signals")
    assert "interrupted after [1]" in ended.out, ended.err
    # the other one has come to a good end meanwhile; the program has not
    assert ended.code != 0


def run_alone(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )


def test_one_process_without_a_launcher():
    done = run_alone(
        """
import numpy as np, pytest
from tetrax import distributed
from tetrax.experimental import multihost_utils as together
with pytest.raises(ValueError, match="coordinator_address should be defined"):
    distributed.initialize()
with pytest.raises(ValueError, match="no launcher"):
    distributed.initialize("localhost:1234", 2, 0)
with pytest.raises(TypeError):
    distributed.initialize("localhost:1234", "2", 0)
with pytest.raises(ValueError, match="process_id < num_processes"):
    distributed.initialize("localhost:1234", 1, 1)
distributed.initialize("localhost:1234", 1, 0)
assert distributed.is_initialized()
x = np.arange(3)
assert together.process_allgather(x).shape == (1, 3)
assert together.process_allgather(x, tiled=True).shape == (3,)
assert together.broadcast_one_to_all({"x": x})["x"].sum() == 3
together.sync_global_devices("alone")
from tetrax.runtime import processes
group = processes.group([0])
received = np.zeros((1, 3), int)
group.all_gather(x, received)
assert (received == x).all()
group.barrier()
distributed.shutdown()
with pytest.raises(RuntimeError, match="initialize"):
    processes.group([0])
"""
    )
    assert done.returncode == 0, done.stderr


def test_devices_that_are_in_use():
    done = run_alone(
        """
import pytest, tetrax
tetrax.devices()
with pytest.raises(RuntimeError, match="in use already"):
    tetrax.distributed.initialize(num_processes=1)
"""
    )
    assert done.returncode == 0, done.stderr


def test_without_mpi4py():
    done = run_alone(
        """
import sys, pytest, tetrax
sys.modules["mpi4py"] = None
with pytest.raises(ImportError, match="pip install"):
    tetrax.distributed.initialize()
""",
        PMI_RANK="0",
    )
    assert done.returncode == 0, done.stderr
