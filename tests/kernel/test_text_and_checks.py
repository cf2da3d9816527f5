"""The printed form of kernels, and what the checker refuses."""

from __future__ import annotations

import pytest

from tetrax.errors import KernelError
from tetrax.ir import kernel as k
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_check import check
from tetrax.ir.kernel_printer import text

GOLDEN = """\
kernel(b0: in f32[12], b1: out f32[3], s0: f32)
  vector loop i1<3:i64
    fold2 = fold add i3<4:i64 with a4=0.0:f32
      e5 = mul(i1, 4:i64): i64
      e6 = add(e5, i3): i64
      e7 = b0[e6]: f32
      e8 = add(e7, a4): f32
      next e8
    e9 = result.0(fold2): f32
    e10 = mul(s0, e9): f32
    b1[i1] <- e10
"""


def row_sums(prefix=""):
    x, y = k.Buffer(prefix + "x", k.F32, 12), k.Buffer(prefix + "y", k.F32, 3, "out")
    scale = k.variable(prefix + "scale", k.F32)
    i, j = k.index_variable(prefix + "i", 3), k.index_variable(prefix + "j", 4)
    total = k.reduce_sum([(j, 4)], k.load(x, k.add(k.mul(i, 4), j)))
    body = k.loop(i, 3, k.store(y, i, k.mul(scale, total)), kind="vector")
    return k.Kernel("row_sums", (x, y), (scale,), body)


def test_text():
    assert text(row_sums()) == GOLDEN


def test_equal_kernels_have_equal_text():
    assert text(row_sums()) == text(row_sums("other_"))


def test_text_tells_constants_apart():
    def constant(value):
        y = k.Buffer("y", k.F32, 1, "out")
        return text(k.Kernel("constant", (y,), (), k.store(y, 0, k.const(value, k.F32))))

    texts = {constant(v) for v in (0.0, -0.0, 1.0, float("nan"), float("inf"))}
    assert len(texts) == 5


def test_common_subexpressions_are_one_node():
    x = k.variable("x", k.F32)
    assert k.add(k.mul(x, x), 1.0) is k.add(k.mul(x, x), 1.0)


def test_index_arithmetic_is_canonical():
    i, j = k.index_variable("i", 3), k.index_variable("j", 4)
    flat = k.add(k.mul(i, 4), j)
    assert k.div(flat, 4) is i
    assert k.rem(flat, 4) is j
    assert k.sub(k.add(j, 5), 5) is j
    assert k.add(k.mul(k.add(i, 1), 2), k.mul(i, -2)) is k.index(2)
    assert k.is_const(k.lt(j, 4), True)
    assert k.rem(k.add(k.mul(i, 8), j), 2).op == "rem"


def test_floats_are_left_alone():
    x = k.variable("x", k.F32)
    assert k.add(x, 0.0).op == "add"  # -0.0 + 0.0 is 0.0
    assert k.mul(x, 0.0).op == "mul"
    assert k.sub(x, x).op == "sub"
    assert k.mul(x, 1.0) is x


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x, i: k.add(x, k.variable("y", k.F64)), "one type"),
        (lambda x, i: k.unary("exp", i), "f32 or f64"),
        (lambda x, i: k.bit_and(x, x), "integers or bools"),
        (lambda x, i: k.select(x, x, x), "must be bool"),
        (lambda x, i: k.bitcast(x, k.I64), "same width"),
        (lambda x, i: k.load(k.Buffer("b", k.F32, 4), x), "i64"),
        (lambda x, i: k.add(k.variable("h", k.F16), 1.0), "f32 first"),
        (lambda x, i: k.unary("sine", x), "no operation named"),
    ],
)
def test_badly_typed_expressions(build, message):
    with pytest.raises(KernelError, match=message):
        build(k.variable("x", k.F32), k.index_variable("i", 3))


def kernel_of(statement, *buffers):
    return k.Kernel("bad", buffers, (), statement)


def test_checker_refuses():
    x, y = k.Buffer("x", k.F32, 4), k.Buffer("y", k.F32, 4, "out")
    i, a = k.index_variable("i", 4), k.variable("a", k.F32)
    value = k.load(x, i)
    cases = {
        "mode 'in'": kernel_of(k.loop(i, 4, k.store(x, i, value)), x, y),
        "mentions i": kernel_of(k.store(y, i, value), x, y),
        "not a buffer of the kernel": kernel_of(k.loop(i, 4, k.store(y, i, value)), y),
        "exactly that operation": kernel_of(
            k.store(y, 0, k.fold([(i, 4)], [(a, value_zero(), k.mul(a, value))], "add")[0]), x, y
        ),
        "mentions an accumulator": kernel_of(
            k.store(y, 0, k.fold([(i, 4)], [(a, value_zero(), k.add(a, k.neg(a)))], "add")[0]), x, y
        ),
        "cannot be of kind": kernel_of(
            k.loop(i, 4, k.store(y, i, a), [(a, value_zero(), a)], "vector"), x, y
        ),
        "same name": kernel_of(k.Block(()), x, k.Buffer("x", k.F32, 3)),
    }
    for message, kernel in cases.items():
        with pytest.raises(KernelError, match=message):
            check(kernel)
    check(row_sums())


def value_zero():
    return k.const(0.0, k.F32)


def test_builder_reports_a_carry_without_a_loop():
    b = KernelBuilder()
    b.carry("lost", value_zero())
    with pytest.raises(KernelError, match="no loop was opened"):
        b.build("bad")


def test_shared_index_expressions_stay_cheap():
    """A binary search in fifty steps: without caches each step would double the work."""
    low, high = k.index(0), k.index(1 << 50)
    needle, table = k.variable("needle", k.F32), k.Buffer("table", k.F32, 1 << 50)
    for _ in range(50):
        middle = k.div(k.add(low, high), 2)
        before = k.lt(k.load(table, middle), needle)
        low, high = k.select(before, middle, low), k.select(before, high, middle)
    y = k.Buffer("y", k.I64, 1, "out")
    check(k.Kernel("search", (table, y), (needle,), k.store(y, 0, low)))
