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
    package = here.parent.parent
    runtime = (package / "runtime" / name for name in ("llvm.py", "process_records.py"))
    paths = [*here.glob("*.py"), *(here / "library").glob("*.py"), *runtime]
    digest = hashlib.sha256()
    for path in sorted([*paths, *(package / "ir").glob("kernel*.py")]):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
