"""How operations that hold programs describe themselves to the compiler (`Primitive.structure`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tetrax.ir.program import ClosedProgram


@dataclass(frozen=True)
class Inline:
    """The operation is its program: operands to results."""

    program: ClosedProgram
    # Keeps the body from being merged with what stands around it (rematerialisation).
    barrier: bool = False


@dataclass(frozen=True)
class Branch:
    """The first operand (int32) chooses one of `branches` for the others."""

    branches: tuple[ClosedProgram, ...]


@dataclass(frozen=True)
class While:
    """Operands are condition constants, body constants, carry; results are the last carry."""

    condition: ClosedProgram
    body: ClosedProgram
    condition_consts: int
    body_consts: int


@dataclass(frozen=True)
class Scan:
    """Operands are constants, carry, stacked inputs; results are the carry and stacked outputs."""

    body: ClosedProgram
    consts: int
    carry: int
    length: int
    reverse: bool = False


@dataclass(frozen=True)
class HostCall:
    """Python code run by the host: NumPy arrays to NumPy arrays."""

    function: Callable[..., Any]


Structure = Inline | Branch | While | Scan | HostCall
