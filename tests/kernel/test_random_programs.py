"""Random expressions: scalar machine code, vector machine code and the interpreter must agree bit
for bit.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interpreter import Interpreter
from tests.kernel.conftest import call_kernel

import numpy as np
from tetrax.ir import kernel as k

SIZE = 21
TYPES = (k.BOOL, k.I8, k.I32, k.I64, k.U8, k.U32, k.U64, k.F32, k.F64, k.I16, k.I4, k.U4)
INTEGERS = tuple(t for t in TYPES if t.is_integer)
SETTINGS = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    derandomize=True,
)


def special_values(type, rng):
    """Values that provoke edge cases, then random ones."""
    if type.is_bool:
        return rng.integers(0, 2, SIZE).astype(bool)
    if type.is_integer:
        edge = [0, 1, type.maximum, type.minimum, type.maximum - 1, 2]
        low, high = type.minimum, type.maximum
        rest = rng.integers(
            low, high, SIZE - len(edge), dtype=np.int64 if low < 0 else np.uint64, endpoint=True
        )
        return np.array(edge + [int(x) for x in rest], dtype=object).astype(type.dtype)
    edge = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e30, 2.0**31, -(2.0**63), 1e-40, 0.5]
    rest = rng.normal(size=SIZE - len(edge)) * 10.0 ** rng.integers(-3, 5, SIZE - len(edge))
    return np.array([*edge, *rest]).astype(type.dtype)


@st.composite
def expressions(draw, leaves, type, depth):
    """A random expression of a type over given leaves (type -> expressions)."""
    if depth == 0 or draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(leaves[type]))

    def sub(of):
        return draw(expressions(leaves, of, depth - 1))

    choice = draw(st.integers(0, 7))
    if choice == 0:
        return k.select(sub(k.BOOL), sub(type), sub(type))
    if choice == 1:
        source = draw(st.sampled_from(TYPES))
        return k.convert(sub(source), type)
    if type.is_bool:
        if choice < 5:
            of = draw(st.sampled_from(TYPES))
            return k.compare(draw(st.sampled_from(k.COMPARE_OPS)), sub(of), sub(of))
        if choice == 5:
            return k.is_finite(sub(draw(st.sampled_from((k.F32, k.F64)))))
        return k.binary(draw(st.sampled_from(k.BITWISE_OPS)), sub(type), sub(type))
    if type.is_integer:
        if choice == 2:
            return draw(st.sampled_from((k.neg, k.absolute, k.popcount, k.clz, k.logical_not)))(
                sub(type)
            )
        if choice == 3 and type.bits in (32, 64):
            return k.bitcast(sub(k.F32 if type.bits == 32 else k.F64), type)
        ops = k.ARITHMETIC_OPS + k.BITWISE_OPS + k.SHIFT_OPS
        return k.binary(draw(st.sampled_from(ops)), sub(type), sub(type))
    if choice == 2:
        ops = ("floor", "ceil", "trunc", "round_even", "sqrt")
        return k.unary(draw(st.sampled_from(ops)), sub(type))
    if choice == 3:
        return draw(st.sampled_from((k.neg, k.absolute)))(sub(type))
    ops = (
        "sub",
        "div",
        "min",
        "max",
        "copysign",
        "nextafter",
        "mul",
    )  # no add: nothing to contract
    return k.binary(draw(st.sampled_from(ops)), sub(type), sub(type))


def contracts(node):
    """Whether a subtraction of a product might be fused, which the interpreter does not do."""
    return any(
        n.op in ("sub", "add") and n.type.is_float and any(a.op == "mul" for a in n.args)
        for n in k.walk([node])
    )


def same(actual, expected):
    """Equal up to the payload of NaNs."""
    np.testing.assert_array_equal(actual, expected)
    if actual.dtype.kind == "f":
        real = ~np.isnan(actual)
        np.testing.assert_array_equal(np.signbit(actual[real]), np.signbit(expected[real]))


@given(st.data())
@SETTINGS
def test_scalar_vector_and_interpreter_agree(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    inputs = [k.Buffer(f"x{t}", t, SIZE) for t in TYPES]
    arrays = [special_values(t, rng) for t in TYPES]
    var = k.index_variable("i", SIZE)
    leaves = {}
    for buffer in inputs:
        constant = k.const(data.draw(st.sampled_from((0, 1, 3, 100))), buffer.element)
        leaves[buffer.element] = [
            k.load(buffer, var),
            k.load(buffer, k.sub(SIZE - 1, var)),
            constant,
        ]
    type = data.draw(st.sampled_from(TYPES))
    node = data.draw(expressions(leaves, type, 4).filter(lambda n: not contracts(n)))
    target = k.Buffer("out", type, SIZE, "out")
    expected = np.zeros(SIZE, type.dtype)
    memory = dict(zip([*inputs, target], [*arrays, expected], strict=True))
    loop = k.loop(var, SIZE, k.store(target, var, node))
    Interpreter(memory).run(loop, {})
    vector = np.zeros(SIZE, type.dtype)
    call_kernel(k.Kernel("vector", (*inputs, target), (), loop), *arrays, vector)
    same(vector, expected)
    # a carried value keeps the loop from running in lanes
    turn = k.variable("turn", k.I64)
    serial = k.loop(var, SIZE, k.store(target, var, node), [(turn, k.index(0), k.add(turn, 1))])
    scalar = np.zeros(SIZE, type.dtype)
    call_kernel(k.Kernel("scalar", (*inputs, target), (), serial), *arrays, scalar)
    same(scalar, expected)


@given(st.data())
@SETTINGS
def test_folds_agree(data):
    """Folds over random extents and strides, alone and inside loops that run in lanes."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    rows, inner, columns = data.draw(st.permutations([1, 3, 70]) | st.permutations([2, 5, 33]))
    type = data.draw(st.sampled_from((k.I32, k.U8, k.F32, k.F64, k.I64)))
    operation = data.draw(st.sampled_from(("add", "min", "max")))
    size = rows * inner * columns
    values = rng.integers(0, 100, size).astype(type.dtype)
    source = k.Buffer("x", type, size)
    extents, strides = (rows, inner, columns), (inner * columns, columns, 1)
    axes = [k.index_variable(f"i{axis}", extent) for axis, extent in enumerate(extents)]
    offset = k.index(0)
    for var, stride in zip(axes, strides, strict=True):
        offset = k.add(offset, k.mul(var, stride))
    kept, *folded = data.draw(st.permutations([0, 1, 2]))
    total = k.variable("t", type)
    update = k.binary(operation, total, k.load(source, offset))
    loops = [(axes[axis], extents[axis]) for axis in folded]
    result = k.fold(loops, [(total, k.const(7, type), update)], operation)[0]
    target = k.Buffer("out", type, extents[kept], "out")
    loop = k.loop(axes[kept], extents[kept], k.store(target, axes[kept], result))
    expected = np.zeros(target.size, type.dtype)
    Interpreter({source: values, target: expected}).run(loop, {})
    actual = np.zeros(target.size, type.dtype)
    call_kernel(k.Kernel("fold", (source, target), (), loop), values, actual)
    np.testing.assert_array_equal(actual, expected)  # small integers: exact in every type and order
