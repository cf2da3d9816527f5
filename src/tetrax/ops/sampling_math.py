"""float32 logarithms that round as XLA's do on CPUs, so that samples equal JAX's to the last bit.

Both are the Cephes library's approximations (S. Moshier; https://netlib.org/cephes), evaluated with
fused multiply-adds in a fixed order: in NumPy for eager calls, as scalar expressions for kernels.
Elsewhere `log` and `log1p` are more precise and faster; here being the same comes first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax.ir import kernel as k
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_types import F32, U32
from tetrax.ops.arithmetic import add, div
from tetrax.ops.base import FLOATS, Elementwise, TestFacts

_ROOT_HALF = math.sqrt(0.5)
_LOG_A = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1)
_LOG_B = (-1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1)
_LOG_C = (2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)
_LN2_LOW, _LN2_HIGH = -2.12194440e-4, 0.693359375
_SMALLEST = float(np.finfo(np.float32).tiny)

_LOG1P_LIMIT = math.sqrt(2.0) - 1.0
_LOG1P_NUMERATOR = (
    4.5270000862445199635215e-5,
    4.9854102823193375972212e-1,
    6.5787325942061044846969,
    2.9911919328553073277375e1,
    6.0949667980987787057556e1,
    5.7112963590585538103336e1,
    2.0039553499201281259648e1,
)
_LOG1P_DENOMINATOR = (
    1.0,
    1.5062909083469192043167e1,
    8.3047565967967209469434e1,
    2.2176239823732856465394e2,
    3.0909872225312059774938e2,
    2.1642788614495947685003e2,
    6.0118660497603843919306e1,
)


# -- NumPy ---------------------------------------------------------------------------------------


def fma_single(x: Any, y: Any, z: Any) -> Any:
    """x * y + z of float32 with one rounding: the product is exact in float64."""
    wide = np.multiply(x, y, dtype=np.float64) + np.asarray(z, np.float64)
    return wide.astype(np.float32)


def _horner(x: np.ndarray, coefficients: Sequence[float]) -> np.ndarray:
    total: Any = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = fma_single(total, x, np.float32(coefficient))
    return total


def log_single(x: np.ndarray) -> np.ndarray:
    """The natural logarithm of float32; denormal numbers count as the smallest normal one."""
    mantissa, exponent = np.frexp(np.maximum(x, np.float32(_SMALLEST)))
    low = mantissa < np.float32(_ROOT_HALF)
    e = exponent.astype(np.float32) - low
    m = np.where(low, mantissa + mantissa, mantissa) - np.float32(1)
    square = m * m
    cube = square * m
    a, b, c = (_horner(m, part) for part in (_LOG_A, _LOG_B, _LOG_C))
    series = fma_single(fma_single(a, cube, b), cube, c)
    tail = fma_single(series, cube, e * np.float32(_LN2_LOW))
    value = fma_single(e, np.float32(_LN2_HIGH), (m - square * np.float32(0.5)) + tail)
    value = np.where(x == np.inf, x, np.where(x == 0, np.float32(-np.inf), value))
    return np.where((x < 0) | np.isnan(x), np.float32(np.nan), value)


def log1p_single(x: np.ndarray) -> np.ndarray:
    """log(1 + x) of float32: a rational function below sqrt(2) - 1, `log_single` beyond."""
    square = x * x
    ratio = _horner(x, _LOG1P_NUMERATOR) / _horner(x, _LOG1P_DENOMINATOR)
    small = fma_single(np.float32(-0.5), square, (x * square) * ratio) + x
    near = np.abs(x) < np.float32(_LOG1P_LIMIT)
    return np.where(near, small, log_single(np.float32(1) + x))


# -- kernels -------------------------------------------------------------------------------------


def _number(value: float) -> Expr:
    return const(value, F32)


def _horner_scalar(x: Expr, coefficients: Sequence[float]) -> Expr:
    total = _number(coefficients[0])
    for coefficient in coefficients[1:]:
        total = k.fma(total, x, _number(coefficient))
    return total


def log_scalar(x: Expr) -> Expr:
    """`log_single` of a scalar expression."""
    bits = k.bitcast(k.maximum(x, _number(_SMALLEST)), U32)
    exponent = k.sub(k.convert(k.shr_logical(bits, const(23, U32)), F32), _number(126.0))
    fraction = k.bit_and(bits, const(0x7FFFFF, U32))
    mantissa = k.bitcast(k.bit_or(fraction, const(0x3F000000, U32)), F32)
    low = k.lt(mantissa, _number(_ROOT_HALF))
    e = k.select(low, k.sub(exponent, _number(1.0)), exponent)
    m = k.sub(k.select(low, k.add(mantissa, mantissa), mantissa), _number(1.0))
    square = k.mul(m, m, strict=True)
    cube = k.mul(square, m, strict=True)
    a, b, c = (_horner_scalar(m, part) for part in (_LOG_A, _LOG_B, _LOG_C))
    series = k.fma(k.fma(a, cube, b), cube, c)
    tail = k.fma(series, cube, k.mul(e, _number(_LN2_LOW), strict=True))
    near = k.add(k.fma(_number(-0.5), square, m), tail, strict=True)
    value = k.fma(e, _number(_LN2_HIGH), near)
    value = k.select(k.eq(x, _number(0.0)), _number(-math.inf), value)
    value = k.select(k.eq(x, _number(math.inf)), x, value)
    return k.select(k.ge(x, _number(0.0)), value, _number(math.nan))


def log1p_scalar(x: Expr) -> Expr:
    """`log1p_single` of a scalar expression."""
    square = k.mul(x, x, strict=True)
    ratio = k.div(_horner_scalar(x, _LOG1P_NUMERATOR), _horner_scalar(x, _LOG1P_DENOMINATOR))
    cubic = k.mul(k.mul(x, square, strict=True), ratio, strict=True)
    small = k.add(k.fma(_number(-0.5), square, cubic), x, strict=True)
    near = k.lt(k.absolute(x), _number(_LOG1P_LIMIT))
    return k.select(near, small, log_scalar(k.add(_number(1.0), x, strict=True)))


# -- operations ----------------------------------------------------------------------------------


def _row(
    name: str,
    single: Callable[[np.ndarray], np.ndarray],
    scalar: Callable[[Expr], Expr],
    double: Callable[[np.ndarray], np.ndarray],
    derivative: Callable[[Any, Any, Any], Any],
    domain: tuple[float, float],
) -> Elementwise:
    """A logarithm that has only its float64 in common with the ordinary one."""

    def reference(x: np.ndarray) -> np.ndarray:
        if x.dtype == np.float64:
            return double(x)
        return single(x.astype(np.float32)).astype(x.dtype)

    return Elementwise(
        f"sampling_{name}",
        1,
        accepts=FLOATS,
        scalar=lambda x: scalar(x) if x.type is F32 else k.unary(name, x),
        reference=reference,
        derivative=(derivative,),
        stablehlo="log" if name == "log" else "log_plus_one",
        cost=8,
        facts=TestFacts(domain=domain),
    )


sampling_log_p = _row(
    "log", log_single, log_scalar, np.log, lambda t, out, x: div(t, x), (0.1, 4.0)
)
sampling_log1p_p = _row(
    "log1p",
    log1p_single,
    log1p_scalar,
    np.log1p,
    lambda t, out, x: div(t, add(x, 1.0)),
    (-0.8, 3.0),
)


def sampling_log(x: Any) -> Any:
    """Elementwise natural logarithm, rounded as JAX does on CPUs."""
    return sampling_log_p(x)


def sampling_log1p(x: Any) -> Any:
    """Elementwise log(1 + x), rounded as JAX does on CPUs."""
    return sampling_log1p_p(x)
