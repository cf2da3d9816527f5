"""How operations that hold programs describe themselves to the compiler (`Primitive.structure`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tetrax.ir.layout import Layout
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


@dataclass(frozen=True)
class Exchange:
    """A meeting of the devices along named axes, where a native routine moves or reduces memory.

    The routine gets the operand, the result, `count`, and where there are `pairs` (source,
    destination) the source of each member.
    """

    routine: str
    names: tuple[Any, ...]
    groups: tuple[tuple[int, ...], ...] | None
    count: int
    pairs: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True)
class Position:
    """The position of the device along a named axis, int32."""

    name: Any


@dataclass(frozen=True)
class Manual:
    """The program of one device along the `manual` axes of a mesh, for all devices.

    Layouts say how operands are cut for it, and what its results are parts of.
    """

    program: ClosedProgram
    mesh: Any
    manual: frozenset[Any]
    in_layouts: tuple[Layout, ...]
    out_layouts: tuple[Layout, ...]


@dataclass(frozen=True)
class Constraint:
    """The operand, cut over a mesh as the layout says; None leaves an axis as it is."""

    mesh: Any
    layout: tuple[tuple[Any, ...] | None, ...]


Structure = Inline | Branch | While | Scan | HostCall | Exchange | Position | Manual | Constraint
