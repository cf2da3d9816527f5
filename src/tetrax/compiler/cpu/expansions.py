"""The table of expansions: operations written out in simpler ones."""

from __future__ import annotations

from collections.abc import Callable

from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_operations import convert
from tetrax.ir.kernel_types import ScalarType

EXPANSIONS: dict[str, Callable[..., Expr]] = {}


def expand_conversion(value: Expr, to: ScalarType) -> Expr:
    """A conversion written out where it involves a narrow float."""
    return convert(value, to)
