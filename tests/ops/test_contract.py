"""Products against real JAX: every dtype, axis order and size class."""

from __future__ import annotations

import jax
import ml_dtypes
import pytest
from tests.ops.jax_oracle import check, sample

import numpy as np
import tetrax
from tetrax import errors, lax

MATMUL = (((1,), (0,)), ((), ()))
# name: (dimension numbers, lhs shape, rhs shape)
LAYOUTS = {
    "matmul": (MATMUL, (3, 4), (4, 5)),
    "matmul_large": (MATMUL, (17, 33), (33, 9)),
    "transposed": ((((0,), (1,)), ((), ())), (33, 17), (9, 33)),
    "row": (MATMUL, (1, 70), (70, 33)),
    "column": (MATMUL, (70, 33), (33, 1)),
    "vector": ((((1,), (0,)), ((), ())), (70, 33), (33,)),
    "inner": ((((0,), (0,)), ((), ())), (33,), (33,)),
    "outer": ((((), ()), ((), ())), (33,), (33,)),
    "batched": ((((2,), (1,)), ((0,), (0,))), (3, 9, 10), (3, 10, 11)),
    "batch_last": ((((0,), (1,)), ((2,), (0,))), (10, 9, 3), (3, 10, 11)),
    "two_contracted": ((((1, 3), (0, 1)), ((), ())), (4, 5, 6, 7), (5, 7, 8)),
    "crossed": ((((1, 2), (1, 0)), ((), ())), (4, 5, 6), (6, 5, 8)),
    "two_batches": ((((3,), (1,)), ((0, 2), (0, 2))), (2, 9, 3, 10), (2, 10, 3, 11)),
    "empty": (MATMUL, (3, 0), (0, 2)),
    "no_rows": (MATMUL, (0, 3), (3, 2)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    numbers, lhs, rhs = LAYOUTS[name]
    case = lambda lax, x, y: lax.dot_general(x, y, numbers)
    vmap = name in ("matmul", "batch_last", "crossed", "vector", "inner")
    check(case, sample(*lhs), sample(*rhs, seed=1), vmap=vmap, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["matmul", "matmul_large", "crossed", "batched"])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "complex64", "bfloat16", "float16"])
def test_dtypes(name: str, dtype: str) -> None:
    numbers, lhs, rhs = LAYOUTS[name]
    dtype = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    x, y = sample(*lhs, dtype=dtype), sample(*rhs, dtype=dtype, seed=1)
    case = lambda lax, x, y: lax.dot_general(x, y, numbers)
    which = (0, 1) if dtype.kind == "c" else ()
    # Results of narrow floats are rounded once from float32 sums that differ in their last bits.
    narrow = dtype.itemsize == 2 and dtype.kind in "fV"
    rtol, atol = (1e-2, 2e-2) if narrow else (1e-4, 1e-4)
    check(case, x, y, differentiate=which, vmap=False, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    ("lhs", "rhs", "preferred"),
    [
        ("int8", "int8", "int32"),
        ("bfloat16", "bfloat16", "float32"),
        ("float16", "float32", None),
        ("float32", "float32", "bfloat16"),
        ("int8", "float32", None),
        ("float32", "complex64", None),
        ("bool", "bool", None),
    ],
)
def test_preferred(lhs: str, rhs: str, preferred: str | None) -> None:
    lhs, rhs = (getattr(ml_dtypes, name, name) for name in (lhs, rhs))
    preferred = preferred and getattr(ml_dtypes, preferred, preferred)
    for rows in (3, 33):
        x, y = sample(rows, 17, dtype=lhs), sample(17, 9, dtype=rhs, seed=1)
        case = lambda lax, x, y: lax.dot_general(x, y, MATMUL, preferred_element_type=preferred)
        check(case, x, y, differentiate=(), vmap=False, rtol=2e-2, atol=2e-2)


def test_mixed_derivatives() -> None:
    x, y = sample(3, 17, dtype="float16"), sample(17, 9, seed=1)
    check(lambda lax, x, y: lax.dot_general(x, y, MATMUL), x, y, vmap=False, rtol=2e-2, atol=2e-2)


def test_float64() -> None:
    tetrax.config.update("jax_enable_x64", True)
    try:
        x, y = sample(70, 300, dtype="float64"), sample(300, 50, dtype="float64", seed=1)
        got = np.asarray(tetrax.jit(lambda x, y: lax.dot(x, y))(x, y))
        want = x.astype(np.longdouble) @ y.astype(np.longdouble)
        # A sum of 300 products of size about 1 in float64.
        assert got.dtype == np.float64 and np.abs(got - want).max() < 1e-12
    finally:
        tetrax.config.update("jax_enable_x64", False)


def test_dot_and_batch_matmul() -> None:
    check(lambda lax, x, y: lax.dot(x, y), sample(3, 4), sample(4, seed=1), vmap=False)
    check(lambda lax, x, y: lax.dot(x, y), sample(4), sample(4, seed=1), vmap=False)
    case = lambda lax, x, y: lax.batch_matmul(x, y, precision="highest")
    check(case, sample(2, 3, 4), sample(2, 4, 5, seed=1), vmap=False)


def test_second_derivatives() -> None:
    x = sample(4, 4)
    energy = lambda x: lax.reduce_sum_p.bind(lax.dot(lax.sin(x), x), axes=(0, 1), out_sharding=None)
    grad = tetrax.grad(energy)
    direction = sample(4, 4, seed=3)
    _, got = tetrax.jvp(grad, (x,), (direction,))
    step = 1e-2
    want = (np.asarray(grad(x + step * direction)) - np.asarray(grad(x - step * direction))) / 2e-2
    # Central differences in float32 with step 1e-2.
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("numbers", "lhs", "rhs", "message"),
    [
        (MATMUL, (3, 4), (5, 6), "contracting dimensions must have the same shape"),
        ((((1,), (1,)), ((0,), (0,))), (3, 4), (2, 4), "batch dimensions must have the same"),
        ((((1,), (0,)), ((1,), (1,))), (3, 4), (4, 4), "distinct"),
        ((((5,), (0,)), ((), ())), (3, 4), (4, 4), "must be axes"),
    ],
)
def test_errors(numbers, lhs, rhs, message: str) -> None:
    with pytest.raises(errors.ShapeError, match=message):
        lax.dot_general(sample(*lhs), sample(*rhs), numbers)


def test_dtype_errors() -> None:
    with pytest.raises(errors.ShapeError, match="narrower"):
        lax.dot_general(
            sample(3, 4, dtype="int32"),
            sample(4, 4, dtype="int32"),
            MATMUL,
            preferred_element_type="int8",
        )
    with pytest.raises(ValueError, match="Precision"):
        lax.dot(sample(3), sample(3), precision="exact")


def test_ragged_dot() -> None:
    sizes = np.array([2, 0, 3], "int32")
    case = lambda lax, x, y: lax.ragged_dot(x, y, jax.numpy.asarray(sizes))
    x, y = sample(6, 4), sample(3, 4, 5, seed=1)
    want = case(jax.lax, x, y)
    for run in (lambda f: f, tetrax.jit):
        got = run(lambda x, y: lax.ragged_dot(x, y, sizes))(x, y)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    with pytest.raises(errors.ShapeError, match="ragged_dot needs shapes"):
        lax.ragged_dot(x, y, np.array([1], "int32"))
