"""Errors of elementary functions over all arguments, in units in the last place of the result.

References are computed in a wider type, whose own error does not count:
- f32 against f64 of NumPy and SciPy. One unit of f64 is 2^-29 units of f32, and these functions
  are within 32 units (SciPy's) or one or two (NumPy's): 2^24 times more accurate than f32.
- f64 against the C library's long double, 64 bits wide where this runs (x86): within two units
  says its manual, that is 2^-10 units of f64. mpmath checks a sample of the references themselves,
  and stands in for functions that C does not have.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import scipy.special
from tests.kernel.conftest import call_kernel

import numpy as np
from tetrax.ir import kernel as k

Long = np.longdouble
BLOCK = 1 << 16
PRECISION = {np.dtype(np.float32): (24, -149, 128), np.dtype(np.float64): (53, -1074, 1024)}
"""Digits of a type, the exponent of its last place at least, and where its exponents end."""


def _logistic(x: np.ndarray) -> np.ndarray:
    power = np.exp(-np.abs(x))
    return np.where(x < 0, power, 1) / (1 + power)


def _erf_inv(x: np.ndarray) -> np.ndarray:
    found = np.full_like(x, np.nan)
    inside = np.abs(x) <= 1
    found[inside] = np.copysign(scipy.special.erfinv(x[inside]), x[inside])
    return found


REFERENCES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "logistic": _logistic,
}
"""For f32 and f64."""

SPECIAL: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "erf_inv": _erf_inv,
}
"""For f32 alone: there is no long double of them in NumPy."""

EXACT: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "erf_inv": mpmath.erfinv,
    "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))),
}
"""For f64."""


def evaluate(name: str, x: np.ndarray, vector: bool = True) -> np.ndarray:
    """A function of the kernel IR on an array, in vectors or one element at a time.

    Elements three places apart are not worth a vector: such a loop is scalar code.
    """
    stride = 1 if vector else 3
    block = min(BLOCK, len(x))
    kind = k.scalar_type(x.dtype)
    source = k.Buffer("x", kind, block * stride)
    target = k.Buffer("y", kind, block * stride, "out")
    i = k.index_variable("i", block)
    at = k.mul(i, stride)
    value = k.unary(name, k.load(source, at))
    kernel = k.Kernel(
        "function", (source, target), (), k.loop(i, block, k.store(target, at, value))
    )
    parts = []
    for start in range(0, len(x), block):
        part = x[start : start + block]
        spread = np.zeros(block * stride, x.dtype)
        spread[: len(part) * stride : stride] = part
        result = np.zeros_like(spread)
        call_kernel(kernel, spread, result)
        parts.append(result[: len(part) * stride : stride])
    return np.concatenate(parts)


def errors(actual: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distances in units in the last place; infinite where NaN, zero's sign or infinity is wrong.

    A result may be infinite where the exact one is beyond the middle between the largest number and
    what would follow it, less one unit; and the largest number where it is beyond.
    """
    digits, least, end = PRECISION[actual.dtype]
    wide = exact.dtype.type
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.where(np.isfinite(exact), exact, 1))[1]
        unit = np.ldexp(wide(1), np.maximum(exponent - digits, least))
        last = wide(2.0 ** (end - 1)) * wide(2)  # what would follow the largest number
        number = np.where(np.isinf(actual), np.copysign(last, actual.astype(wide)), actual)
        target = np.clip(exact, -last, last)
        distance = np.abs(number.astype(wide) - target) / unit
    agree = np.isnan(actual) == np.isnan(exact)
    zero = exact == 0
    agree &= ~zero | ((actual == 0) & (np.signbit(actual) == np.signbit(exact)))
    distance = np.where(zero | np.isnan(exact) | np.isinf(exact), 0, distance)
    agree &= ~np.isinf(exact) | (actual == exact)
    return np.where(agree, distance, np.inf).astype(np.float64)


def worst(name: str, x: np.ndarray, exact: np.ndarray, vector: bool = True) -> tuple[float, float]:
    """(the largest error, its argument)."""
    found = errors(evaluate(name, x, vector), exact)
    at = int(np.argmax(found))
    return float(found[at]), float(x[at])


def reference(name: str, x: np.ndarray) -> np.ndarray:
    """Results in the wider type."""
    with np.errstate(all="ignore"):
        if x.dtype == np.float32:
            return (REFERENCES | SPECIAL)[name](x.astype(np.float64))
        return REFERENCES[name](x.astype(Long)) if name in REFERENCES else exact_values(name, x)


def exact_values(name: str, x: np.ndarray) -> np.ndarray:
    """Results by mpmath, as long doubles."""
    with mpmath.workprec(200):
        exact = np.array([_long(EXACT[name], float(value)) for value in x], Long)
    return np.where(exact == 0, np.copysign(0, x), exact)  # mpmath has no sign of zero


def _long(function: Callable[[mpmath.mpf], mpmath.mpf], value: float) -> np.longdouble:
    exact = function(mpmath.mpf(value))
    high = float(exact)
    rest = float(exact - high) if np.isfinite(high) else 0.0
    return Long(high) + Long(rest)


# --- arguments ---

SPECIALS = (0.0, np.inf, np.nan, 1.0, 0.5, 2.0)
# where results overflow, become denormal or zero, and where kernels change their formula
EDGES = (
    *(88.72284, 87.33655, 103.97208, 104.0, 88.0, 128.0, 126.0, 149.0, 150.0),
    *(709.782712893384, 708.3964185322641, 745.1332191019411, 710.4758600739439, 1024.0, 1074.0),
    *(0.34657359, 0.6931471805599453, 1.0397207708399179, 20.0, 40.0, 9.010913, 10.0, 19.06, 22.0),
    *(0.9375, 0.46875, 3.92, 4.0, 5.92, 26.54, 27.5, 0.41421356237309503, 2.414213562373095),
    *(40000.0, 1e6, 2.0**21, 2.0**24, 2.0**53, 2.0**-24, 2.0**-53, 0.7071067811865476),
    *(1.4142135623730951, 2.0**-126, 2.0**-1022, 2.0**500, 2.0**64),
)
# arguments of which sine, cosine or tangent are hard: Kahan's (nearest to a multiple of pi/2 among
# all doubles), Muller's, multiples of pi, and large ones
HARD_ANGLES = (
    *(6381956970095103.0 * 2.0**797, 5.319372648326541e255, 1e22, 2.0**1023, 1.7e308),
    *(3e38, 3.4028234663852886e38, 2.0**120, 16367173.0 * 2.0**72, 8.77e33, 11.0, 22.0, 355.0),
    *(float(n) * np.pi / 2 for n in (1, 2, 3, 4, 5, 7, 1000, 12345, 636619, 10**9, 10**15)),
)


def neighbours(points: tuple[float, ...], dtype: type, reach: int) -> np.ndarray:
    """Points of both signs with so many numbers on either side."""
    with np.errstate(over="ignore"):
        values = np.array([*points, *(-p for p in points)]).astype(dtype)
    integer = np.dtype(f"i{values.itemsize}")
    bits = values.view(integer)[:, None] + np.arange(-reach, reach + 1, dtype=integer)
    return np.concatenate([bits.ravel().view(dtype), *(np.array([s, -s], dtype) for s in SPECIALS)])


def spread_32(stride: int, start: int = 0) -> np.ndarray:
    """One of `stride` of all numbers of f32, and all that is near an edge."""
    bits = np.arange(start, 1 << 32, stride, dtype=np.uint64).astype(np.uint32)
    return np.concatenate([bits.view(np.float32), neighbours(EDGES + HARD_ANGLES, np.float32, 40)])


def spread_64(count: int, seed: int = 0) -> np.ndarray:
    """Random bits, random numbers of common sizes, and what is near an edge."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    sizes = np.exp(rng.uniform(np.log(1e-12), np.log(1e7), count)) * rng.choice([-1, 1], count)
    even = (rng.uniform(-limit, limit, count) for limit in (1, 4, 40, 750))
    near = neighbours(EDGES + HARD_ANGLES, np.float64, 20)
    return np.concatenate([bits, sizes, *even, near])
