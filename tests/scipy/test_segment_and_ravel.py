"""Segment reductions and raveled trees against jax."""

from __future__ import annotations

import jax
import jax.flatten_util
import pytest

import numpy as np
import tetrax
from tetrax import segment
from tetrax.flatten_util import ravel_pytree

NAMES = ["segment_sum", "segment_prod", "segment_max", "segment_min"]


@pytest.mark.parametrize(
    "name,dtype",
    [(name, dtype) for name in NAMES for dtype in (np.float32, np.int32)]
    + [("segment_max", np.bool_), ("segment_min", np.bool_)],
)
def test_segments(name, dtype):
    data = (np.arange(10).reshape(5, 2) % 4).astype(dtype)
    ids = np.int32([0, 2, -1, 2, 7])
    ours, theirs = getattr(segment, name), getattr(jax.ops, name)
    for keywords in ({}, {"num_segments": 4}, {"num_segments": 4, "bucket_size": 2}):
        got, want = ours(data, ids, **keywords), theirs(data, ids, **keywords)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    got = tetrax.jit(lambda d, i: ours(d, i, 4))(data, ids)
    np.testing.assert_array_equal(got, theirs(data, ids, 4))


def test_segment_gradient():
    data, ids = np.float32([1, 2, 3, 4]), np.int32([0, 1, 0, 9])
    weights = np.float32([2, 5])
    got = tetrax.grad(lambda d: (segment.segment_sum(d, ids, 2) * weights).sum())(data)
    np.testing.assert_array_equal(got, [2, 5, 2, 0])
    got = tetrax.grad(lambda d: (segment.segment_max(d, ids, 2) * weights).sum())(data)
    np.testing.assert_array_equal(got, [0, 5, 2, 0])


def test_mistakes_in_segments():
    with pytest.raises(ValueError, match="non-negative"):
        segment.segment_sum(np.ones(2), np.int32([0, 1]), num_segments=-1)


@pytest.mark.parametrize(
    "tree",
    [
        {"w": np.ones((2, 3), np.float32), "b": np.float32([4, 5])},
        (np.float32(1), [np.int32([2, 3]), np.zeros((0, 2), np.float32)]),
        [np.complex64([1j]), 2.0],
        [],
    ],
)
def test_ravel(tree):
    flat, back = ravel_pytree(tree)
    want, _ = jax.flatten_util.ravel_pytree(tree)
    assert flat.dtype == want.dtype
    np.testing.assert_array_equal(flat, want)
    for got, leaf in zip(tetrax.tree.leaves(back(flat)), tetrax.tree.leaves(tree), strict=True):
        assert got.shape == np.shape(leaf)
        np.testing.assert_array_equal(got, leaf)


def test_the_way_back():
    tree = {"w": np.ones((2, 3), np.float32), "n": np.int32([4])}
    flat, back = ravel_pytree(tree)
    _, again = ravel_pytree(tree)
    assert back == again and hash(back) == hash(again)
    with pytest.raises(ValueError, match="shape"):
        back(flat[1:])
    with pytest.raises(TypeError, match="dtype"):
        back(flat.astype(np.float16))
    gradient = tetrax.jit(tetrax.grad(lambda v: back(v)["w"].sum()))(flat)
    np.testing.assert_array_equal(np.sort(gradient), [0, 1, 1, 1, 1, 1, 1])
