"""What equations read and write: variables and literals."""

from __future__ import annotations

from typing import Any

import numpy as np


class Var:
    """A variable; equality is identity, names are given at printing."""

    __slots__ = ("__weakref__", "aval")

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var({self.aval})"


class DropVar(Var):
    """A result that nobody reads."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


class Literal:
    """A scalar written into an equation."""

    __slots__ = ("_scalar", "aval", "val")

    def __init__(self, val: Any, aval: Any) -> None:
        self.val = val
        self.aval = aval
        self._scalar: np.ndarray | None = None

    @property
    def scalar(self) -> np.ndarray:
        """The value as a NumPy array of no dimensions."""
        if self._scalar is None:
            self._scalar = np.asarray(self.val, self.aval.dtype)
        return self._scalar

    def __repr__(self) -> str:
        return f"{self.val}"


Atom = Var | Literal
