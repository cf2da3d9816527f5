"""Elementwise programs: what fusion and vector mathematics are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.row import Case, Function, Row
from benchmarks.rows.common import normal, normals, size_in_bytes, uniform


def axpy(n: int) -> Case:
    """y + a x for two vectors."""
    x, y = normals((n,), (n,))
    formula: Function = lambda x, y: 2.5 * x + y
    return Case(
        program=lambda lib: formula,
        inputs=(x, y),
        numpy=lambda x, y: np.float32(2.5) * x + y,
        torch=lambda torch: lambda x, y: torch.add(y, x, alpha=2.5),
        bytes=1.5 * size_in_bytes(x, y),
    )


def gelu(n: int) -> Case:
    """The activation of transformers, in its tanh form."""
    x = normal(n)
    return Case(
        program=lambda lib: lambda x: lib.nn.gelu(x, approximate=True),
        inputs=(x,),
        numpy=lambda x: (
            0.5 * x * (1 + np.tanh(np.float32(0.79788456) * (x + 0.044715 * x * x * x)))
        ),
        torch=lambda torch: lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        bytes=2 * size_in_bytes(x),
    )


def black_scholes(n: int) -> Case:
    """Prices of call and put options."""
    spot = uniform(n, low=10, high=50)
    strike = uniform(n, low=10, high=50)[::-1].copy()
    years = uniform(n, low=0.5, high=2)

    def prices(log: Any, sqrt: Any, exp: Any, cdf: Any, spot: Any, strike: Any, years: Any) -> Any:
        rate, volatility = 0.02, 0.3
        spread = volatility * sqrt(years)
        d1 = (log(spot / strike) + (rate + 0.5 * volatility**2) * years) / spread
        d2 = d1 - spread
        discounted = strike * exp(-rate * years)
        call = spot * cdf(d1) - discounted * cdf(d2)
        return call, call - spot + discounted

    def program(lib: Any) -> Function:
        jnp, erf = lib.numpy, lib.scipy.special.erf
        cdf = lambda x: 0.5 * (1 + erf(x * 0.70710678))
        return lambda *inputs: prices(jnp.log, jnp.sqrt, jnp.exp, cdf, *inputs)

    def torch_program(torch: Any) -> Function:
        cdf = lambda x: 0.5 * (1 + torch.erf(x * 0.70710678))
        return lambda *inputs: prices(torch.log, torch.sqrt, torch.exp, cdf, *inputs)

    def numpy_program(*inputs: Any) -> Any:
        # scipy.special.ndtr computes in the type of its argument
        return prices(np.log, np.sqrt, np.exp, _scipy_ndtr, *inputs)

    return Case(
        program=program,
        inputs=(spot, strike, years),
        numpy=numpy_program,
        torch=torch_program,
        bytes=5 * size_in_bytes(spot),
    )


def _scipy_ndtr(x: Any) -> Any:
    from scipy.special import ndtr  # noqa: PLC0415  slow to import, needed by one row

    return ndtr(x)


def chain(n: int, length: int) -> Case:
    """Many operations in a row on one vector."""
    x = normal(n)

    def steps(sin: Any, absolute: Any, sqrt: Any, x: Any) -> Any:
        for i in range(length // 6):
            y = x * 0.9 + 0.1 * i  # two operations
            x = sqrt(absolute(y) + 0.5) - sin(x)  # and four to six
        return x

    return Case(
        program=lambda lib: lambda x: steps(lib.numpy.sin, lib.numpy.abs, lib.numpy.sqrt, x),
        inputs=(x,),
        numpy=lambda x: steps(np.sin, np.abs, np.sqrt, x),
        torch=lambda torch: lambda x: steps(torch.sin, torch.abs, torch.sqrt, x),
        bytes=2 * size_in_bytes(x),
    )


_FULL, _TINY = {"n": 10_000_000}, {"n": 1001}

ROWS = (
    Row("axpy_10m", "elementwise", axpy, _FULL, _TINY),
    Row("gelu_10m", "elementwise", gelu, _FULL, _TINY),
    Row("black_scholes_10m", "elementwise", black_scholes, _FULL, _TINY),
    Row("chain_30", "elementwise", chain, {"n": 1_000_000, "length": 30}, _TINY | {"length": 30}),
)
