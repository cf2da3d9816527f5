"""Caches of transformed programs, so that nested transformations stay polynomial."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from tetrax.config import config, trace_context
from tetrax.tracing.trace import state

Result = TypeVar("Result")


def cached_on_program(transform: Callable[..., Result]) -> Callable[..., Result]:
    """Remember `transform(closed, *key)` for as long as the program `closed` lives.

    Programs are immutable and compared by identity; the other arguments must be hashable.
    """
    table: weakref.WeakKeyDictionary[Any, dict[Any, Result]] = weakref.WeakKeyDictionary()

    @functools.wraps(transform)
    def cached(closed: Any, *key: Any) -> Result:
        # Leak checking wants every trace to be fresh.
        if config.check_tracer_leaks or any(_holds_tracer(c) for c in closed.consts):
            return transform(closed, *key)
        entry = table.setdefault(closed, {})
        full_key = (key, trace_context(), state.tracked_axes)
        if full_key not in entry:
            entry[full_key] = transform(closed, *key)
        return entry[full_key]

    return cached


def _holds_tracer(const: Any) -> bool:
    return hasattr(const, "_trace")
