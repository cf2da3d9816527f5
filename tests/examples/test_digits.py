"""The digits example: the loss curve that real JAX gives for the same program, and equal bits."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import numpy as np
import tetrax

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"

# (loss, train accuracy, test accuracy) after each of three epochs, from the same file with
# `import jax as tetrax` (JAX 0.10.2). They are 66 steps; rounding differs from the first, so 1e-4.
JAX_HISTORY = [
    (2.1420044898986816, 0.693806529045105, 0.6583333611488342),
    (1.3798397779464722, 0.8573417067527771, 0.8416666984558105),
    (1.0629451274871826, 0.8844815492630005, 0.894444465637207),
]


@pytest.fixture
def digits():
    spec = importlib.util.spec_from_file_location("digits_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.EPOCHS = 3
    return module


def test_history_is_jax_s_and_bits_repeat(digits):
    train, test = digits.load()
    first, history = digits.train(train, test)
    np.testing.assert_allclose(history, JAX_HISTORY, rtol=1e-4)
    second, _ = digits.train(train, test)
    for a, b in zip(tetrax.tree.leaves(first), tetrax.tree.leaves(second), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_picture(digits, tmp_path):
    train, test = digits.load()
    parameters, history = digits.train(train, test)
    digits.draw(tmp_path / "digits.png", history, parameters, test)
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")
