"""`tetrax.nn` against `jax.nn`: values, dtypes, weak types and gradients."""

from __future__ import annotations

import jax
import jax.numpy
import pytest

import numpy as np
import tetrax
from tetrax import nn

# A few ulp of float32: both evaluate the same formulas with their own exp and log.
RTOL, ATOL = 4e-6, 1e-6

ACTIVATIONS = {
    name: (lambda m, x, name=name: getattr(m, name)(x))
    for name in [
        "identity",
        "relu",
        "relu6",
        "squareplus",
        "softplus",
        "sparse_plus",
        "soft_sign",
        "sigmoid",
        "sparse_sigmoid",
        "silu",
        "swish",
        "mish",
        "log_sigmoid",
        "elu",
        "leaky_relu",
        "hard_tanh",
        "celu",
        "selu",
        "gelu",
        "hard_sigmoid",
        "hard_silu",
        "hard_swish",
        "tanh",
    ]
}
ACTIVATIONS |= {
    "gelu_exact": lambda m, x: m.gelu(x, approximate=False),
    "elu_2": lambda m, x: m.elu(x, 2.0),
    "celu_half": lambda m, x: m.celu(x, 0.5),
    "leaky_relu_02": lambda m, x: m.leaky_relu(x, 0.2),
    "squareplus_1": lambda m, x: m.squareplus(x, 1.0),
    "log1mexp": lambda m, x: m.log1mexp(x * x + 0.1),
}
POINTS = np.array(
    [-1000, -20, -6, -3, -2, -1, -0.3, -0.0, 0.0, 1e-6, 0.5, 1, 2, 3, 6, 20, 1000], np.float32
)


def compare(case, *args, rtol=RTOL, atol=ATOL, compiled=True):
    want = case(jax.nn, *args)
    got = case(nn, *args)
    results = [got, tetrax.jit(lambda *xs: case(nn, *xs))(*args)] if compiled else [got]
    for result in results:
        for x, y in zip(_list(result), _list(want), strict=True):
            assert x.dtype == y.dtype and x.shape == y.shape, (x.aval, y.aval)
            assert x.weak_type == y.weak_type
            x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
            np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


def compare_gradient(case, *args, rtol=1e-5, atol=2e-6):
    """Gradients of a weighted sum, so that every element counts differently."""

    def total(module):
        def run(*xs):
            y = case(module, *xs)
            weights = np.cos(np.arange(y.size, dtype=np.float32)).reshape(y.shape)
            return (y * weights).sum()

        return run

    numbers = tuple(i for i, x in enumerate(args) if np.asarray(x).dtype.kind == "f")
    want = jax.grad(total(jax.nn), numbers)(*args)
    got = tetrax.grad(total(nn), numbers)(*args)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


def _list(x):
    return list(x) if isinstance(x, tuple) else [x]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name):
    case = ACTIVATIONS[name]
    points = POINTS if name != "log1mexp" else POINTS[(np.abs(POINTS) < 10)]
    compare(case, points)
    compare(case, points.astype(np.float16), rtol=2e-3, atol=1e-3)
    compare(case, 0.7, compiled=False)
    compare_gradient(case, points)


@pytest.mark.parametrize("name", sorted(set(ACTIVATIONS) - {"log1mexp"}))
def test_activation_of_integers(name):
    if name in ("sigmoid", "gelu", "gelu_exact", "silu", "swish"):
        pytest.skip("takes floats only, in JAX too")
    compare(ACTIVATIONS[name], np.arange(-3, 4), compiled=False)


def test_derivatives_at_kinks():
    for name, want in (("relu", 0.0), ("relu6", 0.0), ("leaky_relu", 1.0), ("elu", 1.0)):
        assert float(tetrax.grad(getattr(nn, name))(0.0)) == want
    assert float(tetrax.grad(nn.relu6)(6.0)) == 0.0


def test_second_derivatives():
    for name in ("softplus", "gelu", "silu", "log_sigmoid", "mish"):
        mine, theirs = getattr(nn, name), getattr(jax.nn, name)
        got = tetrax.vmap(tetrax.grad(tetrax.grad(mine)))(POINTS[4:-4])
        want = jax.vmap(jax.grad(jax.grad(theirs)))(POINTS[4:-4])
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


def test_glu():
    x = _sample(3, 8)
    compare(lambda m, x: m.glu(x), x)
    compare(lambda m, x: m.glu(x.T, 0), x)
    compare_gradient(lambda m, x: m.glu(x), x)
    with pytest.raises(ValueError, match="divisible by 2"):
        nn.glu(x[:, :3])


SUMS = {
    "all": {},
    "axis": {"axis": 1},
    "axes": {"axis": (0, 2)},
    "keepdims": {"axis": -1, "keepdims": True},
}


@pytest.mark.parametrize("options", SUMS.values(), ids=SUMS)
@pytest.mark.parametrize("masked", [False, True])
def test_logsumexp(options, masked):
    x, b, where = _sample(2, 3, 4), _sample(2, 3, 4, seed=1), _sample(2, 3, 4, seed=2) > -0.5
    kept = {"where": where} if masked else {}
    compare(lambda m, x: m.logsumexp(x * 50, **options, **kept), x)
    compare(lambda m, x: m.logmeanexp(x, **options, **kept), x)
    compare(lambda m, x: m.logsumexp(x, b=np.abs(b), **options, **kept), x)
    compare(lambda m, x: m.logsumexp(x, b=b, return_sign=True, **options, **kept), x)
    compare_gradient(lambda m, x: m.logsumexp(x, **options, **kept), x)


def test_logsumexp_of_infinities():
    inf = np.float32(np.inf)
    for row in ([-inf, -inf], [inf, 0], [-inf, 1], [inf, -inf], [np.nan, 1]):
        compare(lambda m, x: m.logsumexp(x), np.array(row, np.float32))
    compare(lambda m, x: m.logsumexp(x), np.zeros((0,), np.float32))
    compare(lambda m, x: m.logsumexp(x, b=np.array([1, -2.0], np.float32)), np.zeros(2, np.float32))


def test_logsumexp_of_nothing_has_gradient_zero():
    f = lambda v: nn.logsumexp(tetrax.numpy.stack([-np.inf, v - np.inf]))
    assert np.isneginf(f(2.0))
    assert float(tetrax.grad(f)(2.0)) == 0.0
    assert float(tetrax.grad(tetrax.grad(f))(2.0)) == 0.0


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name):
    x, where = _sample(3, 5), _sample(3, 5, seed=2) > -0.5
    where[0] = False
    for axis in (-1, 0, (0, 1)):
        compare(lambda m, x, axis=axis: getattr(m, name)(x * 30, axis), x)
        compare_gradient(lambda m, x, axis=axis: getattr(m, name)(x, axis), x)
    compare(lambda m, x: getattr(m, name)(x, -1, where), x)
    if name == "softmax":
        compare_gradient(lambda m, x: m.softmax(x, -1, where), x)
    compare(lambda m, x: getattr(m, name)(x), x.astype(np.float16), rtol=2e-3, atol=1e-3)


def test_standardize():
    x, where = _sample(3, 5), _sample(3, 5, seed=2) > -0.5
    compare(lambda m, x: m.standardize(x), x)
    compare(lambda m, x: m.standardize(x, 0, algorithm="stable"), x)
    compare(lambda m, x: m.standardize(x, (0, 1), epsilon=0.1, where=where), x)
    compare(lambda m, x: m.standardize(x, mean=0.5, variance=2.0), x)
    compare_gradient(lambda m, x: m.standardize(x), x)
    with pytest.raises(ValueError, match="algorithm"):
        nn.standardize(x, algorithm="slow")


def test_one_hot():
    x = np.array([[0, 2], [5, -1]])
    for axis in (-1, 0, 1):
        compare(lambda m, x, axis=axis: m.one_hot(x, 4, axis=axis), x)
    compare(lambda m, x: m.one_hot(x, 3, dtype=np.int8), x)
    with pytest.raises(ValueError, match="out of bounds"):
        nn.one_hot(x, 3, axis=4)


def _sample(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _attention_inputs(batch=2, rows=5, columns=7, heads=4, keys=2, width=8):
    shapes = [(batch, rows, heads, width), (batch, columns, keys, width)]
    return _sample(*shapes[0]), _sample(*shapes[1], seed=1), _sample(*shapes[1], seed=2)


ATTENTION = {
    "plain": {},
    "scaled": {"scale": 0.3},
    "causal": {"is_causal": True},
    "window": {"local_window_size": 2},
    "window_sides": {"local_window_size": (1, 3)},
    "bias": {"bias": _sample(1, 1, 5, 7, seed=3)},
    "bias_heads": {"bias": _sample(2, 4, 5, 7, seed=3)},
    "mask": {"mask": _sample(2, 4, 5, 7, seed=4) > -1},
    "mask_one_head": {"mask": _sample(2, 1, 5, 7, seed=4) > -1, "is_causal": True},
    "lengths": {
        "query_seq_lengths": np.array([3, 5], np.int32),
        "key_value_seq_lengths": np.array([7, 2], np.int32),
    },
    "residual": {"return_residual": True, "is_causal": True},
}


@pytest.mark.parametrize("options", ATTENTION.values(), ids=ATTENTION)
def test_attention(options):
    inputs = _attention_inputs()
    compare(lambda m, *xs: m.dot_product_attention(*xs, **options), *inputs, rtol=1e-5)
    if "return_residual" not in options:
        compare_gradient(
            lambda m, *xs: m.dot_product_attention(*xs, **options), *inputs, rtol=1e-4, atol=1e-5
        )


def test_attention_without_batch_axis():
    inputs = [x[0] for x in _attention_inputs()]
    compare(lambda m, *xs: m.dot_product_attention(*xs), *inputs, rtol=1e-5)


def test_attention_misuse():
    query, key, value = _attention_inputs()
    with pytest.raises(ValueError, match="multiple of key/value heads"):
        nn.dot_product_attention(query[:, :, :3], key, value)
    with pytest.raises(ValueError, match="value shape"):
        nn.dot_product_attention(query, key, value[:, :3])
    with pytest.raises(ValueError, match="mask dtype"):
        nn.dot_product_attention(query, key, value, mask=np.zeros((2, 4, 5, 7)))
    with pytest.raises(NotImplementedError):
        nn.dot_product_attention(query, key, value, implementation="cudnn")
    with pytest.raises(ValueError, match="Unsupported"):
        nn.dot_product_attention(query, key, value, implementation="nonsense")


def test_scaled_matmul():
    a, b = _sample(2, 3, 8), _sample(2, 5, 8, seed=1)
    a_scales, b_scales = np.abs(_sample(2, 3, 2, seed=2)), np.abs(_sample(2, 5, 2, seed=3))
    got = nn.scaled_matmul(a, b, a_scales, b_scales)
    wide_a, wide_b = a * np.repeat(a_scales, 4, -1), b * np.repeat(b_scales, 4, -1)
    np.testing.assert_allclose(got, np.einsum("bmk,bnk->bmn", wide_a, wide_b), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="matching batch"):
        nn.scaled_matmul(a, b[:1], a_scales, b_scales)
