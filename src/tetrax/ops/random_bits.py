"""Counter-based random bits: threefry2x32 on typed keys.

A typed key is one 64-bit element whose words, in memory order, are the two words of the key, so
every structural operation works on keys as on numbers. The streams are those of JAX's default
generator: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, errors
from tetrax.config import config
from tetrax.ir import kernel as k
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_types import U32, U64
from tetrax.ir.layout import Factors, FactorsBuilder, Place, pointwise
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import View, element_type
from tetrax.ops.arithmetic import add, mul
from tetrax.ops.base import TestFacts, aligned_batch, register
from tetrax.ops.bits_and_compare import bitwise_or, bitwise_xor, shift_left
from tetrax.ops.convert import convert_element_type
from tetrax.ops.creation import broadcasted_iota, full_like
from tetrax.ops.shape import squeeze
from tetrax.ops.slicing import slice_in_dim
from tetrax.ops.split import stack
from tetrax.ops.structure import broadcast_in_dim, full, move_axis
from tetrax.ops.threefry import threefry_numpy, threefry_scalar
from tetrax.tracing.primitive import Primitive, rule
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.value import get_aval

KEY = dtypes.KeyDType("threefry2x32")
# From this size on eager calls use compiled code: NumPy passes over memory a hundred times.
_COMPILED_SIZE = 4096


def _words(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two words of each key, from its 64-bit storage."""
    parts = np.ascontiguousarray(keys).reshape(*keys.shape, 1).view(np.uint32)
    return parts[..., 0], parts[..., 1]


def _keys(k0: np.ndarray, k1: np.ndarray) -> np.ndarray:
    words = np.stack([k0, k1], -1).astype(np.uint32)
    return np.ascontiguousarray(words).view(np.uint64).reshape(words.shape[:-1])


def _scalar_words(key: Expr) -> tuple[Expr, Expr]:
    low = k.convert(key, U32)
    return low, k.convert(k.shr_logical(key, const(32, U64)), U32)


def _scalar_key(k0: Expr, k1: Expr) -> Expr:
    high = k.shl(k.convert(k1, U64), const(32, U64))
    return k.bit_or(high, k.convert(k0, U64))


class _NoDerivative(Primitive):
    """Random bits do not depend smoothly on anything."""

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = self.bind(*primals, **params)
        if self.multiple_results:
            return out, [Zero.from_primal_value(x) for x in out]
        return out, Zero.from_primal_value(out)

    def runs_compiled(self, avals: Sequence[ShapedArray], params: dict) -> bool:
        return math.prod(params.get("shape", ())) >= _COMPILED_SIZE


class Threefry(_NoDerivative):
    """`threefry2x32(k0, k1, x0, x1)` elementwise on uint32."""

    multiple_results = True
    cost = 60

    def shape(self, *avals: ShapedArray) -> list[ShapedArray]:
        if any(a.shape != avals[0].shape or a.dtype != np.uint32 for a in avals):
            shown = ", ".join(a.str_short() for a in avals)
            raise errors.ShapeError(
                f"threefry2x32 takes four uint32 arrays of one shape, got {shown}"
            )
        return [ShapedArray(avals[0].shape, np.uint32)] * 2

    def runs_compiled(self, avals: Sequence[ShapedArray], params: dict) -> bool:
        return avals[0].size >= _COMPILED_SIZE

    def factors(self, avals, outs, params):
        return pointwise(avals, outs)

    def reference(self, *arrays: np.ndarray) -> list[np.ndarray]:
        return list(threefry_numpy(*arrays))

    def batch(self, operands: Sequence[Any], dims: Sequence[Any]) -> Any:
        return self.bind(*aligned_batch(operands, dims)[0]), [0, 0]

    def kernel(self, operands: Sequence[View], outs: Sequence[ShapedArray]) -> list[View]:
        def part(which: int) -> View:
            at = lambda index: threefry_scalar(*(v.at(index) for v in operands))[which]
            return View(outs[0].shape, outs[0].dtype, at)

        return [part(0), part(1)]

    def stablehlo(self, context: Any, operands: Any, outs: Any) -> Any:
        return context.threefry(operands, outs)


threefry2x32_p = register(
    Threefry("threefry2x32"),
    TestFacts(ulp=0, samples=lambda: [([ShapedArray((5,), np.uint32)] * 4, {})]),
)


class RandomWrap(_NoDerivative):
    """uint32[..., 2] words to keys."""

    def shape(self, words: ShapedArray, *, impl: str) -> ShapedArray:
        if words.dtype != np.uint32 or words.shape[-1:] != (2,):
            raise errors.ShapeError(
                f"JAX key data has dtype uint32 and a last axis of size 2, got {words.str_short()}"
            )
        return ShapedArray(words.shape[:-1], KEY)

    def factors(self, avals, outs, params):
        build = FactorsBuilder()
        axes = build.axes(outs[0].shape)
        return build.build([[*axes, build.new(2, whole=True)]], [axes])

    def reference(self, words: np.ndarray, *, impl: str) -> np.ndarray:
        return _keys(words[..., 0], words[..., 1])

    def batch(self, operands: Sequence[Any], dims: Sequence[Any], *, impl: str) -> Any:
        return self.bind(move_axis(operands[0], dims[0], 0), impl=impl), 0

    def kernel(self, operands: Sequence[View], outs: Sequence[ShapedArray], *, impl: str) -> View:
        (words,) = operands

        def at(index: Any) -> Expr:
            k0, k1 = (words.at((*index, k.index(i))) for i in range(2))
            return _scalar_key(k0, k1)  # type: ignore[arg-type]

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context: Any, operands: Any, outs: Any, *, impl: str) -> Any:
        return context.op("bitcast_convert", operands, outs)


class RandomUnwrap(_NoDerivative):
    """Keys to their uint32[..., 2] words."""

    def shape(self, keys: ShapedArray) -> ShapedArray:
        check_keys("random_unwrap", keys)
        return ShapedArray((*keys.shape, 2), np.uint32)

    def factors(self, avals, outs, params):
        build = FactorsBuilder()
        axes = build.axes(avals[0].shape)
        return build.build([axes], [[*axes, build.new(2, whole=True)]])

    def reference(self, keys: np.ndarray) -> np.ndarray:
        return np.stack(_words(keys), -1)

    def batch(self, operands: Sequence[Any], dims: Sequence[Any]) -> Any:
        return self.bind(operands[0]), dims[0]

    def kernel(self, operands: Sequence[View], outs: Sequence[ShapedArray]) -> View:
        (keys,) = operands

        def at(index: Any) -> Expr:
            k0, k1 = _scalar_words(keys.at(index[:-1]))  # type: ignore[arg-type]
            return k.select(k.eq(index[-1], k.index(0)), k0, k1)

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context: Any, operands: Any, outs: Any) -> Any:
        return context.op("bitcast_convert", operands, outs)


def check_keys(name: str, keys: ShapedArray) -> None:
    """Raises TypeError unless `keys` are typed keys."""
    if not isinstance(keys.dtype, dtypes.KeyDType):
        raise TypeError(f"{name} takes typed keys (random.key), got {keys.str_short()}")


class _PerKey(_NoDerivative):
    """An operation that draws `shape` values from every key: result shape keys.shape + shape."""

    def factors(
        self, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], params: dict
    ) -> Factors:
        # Values are counted through `shape`, so a part is drawn by counting from where it begins.
        counted = params.get("partitionable", True) and math.prod(params["shape"]) < 1 << 32
        build = FactorsBuilder()
        keys = build.axes(avals[0].shape)
        drawn = [build.new(n, whole=not counted, positional=True) for n in params["shape"]]
        return build.build([keys], [[*keys, *drawn]])

    def positioned(
        self, operands: Sequence[Any], outs: Sequence[ShapedArray], place: Place, params: dict
    ) -> Sequence[Any]:
        (keys,), (out,), (first,) = operands, outs, place.results
        rank = get_aval(keys).ndim
        count = full(out.shape, 0, np.uint32)
        for axis, (start, extent) in enumerate(zip(first[rank:], params["shape"], strict=True)):
            here = broadcasted_iota(np.uint32, out.shape, rank + axis)
            here = add(here, full_like(here, convert_element_type(start, np.uint32)))
            count = add(mul(count, full_like(count, extent)), here)
        words = random_unwrap_p.bind(keys)
        halves = [squeeze(slice_in_dim(words, i, i + 1, axis=-1), (rank,)) for i in range(2)]
        spread = [broadcast_in_dim(x, out.shape, tuple(range(rank))) for x in halves]
        drawn = threefry2x32_p.bind(*spread, full_like(count, 0), count)
        return [self.joined(*drawn, **params)]

    @rule
    def joined(self, high: Any, low: Any, **params: Any) -> Any:
        """A value from the two words of a block."""
        raise NotImplementedError

    def batch(self, operands: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        return self.bind(*operands, **params), dims[0]


def _counters(shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    count = np.arange(math.prod(shape), dtype=np.uint64).reshape(tuple(shape))
    return (count >> np.uint64(32)).astype(np.uint32), count.astype(np.uint32)


def _scalar_counters(shape: Sequence[int], index: Sequence[Expr]) -> tuple[Expr, Expr]:
    flat = k.index(0)
    for extent, position in zip(shape, index, strict=True):
        flat = k.add(k.mul(flat, k.index(extent)), position)
    count = k.convert(flat, U64)
    return k.convert(k.shr_logical(count, const(32, U64)), U32), k.convert(count, U32)


class RandomBits(_PerKey):
    """Uniform bits as unsigned integers of `bit_width`."""

    cost = 60

    def shape(self, keys: ShapedArray, *, bit_width: int, shape: tuple[int, ...], **params: Any):
        check_keys("random_bits", keys)
        if bit_width not in (8, 16, 32, 64):
            raise TypeError(f"requires 8-, 16-, 32- or 64-bit field width, got {bit_width}")
        return ShapedArray((*keys.shape, *shape), np.dtype(f"uint{bit_width}"))

    def joined(self, high, low, *, bit_width, **params):
        if bit_width < 64:
            return convert_element_type(bitwise_xor(high, low), np.dtype(f"uint{bit_width}"))
        high, low = (convert_element_type(x, np.uint64) for x in (high, low))
        return bitwise_or(shift_left(high, full_like(high, 32)), low)

    def reference(self, keys, *, bit_width, shape, partitionable=True):
        if not partitionable:
            return _bits_original(keys, bit_width, shape)
        expand = (...,) + (None,) * len(shape)
        k0, k1 = (w[expand] for w in _words(keys))
        high, low = threefry_numpy(k0, k1, *_counters(shape))
        if bit_width == 64:
            return (high.astype(np.uint64) << np.uint64(32)) | low
        return (high ^ low).astype(np.dtype(f"uint{bit_width}"))

    def kernel(self, operands, outs, *, bit_width, shape, partitionable=True):
        (keys,) = operands
        target = element_type(outs[0].dtype)
        rank = len(keys.shape)

        def at(index: Any) -> Expr:
            k0, k1 = _scalar_words(keys.at(index[:rank]))
            if not partitionable:
                return _bits_original_scalar(k0, k1, shape, index[rank:], bit_width)
            high, low = threefry_scalar(k0, k1, *_scalar_counters(shape, index[rank:]))
            if bit_width == 64:
                shifted = k.shl(k.convert(high, U64), const(32, U64))
                return k.bit_or(shifted, k.convert(low, U64))
            return k.convert(k.bit_xor(high, low), target)

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context, operands, outs, **params):
        return context.random("bits", operands, outs, params)


def _original_block(words: Sequence[Any], size: int, position: Any, numpy: bool) -> Any:
    """Word `position` of the original layout: the halves of the counters share blocks."""
    half = (size + 1) // 2
    k0, k1 = words
    if numpy:
        pair = position % half
        second = np.where(pair + half < size, pair + half, 0).astype(np.uint32)
        high, low = threefry_numpy(k0, k1, pair.astype(np.uint32), second)
        return np.where(position < half, high, low)
    wraps = k.ge(position, k.index(half))
    pair = k.select(wraps, k.sub(position, k.index(half)), position)
    other = k.add(pair, k.index(half))
    second = k.select(k.lt(other, k.index(size)), other, k.index(0))
    high, low = threefry_scalar(k0, k1, k.convert(pair, U32), k.convert(second, U32))
    return k.select(wraps, low, high)


def _bits_original(keys: np.ndarray, bit_width: int, shape: tuple[int, ...]) -> np.ndarray:
    """The layout of jax_threefry_partitionable=False."""
    size = math.prod(shape)
    words = -(-bit_width * size // 32)
    k0, k1 = (w[..., None] for w in _words(keys))
    position = np.arange(words)
    block = _original_block((k0, k1), words, position, numpy=True)
    block = np.broadcast_to(block, (*keys.shape, words))
    if bit_width == 64:
        wide = block.astype(np.uint64)
        bits = (wide[..., :size] << np.uint64(32)) | wide[..., size:]
    elif bit_width == 32:
        bits = block
    else:
        shifts = np.arange(32 // bit_width, dtype=np.uint32) * np.uint32(bit_width)
        parts = (block[..., None] >> shifts) & np.uint32((1 << bit_width) - 1)
        bits = parts.reshape(*keys.shape, -1)[..., :size].astype(np.dtype(f"uint{bit_width}"))
    return bits.reshape((*keys.shape, *shape))


def _bits_original_scalar(
    k0: Expr, k1: Expr, shape: Sequence[int], index: Sequence[Expr], bit_width: int
) -> Expr:
    size = math.prod(shape)
    words = -(-bit_width * size // 32)
    flat = k.index(0)
    for extent, position in zip(shape, index, strict=True):
        flat = k.add(k.mul(flat, k.index(extent)), position)
    if bit_width == 32:
        return _original_block((k0, k1), words, flat, numpy=False)
    if bit_width == 64:
        high = _original_block((k0, k1), words, flat, numpy=False)
        low = _original_block((k0, k1), words, k.add(flat, k.index(size)), numpy=False)
        return k.bit_or(k.shl(k.convert(high, U64), const(32, U64)), k.convert(low, U64))
    per_word = k.index(32 // bit_width)
    word = _original_block((k0, k1), words, k.div(flat, per_word), numpy=False)
    amount = k.mul(k.rem(flat, per_word), k.index(bit_width))
    part = k.shr_logical(word, k.convert(amount, U32))
    return k.convert(part, element_type(np.dtype(f"uint{bit_width}")))


class RandomSplit(_PerKey):
    """`shape` new keys from every key."""

    cost = 60

    def shape(self, keys: ShapedArray, *, shape: tuple[int, ...], **params: Any) -> ShapedArray:
        check_keys("random_split", keys)
        return ShapedArray((*keys.shape, *shape), KEY)

    def joined(self, high, low, **params):
        return random_wrap_p.bind(stack([high, low], -1), impl=KEY.name)

    def reference(self, keys, *, shape, partitionable=True):
        expand = (...,) + (None,) * len(shape)
        k0, k1 = (w[expand] for w in _words(keys))
        if partitionable:
            return _keys(*threefry_numpy(k0, k1, *_counters(shape)))
        size = 2 * math.prod(shape)
        flat = np.arange(0, size, 2).reshape(shape)
        first, second = (_original_block((k0, k1), size, flat + i, numpy=True) for i in range(2))
        return _keys(first, second)

    def kernel(self, operands, outs, *, shape, partitionable=True):
        (keys,) = operands
        rank = len(keys.shape)

        def at(index: Any) -> Expr:
            k0, k1 = _scalar_words(keys.at(index[:rank]))
            if partitionable:
                pair = threefry_scalar(k0, k1, *_scalar_counters(shape, index[rank:]))
                return _scalar_key(*pair)
            flat = k.index(0)
            for extent, position in zip(shape, index[rank:], strict=True):
                flat = k.add(k.mul(flat, k.index(extent)), position)
            size = 2 * math.prod(shape)
            first, second = (
                _original_block(
                    (k0, k1), size, k.add(k.mul(flat, k.index(2)), k.index(i)), numpy=False
                )
                for i in range(2)
            )
            return _scalar_key(first, second)

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context, operands, outs, **params):
        return context.random("split", operands, outs, params)


class RandomFoldIn(_NoDerivative):
    """A new key from a key and an integer, elementwise."""

    cost = 60

    def shape(self, keys: ShapedArray, data: ShapedArray) -> ShapedArray:
        check_keys("random_fold_in", keys)
        if data.shape != keys.shape:
            raise errors.ShapeError(
                f"fold_in: {keys.str_short()} and {data.str_short()} differ in shape"
            )
        return keys

    def factors(self, avals, outs, params):
        return pointwise(avals, outs)

    def reference(self, keys: np.ndarray, data: np.ndarray) -> np.ndarray:
        words = threefry_numpy(*_words(keys), np.zeros_like(data), data.astype(np.uint32))
        return _keys(*words)

    def batch(self, operands: Sequence[Any], dims: Sequence[Any]) -> Any:
        return self.bind(*aligned_batch(operands, dims)[0]), 0

    def kernel(self, operands: Sequence[View], outs: Sequence[ShapedArray]) -> View:
        keys, data = operands

        def at(index: Any) -> Expr:
            k0, k1 = _scalar_words(keys.at(index))  # type: ignore[arg-type]
            return _scalar_key(*threefry_scalar(k0, k1, const(0, U32), data.at(index)))  # type: ignore[arg-type]

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context: Any, operands: Any, outs: Any) -> Any:
        return context.random("fold_in", operands, outs, {})


class RandomSeed(_NoDerivative):
    """Keys from integers."""

    def shape(self, seeds: ShapedArray, *, impl: str) -> ShapedArray:
        if not dtypes.issubdtype(seeds.dtype, np.integer):
            raise TypeError(f"PRNG key seed must be an integer; got {seeds.dtype.name}")
        return ShapedArray(seeds.shape, KEY)

    def factors(self, avals, outs, params):
        return pointwise(avals, outs)

    def reference(self, seeds: np.ndarray, *, impl: str) -> np.ndarray:
        if seeds.dtype.itemsize == 8:
            bits = seeds.astype(np.uint64)
            return _keys((bits >> np.uint64(32)).astype(np.uint32), bits.astype(np.uint32))
        return _keys(np.zeros(seeds.shape, np.uint32), seeds.astype(np.uint32))

    def batch(self, operands: Sequence[Any], dims: Sequence[Any], *, impl: str) -> Any:
        return self.bind(*operands, impl=impl), dims[0]

    def kernel(self, operands: Sequence[View], outs: Sequence[ShapedArray], *, impl: str) -> View:
        (seeds,) = operands

        def at(index: Any) -> Expr:
            seed = seeds.at(index)
            low = k.convert(seed, U32)  # type: ignore[arg-type]
            high = const(0, U32)
            if seeds.scalar.bits == 64:
                wide = k.convert(seed, U64)  # type: ignore[arg-type]
                high = k.convert(k.shr_logical(wide, const(32, U64)), U32)
            return _scalar_key(high, low)

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context: Any, operands: Any, outs: Any, *, impl: str) -> Any:
        return context.random("seed", operands, outs, {})


class RandomClone(_NoDerivative):
    """The keys themselves; a mark for checks of key reuse."""

    def shape(self, keys: ShapedArray) -> ShapedArray:
        return keys

    def factors(self, avals, outs, params):
        return pointwise(avals, outs)

    def reference(self, keys: np.ndarray) -> np.ndarray:
        return keys

    def batch(self, operands: Sequence[Any], dims: Sequence[Any]) -> Any:
        return self.bind(*operands), dims[0]

    def kernel(self, operands: Sequence[View], outs: Sequence[ShapedArray]) -> View:
        return operands[0]

    def stablehlo(self, context: Any, operands: Any, outs: Any) -> Any:
        return list(operands)


_NAMED_OTHERWISE = (("jax", "its impl is an object, not a name; tests/random/test_samplers.py"),)
_key3 = lambda: ShapedArray((3,), KEY)
random_wrap_p = register(
    RandomWrap("random_wrap"),
    TestFacts(
        ulp=0,
        excluded=_NAMED_OTHERWISE,
        samples=lambda: [([ShapedArray((3, 2), np.uint32)], {"impl": "threefry2x32"})],
    ),
)
random_unwrap_p = register(
    RandomUnwrap("random_unwrap"), TestFacts(ulp=0, samples=lambda: [([_key3()], {})])
)
random_bits_p = register(
    RandomBits("random_bits"),
    TestFacts(
        ulp=0,
        samples=lambda: [
            ([_key3()], {"bit_width": w, "shape": (2, 5), "partitionable": p})
            for w in (8, 16, 32, 64)
            for p in (True, False)
        ],
    ),
)
random_split_p = register(
    RandomSplit("random_split"),
    TestFacts(
        ulp=0,
        samples=lambda: [([_key3()], {"shape": (3,), "partitionable": p}) for p in (True, False)],
    ),
)
random_fold_in_p = register(
    RandomFoldIn("random_fold_in"),
    TestFacts(ulp=0, samples=lambda: [([_key3(), ShapedArray((3,), np.uint32)], {})]),
)
random_seed_p = register(
    RandomSeed("random_seed"),
    TestFacts(
        ulp=0,
        excluded=_NAMED_OTHERWISE,
        samples=lambda: [([ShapedArray((3,), np.int32)], {"impl": "threefry2x32"})],
    ),
)
random_clone_p = register(
    RandomClone("random_clone"), TestFacts(ulp=0, samples=lambda: [([_key3()], {})])
)


def random_bits(keys: Any, bit_width: int, shape: Sequence[int]) -> Any:
    """Uniform unsigned integers of `bit_width`, of shape keys.shape + shape."""
    return random_bits_p.bind(
        keys,
        bit_width=bit_width,
        shape=tuple(shape),
        partitionable=bool(config.threefry_partitionable),
    )


def random_split(keys: Any, shape: Sequence[int]) -> Any:
    """New keys, of shape keys.shape + shape."""
    return random_split_p.bind(
        keys, shape=tuple(shape), partitionable=bool(config.threefry_partitionable)
    )
