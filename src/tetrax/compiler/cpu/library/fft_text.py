"""Complex arithmetic in vectors, butterflies and transpositions, as LLVM text.

A *cell* is one complex number for each of 64 bytes' worth of lanes: first all real parts, then all
imaginary ones. A *panel* is a row of cells. Loaded from memory, where parts alternate, lanes come
in an order in which taking parts apart and putting them together needs no shuffle across the halves
of a register: lane `j` holds element `lane_order[j]`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tetrax.compiler.cpu.library.gemm_text import Function, Shape
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_types import F32, ScalarType
from tetrax.ops.fft_plan import CELL_BYTES, lane_order, roots


def cell_shape(type: ScalarType, target: Target) -> Shape:
    """Lanes of a cell as the vectors of a function."""
    return Shape(type, type, CELL_BYTES // (2 * type.bytes), target)


@dataclass(frozen=True)
class Pair:
    """Real and imaginary parts: names of two vectors."""

    re: str
    im: str

    @property
    def swapped(self) -> Pair:
        """The parts exchanged. A transform between two exchanges is the inverse one."""
        return Pair(self.im, self.re)


class ComplexFunction(Function):
    """A function that computes with cells."""

    def __init__(self, shape: Shape, name: str) -> None:
        super().__init__(shape, name)
        self.order = lane_order(self.lanes)
        self.places = [self.order.index(element) for element in range(self.lanes)]

    # --- real vectors ---

    def add(self, a: str, b: str) -> str:
        return self.emit(f"fadd {self.vector} {a}, {b}")

    def subtract(self, a: str, b: str) -> str:
        return self.emit(f"fsub {self.vector} {a}, {b}")

    def constant(self, value: float) -> str:
        """A number in all lanes."""
        rounded = float(np.float32(value)) if self.type is F32 else value
        bits = struct.unpack("<Q", struct.pack("<d", rounded))[0]
        return f"splat ({self.scalar} 0x{bits:016X})"

    def product_less(self, a: str, b: str, c: str) -> str:
        """`a b - c`."""
        if not self.shape.target.has_fma:
            return self.subtract(self.product(a, b), c)
        return self.fma(a, b, self.emit(f"fneg {self.vector} {c}"))

    def less_product(self, c: str, a: str, b: str) -> str:
        """`c - a b`."""
        if not self.shape.target.has_fma:
            return self.subtract(c, self.product(a, b))
        return self.fma(self.emit(f"fneg {self.vector} {a}"), b, c)

    # --- pairs ---

    def plus_pair(self, a: Pair, b: Pair) -> Pair:
        return Pair(self.add(a.re, b.re), self.add(a.im, b.im))

    def minus_pair(self, a: Pair, b: Pair) -> Pair:
        return Pair(self.subtract(a.re, b.re), self.subtract(a.im, b.im))

    def plus_i(self, a: Pair, b: Pair) -> Pair:
        """`a + i b`."""
        return Pair(self.subtract(a.re, b.im), self.add(a.im, b.re))

    def minus_i(self, a: Pair, b: Pair) -> Pair:
        """`a - i b`."""
        return Pair(self.add(a.re, b.im), self.subtract(a.im, b.re))

    def times_pair(self, a: Pair, w: Pair) -> Pair:
        re = self.product_less(a.re, w.re, self.product(a.im, w.im))
        return Pair(re, self.fma(a.re, w.im, self.product(a.im, w.re)))

    # --- cells in memory ---

    def cell(self, panel: str, position: str | int) -> str:
        """The address of a cell."""
        if isinstance(position, int):
            return self.at(panel, position * 2 * self.lanes) if position else panel
        return self.at(panel, self.times(position, 2 * self.lanes))

    def load_cell(self, place: str) -> Pair:
        return Pair(
            self.load(place, self.vector), self.load(self.at(place, self.lanes), self.vector)
        )

    def store_cell(self, place: str, value: Pair) -> None:
        self.store(value.re, place, self.vector)
        self.store(value.im, self.at(place, self.lanes), self.vector)

    def load_repeated(self, place: str) -> Pair:
        """One complex number in all lanes."""
        return Pair(self.repeated(self.load(place)), self.repeated(self.load(self.at(place, 1))))

    # --- elements in memory ---

    def element(self, pointer: str, position: str | int) -> str:
        """The address of a complex number."""
        double = 2 * position if isinstance(position, int) else self.times(position, 2)
        return self.at(pointer, double)

    def taken_apart(self, a: str, b: str, picks: Sequence[int] | None = None) -> Pair:
        """The parts of the numbers in two vectors of alternating parts, in the lanes' order."""
        picks = self.order if picks is None else picks
        return Pair(
            self.shuffled(a, b, [2 * pick for pick in picks]),
            self.shuffled(a, b, [2 * pick + 1 for pick in picks]),
        )

    def put_together(self, value: Pair) -> tuple[str, str]:
        """Two vectors of alternating parts."""
        lanes = self.lanes
        halves = []
        for half in range(2):
            picks = []
            for element in range(half * lanes // 2, (half + 1) * lanes // 2):
                picks += [self.places[element], lanes + self.places[element]]
            halves.append(self.shuffled(value.re, value.im, picks))
        return halves[0], halves[1]

    def load_elements(self, place: str, masks: Sequence[str | None] = (None, None)) -> Pair:
        """Neighbouring numbers in lanes."""
        return self.taken_apart(self.read(place, 0, masks[0]), self.read(place, 1, masks[1]))

    def store_elements(
        self, place: str, value: Pair, masks: Sequence[str | None] = (None, None)
    ) -> None:
        for v, text in enumerate(self.put_together(value)):
            self.write(place, v, text, masks[v])

    def element_masks(self, count: str) -> list[str]:
        """For `load_elements`: what belongs to the first numbers."""
        scalars = self.times(count, 2)
        return [self.mask(scalars), self.mask(self.minus(scalars, self.lanes))]

    # --- transposition ---

    def turned_square(self, rows: Sequence[str]) -> list[str]:
        """Columns of a square of vectors: first pairs within halves of registers, then halves."""
        lanes, half = self.lanes, self.lanes // 2
        rows = list(rows)
        distance = 1
        while distance < half:
            made = list(rows)
            for i in range(0, lanes, 2 * distance):
                for j in range(distance):
                    a, b = rows[i + j], rows[i + j + distance]
                    made[i + 2 * j : i + 2 * j + 2] = self._unpacked(a, b, distance)
            rows, distance = made, 2 * distance
        return self._halves(rows)

    def _unpacked(self, a: str, b: str, unit: int) -> list[str]:
        """Low and high units of two vectors side by side, in each half of a register."""
        lanes, half = self.lanes, self.lanes // 2
        results = []
        for high in range(2):
            picks = []
            for start in range(0, lanes, half):
                for unit_at in range(high * half // 2, (high + 1) * half // 2, unit):
                    at = start + unit_at
                    picks += [at + x for x in range(unit)]
                    picks += [lanes + at + x for x in range(unit)]
            results.append(self.shuffled(a, b, picks))
        return results

    def _halves(self, rows: list[str]) -> list[str]:
        lanes, half = self.lanes, self.lanes // 2
        low = [*range(half), *range(lanes, lanes + half)]
        high = [x + half for x in low]
        return [
            self.shuffled(rows[i], rows[i + half], picks)
            for picks in (low, high)
            for i in range(half)
        ]

    # --- butterflies ---

    def butterfly(self, x: Sequence[Pair]) -> list[Pair]:
        """The transform of as many numbers as there are."""
        known = {1: list, 2: self._two, 4: self._four, 8: self._eight}
        return known.get(len(x), self._odd)(x)

    def _two(self, x: Sequence[Pair]) -> list[Pair]:
        return [self.plus_pair(x[0], x[1]), self.minus_pair(x[0], x[1])]

    def _four(self, x: Sequence[Pair]) -> list[Pair]:
        a, b = self._two((x[0], x[2]))
        c, d = self._two((x[1], x[3]))
        even, odd = self._two((a, c))
        return [even, self.minus_i(b, d), odd, self.plus_i(b, d)]

    def _eight(self, x: Sequence[Pair]) -> list[Pair]:
        a, b = self._four(x[0::2]), self._four(x[1::2])
        first = self._eighth(a[1], b[1], False)
        third = self._eighth(a[3], b[3], True)
        return [
            self.plus_pair(a[0], b[0]),
            first[0],
            self.minus_i(a[2], b[2]),
            third[0],
            self.minus_pair(a[0], b[0]),
            first[1],
            self.plus_i(a[2], b[2]),
            third[1],
        ]

    def _eighth(self, a: Pair, b: Pair, third: bool) -> tuple[Pair, Pair]:
        """`a + w b` and `a - w b` for an eighth root of unity, or its third power."""
        root = self.constant(math.sqrt(0.5))
        total, rest = self.add(b.re, b.im), self.subtract(b.im, b.re)
        fma, less = self.fma, self.less_product
        if third:
            return (
                Pair(fma(rest, root, a.re), less(a.im, total, root)),
                Pair(less(a.re, rest, root), fma(total, root, a.im)),
            )
        return (
            Pair(fma(total, root, a.re), fma(rest, root, a.im)),
            Pair(less(a.re, total, root), less(a.im, rest, root)),
        )

    def _odd(self, x: Sequence[Pair]) -> list[Pair]:
        """Of an odd number: sums and differences of opposite ones meet real factors only."""
        count = len(x)
        half = count // 2
        sums = [self.plus_pair(x[j], x[count - j]) for j in range(1, half + 1)]
        gaps = [self.minus_pair(x[j], x[count - j]) for j in range(1, half + 1)]
        total = x[0]
        for one in sums:
            total = self.plus_pair(total, one)
        result = [total] * count
        for k in range(1, half + 1):
            factors = roots(count, np.arange(1, half + 1) * k)
            even, odd = x[0], None
            for w, s, d in zip(factors, sums, gaps, strict=True):
                cosine, sine = self.constant(w.real), self.constant(-w.imag)
                even = Pair(self.fma(s.re, cosine, even.re), self.fma(s.im, cosine, even.im))
                if odd is None:
                    odd = Pair(self.product(d.re, sine), self.product(d.im, sine))
                else:
                    odd = Pair(self.fma(d.re, sine, odd.re), self.fma(d.im, sine, odd.im))
            assert odd is not None
            result[k], result[count - k] = self.minus_i(even, odd), self.plus_i(even, odd)
        return result


__all__ = ["ComplexFunction", "Pair", "cell_shape"]
