"""The matrix product routine against NumPy: sizes around every border, all transpositions,
accumulation.
"""

from __future__ import annotations

import ctypes
import mmap
import sys

import pytest

import numpy as np
from tetrax.compiler.cpu.library import library_address
from tetrax.config import config
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
    (3, 77, 130),
    (8, 1030, 131),
    (13, 1024, 200),
    (20, 512, 130),  # rows of B that alias
    (1, 5000, 7),
    (40, 41, 42),
    (1, 97, 2300),
    (203, 1, 2100),
    (5, 5, 0),
    (131, 130, 129),  # from here on shared between threads
    (200, 97, 301),
    (97, 200, 301),
    (1300, 70, 33),
]


def multiply(a, b, c, accumulate):
    element = scalar_type(a.dtype)
    m, k = a.shape
    n = b.shape[1]
    kinds = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 8 + [ctypes.c_int32]
    function = ctypes.CFUNCTYPE(None, *kinds)(library_address(f"tetrax_gemm_{element}"))
    strides = [s // a.itemsize for s in (*a.strides, *b.strides, c.strides[0])]
    pointers = [x.ctypes.data for x in (a, b, c)]
    function(*pointers, m, n, k, *strides, int(accumulate))


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


def guarded(values):
    """A copy whose memory ends where a page ends that must not be touched."""
    size = values.size * values.itemsize
    whole = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, whole + mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None).mprotect
    assert protect(ctypes.c_void_p(address + whole), mmap.PAGESIZE, 0) == 0
    raw = np.frombuffer(memory, np.uint8, size, whole - size)
    copy = raw.view(values.dtype).reshape(values.T.shape if values.flags.f_contiguous else
                                          values.shape)  # fmt: skip
    copy = copy.T if values.flags.f_contiguous else copy
    copy[...] = values
    return copy


@pytest.mark.skipif(sys.platform != "linux", reason="protects pages by mprotect")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(7, 17, 5), (25, 300, 100), (150, 301, 511), (1, 99, 33)]
)
@pytest.mark.parametrize("transposed", [False, True])
def test_nothing_outside_the_operands_is_touched(dtype, m, n, k, transposed):
    rng = np.random.default_rng(0)
    a = guarded(matrix(rng, m, k, transposed, dtype))
    b = guarded(matrix(rng, k, n, transposed, dtype))
    c = guarded(np.empty((m, n), dtype))
    multiply(a, b, c, accumulate=False)
    np.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(70, 90, 300), (131, 130, 129), (97, 200, 301), (1300, 70, 33), (500, 500, 20)],
)
def test_the_same_product_has_the_same_bits(dtype, m, n, k):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    results = []
    before = config.num_threads
    try:
        for threads in (1, 2, 3, 7, 20):
            config.update("num_threads", threads)
            c = np.empty((m, n), dtype)
            multiply(a, b, c, accumulate=False)
            results.append(c.tobytes())
            # rows and columns by themselves, in other tiles
            part = np.empty((m - 5, n - 7), dtype)
            multiply(a[2:-3], b[:, 4:-3], part, accumulate=False)
            assert (part == c[2:-3, 4:-3]).all()
    finally:
        config.update("num_threads", before)
    assert len(set(results)) == 1
