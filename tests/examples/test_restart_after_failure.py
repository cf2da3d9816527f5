"""The example of several processes: a run that was interrupted ends with the bits of another."""

from __future__ import annotations

import re
from pathlib import Path

from tests.distributed.launch import launch

EXAMPLE = Path(__file__).parents[2] / "examples" / "restart_after_failure.py"


def ending(out: str) -> str:
    found = re.search(r"parameters (\w+)", out)
    assert found, out
    return found[1]


def test_same_bits_after_a_process_has_died(tmp_path):
    def run(checkpoint: str, *more: str):
        path = str(tmp_path / checkpoint)
        return launch(2, str(EXAMPLE), "--steps", "70", "--checkpoint", path, *more)

    undisturbed = run("one.npz")
    assert undisturbed.code == 0, undisturbed.err
    died = run("two.npz", "--die-at", "60")
    assert died.code != 0 and "Process 1 of 2" in died.err, died.err
    rest = run("two.npz")
    assert rest.code == 0, rest.err
    assert "starts at step 50" in rest.out
    assert ending(rest.out) == ending(undisturbed.out)
