"""Convolutions with a dilated operand as several without one.

Between the elements of a dilated operand there is nothing to multiply. Places of the result whose
windows meet elements at the same places of the window form a phase: a convolution of the operand as
it is, with a part of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd


@dataclass(frozen=True)
class AxisPhase:
    """One phase along one axis.

    Result places `first + step i` for i below `count` meet window places `window_first +
    window_step j` for j below `window_count`, over the operand's element `begin + move i + gap j`.
    """

    first: int
    step: int
    count: int
    window_first: int
    window_step: int
    window_count: int
    begin: int
    move: int
    gap: int

    @property
    def last(self) -> int:
        """The furthest element of the operand that a window meets."""
        return self.begin + self.move * (self.count - 1) + self.gap * (self.window_count - 1)


Phase = tuple[AxisPhase, ...]


def axis_phases(
    extent: int, window: int, stride: int, low: int, lhs_dilation: int, rhs_dilation: int
) -> list[AxisPhase]:
    """The phases of an axis of which the result has `extent` places; some may have no window."""
    step = lhs_dilation // gcd(stride, lhs_dilation)
    window_step = lhs_dilation // gcd(rhs_dilation, lhs_dilation)
    phases = []
    for first in range(min(step, extent)):
        count = -(-(extent - first) // step)
        start = first * stride - low
        meets = [
            w
            for w in range(min(window_step, window))
            if (start + w * rhs_dilation) % lhs_dilation == 0
        ]
        at = meets[0] if meets else 0
        phases.append(
            AxisPhase(
                first,
                step,
                count,
                at,
                window_step,
                -(-(window - at) // window_step) if meets else 0,
                (start + at * rhs_dilation) // lhs_dilation,
                step * stride // lhs_dilation,
                window_step * rhs_dilation // lhs_dilation,
            )
        )
    return phases


def phases_of(axes: Sequence[Sequence[AxisPhase]]) -> tuple[list[Phase], list[Phase]]:
    """All phases of several axes: those with a window, and those where the result is zero."""
    everything = list(product(*axes))
    some = [phase for phase in everything if all(axis.window_count for axis in phase)]
    return some, [phase for phase in everything if phase not in some]


__all__ = ["AxisPhase", "Phase", "axis_phases", "phases_of"]
