"""Small systems written out in scalars, against LAPACK through JAX and NumPy.

Tolerances: a few hundred roundings of the type, for random matrices of condition below 100.
"""

from __future__ import annotations

import itertools

import jax
import pytest

import numpy as np
import tetrax

TOLERANCE = {np.float32: 2e-3, np.float64: 1e-10}


@pytest.fixture(autouse=True)
def wide():
    with tetrax.enable_x64(True), jax.enable_x64(True):
        yield


def normal(*shape, dtype):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (6, 6), (3, 5), (5, 3)])
def test_lu(shape, dtype):
    a = normal(50, *shape, dtype=dtype)
    a[0], a[1, :, 0] = 0, 0  # nothing, a column of zeros
    found = tetrax.jit(tetrax.lax.linalg.lu)(a)
    expected = jax.lax.linalg.lu(a)
    for mine, theirs in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_allclose(found[0], expected[0], rtol=TOLERANCE[dtype], atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 3, 6])
def test_triangular_solve(n, dtype):
    a = normal(20, n, n, dtype=dtype) + 3 * np.eye(n, dtype=dtype)
    b = normal(20, n, 2, dtype=dtype)
    names = ("left_side", "lower", "transpose_a", "unit_diagonal")
    for flags in itertools.product((False, True), repeat=4):
        options = dict(zip(names, flags, strict=True))
        rhs = b if options["left_side"] else b.swapaxes(1, 2)
        solve = lambda lib, a, rhs, o=options: lib.lax.linalg.triangular_solve(a, rhs, **o)
        found = tetrax.jit(lambda a, rhs, s=solve: s(tetrax, a, rhs))(a, rhs)
        np.testing.assert_allclose(found, solve(jax, a, rhs), rtol=TOLERANCE[dtype], atol=1e-5)


@pytest.mark.parametrize("n", [2, 3, 6])
def test_solve_and_inverse(n):
    a = normal(30, n, n, dtype=np.float64) + 3 * np.eye(n)
    b = normal(30, n, 4, dtype=np.float64)
    solved = tetrax.jit(tetrax.numpy.linalg.solve)(a, b)
    np.testing.assert_allclose(solved, np.linalg.solve(a, b), rtol=1e-9, atol=1e-11)
    inverse = tetrax.jit(tetrax.numpy.linalg.inv)(a)
    np.testing.assert_allclose(inverse, np.linalg.inv(a), rtol=1e-9, atol=1e-11)
