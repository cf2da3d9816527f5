"""Kernels of many elementary functions call library routines for them."""

from __future__ import annotations

import pytest
import scipy.special

import numpy as np
import tetrax
import tetrax.numpy as tnp
from tetrax.compiler.cpu.functions import Function, function_of, function_symbol
from tetrax.compiler.cpu.legalise import MOST_INLINE
from tetrax.ir.kernel_types import F32, F64

# Twice the functions that stay inline, at arguments of their common domain.
COUNT = 2 * MOST_INLINE
FUNCTIONS = {
    "sin": (tnp.sin, np.sin),
    "exp": (tnp.exp, np.exp),
    "log": (tnp.log, np.log),
    "tanh": (tnp.tanh, np.tanh),
    "erf": (tetrax.scipy.special.erf, scipy.special.erf),
    "arctan2": (lambda x: tnp.arctan2(x, x + 1), lambda x: np.arctan2(x, x + 1)),
    "power": (lambda x: tnp.power(x, x), lambda x: np.power(x, x)),
}


def test_symbols_name_what_they_compute() -> None:
    symbol = function_symbol("erf_inv", F32, 8)
    assert function_of(symbol) == Function("erf_inv", F32, 8)
    assert function_of("tetrax_gemm_f32") is None


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("dtype", "type"), [(np.float32, F32), (np.float64, F64)])
@pytest.mark.parametrize("size", [1, 5, 64, 1003])
def test_many_functions_are_right(name: str, dtype: type, type: object, size: int) -> None:
    ours, theirs = FUNCTIONS[name]
    x = np.linspace(0.1, 3.0, size).astype(dtype)

    def function(v: tetrax.Array) -> list[tetrax.Array]:
        return [ours(v * (1 + i / 8)) for i in range(COUNT)]

    with tetrax.experimental.enable_x64():
        results = tetrax.jit(function)(x)
        assert all(result.dtype == dtype for result in results)
    # products are rounded to the type first; then ours and the reference are two units off at most
    expected = [theirs((x * dtype(1 + i / 8)).astype(np.float64)) for i in range(COUNT)]
    tolerance = 4 * np.finfo(dtype).eps
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted.astype(dtype), rtol=tolerance)


def test_calls_stand_for_polynomials() -> None:
    def chain(v: tetrax.Array) -> tetrax.Array:
        for i in range(COUNT):
            v = tnp.sin(v) + 0.5 * i
        return v

    x = tnp.ones(1000)
    many = tetrax.jit(chain).lower(x).as_text("llvm")
    assert many.count("@tetrax_function_sin_f32_") >= COUNT
    few = tetrax.jit(lambda v: tnp.sin(v) + tnp.cos(v)).lower(x).as_text("llvm")
    assert "tetrax_function" not in few
