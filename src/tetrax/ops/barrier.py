"""An operation that keeps the compiler from merging or moving work across it."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import tree
from tetrax.ir.layout import FactorsBuilder
from tetrax.ir.types import ShapedArray
from tetrax.ops.base import TestFacts, register
from tetrax.ops.structure import Linear
from tetrax.runtime.array import as_value
from tetrax.tracing.symbolic import Zero


class OptimizationBarrier(Linear):
    """Results are the operands; the compiler neither merges nor moves work across."""

    multiple_results = True
    is_pure = False

    def shape(self, *avals):
        return list(avals)

    def factors(self, avals, outs, params):
        build = FactorsBuilder()
        axes = [build.axes(aval.shape) for aval in avals]
        return build.build(axes, axes)

    def reference(self, *arrays):
        return list(arrays)

    def jvp(self, primals, tangents):
        outs = self.bind(*primals)
        pushed = [t if type(t) is Zero else self.bind(t)[0] for t in tangents]
        return outs, pushed

    def transpose(self, cts, *operands):
        return list(cts)

    def batch(self, operands, dims):
        return self.bind(*operands), list(dims)

    def kernel(self, operands, outs):
        return list(operands)

    def stablehlo(self, context, operands, outs):
        return context.op("optimization_barrier", operands, outs)


optimization_barrier_p = register(
    OptimizationBarrier("optimization_barrier"),
    TestFacts(ulp=0, samples=lambda: [([ShapedArray((3,), np.float32)] * 2, {})]),
)


def optimization_barrier(operand: Any) -> Any:
    """The tree `operand` itself; computations are not moved across."""
    leaves, structure = tree.flatten(operand)
    return tree.unflatten(structure, optimization_barrier_p.bind(*map(as_value, leaves)))
