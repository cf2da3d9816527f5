"""Types of arrays: one object per type, whoever asks, in any thread, through pickle and copy."""

from __future__ import annotations

import copy
import gc
import pickle
import threading

import pytest

import numpy as np
from tetrax import dtypes
from tetrax.ir import types
from tetrax.ir.types import ShapedArray


@pytest.mark.parametrize(
    ("shape", "dtype", "weak"),
    [((2, 3), np.float32, False), ((), "int32", True), ((0,), dtypes.bfloat16, False)],
)
def test_equal_types_are_one_object(shape, dtype, weak):
    first = ShapedArray(shape, dtype, weak)
    assert ShapedArray(list(shape), np.dtype(dtype), weak) is first
    assert ShapedArray(np.array(shape, int), np.dtype(dtype), np.bool_(weak)) is first
    assert pickle.loads(pickle.dumps(first)) is first
    assert copy.deepcopy(first) is copy.copy(first) is first
    assert first.update() is first
    assert hash(first) == hash(ShapedArray(shape, dtype, weak))


def test_sizes_are_plain_ints_whoever_asked_first():
    found = ShapedArray((np.int64(1237), np.int8(3)), np.float32)
    assert list(map(type, found.shape)) == [int, int]
    with pytest.raises(TypeError):
        ShapedArray((2.5,), np.float32)


def test_types_differ():
    assert ShapedArray((2,), np.float32) != ShapedArray((2,), np.float32, True)
    assert ShapedArray((2,), np.float32) != ShapedArray((2,), np.int32)
    assert ShapedArray((2,), np.float32) != ShapedArray((2, 1), np.float32)
    assert ShapedArray((2,), np.float32) != "float32[2]"


def test_unused_types_are_let_go():
    for n in range(5000):
        ShapedArray((n, 4321), np.float32)
    gc.collect()
    ShapedArray((1, 4321), np.float32)
    assert sum(key[0][-1:] == (4321,) for key in list(types._types)) < 10


def test_threads_agree():
    results: list[list[ShapedArray]] = []

    def work():
        mine = []
        for n in range(2000):
            ShapedArray((n % 7, 99_991), np.float32)  # made and dropped all the time
            mine.append(ShapedArray((n, 99_989), np.float32))
        results.append(mine)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for others in zip(*results, strict=True):
        assert all(other is others[0] for other in others)
