"""`rng_bit_generator` and `rng_uniform`: bits from a state that the caller carries, or from none.

Philox4x32-10 (the default) and Threefry2x32, J. Salmon et al., "Parallel random numbers: as easy as
1, 2, 3" (2011), with the counters of XLA.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from tetrax import dtypes, errors
from tetrax.ir import kernel as k
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_types import U32, U64
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import View, element_type
from tetrax.ops.base import TestFacts, register
from tetrax.ops.split import stack, unstack
from tetrax.ops.structure import move_axis
from tetrax.ops.threefry import threefry_numpy, threefry_scalar
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.symbolic import Zero

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


class RandomAlgorithm(enum.IntEnum):
    """The generator behind `rng_bit_generator`."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


Words = Sequence[Any]


def _philox(counter: Words, key: Words, product: Callable, add: Callable, xor: Callable) -> Words:
    """Ten rounds on four words; `product` gives the high and the low word of a multiplication."""
    a, b, c, d = counter
    first, second = key
    for _ in range(_ROUNDS):
        high0, low0 = product(a, _MULTIPLIERS[0])
        high1, low1 = product(c, _MULTIPLIERS[1])
        a, b, c, d = xor(xor(high1, b), first), low1, xor(xor(high0, d), second), low0
        first, second = add(first, _KEY_STEPS[0]), add(second, _KEY_STEPS[1])
    return a, b, c, d


def _numpy_product(x: np.ndarray, factor: int) -> tuple[np.ndarray, np.ndarray]:
    wide = x.astype(np.uint64) * np.uint64(factor)
    return (wide >> np.uint64(32)).astype(np.uint32), wide.astype(np.uint32)


def _scalar_product(x: Expr, factor: int) -> tuple[Expr, Expr]:
    wide = k.mul(k.convert(x, U64), const(factor, U64))
    return k.convert(k.shr_logical(wide, const(32, U64)), U32), k.convert(wide, U32)


def _is_threefry(algorithm: RandomAlgorithm) -> bool:
    return algorithm is RandomAlgorithm.RNG_THREE_FRY


def _halved(shape: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """The axis along which neighbours share a Threefry block, and the shape of the blocks.

    XLA takes the first axis of even size, or else the first of the largest ones.
    """
    sizes = tuple(shape) or (1,)
    even = [i for i, size in enumerate(sizes) if size % 2 == 0]
    axis = even[0] if even else sizes.index(max(sizes))
    return axis, (*sizes[:axis], -(-sizes[axis] // 2), *sizes[axis + 1 :])


def _blocks(shape: Sequence[int], dtype: np.dtype, algorithm: RandomAlgorithm) -> int:
    """How many counters are used: a block has two words for Threefry, four for Philox."""
    size, wide = math.prod(shape), dtype.itemsize == 8
    if _is_threefry(algorithm):
        return size if wide else math.prod(_halved(shape)[1])
    return -(-size * (2 if wide else 1) // 4)


class RngBitGenerator(Primitive):
    """(state after drawing, bits of `shape`); a state is a key and a counter of 64 bits each."""

    multiple_results = True
    cost = 60

    def shape(self, state: ShapedArray, *, shape, dtype, algorithm, out_sharding=None):
        fits = (state.dtype == np.uint32 and state.shape == (4,)) or (
            state.dtype == np.uint64 and state.shape == (2,)
        )
        if not fits:
            raise errors.ShapeError(
                "rng_bit_generator takes a state of type uint32[4] or uint64[2], got "
                f"{state.str_short()}"
            )
        return [state, ShapedArray(shape, dtype)]

    def jvp(self, primals, tangents, **params):
        outs = self.bind(*primals, **params)
        return outs, [Zero.from_primal_value(out) for out in outs]

    def batch(self, operands, dims, **params):
        states = unstack(move_axis(operands[0], dims[0], 0))
        drawn = [self.bind(state, **params) for state in states]
        return [stack(parts) for parts in zip(*drawn, strict=True)], [0, 0]

    def reference(self, state, *, shape, dtype, algorithm, out_sharding=None):
        dtype = np.dtype(dtype)
        words = np.ascontiguousarray(state).view(np.uint32)
        used = _blocks(shape, dtype, algorithm)
        start = np.uint64(words[2]) | (np.uint64(words[3]) << np.uint64(32))
        counters = start + np.arange(used, dtype=np.uint64)
        low, high = counters.astype(np.uint32), (counters >> np.uint64(32)).astype(np.uint32)
        key = (np.full(used, words[0]), np.full(used, words[1]))
        if _is_threefry(algorithm):
            bits = _threefry_elements(threefry_numpy(*key, low, high), shape, dtype)
        else:
            step = lambda x, amount: x + np.uint32(amount)
            drawn = _philox((low, high, *key), key, _numpy_product, step, np.bitwise_xor)
            bits = _philox_elements(np.stack(drawn, -1).ravel(), shape, dtype)
        after = np.array([start + np.uint64(used)], np.uint64).view(np.uint32)
        return [np.concatenate([words[:2], after]).view(state.dtype), bits]

    def kernel(self, operands, outs, *, shape, dtype, algorithm, out_sharding=None):
        (state,) = operands
        wide = state.scalar is U64
        used = _blocks(shape, np.dtype(dtype), algorithm)

        def word(position: int) -> Expr:
            if not wide:
                return state.at((k.index(position),))  # type: ignore[return-value]
            pair = state.at((k.index(position // 2),))
            shift = const(32 * (position % 2), U64)
            return k.convert(k.shr_logical(pair, shift), U32)  # type: ignore[arg-type]

        def counter(offset: Expr) -> Expr:
            high = k.shl(k.convert(word(3), U64), const(32, U64))
            return k.add(k.bit_or(high, k.convert(word(2), U64)), offset)

        def new_state(index: Any) -> Expr:
            after = counter(const(used, U64))
            if wide:
                return k.select(k.eq(index[0], k.index(0)), state.at((k.index(0),)), after)  # type: ignore[arg-type]
            value = k.select(k.eq(index[0], k.index(1)), word(1), word(0))
            low, high = k.convert(after, U32), k.convert(k.shr_logical(after, const(32, U64)), U32)
            value = k.select(k.eq(index[0], k.index(2)), low, value)
            return k.select(k.eq(index[0], k.index(3)), high, value)

        element = _threefry_at if _is_threefry(algorithm) else _philox_at
        bits = lambda index: element((word(0), word(1)), counter, shape, index, outs[1])
        return [
            View(outs[0].shape, outs[0].dtype, new_state),
            View(outs[1].shape, outs[1].dtype, bits),
        ]

    def stablehlo(self, context, operands, outs, *, algorithm, **params):
        return context.rng_bit_generator(operands, outs, algorithm.name)


def _threefry_elements(
    words: tuple[np.ndarray, np.ndarray], shape: Sequence[int], dtype: np.dtype
) -> np.ndarray:
    if dtype.itemsize == 8:
        return _wide(*words).reshape(shape)
    axis, half = _halved(shape)
    pairs = np.stack([word.reshape(half) for word in words], axis + 1)
    doubled = (*half[:axis], 2 * half[axis], *half[axis + 1 :])
    kept = pairs.reshape(doubled).take(range((tuple(shape) or (1,))[axis]), axis)
    return kept.reshape(shape).astype(dtype)


def _philox_elements(words: np.ndarray, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    size = math.prod(shape)
    if dtype.itemsize == 8:
        return _wide(words[0 : 2 * size : 2], words[1 : 2 * size : 2]).reshape(shape)
    return words[:size].astype(dtype).reshape(shape)


def _wide(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))


Counter = Callable[[Expr], Expr]


def _flat(shape: Sequence[int], index: Sequence[Expr]) -> Expr:
    flat = k.index(0)
    for extent, position in zip(shape, index, strict=True):
        flat = k.add(k.mul(flat, k.index(extent)), position)
    return flat


def _words_of(count: Expr) -> tuple[Expr, Expr]:
    return k.convert(count, U32), k.convert(k.shr_logical(count, const(32, U64)), U32)


def _scalar_wide(low: Expr, high: Expr) -> Expr:
    return k.bit_or(k.convert(low, U64), k.shl(k.convert(high, U64), const(32, U64)))


def _threefry_at(
    key: Words, counter: Counter, shape: Sequence[int], index: Any, out: ShapedArray
) -> Expr:
    """The element at an index: a word of a block, or both."""
    if element_type(out.dtype) is U64:
        count = counter(k.convert(_flat(shape, index), U64))
        return _scalar_wide(*threefry_scalar(key[0], key[1], *_words_of(count)))
    axis, half = _halved(shape)
    place = list(index) or [k.index(0)]
    odd = k.eq(k.rem(place[axis], k.index(2)), k.index(1))
    place[axis] = k.div(place[axis], k.index(2))
    count = counter(k.convert(_flat(half, place), U64))
    first, second = threefry_scalar(key[0], key[1], *_words_of(count))
    return k.convert(k.select(odd, second, first), element_type(out.dtype))


def _philox_at(
    key: Words, counter: Counter, shape: Sequence[int], index: Any, out: ShapedArray
) -> Expr:
    """The element at an index: one of the four words of a block, or a pair of them."""
    step = lambda x, amount: k.add(x, const(amount, U32))
    wide = element_type(out.dtype) is U64
    lanes = k.index(2 if wide else 4)
    flat = _flat(shape, index)
    count = counter(k.convert(k.div(flat, lanes), U64))
    words = _philox((*_words_of(count), key[0], key[1]), key, _scalar_product, step, k.bit_xor)
    lane = k.rem(flat, lanes)
    if wide:
        second = k.eq(lane, k.index(1))
        low, high = k.select(second, words[2], words[0]), k.select(second, words[3], words[1])
        return _scalar_wide(low, high)
    value = words[0]
    for i in range(1, 4):
        value = k.select(k.eq(lane, k.index(i)), words[i], value)
    return k.convert(value, element_type(out.dtype))


@cache
def _process_generator() -> np.random.Generator:
    """Where `rng_uniform` draws from: a state of the process, as the operation has none itself."""
    return np.random.default_rng(0)


class RngUniform(Primitive):
    """Uniform numbers in [a, b), different ones at each call."""

    is_pure = False

    def shape(self, a: ShapedArray, b: ShapedArray, *, shape):
        if a.dtype != b.dtype or a.shape or b.shape:
            raise errors.ShapeError(
                "rng_uniform takes two scalars of one dtype, got "
                f"{a.str_short()} and {b.str_short()}"
            )
        return ShapedArray(shape, a.dtype)

    def jvp(self, primals, tangents, *, shape):
        out = self.bind(*primals, shape=shape)
        return out, Zero.from_primal_value(out)

    def reference(self, a, b, *, shape):
        if a.dtype.kind in "iu":
            return _process_generator().integers(a, b, shape).astype(a.dtype)
        return _process_generator().uniform(a, b, shape).astype(a.dtype)

    def stablehlo(self, context, operands, outs, *, shape):
        return context.rng_uniform(operands, outs)


def _bit_samples() -> list[tuple[list[ShapedArray], dict]]:
    state = ShapedArray((4,), np.uint32)
    return [
        (
            [state],
            {"shape": (3, 5), "dtype": np.dtype(dtype), "algorithm": kind, "out_sharding": None},
        )
        for dtype in (np.uint8, np.uint16, np.uint32)
        for kind in RandomAlgorithm
    ]


rng_bit_generator_p = register(
    RngBitGenerator("rng_bit_generator"), TestFacts(ulp=0, samples=_bit_samples)
)
rng_uniform_p = register(
    RngUniform("rng_uniform"),
    TestFacts(
        excluded=tuple((rule, "no two calls agree") for rule in ("compiled", "jax", "vmap", "jvp")),
        samples=lambda: [([ShapedArray((), np.float32)] * 2, {"shape": (3,)})],
        domain=((0.0, 1.0), (2.0, 3.0)),
    ),
)


def rng_bit_generator(
    key: Any,
    shape: Sequence[int],
    dtype: Any = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> list[Any]:
    """[new key, unsigned integers of `shape` and `dtype`] from a key, uint32[4] or uint64[2].

    Raises TypeError for a dtype that is not an unsigned integer one.
    """
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype)
    if dtype.name not in ("uint8", "uint16", "uint32", "uint64"):
        raise TypeError(f"rng_bit_generator: unsupported dtype {dtype}")
    return rng_bit_generator_p.bind(
        as_value(key),
        shape=tuple(shape),
        dtype=dtype,
        algorithm=RandomAlgorithm(algorithm),
        out_sharding=out_sharding,
    )


def rng_uniform(a: Any, b: Any, shape: Sequence[int]) -> Any:
    """Uniform numbers in [a, b) from a state of the process; `tetrax.random` is to be preferred."""
    return rng_uniform_p.bind(as_value(a), as_value(b), shape=tuple(shape))
