"""Reductions and running reductions against real JAX and NumPy."""

from __future__ import annotations

import jax
import ml_dtypes
import pytest
from tests.ops.jax_oracle import check, sample

import numpy as np
import tetrax
from tetrax import errors, lax

BF16 = np.dtype(ml_dtypes.bfloat16)
REDUCTIONS = ["reduce_sum", "reduce_prod", "reduce_max", "reduce_min"]
SHAPES = [((7,), (0,)), ((3, 5), (0,)), ((3, 13), (1,)), ((2, 3, 4), (0, 2)), ((2, 3, 4), (1,))]


@pytest.mark.parametrize("operation", REDUCTIONS)
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_floats(operation: str, shape, axes) -> None:
    case = lambda lax, x: getattr(lax, operation)(x, axes)
    check(case, sample(*shape), vmap=shape == (2, 3, 4), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("operation", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["int32", "uint8", "float16", "bfloat16", "complex64", "bool"])
def test_dtypes(operation: str, dtype: str) -> None:
    if dtype == "bool" and operation in ("reduce_sum", "reduce_prod"):
        pytest.skip("not defined on bool")
    dtype = BF16 if dtype == "bfloat16" else np.dtype(dtype)
    case = lambda lax, x: getattr(lax, operation)(x, (1,))
    # Narrow results are rounded once from float32.
    rtol = 2e-2 if dtype.itemsize == 2 else 1e-5
    check(case, sample(3, 6, dtype=dtype), differentiate=(), vmap=False, rtol=rtol)


@pytest.mark.parametrize("operation", ["reduce_and", "reduce_or", "reduce_xor"])
@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8"])
def test_logical(operation: str, dtype: str) -> None:
    check(lambda lax, x: getattr(lax, operation)(x, (0,)), sample(5, 3, dtype=dtype))


@pytest.mark.parametrize("operation", REDUCTIONS)
def test_empty(operation: str) -> None:
    check(lambda lax, x: getattr(lax, operation)(x, (1,)), sample(3, 0), vmap=False)
    check(lambda lax, x: getattr(lax, operation)(x, (0,)), sample(3, 0), vmap=False)


def test_ties_share() -> None:
    x = np.array([2.0, 1.0, 2.0, 2.0], "float32")
    for operation, want in (
        (lax.reduce_max, [1 / 3, 0, 1 / 3, 1 / 3]),
        (lax.reduce_min, [0, 1, 0, 0]),
    ):
        got = tetrax.grad(lambda x, f=operation: f(x, (0,)))(x)
        np.testing.assert_allclose(got, np.array(want, "float32"))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_nan_propagates(dtype: str) -> None:
    x = np.array([[1, np.nan, 3, np.inf], [1, 2, np.nan, np.nan], [0, 1, 2, 3]], dtype)
    for run in (lambda f: f, tetrax.jit):
        assert np.isnan(run(lambda x: lax.reduce_max(x, (1,)))(x)).tolist() == [True, True, False]
        assert np.isnan(run(lambda x: lax.reduce_min(x, (1,)))(x)).tolist() == [True, True, False]
        assert run(lambda x: lax.argmax(x, 1, "int32"))(x).tolist() == [1, 2, 3]
        assert run(lambda x: lax.argmin(x, 1, "int32"))(x).tolist() == [1, 2, 0]


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "uint8", "bfloat16"])
@pytest.mark.parametrize("axis", [0, 1])
def test_positions(dtype: str, axis: int) -> None:
    dtype = BF16 if dtype == "bfloat16" else dtype
    x = (sample(33, 9) * 2).astype("int8").astype(dtype)  # with ties
    check(lambda lax, x: lax.argmax(x, axis, "int32"), x, differentiate=())
    check(lambda lax, x: lax.argmin(x, axis, "uint8"), x, differentiate=(), vmap=False)


def test_product_gradients_at_zeros() -> None:
    for x in ([3.0, 0.0, 2.0, 5.0], [3.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 1.0]):
        check(lambda lax, x: lax.reduce_prod(x, (0,)), np.array(x, "float32"), vmap=False)
        check(lambda lax, x: lax.cumprod(x, 0), np.array(x, "float32"), vmap=False)


def test_second_derivative_of_product() -> None:
    x = np.array([2.0, 0.0, 3.0], "float32")
    got = tetrax.hessian(lambda x: lax.reduce_prod(x, (0,)))(x)
    np.testing.assert_array_equal(got, [[0, 3, 0], [3, 0, 2], [0, 2, 0]])


CUMULATIVE = ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"]


@pytest.mark.parametrize("operation", CUMULATIVE)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((9,), 0), ((3, 5), 0), ((3, 7), 1), ((2, 0), 1)])
def test_cumulative(operation: str, reverse: bool, shape, axis: int) -> None:
    case = lambda lax, x: getattr(lax, operation)(x, axis, reverse)
    check(case, sample(*shape), vmap=shape == (3, 5) and not reverse, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("operation", CUMULATIVE[:4])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "bfloat16", "complex64"])
def test_cumulative_dtypes(operation: str, dtype: str) -> None:
    if dtype == "complex64" and operation in ("cummax", "cummin"):
        pytest.skip("complex numbers are not ordered")
    dtype = BF16 if dtype == "bfloat16" else np.dtype(dtype)
    case = lambda lax, x: getattr(lax, operation)(x, 0)
    which = (0,) if dtype.kind == "c" else ()
    # JAX adds bfloat16 in another order and rounds each partial sum.
    rtol = 5e-2 if dtype is BF16 else 1e-4
    check(case, sample(5, 3, dtype=dtype), differentiate=which, vmap=False, rtol=rtol, atol=5e-2)


def test_cumlogsumexp_infinities() -> None:
    x = np.array([-np.inf, -np.inf, 1.0, 1000.0, 1001.0, -np.inf], "float32")
    check(lambda lax, x: lax.cumlogsumexp(x), x, differentiate=(), vmap=False)
    got = tetrax.grad(lambda x: lax.reduce_sum(lax.cumlogsumexp(x), (0,)))(x[2:])
    want = jax.grad(lambda x: jax.lax.cumlogsumexp(x).sum())(x[2:])
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_recurrence() -> None:
    """Against the loop it stands for, with its derivatives by finite differences."""
    a, b = sample(4, 6), sample(4, 6, seed=1)
    run = lambda a, b: lax.reduce_sum(lax.sin(lax.linear_recurrence(a, b, 1)), (0, 1))
    want = np.zeros((4, 6))
    for n in range(6):
        want[:, n] = (a[:, n] * want[:, n - 1] if n else 0) + b[:, n]
    for wrapped in (run, tetrax.jit(run)):
        np.testing.assert_allclose(wrapped(a, b), np.sin(want).sum(), rtol=1e-4)
    grads = tetrax.grad(run, argnums=(0, 1))(a, b)
    rng = np.random.default_rng(0)
    for i, grad in enumerate(grads):
        direction = rng.normal(size=(4, 6)).astype("float32")
        moved = [
            [x + s * 1e-2 * direction * (j == i) for j, x in enumerate((a, b))] for s in (1, -1)
        ]
        slope = (float(run(*moved[0])) - float(run(*moved[1]))) / 2e-2
        # Central differences in float32.
        np.testing.assert_allclose(
            np.sum(np.asarray(grad) * direction), slope, rtol=3e-2, atol=3e-2
        )


def test_errors() -> None:
    with pytest.raises(ValueError, match="non-empty"):
        lax.argmax(sample(3, 0), 1, "int32")
    with pytest.raises(errors.ShapeError, match="integer"):
        lax.argmax(sample(3), 0, "float32")
    with pytest.raises(errors.ShapeError, match="does not accept"):
        lax.reduce_and(sample(3), (0,))
    with pytest.raises(ValueError, match="duplicate"):
        lax.reduce_max(sample(3, 3), (0, 0))
    with pytest.raises(ValueError, match="out of bounds"):
        lax.cumsum(sample(3), 1)
