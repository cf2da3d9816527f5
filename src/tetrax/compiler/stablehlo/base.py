"""What all families of StableHLO rules share: the builder, and rules written as programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax.ir.program import ClosedProgram
from tetrax.ir.stablehlo import Builder, Handle
from tetrax.ir.types import ShapedArray
from tetrax.tracing.staging import stage_flat


class Writer(Builder):
    """A builder that also writes whole programs."""

    def program(self, closed: ClosedProgram, operands: Sequence[Handle]) -> list[Handle]:
        """Write the equations of `closed` on `operands`."""
        raise NotImplementedError

    def compose(self, function: Callable[..., Any], *operands: Handle) -> list[Handle]:
        """Write what `function` does in terms of other operations.

        Keys are given to it as the integers that hold them.
        """
        operands = tuple(self.bits(x) for x in operands)
        closed = stage_flat(function, [x.aval for x in operands])
        return self.program(closed, operands)

    def bits(self, x: Handle) -> Handle:
        """Keys as uint64; other values as they are."""
        if isinstance(x.dtype, dtypes.ExtendedDType):
            return x.typed(x.aval.update(dtype=np.dtype(np.uint64)))
        return x

    def scalar(self, value: Any, dtype: Any) -> Handle:
        return self.splat(value, ShapedArray((), dtype))

    def loop(
        self,
        state: list[Handle],
        condition: Callable[[list[Handle]], Sequence[Handle]],
        body: Callable[[list[Handle]], Sequence[Handle]],
    ) -> list[Handle]:
        """A while loop over `state`: its last value."""
        avals = [x.aval for x in state]
        regions = [self.region(avals, condition), self.region(avals, body)]
        return listed(self.op("while", state, avals, regions))


def listed(results: Any) -> list[Handle]:
    """What `op` gives, always as a list."""
    return results if isinstance(results, list) else [results]
