"""Modules that are loaded when they are first used: what most programs never need, or need late.

Only for what is slow to load: other packages, and the parts of this one that compile. A name in a
table that is made at import time is `deferred`, so that making the table loads nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


class LazyModule:
    """Stands for a module; the first attribute that is asked for loads it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        value = getattr(importlib.import_module(self._name), attribute)
        self.__dict__[attribute] = value
        return value

    def __repr__(self) -> str:
        return f"<module {self._name!r}, loaded at its first use>"


def lazy_module(name: str) -> Any:
    """The module `name`, loaded at its first use.

    >>> lazy_module("fractions").Fraction(1, 2)
    Fraction(1, 2)
    """
    return LazyModule(name)


def deferred(module: str, name: str) -> Callable[..., Any]:
    """The function `name` of `module`, which is loaded when the function is first called."""
    found: Any = None

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal found
        if found is None:
            found = getattr(importlib.import_module(module), name)
        return found(*args, **kwargs)

    call.__name__ = name
    return call
