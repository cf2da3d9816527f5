"""Sizes and padding of sliding windows, shared by pooling and convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tetrax.ops.join import dilated

Pads = Sequence[tuple[int, int]]


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
) -> list[tuple[int, int]]:
    """(low, high) padding per axis for 'SAME', 'SAME_LOWER' or 'VALID'.

    Raises RuntimeError for other names.

    >>> padtype_to_pads((5,), (2,), (1,), "SAME")
    [(0, 1)]
    """
    name = getattr(padding, "name", padding)
    name = name.upper() if isinstance(name, str) else name
    if name == "VALID":
        return [(0, 0)] * len(in_shape)
    if name not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(
            f"Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got {padding!r}"
        )
    pads = []
    for extent, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        count = -(-extent // stride)
        total = max((count - 1) * stride + window - extent, 0)
        small, large = total // 2, total - total // 2
        pads.append((small, large) if name == "SAME" else (large, small))
    return pads


def window_count(extent: int, window: int, stride: int) -> int:
    """How many windows of a size fit into an axis."""
    return max(0, (extent - window) // stride + 1) if extent >= window else 0


def windowed_shape(
    shape: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Pads,
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> tuple[int, ...]:
    """The number of windows along each axis."""
    rows = zip(shape, window, strides, padding, base_dilation, window_dilation, strict=True)
    return tuple(
        window_count(low + high + dilated(extent, base), dilated(size, inner), stride)
        for extent, size, stride, (low, high), base, inner in rows
    )


def lhs_gradient_pads(
    in_shape: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    out_shape: Sequence[int],
    padding: Pads,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
) -> list[tuple[int, int]]:
    """Padding of the result's cotangent that gives the operand's, by windows run backwards."""
    pads = []
    for extent, size, stride, count, (low, _), base, inner in zip(
        in_shape, window, strides, out_shape, padding, lhs_dilation, rhs_dilation, strict=True
    ):
        before = dilated(size, inner) - low - 1
        full = dilated(extent, base) + dilated(size, inner) - 1
        pads.append((before, full - dilated(count, stride) - before))
    return pads


def rhs_gradient_pads(
    in_shape: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    out_shape: Sequence[int],
    padding: Pads,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
) -> list[tuple[int, int]]:
    """Padding of the operand whose convolution with the result's cotangent gives the window's."""
    pads = []
    for extent, size, stride, count, (low, _), base, inner in zip(
        in_shape, window, strides, out_shape, padding, lhs_dilation, rhs_dilation, strict=True
    ):
        if extent == 0:
            pads.append((0, 0))
            continue
        from_lhs = dilated(count, stride) - dilated(extent, base)
        pads.append((low, from_lhs + dilated(size, inner) - low - 1))
    return pads


__all__ = [
    "lhs_gradient_pads",
    "padtype_to_pads",
    "rhs_gradient_pads",
    "window_count",
    "windowed_shape",
]
