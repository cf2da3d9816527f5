"""Kernels that go over memory row by row: reductions of a row together with what they are for.

A row nest runs over the leading axes of its members. A member that is one scalar a row (a maximum,
a mean) is an expression; one that is a vector a row is a loop, and is kept in a row-sized buffer if
a later member reads it elsewhere than at its own index. So a softmax or a normalisation reads its
operand from memory once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tetrax.compiler.nest import (
    Nest,
    NestBuilder,
    NotFusable,
    buffer_of,
    load_element,
    row_major,
    store_element,
)
from tetrax.ir import kernel as k
from tetrax.ir import scalar as s
from tetrax.ir.atoms import Var
from tetrax.ir.kernel_expr import Buffer, Expr
from tetrax.ir.program import Equation
from tetrax.ir.views import element_type, parts
from tetrax.ops import axes as ax

MAX_ROW_BYTES = 1 << 16
"""Memory of one row's buffers, so that they stay near the processor."""


@dataclass(eq=False)
class _RowLoop:
    """Vector members computed in one loop along the row."""

    inner: tuple[int, ...]
    variables: tuple[Expr, ...]
    members: list[Var] = field(default_factory=list)


class RowNestBuilder(NestBuilder):
    """Builds the kernel of members whose shapes begin with `rows`."""

    def __init__(
        self,
        rows: tuple[int, ...],
        definitions: Mapping[Var, Equation],
        is_stored: Callable[[Var], bool],
    ) -> None:
        super().__init__(rows, definitions, is_stored)
        self.flat = None
        self.identity = _variables("row", rows)
        self._steps: list[Var | _RowLoop] = []
        self._open: _RowLoop | None = None
        self._loops_of: dict[Var, _RowLoop] = {}
        self._kept: dict[Var, Buffer] = {}

    def build(self, members: Sequence[Var], writes: Sequence[Var], name: str) -> Nest:
        """The kernel that computes `members` in order and stores `writes`.

        Raises NotFusable if a member is needed at another row, or a row takes too much memory.
        """
        self._flat_works = True
        for var in members:
            self._add(var)
        if sum(b.size * b.element.bytes for b in self._kept.values()) > MAX_ROW_BYTES:
            raise NotFusable
        outputs = {var: buffer_of(f"out{i}", var, "out") for i, var in enumerate(writes)}
        body = k.block(*(self._statement(step, outputs) for step in self._steps))
        for variable, extent in reversed(list(zip(self.identity, self.shape, strict=True))):
            if variable.op == "var":
                body = k.loop(variable, extent, body, kind="parallel")
        buffers = (*self.buffers.values(), *self._kept.values(), *outputs.values())
        return Nest(k.Kernel(name, buffers, (), body), tuple(self.buffers), tuple(writes))

    def _add(self, var: Var) -> None:
        inner = var.aval.shape[len(self.shape) :]
        if ax.product(inner) == 1:
            index = (*self.identity, *(k.index(0) for _ in inner))
            self.members[var] = self._definition_view(var).at(index)
            self._steps.append(var)
            return
        if self._open is not None and self._open.inner == inner:
            loop = self._open
            value = self._definition_view(var).at((*self.identity, *loop.variables))
            if loop is self._open:
                self._place(var, value, loop)
                return
        loop = self._open = _RowLoop(inner, _variables("along", inner))
        # What is computed meanwhile may close other loops, but not this one: it has no members.
        value = self._definition_view(var).at((*self.identity, *loop.variables))
        self._open = loop
        self._steps.append(loop)
        self._place(var, value, loop)

    def _place(self, var: Var, value: s.Scalar, loop: _RowLoop) -> None:
        self.members[var] = value
        self._loops_of[var] = loop
        loop.members.append(var)

    def _member(self, var: Var, index: tuple[Expr, ...]) -> s.Scalar:
        rank = len(self.shape)
        if index[:rank] != self.identity:
            raise NotFusable
        loop = self._loops_of.get(var)
        if loop is None:
            return self.members[var]
        if loop is self._open:
            if index[rank:] == loop.variables:
                return self.members[var]
            self._open = None
        buffer = self._kept.get(var)
        if buffer is None:
            count = ax.product(loop.inner) * parts(var.aval.dtype)
            element = element_type(var.aval.dtype)
            buffer = self._kept[var] = Buffer(f"row{len(self._kept)}", element, count, "temp")
        return load_element(buffer, var.aval.dtype, row_major(loop.inner, index[rank:]))

    def _statement(self, step: Var | _RowLoop, outputs: Mapping[Var, Buffer]) -> k.Statement:
        if isinstance(step, Var):
            if step not in outputs:
                return k.block()
            inner = (k.index(0),) * (len(step.aval.shape) - len(self.shape))
            offset = row_major(step.aval.shape, (*self.identity, *inner))
            return k.block(*store_element(outputs[step], offset, self.members[step]))
        stores: list[k.Statement] = []
        for var in step.members:
            value = self.members[var]
            if var in self._kept:
                offset = row_major(step.inner, step.variables)
                stores += store_element(self._kept[var], offset, value)
            if var in outputs:
                offset = row_major(var.aval.shape, (*self.identity, *step.variables))
                stores += store_element(outputs[var], offset, value)
        body = k.block(*stores)
        kind = "vector"
        for variable, extent in reversed(list(zip(step.variables, step.inner, strict=True))):
            if variable.op == "var":
                body, kind = k.loop(variable, extent, body, kind=kind), "serial"
        return body if stores else k.block()


def _variables(name: str, shape: Sequence[int]) -> tuple[Expr, ...]:
    return tuple(
        k.index(0) if extent == 1 else k.index_variable(f"{name}{axis}", extent)
        for axis, extent in enumerate(shape)
    )


__all__ = ["RowNestBuilder"]
