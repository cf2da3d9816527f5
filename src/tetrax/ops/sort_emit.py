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


def lexicographic(xs: Sequence[Any], ys: Sequence[Any]) -> Any:
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
        # Runs are merged from one scratch array of each kind into another, and back.
        self.work, self.spare = (
            [
                Stored(builder.temporary(kind, self.length * parts(dtype)), (self.length,), dtype)
                for dtype, kind in zip(dtypes, kinds, strict=True)
            ]
            for _ in range(2)
        )

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
            self._merge_passes()
            with builder.loop(n) as position:
                write(line, position, [load_scalar(builder, x, position) for x in self.work])

    def _merge_passes(self) -> None:
        """Merge runs of width 1, 2, 4 …; two passes a turn, so that all end where they began."""
        builder = self.builder
        width = builder.carry("width", kernel.index(1))
        with builder.while_loop(lambda: kernel.lt(width.value, kernel.index(self.length))):
            once = width.value
            twice = kernel.mul(once, 2)
            self._merge_pass(once, self.work, self.spare)
            self._merge_pass(twice, self.spare, self.work)
            width.set(kernel.mul(twice, 2))

    def _merge_pass(self, run: Any, source: Sequence[Stored], target: Sequence[Stored]) -> None:
        builder, n = self.builder, self.length
        pair = kernel.mul(run, 2)
        pairs = kernel.div(kernel.add(kernel.index(n - 1), pair), pair)
        with builder.loop(pairs) as index:
            start = kernel.mul(index, pair)
            whole = kernel.le(kernel.add(start, pair), kernel.index(n))
            with builder.when(whole):
                self._merge_equal(start, run, source, target)
            with builder.otherwise():
                self._merge(start, run, source, target)

    def _merge_equal(
        self, start: Any, run: Any, source: Sequence[Stored], target: Sequence[Stored]
    ) -> None:
        """Merge two runs of one length from both ends at once.

        In `run` steps neither end can leave its runs, so nothing needs to be checked; and the two
        ends do not wait for each other.
        """
        builder, one = self.builder, kernel.index(1)
        middle = kernel.add(start, run)
        left, right = builder.carry("left", start), builder.carry("right", middle)
        high_left = builder.carry("high_left", kernel.sub(middle, one))
        high_right = builder.carry("high_right", kernel.sub(kernel.add(middle, run), one))
        last = kernel.sub(kernel.add(middle, run), one)
        with builder.loop(run) as step:
            i, j, a, b = left.value, right.value, high_left.value, high_right.value
            x, y, low_x, low_y = (self._keys(source, place) for place in (a, b, i, j))
            take_right = kernel.convert(self.precedes(low_y, low_x), kernel.INDEX)
            take_left = kernel.convert(self.precedes(y, x), kernel.INDEX)
            low, high = kernel.add(start, step), kernel.sub(last, step)
            self._move(source, target, low, take_right, j, i)
            self._move(source, target, high, take_left, a, b)
            left.set(kernel.add(i, kernel.sub(one, take_right)))
            right.set(kernel.add(j, take_right))
            high_left.set(kernel.sub(a, take_left))
            high_right.set(kernel.sub(b, kernel.sub(one, take_left)))

    def _move(
        self,
        source: Sequence[Stored],
        target: Sequence[Stored],
        place: Any,
        takes: Any,
        chosen: Any,
        other: Any,
    ) -> None:
        """Store the elements at offset `chosen` if `takes` is 1, those at `other` if it is 0.

        By arithmetic: LLVM makes a branch of a select here, which random data mispredict.
        """
        offset = kernel.add(other, kernel.mul(takes, kernel.sub(chosen, other)))
        for old, new in zip(source, target, strict=True):
            store_scalar(self.builder, new, place, load_scalar(self.builder, old, offset))

    def _merge(
        self, start: Any, run: Any, source: Sequence[Stored], target: Sequence[Stored]
    ) -> None:
        """Merge two neighbouring runs; of equal keys those of the left run come first."""
        builder, last = self.builder, kernel.index(self.length)
        middle = kernel.minimum(kernel.add(start, run), last)
        stop = kernel.minimum(kernel.add(middle, run), last)
        left, right = builder.carry("left", start), builder.carry("right", middle)
        with builder.loop(kernel.sub(stop, start)) as step:
            i, j = left.value, right.value
            inside = kernel.index(self.length - 1)
            x_at, y_at = kernel.minimum(i, inside), kernel.minimum(j, inside)
            x, y = self._keys(source, x_at), self._keys(source, y_at)
            right_first = kernel.bit_and(kernel.lt(j, stop), self.precedes(y, x))
            take_right = kernel.bit_or(kernel.ge(i, middle), right_first)
            moved = kernel.convert(take_right, kernel.INDEX)
            place = kernel.add(start, step)
            self._move(source, target, place, moved, y_at, x_at)
            left.set(kernel.add(i, kernel.sub(kernel.index(1), moved)))
            right.set(kernel.add(j, moved))

    def _keys(self, source: Sequence[Stored], offset: Any) -> list[scalar.Scalar]:
        return [load_scalar(self.builder, x, offset) for x in source[: self.num_keys]]


__all__ = ["LineSorter", "lexicographic", "total_less"]
