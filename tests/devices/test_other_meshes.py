"""Arrays on one mesh as arguments of programs on another mesh over the same devices."""

from __future__ import annotations

import pytest
from tests.devices.layouts import P, mesh_of, shardings

import numpy as np
import tetrax
from tetrax.runtime.other_meshes import equivalent_on
from tetrax.sharding import NamedSharding

LINE = mesh_of(range(8), "a")
GRID = mesh_of(np.arange(8).reshape(4, 2), "bc")
CUBE = mesh_of(np.arange(8).reshape(2, 2, 2), "def")
VALUE = np.arange(8.0, dtype=np.float32)


def test_the_same_layout_in_the_axes_of_another_mesh():
    found = {
        (spec, name): equivalent_on(NamedSharding(mesh, spec), other, 2)
        for mesh, spec in ((LINE, P("a")), (GRID, P(None, "c")), (GRID, P("c", "b")), (LINE, P()))
        for name, other in (("line", LINE), ("grid", GRID), ("cube", CUBE))
    }
    specs = {key: None if one is None else one.spec for key, one in found.items()}
    assert specs == {
        (P("a"), "line"): P("a"),
        (P("a"), "grid"): P(("b", "c")),
        (P("a"), "cube"): P(("d", "e", "f")),
        (P(None, "c"), "line"): None,
        (P(None, "c"), "grid"): P(None, "c"),
        (P(None, "c"), "cube"): P(None, "f"),
        (P("c", "b"), "line"): None,
        (P("c", "b"), "grid"): P("c", "b"),
        (P("c", "b"), "cube"): P("f", ("d", "e")),
        (P(), "line"): P(),
        (P(), "grid"): P(),
        (P(), "cube"): P(),
    }


def test_it_is_equivalent_wherever_there_is_one():
    for sharding in shardings().values():
        for mesh in (LINE, GRID, CUBE, mesh_of([6, 1, 4, 3], "g"), mesh_of([5], "h")):
            found = equivalent_on(sharding, mesh, 2)
            if found is not None:
                assert found.mesh is mesh
                assert found.is_equivalent_to(sharding, 2)
            else:
                assert sharding.device_tuple != mesh.device_tuple or mesh in (LINE, GRID)


def test_results_of_one_map_are_arguments_of_another():
    first = tetrax.pmap(lambda x: x + 1, axis_name="i")
    second = tetrax.pmap(lambda x: x * 2, axis_name="j")
    np.testing.assert_array_equal(second(first(VALUE)), (VALUE + 1) * 2)
    total = tetrax.pmap(lambda x, y: x + y)(first(VALUE), second(VALUE))
    np.testing.assert_array_equal(total, VALUE * 3 + 1)
    np.testing.assert_array_equal(first(VALUE) + second(VALUE), VALUE * 3 + 1)
    rows = tetrax.device_put_sharded(list(VALUE), tetrax.devices())
    np.testing.assert_array_equal(first(rows), VALUE + 1)


def test_arguments_of_jit_on_different_meshes():
    square = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    one = tetrax.device_put(square, NamedSharding(LINE, P(None, "a")))
    other = tetrax.device_put(square, NamedSharding(GRID, P("b", "c")))
    call = tetrax.jit(lambda x, y: x @ y + x)
    np.testing.assert_allclose(call(one, other), square @ square + square, rtol=1e-6)
    np.testing.assert_allclose(call(other, one), square @ square + square, rtol=1e-6)


def test_other_devices_are_refused():
    one = tetrax.device_put(VALUE, NamedSharding(LINE, P("a")))
    other = tetrax.device_put(VALUE, NamedSharding(mesh_of(range(7, -1, -1), "a"), P("a")))
    with pytest.raises(ValueError, match=r"incompatible devices.*\[7, 6, 5"):
        one + other
