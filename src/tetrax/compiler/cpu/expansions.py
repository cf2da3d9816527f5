"""The table of expansions: operations written out in simpler ones."""

from __future__ import annotations

from collections.abc import Callable

from tetrax.compiler.cpu import vector_math_exponential as exponential
from tetrax.compiler.cpu import vector_math_gamma as gamma
from tetrax.compiler.cpu import vector_math_special as special
from tetrax.compiler.cpu import vector_math_trigonometric as trigonometric
from tetrax.compiler.cpu.vector_math_base import through_f64, with_sign
from tetrax.compiler.cpu.vector_math_power import power
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_operations import (
    absolute,
    add,
    bit_and,
    bitcast,
    compare,
    convert,
    div,
    external,
    fma,
    logical_not,
    neg,
    rem,
    select,
    sub,
    unary,
    unlikely,
)
from tetrax.ir.kernel_types import F32, F64, signed_of


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


def expand_rem(x: Expr, y: Expr) -> Expr:
    """The exact remainder of floats: from a quotient that a float holds, else by a routine."""
    if not x.type.is_float:
        return rem(x, y)
    if x.type is F32:
        return convert(expand_rem(convert(x, F64), convert(y, F64)), F32)
    size, divisor = absolute(x), absolute(y)
    quotient = div(size, divisor)
    rest = fma(neg(unary("trunc", quotient)), divisor, size)  # exact
    # a quotient that was rounded up to a whole number leaves a negative rest
    rest = select(compare("lt", rest, 0.0), add(rest, divisor, strict=True), rest)
    value = with_sign(select(compare("lt", size, divisor), size, rest), x)
    far = logical_not(compare("lt", quotient, 2.0**53))
    return unlikely(far, external("tetrax_rem", F64, x, y), value)


EXPANSIONS: dict[str, Callable[..., Expr]] = {
    "nextafter": expand_nextafter,
    "rem": expand_rem,
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
    "tan": trigonometric.tan,
    "asin": through_f64(trigonometric.asin),
    "acos": through_f64(trigonometric.acos),
    "atan": trigonometric.atan,
    "atan2": trigonometric.atan2,
    "pow": power,
    "erf": special.erf,
    "erfc": through_f64(special.erfc),
    "erf_inv": special.erf_inv,
    "lgamma": gamma.lgamma,
    "digamma": through_f64(gamma.digamma),
}
"""How each operation without a machine instruction is written in operations that have one."""

SHORT_EXPANSIONS = frozenset({"nextafter", "rem", "rsqrt"})
"""Those of a few instructions in the usual case, which no call would shorten."""
