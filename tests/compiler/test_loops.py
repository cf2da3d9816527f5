"""Loops: which become one kernel with their carries in registers, what leaves them, their values.

Values are held against NumPy in float64 or against JAX; tolerances are a few float32 roundings of
values near 1, times the number of dependent steps where errors add up.
"""

from __future__ import annotations

import jax
import pytest

import numpy as np
import tetrax
from tetrax.compiler.passes.control import description
from tetrax.compiler.pipeline import lower, optimise
from tetrax.compiler.steps import KernelStep, LoopStep
from tetrax.ir.check import check_closed
from tetrax.ir.control import Scan

ROTATION = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0].astype(np.float32)


def lorenz(lib):
    def step(state, _):
        x, y, z = state
        return (x + 0.1 * (y - x), y + 0.01 * (x * (28 - z) - y), z + 0.01 * (x * y - z)), None

    return lambda s: lib.numpy.stack(lib.lax.scan(step, (s[0], s[1], s[2]), None, length=50)[0])


def lorenz_of_vectors(lib):
    def step(s, _):
        x, y, z = s
        s = s + 0.01 * lib.numpy.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])
        return s, s

    return lambda s: lib.lax.scan(step, s, None, length=20)[1]


def logistic_map(lib):
    step = lambda c: (3.7 * c[0] * (1 - c[0]), c[1] + 1)
    return lambda s: lib.lax.while_loop(lambda c: c[1] < 30, step, (s[0] * 0.5, 0))


def recurrent(lib):
    def step(s, x):
        s = lib.numpy.tanh(ROTATION @ s + x)
        return s, s.sum()

    return lambda s: lib.lax.scan(step, s[0] * lib.numpy.ones(4), lib.numpy.ones((9, 4)))


def batched(lib):
    f = recurrent(lib)
    return lambda s: lib.vmap(f)(lib.numpy.linspace(0, 1, 26).reshape(13, 2) * s[0])


def gradient(lib):
    f = recurrent(lib)
    return lib.grad(lambda s: f(s)[1].sum())


def batched_gradient(lib):
    f = gradient(lib)
    return lambda s: lib.vmap(f)(lib.numpy.linspace(0, 1, 21).reshape(7, 3) * s)


def mandelbrot(lib):
    jnp = lib.numpy

    def f(s):
        c = jnp.linspace(-2, 1, 19)[None, :] + 1j * jnp.linspace(-1, 1, 11)[:, None]

        def body(i, state):
            z, count = state
            return jnp.where(jnp.abs(z) < 2, z * z + c, z), count + (jnp.abs(z) < 2)

        return lib.lax.fori_loop(0, 20, body, (0 * c, jnp.zeros(c.shape, jnp.int32)))[1]

    return f


def batched_while(lib):
    grow = lambda c: (c[0] * 1.5 + 0.1, c[1] + 1)
    f = lambda x: lib.lax.while_loop(lambda c: c[0] < 10.0, grow, (x, 0))
    return lambda s: lib.vmap(f)(lib.numpy.linspace(0.1, 9, 33))


def loops_in_loops(lib):
    jnp, lax = lib.numpy, lib.lax

    def outer(c, x):
        z = lax.fori_loop(0, 3, lambda i, v: v * 0.5 + jnp.sin(v) + i * x, c)
        z = lax.cond(z > 1.0, lambda v: v * 0.1, lambda v: v + 1, z)
        z = lax.while_loop(lambda v: v < 3.0, lambda v: v * 1.7 + 0.2, z)
        return z, (z, x)

    return lambda s: lax.scan(outer, s[0], jnp.arange(7.0), reverse=True)


def indexed(lib):
    """The element to use depends on the carry."""
    step = lambda c, x: (c.at[x % 3].add(c[(x + 1) % 3]), c[x % 2])
    return lambda s: lib.lax.scan(step, s, lib.numpy.arange(11))


def integers(lib):
    step = lambda c, x: ((c[0] * 5 + x, c[1] ^ c[0], ~c[2]), c[0] > 3)
    start = lambda s: (s[0].astype(int), 7, True)
    return lambda s: lib.lax.scan(step, start(s), lib.numpy.arange(9))


def no_turns(lib):
    return lambda s: lib.lax.scan(lambda c, x: (c * 2, c), s, lib.numpy.ones((0, 3)))


def not_a_masked_loop(lib):
    """All elements go on until none needs to, so lanes must not stop on their own."""
    step = lambda v: v * 2
    return lambda s: lib.lax.while_loop(
        lambda v: (v < 10).any(), step, lib.numpy.linspace(1, 9, 300)
    )


IN_REGISTERS = [
    lorenz,
    lorenz_of_vectors,
    logistic_map,
    recurrent,
    batched,
    gradient,
    batched_gradient,
    mandelbrot,
    batched_while,
    loops_in_loops,
    integers,
]
START = np.array([1.0, 0.5, 0.25], np.float32)


@pytest.mark.parametrize("make", [*IN_REGISTERS, indexed, no_turns, not_a_masked_loop])
def test_values(make):
    found = tetrax.tree.leaves(tetrax.jit(make(tetrax))(START))
    expected = jax.tree.leaves(jax.jit(make(jax))(START))
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("make", IN_REGISTERS)
def test_no_loop_is_left_to_the_driver(make):
    steps = lower(tetrax.jit(make(tetrax)).trace(START).jaxpr).steps
    assert {type(step) for step in steps} == {KernelStep}


def test_carries_of_64_bit_integers():
    x = np.arange(12).reshape(3, 4)
    turn = lambda carry, row: (carry + row, carry)
    with tetrax.enable_x64(True):
        last, before = tetrax.jit(lambda x: tetrax.lax.scan(turn, x[0] * 0, x))(x)
    assert last.dtype == np.int64
    np.testing.assert_array_equal(last, x.sum(0))
    np.testing.assert_array_equal(before, np.cumsum(x, 0) - x)


def test_loop_between_lanes_is_left_to_the_driver():
    steps = lower(tetrax.jit(not_a_masked_loop(tetrax)).trace(START).jaxpr).steps
    assert any(isinstance(step, LoopStep) for step in steps)


# -- what leaves a loop ----------------------------------------------------------------------------


def scans(f, *args):
    closed = optimise(tetrax.jit(f).trace(*args).jaxpr)
    check_closed(closed)
    found = [description(eqn) for eqn in closed.eqns]
    return [d for d in found if isinstance(d, Scan)]


def operations(scan):
    return {eqn.primitive.name for eqn in scan.body.program.eqns}


def test_invariant_code_is_hoisted():
    f = lambda w, x: tetrax.lax.scan(lambda c, v: (c * tetrax.numpy.exp(w).sum() + v, None), 1.0, x)
    (scan,) = scans(f, np.ones(100, np.float32), np.ones(5, np.float32))
    assert "exp" not in operations(scan)
    np.testing.assert_allclose(
        tetrax.jit(f)(np.zeros(2, np.float32), np.ones(5, np.float32))[0], 63.0
    )


def test_unused_carries_and_results_go():
    step = lambda c, x: ((c[0] + x, c[1] * tetrax.numpy.sin(x)), c[1])
    f = lambda x: tetrax.lax.scan(step, (0.0, 1.0), x)[0][0]
    (scan,) = scans(f, np.ones(5, np.float32))
    assert scan.carry == 1 and len(scan.body.out_avals) == 1
    assert "sin" not in operations(scan)


def test_constants_are_not_stacked():
    """Neither the weights nor two functions of one activation are kept for every step."""
    f = tetrax.grad(lambda w, s: recurrent_of(w, s).sum())
    forward, backward = scans(f, ROTATION, np.ones(4, np.float32))
    stacked = forward.body.out_avals[forward.carry :]
    assert [a.shape for a in stacked] == [(4,), (4,)]
    assert backward.body.out_avals
    expected = jax.grad(lambda w, s: recurrent_of(w, s, jax).sum())(
        ROTATION, np.ones(4, np.float32)
    )
    np.testing.assert_allclose(
        tetrax.jit(f)(ROTATION, np.ones(4, np.float32)), expected, rtol=1e-5, atol=1e-6
    )


def recurrent_of(w, s, lib=tetrax):
    return lib.lax.scan(lambda c, _: (lib.numpy.tanh(w @ c), None), s, None, length=6)[0]


def test_producers_are_fused():
    f = lambda x: tetrax.lax.scan(lambda c, v: (c + v.sum(), None), 0.0, x * 2.0 + 1.0)[0]
    (scan,) = scans(f, np.ones((5, 16), np.float32))
    assert {"mul", "add"} <= operations(scan)
    np.testing.assert_allclose(tetrax.jit(f)(np.ones((5, 16), np.float32)), 240.0)


def network(lib, weights, x):
    def step(h, v):
        h = lib.numpy.tanh(v @ weights["x"].T + h @ weights["h"].T + weights["b"])
        return h, h

    return (lib.lax.scan(step, lib.numpy.zeros((8, 32)), x)[1] ** 2).sum()


def test_products_leave_the_loop():
    """Slices are multiplied before it, and the gradients of both weights come after it."""
    r = np.random.default_rng(0)
    shapes = {"x": (32, 24), "h": (32, 32), "b": (32,)}
    weights = {n: (0.3 * r.standard_normal(s)).astype(np.float32) for n, s in shapes.items()}
    x = r.standard_normal((6, 8, 24)).astype(np.float32)
    f = tetrax.grad(lambda w, x: network(tetrax, w, x))
    forward, backward = scans(f, weights, x)
    products = [
        sum(eqn.primitive.name.startswith("dot") for eqn in scan.body.program.eqns)
        for scan in (forward, backward)
    ]
    assert products == [1, 1]
    expected = jax.grad(lambda w, x: network(jax, w, x))(weights, x)
    found = tetrax.jit(f)(weights, x)
    for name in shapes:
        # Sums of 48 products of values near 1, added in another order.
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-4)


def test_transposes_become_part_of_products():
    r = np.random.default_rng(0)
    a, b = (r.standard_normal((2, 9, 3, 16)).astype(np.float32) for _ in range(2))

    def attention(lib, q, k):
        q, k = q.transpose(0, 2, 1, 3), k.transpose(0, 2, 1, 3)
        scores = lib.numpy.einsum("bhqd,bhkd->bhqk", q, k)
        return lib.numpy.einsum("bhqk,bhkd->bqhd", scores, k)

    closed = optimise(tetrax.jit(lambda a, b: attention(tetrax, a, b)).trace(a, b).jaxpr)
    check_closed(closed)
    assert "transpose" not in {eqn.primitive.name for eqn in closed.eqns}
    found = tetrax.jit(lambda a, b: attention(tetrax, a, b))(a, b)
    expected = attention(jax, jax.numpy.asarray(a), jax.numpy.asarray(b))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
