"""The example of several processes: a run that was interrupted ends with the bits of another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.distributed.launch import launch

import numpy as np

EXAMPLE = Path(__file__).parents[2] / "examples" / "restart_after_failure.py"


def ending(out: str) -> str:
    found = re.search(r"parameters (\w+)", out)
    assert found, out
    return found[1]


def run(path: Path, *more: str):
    return launch(2, str(EXAMPLE), "--steps", "70", "--checkpoint", str(path), *more)


def test_same_bits_after_a_process_has_died(tmp_path):
    undisturbed = run(tmp_path / "one.npz")
    assert undisturbed.code == 0, undisturbed.err
    died = run(tmp_path / "two.npz", "--die-at", "60")
    assert died.code != 0 and "Process 1 of 2" in died.err, died.err
    rest = run(tmp_path / "two.npz")
    assert rest.code == 0, rest.err
    assert "starts at step 50" in rest.out
    assert ending(rest.out) == ending(undisturbed.out)


@pytest.mark.slow
def test_same_bits_whenever_it_dies(tmp_path):
    """Ten times, at steps that were drawn: before the first checkpoint, at one, and after it."""
    expected = ending(run(tmp_path / "undisturbed.npz").out)
    for number, step in enumerate(np.random.default_rng(7).integers(1, 70, 10)):
        path = tmp_path / f"{number}.npz"
        died = run(path, "--die-at", str(step))
        assert died.code != 0 and "Process 1 of 2" in died.err, died.err
        rest = run(path)
        assert rest.code == 0, rest.err
        assert ending(rest.out) == expected, step
