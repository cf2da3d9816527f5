"""Random meshes, specs and shapes: parts and moves against NumPy's slicing."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.devices.layouts import P, mesh_of

import numpy as np
import tetrax
from tetrax.runtime.array import Array
from tetrax.runtime.sharded_array import make_sharded
from tetrax.sharding import NamedSharding

SIZES = ((8,), (4,), (2, 4), (4, 2), (2, 2, 2), (2, 3), (1, 5), (3, 1, 2))


@st.composite
def layouts(draw: st.DrawFn, ndim: int) -> NamedSharding:
    """A sharding of arrays of that many dimensions over some of the devices, in any order."""
    sizes = draw(st.sampled_from(SIZES))
    ids = draw(st.permutations(range(8)))[: math.prod(sizes)]
    names = "xyz"[: len(sizes)]
    # Each axis cuts some dimension, or none.
    places = draw(st.lists(st.integers(-1, ndim - 1), min_size=len(sizes), max_size=len(sizes)))
    order = draw(st.permutations(range(len(sizes))))
    entries = [tuple(names[i] for i in order if places[i] == axis) for axis in range(ndim)]
    return NamedSharding(mesh_of(np.reshape(ids, sizes), names), P(*entries))


@st.composite
def moves(draw: st.DrawFn) -> tuple[np.ndarray, list[NamedSharding]]:
    ndim = draw(st.integers(1, 3))
    steps = [draw(layouts(ndim)) for _ in range(draw(st.integers(1, 3)))]
    counts = [step.tiling(ndim).counts for step in steps]
    shape = [math.lcm(*column) * draw(st.integers(0, 2)) for column in zip(*counts, strict=True)]
    return np.arange(math.prod(shape), dtype=np.int32).reshape(shape), steps


@settings(max_examples=60)
@given(moves())
def test_parts_after_moves(case: tuple[np.ndarray, list[NamedSharding]]):
    value, steps = case
    array = tetrax.device_put(value, steps[0])
    for sharding in steps:
        # Of the parts alone, as they come from a call on several devices.
        parts = [Array(np.array(s.data), s.data.aval, s.device) for s in array.addressable_shards]
        array = make_sharded(array.aval, array.sharding, parts)
        array = tetrax.device_put(array, sharding)
        assert array.sharding == sharding
        covered = np.zeros(value.shape, int)
        for shard in array.addressable_shards:
            assert shard.data.shape == sharding.shard_shape(value.shape)
            np.testing.assert_array_equal(shard.data, value[shard.index])
            covered[shard.index] += shard.replica_id == 0
        assert (covered == 1).all()
    np.testing.assert_array_equal(array, value)


@settings(max_examples=60)
@given(st.integers(1, 3).flatmap(lambda n: st.tuples(st.just(n), layouts(n), layouts(n))))
def test_equivalence_is_that_of_index_maps(case: tuple[int, NamedSharding, NamedSharding]):
    ndim, first, second = case
    shape = (2520,) * ndim  # divides by all numbers up to 10, and sizes tell tiles apart
    alike = first.device_tuple == second.device_tuple and first.devices_indices_map(
        shape
    ) == second.devices_indices_map(shape)
    assert first.is_equivalent_to(second, ndim) == alike
    assert first.is_equivalent_to(first.with_spec(P(*first.spec.partitions)), ndim)
