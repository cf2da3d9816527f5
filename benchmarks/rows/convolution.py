"""Convolutions and pooling, forward and both gradients, channels last as in `tetrax` and JAX.

PyTorch's images are in its channels-last format, which is its faster one here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from benchmarks.row import Case, Function, Row
from benchmarks.rows.common import Array, normal, normals, size_in_bytes


@dataclass(frozen=True)
class Shape:
    """A convolution: `stride` divides the image, or multiplies it where `transposed`."""

    batch: int
    size: int
    channels: int
    features: int
    kernel: int = 3
    stride: int = 1
    groups: int = 1
    rank: int = 2
    transposed: bool = False

    @property
    def out_size(self) -> int:
        """Pixels along a side of the result."""
        if self.transposed:
            return self.size * self.stride
        return (self.size + 2 * (self.kernel // 2) - self.kernel) // self.stride + 1

    @property
    def flops(self) -> float:
        """Arithmetic of one pass."""
        pixels = self.batch * (self.size if self.transposed else self.out_size) ** self.rank
        taps = self.kernel**self.rank * self.channels // self.groups
        return 2.0 * pixels * taps * self.features

    def arrays(self) -> tuple[Array, ...]:
        """Image, weights and a cotangent of the result."""
        image = (self.batch, *[self.size] * self.rank, self.channels)
        weights = (*[self.kernel] * self.rank, self.channels // self.groups, self.features)
        result = (self.batch, *[self.out_size] * self.rank, self.features)
        return normals(image, weights, result)


def _convolution(lib: Any, shape: Shape) -> Function:
    layout = ("NWC", "WIO", "NWC") if shape.rank == 1 else ("NHWC", "HWIO", "NHWC")
    strides = (shape.stride,) * shape.rank
    if shape.transposed:
        return lambda x, w: lib.lax.conv_transpose(x, w, strides, "SAME", dimension_numbers=layout)
    margin = [(shape.kernel // 2,) * 2] * shape.rank
    return lambda x, w: lib.lax.conv_general_dilated(
        x, w, strides, margin, dimension_numbers=layout, feature_group_count=shape.groups
    )


def _program(lib: Any, shape: Shape, mode: str) -> Function:
    convolve = _convolution(lib, shape)
    return {
        "forward": lambda x, w, ct: convolve(x, w),
        "input_gradient": lambda x, w, ct: lib.vjp(lambda x: convolve(x, w), x)[1](ct)[0],
        "weight_gradient": lambda x, w, ct: lib.vjp(lambda w: convolve(x, w), w)[1](ct)[0],
    }[mode]


def _to_torch(x: Any) -> Any:
    """Channels last to PyTorch's order of axes; for images without moving anything."""
    return x.permute(0, 2, 1).contiguous() if x.ndim == 3 else x.permute(0, 3, 1, 2)


def _from_torch(x: Any) -> Any:
    return x.permute(0, 2, 1) if x.ndim == 3 else x.permute(0, 2, 3, 1)


def _torch_weights(torch: Any, w: Any, shape: Shape) -> Any:
    if shape.transposed:
        w = w.flip(tuple(range(shape.rank)))  # PyTorch turns the kernel round, JAX does not
        return w.permute(2, 3, 0, 1).contiguous()
    if shape.rank == 1:
        return w.permute(2, 1, 0).contiguous()
    return w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)


def _weights_from_torch(torch: Any, w: Any, shape: Shape) -> Any:
    if shape.transposed:
        return w.permute(2, 3, 0, 1).flip((0, 1))
    return w.permute(2, 1, 0) if shape.rank == 1 else w.permute(2, 3, 1, 0)


def _torch_program(torch: Any, shape: Shape, mode: str) -> Function:
    nn = torch.nn.functional
    strides, ones, zeros = ((k,) * shape.rank for k in (shape.stride, 1, 0))
    margin = (1 if shape.transposed else shape.kernel // 2,) * shape.rank

    def forward(x: Any, w: Any, _: Any) -> Any:
        if shape.transposed:
            return _from_torch(nn.conv_transpose2d(x, w, stride=strides, padding=margin))
        convolve = nn.conv1d if shape.rank == 1 else nn.conv2d
        return _from_torch(convolve(x, w, stride=strides, padding=margin, groups=shape.groups))

    def gradient(x: Any, w: Any, ct: Any, wanted: tuple[bool, bool, bool]) -> Any:
        # what autograd calls, without the forward pass
        return torch.ops.aten.convolution_backward(
            *(ct, x, w, None, strides, margin, ones, shape.transposed, zeros, shape.groups, wanted)
        )

    def weight_gradient(x: Any, w: Any, ct: Any) -> Any:
        return _weights_from_torch(torch, gradient(x, w, ct, (False, True, False))[1], shape)

    return {
        "forward": forward,
        "input_gradient": lambda x, w, ct: _from_torch(gradient(x, w, ct, (True, False, False))[0]),
        "weight_gradient": weight_gradient,
    }[mode]


def convolution(shape: Shape, mode: str) -> Case:
    """One pass of a convolution."""
    x, w, ct = shape.arrays()
    moved = {"forward": (x, w), "input_gradient": (ct, w), "weight_gradient": (x, ct)}[mode]
    made = {"forward": ct, "input_gradient": x, "weight_gradient": w}[mode]
    return Case(
        program=lambda lib: _program(lib, shape, mode),
        inputs=(x, w, ct),
        torch=lambda torch: _torch_program(torch, shape, mode),
        torch_inputs=lambda torch, x, w, ct: (
            *(_to_torch(x), _torch_weights(torch, w, shape), _to_torch(ct)),
        ),
        flops=shape.flops,
        bytes=size_in_bytes(*moved, made),
        tolerance=1e-3,
    )


# --------------------------------------------------------------------------- pooling


def _pool(lib: Any, kind: str) -> Function:
    window = (1, 2, 2, 1)
    reduce = lib.lax.reduce_window
    if kind == "max":
        return lambda x: reduce(x, -np.inf, lib.lax.max, window, window, "VALID")
    return lambda x: reduce(x, 0.0, lib.lax.add, window, window, "VALID") / 4


def pooling(batch: int, size: int, channels: int, kind: str, gradient: bool) -> Case:
    """Pooling over 2×2 windows; with `gradient`, forward and backward."""
    x, ct = normal(batch, size, size, channels), normal(batch, size // 2, size // 2, channels)

    def program(lib: Any) -> Function:
        pool = _pool(lib, kind)

        def both(x: Any, ct: Any) -> Any:
            result, pullback = lib.vjp(pool, x)
            return result, pullback(ct)

        return both if gradient else lambda x, ct: pool(x)

    def torch_program(torch: Any) -> Function:
        nn = torch.nn.functional
        pool = nn.max_pool2d if kind == "max" else nn.avg_pool2d

        def both(x: Any, ct: Any) -> Any:
            x = x.detach().requires_grad_()
            result = pool(x, 2)
            return _from_torch(result), _from_torch(torch.autograd.grad(result, x, ct)[0])

        return both if gradient else lambda x, ct: _from_torch(pool(x, 2))

    def in_numpy(x: Any, ct: Any) -> Any:
        windows = x.reshape(batch, size // 2, 2, size // 2, 2, channels)
        return windows.max((2, 4)) if kind == "max" else windows.mean((2, 4))

    return Case(
        program=program,
        inputs=(x, ct),
        numpy=None if gradient else in_numpy,
        torch=torch_program,
        torch_inputs=lambda torch, x, ct: (_to_torch(x), _to_torch(ct)),
        bytes=size_in_bytes(x, ct) * (2 if gradient else 1),
    )


_FAMILY = "convolution"
_TINY = Shape(2, 6, 4, 4)
_MODES = ("forward", "input_gradient", "weight_gradient")
_SHAPES = {
    "conv3x3_28x28x32": (Shape(32, 28, 32, 64), _TINY),
    "conv3x3_56x56x64": (Shape(8, 56, 64, 64), replace(_TINY, size=7)),
    "conv3x3_14x14x128": (Shape(32, 14, 128, 128), replace(_TINY, features=5)),
    "conv1x1": (Shape(32, 28, 128, 128, kernel=1), replace(_TINY, kernel=1)),
    "conv_stride2": (Shape(32, 56, 32, 64, stride=2), replace(_TINY, stride=2)),
    "conv_depthwise": (Shape(32, 28, 128, 128, groups=128), replace(_TINY, groups=4)),
    "conv_grouped": (Shape(32, 28, 64, 64, groups=4), replace(_TINY, groups=2)),
    "conv1d": (Shape(32, 1024, 64, 64, kernel=5, rank=1), replace(_TINY, kernel=5, rank=1)),
    "conv_transposed": (
        Shape(32, 14, 64, 32, kernel=4, stride=2, transposed=True),
        replace(_TINY, kernel=4, stride=2, transposed=True),
    ),
}
_IMAGE = {"batch": 32, "size": 56, "channels": 64}
_SMALL_IMAGE = {"batch": 2, "size": 6, "channels": 3}

ROWS = (
    *(
        Row(
            f"{name}_{mode}",
            _FAMILY,
            convolution,
            {"shape": full, "mode": mode},
            {"shape": tiny, "mode": mode},
        )
        for name, (full, tiny) in _SHAPES.items()
        for mode in _MODES
    ),
    *(
        Row(
            f"{kind}_pool{'_gradient' * gradient}",
            _FAMILY,
            pooling,
            {**_IMAGE, "kind": kind, "gradient": gradient},
            {**_SMALL_IMAGE, "kind": kind, "gradient": gradient},
        )
        for kind in ("max", "average")
        for gradient in (False, True)
    ),
)
