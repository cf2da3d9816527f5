"""Error functions and their inverse."""

from __future__ import annotations

from collections.abc import Sequence

from tetrax.compiler.cpu import vector_math_tables as tables
from tetrax.compiler.cpu.vector_math_base import (
    BIAS,
    INFINITY,
    at_most,
    copy_sign,
    horner,
    is_nan,
    nearest_integer,
    number,
    polynomial,
    power_of_two,
    scale,
    with_sign,
)
from tetrax.compiler.cpu.vector_math_exponential import exp_reduced, log
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_operations import (
    absolute,
    add,
    compare,
    div,
    fma,
    minimum,
    mul,
    neg,
    select,
    sub,
    unary,
    unlikely,
)
from tetrax.ir.kernel_types import F32, F64


def erf(x: Expr) -> Expr:
    """Error function: f32 as 1 - 2^(log2 erfc), whose parts do not cancel near zero; f64 by an odd
    polynomial near zero, 1 - erfc beyond.
    """
    if x.type is F32:
        return _erf_32(x)
    size, z = absolute(x), mul(x, x)
    small = fma(size, polynomial(z, tables.ERF64), size)
    large = sub(1.0, _erfc_of_positive(size))
    value = copy_sign(select(compare("lt", size, 1.0), small, large), x)
    return select(is_nan(x), x, value)


def _erf_32(x: Expr) -> Expr:
    size = at_most(absolute(x), 4.0)
    y = _without_constant(size, tables.ERF32)
    k, bits = nearest_integer(y, 1.0, BIAS[F32])
    fraction = sub(y, k, strict=True)
    p = _without_constant(fraction, tables.EXP2M1_32)
    power = power_of_two(bits, F32)
    return with_sign(fma(neg(power), p, sub(1.0, power, strict=True)), x)


def _without_constant(x: Expr, coefficients: Sequence[float]) -> Expr:
    """x times a polynomial; only the last rounding is of the whole result."""
    rest = mul(mul(x, x), polynomial(x, coefficients[1:]), strict=True)
    return fma(x, number(coefficients[0], x), rest)


def _erfc_of_positive(size: Expr) -> Expr:
    """erfc for 0.45 <= size: e^(-x^2) times a polynomial, x^2 kept exactly."""
    bounded = select(compare("lt", size, 27.5), size, number(27.5, size))  # erfc is 0 there
    square = mul(bounded, bounded, strict=True)
    rest = fma(bounded, bounded, neg(square))
    p, bits = exp_reduced(neg(square), neg(rest), 2 * BIAS[F64])
    t = div(sub(bounded, 3.75), add(bounded, 3.75))
    factor = div(horner(t, tables.ERFCX64), fma(bounded, number(2.0, size), number(1.0, size)))
    return scale(fma(p, factor, factor), bits)


def erfc(x: Expr) -> Expr:
    """Complementary error function (f64), precise in its tail."""
    size, z = absolute(x), mul(x, x)
    small = fma(x, polynomial(z, tables.ERF64), x)
    tail = _erfc_of_positive(size)
    large = select(compare("lt", x, 0.0), sub(2.0, tail), tail)
    value = select(compare("lt", size, 0.46875), sub(1.0, small), large)
    return select(is_nan(x), x, value)


def erf_inv(x: Expr) -> Expr:
    """Inverse error function: polynomials in w = -log(1 - x^2), or in its root where w is large."""
    w = neg(log(mul(sub(1.0, x), add(x, 1.0))))
    root = unary("sqrt", w)
    if x.type is F32:
        near = horner(sub(w, 2.5), tables.ERFINV32A)
        far = horner(sub(minimum(root, 4.1), 3.0), tables.ERFINV32B)
        ratio = unlikely(compare("ge", w, 5.0), far, near)
    else:
        near = horner(sub(w, 3.125), tables.ERFINV64A)
        middle = horner(sub(root, 3.25), tables.ERFINV64B)
        far = horner(sub(root, 5.0), tables.ERFINV64C)
        outer = select(compare("lt", w, 16.0), middle, far)
        ratio = unlikely(compare("ge", w, 6.25), outer, near)
    value = mul(x, ratio)
    return select(compare("eq", absolute(x), 1.0), mul(x, INFINITY), value)
