"""Several devices under hard use: threads, errors in host functions, little memory, wrong calls."""

from __future__ import annotations

import gc
import threading
from collections import Counter

import pytest
from tests.devices.test_devices import run

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import NamedSharding, P, lax
from tetrax.compiler import kept
from tetrax.compiler.sharded import ShardedExecutable
from tetrax.errors import CollectiveError
from tetrax.sharding import AxisType


@pytest.fixture
def mesh():
    return tetrax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))


@pytest.fixture
def cut(mesh):
    return tetrax.device_put(np.arange(16, dtype=np.float32), NamedSharding(mesh, P("i")))


def on_each(mesh, function):
    """A compiled function of what a device has."""
    specs = {"in_specs": P("i"), "out_specs": P("i"), "check_vma": False}
    return tetrax.jit(tetrax.shard_map(function, mesh=mesh, **specs))


def in_threads(work, count=4):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_the_first_calls_may_come_from_several_threads():
    code = """
        import sys, threading
        import numpy as np, tetrax
        sys.setswitchinterval(1e-6)
        mesh = tetrax.make_mesh((8,), ("i",))
        ready, right = threading.Barrier(6), []
        def work(number):
            place = tetrax.NamedSharding(mesh, tetrax.P("i"))
            x = np.arange(8, dtype=np.float32) + number
            double = tetrax.jit(lambda x: x * 2 + number)
            total = tetrax.jit(lambda x: x.sum())
            ready.wait()
            for _ in range(20):
                cut = tetrax.device_put(x, place)
                right.append(np.array_equal(double(cut), x * 2 + number))
                right.append(float(total(cut)) == x.sum())
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(right), all(right))
    """
    assert run(code, TETRAX_NUM_CPU_DEVICES="8") == "240 True"


def test_each_thread_gets_its_own_errors(mesh, cut):
    def refuse(part):
        if part[0] == 4:
            raise KeyError("mine")
        return part

    def meet_sometimes(x):
        return lax.cond(lax.axis_index("i") == 3, lambda x: lax.psum(x, "i"), lambda x: x, x)

    part = tetrax.ShapeDtypeStruct((2,), np.float32)
    raising = on_each(mesh, lambda x: lax.psum(tetrax.pure_callback(refuse, part, x), "i"))
    apart = on_each(mesh, meet_sometimes)
    seen: Counter[str] = Counter()

    def work(_):
        for function in (raising, apart) * 30:
            try:
                function(cut)
            except Exception as error:
                seen[type(error).__name__] += 1

    in_threads(work)
    assert seen == {"KeyError": 120, "CollectiveError": 120}
    np.testing.assert_array_equal(tetrax.jit(lambda x: x + 1)(cut), np.arange(1, 17))


def test_a_host_function_cannot_wait_for_the_devices_that_wait_for_it(cut):
    double = tetrax.jit(lambda x: x * 2)
    double(cut)
    shape = tetrax.ShapeDtypeStruct((16,), np.float32)
    asks = tetrax.jit(lambda x: tetrax.pure_callback(lambda v: np.asarray(double(cut)), shape, x))
    with pytest.raises(CollectiveError, match=r"a host function .* has called one itself"):
        asks(cut)
    # One device is another matter, and afterwards all is as before.
    plain = tetrax.jit(lambda x: tetrax.pure_callback(lambda v: np.asarray(double(v)), shape, x))
    np.testing.assert_array_equal(plain(cut), 2 * np.arange(16))
    np.testing.assert_array_equal(double(cut), 2 * np.arange(16))
    np.testing.assert_array_equal(asks.__wrapped__(np.ones(16, np.float32)), 2 * np.arange(16))


def test_programs_that_were_not_used_for_long_are_let_go(mesh):
    limit = kept.statistics().limit_bytes
    add = tetrax.jit(lambda x: x * 2 + 1)
    place = NamedSharding(mesh, P("i"))
    gc.collect()
    before = sum(type(x) is ShardedExecutable for x in gc.get_objects())
    try:
        kept.set_limit(200_000)
        for size in range(1, 40):
            add(tetrax.device_put(np.ones(8 * size, np.float32), place))
        gc.collect()
        after = sum(type(x) is ShardedExecutable for x in gc.get_objects())
        assert after - before < 39
        first = tetrax.device_put(np.ones(8, np.float32), place)
        np.testing.assert_array_equal(add(first), np.full(8, 3))
    finally:
        kept.set_limit(limit)


def test_nan_is_found_in_the_operation_that_makes_it(mesh, cut):
    with tetrax.debug_nans(True):
        with pytest.raises(FloatingPointError, match=r"in log\n.*test_hard_use.py"):
            tetrax.jit(lambda x: jnp.log(x - 1))(cut)
        with pytest.raises(FloatingPointError, match=r"in shard_map\n.*test_hard_use.py"):
            on_each(mesh, lambda x: jnp.log(x - 1))(cut)
        np.testing.assert_array_equal(tetrax.jit(lambda x: x + 1)(cut), np.arange(1, 17))


def test_errors_name_the_argument_or_result(mesh):
    place = NamedSharding(mesh, P("i"))

    def pair(first, second):
        return {"a": first, "b": [second["x"]]}

    x = np.ones(7, np.float32)
    with pytest.raises(ValueError, match=r"in_shardings, argument second\['x'\] of pair: .*\(7,\)"):
        tetrax.jit(pair, in_shardings=(None, place))(x, {"x": x})
    with pytest.raises(ValueError, match=r"out_shardings, result\['b'\]\[0\]: .*\(7,\)"):
        tetrax.jit(pair, out_shardings={"a": None, "b": place})(x, {"x": x})
    with pytest.raises(ValueError, match=r"argument first of pair: .*float32\[\] has 0 axes"):
        tetrax.jit(pair, in_shardings=(place, None))(np.float32(1), {"x": x})
