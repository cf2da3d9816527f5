"""StableHLO of random bits: keys are 64-bit integers there too, the first word in the low half."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax.compiler.stablehlo.elementwise import ElementwiseRules, Outs
from tetrax.ir.stablehlo import Handle, enum
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import add
from tetrax.ops.bits_and_compare import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    shift_left,
    shift_right_logical,
)
from tetrax.ops.convert import convert_element_type
from tetrax.ops.join import concatenate, slice_along
from tetrax.ops.structure import broadcast_in_dim, full, reshape
from tetrax.ops.threefry import PARITY, ROTATIONS
from tetrax.tracing.value import get_aval

_U32, _U64 = np.dtype(np.uint32), np.dtype(np.uint64)


def _constant(value: int, like: Any) -> Any:
    aval = get_aval(like)
    return full(aval.shape, value, aval.dtype)


def _threefry(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """The block function, in operations on uint32."""
    keys = (k0, k1, bitwise_xor(bitwise_xor(k0, k1), _constant(PARITY, k0)))
    x0, x1 = add(x0, keys[0]), add(x1, keys[1])
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x0 = add(x0, x1)
            left = shift_left(x1, _constant(rotation, x1))
            right = shift_right_logical(x1, _constant(32 - rotation, x1))
            x1 = bitwise_xor(x0, bitwise_or(left, right))
        x0 = add(x0, keys[(group + 1) % 3])
        x1 = add(add(x1, keys[(group + 2) % 3]), _constant(group + 1, x1))
    return x0, x1


def _words(keys: Any) -> tuple[Any, Any]:
    high = shift_right_logical(keys, _constant(32, keys))
    return convert_element_type(keys, _U32), convert_element_type(high, _U32)


def _joined(low: Any, high: Any) -> Any:
    """A 64-bit integer of two words."""
    high = convert_element_type(high, _U64)
    return bitwise_or(shift_left(high, _constant(32, high)), convert_element_type(low, _U64))


def _spread(keys: Any, shape: Sequence[int]) -> tuple[Any, Any]:
    """The words of the keys, repeated for every element of `shape`."""
    rows = get_aval(keys).shape
    full_shape = (*rows, *shape)
    return tuple(broadcast_in_dim(w, full_shape, range(len(rows))) for w in _words(keys))  # type: ignore[return-value]


def _counted(words: tuple[Any, Any], counts: np.ndarray) -> tuple[Any, Any]:
    """Blocks of the 64-bit `counts`, the trailing axes of the words."""
    shape = get_aval(words[0]).shape
    trailing = range(len(shape) - counts.ndim, len(shape))
    parts = ((counts >> np.uint64(32)).astype(_U32), counts.astype(_U32))
    return _threefry(*words, *(broadcast_in_dim(p, shape, trailing) for p in parts))


def _original(keys: Any, count: int) -> Any:
    """`count` words per key in the original layout: the halves of the counters share blocks."""
    half = (count + 1) // 2
    pair = np.arange(half, dtype=_U32)
    second = np.where(pair + half < count, pair + half, 0).astype(_U32)
    words = _spread(keys, (half,))
    shape = get_aval(words[0]).shape
    axis = len(shape) - 1
    counters = (broadcast_in_dim(p, shape, (axis,)) for p in (pair, second))
    both = concatenate(list(_threefry(*words, *counters)), axis)
    return slice_along(both, axis, 0, count)


def _original_bits(keys: Any, bit_width: int, shape: Sequence[int]) -> Any:
    size = math.prod(shape)
    block = _original(keys, -(-bit_width * size // 32))
    rows = get_aval(keys).shape
    axis = len(rows)
    if bit_width == 64:
        high, low = slice_along(block, axis, 0, size), slice_along(block, axis, size, 2 * size)
        block = _joined(low, high)
    elif bit_width < 32:
        per_word = 32 // bit_width
        spread = (*get_aval(block).shape, per_word)
        amounts = np.arange(per_word, dtype=_U32) * np.uint32(bit_width)
        block = shift_right_logical(
            broadcast_in_dim(block, spread, range(axis + 1)),
            broadcast_in_dim(amounts, spread, (axis + 1,)),
        )
        block = bitwise_and(block, _constant((1 << bit_width) - 1, block))
        block = convert_element_type(block, np.dtype(f"uint{bit_width}"))
        flat = reshape(block, (*rows, spread[axis] * per_word))
        block = slice_along(flat, axis, 0, size)
    return reshape(block, (*rows, *shape))


def _bits(keys: Any, *, bit_width: int, shape: Sequence[int], partitionable: bool = True) -> Any:
    if not partitionable:
        return _original_bits(keys, bit_width, shape)
    counts = np.arange(math.prod(shape), dtype=_U64).reshape(tuple(shape))
    high, low = _counted(_spread(keys, shape), counts)
    if bit_width == 64:
        return _joined(low, high)
    return convert_element_type(bitwise_xor(high, low), np.dtype(f"uint{bit_width}"))


def _split(keys: Any, *, shape: Sequence[int], partitionable: bool = True) -> Any:
    if partitionable:
        counts = np.arange(math.prod(shape), dtype=_U64).reshape(tuple(shape))
        return _joined(*_counted(_spread(keys, shape), counts))
    rows = get_aval(keys).shape
    block = _original(keys, 2 * math.prod(shape))
    words = reshape(block, (*rows, *shape, 2))
    axis = len(rows) + len(shape)
    first, second = (reshape(slice_along(words, axis, i, i + 1), (*rows, *shape)) for i in range(2))
    return _joined(first, second)


def _fold_in(keys: Any, data: Any) -> Any:
    data = convert_element_type(data, _U32)
    return _joined(*_threefry(*_words(keys), _constant(0, data), data))


def _seed(seeds: Any) -> Any:
    if get_aval(seeds).dtype.itemsize == 8:
        low, high = _words(convert_element_type(seeds, _U64))
        return _joined(high, low)
    low = convert_element_type(seeds, _U32)
    return _joined(_constant(0, low), low)


_DRAWS = {"bits": _bits, "split": _split, "fold_in": _fold_in, "seed": _seed}


class RandomRules(ElementwiseRules):
    """Threefry as integer arithmetic."""

    def random(
        self, name: str, operands: Sequence[Handle], outs: Outs, params: dict[str, Any]
    ) -> Handle:
        return self.compose(lambda *xs: [_DRAWS[name](*xs, **params)], *operands)[0]

    def rng_bit_generator(
        self, operands: Sequence[Handle], outs: Outs, algorithm: str
    ) -> list[Handle]:
        """XLA's generators keep two 64-bit words; bits are drawn in words of 32 or 64."""
        (state,) = operands
        new, bits = outs
        words = ShapedArray((2,), _U64)
        if state.dtype == _U32:
            state = self.op("reshape", [state], [state.aval.update(shape=(2, 2))])
            state = self.op("bitcast_convert", [state], [words])
        drawn = bits if bits.dtype == _U64 else bits.update(dtype=_U32)
        kind = enum("rng_algorithm", algorithm.removeprefix("RNG_"))
        state, values = self.op("rng_bit_generator", [state], [words, drawn], rng_algorithm=kind)
        if new.dtype == _U32:
            state = self.op("bitcast_convert", [state], [new.update(shape=(2, 2))])
            state = self.op("reshape", [state], [new])
        return [state, self.convert([values], [bits])]

    def rng_uniform(self, operands: Sequence[Handle], outs: Outs) -> Handle:
        shape = np.array(outs[0].shape, np.int64)
        extents = self.constant(shape, ShapedArray(shape.shape, np.int64))
        kind = enum("rng_distribution", "UNIFORM")
        return self.op("rng", [*operands, extents], outs, rng_distribution=kind)

    def threefry(self, operands: Sequence[Handle], outs: Outs) -> list[Handle]:
        return self.compose(lambda *xs: list(_threefry(*xs)), *operands)
