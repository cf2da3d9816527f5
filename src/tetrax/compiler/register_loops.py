"""Loops whose carries fit in registers, as one kernel.

A scan or while loop over scalars and small arrays becomes a machine loop with its carries in
registers; over a batch (all carries of one leading shape, nothing passing between its elements) it
becomes that loop inside a loop over lanes. What does not fit so raises NotFusable and is lowered
step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tetrax.compiler.fuse import is_pure
from tetrax.compiler.nest import (
    NotFusable,
    constant_view,
    load_element,
    memoised,
    row_major,
    store_element,
)
from tetrax.compiler.registers import LaneSpace, Registers
from tetrax.ir import kernel as k
from tetrax.ir import scalar as s
from tetrax.ir.atoms import Atom, DropVar, Literal, Var
from tetrax.ir.control import Branch, Scan, While
from tetrax.ir.kernel_expr import Buffer, Expr, walk
from tetrax.ir.program import ClosedProgram, Equation
from tetrax.ir.views import Index, View, element_type, parts
from tetrax.ops import axes as ax
from tetrax.ops.reduce import reduce_or_p

MIN_LANES = 4
"""Elements below which they are better computed side by side than in lanes."""
MAX_CARRIED = 128
"""Scalars that a loop may carry."""
MAX_NODES = 4000
"""Expressions of a loop body: beyond, code size costs more than memory traffic."""
MAX_BRANCH_NODES = 200
"""Expressions of a branch that is computed although another one is chosen."""


@dataclass(frozen=True)
class LoopKernel:
    """A kernel with what its buffers are: operands (by position), constants, then results."""

    kernel: k.Kernel
    reads: tuple[Operand, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """An operand of the loop (`position`), or a constant array of a program inside it."""

    position: int
    constant: Any = None
    aval: Any = None


class _Memory:
    """Buffers of a loop kernel, made when something reads them."""

    def __init__(self) -> None:
        self.buffers: dict[Any, Buffer] = {}
        self.operands: dict[Any, Operand] = {}

    def view(self, key: Any, operand: Operand, aval: Any, at: Callable[[Index], Index]) -> View:
        """An array in memory of type `aval`, read at the index `at` makes of the one asked for."""
        size = aval.size * parts(aval.dtype)

        def element(index: Index) -> s.Scalar:
            buffer = self.buffers.get(key)
            if buffer is None:
                name = f"in{len(self.buffers)}"
                buffer = self.buffers[key] = Buffer(name, element_type(aval.dtype), size)
                self.operands[key] = operand
            return load_element(buffer, aval.dtype, row_major(aval.shape, at(index)))

        return View(aval.shape, aval.dtype, element)


class Evaluator:
    """Runs a program on views, holding what is small in registers."""

    def __init__(self, registers: Registers, memory: _Memory) -> None:
        self.registers, self.memory = registers, memory

    def run(self, program: ClosedProgram, operands: Sequence[View]) -> list[View]:
        inner = program.program
        env: dict[Var, View] = dict(zip(inner.invars, operands, strict=True))
        for var, value in zip(inner.constvars, program.consts, strict=True):
            env[var] = self._constant(var, value)
        for eqn in inner.eqns:
            for var, view in zip(eqn.outvars, self._equation(eqn, env), strict=True):
                if not isinstance(var, DropVar):
                    env[var] = self._held(view)
        return [_read(env, atom) for atom in inner.outvars]

    def _constant(self, var: Var, value: Any) -> View:
        operand = Operand(-1, getattr(value, "_npy", value), var.aval)
        return self.memory.view(id(value), operand, var.aval, lambda index: index)

    def _held(self, view: View) -> View:
        if not self.registers.lanes.can_hold(view.shape) or 0 in view.shape:
            return memoised(view)
        elements = self.registers.elements(view)
        return self.registers.hold(view.shape, view.dtype, elements)

    def _equation(self, eqn: Equation, env: dict[Var, View]) -> list[View]:
        primitive = eqn.primitive
        operands = [_read(env, atom) for atom in eqn.invars]
        if is_pure(eqn):
            views = primitive.kernel(operands, [v.aval for v in eqn.outvars], **eqn.params)
            return list(views) if primitive.multiple_results else [views]
        if primitive.structure is None or eqn.effects:
            raise NotFusable
        described = primitive.structure([a.aval for a in eqn.invars], **eqn.params)
        lowering = _NESTED.get(type(described))
        if lowering is None:
            raise NotFusable
        return lowering(self, described, operands)

    # -- control flow inside a loop ------------------------------------------------------------

    def _branch(self, described: Branch, operands: list[View]) -> list[View]:
        """Every branch is computed, and the results of one are chosen."""
        which, rest = operands[0].at(()), operands[1:]
        sides = [self.run(branch, rest) for branch in described.branches]
        for views in sides:
            for view in views:
                self._check_cheap(view)
        return [
            View(views[0].shape, views[0].dtype, _choice(which, views))
            for views in zip(*sides, strict=True)
        ]

    def _check_cheap(self, view: View) -> None:
        if not self.registers.lanes.can_hold(view.shape):
            raise NotFusable
        roots = [part for e in self.registers.elements(view) for part in s.parts_of(e)]
        nodes = walk(roots)
        if len(nodes) > MAX_BRANCH_NODES or any(n.op == "iterate" for n in nodes):
            raise NotFusable

    def _scan(self, described: Scan, operands: list[View]) -> list[View]:
        """An inner scan as a fold; its stacked results would need memory."""
        if len(described.body.out_avals) != described.carry:
            raise NotFusable
        step = k.index_variable("t", described.length)
        turn = self.turn(described, operands, step)
        rows = list(zip(turn.variables, turn.initial, turn.following, strict=True))
        results = k.fold([(step, described.length)], rows) if rows else ()
        return turn.held(self.registers, results)

    def turn(self, described: Scan, operands: Sequence[View], step: Expr) -> Turn:
        """One turn of a scan as expressions of `step` and of variables for the carries."""
        first, last = described.consts, described.consts + described.carry
        position = k.sub(k.index(described.length - 1), step) if described.reverse else step
        carries = self.carries(operands[first:last])
        slices = [_slice(view, position) for view in operands[last:]]
        outs = self.run(described.body, [*operands[:first], *carries.views, *slices])
        carries.close(self.registers, outs[: described.carry])
        carries.stacked = outs[described.carry :]
        return carries

    def _while(self, described: While, operands: list[View]) -> list[View]:
        turn, condition = self.while_turn(described, operands)
        rows = list(zip(turn.variables, turn.initial, turn.following, strict=True))
        return turn.held(self.registers, k.iterate(rows, condition))

    def while_turn(self, described: While, operands: Sequence[View]) -> tuple[Turn, Expr]:
        """One turn of a while loop, and its condition, as expressions of the carries."""
        split = described.condition_consts + described.body_consts
        carries = self.carries(operands[split:])
        (test,) = self.run(
            described.condition, [*operands[: described.condition_consts], *carries.views]
        )
        condition = s.parts_of(self.registers.elements(test)[0])[0]
        outs = self.run(
            described.body, [*operands[described.condition_consts : split], *carries.views]
        )
        carries.close(self.registers, outs)
        return carries, condition

    def carries(self, initial: Sequence[View]) -> Turn:
        """Variables for the carries of a loop."""
        lanes = self.registers.lanes
        turn = Turn([], [], [], [], [])
        for view in initial:
            if not lanes.can_hold(view.shape):
                raise NotFusable
            unknown = self.registers.unknown(view.shape, view.dtype, "carry")
            start = self.registers.elements(view)
            turn.variables += [p for e in unknown for p in s.parts_of(e)]
            turn.initial += [p for e in start for p in s.parts_of(e)]
            turn.views.append(self.registers.hold(view.shape, view.dtype, unknown))
        if len(turn.variables) > MAX_CARRIED:
            raise NotFusable
        return turn


@dataclass
class Turn:
    """A loop's carries: variables, initial and next values; as views; and stacked results."""

    variables: list[Expr]
    initial: list[Expr]
    following: list[Expr]
    views: list[View]
    stacked: list[View]

    def close(self, registers: Registers, outs: Sequence[View]) -> None:
        """Set the next values."""
        for view in outs:
            self.following += [p for e in registers.elements(view) for p in s.parts_of(e)]
        if len(walk(self.following)) > MAX_NODES:
            raise NotFusable

    def held(self, registers: Registers, flat: Sequence[Expr]) -> list[View]:
        """Values of the carries given as flat expressions, as views."""
        made, rest = [], list(flat)
        for view in self.views:
            step = parts(view.dtype)
            count = ax.product(registers.lanes.inner(view.shape)) * step
            mine, rest = rest[:count], rest[count:]
            elements = [s.from_parts(mine[at : at + step]) for at in range(0, count, step)]
            made.append(registers.hold(view.shape, view.dtype, elements))
        return made


def _lane_predicate(condition: ClosedProgram, lanes: tuple[int, ...]) -> ClosedProgram:
    """The predicate of each lane, of a condition that asks whether any holds."""
    program = condition.program
    (result,) = program.outvars
    last = program.eqns[-1] if program.eqns else None
    if last is None or last.primitive is not reduce_or_p or last.outvars[0] is not result:
        raise NotFusable
    (pred,) = last.invars
    if pred.aval.shape != lanes or set(last.params["axes"]) != set(range(len(lanes))):
        raise NotFusable
    return ClosedProgram(program.replace(outvars=[pred], eqns=program.eqns[:-1]), condition.consts)


def _read(env: dict[Var, View], atom: Atom) -> View:
    return constant_view(atom) if isinstance(atom, Literal) else env[atom]


def _choice(which: Expr, views: Sequence[View]) -> Callable[[Index], s.Scalar]:
    def at(index: Index) -> s.Scalar:
        value = views[-1].at(index)
        for number in reversed(range(len(views) - 1)):
            chosen = k.le(which, number) if number == 0 else k.eq(which, number)
            value = s.select(chosen, views[number].at(index), value)
        return value

    return at


def _slice(view: View, position: Expr) -> View:
    return View(view.shape[1:], view.dtype, lambda index: view.at((position, *index)))


_NESTED: dict[type, Callable[[Evaluator, Any, list[View]], list[View]]] = {
    Branch: Evaluator._branch,
    Scan: Evaluator._scan,
    While: Evaluator._while,
}


# -- a loop as a kernel --------------------------------------------------------------------------


def loop_kernel(
    eqn: Equation, described: Scan | While, wanted: Sequence[bool]
) -> LoopKernel | None:
    """The loop as one kernel that writes the `wanted` results; None where it does not fit."""
    for shape in _lane_shapes(eqn, described):
        try:
            return _Builder(eqn, wanted, LaneSpace.of(shape)).build(described)
        except NotFusable:
            continue
    return None


def _lane_shapes(eqn: Equation, described: Scan | While) -> Iterator[tuple[int, ...]]:
    """Lane spaces to try: what the largest carry's shape begins with, and none if all are small."""
    if isinstance(described, Scan):
        first, last = described.consts, described.consts + described.carry
    else:
        first, last = described.condition_consts + described.body_consts, len(eqn.invars)
    shapes = [atom.aval.shape for atom in eqn.invars[first:last]]
    if any(0 in shape for shape in shapes):
        return
    longest = max(shapes, key=ax.product, default=())
    for rank in range(len(longest), 0, -1):
        if ax.product(longest[:rank]) >= MIN_LANES:
            yield longest[:rank]
    if sum(map(ax.product, shapes)) <= MAX_CARRIED:
        yield ()


class _Builder:
    def __init__(self, eqn: Equation, wanted: Sequence[bool], lanes: LaneSpace) -> None:
        self.eqn, self.wanted, self.lanes = eqn, wanted, lanes
        self.memory = _Memory()
        self.registers = Registers(lanes)
        self.evaluator = Evaluator(self.registers, self.memory)
        self.outputs: dict[int, Buffer] = {}

    def build(self, described: Scan | While) -> LoopKernel:
        self._check_results(described)
        operands = [
            self.memory.view(i, Operand(i), atom.aval, lambda index: index)
            if not isinstance(atom, Literal)
            else constant_view(atom)
            for i, atom in enumerate(self.eqn.invars)
        ]
        body = self._scan(described, operands) if isinstance(described, Scan) else None
        if body is None:
            assert isinstance(described, While)
            body = self._while(described, operands)
        for axis in reversed(range(len(self.lanes.shape))):
            variable = self.lanes.identity[axis]
            if variable.op == "var":
                innermost = axis == len(self.lanes.shape) - 1
                kind = "vector" if innermost else "serial"
                body = k.loop(variable, self.lanes.shape[axis], body, kind=kind)
        buffers = (*self.memory.buffers.values(), *self.outputs.values())
        reads = tuple(self.memory.operands.values())
        return LoopKernel(k.Kernel("loop", buffers, (), body), reads, tuple(self.outputs))

    def _check_results(self, described: Scan | While) -> None:
        """Results must belong to lanes: one for all lanes would be stored by each of them."""
        if not self.lanes.shape:
            return
        carried = described.carry if isinstance(described, Scan) else len(self.eqn.outvars)
        for i, var in enumerate(self.eqn.outvars):
            shape = var.aval.shape if i < carried else var.aval.shape[1:]
            if self.wanted[i] and not self.lanes.rank(shape):
                raise NotFusable

    def _scan(self, described: Scan, operands: list[View]) -> k.Statement:
        step = k.index_variable("t", described.length)
        turn = self.evaluator.turn(described, operands, step)
        position = k.sub(k.index(described.length - 1), step) if described.reverse else step
        stores: list[k.Statement] = []
        for i, view in enumerate(turn.stacked, described.carry):
            if self.wanted[i]:
                stores += self._stores(i, view, (position,))
        rows = list(zip(turn.variables, turn.initial, turn.following, strict=True))
        loop = k.loop(step, described.length, k.block(*stores), rows)
        return k.block(loop, *self._finals(turn, turn.variables))

    def _while(self, described: While, operands: list[View]) -> k.Statement:
        if self.lanes.shape:
            return self._while_in_lanes(described, operands)
        turn, condition = self.evaluator.while_turn(described, operands)
        carried = tuple(
            k.Carried(*row)
            for row in zip(turn.variables, turn.initial, turn.following, strict=True)
        )
        loop = k.While(carried, condition, k.block())
        return k.block(loop, *self._finals(turn, turn.variables))

    def _while_in_lanes(self, described: While, operands: list[View]) -> k.Statement:
        """A batched loop, each lane of which stops on its own.

        The batched loop runs while any lane's predicate holds and changes those lanes only, which
        is the same if (and this is checked) every carry is kept where the predicate fails.
        """
        pred = _lane_predicate(described.condition, self.lanes.shape)
        turn, condition = self.evaluator.while_turn(replace(described, condition=pred), operands)
        rows = []
        for variable, initial, following in zip(
            turn.variables, turn.initial, turn.following, strict=True
        ):
            if following is not variable:
                if following.op != "select" or following.args[::2] != (condition, variable):
                    raise NotFusable
                following = following.args[1]
            rows.append((variable, initial, following))
        return k.block(*self._finals(turn, k.iterate(rows, condition)))

    def _finals(self, turn: Turn, values: Sequence[Expr]) -> list[k.Statement]:
        stores = []
        for i, view in enumerate(turn.held(self.registers, values)):
            if self.wanted[i]:
                stores += self._stores(i, view, ())
        return stores

    def _stores(self, result: int, view: View, prefix: Index) -> list[k.Statement]:
        """Statements that store a view as (a slice at `prefix` of) a result of the loop."""
        aval = self.eqn.outvars[result].aval
        if not self.lanes.can_hold(view.shape):
            raise NotFusable
        size = aval.size * parts(aval.dtype)
        buffer = Buffer(f"out{len(self.outputs)}", element_type(aval.dtype), size, "out")
        self.outputs[result] = buffer
        made: list[k.Statement] = []
        for index, element in zip(
            self.lanes.indices(view.shape), self.registers.elements(view), strict=True
        ):
            offset = row_major(aval.shape, (*prefix, *index))
            made += store_element(buffer, offset, element)
        return made


__all__ = ["LoopKernel", "Operand", "loop_kernel"]
