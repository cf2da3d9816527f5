"""How long a step would take on many devices, predicted from the partitioned program.

The model is small on purpose: what a device computes, at the speed of its products; what it sends,
by latency and bandwidth of the links along each axis of the mesh. The program of one device says
both, so nothing runs and no device need exist: lower the step with `ShapeDtypeStruct`s whose
shardings name an `AbstractMesh`.

    lowered = jit(step).lower(*described_arguments)
    print(predict(lowered, Machine(peak=275e12), {"data": Link(1e-6, 45e9)}))

Formulas: a ring of n devices passes 2 (n-1)/n of the bytes in an all-reduce, (n-1)/n in an
all-gather, reduce-scatter or all-to-all, with one latency for every step (Thakur, Rabenseifner and
Gropp, 2005).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tetrax.compiler.costs import program_costs
from tetrax.compiler.partition.report import Move, Report
from tetrax.higher_order.stages import Lowered


@dataclass(frozen=True)
class Machine:
    """One device: products at `peak` operations a second times `efficiency`, memory at
    `memory_bandwidth` bytes a second.
    """

    peak: float
    efficiency: float = 1.0
    memory_bandwidth: float = float("inf")


@dataclass(frozen=True)
class Link:
    """What connects neighbours along an axis: seconds for a message, bytes a second each way."""

    latency: float
    bandwidth: float


@dataclass(frozen=True)
class Prediction:
    """Seconds of a step, and what they are made of."""

    devices: int
    # Operations of one device's products.
    flops: float
    compute: float
    memory: float
    # By the axes of the mesh that a collective goes along.
    communication: Mapping[tuple[Any, ...], float]
    peak: float

    @property
    def busy(self) -> float:
        """Seconds of work: products wait for their operands, if memory is slower."""
        return max(self.compute, self.memory)

    @property
    def step(self) -> float:
        """Seconds of a step whose collectives all wait for the work, and the work for them."""
        return self.busy + sum(self.communication.values())

    @property
    def step_overlapped(self) -> float:
        """Seconds of a step whose collectives go on beside the work as far as there is work."""
        return max(self.busy, sum(self.communication.values()))

    @property
    def utilisation(self) -> float:
        """The share of the peak that products take of `step`."""
        return self.flops / self.peak / self.step

    @property
    def utilisation_overlapped(self) -> float:
        return self.flops / self.peak / self.step_overlapped

    def __str__(self) -> str:
        lines = [
            f"{self.devices} devices: {self.step:.4g} s a step, {100 * self.utilisation:.1f} % of "
            f"the peak (all overlapped: {self.step_overlapped:.4g} s, "
            f"{100 * self.utilisation_overlapped:.1f} %)",
            f"  products  {self.compute:.4g} s for {self.flops:.4g} operations a device",
        ]
        if self.memory:
            lines.append(f"  memory    {self.memory:.4g} s")
        for names, seconds in self.communication.items():
            lines.append(f"  {' x '.join(map(str, names))}  {seconds:.4g} s of collectives")
        return "\n".join(lines)


def predict(lowered: Lowered, machine: Machine, links: Mapping[Any, Link]) -> Prediction:
    """What a step takes on the devices of the mesh that `lowered` is partitioned for.

    `links` gives a link for each axis of the mesh. Raises ValueError for an axis without one, and
    for a program of one device.
    """
    partitioned = lowered.partitioned
    if partitioned is None:
        raise ValueError(
            "predict takes a program of several devices: lower it with arguments that are cut over "
            "a mesh (arrays, or ShapeDtypeStructs with a sharding)"
        )
    costs = program_costs(partitioned.program)
    report: Report = partitioned.report
    communication: dict[tuple[Any, ...], float] = {}
    sizes = dict(zip(partitioned.axes.names, partitioned.axes.sizes, strict=True))
    for move in report.moves:
        seconds = collective_seconds(move, links, sizes)
        communication[move.names] = communication.get(move.names, 0.0) + seconds
    return Prediction(
        report.devices,
        costs.product_flops,
        costs.product_flops / (machine.peak * machine.efficiency),
        costs.product_bytes / machine.memory_bandwidth,
        communication,
        machine.peak,
    )


def collective_seconds(move: Move, links: Mapping[Any, Link], sizes: Mapping[Any, int]) -> float:
    """Seconds of a collective, over all times that it runs; `sizes` are those of the mesh's axes.

    Along several axes it goes in stages, the fastest first, each of which leaves a part of the
    bytes to the next.

    >>> from tetrax.ir.types import ShapedArray
    >>> four_mb = Move("all_reduce", ("i",), 4, 4_000_000, ShapedArray((1_000_000,), "float32"), "")
    >>> collective_seconds(four_mb, {"i": Link(latency=1e-6, bandwidth=1e9)}, {"i": 4})
    0.006006
    """
    missing = [name for name in move.names if name not in links]
    if missing:
        raise ValueError(f"no link is given for the axes {missing} of the mesh: {dict(links)}")
    passes = 2 if move.kind == "all_reduce" else 1
    seconds, left = 0.0, float(move.nbytes)
    for name in sorted(move.names, key=lambda name: -links[name].bandwidth):
        link, size = links[name], sizes[name]
        if move.kind == "permute":
            seconds = max(seconds, link.latency + left / link.bandwidth)
            continue
        share = left * (size - 1) / size
        seconds += passes * ((size - 1) * link.latency + share / link.bandwidth)
        left /= size
    return seconds * move.times
