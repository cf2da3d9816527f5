"""How operations see their operands in kernel rules: functions from index to scalar.

A `View` says shape, dtype and, for an index tuple of i64 expressions, the scalar there. Kernel
rules map views to views; whether a view is a stored array or a computation in progress is the
fuser's affair. Complex scalars are pairs of real ones (`ir/scalar.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tetrax import dtypes
from tetrax.ir.kernel_expr import Buffer, Expr
from tetrax.ir.kernel_types import ScalarType, scalar_type
from tetrax.ir.scalar import Complex, Scalar

Index = tuple[Expr, ...]


@dataclass(frozen=True)
class View:
    """An operand as a function: `at(index)` is the scalar at `index`, one expression per axis."""

    shape: tuple[int, ...]
    dtype: Any
    # Gives a Scalar. Typed loosely: a rule knows from its dtypes whether it gets pairs.
    at: Callable[[Index], Any]

    @property
    def scalar(self) -> ScalarType:
        """The scalar type of an element (of a part, for complex arrays)."""
        return element_type(self.dtype)


@dataclass(frozen=True)
class Stored:
    """A row-major array in a buffer; complex elements are (real, imaginary) neighbours."""

    buffer: Buffer
    shape: tuple[int, ...]
    dtype: Any

    @property
    def is_complex(self) -> bool:
        return is_complex(self.dtype)


def is_complex(dtype: Any) -> bool:
    return getattr(dtype, "kind", "") == "c"


def element_type(dtype: Any) -> ScalarType:
    """The scalar type that memory holds for `dtype`; for complex dtypes that of one part."""
    if is_complex(dtype):
        return scalar_type(dtypes.numpy_dtype("float32" if dtype.itemsize == 8 else "float64"))
    if isinstance(dtype, dtypes.ExtendedDType):
        return scalar_type(dtype.storage)
    return scalar_type(dtype)


def parts(dtype: Any) -> int:
    """How many scalars of `element_type` one element takes."""
    return 2 if is_complex(dtype) else 1


__all__ = ["Complex", "Index", "Scalar", "Stored", "View", "element_type", "is_complex", "parts"]
