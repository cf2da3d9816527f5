"""The digits network trained on 1, 2 and 4 devices and in 2 processes: one loss curve, one picture.

    python examples/data_parallel_digits.py                # all of it; writes data_parallel.png
    python examples/data_parallel_digits.py --devices 4    # one of them
    mpiexec -n 2 python examples/data_parallel_digits.py --processes

The training step is that of one device: `jit` of `value_and_grad` and an update. That the batch is
cut over a mesh of devices and the parameters are on all of them is said where the arrays are put;
the compiler finds out which sums over devices that takes, and says so (`sharding_report`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import matplotlib
from digits import BATCH, adam, initial_parameters, load, loss

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import NamedSharding, P, random

matplotlib.use("Agg")
import matplotlib.pyplot as plt

EPOCHS = 8
RATE = 2e-3
PRINTED = 1e-4  # the last digit of a loss that is printed
HERE = Path(__file__).resolve()


@tetrax.jit
def training_step(state, images, labels, count):
    value, gradient = tetrax.value_and_grad(loss)(state[0], images, labels)
    return adam(state, gradient, count, RATE), value


def train(epochs):
    """Losses by step on all devices there are, the sharding report, and seconds per step."""
    mesh = tetrax.make_mesh((tetrax.device_count(),), ("data",))
    cut, everywhere = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())

    def put(array, sharding):
        """Works in every process: each makes the parts that lie on its devices."""
        array = np.asarray(array)
        return tetrax.make_array_from_callback(array.shape, sharding, lambda part: array[part])

    images, labels = load()[0]
    parameters = initial_parameters(random.key(0))
    zeros = tetrax.tree.map(jnp.zeros_like, parameters)
    state = tetrax.tree.map(lambda x: put(x, everywhere), (parameters, zeros, zeros))
    order = np.random.default_rng(1)
    losses, count, seconds, report = [], 0, [], ""
    for _ in range(epochs):
        rows = order.permutation(len(images))
        for batch in rows[: len(rows) // BATCH * BATCH].reshape(-1, BATCH):
            count += 1
            operands = (state, put(images[batch], cut), put(labels[batch], cut), float(count))
            if not report:
                report = str(training_step.lower(*operands).sharding_report())
            start = time.perf_counter()
            state, value = training_step(*operands)
            losses.append(float(value))
            seconds.append(time.perf_counter() - start)
    return losses, report, float(np.median(seconds))


def run(label, devices, launcher=(), epochs=EPOCHS):
    """Train in processes of their own, with so many devices each; gives what they print."""
    environment = {**os.environ, "TETRAX_NUM_CPU_DEVICES": str(devices)}
    command = [*launcher, sys.executable, str(HERE), "--child", "--epochs", str(epochs)]
    if launcher:
        command.append("--processes")
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    if found.returncode:
        raise SystemExit(f"{label} failed:\n{found.stderr}")
    result = json.loads(found.stdout.splitlines()[-1])
    last = result["losses"][-1]
    print(f"{label:12}  last loss {last:.4f}   {1e3 * result['seconds']:.2f} ms a step", flush=True)
    return result


def everything(picture, epochs):
    """All set-ups, one after another; raises SystemExit where the curves differ."""
    setups = [(f"{n} device{'s' * (n > 1)}", n, ()) for n in (1, 2, 4)]
    mpiexec = shutil.which(
        "mpiexec",
        path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    )
    if mpiexec:
        setups.append(("2 processes", 1, (mpiexec, "-n", "2")))
    results = {label: run(label, devices, launcher, epochs) for label, devices, launcher in setups}
    print(results["4 devices"]["report"])
    first = np.array(results["1 device"]["losses"])
    for label, result in results.items():
        difference = np.abs(np.array(result["losses"]) - first).max()
        if difference >= PRINTED / 2:
            raise SystemExit(f"{label}: losses differ from those of one device by {difference}")
        print(f"{label:12}  {len(first)} losses, none differs by more than {difference:.1e}")
    draw(results, picture)


def draw(results, picture):
    figure, (curves, times) = plt.subplots(1, 2, figsize=(10, 4))
    widths = np.linspace(7, 1, len(results))
    for width, (label, result) in zip(widths, results.items(), strict=True):
        curves.plot(result["losses"], label=label, linewidth=width)
    curves.set(xlabel="step", ylabel="loss", yscale="log", title="One curve, however it is spread")
    curves.legend()
    times.bar(list(results), [1e3 * r["seconds"] for r in results.values()])
    times.set(ylabel="ms a step (median)", title=f"On {os.cpu_count()} cores")
    figure.tight_layout()
    figure.savefig(picture, dpi=120)
    print(f"wrote {picture}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, help="train on so many virtual devices only")
    parser.add_argument("--processes", action="store_true", help="one of several MPI processes")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--picture", type=Path, default=Path("data_parallel.png"))
    options = parser.parse_args()
    if options.processes:
        tetrax.distributed.initialize()
    if options.devices:
        run(f"{options.devices} devices", options.devices, epochs=options.epochs)
    elif options.child or options.processes:
        losses, report, seconds = train(options.epochs)
        if tetrax.process_index() == 0:
            print(json.dumps({"losses": losses, "report": report, "seconds": seconds}))
    else:
        everything(options.picture, options.epochs)


if __name__ == "__main__":
    main()
