"""Sorting against real JAX and NumPy: dtypes, several keys, stability, NaN and zeros."""

from __future__ import annotations

import ml_dtypes
import pytest
from tests.ops.jax_oracle import check, sample

import numpy as np
import tetrax
from tetrax import errors, lax

BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    ("shape", "dimension"), [((33,), 0), ((5, 7), 0), ((5, 8), 1), ((3, 0), 1)]
)
def test_one_operand(shape, dimension: int) -> None:
    check(lambda lax, x: lax.sort(x, dimension), sample(*shape), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", ["int8", "uint32", "bool", "float16", "bfloat16", "complex64"])
def test_dtypes(dtype: str) -> None:
    dtype = BF16 if dtype == "bfloat16" else dtype
    x = sample(40, dtype=dtype)
    check(lambda lax, x: lax.sort(x), x, differentiate=(), vmap=False, rtol=0, atol=0)


def test_special_values() -> None:
    x = np.array([3, np.nan, -np.inf, -0.0, 0.0, np.inf, -np.nan, -0.0, 1], "float32")
    for run in (lambda f: f, tetrax.jit):
        got = np.asarray(run(lax.sort)(x))
        assert np.array_equal(got, np.sort(x, kind="stable"), equal_nan=True)
        assert np.signbit(got[1:4]).tolist() == [True, False, True]  # zeros stay in order


def test_key_and_values() -> None:
    keys = sample(50, dtype="int32")  # many ties
    values = np.arange(50, dtype="float32")
    check(lambda lax, k, v: lax.sort_key_val(k, v), keys, values, rtol=0, atol=0)
    out = tetrax.jit(lax.sort_key_val)(keys, values)[1]
    assert np.array_equal(out, np.argsort(keys, kind="stable"))


def test_several_keys() -> None:
    a = sample(6, 20, dtype="int32") // 5
    b = (sample(6, 20) * 2).astype("int8").astype("float32")
    c = sample(6, 20, seed=4)
    for num_keys in (1, 2, 3):
        case = lambda lax, a, b, c, n=num_keys: lax.sort((a, b, c), 1, num_keys=n)
        check(case, a, b, c, vmap=num_keys == 2, rtol=0, atol=0)


@pytest.mark.parametrize("size", [1, 2, 3, 100, 1023, 5000])
def test_sizes(size: int) -> None:
    x = np.random.default_rng(size).normal(size=size).astype("float32")
    order = np.arange(size, dtype="int32")
    keys, positions = tetrax.jit(lax.sort_key_val)(x, order)
    assert np.array_equal(keys, np.sort(x))
    assert np.array_equal(positions, np.argsort(x, kind="stable"))


@pytest.mark.parametrize(("shape", "k", "axis"), [((9,), 3, 0), ((4, 7), 7, 1), ((7, 4), 2, 0)])
def test_top_k(shape, k: int, axis: int) -> None:
    check(lambda lax, x: lax.top_k(x, k, axis=axis), sample(*shape), differentiate=())
    with_values = lambda lax, x: lax.top_k(x, k, axis=axis)[0]
    check(with_values, sample(*shape), vmap=False, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "bfloat16", "float32"])
def test_top_k_ties(dtype: str) -> None:
    dtype = BF16 if dtype == "bfloat16" else np.dtype(dtype)
    x = np.array([1, 3, 0, 3, 2, 3, 0, 1]).astype(dtype)
    check(lambda lax, x: lax.top_k(x, 6), x, differentiate=(), vmap=False)


def test_top_k_special_values() -> None:
    x = np.array([1, np.nan, 3, 3, -0.0, 0.0, -np.inf], "float32")
    check(lambda lax, x: lax.top_k(x, 7), x, differentiate=(), vmap=False)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_top_k_puts_a_nan_of_a_negative_sign_last(dtype: str) -> None:
    x = np.array([1, np.nan, -np.inf, np.nan, 2, np.nan, -0.0, 0.0, np.nan, np.inf])
    x = np.copysign(x, [1, -1, -1, -1, 1, 1, -1, 1, -1, 1])
    x = x.astype(BF16 if dtype == "bfloat16" else dtype)
    check(lambda lax, x: lax.top_k(x, 10)[1], x, differentiate=(), vmap=False)


def test_approximate() -> None:
    x = sample(3, 40)
    check(lambda lax, x: lax.approx_max_k(x, 5), x, differentiate=(), vmap=False)
    check(lambda lax, x: lax.approx_min_k(x, 5), x, differentiate=(), vmap=False)


def test_errors() -> None:
    with pytest.raises(errors.ShapeError, match="equal shapes"):
        lax.sort((sample(3), sample(4)))
    with pytest.raises(ValueError, match="num_keys"):
        lax.sort((sample(3), sample(3)), num_keys=3)
    with pytest.raises(ValueError, match="no larger than size"):
        lax.top_k(sample(3), 4)


def test_results_that_nobody_reads_are_not_made() -> None:
    """The kernel of an argsort has no buffer for the sorted keys."""
    keys = np.random.default_rng(0).normal(size=300).astype(np.float32)
    order = tetrax.jit(lambda x: lax.sort((x, lax.iota(np.int32, 300)), num_keys=1)[1])
    np.testing.assert_array_equal(order(keys), np.argsort(keys, kind="stable"))
    text = order.lower(keys).as_text("kernels")
    (head,) = [line for line in text.splitlines() if "temp i64[300]" in line]
    assert head.count(": out ") == 1
