"""Stand-ins used by derivative rules: a zero without elements, an operand without a value."""

from __future__ import annotations

from typing import Any

from tetrax.ir.types import ShapedArray
from tetrax.tracing.value import get_aval


class Zero:
    """A tangent or cotangent that is zero everywhere; `aval` is its type."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @classmethod
    def from_primal_value(cls, x: Any) -> Zero:
        return cls(get_aval(x).to_tangent_aval())

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    def __repr__(self) -> str:
        return f"Zero({self.aval.str_short()})"


class UndefinedPrimal:
    """In a transpose rule: the operand that the operation is linear in."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval.str_short()})"


def is_undefined(x: Any) -> bool:
    return type(x) is UndefinedPrimal


def aval_of(x: Any) -> ShapedArray:
    """The type of an operand of a derivative rule, stand-in or not."""
    return x.aval if type(x) is UndefinedPrimal or type(x) is Zero else get_aval(x)


# JAX's rules use None for "not mapped"; libraries compare with `batching.not_mapped`.
not_mapped = None
