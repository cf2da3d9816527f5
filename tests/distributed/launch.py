"""Starting programs of several processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import tetrax

PROGRAMS = Path(__file__).parent / "programs"
LIMIT = 120
"""Seconds after which a program hangs for sure; the longest takes some ten, with idle cores."""


@dataclass
class Ended:
    """How a program has ended."""

    code: int
    out: str
    err: str


def mpiexec() -> str:
    """The launcher beside this Python, or on the path; skips the test where mpi4py is missing."""
    pytest.importorskip("mpi4py", reason="several processes need mpi4py")
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    assert found is not None, "mpi4py is installed, but there is no mpiexec"
    return found


def launch(count: int, program: str, *arguments: str, options: tuple[str, ...] = ()) -> Ended:
    """Run `programs/<program>` as so many processes."""
    package = os.path.dirname(os.path.dirname(tetrax.__file__))
    environment = {**os.environ, "PYTHONPATH": package, "TETRAX_NUM_THREADS": "1"}
    command = [mpiexec(), *options, "-n", str(count), sys.executable]
    command += [str(PROGRAMS / program), *arguments]
    # Files, not pipes: a process that remained would keep a pipe open.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment
        )
        try:
            code = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            code = -1
        out.seek(0)
        err.seek(0)
        ended = Ended(code, out.read(), err.read())
    assert code != -1, f"It hangs.\n{ended.out}\n{ended.err}"
    return ended
