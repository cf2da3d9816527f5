"""Train a small convolutional network on real handwritten digits, and draw how it went.

    python examples/digits.py                   # trains, prints accuracy, writes digits.png
    python examples/digits.py --backend numpy   # also times the forward pass run eagerly

The whole program is `grad`, `jit` and `vmap`: an epoch is one `scan` inside one `jit`, the gradient
of the loss is `value_and_grad`, and per-example gradient norms are `vmap(grad)`. Data: the 1,797
digits of 8x8 pixels that scikit-learn ships. Every run gives the same bits.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import lax, nn, random

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BATCH = 64
EPOCHS = 30
TEST_SIZE = 360
LEARNING_RATE = 2e-3


def load():
    """Train and test (images, labels); images are (n, 8, 8, 1) in [0, 1]."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[TEST_SIZE:], order[:TEST_SIZE]
    return (images[train], labels[train]), (images[test], labels[test])


def initial_parameters(key):
    """He-initialised weights of two convolutions and two dense layers."""
    shapes = {
        "conv1": (3, 3, 1, 16),
        "conv2": (3, 3, 16, 32),
        "dense1": (4 * 4 * 32, 64),
        "dense2": (64, 10),
    }
    keys = random.split(key, len(shapes))
    parameters = {}
    for name, k in zip(shapes, keys, strict=True):
        shape = shapes[name]
        scale = np.sqrt(2.0 / np.prod(shape[:-1]))
        parameters[name] = {
            "weight": scale * random.normal(k, shape),
            "bias": jnp.zeros(shape[-1]),
        }
    return parameters


def convolve(x, layer):
    numbers = ("NHWC", "HWIO", "NHWC")
    out = lax.conv_general_dilated(x, layer["weight"], (1, 1), "SAME", dimension_numbers=numbers)
    return nn.relu(out + layer["bias"])


def logits(parameters, images):
    """Class scores of images (n, 8, 8, 1)."""
    x = convolve(images, parameters["conv1"])
    x = convolve(x, parameters["conv2"])
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(x.shape[0], -1)
    x = nn.relu(x @ parameters["dense1"]["weight"] + parameters["dense1"]["bias"])
    return x @ parameters["dense2"]["weight"] + parameters["dense2"]["bias"]


def loss(parameters, images, labels):
    """Mean cross-entropy, with a little weight decay."""
    log_probabilities = nn.log_softmax(logits(parameters, images))
    picked = jnp.take_along_axis(log_probabilities, labels[:, None], axis=1)
    decay = sum(jnp.sum(layer["weight"] ** 2) for layer in parameters.values())
    return -picked.mean() + 1e-4 * decay


def shifted(key, images):
    """Every image moved by -1, 0 or 1 pixel in each direction: more data for free."""

    def shift(image, offset):
        padded = jnp.pad(image, ((1, 1), (1, 1), (0, 0)))
        return lax.dynamic_slice(padded, (offset[0], offset[1], 0), image.shape)

    return tetrax.vmap(shift)(images, random.randint(key, (len(images), 2), 0, 3))


def adam(state, gradient, step, rate):
    """One step of Adam (Kingma & Ba, 2015). `state` is (parameters, first, second moment)."""
    parameters, first, second = state
    first = tetrax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = tetrax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
    c1, c2 = 1 - 0.9**step, 1 - 0.999**step
    parameters = tetrax.tree.map(
        lambda p, m, v: p - rate * (m / c1) / (jnp.sqrt(v / c2) + 1e-8), parameters, first, second
    )
    return parameters, first, second


@tetrax.jit
def train_epoch(state, key, images, labels, first_step, rate):
    """One pass over the data in random order, as one scan; gives the mean loss."""
    order_key, shift_key = random.split(key)
    steps = len(images) // BATCH
    order = random.permutation(order_key, len(images))[: steps * BATCH].reshape(steps, BATCH)
    keys = random.split(shift_key, steps)

    def step(carry, batch):
        state, count = carry
        indices, key = batch
        x = shifted(key, images[indices])
        value, gradient = tetrax.value_and_grad(loss)(state[0], x, labels[indices])
        return (adam(state, gradient, count, rate), count + 1.0), value

    (state, count), losses = lax.scan(step, (state, first_step), (order, keys))
    return state, count, losses.mean()


@tetrax.jit
def accuracy(parameters, images, labels):
    return (logits(parameters, images).argmax(-1) == labels).mean()


@tetrax.jit
def gradient_norms(parameters, images, labels):
    """The norm of the loss's gradient for each example alone."""

    def norm(image, label):
        gradient = tetrax.grad(loss)(parameters, image[None], label[None])
        return jnp.sqrt(sum(jnp.sum(g**2) for g in tetrax.tree.leaves(gradient)))

    return tetrax.vmap(norm)(images, labels)


def train(train_set, test_set):
    """Trained parameters and the history of (loss, train accuracy, test accuracy)."""
    images, labels = map(jnp.asarray, train_set)
    parameters = initial_parameters(random.key(0))
    zeros = tetrax.tree.map(jnp.zeros_like, parameters)
    state, count, history = (parameters, zeros, zeros), jnp.float32(1.0), []
    columns = (
        TextColumn("epoch {task.completed:>2.0f}/{task.total:.0f}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.3f}  test accuracy {task.fields[test]:.1%}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as progress:
        task = progress.add_task("train", total=EPOCHS, loss=float("nan"), test=0.0)
        for epoch in range(EPOCHS):
            rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
            key = random.fold_in(random.key(1), epoch)
            state, count, value = train_epoch(state, key, images, labels, count, rate)
            scores = [float(accuracy(state[0], *s)) for s in (train_set, test_set)]
            history.append((float(value), *scores))
            progress.update(task, advance=1, loss=history[-1][0], test=scores[1])
    return state[0], history


def draw(path, history, parameters, test_set):
    """Loss and accuracy over the epochs, gradient norms, and the digits that came out wrong."""
    images, labels = test_set
    guesses = np.asarray(logits(parameters, jnp.asarray(images)).argmax(-1))
    norms = np.asarray(gradient_norms(parameters, images, labels))
    wrong = np.flatnonzero(guesses != labels)
    figure = plt.figure(figsize=(11, 6), layout="constrained")
    grid = figure.add_gridspec(2, 6)
    losses, train_scores, test_scores = np.array(history).T
    left = figure.add_subplot(grid[0, :2])
    left.semilogy(losses)
    left.set(title="training loss", xlabel="epoch")
    middle = figure.add_subplot(grid[0, 2:4])
    middle.plot(train_scores, label="train")
    middle.plot(test_scores, label="test")
    middle.set(title=f"accuracy (test {test_scores[-1]:.1%})", xlabel="epoch", ylim=(0.9, 1.005))
    middle.legend()
    right = figure.add_subplot(grid[0, 4:])
    right.hist(np.log10(norms + 1e-12), bins=30)
    right.set(title="gradient norm per test example", xlabel="log10")
    for i in range(6):
        axes = figure.add_subplot(grid[1, i])
        axes.axis("off")
        if i < len(wrong):
            n = wrong[i]
            axes.imshow(images[n, ..., 0], cmap="gray_r")
            axes.set_title(f"{labels[n]} taken for {guesses[n]}", fontsize=9)
    figure.suptitle(f"{len(wrong)} of {len(labels)} test digits wrong")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def compare_backends(parameters, images):
    """Times the forward pass compiled and, operation by operation, in NumPy."""
    compiled = tetrax.jit(logits)
    images = jnp.asarray(images)
    for name, function in (("compiled", compiled), ("numpy", logits)):
        function(parameters, images)
        start = time.perf_counter()
        for _ in range(10):
            function(parameters, images).block_until_ready()
        print(f"forward pass, {name:>8}: {(time.perf_counter() - start) * 100:.2f} ms")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--backend", choices=["tetrax", "numpy"], default="tetrax")
    arguments.add_argument("--output", type=Path, default=Path("digits.png"))
    options = arguments.parse_args()
    train_set, test_set = load()
    start = time.perf_counter()
    parameters, history = train(train_set, test_set)
    print(f"trained {EPOCHS} epochs in {time.perf_counter() - start:.1f} s")
    print(f"test accuracy {history[-1][2]:.2%} on {len(test_set[1])} digits it never saw")
    draw(options.output, history, parameters, test_set)
    print(f"wrote {options.output}")
    if options.backend == "numpy":
        compare_backends(parameters, test_set[0])
    if history[-1][2] < 0.975:
        raise SystemExit("the network learned less than it should: something is wrong")


if __name__ == "__main__":
    main()
