"""Random small programs give the same values eagerly, compiled, under vmap, and on real JAX.

A program is a list of steps on a 3x4 array; every step keeps the shape. Values stay of order one
(steps end in bounded functions), so a relative tolerance of a few hundred rounding errors per dtype
covers the different orders of summation; integers and bools must agree exactly.
"""

from __future__ import annotations

import jax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numpy as np
import tetrax

SHAPE = (3, 4)
TOLERANCE = {"float32": 3e-5, "float64": 1e-12}


def _scan(lib, x, flag):
    turn = lambda c, row: (lib.numpy.maximum(c, row) if flag else c + row, c)
    last, rows = lib.lax.scan(turn, lib.numpy.zeros_like(x[0]), x, reverse=flag)
    return rows + last


def _bounded(lib, x):
    return lib.numpy.tanh(x) if lib.numpy.issubdtype(x.dtype, lib.numpy.floating) else x % 7


FLOAT_STEPS = {
    "sin": lambda lib, x, k: lib.numpy.sin(x + k),
    "exp": lambda lib, x, k: lib.numpy.exp(-x * x),
    "log": lambda lib, x, k: lib.numpy.log1p(x * x),
    "div": lambda lib, x, k: x / (1.5 + lib.numpy.abs(x[::-1])),
    "mean": lambda lib, x, k: x - x.mean(axis=k % 2, keepdims=True),
    "softmax": lambda lib, x, k: lib.numpy.exp(x) / lib.numpy.exp(x).sum(axis=k % 2, keepdims=True),
}
STEPS = {
    "add": lambda lib, x, k: x + x[:, ::-1],
    "mul": lambda lib, x, k: _bounded(lib, x * x + k),
    "max": lambda lib, x, k: lib.numpy.maximum(x, x.max(axis=k % 2, keepdims=True) - k),
    "where": lambda lib, x, k: lib.numpy.where(x > k % 2, x, -x),
    "sum": lambda lib, x, k: _bounded(lib, x + x.sum(axis=k % 2, keepdims=True)),
    "roll": lambda lib, x, k: lib.numpy.concatenate([x[k % 3 :], x[: k % 3]]),
    "slice": lambda lib, x, k: lib.numpy.pad(x[:, 1:], ((0, 0), (0, 1)), constant_values=k),
    "gather": lambda lib, x, k: x[lib.numpy.array([k % 3, 0, 2])],
    "columns": lambda lib, x, k: x[:, lib.numpy.array([3, k % 4, 1, 0])],
    "scatter": lambda lib, x, k: x.at[lib.numpy.array([0, k % 3])].add(x[1:]),
    "dot": lambda lib, x, k: _bounded(lib, x @ x.T @ x),
    "sort": lambda lib, x, k: lib.numpy.sort(x, axis=k % 2),
    "cumsum": lambda lib, x, k: _bounded(lib, lib.numpy.cumsum(x, axis=k % 2)),
    "scan": lambda lib, x, k: _bounded(lib, _scan(lib, x, bool(k % 2))),
    "transpose": lambda lib, x, k: x.T.reshape(SHAPE),
    "argmax": lambda lib, x, k: x + x.argmax(axis=0).astype(x.dtype),
    "cast": lambda lib, x, k: (x * 4).astype("int32").astype(x.dtype),
    "logic": lambda lib, x, k: ((x > 0) ^ (x[::-1] > k % 2)).astype(x.dtype) - x,
}
# Steps that jump: a last-bit difference before them may become a difference of one. In float
# programs they come first, on the input itself.
JUMPS = ("argmax", "cast", "logic", "where")
FLOATS = sorted({**FLOAT_STEPS, **STEPS}.keys() - set(JUMPS))
INTS = sorted(STEPS)
ALL = {**FLOAT_STEPS, **STEPS}


@st.composite
def programs(draw):
    dtype = draw(st.sampled_from(["float32", "float64", "int32"]))
    names = INTS if dtype == "int32" else FLOATS
    steps = draw(
        st.lists(st.tuples(st.sampled_from(names), st.integers(0, 3)), min_size=1, max_size=6)
    )
    if dtype != "int32":
        steps = [(draw(st.sampled_from(JUMPS)), draw(st.integers(0, 3))), *steps]
    return dtype, tuple(steps), draw(st.integers(0, 1000))


def run(lib, steps):
    def program(x):
        for name, k in steps:
            x = ALL[name](lib, x, k)
        return x

    return program


def compare(found, expected, dtype):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    if dtype == "int32":
        np.testing.assert_array_equal(found, expected)
    else:
        tolerance = TOLERANCE[dtype]
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def check(case):
    dtype, steps, seed = case
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((2, *SHAPE)) * 2).astype(dtype)
    with jax.enable_x64(True):
        expected = [np.asarray(jax.jit(run(jax, steps))(jax.numpy.asarray(row))) for row in x]
    with tetrax.enable_x64(True):
        program = run(tetrax, steps)
        for row, want in zip(x, expected, strict=True):
            compare(program(tetrax.numpy.asarray(row)), want, dtype)
        compare(tetrax.jit(program)(x[0]), expected[0], dtype)
        compare(tetrax.jit(tetrax.vmap(program))(x), np.stack(expected), dtype)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(programs())
def test_random_programs(case):
    check(case)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(programs())
def test_two_thousand_random_programs(case):
    check(case)
