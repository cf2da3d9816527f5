"""The loop nest of a sort: a stable bottom-up merge sort of every line.

A line is read into scratch, runs of doubling width are merged between its two halves, and the
outcome is written. Merging chooses without branches, so its speed does not depend on the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_types import F32
from tetrax.ir.views import Stored, parts
from tetrax.ops import axes as ax
from tetrax.ops.nests import load_scalar, store_scalar

Precedes = Callable[[Sequence[scalar.Scalar], Sequence[scalar.Scalar]], Any]


def total_less(x: Any, y: Any) -> Any:
    """x < y where NaN is larger than everything else and equal to itself; -0 equals 0."""
    if x.type.is_storage:
        x, y = kernel.convert(x, F32), kernel.convert(y, F32)
    less = kernel.lt(x, y)
    if not x.type.is_float:
        return less
    return kernel.bit_or(less, kernel.bit_and(kernel.eq(x, x), kernel.ne(y, y)))


def lexicographic(xs: Sequence[scalar.Scalar], ys: Sequence[scalar.Scalar]) -> Any:
    """Whether keys `xs` come before keys `ys`, the first key deciding first."""
    left = [part for x in xs for part in scalar.parts_of(x)]
    right = [part for y in ys for part in scalar.parts_of(y)]
    result = None
    for x, y in zip(reversed(left), reversed(right), strict=True):
        less = total_less(x, y)
        if result is None:
            result = less
        else:
            greater = total_less(y, x)
            undecided = kernel.logical_not(kernel.bit_or(less, greater))
            result = kernel.bit_or(less, kernel.bit_and(undecided, result))
    return result


def descending(xs: Sequence[scalar.Scalar], ys: Sequence[scalar.Scalar]) -> Any:
    """The reverse order of one real key: NaN comes first, and 0 before -0."""
    (x,), (y,) = xs, ys
    greater = total_less(y, x)
    if not (x.type.is_float or x.type.is_storage):
        return greater
    signs = kernel.lt(kernel.signed_bits_of(y), kernel.signed_bits_of(x))
    if x.type.is_storage:
        x, y = kernel.convert(x, F32), kernel.convert(y, F32)
    return kernel.bit_or(greater, kernel.bit_and(kernel.eq(x, y), signs))


class LineSorter:
    """Sorts lines of several arrays of one shape by their first `num_keys`."""

    def __init__(
        self,
        builder: KernelBuilder,
        shape: Sequence[int],
        dimension: int,
        dtypes: Sequence[Any],
        kinds: Sequence[Any],
        num_keys: int,
        precedes: Precedes,
    ) -> None:
        self.builder, self.num_keys, self.precedes = builder, num_keys, precedes
        self.length = shape[dimension]
        self.outer = ax.product(shape[:dimension])
        self.inner = ax.product(shape[dimension + 1 :])
        # Each array has two halves of scratch that change roles with every pass.
        self.work = [
            Stored(
                builder.temporary(kind, 2 * self.length * parts(dtype)), (2 * self.length,), dtype
            )
            for dtype, kind in zip(dtypes, kinds, strict=True)
        ]

    def run(self, read: Callable[[Any, Any], Sequence[scalar.Scalar]], write: Callable) -> None:
        """Sort every line.

        `read(line, position)` gives the elements of all arrays; `write(line, position, elements)`
        takes them in order.
        """
        builder, n = self.builder, self.length
        with builder.loop(self.outer) as outer, builder.loop(self.inner) as inner:
            line = (outer, inner)
            with builder.loop(n) as position:
                for target, value in zip(self.work, read(line, position), strict=True):
                    store_scalar(builder, target, position, value)
            base = self._merge_passes()
            with builder.loop(n) as position:
                write(line, position, self._elements(kernel.add(base, position)))

    def _elements(self, offset: Any) -> list[scalar.Scalar]:
        return [load_scalar(self.builder, x, offset) for x in self.work]

    def _merge_passes(self) -> Any:
        """Merge runs of width 1, 2, 4 …; returns where the sorted half begins."""
        builder, n = self.builder, self.length
        width = builder.carry("width", kernel.index(1))
        base = builder.carry("base", kernel.index(0))
        with builder.while_loop(lambda: kernel.lt(width.value, kernel.index(n))):
            run, source = width.value, base.value
            target = kernel.sub(kernel.index(n), source)
            pair = kernel.mul(run, 2)
            pairs = kernel.div(kernel.add(kernel.index(n - 1), pair), pair)
            with builder.loop(pairs) as index:
                self._merge(kernel.mul(index, pair), run, source, target)
            width.set(pair)
            base.set(target)
        return base.value

    def _merge(self, start: Any, run: Any, source: Any, target: Any) -> None:
        """Merge two neighbouring runs; of equal keys those of the left run come first."""
        builder, last = self.builder, kernel.index(self.length)
        middle = kernel.minimum(kernel.add(start, run), last)
        stop = kernel.minimum(kernel.add(middle, run), last)
        left, right = builder.carry("left", start), builder.carry("right", middle)
        with builder.loop(kernel.sub(stop, start)) as step:
            i, j = left.value, right.value
            inside = kernel.index(self.length - 1)
            x = self._keys(kernel.add(source, kernel.minimum(i, inside)))
            y = self._keys(kernel.add(source, kernel.minimum(j, inside)))
            right_first = kernel.bit_and(kernel.lt(j, stop), self.precedes(y, x))
            take_right = kernel.bit_or(kernel.ge(i, middle), right_first)
            chosen = kernel.add(source, kernel.select(take_right, j, i))
            place = kernel.add(target, kernel.add(start, step))
            for stored, value in zip(self.work, self._elements(chosen), strict=True):
                store_scalar(builder, stored, place, value)
            moved = kernel.convert(take_right, kernel.INDEX)
            left.set(kernel.add(i, kernel.sub(kernel.index(1), moved)))
            right.set(kernel.add(j, moved))

    def _keys(self, offset: Any) -> list[scalar.Scalar]:
        return [load_scalar(self.builder, x, offset) for x in self.work[: self.num_keys]]


__all__ = ["LineSorter", "descending", "lexicographic", "total_less"]
