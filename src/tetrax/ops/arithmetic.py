"""Arithmetic on elements: + - * / and what is built of them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from tetrax.ir import complex_math, kernel, scalar
from tetrax.ir.kernel_types import F32
from tetrax.ops.base import (
    BOOLS,
    FLOATS,
    NUMBERS,
    REALS,
    Elementwise,
    TestFacts,
    dtype_kind,
    real_dtype,
)
from tetrax.ops.bits_and_compare import eq
from tetrax.ops.convert import conj, real
from tetrax.ops.select import select
from tetrax.ops.structure import full
from tetrax.tracing.symbolic import Zero, is_undefined
from tetrax.tracing.value import get_aval


def _linear_both(ct: Any, x: Any, y: Any) -> list[Any]:
    return [ct if is_undefined(x) else None, ct if is_undefined(y) else None]


add_p = Elementwise(
    "add",
    2,
    accepts=NUMBERS,
    scalar=scalar.add,
    reference=np.add,
    derivative=(lambda t, out, x, y: t, lambda t, out, x, y: t),
    transpose=_linear_both,
    stablehlo="add",
)

# The sum of tangents and cotangents; also defined on what is not a number to the user.
add_any_p = Elementwise(
    "add_any",
    2,
    accepts=NUMBERS + BOOLS,
    scalar=scalar.add,
    reference=np.add,
    derivative=(lambda t, out, x, y: t, lambda t, out, x, y: t),
    transpose=_linear_both,
    stablehlo="add",
)


def _sub_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    if type(ct) is Zero:
        return _linear_both(ct, x, y)
    return [ct if is_undefined(x) else None, neg(ct) if is_undefined(y) else None]


sub_p = Elementwise(
    "sub",
    2,
    accepts=NUMBERS,
    scalar=scalar.sub,
    reference=np.subtract,
    derivative=(lambda t, out, x, y: t, lambda t, out, x, y: neg(t)),
    transpose=_sub_transpose,
    stablehlo="subtract",
)

neg_p = Elementwise(
    "neg",
    1,
    accepts=NUMBERS,
    scalar=scalar.neg,
    reference=np.negative,
    derivative=(lambda t, out, x: neg(t),),
    transpose=lambda ct, x: [ct if type(ct) is Zero else neg(ct)],
    stablehlo="negate",
)


def _mul_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(v.aval) if is_undefined(v) else None for v in (x, y)]
    return [mul(ct, y), None] if is_undefined(x) else [None, mul(x, ct)]


mul_p = Elementwise(
    "mul",
    2,
    accepts=NUMBERS,
    scalar=scalar.mul,
    reference=np.multiply,
    derivative=(lambda t, out, x, y: mul(t, y), lambda t, out, x, y: mul(x, t)),
    transpose=_mul_transpose,
    stablehlo="multiply",
)


def _divide(x: np.ndarray, y: np.ndarray) -> Any:
    if dtype_kind(x.dtype) in "fc":
        return np.divide(x, y)
    zero = y == 0
    safe = np.where(zero, 1, y).astype(y.dtype)
    # C truncates, NumPy floors: correct where signs differ and there is a remainder.
    quotient = np.floor_divide(x, safe)
    inexact = (quotient * safe != x) & ((x < 0) != (safe < 0))
    return np.where(zero, -1, quotient + inexact.astype(x.dtype)).astype(x.dtype)


def _div_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [Zero(x.aval) if type(ct) is Zero else div(ct, y), None]


div_p = Elementwise(
    "div",
    2,
    accepts=NUMBERS,
    scalar=complex_math.divide,
    reference=_divide,
    derivative=(
        lambda t, out, x, y: div(t, y),
        lambda t, out, x, y: div(mul(neg(t), out), y),
    ),
    transpose=_div_transpose,
    stablehlo="divide",
    cost=2,
    facts=TestFacts(domain=((-3.0, 3.0), (0.5, 3.0))),
)


def _remainder(x: np.ndarray, y: np.ndarray) -> Any:
    if dtype_kind(x.dtype) == "f":
        if x.dtype.kind == "f":
            return np.fmod(x, y)
        return np.fmod(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
    zero = y == 0
    safe = np.where(zero, 1, y).astype(y.dtype)
    return np.where(zero, x, x - safe * _divide(x, safe)).astype(x.dtype)


rem_p = Elementwise(
    "rem",
    2,
    accepts=REALS,
    scalar=kernel.rem,
    reference=_remainder,
    derivative=(lambda t, out, x, y: t, lambda t, out, x, y: neg(mul(t, _truncated(div(x, y))))),
    stablehlo="remainder",
    cost=8,
    facts=TestFacts(domain=((-3.0, 3.0), (0.7, 3.0))),
)


floor_p = Elementwise(
    "floor",
    1,
    accepts=FLOATS,
    scalar=lambda x: kernel.unary("floor", x),
    reference=np.floor,
    stablehlo="floor",
    facts=TestFacts(ulp=0),
)


def floor(x: Any) -> Any:
    """Elementwise largest integer not above x."""
    return floor_p(x)


def _truncated(x: Any) -> Any:
    return mul(sign(x), floor(abs(x)))


def _sign_scalar(x: scalar.Scalar) -> scalar.Scalar:
    if isinstance(x, scalar.Complex):
        zero = scalar.constant(0, x)
        modulus = complex_math.hypot(x.re, x.im)
        ratio = scalar.Complex(kernel.div(x.re, modulus), kernel.div(x.im, modulus))
        return scalar.select(scalar.eq(x, zero), x, ratio)
    one, zero = kernel.const(1, x.type), kernel.const(0, x.type)
    if x.type.kind == "uint":
        return kernel.select(kernel.eq(x, zero), zero, one)
    negative = kernel.select(kernel.lt(x, zero), kernel.neg(one), x)
    return kernel.select(kernel.gt(x, zero), one, negative)


def _sign_reference(x: np.ndarray) -> Any:
    if x.dtype.kind == "f":
        return np.where(x == 0, x, np.sign(x))
    return np.sign(x)


sign_p = Elementwise(
    "sign",
    1,
    accepts=NUMBERS,
    scalar=_sign_scalar,
    reference=_sign_reference,
    stablehlo=lambda context, operands, outs: context.sign(operands, outs),
    cost=2,
)


def _abs_jvp(t: Any, out: Any, x: Any) -> Any:
    if dtype_kind(get_aval(x).dtype) != "c":
        return mul(t, sign(x))
    # d|x| = Re(t conj(x)) / |x|, taken as 0 at 0.
    aval = get_aval(out)
    safe = select(eq(out, 0.0), full(aval.shape, 1, aval.dtype, aval.weak_type), out)
    return div(real(mul(t, conj(x))), safe)


abs_p = Elementwise(
    "abs",
    1,
    accepts=NUMBERS,
    scalar=complex_math.absolute,
    reference=np.abs,
    derivative=(_abs_jvp,),
    result=real_dtype,
    stablehlo=lambda context, operands, outs: context.absolute(operands, outs),
)


def _share(x: Any, out: Any, y: Any) -> Any:
    """1 where x is the chosen one, 1/2 where both are, 0 elsewhere."""
    aval = get_aval(x)
    one, half, zero = (full(aval.shape, value, aval.dtype, aval.weak_type) for value in (1, 0.5, 0))
    return select(eq(x, out), select(eq(y, out), half, one), zero)


def _extremum(name: str, scalar_rule: Any, reference: Any, mnemonic: str) -> Elementwise:
    return Elementwise(
        name,
        2,
        accepts=REALS + BOOLS,
        scalar=scalar_rule,
        reference=reference,
        derivative=(
            lambda t, out, x, y: mul(t, _share(x, out, y)),
            lambda t, out, x, y: mul(t, _share(y, out, x)),
        ),
        stablehlo=mnemonic,
    )


max_p = _extremum("max", kernel.maximum, np.maximum, "maximum")
min_p = _extremum("min", kernel.minimum, np.minimum, "minimum")


def _next_after(x: Any, y: Any) -> Any:
    """The neighbour of x towards y; narrow floats step through their own bits."""
    if not x.type.is_storage:
        return kernel.binary("nextafter", x, y)
    bits = kernel.signed_bits_of(x)
    one, zero = kernel.const(1, bits.type), kernel.const(0, bits.type)
    wide_x, wide_y = kernel.convert(x, F32), kernel.convert(y, F32)
    # Away from zero the bits grow with the magnitude, whatever the sign.
    grows = kernel.eq(kernel.lt(wide_x, wide_y), kernel.ge(bits, zero))
    stepped = kernel.select(grows, kernel.add(bits, one), kernel.sub(bits, one))
    sign = kernel.bit_and(kernel.signed_bits_of(y), kernel.const(bits.type.minimum, bits.type))
    stepped = kernel.select(kernel.eq(wide_x, 0.0), kernel.bit_or(sign, one), stepped)
    moved = kernel.bitcast(stepped, x.type)
    moved = kernel.select(kernel.eq(wide_x, wide_y), y, moved)
    return kernel.select(
        kernel.bit_or(kernel.ne(wide_x, wide_x), kernel.ne(wide_y, wide_y)),
        kernel.convert(kernel.add(wide_x, wide_y), x.type),
        moved,
    )


nextafter_p = Elementwise(
    "nextafter",
    2,
    accepts=FLOATS,
    scalar=_next_after,
    reference=np.nextafter,
    stablehlo=lambda context, operands, outs: context.chlo("next_after", operands, outs),
    widen=False,
    cost=4,
    facts=TestFacts(
        ulp=0,
        excluded=(("jvp", "a step function of the bits: JAX, too, gives derivative zero"),),
    ),
)

square_p = Elementwise(
    "square",
    1,
    accepts=NUMBERS,
    scalar=lambda x: scalar.mul(x, x),
    reference=np.square,
    derivative=(lambda t, out, x: mul(t, mul(2, x)),),
    stablehlo=lambda context, operands, outs: context.op("multiply", [*operands, *operands], outs),
)


def _repeated_product(x: Any, y: int, product: Any, one: Any, inverse: Any) -> Any:
    """x to the integer power y by repeated squaring."""
    if y == 0:
        return one
    exponent, result = (-y if y < 0 else y), None
    while exponent:
        if exponent & 1:
            result = x if result is None else product(result, x)
        exponent >>= 1
        if exponent:
            x = product(x, x)
    return inverse(result) if y < 0 else result


def _integer_pow_scalar(x: scalar.Scalar, *, y: int) -> scalar.Scalar:
    one = scalar.constant(1, x)
    return _repeated_product(x, y, scalar.mul, one, lambda r: complex_math.divide(one, r))


def _integer_pow_reference(x: np.ndarray, *, y: int) -> np.ndarray:
    one = np.ones_like(x)
    return _repeated_product(x, y, operator.mul, one, lambda r: np.divide(one, r))


def _integer_pow_jvp(t: Any, out: Any, x: Any, *, y: int) -> Any:
    if y == 0:
        return Zero(get_aval(out).to_tangent_aval())
    return mul(t, mul(typed(y, x), integer_pow(x, y - 1)))


def typed(value: float, like: Any) -> Any:
    """A scalar of the dtype of `like`."""
    aval = get_aval(like)
    return full((), value, aval.dtype, aval.weak_type)


integer_pow_p = Elementwise(
    "integer_pow",
    1,
    accepts=NUMBERS,
    scalar=_integer_pow_scalar,
    reference=_integer_pow_reference,
    derivative=(_integer_pow_jvp,),
    stablehlo=lambda context, operands, outs, y: context.integer_pow(operands, outs, y),
    cost=2,
    facts=TestFacts(domain=(0.5, 2.0)),
)


def add(x: Any, y: Any) -> Any:
    """Elementwise sum of arrays of one dtype and shape (or scalars).

    >>> add(1.0, 2.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return add_p(x, y)


def sub(x: Any, y: Any) -> Any:
    """Elementwise difference."""
    return sub_p(x, y)


def mul(x: Any, y: Any) -> Any:
    """Elementwise product."""
    return mul_p(x, y)


def div(x: Any, y: Any) -> Any:
    """Elementwise quotient; integers truncate towards zero, x / 0 is -1."""
    return div_p(x, y)


def rem(x: Any, y: Any) -> Any:
    """Elementwise remainder with the sign of x; for integers x rem 0 is x."""
    return rem_p(x, y)


def neg(x: Any) -> Any:
    """Elementwise negation."""
    return neg_p(x)


def abs(x: Any) -> Any:
    """Elementwise absolute value; the modulus for complex numbers."""
    return abs_p(x)


def sign(x: Any) -> Any:
    """Elementwise sign: -1, 0 or 1; x / |x| for complex numbers."""
    return sign_p(x)


def max(x: Any, y: Any) -> Any:
    """Elementwise larger operand; NaN if either is NaN."""
    return max_p(x, y)


def min(x: Any, y: Any) -> Any:
    """Elementwise smaller operand; NaN if either is NaN."""
    return min_p(x, y)


def nextafter(x1: Any, x2: Any) -> Any:
    """The float next to x1 in the direction of x2."""
    return nextafter_p(x1, x2)


def square(x: Any) -> Any:
    """Elementwise x²."""
    return square_p(x)


def integer_pow(x: Any, y: int) -> Any:
    """Elementwise x^y for a Python int y. Raises TypeError for negative y on integers."""
    if y == 1:
        return x
    if y < 0 and dtype_kind(get_aval(x).dtype) in "iu":
        raise TypeError(f"Integers cannot be raised to negative powers, got integer_pow({x}, {y})")
    return integer_pow_p(x, y=y)


def reciprocal(x: Any) -> Any:
    """Elementwise 1 / x."""
    return integer_pow(x, -1)
