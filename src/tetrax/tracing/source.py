"""Finds the user's line behind an operation, cheaply: code object and instruction, no text."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType

from tetrax.ir.program import SourceLine

PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_HIDDEN_FILES = ("<frozen ", os.sep + "contextlib.py", os.sep + "functools.py")
_MAX_DEPTH = 60

# By file: a code object's hash is computed anew each time, and takes longer than a string's.
_is_ours: dict[str, bool] = {}


class _NameStack(threading.local):
    text = ""
    # While a recorded equation is run or transformed again, what it makes comes from its line.
    inherited: Callable[[], SourceLine | None] | None = None


_name_stack = _NameStack()


def _ours(name: str) -> bool:
    ours = name.startswith(PACKAGE_FOLDER) or any(part in name for part in _HIDDEN_FILES)
    _is_ours[name] = ours
    return ours


def current_source() -> Callable[[], SourceLine | None]:
    """A thunk that gives the innermost frame outside this package, or the inherited line."""
    if _name_stack.inherited is not None:
        return _name_stack.inherited
    frame = sys._getframe(1)
    for _ in range(_MAX_DEPTH):
        code = frame.f_code
        ours = _is_ours.get(code.co_filename)
        if ours is None:
            ours = _ours(code.co_filename)
        if not ours:
            return _SourceThunk(code, frame.f_lineno, _name_stack.text)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return _no_source


class _SourceThunk:
    __slots__ = ("code", "line", "names")

    def __init__(self, code: CodeType, line: int, names: str) -> None:
        self.code, self.line, self.names = code, line, names

    def __call__(self) -> SourceLine:
        return SourceLine(self.code.co_filename, self.line, self.code.co_name, self.names)


def _no_source() -> None:
    return None


def inherit_source(
    source: Callable[[], SourceLine | None] | None,
) -> Callable[[], SourceLine | None] | None:
    """From now on recorded operations come from `source`; returns what was set before."""
    before = _name_stack.inherited
    _name_stack.inherited = source
    return before


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Operations traced inside carry `name` in their name stack.

    >>> with named_scope("attention"):
    ...     pass
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope takes a string, got {type(name).__name__}: {name!r}")
    before = _name_stack.text
    _name_stack.text = f"{before}/{name}" if before else name
    try:
        yield
    finally:
        _name_stack.text = before
