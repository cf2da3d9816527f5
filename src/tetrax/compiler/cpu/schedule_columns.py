"""Reductions along columns, row by row: memory is read in its order.

    vector loop j<n: y[j] = fold i<m of x[i * n + j]
        becomes
    vector loop j<n: sums[j] = 0
    loop g<m/16: vector loop j<n: sums[j] += fold i<16 of x[(16 * g + i) * n + j]
    vector loop j<n: y[j] = sums[j]

`sums` stays in the first-level cache, so that only `x` comes from memory. A long sum of f32 is
formed in f64. Columns that do not fill registers are covered by a last piece that begins earlier
and has sums of its own: nothing is computed one column at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tetrax.compiler.cpu.emit_fold_steps import WIDENED, identity
from tetrax.compiler.cpu.schedule_folds import (
    NewBuffer,
    is_long_sum,
    steps_of,
    turns,
)
from tetrax.compiler.cpu.schedule_legality import may_run_twice
from tetrax.compiler.cpu.schedule_rewrite import substituter
from tetrax.compiler.cpu.vectorise import all_loads
from tetrax.ir.kernel_expr import BINDING_OPS, Buffer, Expr, fold_parts, make, walk
from tetrax.ir.kernel_index import stride_of
from tetrax.ir.kernel_loops import fold, load
from tetrax.ir.kernel_operations import (
    add,
    binary,
    convert,
    index_variable,
    minimum,
    mul,
    variable,
)
from tetrax.ir.kernel_statements import Block, If, Loop, Statement, Store, While, block, index
from tetrax.ir.kernel_types import F64

LEAST_ROWS, LEAST_ELEMENTS = 32, 16_384
"""Rows, and elements altogether, from which it is worth while."""
LEAST_STRIDE = 16
"""Elements between rows: with fewer, columns share cache lines anyway."""
GROUPS = (16, 20, 12, 18, 14, 24, 10, 22, 8)
"""Rows read at a time: the first of these that leaves no rest."""
WIDTH, WIDE = 1024, 2048
"""More than 2048 columns are taken 1024 at a time."""
PIECE = 32
"""Columns are taken in a multiple of so many where there are enough."""
LINE = 64


def by_rows(
    statement: Statement, new_buffer: NewBuffer, task: Expr | None = None, copies: int = 1
) -> Statement:
    """A statement with reductions along columns done row by row; `task` of `copies` runs it."""

    def inside(inner: Statement) -> Statement:
        return by_rows(inner, new_buffer, task, copies)

    if isinstance(statement, Block):
        return Block(tuple(inside(inner) for inner in statement.statements))
    if isinstance(statement, If):
        return If(statement.condition, inside(statement.then), inside(statement.orelse))
    if isinstance(statement, While):
        return replace(statement, body=inside(statement.body))
    if not isinstance(statement, Loop):
        return statement
    if statement.kind == "tasks":
        task, copies = statement.variable, statement.extent.data
    columns = _columns_of(statement, new_buffer, task, copies)
    return columns.rewritten() if columns else replace(statement, body=inside(statement.body))


def _columns_of(
    loop: Loop, new_buffer: NewBuffer, task: Expr | None, copies: int
) -> _Columns | None:
    if loop.kind != "vector" or loop.extent.op != "const" or loop.extent.data < 2:
        return None
    body = loop.body
    inner = body.statements if isinstance(body, Block) else (body,)
    stores = tuple(s for s in inner if isinstance(s, Store))
    if len(stores) != len(inner) or not may_run_twice(loop, []):
        return None
    columns = _Columns(loop, stores, new_buffer, task, copies)
    return columns if columns.groups([s.value for s in stores]) else None


@dataclass(frozen=True)
class _Piece:
    """Some columns: the first one, how many, and where their sums stand."""

    start: Expr
    width: int
    place: int


@dataclass(frozen=True)
class _Sums:
    """Sums of all columns: the operation, the value summed, and where they stand."""

    operation: str
    value: Expr
    reassociate: str
    buffer: Buffer
    base: Expr


class _Columns:
    """A loop over columns whose stores hold folds along them."""

    def __init__(
        self,
        loop: Loop,
        stores: Sequence[Store],
        new_buffer: NewBuffer,
        task: Expr | None,
        copies: int,
    ) -> None:
        self.loop, self.stores, self.var = loop, stores, loop.variable
        self.new_buffer, self.task, self.copies = new_buffer, task, copies
        self.extent: int = loop.extent.data
        # What stands for a sum in values until a place in memory is put in.
        self.sums: dict[Expr, _Sums] = {}

    # --- what applies ---

    def groups(self, values: Sequence[Expr]) -> list[list[Expr]]:
        """Folds along the columns that hold no others, those of equal extents together."""
        groups: dict[tuple[Expr, ...], list[Expr]] = {}
        for node in walk(values):
            if node.op == "fold" and self.is_along(node):
                groups.setdefault(fold_parts(node)[0], []).append(node)
        return list(groups.values())

    def is_along(self, node: Expr) -> bool:
        """Whether a fold reads several rows in which the columns are neighbours."""
        rows = turns(node)
        if node.data.reassociate is None or rows < LEAST_ROWS:
            return False
        if rows * self.extent < LEAST_ELEMENTS or self.var not in node.free:
            return False
        own = {*node.data.variables, self.var}
        updates = fold_parts(node)[2]
        if any(n.op in BINDING_OPS and n.free & own for n in walk(updates)):
            return False
        loads = all_loads(updates)
        steps = [stride_of(one.args[0], self.var) for one in loads]
        inner = node.data.variables[-1]
        far = [
            abs(stride_of(one.args[0], inner) or 0) >= LEAST_STRIDE
            for one, step in zip(loads, steps, strict=True)
            if step == 1
        ]
        return all(step in (0, 1) for step in steps) and any(far)

    # --- rewriting ---

    def rewritten(self) -> Statement:
        if self.extent <= WIDE:
            return block(*self.columns(index(0), self.extent))
        count = -(-self.extent // WIDTH)
        part = index_variable("part", count)
        start = minimum(mul(part, WIDTH), self.extent - WIDTH)
        return Loop(part, index(count), block(*self.columns(start, WIDTH)))

    def columns(self, start: Expr, width: int) -> Iterator[Statement]:
        """The statements for some columns."""
        pieces = _pieces(start, width)
        values = [store.value for store in self.stores]
        while groups := self.groups(values):
            replacements: dict[Expr, Expr] = {}
            for group in groups:
                yield from self.reduced(group, pieces, replacements)
            rule = substituter(replacements)
            values = [rule(value) for value in values]
        stores = [replace(s, value=v) for s, v in zip(self.stores, values, strict=True)]
        for piece in pieces:
            yield self.over(piece, lambda rule, _: [
                Store(s.buffer, rule(s.offset), rule(s.value)) for s in stores
            ])  # fmt: skip

    def over(self, piece: _Piece, stores, more: Mapping[Expr, Expr] = {}) -> Loop:
        """A loop over the columns of a piece; `stores(rule, place)` gives what it stores, where
        `rule` puts the column and the sums into an expression.
        """
        column = index_variable("column", piece.width)
        place = add(index(piece.place), column)
        table = {self.var: add(piece.start, column), **more}
        for placeholder, sums in self.sums.items():
            table[placeholder] = load(sums.buffer, add(sums.base, place))
        return Loop(
            column, index(piece.width), block(*stores(substituter(table), place)), (), "vector"
        )

    def reduced(
        self, group: Sequence[Expr], pieces: Sequence[_Piece], replacements: dict[Expr, Expr]
    ) -> Iterator[Statement]:
        """Fill the sums of folds of equal extents; `replacements` gets what their results are."""
        extents = [extent.data for extent in fold_parts(group[0])[0]]
        variables = [index_variable("row", extent) for extent in extents]
        size = pieces[-1].place + pieces[-1].width
        new = [sums for node in group for sums in self.sums_of(node, variables, size, replacements)]
        for piece in pieces:
            yield self.over(piece, lambda _, place: [
                Store(s.buffer, add(s.base, place), identity(s.reassociate, s.buffer.element))
                for s in new
            ])  # fmt: skip
        rows = block(*_in_groups(
            extents[-1], lambda start, count: self.rows(new, pieces, variables[-1], start, count)
        ))  # fmt: skip
        for variable_, extent in zip(variables[-2::-1], extents[-2::-1], strict=True):
            rows = Loop(variable_, index(extent), rows)
        yield rows

    def sums_of(
        self,
        node: Expr,
        variables: Sequence[Expr],
        size: int,
        replacements: dict[Expr, Expr],
    ) -> Iterator[_Sums]:
        rule = substituter(dict(zip(node.data.variables, variables, strict=True)))
        initial = fold_parts(node)[1]
        for i, (operation, value) in enumerate(steps_of(node)):
            type = F64 if is_long_sum(node, self.extent) else value.type
            if value.op == "convert" and value.data == WIDENED:
                value = value.args[0]  # a few rows are added in f32 before that goes into the sum
            size = -(-size * type.bytes // LINE) * LINE // type.bytes
            buffer = self.new_buffer("sums", Buffer("", type, size * self.copies, "temp"))
            base = index(0) if self.task is None else mul(self.task, size)
            sums = _Sums(operation, rule(value), node.data.reassociate, buffer, base)
            placeholder = variable("sum", type)
            self.sums[placeholder] = sums
            result = make("result", initial[i].type, (node,), i)
            start = convert(initial[i], type)
            replacements[result] = convert(binary(operation, start, placeholder), result.type)
            yield sums

    def rows(
        self, new: Sequence[_Sums], pieces: Sequence[_Piece], row: Expr, start: Expr, count: int
    ) -> Iterator[Statement]:
        """Add `count` rows from `start` on to the sums."""
        step = index_variable("step", count)

        def stores(rule, place: Expr) -> list[Store]:
            made = []
            for s in new:
                value = rule(s.value)
                part = variable("part", value.type)
                several = fold(
                    [(step, count)],
                    [(part, identity(s.reassociate, value.type), binary(s.operation, part, value))],
                    s.reassociate,
                )[0]
                target = add(s.base, place)
                before = load(s.buffer, target)
                after = binary(s.operation, before, convert(several, s.buffer.element))
                made.append(Store(s.buffer, target, after))
            return made

        for piece in pieces:
            yield self.over(piece, stores, {row: add(start, step)})


def _pieces(start: Expr, width: int) -> list[_Piece]:
    """Columns in a piece of whole registers, and a last one of fewer that reaches back."""
    main = width // PIECE * PIECE or 1 << (width.bit_length() - 1)
    pieces = [_Piece(start, main, 0)]
    if main < width:
        rest = 1 << (width - main - 1).bit_length()
        pieces.append(_Piece(add(start, width - rest), rest, main))
    return pieces


def _in_groups(extent: int, rows) -> Iterator[Statement]:
    """Statements `rows(start, count)` for all rows, a group at a time."""
    size = next((n for n in GROUPS if extent % n == 0), GROUPS[0])
    size = min(size, extent)
    count = extent // size
    group = index_variable("group", count)
    yield Loop(group, index(count), block(*rows(mul(group, size), size)))
    if count * size < extent:
        yield from rows(index(count * size), extent - count * size)
