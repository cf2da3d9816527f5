"""Comparisons, bitwise logic and shifts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax.ir import kernel, scalar
from tetrax.ops.base import (
    ANY,
    BOOLS,
    INTS,
    KEYS,
    REALS,
    UINTS,
    Elementwise,
    TestFacts,
    always_bool,
    dtype_kind,
)

_BITS = BOOLS + INTS + UINTS
_small = TestFacts(domain=(-3.0, 3.0), ulp=0)


def _comparison(name: str, symbol: Callable, reference: Callable, accepts: str) -> Elementwise:
    direction = name.upper()
    return Elementwise(
        name,
        2,
        accepts=accepts,
        scalar=symbol,
        reference=reference,
        result=always_bool,
        stablehlo=lambda context, operands, outs: context.compare(direction, operands, outs),
        facts=_small,
    )


eq_p = _comparison("eq", scalar.eq, np.equal, ANY + KEYS)
ne_p = _comparison("ne", scalar.ne, np.not_equal, ANY + KEYS)
lt_p = _comparison("lt", kernel.lt, np.less, BOOLS + REALS)
le_p = _comparison("le", kernel.le, np.less_equal, BOOLS + REALS)
gt_p = _comparison("gt", kernel.gt, np.greater, BOOLS + REALS)
ge_p = _comparison("ge", kernel.ge, np.greater_equal, BOOLS + REALS)


def _total_order_key(x: np.ndarray) -> np.ndarray:
    """Integers that order floats totally: -NaN < -inf < ... < -0 < +0 < ... < NaN."""
    if dtype_kind(x.dtype) != "f":
        return x
    bits = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    return np.where(bits < 0, ~bits ^ np.iinfo(bits.dtype).min, bits)


def _total_order_scalar(x: Any) -> Any:
    if not (x.type.is_float or x.type.is_storage):
        return x
    bits = kernel.signed_bits_of(x)
    lowest = bits.type.minimum
    flipped = kernel.bit_xor(kernel.logical_not(bits), kernel.const(lowest, bits.type))
    return kernel.select(kernel.lt(bits, 0), flipped, bits)


def _total_comparison(name: str, symbol: Callable, reference: Callable) -> Elementwise:
    direction = name[:2].upper()
    return Elementwise(
        name,
        2,
        accepts=BOOLS + REALS,
        scalar=lambda x, y: symbol(_total_order_scalar(x), _total_order_scalar(y)),
        reference=lambda x, y: reference(_total_order_key(x), _total_order_key(y)),
        result=always_bool,
        stablehlo=lambda context, operands, outs: context.compare(
            direction, operands, outs, total_order=True
        ),
        facts=_small,
    )


eq_to_p = _total_comparison("eq_to", kernel.eq, np.equal)
le_to_p = _total_comparison("le_to", kernel.le, np.less_equal)
lt_to_p = _total_comparison("lt_to", kernel.lt, np.less)

and_p = Elementwise(
    "and",
    2,
    accepts=_BITS,
    scalar=kernel.bit_and,
    reference=np.bitwise_and,
    stablehlo="and",
    facts=_small,
)
or_p = Elementwise(
    "or",
    2,
    accepts=_BITS,
    scalar=kernel.bit_or,
    reference=np.bitwise_or,
    stablehlo="or",
    facts=_small,
)
xor_p = Elementwise(
    "xor",
    2,
    accepts=_BITS,
    scalar=kernel.bit_xor,
    reference=np.bitwise_xor,
    stablehlo="xor",
    facts=_small,
)
not_p = Elementwise(
    "not",
    1,
    accepts=_BITS,
    scalar=kernel.logical_not,
    reference=np.bitwise_not,
    stablehlo="not",
    facts=_small,
)


def _width(x: np.ndarray) -> int:
    names = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}
    return names.get(x.dtype.name, x.dtype.itemsize * 8)


def _in_range(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    count = y.astype(np.int64)
    return (count >= 0) & (count < _width(x))


def _shift_left(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    good = _in_range(x, y)
    return np.where(good, np.left_shift(x, np.where(good, y, 0)), 0).astype(x.dtype)


def _unsigned(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "i":
        return x.view(np.dtype(f"u{x.dtype.itemsize}"))
    mask = (1 << _width(x)) - 1
    return (x.astype(np.int64) & mask).astype(np.uint64) if x.dtype.kind == "V" else x


def _shift_right_logical(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    good = _in_range(x, y)
    unsigned = _unsigned(x)
    count = np.where(good, y, 0).astype(unsigned.dtype)
    shifted = np.where(good, np.right_shift(unsigned, count), 0)
    if x.dtype.kind == "i":
        return shifted.astype(unsigned.dtype).view(x.dtype)
    return shifted.astype(np.int64).astype(x.dtype)


def _shift_right_arithmetic(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    good = _in_range(x, y)
    signed = x
    if x.dtype.kind == "u":
        signed = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    count = np.where(good, y.astype(np.int64), _width(x) - 1).astype(signed.dtype)
    return np.right_shift(signed, count).astype(signed.dtype).view(x.dtype)


shift_left_p = Elementwise(
    "shift_left",
    2,
    accepts=INTS + UINTS,
    scalar=kernel.shl,
    reference=_shift_left,
    stablehlo="shift_left",
    facts=_small,
)
shift_right_logical_p = Elementwise(
    "shift_right_logical",
    2,
    accepts=INTS + UINTS,
    scalar=kernel.shr_logical,
    reference=_shift_right_logical,
    stablehlo="shift_right_logical",
    facts=_small,
)
shift_right_arithmetic_p = Elementwise(
    "shift_right_arithmetic",
    2,
    accepts=INTS + UINTS,
    scalar=kernel.shr_arithmetic,
    reference=_shift_right_arithmetic,
    stablehlo="shift_right_arithmetic",
    facts=_small,
)


def _popcount(x: np.ndarray) -> np.ndarray:
    return np.bitwise_count(_unsigned(x)).astype(x.dtype)


def _clz(x: np.ndarray) -> np.ndarray:
    width = _width(x)
    value = _unsigned(x).astype(np.uint64)
    result = np.full(x.shape, width, np.int64)
    for bit in range(width):
        result = np.where((value >> np.uint64(bit)) & np.uint64(1), width - 1 - bit, result)
    return result.astype(x.dtype)


_narrow_integers_differ = TestFacts(
    ulp=0, excluded=(("jax", "JAX counts the bits of the byte that holds a 4-bit integer"),)
)

population_count_p = Elementwise(
    "population_count",
    1,
    accepts=INTS + UINTS,
    scalar=kernel.popcount,
    reference=_popcount,
    stablehlo=lambda context, operands, outs: context.population_count(operands, outs),
    facts=_narrow_integers_differ,
)
clz_p = Elementwise(
    "clz",
    1,
    accepts=INTS + UINTS,
    scalar=kernel.clz,
    reference=_clz,
    stablehlo="count_leading_zeros",
    facts=_small,
)


def eq(x: Any, y: Any) -> Any:
    """Elementwise x == y, as bool."""
    return eq_p(x, y)


def ne(x: Any, y: Any) -> Any:
    """Elementwise x != y, as bool."""
    return ne_p(x, y)


def lt(x: Any, y: Any) -> Any:
    """Elementwise x < y, as bool."""
    return lt_p(x, y)


def le(x: Any, y: Any) -> Any:
    """Elementwise x <= y, as bool."""
    return le_p(x, y)


def gt(x: Any, y: Any) -> Any:
    """Elementwise x > y, as bool."""
    return gt_p(x, y)


def ge(x: Any, y: Any) -> Any:
    """Elementwise x >= y, as bool."""
    return ge_p(x, y)


def bitwise_and(x: Any, y: Any) -> Any:
    """Elementwise and of bools or integers."""
    return and_p(x, y)


def bitwise_or(x: Any, y: Any) -> Any:
    """Elementwise or of bools or integers."""
    return or_p(x, y)


def bitwise_xor(x: Any, y: Any) -> Any:
    """Elementwise exclusive or of bools or integers."""
    return xor_p(x, y)


def bitwise_not(x: Any) -> Any:
    """Elementwise complement of bools or integers."""
    return not_p(x)


def shift_left(x: Any, y: Any) -> Any:
    """Elementwise x << y; 0 where y is negative or at least the width."""
    return shift_left_p(x, y)


def shift_right_logical(x: Any, y: Any) -> Any:
    """Elementwise x >> y filling with zeros."""
    return shift_right_logical_p(x, y)


def shift_right_arithmetic(x: Any, y: Any) -> Any:
    """Elementwise x >> y filling with the sign."""
    return shift_right_arithmetic_p(x, y)


def population_count(x: Any) -> Any:
    """Number of set bits of each integer."""
    return population_count_p(x)


def clz(x: Any) -> Any:
    """Number of leading zero bits of each integer."""
    return clz_p(x)
