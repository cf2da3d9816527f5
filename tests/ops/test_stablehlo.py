"""Every registered operation as StableHLO text, compiled and run by real XLA.

Per operation and sample: the text of a program of one equation, its results against the eager
value. XLA's functions are its own, so a few are compared with a wider bound than Tetrax's compiled
code; each bound says why. Whole programs follow: derivatives, loops, branches, random numbers,
decompositions.
"""

from __future__ import annotations

from typing import Any

import jax
import pytest
from tests.ops.rules import Sample, assert_close, excluded, operands, samples
from tests.ops.xla import execute

import numpy as np
import tetrax
import tetrax.numpy as tnp
from tetrax import dtypes, lax
from tetrax.compiler.stablehlo import lower_program
from tetrax.ir.stablehlo import Builder, type_text
from tetrax.ir.types import ShapedArray
from tetrax.ops.base import REGISTRY
from tetrax.runtime.array import make_array
from tetrax.tracing.staging import stage_flat

# operation -> (units in the last place, why).
WIDER = {
    "atanh": (64, "XLA takes half the difference of two log1p, which cancels"),
    "lgamma": (64, "XLA's float32 Lanczos sum near the roots at 1 and 2"),
    "digamma": (64, "XLA's float32 asymptotic series near the root"),
    "tridiagonal_solve": (4096, "elimination without row exchanges"),
    "eigh": (64, "XLA's rotations stop at 1e-6 of float32"),
    "fma": (4, "StableHLO has no fused multiply-add: float64 rounds twice"),
}


# Texts that are only compiled and run: their results are random.
RANDOM = ("rng_uniform",)
# operation -> why it has no StableHLO: LAPACK's algorithms that XLA offers in no portable form.
WITHOUT_TEXT = {
    "cholesky_update": "a sequence of rotations; no XLA operation",
    "eig": "eigenvalues of general matrices: LAPACK only",
    "geqp3": "pivoted QR: LAPACK only",
    "hessenberg": "LAPACK only",
    "schur": "LAPACK only",
    "svd": "singular values: LAPACK only",
    "tridiagonal": "LAPACK only",
}


@pytest.fixture(autouse=True)
def x64():
    with tetrax.enable_x64(True), jax.enable_x64(True):
        yield


def same_signs(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Columns of `found`, which are eigenvectors, turned to the side of `expected`'s."""
    side = np.sum(np.conj(found) * expected, axis=-2, keepdims=True)
    return found * (side / np.abs(side)).astype(found.dtype)


def sample_function(sample: Sample):
    def run(*xs: Any) -> list[Any]:
        out = sample.primitive.bind(*xs, **sample.kwargs)
        return list(out) if sample.primitive.multiple_results else [out]

    return run


def eager(sample: Sample, values: list[np.ndarray]) -> list[np.ndarray]:
    is_key = [isinstance(a.dtype, dtypes.ExtendedDType) for a in sample.avals]
    xs = [
        make_array(v, dtype=a.dtype if key else None)
        for v, a, key in zip(values, sample.avals, is_key, strict=True)
    ]
    return [x._value for x in sample_function(sample)(*xs)]


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_operation(name):
    reason = excluded(name, "stablehlo") or WITHOUT_TEXT.get(name)
    if reason is not None:
        with pytest.raises(NotImplementedError, match="stablehlo"):
            sample = next(iter(samples(name)))
            lower_program(stage_flat(sample_function(sample), list(sample.avals)))
        pytest.skip(f"{name} stablehlo: {reason}")
    ulp = WIDER.get(name, (REGISTRY[name].facts.ulp, ""))[0]
    # One module for all samples: XLA takes longer to start than to compile one more operation.
    rows = list(samples(name))
    values = [operands(sample) for sample in rows]

    def every_sample(*xs: Any) -> list[Any]:
        rest = iter(xs)
        given = [[next(rest) for _ in sample.avals] for sample in rows]
        return [y for s, ys in zip(rows, given, strict=True) for y in sample_function(s)(*ys)]

    text = lower_program(stage_flat(every_sample, [a for s in rows for a in s.avals]))
    found = iter(execute(text, [v for row in values for v in row]))
    for sample, row in zip(rows, values, strict=True):
        for expected in eager(sample, row):
            result = next(found)
            if name == "eigh" and result.shape == row[0].shape:
                result = same_signs(result, expected)
            if name in RANDOM:
                assert result.shape == expected.shape and result.dtype == expected.dtype
                continue
            assert_close(result, expected, ulp, str(sample))


# -- whole programs ------------------------------------------------------------------------------


def check(f: Any, *args: Any, rtol: float = 1e-6) -> None:
    """The text of `f` gives what `f` gives; 1e-6 is a few units of float32."""
    text = tetrax.jit(f).lower(*args).as_text("stablehlo")
    found = execute(text, [np.asarray(x) for x in tetrax.tree.leaves(args)])
    expected = tetrax.tree.leaves(f(*args))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, np.asarray(b), rtol=rtol, atol=rtol)


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_gradient_of_a_network():
    def loss(params, x, y):
        hidden = tnp.tanh(x @ params["w1"] + params["b1"])
        logits = hidden @ params["w2"]
        return -tnp.mean(tnp.take_along_axis(tetrax.nn.log_softmax(logits), y[:, None], 1))

    params = {"w1": array(4, 8), "b1": array(8, seed=1), "w2": array(8, 3, seed=2)}
    check(tetrax.grad(loss), params, array(5, 4, seed=3), np.array([0, 2, 1, 1, 0], np.int32))


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_and_its_gradient(reverse):
    weight = array(3, 3)

    def f(h, xs):
        def step(h, x):
            h = tnp.sin(weight @ h + x)
            return h, (h * 2, tnp.sum(h))

        return lax.scan(step, h, xs, reverse=reverse)

    check(f, array(3), array(6, 3))
    check(tetrax.grad(lambda h, xs: tnp.sum(f(h, xs)[1][0])), array(3), array(6, 3), rtol=1e-5)


def test_while_with_constants_in_condition_and_body():
    def f(x, limit, step):
        return lax.while_loop(lambda s: s[0] < limit, lambda s: (s[0] + step, s[1] * 2), (x, x))

    check(f, np.float32(0.5), np.float32(4), np.float32(0.75))


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 9])
def test_branches(index):
    def f(i, x):
        return lax.switch(i, [tnp.sin, lambda x: x * 3, lambda x: tnp.zeros_like(x)], x)

    check(f, np.int32(index), array(4))
    check(lambda p, x: lax.cond(p, tnp.cos, tnp.exp, x), np.bool_(index > 0), array(4))


def test_loop_inside_branch_inside_loop():
    def f(x):
        def body(i, x):
            inner = lambda x: lax.fori_loop(0, i, lambda j, x: x + j, x)
            return lax.cond(tnp.sum(x) > 3, inner, lambda x: x * 2, x)

        return lax.fori_loop(0, 5, body, x)

    check(f, np.abs(array(3)))


@pytest.mark.parametrize("mode", ["fill", "clip", "promise_in_bounds"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_indices_out_of_bounds(mode, dtype):
    indices = np.array([0, 2, 4, 5, 100] if np.dtype(dtype).kind == "u" else [-7, -1, 0, 4, 5])
    indices = indices.astype(dtype)
    if mode == "promise_in_bounds":
        indices = indices % 5
    x = array(5, 3)
    check(lambda x, i: tnp.asarray(x).at[i].get(mode=mode), x, indices)
    check(lambda x, i: tnp.asarray(x).at[i].add(1.0, mode=mode), x, indices)
    check(lambda x, i: tnp.asarray(x).at[i, 1].set(7.0, mode=mode), x, indices)
    check(lambda x, i: lax.dynamic_slice(x, (i[4], i[1]), (2, 2)), x, indices)
    check(lambda x, i: lax.dynamic_update_slice(x, x[:2, :2], (i[4], i[1])), x, indices)


def test_order_of_nan_and_signed_zeros():
    x = np.array([0.0, np.nan, -0.0, -np.nan, 1.0, -np.inf, np.inf, -1.0], np.float32)
    check(lambda x: tnp.argsort(x), x)
    check(lambda x: lax.top_k(x, 4)[1], x)
    check(lambda x: tnp.lexsort((x, tnp.round(x))), x)
    check(
        lambda x: (
            tnp.argmax(x),
            tnp.argmin(x),
            tnp.max(x),
            tnp.sort(lax.complex(tnp.zeros_like(x), x)),
        ),
        x,
    )


def test_random_numbers_are_the_same():
    def f(seed):
        key = tetrax.random.key(seed)
        a, b = tetrax.random.split(tetrax.random.fold_in(key, 3))
        return tetrax.random.uniform(a, (7,)), tetrax.random.normal(b, (2, 3))

    check(f, np.int32(7))


def test_samplers_with_loops():
    def f(seed):
        a, b, c = tetrax.random.split(tetrax.random.key(seed), 3)
        gamma = tetrax.random.gamma(a, tnp.float32(2.5), (3,))
        return gamma, tetrax.random.permutation(b, 9), tetrax.random.randint(c, (4,), 0, 10)

    # XLA's logarithms differ in the last digit, which the rejection loop only passes on.
    check(f, np.int32(3), rtol=1e-5)


def test_custom_derivatives_and_checkpoint():
    @tetrax.custom_jvp
    def f(x):
        return tnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), 2 * tangents[0]))
    check(tetrax.grad(lambda x: tnp.sum(tetrax.checkpoint(lambda y: f(y) * y)(x))), array(4))


def hermitian(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    x = array(*shape) + (1j * array(*shape, seed=1) if np.dtype(dtype).kind == "c" else 0)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1])).astype(dtype)


@pytest.mark.parametrize(
    "dtype,shape", [(np.float32, (5, 5)), (np.complex128, (4, 4)), (np.float64, (2, 3, 3))]
)
def test_decompositions(dtype, shape):
    """Results are of size 10; their rounding errors are a few hundred units of the condition."""
    rtol = 1e-4 if np.finfo(dtype).bits == 32 else 1e-11
    x = hermitian(*shape, dtype=dtype)
    check(tnp.linalg.cholesky, x, rtol=rtol)
    check(lambda x: lax.linalg.lu(x), x, rtol=rtol)
    check(lambda x, b: tnp.linalg.solve(x, b), x, x[..., :2], rtol=rtol)
    check(lambda x: tnp.linalg.qr(x[..., :, :-1], mode="complete"), x, rtol=rtol)
    check(tnp.linalg.eigvalsh, x, rtol=rtol)
    check(lambda x: _rebuilt(*tnp.linalg.eigh(x)), x, rtol=rtol)


def _rebuilt(values, vectors):
    return (vectors * values[..., None, :]) @ tnp.conj(tnp.swapaxes(vectors, -1, -2))


def test_constants_of_every_storage():
    values = [
        np.array([True, False, True]),
        np.arange(6, dtype=np.int8).reshape(2, 3),
        np.array([1 + 2j, 3j], np.complex64),
        np.zeros((0, 3), np.float32),
        np.float64(0.1),
        np.array([np.nan, np.inf, -0.0], np.float32),
    ]
    check(lambda: [tnp.array(v) for v in values])


def test_callbacks_are_named():
    def ask(x):
        return x

    f = tetrax.jit(lambda x: tetrax.pure_callback(ask, tetrax.ShapeDtypeStruct((), "float32"), x))
    with pytest.raises(NotImplementedError, match="ask"):
        f.lower(np.float32(1)).as_text("stablehlo")


def test_text():
    builder = Builder()
    aval = ShapedArray((2,), np.float32)
    text = builder.function("m", [aval], lambda xs: [builder.op("sine", xs, [aval])])
    assert text == (
        "module @m {\nfunc.func public @main(%arg0: tensor<2xf32>) -> (tensor<2xf32>) {\n"
        '  %0 = "stablehlo.sine"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>\n'
        '  "func.return"(%0) : (tensor<2xf32>) -> ()\n}\n}\n'
    )
    assert type_text(ShapedArray((), dtypes.bfloat16)) == "tensor<bf16>"
