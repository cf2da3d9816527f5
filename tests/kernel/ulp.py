"""Errors of the elementary functions in units in the last place, against mpmath.

`python tests/kernel/ulp.py [names]` prints the worst error per function, type and range of
arguments.
"""

from __future__ import annotations

import sys

import mpmath as mp
from tests.kernel.conftest import call_kernel

import numpy as np
from tetrax.ir import kernel as k

REFERENCE = {
    "exp": mp.exp,
    "exp2": lambda x: mp.mpf(2) ** x,
    "expm1": mp.expm1,
    "log": mp.log,
    "log1p": mp.log1p,
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "asin": mp.asin,
    "acos": mp.acos,
    "atan": mp.atan,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "asinh": mp.asinh,
    "acosh": mp.acosh,
    "atanh": mp.atanh,
    "erf": mp.erf,
    "erfc": mp.erfc,
    "erf_inv": mp.erfinv,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "logistic": lambda x: 1 / (1 + mp.exp(-x)),
    "lgamma": lambda x: mp.log(abs(mp.gamma(x))),
    "digamma": mp.digamma,
    "pow": mp.power,
    "atan2": mp.atan2,
}


def even(low, high):
    """Evenly spread arguments."""
    return lambda rng, size: rng.uniform(low, high, size)


def positive(low, high):
    """Positive arguments spread over their exponents."""
    return lambda rng, size: np.exp(rng.uniform(np.log(low), np.log(high), size))


def signed(low, high):
    """Arguments of both signs spread over their exponents."""
    return lambda rng, size: positive(low, high)(rng, size) * rng.choice([-1, 1], size)


# name -> ((argument ranges, largest error allowed), ...), for f32 and for f64
RANGES = {
    np.float32: {
        "exp": [((even(-104, 89),), 1.5), ((signed(1e-20, 1),), 1.5)],
        "exp2": [((even(-150, 128),), 1.5)],
        "expm1": [((even(-20, 89),), 1.5), ((signed(1e-30, 1),), 1.5)],
        "log": [((positive(1e-44, 3e38),), 1), ((even(0.5, 2),), 1)],
        "log1p": [((signed(1e-30, 0.9),), 1), ((positive(1e-3, 3e38),), 1)],
        "sin": [((even(-100, 100),), 2), ((even(-4e4, 4e4),), 2), ((signed(1e-30, 3e38),), 2)],
        "cos": [((even(-100, 100),), 2), ((even(-4e4, 4e4),), 2), ((signed(1e-30, 3e38),), 2)],
        "tan": [((even(-10, 10),), 1), ((signed(1e-30, 3e38),), 1)],
        "asin": [((even(-1, 1),), 1)],
        "acos": [((even(-1, 1),), 1)],
        "atan": [((even(-5, 5),), 2), ((signed(1e-30, 1e38),), 2)],
        "sinh": [((even(-89, 89),), 1), ((signed(1e-20, 1),), 1)],
        "cosh": [((even(-89, 89),), 1)],
        "tanh": [((even(-10, 10),), 2), ((signed(1e-30, 1),), 2)],
        "asinh": [((signed(1e-30, 3e38),), 1)],
        "acosh": [((even(1, 5),), 1), ((positive(1, 3e38),), 1)],
        "atanh": [((even(-1, 1),), 1)],
        "erf": [((even(-4, 4),), 2), ((signed(1e-30, 1),), 2)],
        "erfc": [((even(-4, 10),), 1)],
        "erf_inv": [((even(-1, 1),), 4), ((signed(1e-20, 1),), 4)],
        "cbrt": [((signed(1e-44, 3e38),), 1)],
        "rsqrt": [((positive(1e-44, 3e38),), 2)],
        "logistic": [((even(-104, 20),), 2)],
        "lgamma": [((even(0.1, 50),), 1), ((even(-5, 0),), 1)],
        "digamma": [((even(3, 50),), 1), ((even(-5, 0),), 1)],
        "pow": [((positive(1e-3, 1e3), even(-20, 20)), 1)],
        "atan2": [((signed(1e-10, 1e10), signed(1e-10, 1e10)), 2), ((even(-1, 1), even(-1, 1)), 2)],
    },
    np.float64: {
        "exp": [((even(-745, 709.7),), 1.5), ((signed(1e-20, 1),), 1.5)],
        "exp2": [((even(-1075, 1024),), 1.5)],
        "expm1": [((even(-40, 709),), 1.5), ((signed(1e-300, 1),), 1.5)],
        "log": [((positive(1e-323, 1.7e308),), 1), ((even(0.5, 2),), 1)],
        "log1p": [((signed(1e-300, 0.9),), 1), ((positive(1e-3, 1e308),), 1)],
        "sin": [((even(-100, 100),), 1), ((even(-1e6, 1e6),), 1), ((signed(1e-300, 1e308),), 1)],
        "cos": [((even(-100, 100),), 1), ((even(-1e6, 1e6),), 1), ((signed(1e-300, 1e308),), 1)],
        "tan": [((even(-10, 10),), 2), ((signed(1e-300, 1e308),), 2)],
        "asin": [((even(-1, 1),), 2), ((signed(1e-300, 1),), 2)],
        "acos": [((even(-1, 1),), 2)],
        "atan": [((even(-5, 5),), 1), ((signed(1e-300, 1e308),), 1)],
        "sinh": [((even(-710.4, 710.4),), 2), ((even(-3, 3),), 2)],
        "cosh": [((even(-710.4, 710.4),), 2)],
        "tanh": [((even(-20, 20),), 2), ((signed(1e-300, 1),), 2)],
        "asinh": [((signed(1e-300, 1e308),), 2), ((even(-5, 5),), 2)],
        "acosh": [((even(1, 5),), 2), ((positive(1, 1e308),), 2)],
        "atanh": [((even(-1, 1),), 2), ((signed(1e-300, 1),), 2)],
        "erf": [((even(-6, 6),), 1.5), ((signed(1e-300, 1),), 1.5)],
        "erfc": [((even(-6, 27),), 4)],
        "erf_inv": [((even(-1, 1),), 4), ((signed(1e-200, 1),), 4)],
        "cbrt": [((signed(1e-323, 1e308),), 1)],
        "rsqrt": [((positive(1e-323, 1e308),), 2)],
        "logistic": [((even(-745, 40),), 2)],
        "lgamma": [((even(3, 100),), 4)],
        "digamma": [((even(3, 50),), 4)],
        "pow": [
            ((positive(1e-3, 1e3), even(-20, 20)), 1.5),
            ((positive(1e-37, 1e37), even(-1, 1)), 1.5),
            ((even(0.9, 1.1), even(-800, 800)), 1.5),
        ],
        "atan2": [((signed(1e-10, 1e10), signed(1e-10, 1e10)), 2), ((even(-1, 1), even(-1, 1)), 2)],
    },
}


def evaluate(name, *arguments):
    """A function of the kernel IR on arrays."""
    size, dtype = len(arguments[0]), arguments[0].dtype
    type = k.scalar_type(dtype)
    buffers = [k.Buffer(f"x{at}", type, size) for at in range(len(arguments))]
    out = k.Buffer("y", type, size, "out")
    i = k.index_variable("i", size)
    loaded = [k.load(buffer, i) for buffer in buffers]
    value = k.unary(name, *loaded) if len(loaded) == 1 else k.binary(name, *loaded)
    result = np.zeros(size, dtype)
    kernel = k.Kernel("function", (*buffers, out), (), k.loop(i, size, k.store(out, i, value)))
    call_kernel(kernel, *arguments, result)
    return result


def error_in_ulps(actual, exact, dtype):
    """The distance of a result from the exact value in units of its last place."""
    digits, smallest = (24, -149) if dtype == np.float32 else (53, -1074)
    largest = float(np.finfo(dtype).max)
    exact = exact.real
    if exact == 0:
        return 0.0 if actual == 0 else np.inf
    if abs(exact) > largest or not np.isfinite(actual):
        near = abs(exact) > largest * (1 - 2.0**-digits)
        return 0.0 if near and abs(float(actual)) >= largest else np.inf
    exponent = max(mp.frexp(abs(exact))[1] - digits, smallest)
    return float(abs(mp.mpf(float(actual)) - exact) / mp.mpf(2) ** exponent)


def worst_error(name, dtype, draws, size, seed=0):
    """(error, arguments) of the worst of `size` random arguments."""
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        arguments = [draw(rng, size).astype(dtype) for draw in draws]
    actual = evaluate(name, *arguments)
    with mp.workprec(160):
        exact = [
            REFERENCE[name](*(mp.mpf(float(v)) for v in point))
            for point in zip(*arguments, strict=True)
        ]
        errors = [error_in_ulps(a, e, dtype) for a, e in zip(actual, exact, strict=True)]
    at = int(np.argmax(errors))
    return errors[at], [float(a[at]) for a in arguments]


def main(names):
    for dtype, functions in RANGES.items():
        for name, cases in functions.items():
            if not names or name in names:
                worst = [worst_error(name, dtype, draws, 2000) for draws, _ in cases]
                shown = "  ".join(f"{error:.2f} at {at}" for error, at in worst)
                print(f"{np.dtype(dtype).name} {name}: {shown}")


if __name__ == "__main__":
    main(sys.argv[1:])
