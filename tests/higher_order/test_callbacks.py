"""Callbacks run where they should, as often as they should, with the right values."""

from __future__ import annotations

import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import lax

JIT = {"eager": lambda f: f, "jit": tetrax.jit}
both = pytest.mark.parametrize("wrap", JIT.values(), ids=JIT.keys())


@both
def test_pure_callback_value(wrap):
    f = wrap(lambda x: tetrax.pure_callback(lambda v: np.sin(v), x, x) * 2)
    x = np.linspace(0, 1, 5, dtype=np.float32)
    np.testing.assert_array_equal(f(x), np.sin(x) * 2)


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_pure_callback_under_vmap(method):
    f = lambda x: tetrax.pure_callback(lambda v: np.asarray(v) * 2, x, x, vmap_method=method)
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(tetrax.vmap(f)(x), x * 2)
    np.testing.assert_array_equal(tetrax.jit(tetrax.vmap(f, in_axes=1, out_axes=1))(x), x * 2)


def test_pure_callback_needs_a_method_under_vmap():
    f = lambda x: tetrax.pure_callback(lambda v: v, x, x)
    with pytest.raises(NotImplementedError, match="vmap_method"):
        tetrax.vmap(f)(np.ones(3, np.float32))


def test_pure_callback_has_no_derivative():
    f = lambda x: tetrax.pure_callback(lambda v: v, x, x)
    with pytest.raises(ValueError, match="custom_jvp"):
        tetrax.grad(f)(1.0)


@both
def test_io_callback_runs_once_in_order(wrap):
    seen = []

    def f(x):
        for i in range(3):
            tetrax.io_callback(lambda v, i=i: seen.append((i, float(v))), None, x + i, ordered=True)
        return x

    wrap(f)(1.0)
    assert seen == [(0, 1.0), (1, 2.0), (2, 3.0)]


@both
def test_print_in_a_loop(wrap, capsys):
    def f(x):
        def turn(carry, t):
            tetrax.debug.print("{t} {carry}", t=t, carry=carry, ordered=True)
            return carry + t, None

        return lax.scan(turn, x, jnp.arange(3))[0]

    wrap(f)(0)
    assert capsys.readouterr().out == "0 0\n1 0\n2 1\n"


@both
def test_print_only_in_the_branch_taken(wrap, capsys):
    def f(x):
        yes = lambda v: (tetrax.debug.print("yes {}", v), v)[1]
        no = lambda v: (tetrax.debug.print("no {}", v), v)[1]
        return lax.cond(x > 0, yes, no, x)

    wrap(f)(1.0)
    wrap(f)(-1.0)
    assert capsys.readouterr().out == "yes 1.0\nno -1.0\n"


@both
def test_print_under_grad_and_vmap(wrap, capsys):
    def f(x):
        tetrax.debug.print("x={}", x)
        return x * x

    wrap(tetrax.grad(f))(3.0)
    assert capsys.readouterr().out == "x=3.0\n"
    wrap(tetrax.vmap(f))(np.arange(2.0))
    assert capsys.readouterr().out == "x=0.0\nx=1.0\n"
    wrap(tetrax.vmap(tetrax.grad(f)))(np.arange(2.0))
    assert capsys.readouterr().out == "x=0.0\nx=1.0\n"


def test_callback_may_call_compiled_functions():
    inner = tetrax.jit(lambda v: v + 1)
    f = tetrax.jit(lambda x: tetrax.pure_callback(lambda v: inner(v), x, x) * 2)
    assert float(f(3.0)) == 8.0


def test_error_leaves_the_function_usable():
    fail = [True]

    def work(v):
        if fail[0]:
            raise KeyError("row")
        return v

    f = tetrax.jit(lambda x: tetrax.pure_callback(work, x, x) + 1)
    with pytest.raises(KeyError, match="row"):
        f(1.0)
    fail[0] = False
    assert float(f(1.0)) == 2.0
