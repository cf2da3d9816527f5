"""Loops cut at the changes of their conditions: what remains, and that values stay."""

from __future__ import annotations

import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp

X = np.random.default_rng(0).standard_normal((70, 130)).astype(np.float32)

MOVES = {
    "roll": lambda lib, x: lib.roll(x, 37, axis=1),
    "roll both": lambda lib, x: lib.roll(x, (5, -37), axis=(0, 1)),
    "pad": lambda lib, x: lib.pad(x, ((3, 5), (7, 9))),
    "pad wrapped": lambda lib, x: lib.pad(x, ((3, 5), (7, 9)), mode="wrap"),
    "pad reflected": lambda lib, x: lib.pad(x, ((3, 5), (7, 9)), mode="reflect"),
    "concatenate": lambda lib, x: lib.concatenate([x[:, :100], 2 * x[:, 50:], x], axis=1),
    "reverse": lambda lib, x: lib.flip(x, 1),
    "where": lambda lib, x: lib.where(lib.arange(130) <= 100, x, -x),
    "where, other side": lambda lib, x: lib.where(lib.arange(130)[::-1] < 100, x, -x),
    "one place": lambda lib, x: lib.where(lib.arange(130) == 77, x, -x),
    "two axes": lambda lib, x: lib.where(
        (lib.arange(130) != 0) & (lib.arange(70) < 65)[:, None], x, x.T.sum()
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_values(name):
    found = tetrax.jit(lambda x: MOVES[name](jnp, x))(X)
    # A sum of 9,100 numbers may round differently; everything else is a copy.
    np.testing.assert_allclose(found, MOVES[name](np, X), rtol=1e-4 if name == "two axes" else 0)


def test_conditions_are_gone():
    text = tetrax.jit(lambda x: jnp.roll(x, 37, axis=1)).lower(X).text("kernels")
    assert "select" not in text and text.count("vector loop") == 2
