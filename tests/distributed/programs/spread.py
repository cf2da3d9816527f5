"""One program on four devices, which lie in one, two or four processes: prints a digest of bits."""

from __future__ import annotations

import hashlib
import os

os.environ["TETRAX_NUM_CPU_DEVICES"] = str(4 // int(os.environ.get("PMI_SIZE", "1")))

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import distributed, lax
from tetrax.experimental.multihost_utils import process_allgather
from tetrax.sharding import Mesh, NamedSharding
from tetrax.sharding import PartitionSpec as P


def collectives(x):
    """What shard_map's functions do with the part of one device."""
    total = lax.psum(x, "d")
    largest = lax.pmax(x, "d")
    gathered = lax.all_gather(x, "d", tiled=True)
    shifted = lax.ppermute(x, "d", [(i, (i + 1) % 4) for i in range(4)])
    scattered = lax.psum_scatter(gathered * jnp.sin(gathered), "d", tiled=True)
    turned = lax.all_to_all(gathered.reshape(4, -1), "d", 0, 0)
    return total, largest, gathered, shifted, scattered, turned


def training(weights, x):
    """A gradient whose sum over the batch runs over all devices."""
    loss = lambda w: jnp.mean(jnp.tanh(x @ w) ** 2)
    return tetrax.value_and_grad(loss)(weights)


def main() -> None:
    distributed.initialize(num_processes=int(os.environ.get("PMI_SIZE", "1")))
    mesh = Mesh(np.array(tetrax.devices()), ("d",))
    rows = NamedSharding(mesh, P("d"))
    rng = np.random.default_rng(0)
    data = rng.normal(size=(64, 33)).astype(np.float32)
    x = tetrax.make_array_from_callback(data.shape, rows, lambda index: data[index])
    mapped = tetrax.shard_map(
        collectives, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False
    )
    weights = rng.normal(size=(33, 17)).astype(np.float32)
    results = [tetrax.jit(mapped)(x), tetrax.jit(training)(weights, x)]
    hashed = hashlib.sha256()
    for leaf in tetrax.tree.leaves(results):
        hashed.update(np.asarray(process_allgather(leaf, tiled=True)).tobytes())
    if tetrax.process_index() == 0:
        print("digest", hashed.hexdigest())


main()
