"""Tracebacks without this package's frames: what a user sees is their own call chain.

`TETRAX_TRACEBACK_FILTERING=off` (or JAX's spelling) shows everything.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from tetrax.config import config

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_RUNNERS = ("<frozen runpy>", os.sep + "runpy.py")
Function = TypeVar("Function", bound=Callable[..., Any])


def _is_internal(traceback: TracebackType) -> bool:
    file = traceback.tb_frame.f_code.co_filename
    return file.startswith(_PACKAGE) or file.endswith(_RUNNERS)


def without_internals(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without frames of this package; unchanged if no other frame would be left."""
    frames = []
    node = traceback
    while node is not None:
        if not _is_internal(node):
            frames.append(node)
        node = node.tb_next
    kept: TracebackType | None = None
    for frame in reversed(frames):
        kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept if kept is not None else traceback


def filtering() -> bool:
    return str(config.traceback_filtering or "auto") != "off"


def hide_internals(error: BaseException) -> None:
    """Take the frames of this package out of a traceback, if the settings say so."""
    if filtering():
        error.__traceback__ = without_internals(error.__traceback__)


def boundary(function: Function) -> Function:
    """Errors that leave `function` carry no frames of this package below the caller's."""

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            hide_internals(error)
            raise

    return guarded  # type: ignore[return-value]


_original_hook = sys.excepthook


def _hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if filtering():
        traceback = without_internals(traceback)
        error.__traceback__ = traceback
    _original_hook(kind, error, traceback)


def filter_uncaught() -> None:
    """Print uncaught exceptions without this package's frames."""
    if sys.excepthook is not _hook:
        global _original_hook
        _original_hook = sys.excepthook
        sys.excepthook = _hook
