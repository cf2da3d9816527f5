"""Contexts and wrappers that change how functions are run, not what they compute."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tetrax.compiler.eager import clear_caches as clear_executables
from tetrax.compiler.planned import forget_plans
from tetrax.higher_order.jit import clear_jit_caches
from tetrax.tracing.source import named_scope
from tetrax.tracing.trace import EVAL_TRACE, current_trace
from tetrax.transforms.flat import function_name


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Operations inside run at once, also while a function is being traced.

    >>> with ensure_compile_time_eval():
    ...     pass
    """
    with current_trace(EVAL_TRACE):
        yield


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """`fun` with its operations under a name scope."""

    @functools.wraps(fun)
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(name or function_name(fun)):
            return fun(*args, **kwargs)

    return named


def clear_caches() -> None:
    """Forget every traced and compiled function of this process."""
    clear_jit_caches()
    clear_executables()
    forget_plans()
