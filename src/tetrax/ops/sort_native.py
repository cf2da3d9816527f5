"""Sorts by one real key through the library's sort of integers.

Keys become integers of the same order. Keys of at most 32 bits that take other arrays along are
sorted in one word with their position, 64-bit keys as pairs with it; so every sort is stable. Keys
alone go without positions, unless equal keys can be told apart (zeros of both signs, NaNs).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_expr import Buffer, Expr
from tetrax.ir.kernel_types import F32, I32, I64, U32, U64, ScalarType
from tetrax.ops import axes as ax

LONGEST = 1 << 31
"""Positions must fit beside a 32-bit key."""

Line = tuple[Expr, Expr]
Read = Callable[[Line, Expr], Sequence[Any]]
Write = Callable[[Line, Expr, Sequence[scalar.Scalar]], None]


def has_native_sort(dtypes: Sequence[Any], num_keys: int) -> bool:
    """Whether operands of these types can be sorted by `LineOrder`."""
    return num_keys == 1 and getattr(dtypes[0], "kind", "") != "c"


def ordered_integer(x: Expr, zeros_equal: bool = True) -> Expr:
    """An i32 or i64 in the order of `x`: NaN last, and -0 equal to 0.

    Without `zeros_equal` signs count: -0 is before 0, and NaN of a negative sign before all.
    """
    kind = x.type
    if kind.is_storage:
        x, kind = kernel.convert(x, F32), F32
    if not kind.is_float:
        if kind in (U32, U64):
            signed = kernel.signed_bits_of(x)
            return kernel.bit_xor(signed, kernel.const(signed.type.minimum, signed.type))
        return x if kind is I64 else kernel.convert(x, I32)
    bits = kernel.signed_bits_of(x)
    largest = kernel.const(bits.type.maximum, bits.type)
    zero = kernel.const(0, bits.type)
    key = kernel.select(kernel.lt(bits, zero), kernel.bit_xor(bits, largest), bits)
    if zeros_equal:
        key = kernel.select(kernel.eq(x, 0.0), zero, key)
        return kernel.select(kernel.ne(x, x), largest, key)
    smallest = kernel.const(bits.type.minimum, bits.type)
    end = kernel.select(kernel.lt(bits, zero), smallest, largest)
    return kernel.select(kernel.ne(x, x), end, key)


def from_ordered_integer(key: Expr, kind: ScalarType) -> Expr:
    """The value of type `kind` whose `ordered_integer` is `key`; NaN is the usual one."""
    if kind.is_storage:
        return kernel.convert(from_ordered_integer(key, F32), kind)
    if not kind.is_float:
        if kind in (U32, U64):
            flipped = kernel.bit_xor(key, kernel.const(key.type.minimum, key.type))
            return kernel.bitcast(flipped, kind)
        return kernel.convert(key, kind)
    largest = kernel.const(key.type.maximum, key.type)
    bits = kernel.select(kernel.lt(key, 0), kernel.bit_xor(key, largest), key)
    usual = kernel.const(float("nan"), kind)
    return kernel.select(kernel.eq(key, largest), usual, kernel.bitcast(bits, kind))


def _is_told_apart(x: Expr) -> Expr:
    """Whether a float is equal to others of other bits."""
    wide = kernel.convert(x, F32) if x.type.is_storage else x
    negative = kernel.lt(kernel.signed_bits_of(wide), 0)
    return kernel.bit_or(kernel.ne(wide, wide), kernel.bit_and(kernel.eq(wide, 0.0), negative))


@dataclass
class LineOrder:
    """Sorts lines along `dimension` of arrays of one shape.

    `window` are the first and last rank that are wanted; `descending` turns the order round (of
    equal keys the first still comes first) and tells signs of zeros and NaNs apart.
    """

    builder: KernelBuilder
    shape: Sequence[int]
    dimension: int
    window: tuple[int, int]
    descending: bool = False

    def __post_init__(self) -> None:
        self.length = self.shape[self.dimension]
        self.outer = ax.product(self.shape[: self.dimension])
        self.inner = ax.product(self.shape[self.dimension + 1 :])

    def run(self, key: ScalarType, alone: bool, read: Read, write: Write) -> None:
        """Sort every line.

        `read(line, position)` gives the elements there, the key first, and
        `write(line, rank, elements)` takes those of each wanted rank. `alone`: there is nothing
        but the key.
        """
        builder = self.builder
        with (
            builder.loop(self.outer, "parallel") as outer,
            builder.loop(self.inner, "serial") as inner,
        ):
            line = outer, inner
            if not alone or self.descending:
                self._by_position(line, key, read, write)
            elif not (key.is_float or key.is_storage):
                self._keys(line, key, read, write)
            else:
                self._floats(line, key, read, write)

    def _floats(self, line: Line, key: ScalarType, read: Read, write: Write) -> None:
        builder = self.builder
        position = kernel.index_variable("position", self.length)
        told = kernel.convert(_is_told_apart(read(line, position)[0]), I64)
        count = kernel.reduce_sum([(position, self.length)], told)
        with builder.when(kernel.eq(count, 0)):
            self._keys(line, key, read, write)
        with builder.otherwise():
            self._by_position(line, key, read, write)

    def _keys(self, line: Line, key: ScalarType, read: Read, write: Write) -> None:
        kind = I64 if key.bits == 64 else I32
        keys, spare = (self.builder.temporary(kind, self.length) for _ in range(2))
        with self.builder.loop(self.length, "vector") as position:
            value = ordered_integer(read(line, position)[0])
            self.builder.store(keys, position, value)
        self._call(kind.name, keys, spare)
        with self._ranks() as (rank, at):
            value = from_ordered_integer(self.builder.load(keys, at), key)
            write(line, rank, [value])

    def _by_position(self, line: Line, key: ScalarType, read: Read, write: Write) -> None:
        one_word = key.bits < 64 and self.length < LONGEST
        places = self._words(line, read) if one_word else self._pairs(line, read)
        with self._ranks() as (rank, at):
            write(line, rank, read(line, places(at)))

    def _words(self, line: Line, read: Read) -> Callable[[Expr], Expr]:
        """Keys and positions in one word each; gives the position of a rank."""
        builder = self.builder
        words, spare = (builder.temporary(I64, self.length) for _ in range(2))
        with builder.loop(self.length, "vector") as position:
            high = kernel.shl(kernel.convert(self._key(line, position, read), I64), 32)
            builder.store(words, position, kernel.bit_or(high, position))
        self._call("i64", words, spare)
        low = kernel.const(0xFFFFFFFF, I64)
        return lambda at: kernel.bit_and(builder.load(words, at), low)

    def _pairs(self, line: Line, read: Read) -> Callable[[Expr], Expr]:
        builder, n = self.builder, self.length
        pairs, spare = (builder.temporary(I64, 2 * n) for _ in range(2))
        with builder.loop(n, "vector") as position:
            builder.store(pairs, position, kernel.convert(self._key(line, position, read), I64))
        with builder.loop(n, "vector") as position:
            builder.store(pairs, kernel.add(position, n), position)
        self._call("pairs", pairs, spare)
        return lambda at: builder.load(pairs, kernel.add(at, n))

    def _key(self, line: Line, position: Expr, read: Read) -> Expr:
        made = ordered_integer(read(line, position)[0], zeros_equal=not self.descending)
        return kernel.logical_not(made) if self.descending else made

    def _ranks(self) -> Any:
        return _Ranks(self.builder, self.window)

    def _call(self, name: str, keys: Buffer, spare: Buffer) -> None:
        builder = self.builder
        builder.call(
            f"tetrax_sort_{name}",
            builder.address(keys),
            builder.address(spare),
            *(kernel.index(x) for x in (self.length, *self.window)),
        )


class _Ranks:
    """A loop over the wanted ranks: (rank counted from the first wanted one, place in the line)."""

    def __init__(self, builder: KernelBuilder, window: tuple[int, int]) -> None:
        self.first, self.count = window[0], window[1] - window[0]
        self.loop = builder.loop(self.count, "vector", name="rank")

    def __enter__(self) -> tuple[Expr, Expr]:
        rank = self.loop.__enter__()
        return rank, kernel.add(rank, self.first)

    def __exit__(self, *details: Any) -> Any:
        return self.loop.__exit__(*details)


__all__ = ["LineOrder", "from_ordered_integer", "has_native_sort", "ordered_integer"]
