"""Programs of several devices that can't go on: one clear error, soon, and the next call works."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import numpy as np
import tetrax
from tetrax import lax
from tetrax.errors import CollectiveError

DEVICES = 4
X = np.arange(float(DEVICES), dtype=np.float32)
SCALAR = tetrax.ShapeDtypeStruct((), np.float32)


@pytest.fixture(params=["auto", "always"], autouse=True)
def overlap(request: pytest.FixtureRequest):
    """With sums done by the devices, and by their shadows."""
    before = tetrax.config.overlap_collectives
    tetrax.config.update("overlap_collectives", request.param)
    yield request.param
    tetrax.config.update("overlap_collectives", before)


def over_devices(f: Callable[..., Any]) -> Any:
    """`f` on each of the devices; two runs, so that a failure has left nothing behind."""
    mapped = tetrax.pmap(f, "i")
    with pytest.raises(Exception) as first:
        mapped(X)
    with pytest.raises(type(first.value)):
        mapped(X)
    total = tetrax.pmap(lambda v: lax.psum(v, "i"), "i")(X)
    np.testing.assert_array_equal(total, np.full(DEVICES, X.sum()))
    return first.value


def own_branch(v: Any, one: Callable[[Any], Any], other: Callable[[Any], Any]) -> Any:
    return lax.cond(v > 1, one, other, v)


def total(v: Any) -> Any:
    return lax.psum(v, "i")


def explains(error: Exception) -> None:
    """It names a device, a collective and a line of this file."""
    text = str(error)
    assert isinstance(error, CollectiveError)
    assert re.search(
        r"device \d waits in all_reduce_(sum|max)_f32 at \S*test_failures.py:\d+", text
    )
    assert "All devices must run the same collectives" in text


def test_a_host_function_that_raises():
    def bad(v: np.ndarray) -> np.ndarray:
        if v == 2:
            raise KeyError("no such row")
        return v

    error = over_devices(lambda v: total(tetrax.pure_callback(bad, SCALAR, v)))
    assert isinstance(error, KeyError)
    assert "no such row" in str(error)


def test_host_functions_that_raise_on_all_devices():
    def bad(v: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError(float(v))

    error = over_devices(lambda v: total(tetrax.pure_callback(bad, SCALAR, v)))
    assert isinstance(error, ZeroDivisionError)


def test_a_collective_in_one_branch_only():
    explains(over_devices(lambda v: own_branch(v, total, lambda u: u)))


def test_a_collective_in_one_branch_and_one_for_all():
    explains(over_devices(lambda v: (own_branch(v, total, lambda u: u), total(v * 2))))
    explains(over_devices(lambda v: (total(v * 2), own_branch(v, total, lambda u: u))))


def test_different_collectives():
    explains(over_devices(lambda v: own_branch(v, total, lambda u: lax.pmax(u, "i"))))


def test_collectives_in_another_order():
    def one(u: Any) -> Any:
        return lax.psum(lax.pmax(u, "i") * u, "i")

    def other(u: Any) -> Any:
        return lax.pmax(lax.psum(u, "i") * u, "i")

    explains(over_devices(lambda v: own_branch(v, one, other)))


def test_loops_of_different_lengths_around_a_collective():
    def turns(v: Any) -> Any:
        turn = lambda state: (state[0] + 1, total(state[1]))
        return lax.while_loop(lambda state: state[0] < v, turn, (np.float32(0), v))[1]

    explains(over_devices(turns))


def test_a_loop_that_one_device_leaves_early_beside_many_sums():
    def f(v: Any) -> Any:
        sums = [total(v * k) for k in range(80)]
        return own_branch(v, lambda u: total(u * sums[3]), lambda u: u), sums

    explains(over_devices(f))


def test_shard_map_over_two_axes():
    mesh = tetrax.make_mesh((2, 2), ("i", "j"))

    def part(x: Any) -> Any:
        uneven = lax.axis_index("i") * 2 + lax.axis_index("j") == 1
        return lax.cond(uneven, lambda u: lax.psum(u, "j"), lambda u: u * 2, x)

    mapped = tetrax.shard_map(
        part,
        mesh=mesh,
        in_specs=tetrax.P(("i", "j")),
        out_specs=tetrax.P(("i", "j")),
        check_vma=False,
    )
    for _ in range(2):
        with pytest.raises(CollectiveError, match="device 1 waits in all_reduce_sum_f32"):
            mapped(X)


def test_a_host_function_that_runs_devices_itself():
    inner = tetrax.pmap(total, "i")

    def call(v: np.ndarray) -> np.ndarray:
        return np.asarray(inner(X))[0] + v

    error = over_devices(lambda v: tetrax.pure_callback(call, SCALAR, v) + total(v))
    assert isinstance(error, CollectiveError)
    assert "the devices are busy until it returns" in str(error)


def test_a_host_function_of_one_device_may_run_several():
    inner = tetrax.pmap(total, "i")
    call = lambda v: np.asarray(inner(X))[0] + v
    out = tetrax.jit(lambda v: tetrax.pure_callback(call, SCALAR, v))(np.float32(1))
    assert float(out) == X.sum() + 1


def test_calls_from_four_threads_at_once():
    results: dict[int, list[float]] = {}
    start = threading.Barrier(4)

    def work(number: int) -> None:
        mapped = tetrax.pmap(lambda v: total(v * number) + v, "i")
        start.wait()
        results[number] = [float(mapped(X + k).sum()) for k in range(20)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number in range(4):
        sums = [(X + k).sum() for k in range(20)]
        assert results[number] == [s * number * DEVICES + s for s in sums]


def test_failures_and_good_calls_from_threads_at_once():
    good = tetrax.pmap(lambda v: total(v) + v, "i")
    bad = tetrax.pmap(lambda v: own_branch(v, total, lambda u: u), "i")
    seen: list[Any] = []

    def work(mapped: Any) -> None:
        for _ in range(10):
            try:
                seen.append(float(mapped(X).sum()))
            except CollectiveError:
                seen.append("error")

    threads = [threading.Thread(target=work, args=(f,)) for f in (good, bad, good, bad)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(map(str, seen)) == sorted(map(str, ["error"] * 20 + [X.sum() * 5] * 20))


def test_short_calls_while_another_program_calls_host_functions():
    short = tetrax.pmap(lambda v: total(v) + v, "i")
    expected = np.asarray(short(X))
    begun = threading.Event()

    def slow(v: np.ndarray) -> np.ndarray:
        begun.set()
        time.sleep(0.02)
        return v

    calls = tetrax.pmap(lambda v: total(tetrax.pure_callback(slow, SCALAR, v)), "i")
    thread = threading.Thread(target=lambda: [calls(X + k) for k in range(3)])
    thread.start()
    begun.wait()
    while thread.is_alive():
        np.testing.assert_array_equal(short(X), expected)
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_forked_child_has_devices_too():
    mapped = tetrax.pmap(lambda v: total(v) + v, "i")
    expected = np.asarray(mapped(X))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            again = tetrax.pmap(lambda v: total(v * 3), "i")(X)
            same = np.array_equal(mapped(X), expected) and float(again[0]) == 3 * X.sum()
            code = 0 if same else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(mapped(X), expected)


def test_control_c_during_a_program_of_several_devices():
    turn = lambda k, v: total(v) * 0.25
    mapped = tetrax.pmap(lambda v: lax.fori_loop(0, 500, turn, v), "i")
    expected = np.asarray(mapped(X))
    timer = threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT))
    # A shell that starts the tests in the background has them ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            for _ in range(1000):
                mapped(X)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    np.testing.assert_array_equal(mapped(X), expected)
