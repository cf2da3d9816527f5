"""Putting arrays on shardings, moving them to others, and making them of parts."""

from __future__ import annotations

import copy
import itertools
import pickle

import ml_dtypes
import pytest
from tests.devices.layouts import P, mesh_of, shardings

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import errors
from tetrax.runtime.sharded_array import ShardedArray, whole_if_known
from tetrax.sharding import Mesh, NamedSharding, SingleDeviceSharding

LAYOUTS = shardings()
VALUE = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)


def check_parts(array: tetrax.Array, value: np.ndarray) -> None:
    """Every device has its part of the value."""
    for shard in array.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), value[shard.index])
        assert shard.data.devices() == {shard.device}
        assert shard.data.committed


def forget_whole(array: tetrax.Array) -> tetrax.Array:
    """The same array, of which only the parts are known."""
    if not isinstance(array, ShardedArray):
        return array
    parts = [jnp.array(shard.data, device=shard.device) for shard in array.addressable_shards]
    made = tetrax.make_array_from_single_device_arrays(array.shape, array.sharding, parts)
    assert isinstance(made, ShardedArray)
    assert whole_if_known(made) is None
    return made


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_device_gets_its_part(name: str):
    array = tetrax.device_put(VALUE, LAYOUTS[name])
    assert array.sharding == LAYOUTS[name]
    assert array.devices() == LAYOUTS[name].device_set
    assert isinstance(array, tetrax.Array)
    check_parts(array, VALUE)
    np.testing.assert_array_equal(np.asarray(forget_whole(array)), VALUE)
    assert repr(array) == repr(jnp.asarray(VALUE))


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(LAYOUTS, 2)))
def test_moving_to_another_sharding(before: str, after: str):
    array = forget_whole(tetrax.device_put(VALUE, LAYOUTS[before]))
    moved = tetrax.device_put(array, LAYOUTS[after])
    assert moved.sharding == LAYOUTS[after]
    check_parts(moved, VALUE)
    np.testing.assert_array_equal(np.asarray(moved), VALUE)
    if "single" not in (before, after):
        # Neither needs the other's elements in one piece.
        assert LAYOUTS[before].is_fully_replicated or whole_if_known(array) is None


def test_parts_that_are_there_are_not_copied():
    rows = forget_whole(tetrax.device_put(VALUE, LAYOUTS["rows"]))
    turned = NamedSharding(mesh_of(range(7, -1, -1), "x"), P("x"))
    moved = tetrax.device_put(rows, turned)
    addresses = {shard.data.address for shard in rows.addressable_shards}
    assert {shard.data.address for shard in moved.addressable_shards} == addresses
    copies = tetrax.device_put(VALUE, LAYOUTS["everywhere"])
    assert len({shard.data.address for shard in copies.addressable_shards}) == 1


def test_a_larger_array_is_not_put_together_for_a_part():
    """Rows to halves: each half is copied once, for all devices that hold it."""
    rows = forget_whole(tetrax.device_put(VALUE, LAYOUTS["rows"]))
    halves = tetrax.device_put(rows, LAYOUTS["halves"])
    assert len({shard.data.address for shard in halves.addressable_shards}) == 2


@pytest.mark.parametrize(
    "value",
    [
        np.arange(8, dtype=np.int32),
        np.arange(8).astype(ml_dtypes.bfloat16),
        np.arange(8) % 2 == 0,
        (np.arange(8) * 1j).astype(np.complex64),
        np.zeros((8, 0), np.float32),
        np.zeros((0, 3), np.float32),
    ],
    ids=lambda value: f"{value.dtype}{value.shape}",
)
def test_dtypes_and_sizes(value: np.ndarray):
    array = tetrax.device_put(value, NamedSharding(mesh_of(range(8), "x"), P("x")))
    assert array.dtype == value.dtype
    check_parts(array, value)
    other = tetrax.device_put(forget_whole(array), NamedSharding(mesh_of(range(8), "x"), P()))
    np.testing.assert_array_equal(np.asarray(other), value)
    np.testing.assert_array_equal(tetrax.device_get(array), value)


def test_scalars_and_weak_types():
    scalar = tetrax.device_put(3.0, LAYOUTS["everywhere"])
    assert scalar.weak_type
    assert scalar.shape == ()
    assert float(scalar) == 3.0
    assert all(float(shard.data) == 3.0 for shard in scalar.addressable_shards)
    with pytest.raises(ValueError, match="rank 0"):
        tetrax.device_put(3.0, LAYOUTS["rows"])


def test_typed_keys():
    keys = tetrax.random.split(tetrax.random.key(0), 8)
    array = tetrax.device_put(keys, LAYOUTS["rows"])
    assert array.dtype == keys.dtype
    words = tetrax.random.key_data(keys)
    np.testing.assert_array_equal(tetrax.random.key_data(array), words)
    shard = array.addressable_shards[3]
    np.testing.assert_array_equal(tetrax.random.key_data(shard.data), words[3:4])


def test_trees_of_values_and_of_targets():
    tree = {"a": VALUE, "b": (VALUE[:, :8], 1.0)}
    target = {"a": LAYOUTS["tiles"], "b": (LAYOUTS["rows"], tetrax.devices()[2])}
    placed = tetrax.device_put(tree, target)
    assert placed["a"].sharding == LAYOUTS["tiles"]
    assert placed["b"][0].sharding == LAYOUTS["rows"]
    assert placed["b"][1].devices() == {tetrax.devices()[2]}
    both = tetrax.device_put(tree, {"a": LAYOUTS["rows"], "b": None})
    assert both["a"].sharding == LAYOUTS["rows"]
    assert not both["b"][0].committed


def test_sizes_that_do_not_divide_are_explained():
    sharding = NamedSharding(mesh_of(np.arange(8).reshape(2, 4), "xy"), P(None, ("x", "y")))
    with pytest.raises(ValueError, match=r"Dimension 1 .*size 6.* divisible by 8.*Pad it to 8"):
        tetrax.device_put(np.zeros((4, 6)), sharding)
    with pytest.raises(errors.IndivisibleError, match="'x' of size 2 and 'y' of size 4"):
        sharding.shard_shape((4, 6))


def test_donated_arrays_are_deleted():
    array = jnp.arange(8.0)
    placed = tetrax.device_put(array, NamedSharding(mesh_of(range(8), "x"), P("x")), donate=True)
    assert array.is_deleted()
    moved = tetrax.device_put(placed, NamedSharding(mesh_of(range(8), "x"), P()), donate=True)
    assert placed.is_deleted()
    np.testing.assert_array_equal(moved, np.arange(8))
    for ask in (lambda: placed + 1, lambda: placed.addressable_shards, lambda: np.asarray(placed)):
        with pytest.raises(RuntimeError, match="deleted"):
            ask()


def test_a_part_that_was_deleted_takes_the_array_with_it():
    array = tetrax.device_put(VALUE, LAYOUTS["rows"])
    array.addressable_shards[2].data.delete()
    assert array.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        array.block_until_ready()


def test_deleting_one_of_two_equal_layouts_leaves_the_other():
    rows = forget_whole(tetrax.device_put(VALUE, LAYOUTS["rows"]))
    same = tetrax.device_put(rows, NamedSharding(LAYOUTS["rows"].mesh, P("x", None)))
    rows.delete()
    np.testing.assert_array_equal(same, VALUE)


def test_copies_and_pickles():
    array = tetrax.device_put(VALUE, LAYOUTS["tiles"])
    twin = copy.deepcopy(array)
    assert twin.sharding == array.sharding
    array.delete()
    check_parts(twin, VALUE)
    assert copy.copy(twin) is twin
    restored = pickle.loads(pickle.dumps(twin))
    assert isinstance(restored.sharding, SingleDeviceSharding)
    np.testing.assert_array_equal(restored, VALUE)


def test_numpy_arrays_are_not_aliased():
    value = VALUE.copy()
    array = tetrax.device_put(value, LAYOUTS["rows"])
    value[:] = 0
    np.testing.assert_array_equal(array, VALUE)
    assert not np.asarray(array).flags.writeable


def test_specs_alone_refer_to_the_mesh_that_is_set():
    with pytest.raises(ValueError, match="set_mesh"):
        tetrax.device_put(VALUE, P("x"))
    mesh = mesh_of(range(8), "x")
    with tetrax.set_mesh(mesh):
        assert tetrax.device_put(VALUE, P("x")).sharding == NamedSharding(mesh, P("x"))
        assert tetrax.sharding.get_mesh() is mesh
        assert tetrax.sharding.get_abstract_mesh() is mesh.abstract_mesh
    assert tetrax.sharding.get_mesh().empty
    with mesh:
        assert tetrax.device_put(VALUE, P("x")).sharding == NamedSharding(mesh, P("x"))


def test_new_arrays_with_a_device():
    sharding = NamedSharding(mesh_of(range(8), "x"), P("x"))
    made = [
        jnp.zeros(8, device=sharding),
        jnp.full((8,), 2, device=sharding),
        jnp.arange(8, device=sharding),
        jnp.array([1] * 8, device=sharding),
        jnp.asarray(np.ones(8), device=sharding),
        jnp.linspace(0, 1, 8, device=sharding),
        jnp.ones_like(np.ones(8), device=sharding),
        jnp.arange(8).to_device(sharding),
    ]
    assert all(array.sharding == sharding for array in made)
    np.testing.assert_array_equal(made[2], np.arange(8))


def test_new_arrays_like_sharded_ones():
    """As the state of an optimiser is made of parameters."""
    array = tetrax.device_put(VALUE, LAYOUTS["tiles"])
    made = [
        jnp.zeros_like(array),
        jnp.ones_like(array, dtype=int),
        jnp.full_like(array, array),
        tetrax.lax.full_like(array, 2),
        tetrax.lax.full((8, 16), 2, sharding=LAYOUTS["tiles"]),
        tetrax.jit(lambda x: x)(jnp.zeros_like(array)),
    ]
    assert all(x.sharding == array.sharding for x in made)
    for _ in range(4):
        check_parts(jnp.zeros_like(array), np.zeros_like(VALUE))
    assert not jnp.zeros_like(array, shape=(4,)).committed
    assert not isinstance(tetrax.jit(jnp.zeros_like)(VALUE), ShardedArray)


def test_asking_for_layouts_of_arguments_and_results():
    sharding = tetrax.sharding
    wanted, other = LAYOUTS["rows"], LAYOUTS["halves"]
    assert tetrax.reshard(VALUE, wanted).sharding == wanted
    assert tetrax.reshard({"a": VALUE}, {"a": wanted})["a"].sharding == wanted
    doubled = sharding.auto_axes(lambda x: x * 2, axes="x")(VALUE, out_sharding=wanted)
    assert doubled.sharding == wanted
    pair = sharding.auto_axes(out_sharding=(wanted, other))(lambda x, y: (x, y))(VALUE, VALUE)
    assert [x.sharding for x in pair] == [wanted, other]
    first = sharding.explicit_axes(lambda x, y: x, in_sharding=(wanted, other))(VALUE, VALUE)
    assert first.sharding == wanted
    for ask in (sharding.auto_axes(lambda x: x), sharding.explicit_axes(lambda x: x)):
        with pytest.raises(TypeError, match="_sharding"):
            ask(VALUE)


def test_addresses():
    array = tetrax.device_put(VALUE, LAYOUTS["single"])
    assert array.unsafe_buffer_pointer() == array.address
    with pytest.raises(ValueError, match="one device"):
        tetrax.device_put(VALUE, LAYOUTS["rows"]).unsafe_buffer_pointer()


# -- of parts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
def test_from_callback(name: str):
    asked = []

    def part(index: tuple[slice, ...]) -> np.ndarray:
        asked.append(str(index))
        return VALUE[index]

    array = tetrax.make_array_from_callback(VALUE.shape, LAYOUTS[name], part)
    assert len(asked) == len(set(asked))
    assert array.sharding == LAYOUTS[name]
    check_parts(array, VALUE)
    np.testing.assert_array_equal(array, VALUE)


def test_from_callback_checks_dtypes():
    make = tetrax.make_array_from_callback
    assert make((8, 16), LAYOUTS["rows"], lambda i: VALUE[i], dtype=np.float32).dtype == "float32"
    with pytest.raises(ValueError, match="dtype"):
        make((8, 16), LAYOUTS["rows"], lambda i: VALUE[i], dtype=np.int32)


def test_from_parts_in_any_order():
    parts = [s.data for s in tetrax.device_put(VALUE, LAYOUTS["tiles"]).addressable_shards]
    make = tetrax.make_array_from_single_device_arrays
    array = make(VALUE.shape, LAYOUTS["tiles"], parts[::-1])
    np.testing.assert_array_equal(array, VALUE)
    found = {shard.data.address for shard in array.addressable_shards}
    assert found == {part.address for part in parts}
    with pytest.raises(ValueError, match="not in"):
        make((2,), NamedSharding(mesh_of([0, 1], "x"), P("x")), parts[2:4])


def test_from_process_local_data_of_one_process():
    make = tetrax.make_array_from_process_local_data
    tree = make(LAYOUTS["rows"], {"a": VALUE, "b": VALUE[:, 0]})
    assert tree["b"].sharding == LAYOUTS["rows"]
    np.testing.assert_array_equal(tree["a"], VALUE)


def test_one_tree_for_each_device():
    devices = tetrax.devices()[:4]
    array = tetrax.device_put_sharded([{"a": np.full(3, i)} for i in range(4)], devices)["a"]
    np.testing.assert_array_equal(array, np.repeat(np.arange(4), 3).reshape(4, 3))
    assert [s.device for s in array.addressable_shards] == devices
    assert array.addressable_shards[0].data.shape == (1, 3)
    copies = tetrax.device_put_replicated(np.arange(3), devices)
    np.testing.assert_array_equal(copies, np.tile(np.arange(3), (4, 1)))
    with pytest.raises(ValueError, match="one tree for each device"):
        tetrax.device_put_sharded([1, 2], devices)


# -- as operands ---------------------------------------------------------------------------------

CALLS = {
    "add": lambda x: x + 1,
    "product": lambda x: x @ x.T,
    "sum": lambda x: x.sum(0),
    "index": lambda x: x[2:4, 1],
    "update": lambda x: x.at[0].set(7.0),
    "sort": lambda x: jnp.sort(-x, axis=1),
    "join": lambda x: jnp.concatenate([x, x]),
    "numpy": lambda x: np.sin(np.asarray(x)),
    "jit": tetrax.jit(lambda x: jnp.sin(x) * 2),
    "grad": tetrax.grad(lambda x: (x**2).sum()),
    "vmap": tetrax.vmap(lambda x: x.max()),
    "scan": lambda x: tetrax.lax.scan(lambda c, y: (c + y, c.sum()), x[0], x)[1],
    "list": lambda x: np.array(list(x)),
    "aot": lambda x: tetrax.jit(lambda y: y * 3).lower(x).compile()(x),
    "donated": lambda x: tetrax.jit(lambda y: y + 1, donate_argnums=0)(copy.deepcopy(x)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("layout", ["tiles", "everywhere"])
def test_sharded_operands(name: str, layout: str):
    """Called often enough that compiled code takes over."""
    expected = np.asarray(CALLS[name](jnp.asarray(VALUE)))
    for _ in range(6):
        found = CALLS[name](forget_whole(tetrax.device_put(VALUE, LAYOUTS[layout])))
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_iterating_and_converting():
    array = tetrax.device_put(np.arange(8), LAYOUTS["rows"])
    assert [int(x) for x in array] == list(range(8))
    assert array.tolist() == list(range(8))
    assert len(array) == 8
    assert int(array[3]) == 3
    assert str(array) == "[0 1 2 3 4 5 6 7]"
    assert array.nbytes == 32
    assert f"{array}" == str(array)


def test_a_mesh_of_one_device():
    mesh = Mesh(np.array(tetrax.devices()[:1]), ("x",))
    array = tetrax.device_put(VALUE, NamedSharding(mesh, P("x")))
    assert array.is_fully_replicated
    assert array.sharding == NamedSharding(mesh, P("x"))
    np.testing.assert_array_equal(array + 1, VALUE + 1)
