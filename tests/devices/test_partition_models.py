"""Models cut over devices in the usual ways: the values of one device, and no more collectives
than there must be.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from tests.devices.layouts import P
from tests.devices.partitioned import GRID, LINE, check, placed, specs_of

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import lax, nn, tree

RNG = np.random.default_rng(0)
BATCH = 256


def weights(*shape: int) -> np.ndarray:
    """Scaled so that outputs are as large as inputs and nothing grows."""
    return (RNG.standard_normal(shape) / np.sqrt(max(shape[0], 1))).astype(np.float32)


def layers(*sizes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(weights(a, b), 0.1 * weights(b)) for a, b in pairwise(sizes)]


def mlp(params: Any, x: Any) -> Any:
    *hidden, (w, b) = params
    for v, c in hidden:
        x = nn.relu(x @ v + c)
    return x @ w + b


def cross_entropy(logits: Any, labels: Any) -> Any:
    return -jnp.mean(jnp.sum(nn.log_softmax(logits) * nn.one_hot(labels, logits.shape[-1]), -1))


def training(loss: Callable[..., Any]) -> Callable[..., Any]:
    def step(params: Any, *batch: Any) -> Any:
        value, grads = tetrax.value_and_grad(loss)(params, *batch)
        return value, tree.map(lambda p, g: p - 0.1 * g, params, grads)

    return step


MLP = layers(16, 64, 64, 8)
LABELS = RNG.integers(0, 8, BATCH).astype(np.int32)
mlp_step = training(lambda params, x, y: cross_entropy(mlp(params, x), y))


def test_data_parallel_mlp():
    """One sum over devices for the loss, and one for each gradient."""
    x = weights(BATCH, 16)
    args, specs = (MLP, x, LABELS), (P(), P("x"), P("x"))
    loss, params = check(mlp_step, args, specs, collectives={"all_reduce": 7})
    assert specs_of(params) == [P()] * 6
    assert loss.sharding.is_fully_replicated


def test_fully_sharded_parameters():
    """Weights are gathered before they are used, and gradients summed only where they are kept."""
    args = (MLP, weights(BATCH, 16), LABELS)
    counts = {"all_gather": 6, "reduce_scatter": 6, "all_reduce": 1}
    _, params = check(mlp_step, args, (P("x"), P("x"), P("x")), collectives=counts)
    assert specs_of(params) == [P("x")] * 6


def test_megatron_mlp():
    """Columns, then rows: one sum forward, one backward."""
    params, x = layers(16, 64, 16), weights(32, 16)
    specs = ([(P(None, "x"), P("x")), (P("x"), P())], P())
    check(mlp, (params, x), specs, collectives={"all_reduce": 1})
    gradient = tetrax.grad(lambda params, x: jnp.sum(mlp(params, x) ** 2), (0, 1))
    grads, _ = check(gradient, (params, x), specs, collectives={"all_reduce": 2})
    assert specs_of(grads) == [P(None, "x"), P("x"), P("x"), P()]


def attention(params: dict[str, Any], x: Any) -> Any:
    q, k, v = (jnp.einsum("btd,dhk->bthk", x, params[name]) for name in "qkv")
    scores = jnp.einsum("bthk,bshk->bhts", q, k) / np.float32(np.sqrt(q.shape[-1]))
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    scores = jnp.where(causal, scores, -1e9)
    mixed = jnp.einsum("bhts,bshk->bthk", nn.softmax(scores), v)
    return jnp.einsum("bthk,hkd->btd", mixed, params["o"])


def normed(x: Any, scale: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale


def block(params: dict[str, Any], x: Any) -> Any:
    x = x + attention(params, normed(x, params["norm1"]))
    return x + nn.gelu(normed(x, params["norm2"]) @ params["up"]) @ params["down"]


def block_params() -> dict[str, np.ndarray]:
    made = {name: weights(16, 8, 4) for name in "qkv"}
    ones = {name: np.ones(16, np.float32) for name in ("norm1", "norm2")}
    return {
        **made,
        **ones,
        "o": weights(8, 4, 16) / 4,
        "up": weights(16, 64),
        "down": weights(64, 16),
    }


def block_specs(axis: str) -> dict[str, P]:
    heads = {name: P(None, axis) for name in ("q", "k", "v", "up")}
    return {**heads, "norm1": P(), "norm2": P(), "o": P(axis), "down": P(axis)}


def test_megatron_attention():
    params, x = block_params(), weights(2, 6, 16)
    attending = {name: params[name] for name in "qkvo"}
    specs = {name: block_specs("x")[name] for name in "qkvo"}
    check(attention, (attending, x), (specs, P()), collectives={"all_reduce": 1})
    gradient = tetrax.grad(lambda p, x: jnp.sum(attention(p, x) ** 2), (0, 1))
    grads, _ = check(gradient, (attending, x), (specs, P()), collectives={"all_reduce": 2})
    assert grads["q"].sharding.spec == P(None, "x")
    assert grads["o"].sharding.spec == P("x")


def test_megatron_layer():
    """Two sums forward, two backward."""
    params, x = block_params(), weights(2, 6, 16)
    specs = (block_specs("x"), P())
    check(block, (params, x), specs, collectives={"all_reduce": 2})
    gradient = tetrax.grad(lambda p, x: jnp.sum(block(p, x) ** 2), (0, 1))
    check(gradient, (params, x), specs, collectives={"all_reduce": 4}, tolerance=3e-6)


def test_batches_and_heads_on_a_grid():
    params, x = block_params(), weights(2, 6, 16)
    specs = (block_specs("y"), P("x"))
    out = check(block, (params, x), specs, GRID, collectives={"all_reduce": 2})
    assert out.sharding.spec == P("x")
    step = training(lambda p, x: jnp.mean(block(p, x) ** 2))
    _, updated = check(step, (params, x), specs, GRID, tolerance=3e-6)
    assert updated["up"].sharding.spec == P(None, "y")


def cnn(params: Any, x: Any) -> Any:
    *kernels, last = params
    for kernel in kernels:
        x = lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = lax.reduce_window(nn.relu(x), -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.reshape(x.shape[0], -1) @ last


def test_data_parallel_cnn():
    params = [weights(3, 3, 2, 4) / 4, weights(3, 3, 4, 8) / 4, weights(32, 8)]
    step = training(lambda params, x, y: cross_entropy(cnn(params, x), y))
    args = (params, weights(16, 8, 8, 2), LABELS[:16])
    check(step, args, (P(), P("x"), P("x")), collectives={"all_reduce": 4})


def test_features_of_a_convolution():
    """Output features cut by the kernel; then input features, whose products are summed."""
    kernels = [weights(3, 3, 2, 8), weights(3, 3, 8, 4)]

    def both(kernels: Any, x: Any) -> Any:
        for kernel in kernels:
            x = lax.conv_general_dilated(
                x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
        return x

    specs = ([P(None, None, None, "x"), P(None, None, "x")], P())
    check(both, (kernels, weights(2, 6, 6, 2)), specs, collectives={"all_reduce": 1})


def test_embedding_and_its_gradient():
    """The gradient is a scatter of parts, summed once; the table is only added to."""
    table, tokens = weights(20, 8), RNG.integers(0, 20, (16, 5)).astype(np.int32)
    loss = lambda table, tokens: jnp.sum(jnp.sin(table[tokens]))
    check(lambda t, i: t[i], (table, tokens), (P(), P("x")), collectives={})
    counts = {"all_reduce": 1}
    check(tetrax.grad(loss), (table, tokens), (P(), P("x")), collectives=counts)
    columns = (P(None, "x"), P())
    out = check(tetrax.grad(loss), (table, tokens), columns, collectives={})
    assert out.sharding.spec == P(None, "x")
    added = check(
        lambda t, i, u: t.at[i].add(u), (table, tokens, weights(16, 5, 8)), (P(), P("x"), P("x"))
    )
    assert added.sharding.is_fully_replicated


def test_layer_norm_and_softmax():
    x = weights(16, 32)
    for function in (lambda x: normed(x, 2.0), nn.softmax, nn.log_softmax):
        check(function, (x,), (P("x"),), collectives={})
    # The largest and the sum; layer norm needs two means.
    check(nn.softmax, (x,), (P(None, "x"),), collectives={"all_reduce": 2})
    check(lambda x: normed(x, 2.0), (x,), (P(None, "x"),), collectives={"all_reduce": 2})


def stacked_blocks(count: int) -> dict[str, np.ndarray]:
    made = [block_params() for _ in range(count)]
    return {name: np.stack([p[name] for p in made]) for name in made[0]}


def many_blocks(params: Any, x: Any) -> Any:
    return lax.scan(lambda x, p: (block(p, x), None), x, params)[0]


def test_scan_over_layers():
    params, x = stacked_blocks(3), weights(2, 6, 16)
    specs = ({name: P(None, *spec) for name, spec in block_specs("x").items()}, P())
    check(many_blocks, (params, x), specs, collectives={"all_reduce": 2}, tolerance=3e-6)
    gradient = tetrax.grad(lambda p, x: jnp.mean(many_blocks(p, x) ** 2), (0, 1))
    # Sums stand once in each loop, however often it turns.
    counts = {"all_reduce": 4}
    grads, _ = check(gradient, (params, x), specs, collectives=counts, tolerance=1e-5)
    assert grads["up"].sharding.spec == P(None, None, "x")


def test_checkpointed_blocks():
    params, x = block_params(), weights(2, 6, 16)
    again = tetrax.checkpoint(block)
    gradient = tetrax.grad(lambda p, x: jnp.sum(again(p, x) ** 2))
    check(gradient, (params, x), (block_specs("x"), P()), tolerance=3e-6)


def test_nothing_is_whole_in_a_transformer():
    """Masks, positions, and what dropout draws are made where they are used."""
    params, key = block_params(), tetrax.random.key(0)

    def model(params: Any, key: Any, x: Any) -> Any:
        angles = jnp.arange(6.0)[:, None] * jnp.exp(-jnp.arange(0.0, 16.0))
        x = block(params, x + jnp.sin(angles))
        kept = tetrax.random.bernoulli(key, 0.9, x.shape)
        return jnp.where(kept, x / 0.9, 0.0)

    args = (params, key, weights(40, 6, 16))
    check(model, args, (P(), P(), P("x")), collectives={})
    text = tetrax.jit(model).lower(*placed(args, (P(), P(), P("x")))).text("partitioned")
    assert "[40," not in text, text
    assert LINE.size == 8


def test_gradients_of_layers_in_a_loop():
    """Fully sharded: in each turn a layer is gathered, and its gradients summed where they are."""
    params = np.stack([weights(32, 32) for _ in range(3)])

    def loss(params: Any, x: Any) -> Any:
        return jnp.mean(lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, params)[0] ** 2)

    counts = {"all_gather": 2, "reduce_scatter": 1, "all_reduce": 1}
    args, specs = (params, weights(BATCH, 32)), (P(None, "x"), P("x"))
    _, updated = check(training(loss), args, specs, collectives=counts)
    assert updated.sharding.spec == P(None, "x")


def test_gradients_summed_over_small_batches():
    """What a loop only adds to is cut from the start."""

    def step(params: Any, x: Any) -> Any:
        def turn(total: Any, part: Any) -> Any:
            gradient = tetrax.grad(lambda p: jnp.mean(mlp(p, part) ** 2))(params)
            return tree.map(jnp.add, total, gradient), None

        total, _ = lax.scan(turn, tree.map(jnp.zeros_like, params), x)
        return tree.map(lambda p, g: p - 0.1 * g, params, total)

    args, specs = (layers(16, 32, 8), weights(3, BATCH, 16)), (P("x"), P(None, "x"))
    counts = {"all_gather": 4, "reduce_scatter": 4}
    check(step, args, specs, collectives=counts)
    text = tetrax.jit(step).lower(*placed(args, specs)).text("partitioned")
    zeros = [line for line in text.splitlines() if "= broadcast_in_dim" in line and " 0.0:" in line]
    assert not any("f32[16,32]" in line or "f32[32,8]" in line for line in zeros)


def test_a_vocabulary_that_is_cut():
    """Who has a row reads it, and a sum hands it on; who has it adds its gradients."""
    table, tokens = weights(64, 8), RNG.integers(0, 64, 40).astype(np.int32)
    specs = (P("x"), P())
    check(lambda t, i: t[i], (table, tokens), specs, collectives={"all_reduce": 1}, tolerance=0)
    outside = np.array([3, -1, 64, 99, -70], np.int32)
    for mode in ("fill", "clip", "promise_in_bounds"):
        read = lambda t, i, mode=mode: t.at[i].get(mode=mode, fill_value=7.0)
        check(read, (table, outside), specs, tolerance=0)
    loss = lambda t, i: jnp.sum(jnp.sin(t[i]))
    step = lambda t, i: t - 0.1 * tetrax.grad(loss)(t, i)
    rows = check(step, (table, tokens), specs, collectives={"all_reduce": 1})
    assert rows.sharding.spec == P("x")
    for mode in ("drop", "clip"):
        write = lambda t, i, mode=mode: (t.at[i].add(1.0, mode=mode), t.at[i].max(0.0, mode=mode))
        check(write, (table, outside), specs, collectives={}, tolerance=0)

    def entropy(x: Any, head: Any, labels: Any) -> Any:
        logits = x @ head
        own = jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]
        return jnp.mean(nn.logsumexp(logits, -1) - own)

    args = (weights(40, 16), weights(16, 64), tokens)
    specs = (P(), P(None, "x"), P())
    # The largest logit, the sum of exponentials, and the logit of the label.
    check(entropy, args, specs, collectives={"all_reduce": 3})
    check(tetrax.grad(entropy, (0, 1)), args, specs)


def test_adam_with_clipped_gradients():
    """The length of all gradients is no reason to have them whole."""

    def loss(p: Any, x: Any) -> Any:
        return jnp.mean(mlp(p, x) ** 2)

    def step(p: Any, momentum: Any, x: Any) -> Any:
        grads = tetrax.grad(loss)(p, x)
        length = jnp.sqrt(sum(jnp.sum(g**2) for g in tree.leaves(grads)))
        grads = tree.map(lambda g: g / jnp.maximum(length, 1.0), grads)
        momentum = tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        return tree.map(lambda p, m: p - 0.1 * m, p, momentum), momentum

    args = (MLP, tree.map(np.zeros_like, MLP), weights(BATCH, 16))
    counts = {"all_gather": 6, "reduce_scatter": 6, "all_reduce": 6}
    check(step, args, (P("x"), P("x"), P("x")), collectives=counts)
