"""Planned functions: the same values, types and errors as the ordinary way, call after call."""

from __future__ import annotations

import inspect
import warnings

import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import errors
from tetrax.compiler import planned as module
from tetrax.compiler.planned import planned

F = jnp.asarray(np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3))
I = jnp.arange(-3, 3).reshape(2, 3)
B = I > 0
H = F.astype(jnp.bfloat16)
ROW, COLUMN, SCALAR = F[0], F[:, :1], F[0, 0]
WEAK = jnp.asarray(2.0)

BINARY = {
    "add": jnp.add,
    "subtract": jnp.subtract,
    "multiply": jnp.multiply,
    "divide": jnp.divide,
    "floor_divide": jnp.floor_divide,
    "remainder": jnp.remainder,
    "maximum": jnp.maximum,
    "less": jnp.less,
    "equal": jnp.equal,
    "logical_and": jnp.logical_and,
    "power": jnp.power,
}
OPERANDS = [F, I, B, H, ROW, COLUMN, SCALAR, WEAK, 3, -1, 2.5, -0.0, 0.0, True, np.float32(2), I[0]]


def same(x, y):
    assert x.aval is y.aval, (x.aval, y.aval)
    x, y = _numbers(x), _numbers(y)
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(np.signbit(x), np.signbit(y))


def _numbers(x):
    """The elements in a dtype that NumPy has itself."""
    value = np.asarray(x)
    return value.astype(np.float64) if value.dtype.kind in "bV" else value


def outcome(call):
    """What a call gives, or the type of what it raises."""
    try:
        return call()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", BINARY)
def test_every_call_gives_what_the_first_gave(name):
    function = BINARY[name]
    module.forget_plans()
    for x in OPERANDS:
        for y in OPERANDS:
            first = outcome(lambda x=x, y=y: function(x, y))
            for _ in range(3):
                again = outcome(lambda x=x, y=y: function(x, y))
                if isinstance(first, type):
                    assert again is first
                else:
                    same(again, first)


UNARY = {
    "exp": jnp.exp,
    "abs": jnp.abs,
    "negative": jnp.negative,
    "sum": jnp.sum,
    "sum rows": lambda x: jnp.sum(x, axis=0),
    "sum kept": lambda x: jnp.sum(x, -1, keepdims=True),
    "sum of bytes": lambda x: jnp.sum(x, dtype=jnp.int8),
    "mean": jnp.mean,
    "var": lambda x: jnp.var(x, ddof=1),
    "max": lambda x: jnp.max(x, axis=1),
    "argmax": lambda x: x.argmax(0),
    "cumsum": lambda x: jnp.cumsum(x, 0),
    "reshape": lambda x: x.reshape(3, -1),
    "transpose": lambda x: x.T,
    "product": lambda x: x @ x.T,
    "square": lambda x: x**2,
    "where": lambda x: jnp.where(x > 0, x, 0),
    "clip": lambda x: jnp.clip(x, 0, 1),
    "sort": lambda x: jnp.sort(x, axis=0),
    "like": jnp.zeros_like,
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("x", [F, I, B, H], ids=["float32", "int32", "bool", "bfloat16"])
def test_functions_of_one_array(name, x):
    function = UNARY[name]
    module.forget_plans()
    first = outcome(lambda: function(x))
    for _ in range(3):
        again = outcome(lambda: function(x))
        if isinstance(first, type):
            assert again is first
        else:
            same(again, first)


def test_numbers_that_are_equal_but_not_the_same():
    for _ in range(3):
        assert np.signbit(np.asarray(F * 0.0))[0, 0] != np.signbit(np.asarray(F * -0.0))[0, 0]
        assert (I + 1).dtype == jnp.int32
        assert (I + 1.0).dtype == jnp.float32
        assert (B + True).dtype == jnp.bool_
        assert jnp.sum(I, axis=1).shape == (2,)
        assert jnp.full((2,), 1).dtype == jnp.int32
        assert jnp.full((2,), 1.0).dtype == jnp.float32
        assert jnp.full((2,), True).dtype == jnp.bool_
        assert np.isnan(np.asarray(F + float("nan"))).all()


def test_numbers_that_do_not_fit_raise_every_time():
    for _ in range(4):
        with pytest.raises(OverflowError):
            I + 2**40
        I + 5  # a plan for these types may be there meanwhile


def test_warnings_come_every_time():
    for _ in range(4):
        with pytest.warns(UserWarning, match="float64"):
            jnp.sum(F, dtype="float64")
    with tetrax.numpy_rank_promotion("warn"):
        for _ in range(4):
            with pytest.warns(UserWarning, match="rank promotion"):
                F + ROW


def test_no_warnings_of_numpy():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert np.isinf(np.asarray(jnp.exp(F * 1000))).any()
            assert np.isnan(np.asarray(jnp.log(F))).any()
            assert np.isinf(np.asarray(F / 0)).any()
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        np.float32(1e38) * np.full(3, 10, np.float32)  # ours is NumPy's setting again


def test_settings_are_part_of_the_plan():
    x = jnp.arange(3)
    for _ in range(3):
        assert (x + 1.5).dtype == jnp.float32
        with tetrax.enable_x64(True):
            assert (x + 1.5).dtype == jnp.float64
        with tetrax.numpy_dtype_promotion("strict"), pytest.raises(errors.TypePromotionError):
            x + jnp.float32(1)
        with tetrax.debug_nans(True), pytest.raises(FloatingPointError):
            jnp.log(F)
        jnp.log(F)


def test_deleted_arrays_raise():
    x, y = F + 0, F + 0
    for _ in range(3):
        x + y
    x.delete()
    for _ in range(2):
        with pytest.raises(errors.DonatedBufferError):
            x + y
        with pytest.raises(errors.DonatedBufferError):
            y == x  # noqa: B015


@pytest.mark.parametrize("size", [100, 40_000, 5_000_000])
def test_large_arrays_are_computed_by_machine_code_with_the_same_bits(size):
    values = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    x, y = jnp.asarray(values), jnp.asarray(values[::-1])
    for _ in range(7):
        np.testing.assert_array_equal(x + y, values + values[::-1])
        smaller = np.where(values < values[::-1], values, 0)
        np.testing.assert_array_equal(jnp.where(x < y, x, 0), smaller)
    first = np.asarray(jnp.exp(x))
    for _ in range(6):
        np.testing.assert_array_equal(jnp.exp(x), first)
    total = float(jnp.mean(x))
    assert all(float(jnp.mean(x)) == total for _ in range(6))


def test_under_transformations_nothing_is_planned():
    def f(x):
        return jnp.sum(jnp.where(x > 0, x * 2, x) ** 2, axis=0)

    for _ in range(3):
        same(tetrax.vmap(f)(F[None])[0], f(F))
        assert tetrax.grad(lambda x: f(x).sum())(F).shape == F.shape
        assert len(tetrax.make_jaxpr(f)(F).eqns) > 3


def test_functions_keep_their_name_and_signature():
    assert jnp.sum.__name__ == "sum"
    assert list(inspect.signature(jnp.where).parameters)[:3] == ["condition", "x", "y"]


def test_a_function_that_looks_at_elements_goes_the_ordinary_way():
    calls = []

    @planned(1)
    def positive_part(x):
        calls.append(1)
        return x if bool((x > 0).all()) else jnp.maximum(x, 0)

    for _ in range(4):
        same(positive_part(F), jnp.maximum(F, 0))
    assert len(calls) >= 4


def test_placement_is_kept():
    device = tetrax.devices()[0]
    for _ in range(3):
        assert jnp.zeros(3, device=device).committed
        assert not jnp.zeros(3).committed
