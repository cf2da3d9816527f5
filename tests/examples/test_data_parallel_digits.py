"""The data-parallel example: one loss curve, on virtual devices and in processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_curve_does_not_depend_on_devices(tmp_path):
    picture = tmp_path / "curves.png"
    command = [sys.executable, str(ROOT / "examples" / "data_parallel_digits.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    found = subprocess.run(
        [*command, "--epochs", "1", "--picture", str(picture)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.returncode == 0, found.stderr
    assert "2 processes" in found.stdout and "4 devices" in found.stdout
    assert picture.stat().st_size > 10_000
