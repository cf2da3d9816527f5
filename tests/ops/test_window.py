"""Window reductions and their derivatives against real JAX."""

from __future__ import annotations

import jax
import ml_dtypes
import pytest
from tests.ops.jax_oracle import check, sample

import numpy as np
import tetrax
from tetrax import errors, lax

# name: (shape, window, strides, padding, base dilation, window dilation)
GEOMETRIES = {
    "line": ((9,), (3,), (1,), "VALID", None, None),
    "pooling": ((2, 6, 6, 3), (1, 2, 2, 1), (1, 2, 2, 1), "VALID", None, None),
    "same": ((1, 7, 6), (1, 3, 2), (1, 2, 1), "SAME", None, None),
    "padded": ((7, 5), (2, 3), (1, 2), ((1, 0), (2, 3)), None, None),
    "overlap": ((8,), (4,), (1,), ((3, 0),), None, None),
    "base": ((5,), (3,), (2,), ((1, 2),), (2,), None),
    "dilated": ((9,), (3,), (2,), ((2, 1),), None, (2,)),
    "empty": ((2, 1), (3, 1), (1, 1), "VALID", None, None),
}


def _case(name: str, operation: str, start: float):
    _, *geometry = GEOMETRIES[name]
    return lambda lax, x: lax.reduce_window(x, start, getattr(lax, operation), *geometry)


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize(
    ("operation", "start"), [("add", 0.0), ("max", -np.inf), ("min", np.inf), ("mul", 1.0)]
)
def test_floats(name: str, operation: str, start: float) -> None:
    x = sample(*GEOMETRIES[name][0])
    # JAX has no gradients of dilated maxima, nor of general reductions.
    no_gradient = operation == "mul" or (operation != "add" and name in ("base", "dilated"))
    which = () if no_gradient else (0,)
    check(_case(name, operation, start), x, differentiate=which, vmap=name in ("same", "padded"))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bfloat16"])
@pytest.mark.parametrize("operation", ["add", "max", "min"])
def test_dtypes(dtype: str, operation: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = sample(9, dtype=dtype)
    extreme = jax.numpy.finfo if dtype.kind == "V" else jax.numpy.iinfo
    starts = {"add": 0, "max": extreme(dtype).min, "min": extreme(dtype).max}
    start = np.asarray(starts[operation]).astype(dtype)
    case = lambda lax, x: lax.reduce_window(x, start, getattr(lax, operation), (3,), (1,), "SAME")
    check(case, x, differentiate=(), vmap=False)


def test_ties_go_to_the_first() -> None:
    x = np.array([1, 2, 2, 0, 2, 2], "float32")
    check(lambda lax, x: lax.reduce_window(x, -np.inf, lax.max, (3,)), x, vmap=False)


def test_nan() -> None:
    x = np.array([1, np.nan, 2, 0, 2, 2], "float32")
    run = lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,))
    for wrapped in (run, tetrax.jit(run)):
        assert np.isnan(np.asarray(wrapped(x))).tolist() == [True, True, False, False, False]


def test_gradients_of_base_dilated_maxima() -> None:
    """Against the same windows over an operand spread out by hand."""
    x = sample(5)

    def direct(x):
        out = lax.reduce_window(x, -np.inf, lax.max, (3,), (2,), ((1, 2),), (2,))
        return lax.reduce_sum(lax.sin(out), (0,))

    def spread(x):
        wide = lax.pad(x, -np.inf, [(0, 0, 1)])
        out = lax.reduce_window(wide, -np.inf, lax.max, (3,), (2,), ((1, 2),))
        return lax.reduce_sum(lax.sin(out), (0,))

    np.testing.assert_allclose(tetrax.grad(direct)(x), tetrax.grad(spread)(x), rtol=1e-6)


def test_gradients_of_dilated_windows() -> None:
    """Against the same elements taken by a slice for each place of the window."""
    x = sample(9)

    def direct(x):
        out = lax.reduce_window(x, -np.inf, lax.max, (3,), (2,), ((0, 0),), None, (2,))
        return lax.reduce_sum(lax.sin(out), (0,))

    def by_slices(x):
        first, second, third = (lax.slice(x, (i,), (i + 5,), (2,)) for i in (0, 2, 4))
        return lax.reduce_sum(lax.sin(lax.max(lax.max(first, second), third)), (0,))

    np.testing.assert_allclose(tetrax.grad(direct)(x), tetrax.grad(by_slices)(x), rtol=1e-6)
    np.testing.assert_allclose(tetrax.jit(tetrax.grad(direct))(x), tetrax.grad(direct)(x))


def test_any_function_and_start() -> None:
    x = sample(9)
    case = lambda lax, x: lax.reduce_window(x, 2.0, lax.add, (3,), (2,), "SAME")
    check(case, x, differentiate=(), vmap=False)
    case = lambda lax, x: lax.reduce_window(
        x, 0.0, lambda a, b: lax.add(lax.mul(a, np.float32(1)), b), (3,)
    )
    check(case, x, differentiate=(), vmap=False)


def test_trees() -> None:
    def case(lax, x, y):
        both = lambda a, b: (lax.add(a[0], b[0]), lax.max(a[1], b[1]))
        return lax.reduce_window((x, y), (np.float32(0), np.float32(-9)), both, (3,))

    check(case, sample(9), sample(9, seed=1), differentiate=(), vmap=False)


def test_shapes() -> None:
    for shape, window, strides, padding, base, inner in GEOMETRIES.values():
        if isinstance(padding, str):
            padding = lax.padtype_to_pads(shape, window, strides, padding)
        got = lax.reduce_window_shape_tuple(shape, window, strides, padding, base, inner)
        want = jax.lax.reduce_window_shape_tuple(shape, window, strides, padding, base, inner)
        assert got == tuple(want)
    for padding in ("SAME", "SAME_LOWER", "VALID"):
        args = ((7, 6), (3, 2), (2, 3), padding)
        assert lax.padtype_to_pads(*args) == jax.lax.padtype_to_pads(*args)


def test_errors() -> None:
    with pytest.raises(errors.ShapeError, match="window_dimensions"):
        lax.reduce_window(sample(3, 3), 0.0, lax.add, (2,), (1,), ((0, 0),))
    with pytest.raises(RuntimeError, match="padding type"):
        lax.reduce_window(sample(3), 0.0, lax.add, (2,), (1,), "HALF")
