"""The library's sort of integers, called directly, against NumPy: sizes around every limit."""

from __future__ import annotations

import ctypes

import pytest

import numpy as np
from tetrax.compiler.cpu.library.registry import library_address

ROUTINE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)
SIZES = [*range(70), 127, 128, 129, 1000, 1023, 1024, 1025, 5000, 99_999, 100_000, 150_001]


def routine(name):
    return ROUTINE(library_address(f"tetrax_sort_{name}"))


def inputs(n, dtype):
    r = np.random.default_rng(n)
    info = np.iinfo(dtype)
    yield r.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
    yield r.integers(0, 5, n).astype(dtype)
    for constant in (0, info.min, info.max):
        yield np.full(n, constant, dtype)
    yield np.arange(n).astype(dtype)
    yield np.arange(n)[::-1].astype(dtype)
    yield np.concatenate([np.arange(n // 2), np.arange(n - n // 2)[::-1]]).astype(dtype)
    mixed = r.integers(-100, 100, n).astype(dtype)
    mixed[::3] = info.max
    yield mixed


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_keys(dtype):
    sort = routine(np.dtype(dtype).name.replace("int", "i"))
    for n in SIZES:
        for x in inputs(n, dtype):
            keys, spare = x.copy(), np.empty(n + 1, dtype)
            sort(keys.ctypes.data, spare.ctypes.data, n, 0, n)
            np.testing.assert_array_equal(keys, np.sort(x))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_window_of_ranks(dtype):
    sort = routine(np.dtype(dtype).name.replace("int", "i"))
    for n in SIZES[4:]:
        for x in inputs(n, dtype):
            keys, spare = x.copy(), np.empty(n, dtype)
            first, last = n // 3, n // 2 + 1
            sort(keys.ctypes.data, spare.ctypes.data, n, first, last)
            np.testing.assert_array_equal(keys[first:last], np.sort(x)[first:last])


def test_pairs_are_stable():
    sort = routine("pairs")
    for n in SIZES:
        for x in inputs(n, np.int64):
            pairs, spare = np.concatenate([x, np.arange(n)]), np.empty(2 * n + 1, np.int64)
            sort(pairs.ctypes.data, spare.ctypes.data, n, 0, n)
            order = np.argsort(x, kind="stable")
            np.testing.assert_array_equal(pairs[:n], x[order])
            np.testing.assert_array_equal(pairs[n:], order)
