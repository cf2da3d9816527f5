"""jit: what is traced when, statics, donation, stages, and what may surround or be inside it."""

from __future__ import annotations

import functools

import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp


def counted(f):
    """`f` and a list that grows with every trace of it."""
    traces = []

    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        traces.append(1)
        return f(*args, **kwargs)

    return wrapper, traces


def test_traced_once_per_type():
    f, traces = counted(lambda x: x + 1)
    jitted = tetrax.jit(f)
    for x in (1.0, 2.0, np.float32(3)):
        jitted(x)
    assert len(traces) == 2  # weakly and strongly typed
    jitted(np.ones(3, np.float32))
    assert len(traces) == 3


def test_static_by_position_and_name():
    f, traces = counted(lambda x, n, mode="add": x + n if mode == "add" else x * n)
    jitted = tetrax.jit(f, static_argnums=1, static_argnames="mode")
    assert float(jitted(2.0, 3)) == 5.0
    assert float(jitted(2.0, 3, mode="mul")) == 6.0
    assert float(jitted(5.0, 3, mode="mul")) == 15.0
    assert len(traces) == 2
    assert float(tetrax.jit(f, static_argnames=("n",))(2.0, n=4)) == 6.0


def test_static_equality_decides():
    f, traces = counted(lambda x, config: x * config[0])
    jitted = tetrax.jit(f, static_argnums=1)
    jitted(1.0, (2, "a"))
    jitted(1.0, (2, "a"))
    assert len(traces) == 1
    jitted(1.0, (3, "a"))
    assert len(traces) == 2


def test_decorator_factory_and_methods():
    class Model:
        def __init__(self, scale):
            self.scale = scale

        @functools.partial(tetrax.jit, static_argnums=0)
        def apply(self, x):
            return x * self.scale

    assert float(Model(3.0).apply(2.0)) == 6.0

    @tetrax.jit(static_argnames="n")
    def power(x, n):
        return x**n

    assert float(power(2.0, n=3)) == 8.0


def test_donation():
    f = tetrax.jit(lambda x, y: x + y, donate_argnums=0)
    x, y = jnp.ones(3), jnp.ones(3)
    np.testing.assert_array_equal(f(x, y), 2 * np.ones(3))
    assert x.is_deleted() and not y.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(x)


def test_nested_and_closed_over():
    inner = tetrax.jit(lambda x, y: x * y)
    outer = tetrax.jit(lambda x: inner(x, x) + inner(x, 2.0))
    assert float(outer(3.0)) == 15.0

    def closing(x):
        return tetrax.jit(lambda y: x * y)(x + 1)

    assert float(tetrax.grad(closing)(2.0)) == 5.0
    np.testing.assert_array_equal(tetrax.vmap(closing)(np.arange(3.0)), [0, 2, 6])


def test_inline_leaves_no_call():
    f = tetrax.jit(lambda x: x * 2, inline=True)
    names = [eqn.primitive.name for eqn in tetrax.make_jaxpr(lambda x: f(x) + 1)(1.0).eqns]
    assert "jit" not in names
    assert float(f(2.0)) == 4.0


def test_unused_and_repeated_results():
    f = tetrax.jit(lambda x, unused: (x, x, x + 1, 3))
    a, b, c, d = f(np.ones(2, np.float32), np.zeros(5))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(c, [2, 2])
    assert int(d) == 3


def test_empty_and_zero_dimensional():
    f = tetrax.jit(lambda x: (x.sum(), x * 2, x.reshape(-1)))
    total, doubled, flat = f(np.zeros((0, 3), np.float32))
    assert float(total) == 0.0 and doubled.shape == (0, 3) and flat.shape == (0,)
    assert f(np.float32(2))[1].shape == ()


def test_trees_in_and_out():
    f = tetrax.jit(lambda d: {"sum": d["a"] + d["b"][0], "none": None, "pair": (d["a"],)})
    out = f({"a": 1.0, "b": [2.0]})
    assert float(out["sum"]) == 3.0 and out["none"] is None and float(out["pair"][0]) == 1.0


def test_disable_jit():
    f, traces = counted(lambda x: x + 1)
    jitted = tetrax.jit(f)
    with tetrax.disable_jit():
        jitted(1.0)
        jitted(1.0)
    assert len(traces) == 2


def test_x64_may_change_at_any_time():
    f = tetrax.jit(lambda x: x + 1)
    assert f(1.0).dtype == np.float32
    with tetrax.enable_x64(True):
        assert f(1.0).dtype == np.float64
    assert f(1.0).dtype == np.float32


def test_stages():
    f = lambda x, y: {"r": jnp.dot(x, y)}
    x = np.ones((4, 4), np.float32)
    traced = tetrax.jit(f).trace(x, x)
    assert traced.out_info["r"].shape == (4, 4)
    lowered = traced.lower()
    for stage in ("program", "optimised", "kernels", "driver", "llvm", "asm"):
        assert lowered.text(stage)
    with pytest.raises(ValueError, match="kernels"):
        lowered.text("poetry")
    compiled = lowered.compile()
    np.testing.assert_array_equal(compiled(x, x)["r"], x @ x)
    assert compiled.cost_analysis()["flops"] >= 2 * 4**3 - 4**2
    with pytest.raises(TypeError, match=r"float32\[2\]"):
        compiled(np.ones(2, np.float32), x)


def test_clear_cache():
    f, traces = counted(lambda x: x)
    jitted = tetrax.jit(f)
    jitted(1.0)
    jitted.clear_cache()
    jitted(1.0)
    assert len(traces) == 2


def test_ensure_compile_time_eval():
    @tetrax.jit
    def f(x):
        with tetrax.ensure_compile_time_eval():
            n = int(jnp.arange(4).sum())
        return x * n

    assert float(f(1.0)) == 6.0


def test_large_constants_are_arguments_not_text():
    table = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    f = tetrax.jit(lambda x: x + jnp.asarray(table))
    assert len(f.lower(table).text("llvm")) < 20_000
    np.testing.assert_array_equal(f(table), table + table)
