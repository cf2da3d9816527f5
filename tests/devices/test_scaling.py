"""Predictions of steps on many devices: against the arithmetic done by hand."""

from __future__ import annotations

import pytest

import numpy as np
import tetrax
from tetrax import NamedSharding, P
from tetrax.experimental.scaling import Link, Machine, predict
from tetrax.sharding import AbstractMesh

ROWS, DEPTH, COLUMNS = 4096, 1024, 2048


def described(mesh, shape, *spec):
    return tetrax.ShapeDtypeStruct(shape, np.float32, sharding=NamedSharding(mesh, P(*spec)))


def test_a_product_whose_depth_is_cut():
    mesh = AbstractMesh((8,), ("model",))
    lowered = tetrax.jit(lambda x, w: x @ w).lower(
        described(mesh, (ROWS, DEPTH), None, "model"), described(mesh, (DEPTH, COLUMNS), "model")
    )
    report = lowered.sharding_report()
    assert report.count("all_reduce") == 1
    result = 4 * ROWS * COLUMNS
    assert report.sent == 2 * result * 7 // 8
    found = predict(lowered, Machine(peak=1e12), {"model": Link(1e-6, 1e10)})
    flops = (2 * DEPTH // 8 - 1) * ROWS * COLUMNS
    # Whether a sum of n terms is n or n - 1 additions is a matter of taste.
    assert found.flops == pytest.approx(flops, rel=1e-2)
    assert found.compute == pytest.approx(found.flops / 1e12)
    seconds = 14 * 1e-6 + 2 * result * 7 / 8 / 1e10
    assert found.communication == {("model",): pytest.approx(seconds)}
    assert found.step == pytest.approx(found.compute + seconds)
    assert found.step_overlapped == max(found.compute, seconds)
    assert "8 devices" in str(found)


def test_loops_count_as_often_as_they_turn():
    mesh = AbstractMesh((4,), ("data",))

    def step(w, x):
        return tetrax.lax.scan(lambda x, w: (tetrax.numpy.tanh(x @ w), None), x, w)[0].sum()

    lowered = tetrax.jit(tetrax.grad(step)).lower(
        described(mesh, (12, 64, 64)), described(mesh, (256, 64), "data")
    )
    found = predict(lowered, Machine(peak=1e12), {"data": Link(0.0, 1e9)})
    forward = 12 * 2 * 64 * 64 * 64
    assert found.flops == pytest.approx(3 * forward, rel=0.05)


def test_memory_may_be_the_limit():
    mesh = AbstractMesh((2,), ("data",))
    lowered = tetrax.jit(lambda x, w: x @ w).lower(
        described(mesh, (8, DEPTH), "data"), described(mesh, (DEPTH, COLUMNS))
    )
    found = predict(lowered, Machine(1e15, memory_bandwidth=1e9), {})
    touched = 4 * (4 * DEPTH + DEPTH * COLUMNS + 4 * COLUMNS)
    assert found.memory == pytest.approx(touched / 1e9)
    assert found.busy == found.memory > found.compute


def test_what_is_missing_is_named():
    mesh = AbstractMesh((2,), ("data",))
    lowered = tetrax.jit(lambda x: x.sum()).lower(described(mesh, (8,), "data"))
    with pytest.raises(ValueError, match="no link is given for the axes"):
        predict(lowered, Machine(1e12), {})
    with pytest.raises(ValueError, match="a program of several devices"):
        predict(tetrax.jit(lambda x: x.sum()).lower(np.ones(8)), Machine(1e12), {})
