"""Threads change nothing but the time: every program has the same bits for any number of them,
whoever calls it, and however the process forks or ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings

import pytest

import numpy as np
import tetrax
from tetrax import lax, nn
from tetrax import numpy as tnp
from tetrax.compiler.cpu.library.pool_control import running_workers
from tetrax.config import config

RNG = np.random.default_rng(0)


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def layer(params, x):
    w, b = params
    return tnp.tanh(x @ w + b)


def loss(params, x):
    return tnp.mean(layer(params, x) ** 2)


def attention(q, k, v):
    return nn.softmax(q @ tnp.swapaxes(k, -1, -2), axis=-1) @ v


# name -> (function, operands): large enough to be shared, with sizes that no power of two divides
PROGRAMS = {
    "elementwise": (lambda x: tnp.exp(x) * 2 + x, (normal(100_003),)),
    "broadcast": (lambda x, y: x * y[:, None] + 1, (normal(301, 507), normal(301))),
    "several results": (lambda x: (x + 1, tnp.sin(x), x > 0), (normal(70_001),)),
    "transposed": (lambda x: x.T + 1, (normal(513, 401),)),
    "row sums": (lambda x: x.sum(1), (normal(523, 401),)),
    "column sums": (lambda x: x.sum(0), (normal(1000, 203),)),
    "sum": (lambda x: x.sum(), (normal(500_009),)),
    "sum of exp": (lambda x: tnp.exp(x).sum(), (normal(100_003),)),
    "double sum": (lambda x: x.astype("float64").sum(), (normal(300_007),)),
    "extrema": (lambda x: (x.max(), x.min(1), x.argmax(), x.argmin(0)), (normal(401, 523),)),
    "middle axis": (lambda x: x.sum(1), (normal(30, 101, 77),)),
    "variance": (lambda x: x.var(0), (normal(1003, 203),)),
    "integers": (lambda x: (x * 3 + x // 7).sum(), (np.arange(300_007, dtype="int32"),)),
    "narrow": (lambda x: (x * x).sum(1), (normal(301, 507).astype("float16"),)),
    "complex": (lambda x: tnp.abs(x * x).sum(), (normal(50_021) + 1j * normal(50_021),)),
    "softmax": (lambda x: nn.softmax(x, axis=1), (normal(301, 507),)),
    "logsumexp": (lambda x: nn.logsumexp(x, axis=0), (normal(301, 507),)),
    "product": (lambda x, y: x @ y, (normal(203, 301), normal(301, 407))),
    "product of doubles": (
        lambda x, y: x.T @ y,
        (normal(301, 203, dtype="float64"), normal(301, 207, dtype="float64")),
    ),
    "batched product": (lambda x, y: x @ y, (normal(8, 64, 65), normal(8, 65, 66))),
    "batch of small products": (lambda x, y: x @ y, (normal(501, 9, 10), normal(501, 10, 11))),
    "batch of complex products": (
        lambda x, y: x @ y,
        (normal(32, 30, 31) + 1j * normal(32, 30, 31), normal(32, 31, 33).astype("complex64")),
    ),
    "batch of copied products": (
        lambda x, y: tnp.einsum("abcd,cebf->badef", x, y),
        (normal(9, 16, 8, 7), normal(8, 6, 16, 10)),
    ),
    "narrow product": (
        lambda x, y: x @ y,
        (normal(131, 70).astype("float16"), normal(70, 300).astype("float16")),
    ),
    "row times matrix": (lambda x, y: x @ y, (normal(1, 1500), normal(1500, 701))),
    "few rows times transpose": (lambda x, y: x @ y.T, (normal(3, 1500), normal(701, 1500))),
    "attention": (attention, (normal(2, 4, 101, 33),) * 3),
    "layer norm": (
        lambda x: (x - x.mean(-1, keepdims=True)) / tnp.sqrt(x.var(-1, keepdims=True) + 1e-5),
        (normal(301, 507),),
    ),
    "gradient": (tetrax.value_and_grad(loss), ((normal(301, 203), normal(203)), normal(401, 301))),
    "cumulative": (lambda x: tnp.cumsum(x, 0), (normal(501, 203),)),
    "sorted": (lambda x: tnp.sort(x, axis=1), (normal(51, 1003),)),
    "loop": (
        lambda x: lax.fori_loop(0, 3, lambda i, c: tnp.sin(c) + i, x),
        (normal(100_003),),
    ),
}


@pytest.fixture
def threads():
    """`threads(n)` sets how many threads are used from then on."""
    before = config.num_threads
    yield lambda count: config.update("num_threads", count)
    config.update("num_threads", before)


def bits(tree):
    return [np.asarray(leaf).tobytes() for leaf in tetrax.tree.leaves(tree)]


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_same_bits_for_any_number_of_threads(threads, name):
    function, operands = PROGRAMS[name]
    results = []
    with tetrax.enable_x64(True):
        compiled = tetrax.jit(function)
        for count in (1, 2, 7):
            threads(count)
            results.append([bits(compiled(*operands)) for _ in range(2)])
    assert all(result == results[0][0] for pair in results for result in pair)


@pytest.mark.parametrize(
    "name", [name for name in PROGRAMS if "product" in name or "times" in name]
)
def test_shared_products_are_right(threads, name):
    function, operands = PROGRAMS[name]
    threads(3)
    with tetrax.enable_x64(True):
        got = np.asarray(tetrax.jit(function)(*operands))
        wide = [x.astype("complex128" if x.dtype.kind == "c" else "float64") for x in operands]
        expected = np.asarray(function(*map(tnp.asarray, wide)))
    # hundreds of products in f32, or the rounding of an f16
    tolerance = 2e-3 if got.dtype == np.float16 else 1e-4
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=1e-2)


def test_work_is_shared(threads):
    threads(4)
    f = tetrax.jit(lambda x: tnp.tanh(tnp.exp(x)))
    f(normal(1_000_000))
    assert running_workers() == 3
    threads(1)
    f(normal(1_000_000))
    assert running_workers() == 0


def test_a_scope_sets_the_number_of_threads(threads):
    threads(4)
    f = tetrax.jit(lambda x: tnp.tanh(tnp.exp(x)))
    with type(config).num_threads(3):
        f(normal(1_000_000))
        assert running_workers() == 2
    f(normal(1_000_000))
    assert running_workers() == 3


def test_threads_of_python_call_at_once(threads):
    threads(3)
    f = tetrax.jit(lambda x: (tnp.exp(x).sum(1), x @ x.T))
    operands = [normal(301, 203) for _ in range(4)]
    expected = [bits(f(x)) for x in operands]
    wrong = []

    def call(at):
        for _ in range(20):
            if bits(f(operands[at])) != expected[at]:
                wrong.append(at)

    callers = [threading.Thread(target=call, args=(at,)) for at in range(4)]
    for caller in callers:
        caller.start()
    for count in (2, 5, 1, 3):
        threads(count)
    for caller in callers:
        caller.join()
    assert not wrong


def test_a_callback_may_call_compiled_code(threads):
    threads(3)
    inner = tetrax.jit(lambda x: tnp.exp(x).sum(1))

    def host(x):
        return np.asarray(inner(x))

    @tetrax.jit
    def outer(x):
        y = tnp.exp(x)
        sums = tetrax.pure_callback(host, tetrax.ShapeDtypeStruct((301,), "float32"), y)
        return tnp.sin(y) + sums[:, None]

    x = normal(301, 507) / 4
    expected = np.sin(np.exp(x)) + np.exp(np.exp(x)).sum(1)[:, None]
    np.testing.assert_allclose(outer(x), expected, rtol=1e-5)


def test_a_forked_child_computes_the_same(threads):
    threads(3)
    f = tetrax.jit(lambda x: (tnp.exp(x).sum(), x * 2))
    x = normal(1_000_003)
    expected = bits(f(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there are threads, as there must be
        child = os.fork()
    if child == 0:
        os._exit(0 if bits(f(x)) == expected and running_workers() == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert bits(f(x)) == expected


def test_the_interpreter_ends_right_after_a_shared_call():
    script = """
import threading
import numpy as np
import tetrax
f = tetrax.jit(lambda x: tetrax.numpy.exp(x).sum())
x = np.ones(1_000_000, "float32")
f(x)
def forever():
    while True:
        f(x)
threading.Thread(target=forever, daemon=True).start()
f(x)
print("done")
"""
    environment = {**os.environ, "TETRAX_NUM_THREADS": "3"}
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True
        )
        assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
