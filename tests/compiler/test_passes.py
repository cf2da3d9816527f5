"""Each pass by its text, and the fusion decisions and memory plans that programs rest on."""

from __future__ import annotations

import gc

import pytest
from tests.golden_text import check_golden

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import lax
from tetrax.compiler import eager
from tetrax.compiler.passes.cse import eliminate_common_subexpressions
from tetrax.compiler.passes.dce import eliminate_dead_code
from tetrax.compiler.passes.fold import fold_constants
from tetrax.compiler.passes.inline import inline
from tetrax.compiler.pipeline import compile_program, kernel_steps, lower, optimise
from tetrax.ir.check import check_closed


def program(f, *args):
    closed = tetrax.make_jaxpr(f)(*args)
    check_closed(closed)
    return closed


VECTOR = np.ones(8, np.float32)
MATRIX = np.ones((8, 16), np.float32)


def test_inline():
    inner = tetrax.jit(lambda x, y: x * y + 1.0)
    closed = inline(program(lambda x: inner(inner(x, x), x), VECTOR))
    check_closed(closed)
    check_golden("pass_inline", str(closed))


def test_common_subexpressions():
    f = lambda x: jnp.sin(x) * jnp.sin(x) + (x + 2.0) * (x + 2.0)
    closed = eliminate_common_subexpressions(program(f, VECTOR))
    check_closed(closed)
    check_golden("pass_cse", str(eliminate_dead_code(closed)))


def test_fold_constants():
    f = lambda x: x * (jnp.float32(2.0) + jnp.sin(jnp.float32(0.0)) * 3)
    traced = tetrax.jit(f).trace(VECTOR).jaxpr
    closed = eliminate_dead_code(fold_constants(inline(traced)))
    check_closed(closed)
    assert {eqn.primitive.name for eqn in closed.eqns} <= {"mul", "broadcast_in_dim"}


KEPT = {
    "times one": (lambda x: x * 1.0, 0),
    "over one": (lambda x: x / 1.0, 0),
    "twice negated": (lambda x: jnp.negative(-x), 0),
    "twice transposed": (lambda x: x.reshape(2, 4).T.T.reshape(8), 2),
    "integer plus zero": (lambda x: (x.astype(int) + 0).astype(int), 1),
    "float plus zero": (lambda x: x + 0.0, 1),  # -0 + 0 is 0
    "gradient of a sum": (tetrax.grad(lambda x: (x * 2.0).sum()), 0),
}


@pytest.mark.parametrize("name", KEPT)
def test_simplify(name):
    f, most = KEPT[name]
    closed = optimise(program(f, VECTOR))
    check_closed(closed)
    moving = [eqn for eqn in closed.eqns if eqn.primitive.name != "broadcast_in_dim"]
    assert len(moving) <= most
    x = np.array([-0.0, 1, -2, np.nan, np.inf, 5, 6, 7], np.float32)
    np.testing.assert_array_equal(tetrax.jit(f)(x), f(jnp.asarray(x)))
    assert np.array_equal(np.signbit(tetrax.jit(f)(x)), np.signbit(f(jnp.asarray(x))))


def test_dead_code():
    def f(x):
        jnp.exp(x)
        return x + 1.0

    closed = eliminate_dead_code(program(f, VECTOR))
    check_closed(closed)
    assert [eqn.primitive.name for eqn in closed.eqns][-1] == "add"
    assert all(eqn.primitive.name != "exp" for eqn in closed.eqns)


def test_effects_are_not_dead():
    closed = eliminate_dead_code(program(lambda x: tetrax.debug.print("{}", x), VECTOR))
    assert [eqn.primitive.name for eqn in closed.eqns] == ["debug_callback"]


FUSED = {
    "chain": (lambda x: jnp.tanh(jnp.exp(x) * 2.0 + x), (VECTOR,), 1),
    "softmax": (
        lambda x: (
            jnp.exp(x - x.max(1, keepdims=True))
            / jnp.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)
        ),
        (MATRIX,),
        4,
    ),
    "variance": (lambda x: ((x - x.mean()) ** 2).mean(), (VECTOR,), 2),
    "two results": (lambda x: (jnp.sin(x) + 1.0, jnp.sin(x) * 2.0), (VECTOR,), 1),
    "transposed": (lambda x: (x.T * 2.0 + 1.0).T, (MATRIX,), 1),
}


@pytest.mark.parametrize("name", FUSED)
def test_number_of_kernels(name):
    f, args, most = FUSED[name]
    steps = lower(program(f, *args)).steps
    assert len(list(kernel_steps(steps))) <= most


def test_kernel_text():
    check_golden("kernels_chain", tetrax.jit(FUSED["chain"][0]).lower(VECTOR).text("kernels"))


def test_driver_text_of_a_loop():
    # A sort needs memory, so this carry is not kept in registers.
    f = lambda x: lax.scan(lambda c, t: (lax.sort(c) * t, c), x, np.arange(3, dtype=np.float32))
    check_golden("driver_scan", tetrax.jit(f).lower(VECTOR).text("driver"))


def test_driver_text_without_loop():
    f = lambda x: lax.scan(lambda c, t: (c * t, c), x, np.arange(3, dtype=np.float32))
    check_golden("kernels_scan", tetrax.jit(f).lower(VECTOR).text("kernels"))


def test_temporaries_share_the_arena():
    def f(x):
        for _ in range(10):
            x = (x @ x.T) @ x
        return x

    arena = lower(program(f, np.ones((64, 64), np.float32))).arena_bytes
    # Two products alternate; without reuse there would be twenty.
    assert arena <= 6 * 64 * 64 * 4


def test_updates_in_a_loop_are_in_place():
    def f(x):
        return lax.fori_loop(0, 1000, lambda i, c: c.at[i].set(i * 1.0), x)

    steps = lower(program(f, np.zeros(1000, np.float32))).steps
    loop = next(step for step in steps if hasattr(step, "carries"))
    assert any(carry.in_place for carry in loop.carries)
    np.testing.assert_array_equal(tetrax.jit(f)(np.zeros(1000, np.float32)), np.arange(1000))


def test_equal_layers_share_kernels():
    def f(x):
        for _ in range(6):
            x = jnp.tanh(x @ x)
        return x

    steps = lower(program(f, np.eye(4, dtype=np.float32))).steps
    from_text = {str(step.kernel.name): step for step in kernel_steps(steps)}
    assert len(from_text) <= 4


def test_memory_analysis():
    compiled = tetrax.jit(lambda x: x @ x).lower(MATRIX.T @ MATRIX).compile()
    stats = compiled.memory_analysis()
    assert stats.argument_size_in_bytes == stats.output_size_in_bytes == 16 * 16 * 4


def test_executable_checks_nothing_but_runs():
    closed = program(lambda x: x + 1.0, VECTOR)
    (out,) = compile_program(closed)([jnp.asarray(VECTOR)])
    np.testing.assert_array_equal(out, VECTOR + 1)


def test_eager_loops_do_not_pile_up():
    """What an eager `scan` compiles goes when its program goes."""
    for _ in range(20):
        lax.scan(lambda c, x: (c + x, c), 0.0, jnp.arange(3.0))
    gc.collect()
    assert len(eager._by_program) < 20
