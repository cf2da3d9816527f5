"""Indexing and changed copies against NumPy, static and traced."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import errors

ROWS = np.array([0, 1, -1])
COLUMN = np.array([[0], [1]])
ARRAYS = {
    "vector": np.arange(5),
    "cube": np.arange(24.0, dtype=np.float32).reshape(2, 3, 4),
    "mask": np.arange(12).reshape(3, 4) > 5,
    "four": np.arange(360).reshape(3, 4, 5, 6),
}
INDICES = [
    0,
    -1,
    (0, 1),
    (slice(None), 1),
    (..., 0),
    None,
    (None, 0),
    (0, None),
    slice(1, None),
    slice(None, None, -1),
    slice(4, 0, -2),
    slice(10, 20),
    (slice(None), slice(1, 3)),
    (..., slice(None, None, 2)),
    ...,
    (),
    ROWS,
    (COLUMN, ROWS),
    (slice(None), ROWS),
    (ROWS, slice(None), ROWS),
    (ROWS, None, ROWS),
    (0, ROWS),
    (0, slice(None), ROWS),
    (ROWS, slice(None), 0),
    (..., ROWS),
    (slice(None, None, -1), ROWS),
    (ROWS, slice(1, None, 2)),
    True,
    False,
    (True, 0),
    (ROWS, True),
    ([0, 1],),
    ([0, 1], [1, 0]),
    (None, ROWS, None),
    (None, slice(1, 2), None, 0),
    np.int8(1),
    (0, 1, 2),
    (np.array([], int),),
    (slice(2, 2), ROWS),
    (COLUMN, slice(None), COLUMN),
    (slice(None), COLUMN, COLUMN),
]


def is_valid(array: np.ndarray, index: object) -> bool:
    """Tell whether NumPy takes the index for an array of this rank."""
    try:
        array[index]
    except IndexError:
        return False
    return True


CASES = [
    pytest.param(array, index, id=f"{name}-{number}")
    for name, array in ARRAYS.items()
    for number, index in enumerate(INDICES)
    if is_valid(array, index)
]
NUMBERS = [case for case in CASES if case.values[0].dtype != bool]


@pytest.mark.parametrize(("array", "index"), CASES)
def test_getitem(array, index):
    expected = array[index]
    got = jnp.asarray(array)[index]
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)


def is_integer(item: object) -> bool:
    whole = isinstance(item, (int, np.integer)) and not isinstance(item, bool)
    return whole or (isinstance(item, np.ndarray) and item.dtype != bool)


@pytest.mark.parametrize(("array", "index"), CASES)
def test_getitem_with_traced_indices(array, index):
    expected = array[index]
    items = index if isinstance(index, tuple) else (index,)
    places = [i for i, item in enumerate(items) if is_integer(item)]
    if not places:
        return

    def take(x, *values):
        full = list(items)
        for place, value in zip(places, values, strict=True):
            full[place] = value
        return x[tuple(full)]

    got = tetrax.jit(take)(jnp.asarray(array), *(items[i] for i in places))
    np.testing.assert_array_equal(got, expected)


OPERATIONS = {
    "set": lambda old, new: new,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("array", "index"), NUMBERS)
def test_at(array, index, operation):
    taken = array[index]
    places = np.arange(array.size).reshape(array.shape)[index]
    if operation == "set" and len(np.unique(places)) != places.size:
        return  # which of several values stays is not defined
    values = (np.arange(taken.size).reshape(taken.shape) % 7 - 3).astype(array.dtype)
    expected = array.copy().reshape(-1)
    for place, value in zip(places.reshape(-1), values.reshape(-1), strict=True):
        expected[place] = OPERATIONS[operation](expected[place], value)
    reference = getattr(jnp.asarray(array).at[index], operation)(values)
    np.testing.assert_array_equal(reference, expected.reshape(array.shape))


def test_positions_outside_the_array():
    x = jnp.arange(3.0)
    outside = jnp.array([5, -7, -1])
    np.testing.assert_array_equal(x[outside], [2, 0, 2])
    np.testing.assert_array_equal(x.at[outside].get(mode="fill"), [np.nan, np.nan, 2])
    np.testing.assert_array_equal(x.at[outside].get(mode="fill", fill_value=9), [9, 9, 2])
    np.testing.assert_array_equal(x.at[outside].set(9), [0, 1, 9])
    np.testing.assert_array_equal(x.at[outside].set(9, mode="clip"), [9, 1, 9])
    np.testing.assert_array_equal(jnp.take(x, outside), [np.nan, np.nan, 2])
    np.testing.assert_array_equal(jnp.take(x, outside, mode="wrap"), [2, 2, 2])
    assert x[5] == 2 and x[-9] == 0


def test_index_narrower_than_the_axis():
    # Counting from the end must not overflow the index's own dtype.
    assert tetrax.jit(lambda i: jnp.arange(300)[i])(jnp.int8(-1)) == 299


def test_repeated_positions_add_up():
    x = jnp.zeros(3).at[jnp.array([0, 0, 2])].add(jnp.array([1.0, 2.0, 4.0]))
    np.testing.assert_array_equal(x, [3, 0, 4])
    x = jnp.full(3, 8.0).at[jnp.array([0, 0])].divide(2)
    np.testing.assert_array_equal(x, [2, 8, 8])


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        ("a", TypeError, "string"),
        (1.0, TypeError, "integer or boolean"),
        ([0, 1], TypeError, "non-tuple"),
        ((0, 0), IndexError, "Too many indices"),
        ((..., ...), IndexError, "ellipsis"),
        (slice(None, None, 0), ValueError, "zero"),
        (object(), IndexError, "valid indices"),
        (np.array([True, False]), IndexError, "boolean index"),
    ],
)
def test_refused_indices(index, error, text):
    with pytest.raises(error, match=text):
        jnp.arange(3)[index]


def test_traced_indices_that_decide_a_shape():
    with pytest.raises(errors.NonConcreteBooleanIndexError, match="where"):
        tetrax.jit(lambda x: x[x > 0])(jnp.ones(3))
    with pytest.raises(IndexError, match="dynamic_slice"):
        tetrax.jit(lambda x, i: x[i:])(jnp.ones(3), 1)
    with pytest.raises(errors.ConcretizationTypeError, match="size"):
        tetrax.jit(jnp.nonzero)(jnp.ones(3))


def test_assignment_in_place_names_at():
    with pytest.raises(errors.InPlaceAssignmentError, match=r"\.at\[index\]"):
        jnp.zeros(3)[0] = 1


def test_gradients_reach_the_elements_taken():
    gradient = tetrax.grad(lambda x: (x[jnp.array([0, 0, 2])] ** 2).sum())(jnp.arange(1.0, 4.0))
    np.testing.assert_array_equal(gradient, [4, 0, 6])
    gradient = tetrax.grad(lambda y: (jnp.ones(3).at[1].set(y) ** 2).sum())(3.0)
    assert gradient == 6


axis_slices = st.builds(
    slice,
    st.none() | st.integers(-6, 6),
    st.none() | st.integers(-6, 6),
    st.none() | st.integers(-3, 3).filter(bool),
)
items = st.one_of(
    axis_slices,
    st.none(),
    st.integers(-3, 2),
    st.lists(st.integers(-3, 2), min_size=1, max_size=3).map(np.array),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(items, max_size=5))
def test_random_indices(parts):
    array = np.arange(3 * 4 * 5).reshape(3, 4, 5)
    try:
        expected = array[tuple(parts)]
    except IndexError:
        return
    np.testing.assert_array_equal(jnp.asarray(array)[tuple(parts)], expected)
