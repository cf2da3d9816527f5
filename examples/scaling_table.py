"""How a 540-billion-parameter transformer would train on thousands of chips: a prediction.

    python examples/scaling_table.py                        # prints the table
    python examples/scaling_table.py --write docs/scaling.md

The training step is lowered for meshes of devices that nobody here has: arguments are described
(shape, type, where they lie), the compiler partitions the program for one chip, and a small model
of links counts seconds (`tetrax.experimental.scaling`). All figures that go in are published:

- the model and how it was spread: Chowdhery et al., PaLM: Scaling Language Modeling with Pathways
  (2022). 118 layers of width 18,432 with 48 heads of 256, one head of keys and values, a gated
  hidden layer of 73,728, layers in parallel, 256k words; 2,048 sequences of 2,048 words a step; two
  pods of 3,072 chips, in each 12 ways to cut layers and 256 to cut parameters and batch,
  activations recomputed. Reported: 57.8 % of the peak, the recomputation counted, on 6,144 chips;
  and 81 terabits a second between the pods.
- the chip: Jouppi et al., TPU v4 (2023). 275 teraflops of bfloat16, 1,200 GB/s of memory, and
  50 GB/s each way on each of 6 links of a three-dimensional torus; a ring uses two of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import tetrax
import tetrax.numpy as jnp
from tetrax import NamedSharding, P, lax, nn
from tetrax.experimental.scaling import Link, Machine, predict
from tetrax.sharding import AbstractMesh

LAYERS, WIDTH, HEADS, HEAD, HIDDEN = 118, 18_432, 48, 256, 73_728
WORDS = 256_008  # a multiple of 12 and of 8
LENGTH = 2048
PER_REPLICA = 4  # sequences
REPORTED = 0.578

CHIP = Machine(peak=275e12, memory_bandwidth=1200e9)
RING = Link(latency=1e-6, bandwidth=2 * 50e9)
BETWEEN_PODS = Link(latency=1e-5, bandwidth=81e12 / 8 / 6144)
LINKS = {"pod": BETWEEN_PODS, "data": RING, "model": RING}

# (pods, parts of the batch and of the parameters, parts of a layer)
MESHES = (
    (1, 64, 8),
    (1, 128, 8),
    (1, 256, 8),
    (1, 256, 12),
    (2, 256, 8),
    (2, 256, 12),
    (2, 512, 8),
)


def lowered_step(pods, data, model):
    """The training step for such a mesh; nothing is compiled, and no device need exist."""
    mesh = AbstractMesh((pods, data, model), ("pod", "data", "model"))
    place = lambda *spec: NamedSharding(mesh, P(*spec))

    def described(shape, *spec, dtype=jnp.bfloat16):
        return tetrax.ShapeDtypeStruct(shape, dtype, sharding=place(*spec))

    layers = {
        "queries": described((LAYERS, WIDTH, HEADS, HEAD), None, "data", "model"),
        "keys": described((LAYERS, WIDTH, 2, HEAD), None, "data"),
        "out": described((LAYERS, HEADS, HEAD, WIDTH), None, "model", None, "data"),
        "up": described((LAYERS, WIDTH, 2, HIDDEN), None, "data", None, "model"),
        "down": described((LAYERS, HIDDEN, WIDTH), None, "model", "data"),
    }
    words = described((WORDS, WIDTH), "model", "data")
    replicas = ("pod", "data")
    text = described((pods * data * PER_REPLICA, LENGTH), replicas, dtype=jnp.int32)

    def layer(x, w):
        normal = x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)
        q = jnp.einsum("btw,whd->bthd", normal, w["queries"])
        kv = jnp.einsum("btw,wcd->btcd", normal, w["keys"])
        scores = nn.softmax(jnp.einsum("bqhd,bkd->bhqk", q, kv[:, :, 0]))
        mixed = jnp.einsum("bhqk,bkd->bqhd", scores, kv[:, :, 1])
        up = jnp.einsum("btw,wcf->btcf", normal, w["up"])
        hidden = nn.silu(up[:, :, 0]) * up[:, :, 1]
        attended = jnp.einsum("bthd,hdw->btw", mixed, w["out"])
        return x + attended + jnp.einsum("btf,fw->btw", hidden, w["down"])

    def loss(parameters, text):
        layers, words = parameters
        x = lax.with_sharding_constraint(words[text], place(replicas))
        x, _ = lax.scan(lambda x, w: (tetrax.checkpoint(layer)(x, w), None), x, layers)
        scores = jnp.einsum("btw,vw->btv", x, words)
        return nn.logsumexp(scores, -1).mean()

    def step(parameters, text):
        value, gradient = tetrax.value_and_grad(loss)(parameters, text)
        return tetrax.tree.map(lambda p, g: p - 0.01 * g, parameters, gradient), value

    return tetrax.jit(step).lower((layers, words), text)


def table():
    """The predictions as a Markdown table."""
    lines = [
        "| chips | pods × data × model | step, s | share of the peak | overlapped | exchanged, s |",
        "| ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for mesh in MESHES:
        found = predict(lowered_step(*mesh), CHIP, LINKS)
        exchanged = sum(found.communication.values())
        lines.append(
            f"| {found.devices:,} | {' × '.join(map(str, mesh))} | {found.step:.1f} | "
            f"{100 * found.utilisation:.1f} % | {100 * found.utilisation_overlapped:.1f} % | "
            f"{exchanged:.1f} |"
        )
    return "\n".join(lines)


PAGE = """# Predictions of large runs

How long a training step of a 540-billion-parameter transformer (PaLM) would take on TPU v4
chips, from its partitioned program and a model of links; made by `python
examples/scaling_table.py --write docs/scaling.md`, which says where each figure comes from.
Every replica has {replica} sequences, so the work of a chip is the same in rows of equal
*model*.

{table}

On 6,144 chips (2 × 256 × 12) the run itself reported **{reported:.1f} %** of the peak, the
recomputation counted.

Where the model is crude: products run at the peak, nothing else takes time but memory and
links, and chips never wait for a slow one, so it is too good; collectives wait for the work and
the work for them (but for the column that says otherwise), so it is too bad. It has one
bandwidth per axis of the mesh, whatever the torus, and no contention; the program is a plain
transformer that stores parameters and gradients as bfloat16, whose optimiser is gradient
descent. That a model fits in memory is not checked. What the prediction is for is the order of
things: which layout is worth trying, and which collective to look at.
"""


def page():
    return PAGE.format(table=table(), replica=PER_REPLICA, reported=100 * REPORTED)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="write the page here")
    options = parser.parse_args()
    if options.write:
        options.write.write_text(page())
    else:
        print(table())


if __name__ == "__main__":
    main()
