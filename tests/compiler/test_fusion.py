"""The fusion decisions that speed rests on: which kernels a program becomes, as golden texts.

A line is one step: a kernel with the sizes of its buffers, a copy, or a loop with its own steps.
"""

from __future__ import annotations

import pytest
from tests.golden_text import check_golden

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import lax
from tetrax.compiler.pipeline import lower
from tetrax.compiler.steps import KernelStep, nested


def softmax(x):
    return tetrax.nn.softmax(x, axis=-1)


def layer_norm(x, scale, offset):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + offset


def layer_norm_gradient(x, scale, offset):
    return tetrax.grad(lambda *args: (layer_norm(*args) ** 2).sum(), (0, 1, 2))(x, scale, offset)


def attention(q, k, v):
    heads = lambda x: x.reshape(2, 16, 4, 8).transpose(0, 2, 1, 3)
    q, k, v = heads(q), heads(k), heads(v)
    weights = tetrax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8.0, axis=-1)
    return jnp.einsum("bhqk,bhkd->bqhd", weights, v).reshape(2, 16, 32)


def adam(parameters, first, second, count, gradients):
    count = count + 1
    first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients, strict=True)]
    second = [0.999 * v + 0.001 * g * g for v, g in zip(second, gradients, strict=True)]
    c1, c2 = 1 - 0.9**count, 1 - 0.999**count
    moved = [
        p - 1e-3 * (m / c1) / (jnp.sqrt(v / c2) + 1e-8)
        for p, m, v in zip(parameters, first, second, strict=True)
    ]
    return moved, first, second, count


def lennard_jones(x):
    d = x[:, None, :] - x[None, :, :]
    r2 = (d**2).sum(-1) + jnp.eye(len(x))
    s6 = (1.0 / r2) ** 3
    return 2.0 * jnp.sum((s6**2 - s6) * (1 - jnp.eye(len(x))))


def forces(x):
    return tetrax.value_and_grad(lennard_jones)(x)


def lstm_gradient(weights, x):
    def loss(weights):
        def step(state, v):
            h, c = state
            gates = v @ weights["x"] + h @ weights["h"] + weights["b"]
            write, forget, new, read = jnp.split(gates, 4, axis=-1)
            c = tetrax.nn.sigmoid(forget) * c + tetrax.nn.sigmoid(write) * jnp.tanh(new)
            h = tetrax.nn.sigmoid(read) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((8, 16))
        return (lax.scan(step, (zeros, zeros), x)[1] ** 2).mean()

    return tetrax.grad(loss)(weights)


def ones(*shape):
    return np.ones(shape, np.float32)


PROGRAMS = {
    "softmax": (softmax, (ones(64, 256),)),
    "layer_norm": (layer_norm, (ones(64, 256), ones(256), ones(256))),
    "layer_norm_gradient": (layer_norm_gradient, (ones(64, 256), ones(256), ones(256))),
    "attention": (attention, (ones(2, 16, 32),) * 3),
    "adam": (adam, ([ones(30, 40)] * 3,) * 3 + (np.float32(1), [ones(30, 40)] * 3)),
    "lennard_jones": (forces, (ones(32, 3),)),
    "lstm_gradient": (
        lstm_gradient,
        ({"x": ones(16, 64), "h": ones(16, 64), "b": ones(64)}, ones(10, 8, 16)),
    ),
}


def described(steps, indent=""):
    lines = []
    for step in steps:
        if isinstance(step, KernelStep):
            sizes = " ".join(f"{b.mode}:{b.size}" for b in step.kernel.buffers)
            lines.append(f"{indent}{step.kernel.name} {sizes}")
        else:
            lines.append(f"{indent}{type(step).__name__}")
        for inner in nested(step):
            lines += described(inner, indent + "    ")
    return lines


@pytest.mark.parametrize("name", PROGRAMS)
def test_fusion(name):
    f, args = PROGRAMS[name]
    steps = lower(tetrax.jit(f).trace(*args).jaxpr).steps
    check_golden(f"fusion_{name}", "\n".join(described(steps)))
