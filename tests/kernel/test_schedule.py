"""Which loops become tasks, how they are cut, and that what they compute stays the same."""

from __future__ import annotations

import ctypes
import math

import pytest
from tests.kernel.conftest import call_kernel

import numpy as np
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


# --- reductions ---


def reduction(shape, axes, operation="add", type=k.F32):
    """`y[kept] = fold over axes of x`, as the compiler writes it."""
    size = int(np.prod(shape))
    kept = [n for axis, n in enumerate(shape) if axis not in axes]
    b = KernelBuilder()
    x, y = b.input("x", type, size), b.output("y", type, int(np.prod(kept, dtype=int)))
    variables = [(k.index_variable("r", shape[axis]), shape[axis]) for axis in axes]
    with b.nest(kept[:-1]) as outer:
        inner = b.loop(kept[-1], "vector" if shape[-1] == kept[-1] else "serial") if kept else None
        own = (*outer, inner.__enter__()) if inner else outer
        kept_index, reduced = iter(own), iter(v for v, _ in variables)
        offset, flat = k.index(0), k.index(0)
        for axis, extent in enumerate(shape):
            position = next(reduced) if axis in axes else next(kept_index)
            offset = k.add(k.mul(offset, extent), position)
        for variable, extent in zip(own, kept, strict=True):
            flat = k.add(k.mul(flat, extent), variable)
        total = k.variable("total", type)
        start = {"add": 1.0, "max": -np.inf, "min": 5.0}[operation]
        value = k.binary(operation, total, b.load(x, offset))
        result = k.fold(variables, [(total, k.const(start, type), value)], operation)[0]
        b.store(y, flat, result)
        if inner:
            inner.__exit__(None, None, None)
    return b.build("reduction")


REDUCTIONS = [
    ((100_003,), (0,)),
    ((1 << 17,), (0,)),
    ((301, 403), (0, 1)),
    ((3, 70_001), (0, 1)),
    ((1009, 203), (0,)),
    ((50_003, 5), (0,)),
    ((4001, 33), (0,)),
    ((41, 5003), (0,)),
    ((3, 50_021), (1,)),
    ((20, 1001, 37), (1,)),
    ((13, 71, 207), (0, 1)),
    ((100_000, 1), (0,)),
]


@pytest.mark.parametrize(("shape", "axes"), REDUCTIONS)
@pytest.mark.parametrize("operation", ["add", "max", "min"])
@pytest.mark.parametrize("type", [k.F32, k.F64])
def test_reductions(shape, axes, operation, type):
    kernel = reduction(shape, axes, operation, type)
    scheduled = schedule(kernel)
    check(scheduled)
    assert loops(scheduled) > 0
    x = np.random.default_rng(0).standard_normal(shape).astype(type.dtype)
    exact = {"add": np.sum, "max": np.max, "min": np.min}[operation](
        x.astype(np.longdouble), axis=axes
    )
    exact = exact + 1 if operation == "add" else np.minimum(exact, 5.0 if operation == "min" else 9)
    got = np.full(exact.shape, np.nan, type.dtype)
    call_kernel(scheduled, x, got)
    if operation != "add":
        np.testing.assert_array_equal(got, exact)
        return
    # a few roundings of the size that a sum has
    size = np.sqrt(x.size / max(exact.size, 1)) + 1
    assert np.abs(got - exact).max() <= 8 * np.finfo(type.dtype).eps * size


@pytest.mark.parametrize("place", [0, 7, 50_000, 100_002])
def test_extrema_of_nan(place):
    x = np.zeros(100_003, "f4")
    x[place] = np.nan
    got = np.zeros(1, "f4")
    call_kernel(schedule(reduction(x.shape, (0,), "max")), x, got)
    assert np.isnan(got[0])
    columns = np.zeros((1009, 203), "f4")
    columns[place % 1009, place % 203] = np.nan
    got = np.zeros(203, "f4")
    call_kernel(schedule(reduction(columns.shape, (0,), "max")), columns, got)
    assert np.flatnonzero(np.isnan(got)).tolist() == [place % 203]


def test_sums_are_as_good_as_pairwise_ones():
    rng = np.random.default_rng(0)
    for type in (k.F32, k.F64):
        kernel = schedule(reduction((1_000_000,), (0,), type=type))
        ours = pairwise = 0.0
        for _ in range(10):
            x = rng.standard_normal(1_000_000).astype(type.dtype)
            exact = math.fsum([1.0, *x.tolist()])
            got = np.zeros(1, type.dtype)
            call_kernel(kernel, x, got)
            ours += abs(float(got[0]) - exact)
            pairwise += abs(float(x.sum() + type.dtype.type(1)) - exact)
        assert ours <= pairwise


def test_several_folds_share_the_passes():
    b = KernelBuilder()
    x, y, z = b.input("x", k.F32, 1009 * 256), b.output("y", k.F32, 256), b.output("z", k.F32, 256)
    i = k.index_variable("i", 1009)
    with b.loop(256, "vector") as j:
        value = b.load(x, k.add(k.mul(i, 256), j))
        b.store(y, j, k.reduce_sum([(i, 1009)], value))
        b.store(z, j, k.reduce_sum([(i, 1009)], k.mul(value, value)))
    kernel = schedule(b.build("moments"))
    assert loops(kernel, "serial") == 1  # one loop over groups of rows
    x = np.random.default_rng(0).standard_normal((1009, 256)).astype("f4")
    y, z = np.zeros(256, "f4"), np.zeros(256, "f4")
    call_kernel(kernel, x, y, z)
    np.testing.assert_allclose(y, x.sum(0, dtype="f8"), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(z, np.square(x, dtype="f8").sum(0), rtol=1e-6)


def test_folds_over_neighbouring_axes_become_one():
    shown = text(schedule(reduction((7, 5, 3), (0, 1, 2))))
    assert "i2<105:i64 with" in shown
    kept = text(schedule(reduction((7, 5, 3), (0, 2))))
    assert "<7" in kept and "<3" in kept


def test_short_loops_of_long_folds_are_cut_somewhere():
    shape = (9, 11, 13, 17, 19)
    b = KernelBuilder()
    size = int(np.prod(shape))
    x, y = b.input("x", k.F32, size), b.output("y", k.F32, 1)
    variables = [(k.index_variable("r", n), n) for n in shape]
    offset = k.index(0)
    for variable, extent in reversed(variables):  # so that no two loops follow each other in memory
        offset = k.add(k.mul(offset, extent), variable)
    b.store(y, 0, k.reduce_sum(variables, b.load(x, offset)))
    x = np.random.default_rng(0).standard_normal(size).astype("f4")
    got = np.zeros(1, "f4")
    call_kernel(schedule(b.build("permuted")), x, got)
    np.testing.assert_allclose(got[0], x.sum(dtype="f8"), rtol=1e-5)


def test_parallel_loops_may_use_one_temporary(everything_pays):
    b = KernelBuilder()
    x, y = b.input("x", k.F32, 4000), b.output("y", k.F32, 4000)
    spare = b.temporary(k.F32, 10)
    for half in range(2):
        with b.loop(200, "parallel") as i:
            base = k.add(k.mul(i, 10), half * 2000)
            with b.loop(10, "vector") as j:
                b.store(spare, j, b.load(x, k.add(base, j)))
            with b.loop(10, "vector") as j:
                b.store(y, k.add(base, j), b.load(spare, k.sub(k.index(9), j)))
    x = np.random.default_rng(0).standard_normal(4000).astype("f4")
    for _ in range(5):
        assert same_results(b.build("reversed"), x, np.zeros_like(x))
