"""Training steps: loss, gradient and update of whole networks, the parameters updated in place.

PyTorch's networks are functions of their parameters too, with its own layers, attention and losses;
its updates are made in place under `no_grad`, or by its own optimiser.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from benchmarks.row import Case, Function, Row
from benchmarks.rows.common import generator, integers, normal

_RATE = 0.01


def _descent(lib: Any, loss: Function) -> Function:
    """A step of gradient descent, for any library with JAX's API."""

    def step(parameters: Any, *data: Any) -> Any:
        value, gradient = lib.value_and_grad(loss)(parameters, *data)
        return lib.tree.map(lambda p, g: p - _RATE * g, parameters, gradient), value

    return step


def _torch_descent(torch: Any, loss: Function) -> Function:
    """The same in PyTorch: leaves that keep their place in memory."""

    def step(parameters: Any, *data: Any) -> Any:
        leaves = _leaves(parameters)
        for leaf in leaves:
            leaf.requires_grad_(True)
        value = loss(parameters, *data)
        gradients = torch.autograd.grad(value, leaves)
        with torch.no_grad():
            torch._foreach_add_(leaves, gradients, alpha=-_RATE)
        return parameters, value

    return step


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for part in tree.values() for leaf in _leaves(part)]
    if isinstance(tree, list):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [tree]


def _sizes(*leaves: Any) -> list[Any]:
    """Norms of the leaves, which no layout changes, in float64."""
    return [np.sqrt(np.sum(np.square(leaf, dtype=np.float64))) for leaf in leaves]


def _weights(*shapes: tuple[int, ...]) -> list[Any]:
    """Normal weights scaled by the number of inputs, and zeros for vectors."""
    source = generator()
    scaled = lambda shape: source.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))
    made = [scaled(shape) if len(shape) > 1 else np.zeros(shape) for shape in shapes]
    return [array.astype(np.float32) for array in made]


def _cross_entropy(lib: Any, scores: Any, labels: Any) -> Any:
    logarithms = lib.nn.log_softmax(scores)
    return -lib.numpy.mean(lib.numpy.take_along_axis(logarithms, labels[..., None], axis=-1))


# --------------------------------------------------------------------------- perceptron


def mlp_step(batch: int, widths: tuple[int, ...]) -> Case:
    """A multi-layer perceptron on images of digits."""
    shapes = list(pairwise(widths))
    parameters = [{"w": w, "b": np.zeros(w.shape[1], np.float32)} for w in _weights(*shapes)]
    images, labels = normal(batch, widths[0]), integers(batch, below=widths[-1])

    def program(lib: Any) -> Function:
        def loss(parameters: Any, images: Any, labels: Any) -> Any:
            x = images
            for layer in parameters[:-1]:
                x = lib.nn.relu(x @ layer["w"] + layer["b"])
            return _cross_entropy(lib, x @ parameters[-1]["w"] + parameters[-1]["b"], labels)

        return _descent(lib, loss)

    def torch_program(torch: Any) -> Function:
        def loss(parameters: Any, images: Any, labels: Any) -> Any:
            x = images
            for layer in parameters[:-1]:
                x = torch.relu(torch.addmm(layer["b"], x, layer["w"]))
            scores = torch.addmm(parameters[-1]["b"], x, parameters[-1]["w"])
            return torch.nn.functional.cross_entropy(scores, labels)

        return _torch_descent(torch, loss)

    return Case(
        program=program,
        inputs=(parameters, images, labels),
        torch=torch_program,
        torch_inputs=lambda torch, parameters, images, labels: (parameters, images, labels.long()),
        # the first layer needs no gradient of its input
        flops=2.0 * batch * (3 * sum(a * b for a, b in shapes) - shapes[0][0] * shapes[0][1]),
        compare=_sizes,
        tolerance=1e-3,
        updates=1,
    )


# --------------------------------------------------------------------------- images


def _convolve(lib: Any, x: Any, w: Any) -> Any:
    return lib.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _torch_images(torch: Any, tree: Any) -> Any:
    """Kernels and images in PyTorch's order of axes and its channels-last format."""
    if isinstance(tree, dict):
        return {name: _torch_images(torch, part) for name, part in tree.items()}
    if tree.ndim != 4:
        return tree
    return tree.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)


def cnn_step(batch: int, size: int, channels: tuple[int, int], classes: int) -> Case:
    """Two convolutions with pooling and a dense layer."""
    first, second = channels
    flat = (size // 4) ** 2 * second
    names = ("conv1", "bias1", "conv2", "bias2", "dense", "bias3")
    shapes = ((3, 3, 3, first), (first,), (3, 3, first, second), (second,), (flat, classes))
    parameters = dict(zip(names, _weights(*shapes, (classes,)), strict=True))
    images, labels = normal(batch, size, size, 3), integers(batch, below=classes)

    def program(lib: Any) -> Function:
        def pool(x: Any) -> Any:
            window = (1, 2, 2, 1)
            return lib.lax.reduce_window(x, -np.inf, lib.lax.max, window, window, "VALID")

        def loss(p: Any, images: Any, labels: Any) -> Any:
            x = pool(lib.nn.relu(_convolve(lib, images, p["conv1"]) + p["bias1"]))
            x = pool(lib.nn.relu(_convolve(lib, x, p["conv2"]) + p["bias2"]))
            scores = x.reshape(batch, -1) @ p["dense"] + p["bias3"]
            return _cross_entropy(lib, scores, labels)

        return _descent(lib, loss)

    def torch_program(torch: Any) -> Function:
        nn = torch.nn.functional

        def loss(p: Any, images: Any, labels: Any) -> Any:
            x = nn.max_pool2d(nn.relu(nn.conv2d(images, p["conv1"], p["bias1"], padding=1)), 2)
            x = nn.max_pool2d(nn.relu(nn.conv2d(x, p["conv2"], p["bias2"], padding=1)), 2)
            # pixels before channels, as the dense layer has them
            scores = torch.addmm(p["bias3"], x.permute(0, 2, 3, 1).reshape(batch, -1), p["dense"])
            return nn.cross_entropy(scores, labels)

        return _torch_descent(torch, loss)

    pixels = batch * size**2
    return Case(
        program=program,
        inputs=(parameters, images, labels),
        torch=torch_program,
        torch_inputs=lambda torch, parameters, images, labels: (
            _torch_images(torch, parameters),
            images.permute(0, 3, 1, 2),
            labels.long(),
        ),
        flops=2.0 * (2 * pixels * 27 * first + 3 * pixels / 4 * 9 * first * second),
        compare=_sizes,
        tolerance=1e-3,
        updates=1,
    )


def resnet_block_step(batch: int, size: int, channels: int) -> Case:
    """A residual block: two convolutions, each with batch norm, and the sum with the input."""
    kernel = (3, 3, channels, channels)
    conv1, conv2 = _weights(kernel, kernel)
    one, zero = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    parameters = {
        "conv1": conv1,
        "scale1": one,
        "shift1": zero,
        "conv2": conv2,
        "scale2": one,
        "shift2": zero,
    }
    x, target = (
        normal(batch, size, size, channels),
        normal(batch, size, size, channels)[::-1].copy(),
    )

    def program(lib: Any) -> Function:
        jnp = lib.numpy

        def norm(x: Any, scale: Any, shift: Any) -> Any:
            mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
            return (x - mean) * lib.lax.rsqrt(variance + 1e-5) * scale + shift

        def loss(p: Any, x: Any, target: Any) -> Any:
            y = lib.nn.relu(norm(_convolve(lib, x, p["conv1"]), p["scale1"], p["shift1"]))
            y = norm(_convolve(lib, y, p["conv2"]), p["scale2"], p["shift2"])
            return jnp.mean((lib.nn.relu(x + y) - target) ** 2)

        return _descent(lib, loss)

    def torch_program(torch: Any) -> Function:
        nn = torch.nn.functional

        def norm(x: Any, scale: Any, shift: Any) -> Any:
            return nn.batch_norm(x, None, None, scale, shift, training=True, eps=1e-5)

        def loss(p: Any, x: Any, target: Any) -> Any:
            y = nn.relu(norm(nn.conv2d(x, p["conv1"], padding=1), p["scale1"], p["shift1"]))
            y = norm(nn.conv2d(y, p["conv2"], padding=1), p["scale2"], p["shift2"])
            return nn.mse_loss(nn.relu(x + y), target)

        return _torch_descent(torch, loss)

    return Case(
        program=program,
        inputs=(parameters, x, target),
        torch=torch_program,
        torch_inputs=lambda torch, parameters, x, target: (
            _torch_images(torch, parameters),
            x.permute(0, 3, 1, 2),
            target.permute(0, 3, 1, 2),
        ),
        flops=5 * 2.0 * batch * size**2 * 9 * channels**2,  # all but one input gradient
        compare=_sizes,
        tolerance=1e-3,
        updates=1,
    )


# --------------------------------------------------------------------------- transformer


def transformer_parameters(vocabulary: int, width: int, layers: int) -> dict[str, Any]:
    """Weights of a decoder with learned embeddings, no positions, and a dense head."""
    source = generator()

    def dense(*shape: int) -> Any:
        return (source.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    one, zero = np.ones(width, np.float32), np.zeros(width, np.float32)
    block = lambda: {
        "scale1": one,
        "shift1": zero,
        "scale2": one,
        "shift2": zero,
        "qkv": dense(width, 3 * width),
        "out": dense(width, width),
        "up": dense(width, 4 * width),
        "bias_up": np.zeros(4 * width, np.float32),
        "down": dense(4 * width, width),
        "bias_down": zero,
    }
    return {
        "embedding": dense(vocabulary, width),
        "blocks": [block() for _ in range(layers)],
        "head": dense(width, vocabulary),
    }


def transformer_loss(lib: Any, heads: int) -> Function:
    """The loss of a causal language model, for any library with JAX's API."""
    jnp = lib.numpy

    def norm(x: Any, scale: Any, shift: Any) -> Any:
        mean = jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.var(x, axis=-1, keepdims=True)
        return (x - mean) * lib.lax.rsqrt(variance + 1e-5) * scale + shift

    def attend(x: Any, p: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = jnp.split(x @ p["qkv"], 3, axis=-1)
        q, k, v = (t.reshape(batch, length, heads, width // heads) for t in (q, k, v))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // heads)
        scores = jnp.where(jnp.tri(length, dtype=bool), scores, -1e30)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", lib.nn.softmax(scores), v)
        return mixed.reshape(batch, length, width) @ p["out"]

    def loss(parameters: Any, tokens: Any, following: Any) -> Any:
        x = parameters["embedding"][tokens]
        for p in parameters["blocks"]:
            x = x + attend(norm(x, p["scale1"], p["shift1"]), p)
            inner = norm(x, p["scale2"], p["shift2"]) @ p["up"] + p["bias_up"]
            x = x + lib.nn.gelu(inner) @ p["down"] + p["bias_down"]
        return _cross_entropy(lib, x @ parameters["head"], following)

    return loss


def _torch_transformer_loss(torch: Any, heads: int) -> Function:
    nn = torch.nn.functional

    def attend(x: Any, p: Any) -> Any:
        batch, length, width = x.shape
        parts = (x @ p["qkv"]).view(batch, length, 3, heads, width // heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, length, width) @ p["out"]

    def loss(parameters: Any, tokens: Any, following: Any) -> Any:
        x = nn.embedding(tokens, parameters["embedding"])
        width = x.shape[-1]
        for p in parameters["blocks"]:
            x = x + attend(nn.layer_norm(x, (width,), p["scale1"], p["shift1"], 1e-5), p)
            inner = nn.layer_norm(x, (width,), p["scale2"], p["shift2"], 1e-5) @ p["up"]
            x = x + nn.gelu(inner + p["bias_up"], approximate="tanh") @ p["down"] + p["bias_down"]
        scores = x @ parameters["head"]
        return nn.cross_entropy(scores.flatten(0, 1), following.flatten())

    return loss


def transformer_step(
    vocabulary: int, width: int, layers: int, heads: int, batch: int, length: int
) -> Case:
    """A step of a small causal language model."""
    parameters = transformer_parameters(vocabulary, width, layers)
    tokens = integers(batch, length, below=vocabulary)
    following = np.roll(tokens, -1, axis=1)
    rows = batch * length
    per_layer = rows * (12 * width**2) + 2 * batch * length**2 * width
    return Case(
        program=lambda lib: _descent(lib, transformer_loss(lib, heads)),
        inputs=(parameters, tokens, following),
        torch=lambda torch: _torch_descent(torch, _torch_transformer_loss(torch, heads)),
        torch_inputs=lambda torch, parameters, tokens, following: (
            *(parameters, tokens.long(), following.long()),
        ),
        flops=3 * 2.0 * (layers * per_layer + rows * width * vocabulary),
        compare=_sizes,
        tolerance=1e-3,
        updates=1,
    )


# --------------------------------------------------------------------------- optimiser


def adam(arrays: int, rows: int, columns: int) -> Case:
    """Adam's update of many parameters, in place."""
    shapes = [(rows, columns)] * arrays
    parameters, gradients = _weights(*shapes), _weights(*shapes)
    zeros = lambda: [np.zeros(shape, np.float32) for shape in shapes]
    count = np.float32(0)
    rate, b1, b2, eps = 1e-3, 0.9, 0.999, 1e-8

    def program(lib: Any) -> Function:
        def update(parameters: Any, first: Any, second: Any, count: Any, gradients: Any) -> Any:
            count = count + 1
            first = lib.tree.map(lambda m, g: b1 * m + (1 - b1) * g, first, gradients)
            second = lib.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, second, gradients)
            c1, c2 = 1 - b1**count, 1 - b2**count

            def moved(p: Any, m: Any, v: Any) -> Any:
                return p - rate * (m / c1) / (lib.numpy.sqrt(v / c2) + eps)

            return lib.tree.map(moved, parameters, first, second), first, second, count

        return update

    def torch_program(torch: Any) -> Function:
        state: dict[str, Any] = {}

        def update(parameters: Any, first: Any, second: Any, count: Any, gradients: Any) -> Any:
            if not state:
                for p, g in zip(parameters, gradients, strict=True):
                    p.grad = g
                state["optimiser"] = torch.optim.Adam(parameters, lr=rate, fused=True)
            state["optimiser"].step()
            moments = [state["optimiser"].state[p] for p in parameters]
            return (
                parameters,
                [m["exp_avg"] for m in moments],
                [m["exp_avg_sq"] for m in moments],
                moments[0]["step"],
            )

        return update

    def in_numpy(parameters: Any, first: Any, second: Any, count: Any, gradients: Any) -> Any:
        count += 1
        c1, c2 = 1 - b1 ** float(count), 1 - b2 ** float(count)
        for p, m, v, g in zip(parameters, first, second, gradients, strict=True):
            m *= b1
            m += (1 - b1) * g
            v *= b2
            v += (1 - b2) * g * g
            p -= (rate / c1) * m / (np.sqrt(v / np.float32(c2)) + eps)
        return parameters, first, second, count

    return Case(
        program=program,
        inputs=(parameters, zeros(), zeros(), count, gradients),
        numpy=in_numpy,
        torch=torch_program,
        bytes=7 * 4.0 * arrays * rows * columns,
        updates=4,
        torch_compile=False,  # the optimiser is one library call
    )


_FAMILY = "training"

ROWS = (
    Row(
        "mlp_step",
        _FAMILY,
        mlp_step,
        {"batch": 128, "widths": (784, 512, 512, 10)},
        {"batch": 6, "widths": (8, 5, 5, 3)},
    ),
    Row(
        "cnn_step",
        _FAMILY,
        cnn_step,
        {"batch": 64, "size": 32, "channels": (32, 64), "classes": 10},
        {"batch": 2, "size": 8, "channels": (3, 4), "classes": 5},
    ),
    Row(
        "resnet_block_step",
        _FAMILY,
        resnet_block_step,
        {"batch": 32, "size": 28, "channels": 64},
        {"batch": 2, "size": 5, "channels": 4},
    ),
    Row(
        "transformer_step",
        _FAMILY,
        transformer_step,
        {
            "vocabulary": 1024,
            "width": 256,
            "layers": 6,
            "heads": 8,
            "batch": 8,
            "length": 128,
        },
        {"vocabulary": 11, "width": 8, "layers": 2, "heads": 2, "batch": 2, "length": 6},
    ),
    Row(
        "adam_10m",
        _FAMILY,
        adam,
        {"arrays": 10, "rows": 1000, "columns": 1000},
        {"arrays": 3, "rows": 4, "columns": 5},
    ),
)
