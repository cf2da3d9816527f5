"""Sums over devices in buckets, begun while the work goes on: the same bits as without."""

from __future__ import annotations

from itertools import pairwise

import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import NamedSharding, P, lax
from tetrax.compiler.device_groups import DeviceAxes, Meetings
from tetrax.compiler.pipeline import lower
from tetrax.compiler.steps import AwaitStep, BeginStep, ExchangeStep, ReduceStep

WIDTHS = (24, 40, 16, 8)


def arguments(devices: int):
    source = np.random.default_rng(0)
    mesh = tetrax.make_mesh((devices,), ("data",), devices=tetrax.devices()[:devices])
    put = lambda a, *spec: tetrax.device_put(a.astype(np.float32), NamedSharding(mesh, P(*spec)))
    weights = [put(source.standard_normal(shape) / np.sqrt(shape[0])) for shape in pairwise(WIDTHS)]
    return weights, put(source.standard_normal((32, WIDTHS[0])), "data")


def loss(weights, x):
    for w in weights:
        x = jnp.tanh(x @ w)
    return (x**2).mean()


def steps_of(lowered) -> list:
    partitioned = lowered.partitioned
    return lower(partitioned.program, meetings=Meetings(partitioned.axes)).steps


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_same_bits_with_and_without(devices):
    given = arguments(devices)
    found = {}
    for when in ("never", "always"):
        with tetrax.config.__class__.overlap_collectives(when):
            found[when] = tetrax.jit(tetrax.value_and_grad(loss))(*given)
    whole = tetrax.tree.map(np.asarray, given)
    expected = tetrax.jit(tetrax.value_and_grad(loss))(*whole)
    for a, b, c in zip(*map(tetrax.tree.leaves, (*found.values(), expected)), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
        # Other orders of sums over 32 rows: a few units in the last place.
        np.testing.assert_allclose(a, c, rtol=1e-5, atol=1e-7)


def test_sums_share_meetings():
    lowered = tetrax.jit(tetrax.grad(loss)).lower(*arguments(4))
    assert lowered.sharding_report().count("all_reduce") == len(WIDTHS) - 1
    kinds = [type(step) for step in steps_of(lowered)]
    assert kinds.count(ReduceStep) == 1
    assert ExchangeStep not in kinds


def test_a_sum_begins_before_work_that_does_not_need_it():
    mesh = tetrax.make_mesh((2,), ("i",), devices=tetrax.devices()[:2])

    @tetrax.jit
    @lambda f: tetrax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    def f(x):
        total = lax.psum(x, "i")
        other = jnp.sort(x) @ x
        return total * other

    with tetrax.config.__class__.overlap_collectives("always"):
        steps = steps_of(f.lower(np.ones((8, 4), np.float32)))
        kinds = [type(step) for step in steps]
        begun, awaited = kinds.index(BeginStep), kinds.index(AwaitStep)
        assert awaited > begun + 1
        assert steps[begun].bucket is steps[awaited].bucket
        x = np.arange(32, dtype=np.float32).reshape(8, 4) / 32
        halves = [x[:4], x[4:]]
        expected = np.concatenate([(halves[0] + halves[1]) * (np.sort(h) @ h) for h in halves])
        np.testing.assert_allclose(f(x), expected, rtol=1e-5)


def test_who_fails_while_sums_are_pending_is_heard():
    mesh = tetrax.make_mesh((4,), ("i",), devices=tetrax.devices()[:4])

    def refuse(x):
        if x[0] > 2:
            raise ValueError("no more than two")
        return x

    def f(x):
        total = lax.psum(jnp.sort(x), "i")
        same = tetrax.pure_callback(refuse, tetrax.ShapeDtypeStruct(x.shape, x.dtype), x)
        return total + lax.psum(jnp.cos(same), "i")

    mapped = tetrax.jit(tetrax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P()))
    with tetrax.config.__class__.overlap_collectives("always"):
        for _ in range(3):
            with pytest.raises(ValueError, match="no more than two"):
                mapped(np.arange(4, dtype=np.float32))
        np.testing.assert_allclose(mapped(np.zeros(4, np.float32)), [4.0])


def test_partitions_of_shadows_are_apart():
    meetings = Meetings(DeviceAxes(("i",), (4,)))
    plain = meetings.partition(("i",), None)
    shadows = meetings.of_shadows(plain)
    assert shadows != plain
    assert meetings.of_shadows(plain) == shadows
    assert meetings.partition(("i",), None) == plain
