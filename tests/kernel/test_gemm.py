"""The matrix product routine against NumPy: sizes around every border, all transpositions,
accumulation.
"""

from __future__ import annotations

import ctypes

import pytest

import numpy as np
from tetrax.compiler.cpu.library import gemm_scratch_bytes, library_address
from tetrax.ir.kernel_types import scalar_type

SIZES = [
    (1, 1, 1),
    (2, 3, 4),
    (6, 16, 4),
    (7, 17, 5),
    (64, 64, 64),
    (25, 100, 300),
    (150, 300, 400),
    (13, 3100, 9),
    (30, 33, 513),
    (1, 230, 300),
    (1, 97, 2300),
    (203, 1, 2100),
    (5, 5, 0),
]


def multiply(a, b, c, accumulate):
    element = scalar_type(a.dtype)
    m, k = a.shape
    n = b.shape[1]
    kinds = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 8 + [ctypes.c_int32, ctypes.c_void_p]
    function = ctypes.CFUNCTYPE(None, *kinds)(library_address(f"tetrax_gemm_{element}"))
    size = gemm_scratch_bytes(element, m, n, k)
    scratch = np.full(size + 8, 0xFF, np.uint8)  # NaNs, which must not leak into the result
    strides = [s // a.itemsize for s in (*a.strides, *b.strides, c.strides[0])]
    pointers = [x.ctypes.data for x in (a, b, c)]
    function(*pointers, m, n, k, *strides, int(accumulate), scratch.ctypes.data)
    assert (scratch[size:] == 0xFF).all()


def matrix(rng, rows, columns, transposed, dtype):
    shape = (columns, rows) if transposed else (rows, columns)
    values = rng.standard_normal(shape).astype(dtype)
    return values.T if transposed else values


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
def test_against_numpy(dtype, m, n, k, a_transposed, b_transposed):
    rng = np.random.default_rng(0)
    a = matrix(rng, m, k, a_transposed, dtype)
    b = matrix(rng, k, n, b_transposed, dtype)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    # chains of at most 2048 products: the usual bound, eps times sum of |a||b|, is loose
    bound = np.finfo(dtype).eps * 20 * (np.abs(a) @ np.abs(b) + 1)
    c = np.full((m, n), np.nan, dtype)
    multiply(a, b, c, accumulate=False)
    assert (np.abs(c - exact) <= bound).all()
    start = rng.standard_normal((m, n)).astype(dtype)
    c = start.copy()
    multiply(a, b, c, accumulate=True)
    assert (np.abs(c - exact - start) <= bound).all()


def test_views_with_any_strides():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((40, 60))[::2, ::3]
    b = rng.standard_normal((60, 90))[::3, ::2]
    c = np.zeros((20, 50))
    multiply(a, b, c[:, :45], accumulate=False)
    np.testing.assert_allclose(c[:, :45], a @ b, atol=1e-12)
    assert (c[:, 45:] == 0).all()


def test_the_same_product_has_the_same_bits():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((70, 300)), rng.standard_normal((300, 90))
    first, second = np.empty((70, 90)), np.empty((70, 90))
    multiply(a, b, first, accumulate=False)
    multiply(a, b, second, accumulate=False)
    assert first.tobytes() == second.tobytes()
