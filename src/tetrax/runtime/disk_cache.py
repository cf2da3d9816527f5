"""Compiled objects kept on disk between processes.

The folder is private to the user (mode 0700; one that belongs to someone else is refused, since
code from it would be run). Every file carries a digest of its contents and is written under another
name first, so a broken or half-written file is a miss. The cache never fails: any trouble turns it
off with one warning.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
import warnings
from pathlib import Path

from tetrax.config import config

LIMIT_BYTES = 512 << 20
_MAGIC = b"tetrax-object-1\n"
_SWEEP_EVERY = 64

_lock = threading.Lock()
_state: dict[str, object] = {"folder": None, "wanted": None, "writes": 0, "off": False}


def folder() -> Path | None:
    """The cache's folder, made if need be, or None where there is no usable one."""
    wanted = _wanted()
    with _lock:
        if _state["wanted"] != wanted:
            _state.update(wanted=wanted, folder=None, off=wanted is None)
            if wanted is not None:
                _state["folder"] = _open(Path(wanted))
        return _state["folder"]  # type: ignore[return-value]


def _wanted() -> str | None:
    """The folder asked for; an empty setting or 'off' turns the cache off."""
    if not config.enable_compilation_cache:
        return None
    chosen = config.cache_dir
    if chosen is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        return os.path.join(base, "tetrax")
    return None if str(chosen) in ("", "off") else str(chosen)


def _open(path: Path) -> Path | None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
        if hasattr(os, "getuid") and status.st_uid != os.getuid():
            raise PermissionError(f"{path} belongs to another user")
        if status.st_mode & 0o022:
            path.chmod(0o700)
        return path
    except OSError as problem:
        _give_up(problem)
        return None


def _give_up(problem: Exception) -> None:
    if not _state["off"]:
        _state["off"] = True
        warnings.warn(f"compiled code is not kept on disk: {problem}", stacklevel=2)
    _state["folder"] = None


def read(key: str) -> bytes | None:
    """What is stored under a key, or None."""
    base = folder()
    if base is None:
        return None
    path = base / key
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        _give_up(problem)
        return None
    header, digest, contents = data[:16], data[16:48], data[48:]
    if header != _MAGIC or hashlib.sha256(contents).digest() != digest:
        path.unlink(missing_ok=True)
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # the oldest files go first when space runs out
    return contents


def write(key: str, contents: bytes) -> None:
    """Store contents under a key."""
    base = folder()
    if base is None:
        return
    data = _MAGIC + hashlib.sha256(contents).digest() + contents
    try:
        handle, temporary = tempfile.mkstemp(dir=base, prefix="new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, base / key)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _count_write(base)
    except OSError as problem:
        _give_up(problem)


def _count_write(base: Path) -> None:
    with _lock:
        count = int(_state["writes"]) + 1  # type: ignore[call-overload]
        _state["writes"] = count
    if count % _SWEEP_EVERY == 1:
        sweep(base, LIMIT_BYTES)


def sweep(base: Path, limit: int) -> None:
    """Delete the files that were used longest ago until the folder is below its limit."""
    entries = []
    for entry in os.scandir(base):
        try:
            status = entry.stat()
        except FileNotFoundError:
            continue
        entries.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= limit:
            return
        Path(path).unlink(missing_ok=True)
        total -= size
