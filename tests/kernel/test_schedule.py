"""Which loops become tasks, how they are cut, and that what they compute stays the same."""

from __future__ import annotations

import ctypes

import pytest

import numpy as np
from conftest import call_kernel
from tetrax.compiler.cpu import schedule as scheduling
from tetrax.compiler.cpu.schedule import schedule
from tetrax.compiler.cpu.schedule_cost import cost_of
from tetrax.compiler.cpu.schedule_legality import is_independent
from tetrax.ir import kernel as k
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_check import check
from tetrax.ir.kernel_printer import text


@pytest.fixture
def everything_pays(monkeypatch):
    """Cut even the smallest loops."""
    monkeypatch.setattr(scheduling, "LEAST_TIME", 0.0)
    monkeypatch.setattr(scheduling, "TASK_TIME", 1e-3)


def loops(kernel, kind="tasks"):
    return text(kernel).count(f"{kind} loop")


def elementwise(size, mode="out"):
    b = KernelBuilder()
    x, y = b.input("x", k.F32, size), b.buffer("y", k.F32, size, mode)
    with b.loop(size, "vector") as i:
        value = k.mul(b.load(x, i), 2.0)
        b.store(y, i, value if mode == "out" else k.add(value, b.load(y, i)))
    return b.build("elementwise")


def same_results(kernel, *arrays, scalars=()):
    """Whether the scheduled kernel, which has tasks, stores the bits that the plain one does."""
    check(kernel)
    scheduled = schedule(kernel)
    check(scheduled)
    assert loops(scheduled) > 0
    plain, shared = ([a.copy() for a in arrays] for _ in range(2))
    call_kernel(kernel, *plain, scalars=scalars)
    call_kernel(scheduled, *shared, scalars=scalars)
    return all(a.tobytes() == b.tobytes() for a, b in zip(plain, shared, strict=True))


def test_small_kernels_stay_as_they_are():
    small = elementwise(5000)
    assert schedule(small) is small


def test_a_large_loop_is_cut_at_cache_lines():
    shown = text(schedule(elementwise(100_003)))
    assert "tasks loop i1<8" in shown
    assert "vector loop i2<12544" in shown  # 8 * 12544 = 100352: the last task starts earlier
    assert "min(" in shown
    assert "tasks loop i1<32" in text(schedule(elementwise(10_000_000)))


def test_the_cut_is_the_same_on_every_machine(monkeypatch):
    shown = text(schedule(elementwise(100_003)))
    monkeypatch.setenv("TETRAX_NUM_THREADS", "5")
    assert text(schedule(elementwise(100_003))) == shown


@pytest.mark.parametrize("size", [2, 63, 64, 65, 129, 1000, 4099])
@pytest.mark.parametrize("mode", ["out", "inout"])
def test_any_size(everything_pays, size, mode):
    if size <= 64:
        assert loops(schedule(elementwise(size, mode))) == 0  # one piece is all
        return
    x = np.random.default_rng(0).standard_normal(size).astype("f4")
    assert same_results(elementwise(size, mode), x, np.ones_like(x))


def test_what_is_updated_in_place_is_not_computed_twice():
    shown = text(schedule(elementwise(100_003, "inout")))
    assert "vector loop i2<12544" not in shown


def nest(extents, source, target, size, kinds=("serial", "vector")):
    b = KernelBuilder()
    x, y = b.input("x", k.F32, size), b.output("y", k.F32, size)
    with b.loop(extents[0], kinds[0]) as i, b.loop(extents[1], kinds[1]) as j:
        b.store(y, target(i, j), k.add(b.load(x, source(i, j)), 1.0))
    return b.build("nest")


@pytest.mark.parametrize(("rows", "columns"), [(301, 207), (9, 5001), (3, 70_001), (64, 64)])
@pytest.mark.parametrize("transposed", [False, True])
def test_nests(everything_pays, rows, columns, transposed):
    def along(i, j):
        return k.add(k.mul(i, columns), j)

    def across(i, j):
        return k.add(k.mul(j, rows), i)

    kernel = nest((rows, columns), across if transposed else along, along, rows * columns)
    x = np.random.default_rng(0).standard_normal(rows * columns).astype("f4")
    assert same_results(kernel, x, np.zeros_like(x))


def test_few_rows_are_cut_along_the_columns():
    kernel = nest((3, 1 << 20), lambda i, j: k.add(k.mul(i, 1 << 20), j), lambda i, j: k.add(
        k.mul(i, 1 << 20), j), 3 << 20)  # fmt: skip
    shown = text(schedule(kernel)).splitlines()
    assert shown[1].strip().startswith("serial loop")
    assert shown[2].strip().startswith("tasks loop")


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (lambda i, j: k.add(k.mul(i, 100), j), True),
        (lambda i, j: k.add(k.mul(i, 99), j), False),  # rows overlap
        (lambda i, j: k.add(k.mul(j, 100), i), True),
        (lambda i, j: j, False),
        (lambda i, j: i, False),  # all turns of j meet, those of i do not: checked below
        (lambda i, j: k.rem(k.add(k.mul(i, 100), j), 7), False),
    ],
)
def test_independence_is_proven(offset, expected):
    b = KernelBuilder()
    y = b.output("y", k.F32, 10_000)
    with b.loop(100) as i, b.loop(100) as j:
        b.store(y, offset(i, j), k.const(1.0, k.F32))
    loop = b.build("stores").body
    assert is_independent(loop) == (expected or offset(i, j) is i)


def test_dependent_loops_stay_serial(everything_pays):
    b = KernelBuilder()
    x, y = b.input("x", k.F32, 1000), b.buffer("y", k.F32, 1001, "inout")
    with b.loop(1000) as i:
        b.store(y, k.add(i, 1), k.add(b.load(y, i), b.load(x, i)))
    total = b.carry("total", k.const(0.0, k.F32))
    with b.loop(1000) as i:
        total.set(k.add(total.value, b.load(x, i)))
        b.store(y, i, total.value)
    assert loops(schedule(b.build("running"))) == 0


def test_a_parallel_loop_has_temporaries_of_its_own(everything_pays):
    rows, columns = 50, 33
    b = KernelBuilder()
    x, y = b.input("x", k.F32, rows * columns), b.output("y", k.F32, rows * columns)
    row = b.temporary(k.F32, columns)
    with b.loop(rows, "parallel") as i:
        base = k.mul(i, columns)
        with b.loop(columns, "vector") as j:
            b.store(row, j, k.mul(b.load(x, k.add(base, j)), 3.0))
        with b.loop(columns, "vector") as j:
            b.store(y, k.add(base, j), b.load(row, k.sub(k.index(columns - 1), j)))
    kernel = b.build("reversed_rows")
    scheduled = schedule(kernel)
    assert scheduled.scratch_bytes == 8 * 192  # 33 floats take three cache lines
    x = np.random.default_rng(0).standard_normal(rows * columns).astype("f4")
    assert same_results(kernel, x, np.zeros_like(x))


def test_a_parallel_loop_around_calls_and_whiles(everything_pays):
    size = 40
    b = KernelBuilder()
    x, y = b.input("x", k.F32, size), b.output("y", k.F32, size)
    with b.loop(size, "parallel") as i:
        value = b.carry("value", b.load(x, i))
        with b.while_loop(lambda: k.gt(value.value, 1.0)):
            value.set(k.mul(value.value, 0.5))
        b.store(y, i, value.value)
    x = np.random.default_rng(0).uniform(0, 1000, size).astype("f4")
    assert same_results(b.build("halved"), x, np.zeros_like(x))


@pytest.mark.parametrize("count", [0, 1, 7, 100])
def test_extents_known_at_run_time(everything_pays, count):
    b = KernelBuilder()
    x, y = b.input("x", k.F32, 100), b.output("y", k.F32, 100)
    size = b.scalar("size", k.I64)
    with b.loop(size, "parallel") as i:
        b.store(y, i, k.add(b.load(x, i), 1.0))
    x = np.arange(100, dtype="f4")
    assert same_results(b.build("part"), x, np.zeros_like(x), scalars=(ctypes.c_int64(count),))


def test_tasks_take_what_is_computed_outside(everything_pays):
    b = KernelBuilder()
    x, y = b.input("x", k.F32, 1000), b.output("y", k.F32, 10_000)
    factor = b.scalar("factor", k.F32)
    j = k.index_variable("j", 1000)
    total = k.reduce_sum([(j, 1000)], b.load(x, j))
    with b.loop(10) as i, b.loop(1000, "vector") as j:
        value = k.mul(k.add(b.load(x, j), total), k.mul(k.convert(i, k.F32), factor))
        b.store(y, k.add(k.mul(i, 1000), j), value)
    x = np.random.default_rng(0).standard_normal(1000).astype("f4")
    assert same_results(
        b.build("outside"), x, np.zeros(10_000, "f4"), scalars=(ctypes.c_float(2.5),)
    )


def test_tasks_written_by_a_rule(everything_pays):
    b = KernelBuilder()
    y = b.output("y", k.I32, 600)
    with b.loop(6, "tasks") as task, b.loop(100, "vector") as i:
        b.store(y, k.add(k.mul(task, 100), i), k.convert(task, k.I32))
    kernel = schedule(b.build("own_tasks"))
    assert loops(kernel) == 1
    y = np.zeros(600, np.int32)
    call_kernel(kernel, y)
    np.testing.assert_array_equal(y, np.repeat(np.arange(6), 100))


def test_costs_grow_with_the_work():
    cheap, long = elementwise(1000), elementwise(1_000_000)
    assert cost_of(cheap.body).time < 1000
    assert 50_000 < cost_of(long.body).time < 5_000_000
    b = KernelBuilder()
    x, y = b.input("x", k.F32, 1000), b.output("y", k.F32, 1000)
    with b.loop(1000, "vector") as i:
        b.store(y, i, k.unary("exp", b.load(x, i)))
    assert cost_of(b.build("exp").body).compute > 3 * cost_of(cheap.body).compute
