"""The memory plan: what loops collect is not overwritten by their later turns."""

from __future__ import annotations

import numpy as np
import tetrax
from tetrax import lax


def test_stacked_results_outlive_the_temporaries_of_every_turn():
    def turn(carry, x):
        count = lax.while_loop(lambda s: s[0] < 3.0, lambda s: (s[0] + x, s[1] + 1), (x * 0, 0))
        return carry, count[0] + x

    steps = np.array([0.05, 0.5, 1.0, 3.0, 200.0], np.float32)
    # The subtraction makes the stacked results a temporary, not an output.
    run = lambda xs: lax.scan(turn, 0.0, xs)[1] - 1
    np.testing.assert_allclose(tetrax.jit(run)(steps), [2.1, 2.5, 3.0, 5.0, 399.0], rtol=1e-5)


def test_stacked_results_of_nested_loops():
    def inner(carry, x):
        total = lax.while_loop(lambda s: s < 5.0, lambda s: s + x, x * 0)
        return carry, total

    def outer(carry, row):
        return carry, lax.scan(inner, 0.0, row)[1] * 2

    rows = np.array([[1.0, 2.0], [3.0, 4.0], [0.5, 6.0]], np.float32)
    run = lambda xs: lax.scan(outer, 0.0, xs)[1] + 1
    want = [[11.0, 13.0], [13.0, 17.0], [11.0, 13.0]]
    np.testing.assert_allclose(tetrax.jit(run)(rows), want)
