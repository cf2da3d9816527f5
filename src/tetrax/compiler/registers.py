"""Values in registers: small arrays whose elements are scalar expressions, not memory.

A lane space is the shape that a loop's iterations are independent over, for instance the batch of
a mapped loop; `()` where there is none. An array is held for one lane: its leading axes are the
lane space (or it is the same in every lane), and the few elements behind them are scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tetrax.compiler.nest import NotFusable, load_element, row_major
from tetrax.ir import kernel as k
from tetrax.ir import scalar as s
from tetrax.ir.kernel_constants import const_value
from tetrax.ir.kernel_expr import Buffer, Expr, FoldShape, walk
from tetrax.ir.kernel_index import index_constant
from tetrax.ir.kernel_simplify import rebuild_simplified, substitute_simplified
from tetrax.ir.views import Index, View, element_type, parts
from tetrax.ops import axes as ax

# An array of more elements a lane than this stays in memory.
MAX_HELD = 16
# A fold over held elements is written out if it takes at most this many steps.
MAX_UNROLLED = 64
# An element at an index that is not constant is chosen from at most this many.
MAX_CHOICES = 16


@dataclass(frozen=True)
class LaneSpace:
    """The independent iterations around a loop: their shape and the index of the current one."""

    shape: tuple[int, ...]
    identity: Index

    @staticmethod
    def of(shape: tuple[int, ...]) -> LaneSpace:
        identity = tuple(
            k.index(0) if extent == 1 else k.index_variable(f"lane{axis}", extent)
            for axis, extent in enumerate(shape)
        )
        return LaneSpace(shape, identity)

    def rank(self, shape: Sequence[int]) -> int:
        """How many leading axes of an array of `shape` are lanes."""
        rank = len(self.shape)
        return rank if rank and tuple(shape[:rank]) == self.shape else 0

    def inner(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The axes of an array that one lane holds whole."""
        return tuple(shape[self.rank(shape) :])

    def indices(self, shape: Sequence[int]) -> list[Index]:
        """The index of each element that one lane holds, in memory order."""
        lane = self.identity[: self.rank(shape)]
        inner = product(*(range(extent) for extent in self.inner(shape)))
        return [(*lane, *(index_constant(i) for i in at)) for at in inner]

    def can_hold(self, shape: Sequence[int]) -> bool:
        return ax.product(self.inner(shape)) <= MAX_HELD


class Registers:
    """Held arrays, and the rewriting that turns reads of them into the scalars they are."""

    def __init__(self, lanes: LaneSpace) -> None:
        self.lanes = lanes
        self._cells: dict[Buffer, list[Expr]] = {}
        # Expressions without reads from held arrays.
        self._resolved: set[Expr] = set()

    def hold(self, shape: tuple[int, ...], dtype: Any, elements: Sequence[s.Scalar]) -> View:
        """The array with these elements (in memory order, of the current lane)."""
        lanes, rank = self.lanes, self.lanes.rank(shape)
        inner = shape[rank:]
        cells = [part for element in elements for part in s.parts_of(element)]
        # Reads at indices that are not constant yet go through memory that does not exist.
        buffer = Buffer(f"held{len(self._cells)}", element_type(dtype), len(cells))
        self._cells[buffer] = cells

        def at(index: Index) -> s.Scalar:
            if index[:rank] != lanes.identity[:rank]:
                raise NotFusable
            offset = row_major(inner, index[rank:])
            if offset.op == "const":
                return elements[int(const_value(offset))]
            return load_element(buffer, dtype, offset)

        return View(shape, dtype, at)

    def unknown(self, shape: tuple[int, ...], dtype: Any, name: str) -> list[s.Scalar]:
        """Fresh variables for the elements of an array."""
        kind, count = element_type(dtype), parts(dtype)
        return [
            s.from_parts([k.variable(name, kind) for _ in range(count)])
            for _ in range(ax.product(self.lanes.inner(shape)))
        ]

    def elements(self, view: View) -> list[s.Scalar]:
        """All elements of a view that one lane holds, free of reads from held arrays.

        Raises NotFusable where that takes too many expressions.
        """
        found = [view.at(index) for index in self.lanes.indices(view.shape)]
        flat = self.resolve([part for element in found for part in s.parts_of(element)])
        step = parts(view.dtype)
        return [s.from_parts(flat[at : at + step]) for at in range(0, len(flat), step)]

    def resolve(self, roots: Sequence[Expr]) -> list[Expr]:
        """Expressions without reads from held arrays: folds over them are written out."""
        new = walk(roots, self._resolved)
        if not any(self._is_held(node) for node in new):
            self._resolved.update(new)
            return list(roots)
        done: dict[Expr, Expr] = {}
        unrolled: dict[Expr, list[Expr]] = {}
        for node in new:
            args = tuple(done.get(arg, arg) for arg in node.args)
            if node.op == "fold" and self._must_unroll(node.data, args):
                unrolled[node], done[node] = _written_out(node.data, args), node
            elif node.op == "result" and node.args[0] in unrolled:
                done[node] = unrolled[node.args[0]][node.data]
            else:
                done[node] = rebuild_simplified(node, args)
        return self._read([done.get(root, root) for root in roots])

    def _is_held(self, node: Expr) -> bool:
        return node.op == "load" and node.data in self._cells

    def _must_unroll(self, shape: FoldShape, args: tuple[Expr, ...]) -> bool:
        bound = set(shape.variables)
        return any(self._is_held(node) and node.free & bound for node in walk(args, self._resolved))

    def _read(self, roots: list[Expr]) -> list[Expr]:
        done: dict[Expr, Expr] = {}
        for node in walk(roots, self._resolved):
            args = tuple(done.get(arg, arg) for arg in node.args)
            if self._is_held(node):
                done[node] = _chosen(self._cells[node.data], args[0])
            else:
                done[node] = rebuild_simplified(node, args)
        results = [done.get(root, root) for root in roots]
        self._resolved.update(walk(results, self._resolved))
        return results


def _chosen(cells: list[Expr], offset: Expr) -> Expr:
    if offset.op == "const":
        return cells[int(const_value(offset))]
    if len(cells) > MAX_CHOICES:
        raise NotFusable
    value = cells[-1]
    for at in reversed(range(len(cells) - 1)):
        value = k.select(k.eq(offset, k.index(at)), cells[at], value)
    return value


def _written_out(shape: FoldShape, args: tuple[Expr, ...]) -> list[Expr]:
    """The results of a fold as the expression of all its steps."""
    loops, carried = len(shape.variables), len(shape.accumulators)
    extents = [int(const_value(e)) if e.op == "const" else MAX_UNROLLED + 1 for e in args[:loops]]
    if ax.product(extents) > MAX_UNROLLED:
        raise NotFusable
    values = list(args[loops : loops + carried])
    updates = args[loops + carried :]
    for step in product(*(range(extent) for extent in extents)):
        now = dict(zip(shape.variables, map(index_constant, step), strict=True))
        now |= dict(zip(shape.accumulators, values, strict=True))
        values = substitute_simplified(updates, now)
    return values


__all__ = ["LaneSpace", "Registers"]
