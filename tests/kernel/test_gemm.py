"""The matrix product routine against NumPy: sizes around every border, all transpositions,
accumulation.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading

import ml_dtypes
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
    (1, 1000, 1003),  # from here on shared by steps
    (7, 501, 517),
    (4, 2048, 97),
]


def multiply(a, b, c, accumulate, name="tetrax_gemm", more=()):
    element = scalar_type(a.dtype)
    m, k = a.shape
    n = b.shape[1]
    kinds = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 8 + [ctypes.c_int32]
    kinds += [ctypes.c_void_p] * len(more)
    function = ctypes.CFUNCTYPE(None, *kinds)(library_address(f"{name}_{element}"))
    strides = [s // a.itemsize for s in (*a.strides, *b.strides)] + [c.strides[0] // c.itemsize]
    pointers = [x.ctypes.data for x in (a, b, c)]
    function(*pointers, m, n, k, *strides, int(accumulate), *more)


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


# --- narrow operands ---


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (1, 33, 70),
        (5, 100, 30),
        (7, 17, 5),
        (64, 64, 64),
        (131, 130, 129),
        (150, 45, 600),
        (3, 1, 9),
    ],
)
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
def test_narrow_operands(dtype, m, n, k, a_transposed, b_transposed):
    rng = np.random.default_rng(0)
    a = matrix(rng, m, k, a_transposed, dtype)
    b = matrix(rng, k, n, b_transposed, dtype)
    c = np.full((m, n), np.nan, np.float32)
    multiply(a, b, c, accumulate=False)
    a, b = a.astype(np.float64), b.astype(np.float64)
    # products of narrow floats are exact in f32: only sums round
    bound = np.finfo(np.float32).eps * 20 * (np.abs(a) @ np.abs(b) + 1)
    assert (np.abs(c - a @ b) <= bound).all()


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_every_narrow_value_is_read_exactly(dtype):
    values = np.arange(2**16, dtype=np.uint16).view(dtype)
    one = np.ones((1, 1), dtype)
    for columns in (values[None, :], values.reshape(1, -1)):
        c = np.empty(columns.shape, np.float32)
        multiply(one, columns, c, accumulate=False)
        np.testing.assert_array_equal(c[0], values.astype(np.float32))
    many = np.broadcast_to(values[:, None], (2**16, 16)).copy()  # packed
    c = np.empty((2**16, 16), np.float32)
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(values.astype(np.float32))
    multiply(many, np.eye(16, dtype=dtype), c, accumulate=False)
    np.testing.assert_array_equal(c[finite, 3], values.astype(np.float32)[finite])


# --- small products, and what is done with finished blocks ---


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 1), (4, 4, 4), (8, 9, 10), (17, 31, 32), (32, 8, 3)]
)
def test_small_products_have_the_bits_of_large_ones(dtype, m, n, k):
    rng = np.random.default_rng(0)
    # more rows than the routine for few rows takes
    a, b = matrix(rng, m + 30, k, False, dtype), matrix(rng, k, n, False, dtype)
    whole, small = np.empty((m + 30, n), dtype), np.empty((m, n), dtype)
    multiply(a, b, whole, accumulate=False)
    multiply(a[:m], b, small, accumulate=False, name="tetrax_gemm_small")
    if n > 1:
        assert small.tobytes() == whole[:m].tobytes()
    np.testing.assert_allclose(small, whole[:m], rtol=1e-5, atol=1e-5)


_EPILOGUE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4)


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        *((1, 40, 3), (7, 2100, 9), (5, 700, 300), (20, 30, 40), (5, 6, 0)),
        *((150, 301, 300), (600, 520, 64), (9, 1, 4)),
    ],
)
@pytest.mark.parametrize("b_transposed", [False, True])
def test_finished_blocks_are_told_once(m, n, k, b_transposed):
    rng = np.random.default_rng(0)
    a, b = matrix(rng, m, k, False, np.float32), matrix(rng, k, n, b_transposed, np.float32)
    c, seen = np.full((m, n), np.nan, np.float32), np.zeros((m, n), int)
    lock = threading.Lock()

    def finished(context, row, rows, column, columns):
        block = slice(row, row + rows), slice(column, column + columns)
        with lock:
            seen[block] += 1
            c[block] += context

    before = config.num_threads
    config.update("num_threads", 3)
    try:
        multiply(a, b, c, False, "tetrax_gemm_then", (_EPILOGUE(finished), 5))
    finally:
        config.update("num_threads", before)
    assert (seen == 1).all()
    np.testing.assert_allclose(c, a @ b + 5, rtol=1e-4, atol=1e-4)
