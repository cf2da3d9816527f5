"""Indexing outside transformations: the same as inside them, where NumPy does it and where not."""

from __future__ import annotations

import warnings

import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax.numpy import _index_eager

X = np.arange(12, dtype=np.float32).reshape(4, 3)
ROWS, FAR = np.array([0, 3, -1]), np.array([0, 9, -9])
INDICES = {
    "integer": 2,
    "negative": -1,
    "outside": 9,
    "far below": -9,
    "slice": slice(1, 3),
    "steps": (slice(None, None, -2), slice(0, 5)),
    "axes": (None, 1, ..., None),
    "rows": ROWS,
    "rows outside": FAR,
    "unsigned": ROWS.astype(np.uint8) % 4,
    "pairs": (ROWS, np.array([0, 1, 2])),
    "mixed": (slice(None), ROWS % 3),
    "mask": X > 4,
    "mask of rows": np.array([True, False, True, True]),
    "scalar array": np.array(1),
    "outside in a tuple": (9, slice(None)),
}


def ours(index):
    """The index with our arrays in the place of NumPy's."""
    if isinstance(index, tuple):
        return tuple(map(ours, index))
    return jnp.asarray(index) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("index", [pytest.param(v, id=k) for k, v in INDICES.items()])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
def test_reading_is_as_under_jit(index, dtype):
    x = jnp.asarray(X).astype(dtype)
    expected = tetrax.jit(lambda x: x[index])(x)
    for given in (index, ours(index)):
        found = x[given]
        assert found.aval is expected.aval
        np.testing.assert_array_equal(
            np.asarray(found).astype(np.float32), np.asarray(expected).astype(np.float32)
        )


@pytest.mark.parametrize("index", [pytest.param(v, id=k) for k, v in INDICES.items()])
@pytest.mark.parametrize("operation", ["set", "add", "subtract", "multiply", "min", "max"])
@pytest.mark.parametrize("values", [2, 2.5, np.float32([[1]]), np.float32([1, 2, 3]), True])
def test_changing_is_as_under_jit(index, operation, values):
    def change(x, index):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(x.at[index], operation)(values)

    for dtype in ("float32", "int32", "bfloat16"):
        x = jnp.asarray(X).astype(dtype)
        try:
            expected = tetrax.jit(lambda x: change(x, index))(x)
        except Exception as error:
            with pytest.raises(type(error)):
                change(x, ours(index))
            continue
        for given in (index, ours(index)):
            found = change(x, given)
            assert found.aval is expected.aval
            np.testing.assert_array_equal(
                np.asarray(found).astype(np.float32), np.asarray(expected).astype(np.float32)
            )
        np.testing.assert_array_equal(np.asarray(x).astype(np.float32), X)


def test_values_of_another_dtype_warn_every_time():
    x = jnp.arange(3)
    for _ in range(3):
        with pytest.warns(FutureWarning, match="incompatible types"):
            x.at[0].set(1.5)


def test_what_is_read_does_not_follow_the_source():
    x = jnp.asarray(X) * 1
    first, whole = x[0], x[:]
    x.delete()
    np.testing.assert_array_equal(first, X[0])
    np.testing.assert_array_equal(whole, X)


def test_a_small_part_keeps_no_large_array_alive():
    large = jnp.asarray(np.ones((1000, 1000), np.float32))
    part, most = large[:3], large[1:]
    assert np.asarray(part).base is None
    assert np.asarray(most).base is not None


def test_results_cannot_be_written():
    x = jnp.asarray(X)
    for part in (x[0], x[:2], x[1, 2], x[jnp.asarray(ROWS)], x.at[0].set(1)):
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(part)[...] = 0


def test_iteration():
    x = jnp.asarray(X)
    rows = list(x)
    assert [row.shape for row in rows] == [(3,)] * 4
    np.testing.assert_array_equal(np.stack(rows), X)
    a, b, c = jnp.float32(1) * np.arange(3)
    assert [float(a), float(b), float(c)] == [0, 1, 2]
    with pytest.raises(TypeError):
        iter(jnp.float32(1))


def test_typed_keys():
    keys = tetrax.random.split(tetrax.random.key(0), 4)
    assert keys[1].dtype == keys.dtype
    assert (tetrax.random.key_data(keys[1]) == tetrax.random.key_data(keys)[1]).all()
    assert (tetrax.random.key_data(keys[1:3]) == tetrax.random.key_data(keys)[1:3]).all()


def test_what_numpy_takes_and_we_do_not():
    x = jnp.asarray(X)
    assert _index_eager.read(x, [0, 1]) is None
    assert _index_eager.read(x, 1.0) is None
    assert _index_eager.read(x, True) is None
    assert _index_eager.read(x, 9) is None
    with pytest.raises(TypeError):
        x[[0, 1]]


def test_nothing_is_direct_while_settings_watch():
    x = jnp.asarray(X)
    assert _index_eager.is_direct(x)
    with tetrax.debug_nans(True):
        assert not _index_eager.is_direct(x)
        np.testing.assert_array_equal(x[1], X[1])
    traced = []
    tetrax.jit(lambda x: traced.append(_index_eager.is_direct(x)) or x)(x)
    assert traced == [False]
