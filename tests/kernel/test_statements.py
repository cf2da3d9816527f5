"""Kernels with statements, run on NumPy arrays: loops, carried values, branches, while, scratch
memory, aliasing.
"""

from __future__ import annotations

import ctypes

import pytest
from tests.kernel.conftest import call_kernel

import numpy as np
from tetrax.compiler.cpu import compile_kernels, kernel_llvm, take_bounds_error
from tetrax.compiler.cpu.target import host_target
from tetrax.config import config
from tetrax.ir import kernel as k
from tetrax.ir.kernel_builder import KernelBuilder

RNG = np.random.default_rng(0)


def elementwise(size, element, function, mode="out"):
    """A kernel that applies a function to every element."""
    b = KernelBuilder()
    x = b.buffer("x", element, size, "in" if mode == "out" else mode)
    y = b.output("y", element, size) if mode == "out" else x
    with b.loop(size) as i:
        b.store(y, i, function(b.load(x, i)))
    return b.build("elementwise")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 31, 64, 1003])
def test_every_length(size):
    x = RNG.normal(size=size).astype(np.float32)
    y = np.zeros_like(x)
    call_kernel(elementwise(size, k.F32, lambda v: k.mul(v, 3.0)), x, y)
    np.testing.assert_array_equal(y, x * 3)


@pytest.mark.parametrize("size", [1, 5, 8, 19])
def test_in_place(size):
    x = RNG.normal(size=size)
    expected = x * 2 + 1
    call_kernel(elementwise(size, k.F64, lambda v: k.add(k.mul(v, 2.0), 1.0), "inout"), x)
    np.testing.assert_allclose(x, expected, rtol=1e-15)  # an fma rounds once less


def test_empty():
    x = np.zeros(1, np.float32)
    call_kernel(elementwise(0, k.F32, lambda v: v), x, x)


def test_running_sum_carries_a_value():
    b = KernelBuilder()
    x, y, last = b.input("x", k.F64, 10), b.output("y", k.F64, 10), b.output("last", k.F64, 1)
    total = b.carry("total", k.const(0.0, k.F64))
    with b.loop(10) as i:
        total.set(k.add(total.value, b.load(x, i)))
        b.store(y, i, total.value)
    b.store(last, 0, total.value)
    values, out, end = RNG.normal(size=10), np.zeros(10), np.zeros(1)
    call_kernel(b.build("running_sum"), values, out, end)
    np.testing.assert_array_equal(out, np.cumsum(values))
    assert end[0] == out[-1]


def test_a_load_after_a_store_sees_the_store():
    b = KernelBuilder()
    x = b.buffer("x", k.I32, 4, "inout")
    y = b.output("y", k.I32, 2)
    b.store(y, 0, b.load(x, 1))
    b.store(x, 1, k.const(7, k.I32))
    b.store(y, 1, b.load(x, 1))
    memory, out = np.arange(4, dtype=np.int32), np.zeros(2, np.int32)
    call_kernel(b.build("order"), memory, out)
    np.testing.assert_array_equal(out, [1, 7])


def test_a_recurrence_does_not_run_in_lanes():
    b = KernelBuilder()
    x = b.buffer("x", k.I64, 40, "inout")
    with b.loop(38) as i:
        b.store(x, k.add(i, 2), k.add(b.load(x, i), b.load(x, k.add(i, 1))))
    memory = np.zeros(40, np.int64)
    memory[:2] = 1
    call_kernel(b.build("fibonacci"), memory)
    assert memory[39] == 102334155


def test_branches():
    b = KernelBuilder()
    x, y = b.input("x", k.F32, 21), b.output("y", k.F32, 21)
    with b.loop(21) as i:
        value = b.load(x, i)
        with b.when(k.gt(value, 0.0)):
            b.store(y, i, k.unary("sqrt", value))
        with b.otherwise():
            b.store(y, i, k.neg(value))
    values, out = RNG.normal(size=21).astype(np.float32), np.zeros(21, np.float32)
    call_kernel(b.build("branches"), values, out)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out, np.where(values > 0, np.sqrt(values), -values))


def test_masked_stores_leave_the_rest_alone():
    b = KernelBuilder()
    x, y = b.input("x", k.I32, 19), b.output("y", k.I32, 38)
    with b.loop(19) as i, b.when(k.eq(k.rem(b.load(x, i), 3), 0)):
        b.store(y, k.mul(i, 2), b.load(x, i))
    values, out = np.arange(19, dtype=np.int32), np.full(38, -1, np.int32)
    call_kernel(b.build("masked"), values, out)
    expected = np.full(38, -1)
    expected[::2][::3] = values[::3]
    np.testing.assert_array_equal(out, expected)


def test_a_guarded_load_is_not_done_early():
    """Reading the last page's end past its border would crash: the branch must hold the load
    back.
    """
    b = KernelBuilder()
    x, n = b.input("x", k.F32, 4), b.scalar("n", k.I64)
    y = b.output("y", k.F32, 1)
    with b.loop(3), b.when(k.lt(n, 4)):
        b.store(y, 0, b.load(x, n))
    out = np.zeros(1, np.float32)
    call_kernel(b.build("guarded"), np.ones(4, np.float32), out, scalars=(ctypes.c_int64(1 << 40),))
    assert out[0] == 0


def test_while_loop():
    b = KernelBuilder()
    x, y = b.input("x", k.I64, 1), b.output("y", k.I64, 2)
    value, steps = b.carry("value", b.load(x, 0)), b.carry("steps", k.const(0, k.I64))
    with b.while_loop(lambda: k.ne(value.value, 1)):
        odd = k.eq(k.bit_and(value.value, 1), 1)
        value.set(k.select(odd, k.add(k.mul(value.value, 3), 1), k.div(value.value, 2)))
        steps.set(k.add(steps.value, 1))
    b.store(y, 0, steps.value)
    b.store(y, 1, value.value)
    out = np.zeros(2, np.int64)
    call_kernel(b.build("collatz"), np.array([27]), out)
    np.testing.assert_array_equal(out, [111, 1])


def test_iterate_in_lanes_stops_each_lane_in_its_turn():
    size = 37
    b = KernelBuilder()
    x, y = b.input("x", k.I32, size), b.output("y", k.I32, size)
    with b.loop(size) as i:
        value, count = k.variable("value", k.I32), k.variable("count", k.I32)
        results = k.iterate(
            [
                (value, b.load(x, i), k.div(value, 2)),
                (count, k.const(0, k.I32), k.add(count, 1)),
            ],
            k.gt(value, 0),
        )
        b.store(y, i, results[1])
    kernel = b.build("bit_length")
    assert " x i32>" in kernel_llvm(kernel)
    values, out = RNG.integers(0, 1 << 20, size).astype(np.int32), np.zeros(size, np.int32)
    call_kernel(kernel, values, out)
    np.testing.assert_array_equal(out, [int(v).bit_length() for v in values])


def test_temporary_memory():
    b = KernelBuilder()
    x, y = b.input("x", k.F32, 10), b.output("y", k.F32, 10)
    t = b.temporary(k.F32, 10)
    with b.loop(10) as i:
        b.store(t, i, k.mul(b.load(x, i), 2.0))
    with b.loop(10) as i:
        b.store(y, i, b.load(t, k.sub(9, i)))
    kernel = b.build("reversed")
    assert kernel.scratch_bytes == 64
    values, out = RNG.normal(size=10).astype(np.float32), np.zeros(10, np.float32)
    call_kernel(kernel, values, out)
    np.testing.assert_array_equal(out, values[::-1] * 2)


def test_complex_multiplication_on_pairs():
    size = 21
    b = KernelBuilder()
    x, y = b.input("x", k.F64, 2 * size), b.input("y", k.F64, 2 * size)
    z = b.output("z", k.F64, 2 * size)
    with b.loop(size) as i:
        even, odd = k.mul(i, 2), k.add(k.mul(i, 2), 1)
        a, c = b.load(x, even), b.load(x, odd)
        d, e = b.load(y, even), b.load(y, odd)
        b.store(z, even, k.sub(k.mul(a, d), k.mul(c, e)))
        b.store(z, odd, k.add(k.mul(a, e), k.mul(c, d)))
    first = RNG.normal(size=size) + 1j * RNG.normal(size=size)
    second = RNG.normal(size=size) + 1j * RNG.normal(size=size)
    out = np.zeros(size, complex)
    call_kernel(b.build("complex"), first, second, out)
    np.testing.assert_allclose(out, first * second, rtol=1e-14)


def test_gather_and_scatter():
    b = KernelBuilder()
    x, index, y = b.input("x", k.F32, 100), b.input("index", k.I32, 33), b.output("y", k.F32, 33)
    z = b.output("z", k.F32, 100)
    with b.loop(33) as i:
        at = k.convert(b.load(index, i), k.I64)
        b.store(y, i, b.load(x, at))
        b.store(z, at, k.convert(i, k.F32))
    values = RNG.normal(size=100).astype(np.float32)
    places = RNG.integers(0, 100, 33).astype(np.int32)
    out, spread = np.zeros(33, np.float32), np.zeros(100, np.float32)
    call_kernel(b.build("gather"), values, places, out, spread)
    np.testing.assert_array_equal(out, values[places])
    expected = np.zeros(100)
    for at, place in enumerate(places):
        expected[place] = at
    np.testing.assert_array_equal(spread, expected)


def test_unknown_extent_and_scalars():
    b = KernelBuilder()
    n, scale = b.scalar("n", k.I64), b.scalar("scale", k.F64)
    x, y = b.input("x", k.F64, 50), b.output("y", k.F64, 50)
    with b.loop(n) as i:
        b.store(y, i, k.mul(b.load(x, i), scale))
    kernel = b.build("scaled")
    for count in (0, 1, 4, 29):
        values, out = RNG.normal(size=50), np.zeros(50)
        call_kernel(kernel, values, out, scalars=(ctypes.c_int64(count), ctypes.c_double(2.5)))
        np.testing.assert_array_equal(out, np.where(np.arange(50) < count, values * 2.5, 0))


@pytest.mark.parametrize("size", [10, 1000, 100_003, 3_000_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_stay_precise(size, dtype):
    values = RNG.random(size).astype(dtype)
    element = k.scalar_type(values.dtype)
    x, y = k.Buffer("x", element, size), k.Buffer("y", element, 1, "out")
    i = k.index_variable("i", size)
    kernel = k.Kernel("sum", (x, y), (), k.store(y, 0, k.reduce_sum([(i, size)], k.load(x, i))))
    out = np.zeros(1, dtype)
    call_kernel(kernel, values, out)
    exact = np.sum(values.astype(np.longdouble))
    # a chain has at most 64 additions, and block sums lose nothing: a few units in the last place
    assert abs(out[0] - exact) <= 4 * np.finfo(dtype).eps * exact


def test_sum_over_rows_stays_precise():
    rows, columns = 200_000, 9
    values = RNG.random((rows, columns)).astype(np.float32)
    x, y = k.Buffer("x", k.F32, rows * columns), k.Buffer("y", k.F32, columns, "out")
    i, j = k.index_variable("i", rows), k.index_variable("j", columns)
    total = k.reduce_sum([(i, rows)], k.load(x, k.add(k.mul(i, columns), j)))
    out = np.zeros(columns, np.float32)
    call_kernel(k.Kernel("rows", (x, y), (), k.loop(j, columns, k.store(y, j, total))), values, out)
    np.testing.assert_allclose(out, values.astype(np.float64).sum(0), rtol=1e-6)


def test_infinite_sums():
    values = np.zeros(5000, np.float32)
    values[1234] = np.inf
    x, y = k.Buffer("x", k.F32, 5000), k.Buffer("y", k.F32, 1, "out")
    i = k.index_variable("i", 5000)
    kernel = k.Kernel("sum", (x, y), (), k.store(y, 0, k.reduce_sum([(i, 5000)], k.load(x, i))))
    out = np.zeros(1, np.float32)
    call_kernel(kernel, values, out)
    assert out[0] == np.inf
    values[1235] = -np.inf
    call_kernel(kernel, values, out)
    assert np.isnan(out[0])


def test_argmax_with_two_accumulators():
    values = RNG.normal(size=101).astype(np.float32)
    x, y = k.Buffer("x", k.F32, 101), k.Buffer("y", k.I64, 1, "out")
    i = k.index_variable("i", 101)
    best, at = k.variable("best", k.F32), k.variable("at", k.I64)
    larger = k.gt(k.load(x, i), best)
    results = k.fold(
        [(i, 101)],
        [
            (best, k.const(-np.inf, k.F32), k.select(larger, k.load(x, i), best)),
            (at, k.index(0), k.select(larger, i, at)),
        ],
    )
    out = np.zeros(1, np.int64)
    call_kernel(k.Kernel("argmax", (x, y), (), k.store(y, 0, results[1])), values, out)
    assert out[0] == values.argmax()


def test_a_fold_that_does_not_depend_on_the_loop_is_hoisted():
    size = 64
    x, y = k.Buffer("x", k.F32, size), k.Buffer("y", k.F32, size, "out")
    i, j = k.index_variable("i", size), k.index_variable("j", size)
    total = k.reduce_sum([(j, size)], k.load(x, j))
    body = k.loop(i, size, k.store(y, i, k.div(k.load(x, i), total)))
    kernel = k.Kernel("normalise", (x, y), (), body)
    text = kernel_llvm(kernel)
    lanes = host_target().natural_lanes(32)
    assert text.index(f"fadd <{4 * lanes} x float>") < text.index(f"fdiv <{lanes} x float>")
    values, out = RNG.random(size).astype(np.float32), np.zeros(size, np.float32)
    call_kernel(kernel, values, out)
    np.testing.assert_allclose(out, values / values.sum(), rtol=1e-6)


def test_rare_branches_agree_with_select():
    size = 40
    x, y = k.Buffer("x", k.F32, size), k.Buffer("y", k.F32, size, "out")
    i = k.index_variable("i", size)
    value = k.load(x, i)
    chosen = k.unlikely(k.gt(value, 1.0), k.external("sqrtf", k.F32, value), k.mul(value, 2.0))
    kernel = k.Kernel("rare", (x, y), (), k.loop(i, size, k.store(y, i, chosen)))
    values, out = RNG.normal(size=size).astype(np.float32), np.zeros(size, np.float32)
    call_kernel(kernel, values, out)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out, np.where(values > 1, np.sqrt(values), values * 2))


@pytest.fixture
def bounds_checks():
    config.update("check_bounds", True)
    yield
    config.update("check_bounds", False)


@pytest.mark.usefixtures("bounds_checks")
def test_bounds_checks_report_and_skip():
    b = KernelBuilder()
    x, index, y = b.input("x", k.F32, 4), b.input("index", k.I64, 3), b.output("y", k.F32, 3)
    with b.loop(3) as i:
        b.store(y, i, b.load(x, b.load(index, i)))
    kernel = b.build("lookup")
    out = np.zeros(3, np.float32)
    assert take_bounds_error() is None
    call_kernel(kernel, np.ones(4, np.float32), np.array([0, 1 << 40, 2]), out)
    message = take_bounds_error()
    assert message is not None
    assert "lookup" in message and "buffer x" in message and str(1 << 40) in message
    assert out[0] == out[2] == 1
    assert take_bounds_error() is None


def test_equal_kernels_are_compiled_once():
    first = elementwise(12, k.F32, lambda v: k.add(v, 1.0))
    second = elementwise(12, k.F32, lambda v: k.add(v, 1.0))
    handles = compile_kernels([first, second])
    assert handles[0] == handles[1]


@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (37, 50), (64, 33), (100, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex128])
def test_transpositions_in_strips(rows, columns, dtype):
    parts = 2 if np.dtype(dtype).kind == "c" else 1
    element = k.F64 if parts == 2 else k.scalar_type(np.dtype(dtype))
    b = KernelBuilder()
    x = b.input("x", element, rows * columns * parts)
    y = b.output("y", element, rows * columns * parts)
    with b.nest((rows, columns)) as (i, j):
        for part in range(parts):
            source = k.add(k.mul(k.add(k.mul(j, rows), i), parts), part)
            target = k.add(k.mul(k.add(k.mul(i, columns), j), parts), part)
            b.store(y, target, b.load(x, source))
    values = RNG.integers(-100, 100, (columns, rows)).astype(dtype)
    out = np.zeros((rows, columns), dtype)
    call_kernel(b.build("transpose"), values, out)
    np.testing.assert_array_equal(out, values.T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_remainder_is_that_of_c(dtype):
    x = np.array([5.5, -5.5, 5.5, 0.0, -0.0, np.inf, 1.0, np.nan, 1e10, 7.0, -7.0], dtype)
    y = np.array([2.0, 2.0, -2.0, 3.0, 3.0, 3.0, 0.0, 1.0, 0.1, np.inf, 7.0], dtype)
    element = k.scalar_type(x.dtype)
    b = KernelBuilder()
    first, second = b.input("x", element, len(x)), b.input("y", element, len(x))
    out = b.output("z", element, len(x))
    with b.loop(len(x)) as i:
        b.store(out, i, k.rem(b.load(first, i), b.load(second, i)))
    result = np.zeros_like(x)
    call_kernel(b.build("remainder"), x, y, result)
    with np.errstate(invalid="ignore"):
        expected = np.fmod(x, y)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result[:5]), np.signbit(expected[:5]))
