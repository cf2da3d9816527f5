"""Runners, in machine code and in Python: what they check, make and answer, and that none leaks."""

from __future__ import annotations

import dataclasses
import gc
import os
import sys
import threading

import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import errors
from tetrax.compiler.pipeline import compile_program
from tetrax.runtime import memory
from tetrax.runtime.array import Array, calls_in_flight
from tetrax.runtime.native_call import FAILED, MISMATCH, native_runner, out_bytes, python_runner
from tetrax.runtime.native_functions import address_of

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def runner_of(make, function, *args, single=False):
    """A runner for `function` on arrays like `args`, made by `make`, and what it was made from."""
    closed = tetrax.make_jaxpr(function)(*args)
    executable = compile_program(closed)
    call = executable.call(single)
    return make(call), call


@pytest.fixture(params=[native_runner, python_runner], ids=["native", "python"])
def make(request):
    return request.param


def test_results_in_a_list_or_alone(make):
    x = jnp.asarray(X)
    run, _ = runner_of(make, lambda x: (x + 1, x.sum()), x)
    more, total = run(x)
    assert type(more) is Array
    assert more.aval.shape == (2, 3)
    np.testing.assert_array_equal(more, X + 1)
    assert float(total) == 15
    run, _ = runner_of(make, lambda x: x * 2, x, single=True)
    np.testing.assert_array_equal(run(x), X * 2)
    run, _ = runner_of(make, lambda x: (), x)
    assert run(x) == []


def test_results_feed_the_next_call(make):
    x = jnp.asarray(X)
    run, _ = runner_of(make, lambda x: x + 1, x, single=True)
    for _ in range(10):
        x = run(x)
    np.testing.assert_array_equal(x, X + 10)
    assert not np.asarray(x).flags.writeable


def test_other_arguments_are_a_mismatch(make):
    x = jnp.asarray(X)
    run, _ = runner_of(make, lambda x, y: x + y, x, x, single=True)
    wrong = [
        (),
        (x,),
        (x, x, x),
        (x, 1.0),
        (x, X),
        (x, None),
        (x, x.T),
        (x, x.astype(jnp.int32)),
        (x, jnp.broadcast_to(1.0, (2, 3))),  # weakly typed
    ]
    for args in wrong:
        assert run(*args) is MISMATCH
    tracers = []
    tetrax.make_jaxpr(lambda t: tracers.append(run(x, t)) or t)(x)
    assert tracers == [MISMATCH]


def test_deleted_arguments_raise(make):
    x = jnp.asarray(X)
    run, _ = runner_of(make, lambda x: x + 1, x, single=True)
    x.delete()
    with pytest.raises(errors.DonatedBufferError):
        run(x)


def test_constants_and_layouts(make):
    table = np.arange(200, dtype=np.float32).reshape(2, 100)
    x = jnp.asarray(X[:, :2]).T
    run, _ = runner_of(make, lambda x: x @ table, x, single=True)
    np.testing.assert_allclose(run(x), X[:, :2].T @ table, rtol=1e-6)


def test_empty_arrays(make):
    x = jnp.zeros((0, 3))
    run, _ = runner_of(make, lambda x: (x + 1, x.sum()), x)
    more, total = run(x)
    assert more.shape == np.asarray(more).shape == (0, 3)
    assert float(total) == 0


def test_given_memory(make):
    x = jnp.ones((300, 400))
    run, call = runner_of(make, lambda x: (x + 1, x.sum(), x - 1), x)
    assert call.takes_memory
    assert list(call.given) == [True, False, True]
    blocks = [memory.take(out_bytes(x.aval)) for _ in range(2)]
    arena = memory.take(max(call.arena_bytes, 1))
    more, total, less = run(arena.address, blocks, x)
    assert more._address == blocks[0].address
    assert less._address == blocks[1].address
    assert float(total) == 120_000
    np.testing.assert_array_equal(more, np.full((300, 400), 2))
    np.testing.assert_array_equal(less, np.zeros((300, 400)))


def test_nothing_leaks(make):
    x = jnp.asarray(X)
    run, call = runner_of(make, lambda x: (x + 1, x.sum()), x)
    held = [x, x.aval, *call.out_avals, Array]

    def many():
        for _ in range(1000):
            run(x)
            run(x, x)

    many()
    gc.collect()
    before = [sys.getrefcount(thing) for thing in held]
    blocks = sys.getallocatedblocks()
    many()
    gc.collect()
    after = [sys.getrefcount(thing) for thing in held]
    assert all(abs(a - b) < 10 for a, b in zip(before, after, strict=True))
    assert sys.getallocatedblocks() - blocks < 500


def test_more_values_than_the_stack_should_hold():
    xs = [jnp.float32(i) for i in range(5000)]
    total = tetrax.jit(lambda *xs: jnp.stack(xs).sum())(*xs)
    assert float(total) == 5000 * 4999 / 2


def test_address_of():
    for array in (X, X.T, X[1:], np.zeros((0,)), np.ones((), np.int8)):
        assert address_of(array) == array.__array_interface__["data"][0]
    with pytest.raises(AttributeError):
        address_of(3)  # type: ignore[arg-type]


# -- through jit -----------------------------------------------------------------------------------


def test_runner_calls_itself_from_a_callback():
    def host(n):
        n = int(n)
        return np.int32(0 if n == 0 else int(total(jnp.int32(n - 1))) + n)

    @tetrax.jit
    def total(n):
        return tetrax.pure_callback(host, tetrax.ShapeDtypeStruct((), jnp.int32), n)

    assert int(total(jnp.int32(10))) == 55


def test_raising_callback_is_raised_once_and_forgotten():
    def host(x):
        if x > 1:
            raise KeyError("from the host")
        return x

    f = tetrax.jit(lambda x: tetrax.pure_callback(host, x, x) + 1)
    for _ in range(3):
        assert float(f(jnp.float32(1))) == 2
        with pytest.raises(KeyError, match="from the host"):
            f(jnp.float32(2))


def test_failed_is_told_from_mismatch(make):
    def host(x):
        raise KeyError

    x = jnp.float32(1)
    run, _ = runner_of(make, lambda x: tetrax.pure_callback(host, x, x), x, single=True)
    assert run(x) is FAILED
    assert FAILED is not MISMATCH


def test_one_function_in_many_threads():
    f = tetrax.jit(lambda x, y: (x * y + 1, (x * y).sum()))
    g = tetrax.jit(lambda x: tetrax.lax.fori_loop(0, 2000, lambda i, x: x * 0.999 + 0.001, x))
    wrong = []

    def work(seed):
        x = jnp.arange(8.0) + seed
        expected = np.arange(8, dtype=np.float32) + np.float32(seed)
        for _ in range(300):
            y, _ = f(x, x)
            if not np.array_equal(y, expected * expected + 1):
                wrong.append(seed)
        for _ in range(20):
            g(x)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert calls_in_flight.value == 0


def test_deleting_an_argument_in_another_thread():
    f = tetrax.jit(lambda x: tetrax.lax.fori_loop(0, 300, lambda i, y: y + x, jnp.zeros_like(x)))
    size = 100_000
    f(jnp.ones(size)).block_until_ready()
    for _ in range(5):
        x = jnp.ones(size) * 1
        found = []
        thread = threading.Thread(target=lambda x=x, found=found: found.append(_value(f, x)))
        thread.start()
        x.delete()
        thread.join()
        # Either it had started and saw every element, or it found the argument gone.
        assert found[0] is None or np.array_equal(found[0], np.full(size, 300))
    assert calls_in_flight.value == 0


def _value(f, x):
    try:
        return np.array(f(x))
    except errors.DonatedBufferError:
        return None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_runner_after_fork():
    f = tetrax.jit(lambda x: x * 3)
    x = jnp.arange(4.0)
    f(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(f(f(x)), 9 * np.arange(4)) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_calls_know_what_they_need():
    call = compile_program(tetrax.make_jaxpr(lambda x: x + 1)(1.0)).call(True)
    assert not call.takes_memory
    assert not call.release
    assert dataclasses.replace(call, given=[True]).takes_memory
    loop = tetrax.make_jaxpr(lambda x: tetrax.lax.while_loop(lambda x: x < 9, lambda x: x + 1, x))
    assert compile_program(loop(1.0)).call(True).release
