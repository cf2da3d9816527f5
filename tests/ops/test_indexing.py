"""Gather and scatter against real JAX, with duplicate and out-of-bounds indices."""

from __future__ import annotations

import jax
import pytest
from tests.ops.jax_oracle import check, sample

import numpy as np
import tetrax
from tetrax import errors, lax
from tetrax.config import config

ROWS = ((1,), (0,), (0,))
# name: (dimension numbers, operand shape, indices shape, window)
LAYOUTS = {
    "rows": (ROWS, (7, 5), (4, 1), (1, 5)),
    "columns": (((0,), (1,), (1,)), (7, 5), (3, 1), (7, 1)),
    "points": (((), (0, 1), (1, 0)), (7, 5), (2, 3, 2), (1, 1)),
    "windows": (((1, 2), (), (0, 1)), (7, 5), (3, 2), (2, 3)),
    "mixed": (((0, 2), (1,), (1, 0)), (7, 5, 2), (4, 2), (3, 1, 2)),
    "batching": (((2,), (1,), (1,), (0,), (0,)), (3, 6, 4), (3, 2, 1), (1, 1, 4)),
    "batching_inner": (((1,), (0,), (0,), (2,), (1,)), (5, 4, 3), (2, 3, 1), (1, 4, 1)),
    "scalar": (((0,), (0,), (0,)), (7, 5), (1,), (1, 5)),
}
MODES = ["clip", "fill", "promise_in_bounds"]


def _indices(name: str, inside: bool, dtype: str = "int32") -> np.ndarray:
    dims, shape, indices, window = LAYOUTS[name]
    rng = np.random.default_rng(4)
    bound = [shape[axis] - window[axis] + 1 for axis in dims[2]]
    spread = 0 if inside else 3
    columns = [rng.integers(-spread, n + spread, indices[:-1]) for n in bound]
    return np.stack(columns, -1).astype(dtype)


def _updates_shape(name: str) -> tuple[int, ...]:
    dims, shape, indices, window = LAYOUTS[name]
    operand = jax.ShapeDtypeStruct(shape, "float32")
    ids = jax.ShapeDtypeStruct(indices, "int32")
    numbers = jax.lax.GatherDimensionNumbers(*dims)
    return jax.eval_shape(lambda x, i: jax.lax.gather(x, i, numbers, window), operand, ids).shape


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_gather(name: str, mode: str) -> None:
    dims, shape, _, window = LAYOUTS[name]
    indices = _indices(name, inside=mode == "promise_in_bounds")

    def case(lax, x, i):
        return lax.gather(x, i, lax.GatherDimensionNumbers(*dims), window, mode=mode)

    check(case, sample(*shape), indices, rtol=0, atol=0)
    check(case, sample(*shape, dtype="int8"), indices.astype("int8"), vmap=False)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool", "complex64", "bfloat16"])
def test_gather_fill(dtype: str) -> None:
    dtype = jax.numpy.dtype(dtype)
    x = sample(4, dtype="float32").astype(dtype)
    ids = np.array([[0], [9], [-2]], "int32")

    def case(lax, x, i):
        return lax.gather(x, i, lax.GatherDimensionNumbers((), (0,), (0,)), (1,), mode="fill")

    check(case, x, ids, differentiate=(), vmap=False)


SCATTERS = ["scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max"]


# Every mode and layout for two operations; the others share all but their arithmetic.
SCATTER_CASES = [
    *((o, n, m) for o in ("scatter", "scatter_add") for n in LAYOUTS for m in ("clip", "fill")),
    *((o, n, "fill") for o in SCATTERS[2:] for n in ("rows", "windows", "batching")),
    *((o, "points", m) for o in SCATTERS for m in ("clip", "promise_in_bounds")),
]


@pytest.mark.parametrize(("operation", "name", "mode"), SCATTER_CASES)
def test_scatter(operation: str, name: str, mode: str) -> None:
    dims, shape, _, _ = LAYOUTS[name]
    indices = _indices(name, inside=mode == "promise_in_bounds")
    updates = sample(*_updates_shape(name), seed=3)
    # Real JAX differentiates products with respect to updates only when indices are unique, and
    # its derivatives of clipped minima and maxima are infinite.
    which, vmap = (0,) if operation == "scatter_mul" else (0, 2), True
    if mode == "clip" and operation in ("scatter_min", "scatter_max"):
        which = ()

    def case(lax, x, i, u):
        scatter = getattr(lax, operation)
        return scatter(x, i, u, lax.ScatterDimensionNumbers(*dims), mode=mode)

    if operation == "scatter" and name in ("windows", "mixed"):
        which, vmap = (), False  # overlapping windows: which update wins is not defined there
    vmap = vmap and mode == "clip" and operation == "scatter_add"
    check(case, sample(*shape), indices, updates, differentiate=which, vmap=vmap, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "uint32", "complex64", "float16", "bfloat16"])
@pytest.mark.parametrize("operation", SCATTERS)
def test_scatter_dtypes(operation: str, dtype: str) -> None:
    if dtype == "complex64" and operation in ("scatter_min", "scatter_max"):
        pytest.skip("complex numbers are not ordered")
    dtype = jax.numpy.dtype(dtype)
    x, updates = (sample(n, dtype=dtype, seed=n) for n in (6, 9))
    ids = np.array([[0], [1], [5], [6], [-1], [3], [2], [4], [4]], "int32")

    def case(lax, x, i, u):
        return getattr(lax, operation)(x, i, u, lax.ScatterDimensionNumbers((), (0,), (0,)))

    check(case, x, ids, updates, differentiate=(), vmap=False, rtol=2e-2, atol=2e-2)


def test_duplicate_updates_in_order() -> None:
    """The last update wins, and only it has a derivative."""
    dims = lax.ScatterDimensionNumbers((), (0,), (0,))
    ids = np.array([[1], [0], [1]], "int32")

    def run(u):
        return lax.scatter(np.zeros(3, "float32"), ids, u, dims)

    updates = np.array([1.0, 2.0, 3.0], "float32")
    out, pull = tetrax.vjp(run, updates)
    assert np.array_equal(out, [2, 3, 0])
    assert np.array_equal(pull(np.ones(3, "float32"))[0], [0, 1, 1])
    assert np.array_equal(tetrax.jit(run)(updates), out)


def test_scatter_mul_unique() -> None:
    def case(lax, x, i, u):
        dims = lax.ScatterDimensionNumbers((), (0,), (0,))
        return lax.scatter_mul(x, i, u, dims, unique_indices=True)

    ids = np.array([[2], [0]], "int32")
    check(case, sample(4), ids, sample(2, seed=1), vmap=False)


def test_scatter_apply() -> None:
    def case(lax, x, i):
        dims = lax.ScatterDimensionNumbers((), (0,), (0,))
        return lax.scatter_apply(x, i, lambda v: lax.sin(v), dims, update_shape=(2,))

    check(case, sample(4), np.array([[2], [9]], "int32"), differentiate=(), vmap=False)


def test_index_take() -> None:
    ids = [np.array([0, -1, 5], "int32"), np.array([1, 2, -7], "int32")]
    case = lambda lax, x: lax.index_take(x, [jax.numpy.asarray(i) for i in ids], (0, 2))
    x = sample(3, 2, 4)
    want = case(jax.lax, x)
    assert np.array_equal(lax.index_take(x, ids, (0, 2)), want)


def test_gather_in_place_of_large_arrays() -> None:
    """Rows of a matrix at many indices, as an embedding does it."""
    x, ids = sample(100, 33), np.random.default_rng(0).integers(0, 100, (500, 1)).astype("int32")
    dims = lax.GatherDimensionNumbers((1,), (0,), (0,))
    run = lambda x, i: lax.gather(x, i, dims, (1, 33), mode="clip")
    assert np.array_equal(tetrax.jit(run)(x, ids), x[ids[:, 0]])


@pytest.mark.parametrize(
    ("dims", "window", "message"),
    [
        (((1,), (0,), (2,)), (1, 5), "start_index_map"),
        (((5,), (0,), (0,)), (1, 5), "offset_dims"),
        (((1,), (0,), (0,)), (2, 5), "window size 1"),
        (((1,), (0,), (0,)), (1, 6), "within the operand"),
        (((1,), (), (0,)), (1, 5), "offset, a collapsed"),
    ],
)
def test_errors(dims, window, message: str) -> None:
    numbers = lax.GatherDimensionNumbers(*dims)
    with pytest.raises(errors.ShapeError, match=message):
        lax.gather(sample(7, 5), np.zeros((4, 1), "int32"), numbers, window)


def test_scatter_needs_matching_updates() -> None:
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    with pytest.raises(errors.ShapeError, match="updates must have shape"):
        lax.scatter_add(sample(7, 5), np.zeros((4, 1), "int32"), sample(3, 5), numbers)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(("into", "updates"), [(7, 70_001), (5_000, 80_003), (70_000, 600_011)])
def test_sums_that_tasks_share(dtype: str, into: int, updates: int) -> None:
    """Every size of result has its own way to share the updates; indices outside are dropped."""
    generator = np.random.default_rng(into)
    where = generator.integers(-2 * into, 2 * into, updates).astype(np.int32)
    values = generator.integers(-50, 50, updates).astype(dtype)
    start = np.ones(into, dtype)
    found = {threads: _summed(start, where, values, threads) for threads in (1, 2, 7)}
    counted = np.where(where < 0, where + into, where)
    inside = (counted >= 0) & (counted < into)
    expected = start.copy()
    np.add.at(expected, counted[inside], values[inside])  # whole numbers: exact in float32 too
    for result in found.values():
        np.testing.assert_array_equal(result, expected)


def _summed(start: np.ndarray, where: np.ndarray, values: np.ndarray, threads: int) -> np.ndarray:
    with type(config).num_threads(threads):
        return np.asarray(tetrax.jit(lambda x, i, v: x.at[i].add(v))(start, where, values))


@pytest.mark.parametrize("index", [0, -1, 5, np.iinfo(np.int64).max, np.iinfo(np.int64).min])
def test_extreme_indices_are_outside(index: int) -> None:
    with tetrax.experimental.enable_x64():
        i = np.array([index], np.int64)
        three = tetrax.jit(lambda x, i: x.at[i].add(1.0))(np.zeros(3), i)
        assert three.sum() == (index in (0, -1))
