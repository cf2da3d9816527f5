"""checkify: failures as values, through every kind of program."""

from __future__ import annotations

import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import lax
from tetrax.experimental import checkify


def message(f, *args, errors=checkify.user_checks):
    """The message eagerly and compiled, which must agree."""
    plain = checkify.checkify(f, errors=errors)(*args)[0].get()
    compiled = tetrax.jit(checkify.checkify(f, errors=errors))(*args)[0].get()
    assert plain == compiled
    return plain


def positive(x):
    checkify.check(x > 0, "x must be positive, got {}", x)
    return jnp.log(x)


def test_user_check():
    assert message(positive, 1.0) is None
    assert "positive, got -2.0" in message(positive, -2.0)
    with pytest.raises(checkify.JaxRuntimeError, match="positive"):
        checkify.checkify(positive)(-1.0)[0].throw()


def test_outside_checkify():
    with pytest.raises(checkify.JaxRuntimeError, match="positive"):
        positive(-1.0)
    with pytest.raises(ValueError, match="functionalized"):
        tetrax.jit(positive)(1.0)
    checkify.debug_check(False, "ignored")


def test_scan_keeps_the_first_failure():
    def f(x):
        def turn(carry, t):
            checkify.check(t < 2.5, "t={t}", t=t)
            return carry + t, None

        return lax.scan(turn, x, jnp.arange(6.0))[0]

    assert message(f, 0.0).startswith("t=3.0")


def test_while_and_its_condition():
    def f(n):
        def condition(i):
            checkify.check(i < 4, "condition at {}", i)
            return i < n

        return lax.while_loop(condition, lambda i: i + 1, 0)

    assert message(f, 3) is None
    assert message(f, 9).startswith("condition at 4")


def test_cond_reports_only_the_branch_taken():
    def f(x):
        fail = lambda y: (checkify.check(False, "taken"), y)[1]
        return lax.cond(x > 0, fail, lambda y: y, x)

    assert message(f, -1.0) is None
    assert message(f, 1.0).startswith("taken")


def test_vmap_both_ways():
    x = jnp.array([1.0, -2.0, -3.0])
    error, _ = tetrax.vmap(checkify.checkify(positive))(x)
    assert "mapped index 1" in error.get() and "-2.0" in error.get()
    error, _ = checkify.checkify(tetrax.vmap(positive))(x)
    assert "-2.0" in error.get()


def test_grad_of_a_checked_function():
    error, gradient = checkify.checkify(tetrax.grad(positive))(2.0)
    assert error.get() is None
    np.testing.assert_allclose(gradient, 0.5)
    assert "positive" in checkify.checkify(tetrax.grad(positive))(-2.0)[0].get()


@pytest.mark.parametrize(
    ("f", "good", "bad", "word"),
    [
        (lambda i: jnp.arange(4.0)[i], 3, 9, "out-of-bounds"),
        (lambda i: jnp.arange(4.0).at[i].set(1.0), 0, 9, "out-of-bounds"),
        (lambda i: lax.dynamic_slice(jnp.arange(4.0), (i,), (2,)), 2, 3, "out-of-bounds"),
        (lambda x: 1.0 / x, 2.0, 0.0, "division by zero"),
        (lambda x: jnp.log(x), 1.0, -1.0, "nan"),
    ],
)
def test_automatic_checks(f, good, bad, word):
    assert message(f, good, errors=checkify.automatic_checks) is None
    assert word in message(f, bad, errors=checkify.automatic_checks)


def test_error_of_an_inner_checkify():
    def f(x):
        error, out = checkify.checkify(positive)(x)
        checkify.check_error(error)
        return out

    assert message(f, 1.0) is None
    assert "positive" in message(f, -1.0)
