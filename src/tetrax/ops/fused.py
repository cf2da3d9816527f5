"""Fused multiply-add: x * y + z with one rounding, whatever the compiler would contract.

XLA contracts the scaling of uniform samples, so samples agree with JAX's to the last bit only if
Tetrax rounds once too, in eager calls as in compiled code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax.ir import kernel
from tetrax.ops.arithmetic import mul
from tetrax.ops.base import FLOATS, Elementwise, TestFacts

_SPLITTER = 134217729.0  # 2^27 + 1 cuts a float64 into two halves (Dekker)


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaled = _SPLITTER * x
    high = scaled - (scaled - x)
    return high, x - high


def _fma_double(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Error-free product and sum, then one rounding (wrong only where |x| overflows the split)."""
    product = x * y
    (xh, xl), (yh, yl) = _halves(x), _halves(y)
    product_error = ((xh * yh - product) + xh * yl + xl * yh) + xl * yl
    total = product + z
    shifted = total - product
    sum_error = (product - (total - shifted)) + (z - shifted)
    value = total + (sum_error + product_error)
    return np.where(np.isfinite(value), value, product + z)


def _fma_reference(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    if x.dtype == np.float64:
        return _fma_double(x, y, z)
    wide = x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)
    return wide.astype(x.dtype)


fma_p = Elementwise(
    "fma",
    3,
    accepts=FLOATS,
    scalar=kernel.fma,
    reference=_fma_reference,
    derivative=(
        lambda t, out, x, y, z: mul(t, y),
        lambda t, out, x, y, z: mul(x, t),
        lambda t, out, x, y, z: t,
    ),
    stablehlo=lambda context, operands, outs: context.fma(operands, outs),
    facts=TestFacts(ulp=0),
)


def fma(x: Any, y: Any, z: Any) -> Any:
    """Elementwise x * y + z, rounded once.

    >>> fma(2.0, 3.0, 1.0)
    Array(7., dtype=float32, weak_type=True)
    """
    return fma_p(x, y, z)
