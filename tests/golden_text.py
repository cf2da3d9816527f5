"""Texts that tests hold in files: `pytest --update-golden` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def check_golden(name: str, text: str) -> None:
    """Compare with tests/golden/<name>.txt; with TETRAX_UPDATE_GOLDEN=1 write the file instead."""
    path = FOLDER / f"{name}.txt"
    text = text.rstrip() + "\n"
    if os.environ.get("TETRAX_UPDATE_GOLDEN") == "1":
        path.write_text(text)
        return
    assert path.exists(), f"{path} is missing: run with TETRAX_UPDATE_GOLDEN=1"
    assert text == path.read_text(), f"{name}: the text changed (TETRAX_UPDATE_GOLDEN=1 accepts it)"
