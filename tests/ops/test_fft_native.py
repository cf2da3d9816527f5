"""Compiled Fourier transforms: accuracy against wider arithmetic, layouts, threads, other CPUs."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import pytest
import scipy.fft

import numpy as np
import tetrax
from tetrax import lax
from tetrax.compiler import pipeline
from tetrax.compiler.cpu.target import host_target
from tetrax.config import config
from tetrax.ir.types import ShapedArray
from tetrax.ops.fft_plan import Plan, plan_of, radices_of, roots
from tetrax.tracing.staging import stage_flat

KINDS = ("fft", "ifft", "rfft", "irfft")
WIDER = {
    np.dtype(np.float32): np.float64,
    np.dtype(np.float64): np.longdouble,
    np.dtype(np.complex64): np.complex128,
    np.dtype(np.complex128): np.clongdouble,
}
SLACK = 1.2 if host_target().has_fma else 1.4
LARGER = (97, 100, 120, 128, 194, 243, 256, 509, 512, 625, 999, 1000, 1009, 1024, 3600, 4096)
LARGEST = (5040, 10007, 16384, 19683, 1 << 15, 1 << 16, 1 << 17)


@pytest.fixture(autouse=True)
def wide_types():
    with tetrax.enable_x64(True), jax.enable_x64(True):
        yield


def operand(kind: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Random numbers for a transform of the last axis of `shape`."""
    rng = np.random.default_rng(sum(shape))
    if kind == "irfft":
        shape = (*shape[:-1], shape[-1] // 2 + 1)
    x = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return (x.real if kind == "rfft" else x).astype(dtype if kind != "rfft" else real_of(dtype))


def real_of(dtype: str) -> str:
    return {"complex64": "float32", "complex128": "float64"}[dtype]


def compiled(x, kind: str, lengths: tuple[int, ...]):
    return np.asarray(tetrax.jit(lambda x: lax.fft(x, kind, lengths))(x))


def pocketfft(x, kind: str, lengths: tuple[int, ...]):
    """SciPy's transform, which computes in the operand's own type, long double among them."""
    axes = tuple(range(x.ndim - len(lengths), x.ndim))
    return getattr(scipy.fft, f"{kind}n")(x, lengths, axes)


def error(x: np.ndarray, want: np.ndarray) -> float:
    """The root of the mean square error, relative to the same of `want`."""
    gap = np.abs(x.astype(want.dtype) - want) ** 2
    return float(np.sqrt(gap.mean() / (np.abs(want) ** 2).mean()))


def check_accuracy(kind: str, shapes: list[tuple[int, ...]], dtype: str, axes: int = 1) -> None:
    """Errors are at most a fifth above pocketfft's: both round once per butterfly and take twiddles
    that are rounded once, so they differ by the order of operations alone. Where pocketfft's are
    next to nothing (few numbers) the limit is one unit in the last place. CPUs that round products
    before sums get a little more.
    """
    xs = [operand(kind, shape, dtype) for shape in shapes]
    lengths = [shape[-axes:] for shape in shapes]
    results = tetrax.jit(
        lambda *xs: [lax.fft(x, kind, n) for x, n in zip(xs, lengths, strict=True)]
    )(*xs)
    for x, n, out in zip(xs, lengths, results, strict=True):
        want = pocketfft(x.astype(WIDER[x.dtype]), kind, n)
        theirs, got = pocketfft(x, kind, n), np.asarray(out)
        assert got.shape == theirs.shape and got.dtype == theirs.dtype
        limit = max(SLACK * error(theirs, want), 0.9 * np.finfo(x.dtype).eps)
        assert error(got, want) <= limit, (kind, x.shape, n, dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_small_size(kind, dtype):
    check_accuracy(kind, [(17, n) for n in range(1, 71)], dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("kind", KINDS)
def test_larger_sizes(kind, dtype):
    check_accuracy(kind, [(9, n) for n in LARGER], dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("kind", ["fft", "irfft"])
def test_one_long_line(kind, dtype):
    check_accuracy(kind, [(n,) for n in LARGEST], dtype)


@pytest.mark.parametrize("n", [6, 64, 100, 1024, 4096, 1 << 15])
def test_batches(n):
    shapes = [(*batch, n) for batch in [(), (1,), (3,), (8,), (17,), (2, 3)]]
    for kind in ("fft", "rfft"):
        check_accuracy(kind, shapes, "complex64")


@pytest.mark.parametrize("kind", KINDS)
def test_several_axes(kind):
    two = [(4, 6), (1, 8), (8, 1), (131, 4), (40, 128), (2, 2), (3, 6, 10)]
    three = [(3, 16, 12), (5, 7, 9), (2, 11, 34), (2, 6, 8, 10)]
    check_accuracy(kind, two, "complex64", 2)
    check_accuracy(kind, two, "complex128", 2)
    check_accuracy(kind, three, "complex64", 3)


def test_nothing():
    for kind in KINDS:
        assert compiled(operand(kind, (0, 8), "complex64"), kind, (8,)).shape[0] == 0


@pytest.mark.parametrize("axis", [0, 1])
def test_other_axes(axis):
    x = operand("fft", (12, 10, 3), "complex128")
    got = tetrax.jit(lambda x: tetrax.numpy.fft.fft(x, axis=axis))(x)
    np.testing.assert_allclose(got, np.fft.fft(x, axis=axis), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("n", [12, 15, 64, 131])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind, n):
    x = operand(kind, (3, n), "complex128")

    def loss(module, x):
        out = module.fft(x, kind.upper(), (n,))
        weights = 1.0 + np.arange(out.size).reshape(out.shape) / out.size
        return (abs(out) ** 2 * weights).sum()

    got = tetrax.jit(tetrax.grad(lambda x: loss(lax, x)))(x)
    want = jax.grad(lambda x: loss(jax.lax, x))(x)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12 * np.abs(want).max())


def test_inside_a_loop():
    x = operand("fft", (5, 48), "complex128")

    def step(carry, row):
        carry = lax.fft(carry + row, "fft", (48,)) / 48
        return carry, abs(carry).sum()

    def run(module, step):
        return module.scan(step, np.zeros(48, complex), x)

    got = tetrax.jit(lambda: run(lax, step))()
    carry, sums = np.zeros(48, complex), []
    for row in x:
        carry = np.fft.fft(carry + row) / 48
        sums.append(np.abs(carry).sum())
    np.testing.assert_allclose(got[0], carry, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(got[1], sums, rtol=1e-12)


@pytest.mark.parametrize("n", [7, 64, 100, 131, 1 << 15])
@pytest.mark.parametrize("kind", KINDS)
def test_special_values_stay_in_their_line(kind, n):
    x = operand(kind, (9, n), "complex64")
    whole = compiled(x, kind, (n,))
    x[4, 1], x[4, 2] = np.nan, np.inf
    got = compiled(x, kind, (n,))
    others = [row for row in range(9) if row != 4]
    np.testing.assert_array_equal(got[others], whole[others])
    assert not np.isfinite(got[4]).any()


def test_no_host_is_called():
    x = operand("fft", (3, 131), "complex64")
    for kind, lengths in (("fft", (131,)), ("rfft", (131,)), ("ifft", (3, 131))):
        y = x.real if kind == "rfft" else x
        aval = ShapedArray(y.shape, y.dtype)
        closed = stage_flat(lambda y, k=kind, n=lengths: [lax.fft(y, k, n)], [aval])
        assert not pipeline.lower(closed).module.host_functions


def test_same_bits_for_any_number_of_threads():
    cases = [((64, 1000), "fft"), ((1 << 16,), "irfft"), ((300, 256), "rfft"), ((70, 131), "ifft")]
    results = []
    for threads in (1, 2, 7):
        with type(config).num_threads(threads):
            results.append([compiled(operand(k, s, "complex64"), k, s[-1:]) for s, k in cases])
            results[-1].append(compiled(operand("fft", (96, 80), "complex64"), "fft", (96, 80)))
    for other in results[1:]:
        for x, y in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(x, y)


_ON_ANOTHER_CPU = """
import numpy as np, tetrax
from tetrax import lax
for n in (6, 8, 37, 64, 100, 1 << 15):
    x = np.arange(9 * n).reshape(9, n) % 7 - 2j * (np.arange(9 * n).reshape(9, n) % 5)
    x = x.astype(np.complex64)
    got = np.asarray(tetrax.jit(lambda x: lax.fft(x, "fft", (n,)))(x))
    want = np.fft.fft(x.astype(complex))
    assert np.abs(got - want).max() < 1e-6 * np.abs(want).max() * np.log2(n), n
    both = lambda x: lax.fft(lax.fft(x, "rfft", (n,)), "irfft", (n,))
    back = np.asarray(tetrax.jit(both)(x.real))
    assert np.abs(back - x.real).max() < 1e-5, n
"""


def test_cpu_without_wide_vectors():
    environment = {**os.environ, "TETRAX_CPU": "x86-64-v2"}
    subprocess.run([sys.executable, "-c", _ON_ANOTHER_CPU], env=environment, check=True)


def test_roots_are_rounded_once():
    n = 5040
    powers = np.arange(n)
    angle = -2 * np.longdouble(np.pi) * powers / n
    got, exact = roots(n, powers), np.exp(1j * angle.astype(float))
    np.testing.assert_allclose(got, exact, rtol=0, atol=1e-15)
    assert (roots(8, np.arange(0, 8, 2)) == np.asarray([1, -1j, -1, 1j])).all()


def test_ways():
    single = np.dtype(np.complex64)
    assert radices_of(1000) == (8, 5, 5, 5) and radices_of(131) is None
    assert plan_of(256, 4096, single) == Plan("line", 256, 8, 8)
    assert plan_of(100, 4096, single).kind == "rows"
    assert plan_of(100, 1, single).kind == "split"
    assert plan_of(1 << 20, 1, single) == Plan("split", 1 << 20, 8, 1 << 10)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (0, 2), (1, 0), (2,)], ids=str)
@pytest.mark.parametrize("norm", ["backward", "ortho"])
def test_axes_are_transformed_where_they_stand(axes, norm):
    x = operand("fft", (12, 10, 24), "complex128")
    for name in ("fftn", "ifftn"):
        run = lambda x, name=name: getattr(tetrax.numpy.fft, name)(x, axes=axes, norm=norm)
        closed = stage_flat(lambda x, run=run: [run(x)], [ShapedArray(x.shape, x.dtype)])
        names = [eqn.primitive.name for eqn in pipeline.optimise(closed).eqns]
        assert "fft_lines" in names and "transpose" not in names
        want = getattr(np.fft, name)(x, axes=axes, norm=norm)
        np.testing.assert_allclose(tetrax.jit(run)(x), want, rtol=1e-13, atol=1e-14)


def test_axes_of_one_element():
    x = operand("fft", (1, 32, 1), "complex64")
    for axes in ((0,), (2,), (0, 2), (0, 1), (1, 2)):
        got = tetrax.jit(lambda x, axes=axes: tetrax.numpy.fft.ifftn(x, axes=axes))(x)
        np.testing.assert_allclose(got, np.fft.ifftn(x, axes=axes), rtol=1e-5, atol=1e-6)


def test_long_columns_become_lines():
    check_accuracy("fft", [(1 << 15, 3)], "complex64", 2)
    check_accuracy("irfft", [(1 << 15, 3)], "complex64", 2)
