"""The table of expansions: operations written out in simpler ones."""

from __future__ import annotations

from collections.abc import Callable

from tetrax.compiler.cpu import vector_math_exponential as exponential
from tetrax.compiler.cpu import vector_math_special as special
from tetrax.compiler.cpu import vector_math_trigonometric as trigonometric
from tetrax.compiler.cpu.vector_math_base import through_f64
from tetrax.compiler.cpu.vector_math_power import power
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_operations import (
    add,
    bit_and,
    bitcast,
    compare,
    select,
    sub,
)
from tetrax.ir.kernel_types import signed_of


def expand_nextafter(x: Expr, y: Expr) -> Expr:
    """The neighbour of x in the direction of y: one step of the integer that holds the bits."""
    integer = signed_of(x.type.bits)
    bits = bitcast(x, integer)
    zero, one = const(0.0, x.type), const(1, integer)
    # away from zero the magnitude grows: that is when x and the direction have the same sign
    grows = compare("eq", compare("gt", y, x), compare("gt", x, zero))
    stepped = bitcast(select(grows, add(bits, one), sub(bits, one)), x.type)
    sign = bit_and(bitcast(y, integer), const(integer.minimum, integer))
    smallest = bitcast(add(sign, one), x.type)
    moved = select(compare("eq", x, zero), smallest, stepped)
    result = select(compare("eq", x, y), y, moved)
    x_nan, y_nan = compare("ne", x, x), compare("ne", y, y)
    return select(x_nan, x, select(y_nan, y, result))


EXPANSIONS: dict[str, Callable[..., Expr]] = {
    "nextafter": expand_nextafter,
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "log": exponential.log,
    "log1p": exponential.log1p,
    "logistic": exponential.logistic,
    "tanh": exponential.tanh,
    "sinh": through_f64(exponential.sinh),
    "cosh": through_f64(exponential.cosh),
    "asinh": through_f64(exponential.asinh),
    "acosh": through_f64(exponential.acosh),
    "atanh": through_f64(exponential.atanh),
    "cbrt": through_f64(exponential.cbrt),
    "rsqrt": exponential.rsqrt,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": through_f64(trigonometric.tan),
    "asin": through_f64(trigonometric.asin),
    "acos": through_f64(trigonometric.acos),
    "atan": trigonometric.atan,
    "atan2": trigonometric.atan2,
    "pow": power,
    "erf": special.erf,
    "erfc": through_f64(special.erfc),
    "erf_inv": special.erf_inv,
    "lgamma": special.lgamma,
    "digamma": through_f64(special.digamma),
}
"""How each operation without a machine instruction is written in operations that have one."""

SHORT_EXPANSIONS = frozenset({"nextafter", "rsqrt"})
"""Those of a few instructions, which no call would shorten."""
