"""The ways to spread a transformer: one result, and the collectives that each way needs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import numpy as np
import tetrax

EXAMPLE = Path(__file__).parents[2] / "examples" / "parallel_layouts.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("parallel_layouts_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def expected(example):
    return example.step(*example.arguments())


NAMES = ("data", "tensor", "fully sharded", "data and tensor", "pipeline", "sequence")


@pytest.mark.parametrize("name", NAMES)
def test_one_result(example, expected, name):
    # float32: sums in another order differ by a few units in the last place, over four layers.
    function, given = next((f, g) for n, f, g in example.ways() if n == name)
    assert example.largest_error(function(*given), expected) < 1e-6


def test_all_ways_are_tested(example):
    assert tuple(name for name, _, _ in example.ways()) == NAMES


def test_the_one_device_loss_is_right(example, expected):
    """Against the same transformer in NumPy, in float64."""
    parameters, x, y = (
        tetrax.tree.map(lambda a: np.asarray(a, np.float64), part) for part in example.arguments()
    )

    def normalised(x):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    for i in range(example.LAYERS):
        w = {name: stack[i] for name, stack in parameters.items()}
        q, k, v = np.moveaxis(np.einsum("btw,wchd->btchd", normalised(x), w["qkv"]), 2, 0)
        scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + np.einsum("bhqk,bkhd,hdw->bqw", weights, v, w["out"])
        hidden = normalised(x) @ w["up"]
        cubic = np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3)
        x = x + (0.5 * hidden * (1 + np.tanh(cubic))) @ w["down"]
    assert float(expected[0]) == pytest.approx(((x - y) ** 2).mean(), rel=1e-6)


# Collectives that one call runs, by kind; those in the loop over layers count for each.
COLLECTIVES = {
    # A sum for each of four gradients of four layers, and one for the loss.
    "data": {"all_reduce": 4 * 4 + 1},
    # Two sums a layer on the way forward, two on the way back (Shoeybi et al., 2019).
    "tensor": {"all_reduce": 4 * 4},
    "data and tensor": {"all_reduce": 4 * 4 + 4 * 4 + 1},
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_no_more_is_exchanged_than_needed(example, name):
    function, given = next((f, g) for n, f, g in example.ways() if n == name)
    found = {}
    for move in function.lower(*given).sharding_report().moves:
        found[move.kind] = found.get(move.kind, 0) + move.times
    assert found == COLLECTIVES[name]
