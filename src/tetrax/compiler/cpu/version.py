"""The code generator's version, part of every cache key: a digest of its own sources, so nobody has
to raise a number.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def code_version() -> str:
    """A digest of the sources that decide what a kernel becomes."""
    here = Path(__file__).parent
    folders = (here, here / "library", here.parent.parent / "ir")
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.glob("*.py")):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
