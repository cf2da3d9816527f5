"""The gradient of pooled extrema, written out place by place for windows of few elements.

Nothing is addressed by data: every place of a window gets the window's cotangent or zero. Windows
along the last axis run in lanes where they lie apart, as they do along features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import product
from typing import Any

from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_types import BOOL, F32, I32
from tetrax.ir.views import Stored, element_type, is_complex
from tetrax.ops import axes as ax
from tetrax.ops.join import clamp_index
from tetrax.ops.nests import combined, flat

MOST_PLACES = 16
"""Windows of more elements are left to loops."""


def suits_lanes(source: Stored, params: dict) -> bool:
    """Whether windows are small and without dilation."""
    dilated = (n > 1 for key in ("base_dilation", "window_dilation") for n in params.get(key, ()))
    small = ax.product(params["window_dimensions"]) <= MOST_PLACES
    return small and bool(source.shape) and not is_complex(source.dtype) and not any(dilated)


def emit_scatter(
    builder: Any, source: Stored, x: Stored, out: Stored, params: dict, selection: tuple
) -> None:
    """Store the sum of each element's cotangents from the windows of `x` that select it.

    `selection` is (whether a new element takes the place of the best, what to start from).
    """
    _Scatter(builder, source, x, out, params, selection).run()


class _Scatter:
    def __init__(
        self, builder: Any, source: Stored, x: Stored, out: Stored, params: dict, selection: tuple
    ) -> None:
        self.builder, self.source, self.x, self.out = builder, source, x, out
        self.window, self.strides = params["window_dimensions"], params["window_strides"]
        self.padding = params["padding"]
        self.takes: Callable = selection[0]
        self.start = selection[1]
        self.places = list(product(*(range(n) for n in self.window)))
        # axes along which windows have no element in common and none outside
        self.apart = [
            stride >= window and tuple(pads) == (0, 0)
            for window, stride, pads in zip(self.window, self.strides, self.padding, strict=True)
        ]
        self.complete = all(self.apart) and all(
            window == stride and count * stride == extent
            for window, stride, count, extent in zip(
                self.window, self.strides, source.shape, x.shape, strict=True
            )
        )
        self.zero = kernel.const(0, element_type(out.dtype))

    def run(self) -> None:
        by_images = self.apart[0] and self.window[0] == self.strides[0] == 1
        if not self.complete and not by_images:
            self.clear(kernel.index(0), ax.product(self.out.shape))
        with ExitStack() as loops:
            index: list[Any] = []
            kind = "parallel"
            for axis, extent in enumerate(self.source.shape):
                if not self.apart[axis]:
                    kind = "serial"
                elif axis == len(self.source.shape) - 1:
                    kind = "vector"
                index.append(loops.enter_context(self.builder.loop(extent, kind)))
                if axis == 0 and by_images and not self.complete:
                    size = ax.product(self.out.shape[1:])
                    self.clear(kernel.mul(index[0], size), size)
            self.window_at(index)

    def clear(self, start: Any, size: int) -> None:
        with self.builder.loop(size, "vector") as i:
            self.builder.store(self.out.buffer, kernel.add(start, i), self.zero)

    def window_at(self, index: Sequence[Any]) -> None:
        """Select the element of one window, then add to each of its places."""
        builder = self.builder
        reached = [self.reached(index, place) for place in self.places]
        kind = element_type(self.x.dtype)
        wide = F32 if kind.is_storage else kind
        found, best = kernel.const(False, BOOL), kernel.const(self.start, wide)
        chosen = kernel.const(-1, I32)
        for number, (offset, inside) in enumerate(reached):
            value = kernel.convert(builder.load(self.x.buffer, offset), wide)
            better = kernel.bit_or(kernel.logical_not(found), self.takes(best, value))
            better = kernel.bit_and(inside, better)
            found = kernel.bit_or(found, inside)
            best = kernel.select(better, value, best)
            chosen = kernel.select(better, kernel.const(number, I32), chosen)
        given = builder.load(
            self.source.buffer, flat(index, ax.row_major_strides(self.source.shape))
        )
        for number, (offset, _) in enumerate(reached):
            here = kernel.eq(chosen, kernel.const(number, I32))
            part = kernel.select(here, given, self.zero)
            before = self.zero if self.complete else builder.load(self.out.buffer, offset)
            builder.store(self.out.buffer, offset, combined(scalar.add, before, part))

    def reached(self, index: Sequence[Any], place: Sequence[int]) -> tuple[Any, Any]:
        """Where a place of a window lies, moved into the operand, and whether it was there."""
        inside, position = kernel.const(True, BOOL), []
        for i, w, extent, stride, (low, high) in zip(
            index, place, self.x.shape, self.strides, self.padding, strict=True
        ):
            at = kernel.add(kernel.mul(i, stride), kernel.index(w - low))
            if (low, high) != (0, 0):
                found = kernel.bit_and(kernel.ge(at, 0), kernel.lt(at, kernel.index(extent)))
                inside = kernel.bit_and(inside, found)
                at = clamp_index(at, extent)
            position.append(at)
        return flat(position, ax.row_major_strides(self.x.shape)), inside


__all__ = ["emit_scatter", "suits_lanes"]
