"""Train on several processes, go on after one has died, and end with the same bits.

    mpiexec -n 4 python examples/restart_after_failure.py               # trains, prints accuracy
    mpiexec -n 4 python examples/restart_after_failure.py --die-at 130  # process 1 kills itself ...
    mpiexec -n 4 python examples/restart_after_failure.py               # ... and this goes on

Each process has a part of every batch. Gradients are gathered and summed in the order of the
processes, so all have the same parameters, bit for bit, and so has a run that was interrupted: it
starts again from the last checkpoint. When a process dies, the others end with an error that names
it; a job script starts the program until it ends well: `until mpiexec -n 4 python ...; do :; done`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
from pathlib import Path

from sklearn.datasets import load_digits

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import distributed, nn, random
from tetrax.experimental import multihost_utils

BATCH = 240
HIDDEN = 64
TEST_SIZE = 360
LEARNING_RATE = 0.5
EVERY = 50  # steps from one checkpoint to the next


def load():
    """Train and test (images, labels); images are (n, 64) in [0, 1]."""
    digits = load_digits()
    images = (digits.images.reshape(-1, 64) / 16.0).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[TEST_SIZE:], order[:TEST_SIZE]
    return (images[train], digits.target[train]), (images[test], digits.target[test])


def initial_parameters():
    """A network with one hidden layer."""
    first, second = random.split(random.key(0))
    return {
        "w1": random.normal(first, (64, HIDDEN)) / 8.0,
        "b1": jnp.zeros(HIDDEN),
        "w2": random.normal(second, (HIDDEN, 10)) / 8.0,
        "b2": jnp.zeros(10),
    }


def logits(parameters, images):
    hidden = nn.relu(images @ parameters["w1"] + parameters["b1"])
    return hidden @ parameters["w2"] + parameters["b2"]


def loss(parameters, images, labels):
    """The sum over this process's images; it is divided by the whole batch."""
    scores = nn.log_softmax(logits(parameters, images))
    return -jnp.take_along_axis(scores, labels[:, None], axis=1).sum() / BATCH


@tetrax.jit
def updated(parameters, gradients):
    """The parameters after a step; `gradients` has a first axis, of processes."""
    return tetrax.tree.map(lambda p, g: p - LEARNING_RATE * g.sum(0), parameters, gradients)


def batch(step, data):
    """This process's part of the batch of a step, which depends on the step alone."""
    images, labels = data
    chosen = np.random.default_rng(step).permutation(len(images))[:BATCH]
    mine = np.array_split(chosen, tetrax.process_count())[tetrax.process_index()]
    return images[mine], labels[mine].astype(np.int32)


def restored(path, parameters):
    """(step, parameters) of the last checkpoint, which process 0 reads for all."""
    step = 0
    if tetrax.process_index() == 0 and path.exists():
        with np.load(path) as saved:
            step = int(saved["step"])
            parameters = {name: saved[name] for name in parameters}
    step, parameters = multihost_utils.broadcast_one_to_all((step, parameters))
    return int(step), tetrax.tree.map(jnp.asarray, parameters)


def save(path, step, parameters):
    """Write a checkpoint that is there as a whole or not at all."""
    if tetrax.process_index() == 0:
        unfinished = path.with_suffix(".unfinished.npz")
        np.savez(unfinished, step=step, **parameters)
        unfinished.replace(path)


def digest(parameters):
    """A number for all bits of the parameters."""
    hashed = hashlib.sha256()
    for leaf in tetrax.tree.leaves(parameters):
        hashed.update(np.asarray(leaf).tobytes())
    return hashed.hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.npz"))
    parser.add_argument("--die-at", type=int, default=-1, help="the step in which process 1 dies")
    options = parser.parse_args()

    distributed.initialize()
    train, test = load()
    step, parameters = restored(options.checkpoint, initial_parameters())
    if tetrax.process_index() == 0:
        print(f"starts at step {step} with {tetrax.process_count()} processes", flush=True)
    gradient = tetrax.jit(tetrax.grad(loss))
    for now in range(step, options.steps):
        if now == options.die_at and tetrax.process_index() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        gradients = multihost_utils.process_allgather(gradient(parameters, *batch(now, train)))
        parameters = updated(parameters, gradients)
        if (now + 1) % EVERY == 0:
            save(options.checkpoint, now + 1, parameters)
    multihost_utils.assert_equal(parameters, "The processes have come to different parameters")
    if tetrax.process_index() == 0:
        right = logits(parameters, test[0]).argmax(-1) == test[1]
        print(f"test accuracy {100 * right.mean():.1f} %, parameters {digest(parameters)}")


if __name__ == "__main__":
    main()
