"""Loop nests from kernel rules: equations of one iteration space become one kernel.

Rules compose as functions from index to scalar. A value computed in the same nest is used as the
expression it is; a stored one is loaded; everything else is computed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tetrax.ir import kernel as k
from tetrax.ir import scalar as s
from tetrax.ir.atoms import Atom, Literal, Var
from tetrax.ir.kernel_constants import const
from tetrax.ir.kernel_expr import Buffer, Expr, walk
from tetrax.ir.kernel_index import stride_of
from tetrax.ir.program import Equation
from tetrax.ir.types import storage_dtype
from tetrax.ir.views import View, element_type, is_complex, parts
from tetrax.ops import axes as ax


class NotFusable(Exception):
    """A value of the nest is needed at another index than the one being computed."""


@dataclass(frozen=True)
class Nest:
    """A kernel with the variables behind its buffers, in order."""

    kernel: k.Kernel
    reads: tuple[Var, ...]
    writes: tuple[Var, ...]


class NestBuilder:
    """Builds the kernel of some variables of one shape.

    `definitions` gives the pure equation of a variable that is not stored; `stored` says which are.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        definitions: Mapping[Var, Equation],
        is_stored: Callable[[Var], bool],
    ) -> None:
        self.shape = shape
        self.definitions = definitions
        self.is_stored = is_stored
        self.buffers: dict[Var, Buffer] = {}
        self.members: dict[Var, s.Scalar] = {}
        self._views: dict[Any, View] = {}
        self.flat: Expr | None = None
        self.identity: tuple[Expr, ...] = ()

    def build(self, members: Sequence[Var], writes: Sequence[Var], name: str) -> Nest:
        """The kernel that computes `members` in order and stores `writes`.

        Raises NotFusable if a member is needed at an index other than the identity.
        """
        size = ax.product(self.shape)
        self.identity = tuple(
            k.index(0) if extent == 1 else k.index_variable(f"i{axis}", extent)
            for axis, extent in enumerate(self.shape)
        )
        self.flat = k.index_variable("i", size) if self.shape else None
        if not self._compute(members) or self._mentions_identity():
            self.flat = None
            self._compute(members)
        outputs = {var: buffer_of(f"out{i}", var, "out") for i, var in enumerate(writes)}
        stores = [
            store for var in writes for store in self._stores(outputs[var], self.members[var])
        ]
        body = self._loops(k.block(*stores), size)
        reads = tuple(self.buffers)
        buffers = (*self.buffers.values(), *outputs.values())
        return Nest(k.Kernel(name, buffers, (), body), reads, tuple(writes))

    def fits(self, members: Mapping[Var, s.Scalar], var: Var) -> bool:
        """Whether `var` can be computed in one nest with `members`, all at the same index.

        The members stand as scalars that are not known, so the cost is that of `var` alone.
        """
        self.flat = None
        self.identity = tuple(
            k.index(0) if extent == 1 else k.index_variable(f"i{axis}", extent)
            for axis, extent in enumerate(self.shape)
        )
        self.members = dict(members)
        try:
            self._definition_view(var).at(self.identity)
        except NotFusable:
            return False
        return True

    # -- views ---------------------------------------------------------------------------------

    def _compute(self, members: Sequence[Var]) -> bool:
        """Fill `self.members`; False if flat addressing turned out not to do."""
        self._views.clear()
        self.members.clear()
        self.buffers.clear()
        self._flat_works = True
        for var in members:
            self.members[var] = self._definition_view(var).at(self.identity)
            if self.flat is not None and not self._flat_works:
                return False
        return True

    def view(self, atom: Atom) -> View:
        if isinstance(atom, Literal):
            return constant_view(atom)
        if atom in self.members:
            return View(atom.aval.shape, atom.aval.dtype, lambda index: self._member(atom, index))
        if self.is_stored(atom):
            return self._stored_view(atom)
        return self._definition_view(atom)

    def _member(self, var: Var, index: tuple[Expr, ...]) -> s.Scalar:
        if index != self.identity:
            raise NotFusable
        return self.members[var]

    def _definition_view(self, var: Var) -> View:
        found = self._views.get(var)
        if found is None:
            eqn = self.definitions[var]
            operands = [self.view(atom) for atom in eqn.invars]
            outs = [v.aval for v in eqn.outvars]
            views = eqn.primitive.kernel(operands, outs, **eqn.params)
            views = views if eqn.primitive.multiple_results else [views]
            for out, made in zip(eqn.outvars, views, strict=True):
                self._views[out] = memoised(made)
            found = self._views[var]
        return found

    def _stored_view(self, var: Var) -> View:
        found = self._views.get(var)
        if found is None:
            buffer = self.buffers.get(var)
            if buffer is None:
                buffer = self.buffers[var] = buffer_of(f"in{len(self.buffers)}", var, "in")
            found = self._views[var] = View(
                var.aval.shape,
                var.aval.dtype,
                lambda index: load_element(buffer, var.aval.dtype, self._offset(var, index)),
            )
        return found

    def _offset(self, var: Var, index: tuple[Expr, ...]) -> Expr:
        shape = var.aval.shape
        if self.flat is not None and shape:
            if shape == self.shape and index == self.identity:
                return self.flat
            self._flat_works = False
        return row_major(shape, index)

    def _mentions_identity(self) -> bool:
        dummies = {variable for variable in self.identity if variable.op == "var"}
        return any(
            part.free & dummies for value in self.members.values() for part in s.parts_of(value)
        )

    # -- statements ----------------------------------------------------------------------------

    def _stores(self, buffer: Buffer, value: s.Scalar) -> list[k.Statement]:
        offset = self.flat if self.flat is not None else row_major(self.shape, self.identity)
        return store_element(buffer, offset, value)

    def _loops(self, body: k.Statement, size: int) -> k.Statement:
        if self.flat is not None:
            return k.loop(self.flat, size, body, kind="vector")
        variables = [v for v in self.identity if v.op == "var"]
        extents = [extent for extent in self.shape if extent != 1]
        values = [p for value in self.members.values() for p in s.parts_of(value)]
        for depth, (variable, extent) in enumerate(
            zip(variables[::-1], extents[::-1], strict=True)
        ):
            innermost = depth == 0 and not prefers_inner_fold(values, variable)
            kind = "vector" if innermost else "serial"
            body = k.loop(variable, extent, body, kind=kind)
        return body


def prefers_inner_fold(values: Sequence[Expr], variable: Expr) -> bool:
    """Whether a fold reads memory in order along its own variable but not along `variable`."""
    for node in walk(values):
        if node.op != "fold" or not node.data.variables:
            continue
        inner = node.data.variables[-1]
        loads = [n for n in walk([node]) if n.op == "load"]
        if any(
            stride_of(n.args[0], inner) == 1 and stride_of(n.args[0], variable) not in (0, 1)
            for n in loads
        ):
            return True
    return False


def row_major(shape: Sequence[int], index: Sequence[Expr]) -> Expr:
    """The flat offset of `index` in a row-major array of `shape`."""
    offset = k.index(0)
    step = 1
    for extent, position in zip(reversed(shape), reversed(index), strict=True):
        if extent != 1:
            offset = k.add(offset, k.mul(position, k.index(step)))
        step *= extent
    return offset


def load_element(buffer: Buffer, dtype: Any, offset: Expr) -> s.Scalar:
    """The element at `offset`; complex elements are two neighbours."""
    if not is_complex(dtype):
        return k.load(buffer, offset)
    double = k.mul(offset, k.index(2))
    return s.Complex(k.load(buffer, double), k.load(buffer, k.add(double, k.index(1))))


def store_element(buffer: Buffer, offset: Expr, value: s.Scalar) -> list[k.Statement]:
    """The statements that store one element."""
    if not isinstance(value, s.Complex):
        return [k.store(buffer, offset, value)]
    double = k.mul(offset, k.index(2))
    return [
        k.store(buffer, double, value.re),
        k.store(buffer, k.add(double, k.index(1)), value.im),
    ]


def unknown(var: Var) -> s.Scalar:
    """A scalar of the type of `var` that stands for its value."""
    kind = element_type(var.aval.dtype)
    return s.from_parts([k.variable("member", kind) for _ in range(parts(var.aval.dtype))])


def constant_view(literal: Literal) -> View:
    """A scalar literal as a view."""
    dtype = literal.aval.dtype
    value: Any = literal.scalar[()]
    kind = element_type(dtype)
    if is_complex(dtype):
        made: s.Scalar = s.Complex(const(value.real, kind), const(value.imag, kind))
    else:
        made = const(value, kind)
    return View((), dtype, lambda index: made)


def buffer_of(name: str, var: Var, mode: str) -> Buffer:
    """A buffer for the value of a variable."""
    aval = var.aval
    return Buffer(name, element_type(aval.dtype), aval.size * parts(aval.dtype), mode)


def memoised(view: View) -> View:
    """The view with its scalars remembered per index, so that shared values stay shared."""
    table: dict[tuple[Expr, ...], s.Scalar] = {}

    def at(index: tuple[Expr, ...]) -> s.Scalar:
        found = table.get(index)
        if found is None:
            found = table[index] = view.at(index)
        return found

    return View(view.shape, view.dtype, at)


def nbytes(aval: Any) -> int:
    """Bytes that an array of type `aval` takes."""
    return aval.size * storage_dtype(aval.dtype).itemsize
