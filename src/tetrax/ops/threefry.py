"""The block function threefry2x32, on arrays, on Python integers and in kernels."""

from __future__ import annotations

import math

import numpy as np
from tetrax.ir import kernel as k
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_types import U32

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
_MASK = 0xFFFFFFFF
# Up to this many blocks are computed in Python integers.
_FEW = 8


def threefry_numpy(
    k0: np.ndarray, k1: np.ndarray, x0: np.ndarray, x1: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The block function on uint32 arrays."""
    shape = np.broadcast_shapes(k0.shape, x0.shape)
    if math.prod(shape) <= _FEW:
        return _threefry_few(shape, k0, k1, x0, x1)
    keys = (k0, k1, k0 ^ k1 ^ np.uint32(PARITY))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
            x1 = x0 ^ x1
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def _threefry_few(shape: tuple[int, ...], *words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The block function on some words, one by one: a hundred calls of NumPy would take longer."""
    count = math.prod(shape)
    rows = [
        [word.item()] * count if word.size == 1 else np.broadcast_to(word, shape).ravel().tolist()
        for word in words
    ]
    blocks = [_threefry_block(*row) for row in zip(*rows, strict=True)]
    return (
        np.array([block[0] for block in blocks], np.uint32).reshape(shape),
        np.array([block[1] for block in blocks], np.uint32).reshape(shape),
    )


def _threefry_block(k0: int, k1: int, x0: int, x1: int) -> tuple[int, int]:
    keys = (k0, k1, k0 ^ k1 ^ PARITY)
    x0, x1 = (x0 + k0) & _MASK, (x1 + k1) & _MASK
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x0 = (x0 + x1) & _MASK
            x1 = ((x1 << rotation) & _MASK | x1 >> (32 - rotation)) ^ x0
        x0 = (x0 + keys[(group + 1) % 3]) & _MASK
        x1 = (x1 + keys[(group + 2) % 3] + group + 1) & _MASK
    return x0, x1


def threefry_scalar(k0: Expr, k1: Expr, x0: Expr, x1: Expr) -> tuple[Expr, Expr]:
    """The block function on uint32 scalars."""
    keys = (k0, k1, k.bit_xor(k.bit_xor(k0, k1), const(PARITY, U32)))
    x0, x1 = k.add(x0, keys[0]), k.add(x1, keys[1])
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x0 = k.add(x0, x1)
            left = k.shl(x1, const(rotation, U32))
            x1 = k.bit_or(left, k.shr_logical(x1, const(32 - rotation, U32)))
            x1 = k.bit_xor(x0, x1)
        x0 = k.add(x0, keys[(group + 1) % 3])
        x1 = k.add(k.add(x1, keys[(group + 2) % 3]), const(group + 1, U32))
    return x0, x1
