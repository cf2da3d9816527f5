"""One transformer, spread over devices in six ways: what each costs, and that all give one result.

    TETRAX_NUM_CPU_DEVICES=8 python examples/parallel_layouts.py

- data: the batch is cut, parameters are everywhere; gradients are summed.
- tensor: heads and hidden units are cut (Shoeybi et al., 2019); two sums a layer and direction.
- fully sharded: the batch is cut, and so are parameters, gathered where they are used
  (Rajbhandari et al., 2020).
- data and tensor: both, on a mesh of two axes.
- pipeline: layers are cut, micro-batches travel by `ppermute` inside a `scan` (Huang et al., 2019).
- sequence: positions are cut, keys and values travel around a ring (Liu et al., 2023).

The first four are the same function under `jit`: only where arrays lie differs. The last two say
what a device does, in `shard_map`.
"""

from __future__ import annotations

import functools
from collections import Counter

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import NamedSharding, P, lax, nn, random

LAYERS, WIDTH, HEADS, HIDDEN = 4, 32, 4, 64
BATCH, LENGTH = 8, 16


def initial_parameters(key):
    """Weights of all layers, stacked along the first axis."""
    shapes = {
        "qkv": (WIDTH, 3, HEADS, WIDTH // HEADS),
        "out": (HEADS, WIDTH // HEADS, WIDTH),
        "up": (WIDTH, HIDDEN),
        "down": (HIDDEN, WIDTH),
    }
    keys = random.split(key, len(shapes))
    return {
        name: 0.1 * random.normal(k, (LAYERS, *shape))
        for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def normalised(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v)


def layer(x, w, attend=attention):
    """One layer on (batch, position, width)."""
    q, k, v = jnp.moveaxis(jnp.einsum("btw,wchd->btchd", normalised(x), w["qkv"]), 2, 0)
    x = x + jnp.einsum("bthd,hdw->btw", attend(q, k, v), w["out"])
    return x + nn.gelu(normalised(x) @ w["up"]) @ w["down"]


def loss(parameters, x, y):
    """Mean squared error after all layers."""
    out, _ = lax.scan(lambda x, w: (layer(x, w), None), x, parameters)
    return ((out - y) ** 2).mean()


step = tetrax.jit(tetrax.value_and_grad(loss))


# -- by where arrays lie -----------------------------------------------------------------------

# For each way the mesh, the specification of the data, and those of the parameters.
LAYOUTS = {
    "data": ({"data": 4}, P("data"), {}),
    "tensor": (
        {"model": 4},
        P(),
        {
            "qkv": P(None, None, None, "model"),
            "out": P(None, "model"),
            "up": P(None, None, "model"),
            "down": P(None, "model"),
        },
    ),
    "fully sharded": (
        {"data": 4},
        P("data"),
        {
            "qkv": P(None, "data"),
            "out": P(None, None, None, "data"),
            "up": P(None, "data"),
            "down": P(None, None, "data"),
        },
    ),
    "data and tensor": (
        {"data": 2, "model": 4},
        P("data"),
        {
            "qkv": P(None, None, None, "model"),
            "out": P(None, "model"),
            "up": P(None, None, "model"),
            "down": P(None, "model"),
        },
    ),
}


def placed(name, parameters, x, y):
    """The arguments of `step` where a layout wants them."""
    axes, data, specs = LAYOUTS[name]
    mesh = mesh_of(axes)
    put = lambda array, spec: tetrax.device_put(array, NamedSharding(mesh, spec))
    return {k: put(w, specs.get(k, P())) for k, w in parameters.items()}, put(x, data), put(y, data)


def mesh_of(axes):
    count = int(np.prod(list(axes.values())))
    return tetrax.make_mesh(tuple(axes.values()), tuple(axes), devices=tetrax.devices()[:count])


# -- by what a device does ---------------------------------------------------------------------


def pipelined_step(mesh, micro_batches=4):
    """`value_and_grad(loss)` with a part of the layers on each device."""
    stages = mesh.shape["stage"]
    to_next = [(i, i + 1) for i in range(stages - 1)]

    @functools.partial(tetrax.shard_map, mesh=mesh, in_specs=(P("stage"), P(), P()), out_specs=P())
    def pipelined_loss(own, x, y):
        here = lax.axis_index("stage")
        waiting = x.reshape(micro_batches, -1, *x.shape[1:])
        through_own_layers = lambda x: lax.scan(lambda x, w: (layer(x, w), None), x, own)[0]

        def turn(arriving, time):
            fresh = waiting[jnp.minimum(time, micro_batches - 1)]
            out = through_own_layers(jnp.where(here == 0, fresh, arriving))
            return lax.ppermute(out, "stage", to_next), out

        start = lax.pcast(jnp.zeros_like(waiting[0]), "stage", to="varying")
        _, outs = lax.scan(turn, start, jnp.arange(micro_batches + stages - 1))
        # The last stage has the results of the micro-batches, after it has waited for the first.
        done = outs[stages - 1 :].reshape(x.shape)
        error = jnp.where(here == stages - 1, ((done - y) ** 2).mean(), 0.0)
        return lax.psum(error, "stage")

    return tetrax.jit(tetrax.value_and_grad(pipelined_loss))


def ring_attention(q, k, v):
    """Attention of the own positions to all, whose keys and values come around the ring."""
    devices = lax.axis_size("ring")
    around = [(i, (i + 1) % devices) for i in range(devices)]

    def turn(carry, _):
        (k, v), total, weight, largest = carry
        scores = jnp.einsum("bqhd,bkhd->bqhk", q, k) / np.sqrt(q.shape[-1])
        new_largest = jnp.maximum(largest, lax.stop_gradient(scores.max(-1)))
        kept, raised = jnp.exp(largest - new_largest), jnp.exp(scores - new_largest[..., None])
        total = total * kept[..., None] + jnp.einsum("bqhk,bkhd->bqhd", raised, v)
        weight = weight * kept + raised.sum(-1)
        return (lax.ppermute((k, v), "ring", around), total, weight, new_largest), None

    varying = lambda x: lax.pcast(x, "ring", to="varying")
    start = (
        (k, v),
        varying(jnp.zeros(q.shape)),
        varying(jnp.zeros(q.shape[:-1])),
        varying(jnp.full(q.shape[:-1], -jnp.inf)),
    )
    (_, total, weight, _), _ = lax.scan(turn, start, None, length=devices)
    return total / weight[..., None]


def sequence_step(mesh):
    """`value_and_grad(loss)` with a part of the positions on each device."""

    @functools.partial(
        tetrax.shard_map, mesh=mesh, in_specs=(P(), P(None, "ring"), P(None, "ring")), out_specs=P()
    )
    def sequence_loss(parameters, x, y):
        out, _ = lax.scan(lambda x, w: (layer(x, w, ring_attention), None), x, parameters)
        return lax.pmean(((out - y) ** 2).mean(), "ring")

    return tetrax.jit(tetrax.value_and_grad(sequence_loss))


# -- all of them -------------------------------------------------------------------------------


def arguments():
    keys = random.split(random.key(0), 3)
    x, y = (random.normal(key, (BATCH, LENGTH, WIDTH)) for key in keys[1:])
    return initial_parameters(keys[0]), x, y


def ways():
    """For each way its name, its step, and the arguments where it wants them."""
    given = arguments()
    for name in LAYOUTS:
        yield name, step, placed(name, *given)
    yield "pipeline", pipelined_step(mesh_of({"stage": 4})), given
    yield "sequence", sequence_step(mesh_of({"ring": 4})), given


def largest_error(found, expected):
    """The largest difference of two trees' leaves, relative to the largest element of each."""
    pairs = zip(tetrax.tree.leaves(found), tetrax.tree.leaves(expected), strict=True)
    return max(
        float(np.max(np.abs(np.asarray(a) - np.asarray(b))) / np.max(np.abs(np.asarray(b))))
        for a, b in pairs
    )


def main():
    expected = step(*arguments())
    print(f"one device: loss {float(expected[0]):.6f}")
    for name, function, given in ways():
        found = function(*given)
        report = function.lower(*given).sharding_report()
        kinds = Counter(move.kind for move in report.moves)
        print(
            f"{name:16} loss {float(found[0]):.6f}, error {largest_error(found, expected):.0e}; "
            f"{', '.join(f'{count} {kind}' for kind, count in kinds.items())}; "
            f"{report.sent / 1e3:.0f} kB sent by each device"
        )


if __name__ == "__main__":
    main()
