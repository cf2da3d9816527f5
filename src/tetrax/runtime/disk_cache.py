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
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

from tetrax._lazy import lazy_module
from tetrax.config import config

tempfile = lazy_module("tempfile")

LIMIT_BYTES = 512 << 20
_MAGIC = b"tetrax-object-1\n"
_SWEEP_EVERY = 64


class Store:
    """Files in one folder, by key; `wanted` says which folder, or None for no cache at all."""

    def __init__(self, wanted: Callable[[], str | None]) -> None:
        self._ask = wanted
        self._wanted: str | None = None
        self._folder: Path | None = None
        self._asked = self._off = False
        self._writes = 0
        self._lock = threading.Lock()

    def folder(self) -> Path | None:
        """The folder, made if need be, or None where there is no usable one."""
        wanted = self._ask()
        with self._lock:
            if not self._asked or self._wanted != wanted:
                self._asked, self._wanted, self._off = True, wanted, wanted is None
                self._folder = None if wanted is None else self._open(Path(wanted))
            return self._folder

    def _open(self, path: Path) -> Path | None:
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = path.stat()
            if hasattr(os, "getuid") and status.st_uid != os.getuid():
                raise PermissionError(f"{path} belongs to another user")
            if status.st_mode & 0o022:
                path.chmod(0o700)
            return path
        except OSError as problem:
            self._give_up(problem)
            return None

    def _give_up(self, problem: Exception) -> None:
        if not self._off:
            self._off = True
            warnings.warn(f"compiled code is not kept on disk: {problem}", stacklevel=2)
        self._folder = None

    def read(self, key: str) -> bytes | None:
        """What is stored under a key, or None."""
        base = self.folder()
        if base is None:
            return None
        path = base / key
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as problem:
            self._give_up(problem)
            return None
        header, digest, contents = data[:16], data[16:48], data[48:]
        if header != _MAGIC or hashlib.sha256(contents).digest() != digest:
            path.unlink(missing_ok=True)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # the oldest files go first when space runs out
        return contents

    def write(self, key: str, contents: bytes) -> None:
        """Store contents under a key."""
        base = self.folder()
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
            self._count_write(base)
        except OSError as problem:
            self._give_up(problem)

    def _count_write(self, base: Path) -> None:
        with self._lock:
            self._writes += 1
            due = self._writes % _SWEEP_EVERY == 0
        if due:
            sweep(base, LIMIT_BYTES)


def _user_folder() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "tetrax")


def _program_folder() -> str | None:
    """The folder asked for; an empty setting or 'off' turns the cache off."""
    if not config.enable_compilation_cache:
        return None
    chosen = config.cache_dir
    if chosen is None:
        return _user_folder()
    return None if str(chosen) in ("", "off") else str(chosen)


def _library_folder() -> str | None:
    return None if _program_folder() is None else os.path.join(_user_folder(), "library")


programs = Store(_program_folder)
"""Objects of users' programs, in the folder that the settings name."""
library = Store(_library_folder)
"""Objects of library routines: part of the installation, made once per user and machine."""


def sweep(base: Path, limit: int) -> None:
    """Delete the files that were used longest ago until the folder is below its limit."""
    entries = []
    for entry in os.scandir(base):
        if not entry.is_file(follow_symlinks=False):
            continue
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
