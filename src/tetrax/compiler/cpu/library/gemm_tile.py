"""Register tiles of the matrix product, as LLVM text.

A tile function computes `rows` x (`vectors` full registers) elements of C over the whole range
of k it is given:

    void tile(i64 k, ptr a, i64 a_row, i64 a_step, ptr b, i64 b_step, ptr c, i64 c_row, i64
    columns, i32 accumulate)

One value of A is repeated across a register and multiplied with `vectors` registers of a row of
B. Strides are in elements; b's and c's columns are contiguous. The masked variant computes only
the first `columns` columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from tetrax.compiler.cpu.llvm_text import register_type
from tetrax.ir.kernel_types import ScalarType

UNROLL = 4
"""Steps of k per turn of the main loop."""


@dataclass(frozen=True)
class TileShape:
    """Element type, lanes of a register, rows and registers per row of a tile."""

    type: ScalarType
    lanes: int
    rows: int
    vectors: int

    @property
    def columns(self) -> int:
        """Columns of a full tile."""
        return self.lanes * self.vectors

    def symbol(self, masked: bool) -> str:
        """The name of the tile's function."""
        kind = "part" if masked else "full"
        return f"tetrax_tile_{self.type}_{self.rows}x{self.vectors}_{kind}"


TILE_PARAMETERS = (
    "i64 %k, ptr %a, i64 %a_row, i64 %a_step, ptr %b, i64 %b_step, ptr %c, i64 %c_row, "
    "i64 %columns, i32 %accumulate"
)


class _Tile:
    """Text of one tile function under construction."""

    def __init__(self, shape: TileShape, masked: bool):
        self.shape = shape
        self.masked = masked
        self.scalar = register_type(shape.type)
        self.vector = register_type(shape.type, shape.lanes)
        self.suffix = f"v{shape.lanes}f{shape.type.bits}"
        self.align = f"align {shape.type.bytes}"
        self.lines: list[str] = []
        self.count = 0
        self.cells = [(r, v) for r in range(shape.rows) for v in range(shape.vectors)]

    def emit(self, instruction: str) -> str:
        self.count += 1
        self.lines.append(f"  %t{self.count} = {instruction}")
        return f"%t{self.count}"

    def offset(self, pointer: str, elements: str | int) -> str:
        return self.emit(f"getelementptr {self.scalar}, ptr {pointer}, i64 {elements}")

    def load_vector(self, pointer: str, at: int) -> str:
        place = self.offset(pointer, at * self.shape.lanes) if at else pointer
        if not self.masked:
            return self.emit(f"load {self.vector}, ptr {place}, {self.align}")
        mask = f"<{self.shape.lanes} x i1> %mask{at}"
        return self.emit(
            f"call {self.vector} @llvm.masked.load.{self.suffix}.p0(ptr {self.align} {place}, "
            f"{mask}, {self.vector} zeroinitializer)"
        )

    def store_vector(self, pointer: str, at: int, text: str) -> None:
        place = self.offset(pointer, at * self.shape.lanes) if at else pointer
        if not self.masked:
            self.lines.append(f"  store {self.vector} {text}, ptr {place}, {self.align}")
            return
        self.lines.append(
            f"  call void @llvm.masked.store.{self.suffix}.p0({self.vector} {text}, "
            f"ptr {self.align} {place}, <{self.shape.lanes} x i1> %mask{at})"
        )

    def masks(self) -> None:
        lanes = self.shape.lanes
        if not self.masked:
            return
        first = self.emit(f"insertelement <{lanes} x i64> poison, i64 %columns, i64 0")
        wide = self.emit(
            f"shufflevector <{lanes} x i64> {first}, <{lanes} x i64> poison, "
            f"<{lanes} x i32> zeroinitializer"
        )
        for at in range(self.shape.vectors):
            numbers = ", ".join(f"i64 {at * lanes + lane}" for lane in range(lanes))
            self.lines.append(f"  %mask{at} = icmp slt <{lanes} x i64> <{numbers}>, {wide}")

    def step(self, a: str, b: str, sums: dict[tuple[int, int], str]) -> dict[tuple[int, int], str]:
        """One step of k: a row of B into registers, then each value of the column of A."""
        row = [self.load_vector(b, at) for at in range(self.shape.vectors)]
        lanes = self.shape.lanes
        result = dict(sums)
        for r in range(self.shape.rows):
            place = self.offset(a, f"%row{r}") if r else a
            one = self.emit(f"load {self.scalar}, ptr {place}, {self.align}")
            first = self.emit(f"insertelement {self.vector} poison, {self.scalar} {one}, i64 0")
            wide = self.emit(
                f"shufflevector {self.vector} {first}, {self.vector} poison, "
                f"<{lanes} x i32> zeroinitializer"
            )
            for v in range(self.shape.vectors):
                result[r, v] = self.emit(
                    f"call {self.vector} @llvm.fma.{self.suffix}({self.vector} {wide}, "
                    f"{self.vector} {row[v]}, {self.vector} {result[r, v]})"
                )
        return result

    def loop(self, name: str, before: str, start: dict, steps: int, limit: str, state: str) -> dict:
        """A loop over k in turns of `steps`; `state` names where pointers and position come
        from.
        """
        names = {cell: f"%{name}_{cell[0]}_{cell[1]}" for cell in self.cells}
        self.lines.append(f"{name}:")
        head = len(self.lines)
        a, b = f"%a_{name}", f"%b_{name}"
        sums = dict(names)
        for turn in range(steps):
            sums = self.step(a, b, sums)
            following = turn == steps - 1
            a_next = f"%a_{name}_next" if following else f"%a_{name}_{turn}"
            b_next = f"%b_{name}_next" if following else f"%b_{name}_{turn}"
            self.lines.append(f"  {a_next} = getelementptr {self.scalar}, ptr {a}, i64 %a_step")
            self.lines.append(f"  {b_next} = getelementptr {self.scalar}, ptr {b}, i64 %b_step")
            a, b = a_next, b_next
        self.lines.append(f"  %p_{name}_next = add nsw i64 %p_{name}, {steps}")
        again = self.emit(f"icmp slt i64 %p_{name}_next, {limit}")
        self.lines.append(f"  br i1 {again}, label %{name}, label %{name}_done")
        phis = [
            f"  %p_{name} = phi i64 [ %p{state}, %{before} ], [ %p_{name}_next, %{name} ]",
            f"  %a_{name} = phi ptr [ %a{state}, %{before} ], [ %a_{name}_next, %{name} ]",
            f"  %b_{name} = phi ptr [ %b{state}, %{before} ], [ %b_{name}_next, %{name} ]",
        ]
        for cell in self.cells:
            phis.append(
                f"  {names[cell]} = phi {self.vector} [ {start[cell]}, %{before} ], "
                f"[ {sums[cell]}, %{name} ]"
            )
        self.lines[head:head] = phis
        return sums

    def join(self, name: str, before: str, loop: str, start: dict, sums: dict, state: str) -> dict:
        """After a loop that may have been skipped: what it left, or what was there before."""
        self.lines.append(f"{loop}_done:")
        self.lines.append(f"  br label %{name}")
        self.lines.append(f"{name}:")
        for kind, what in (("i64", "p"), ("ptr", "a"), ("ptr", "b")):
            self.lines.append(
                f"  %{what}_{name} = phi {kind} [ %{what}{state}, %{before} ], "
                f"[ %{what}_{loop}_next, %{loop}_done ]"
            )
        joined = {}
        for r, v in self.cells:
            joined[r, v] = f"%{name}_{r}_{v}"
            self.lines.append(
                f"  {joined[r, v]} = phi {self.vector} [ {start[r, v]}, %{before} ], "
                f"[ {sums[r, v]}, %{loop}_done ]"
            )
        return joined

    def prefetch_target(self) -> None:
        """Rows of C are needed after the loop: fetch them now."""
        for r in range(self.shape.rows):
            place = self.offset("%c", f"%c_row{r}") if r else "%c"
            self.lines.append(f"  call void @llvm.prefetch.p0(ptr {place}, i32 1, i32 3, i32 1)")

    def finish(self, sums: dict[tuple[int, int], str]) -> None:
        """Store the sums, on top of what is in C or instead of it."""
        self.lines.append("  %keep = icmp ne i32 %accumulate, 0")
        self.lines.append("  br i1 %keep, label %add, label %put")
        for label in ("add", "put"):
            self.lines.append(f"{label}:")
            for r in range(self.shape.rows):
                place = self.offset("%c", f"%c_row{r}") if r else "%c"
                for v in range(self.shape.vectors):
                    text = sums[r, v]
                    if label == "add":
                        old = self.load_vector(place, v)
                        text = self.emit(f"fadd {self.vector} {old}, {text}")
                    self.store_vector(place, v, text)
            self.lines.append("  ret void")

    def text(self) -> str:
        for r in range(1, self.shape.rows):
            self.lines.append(f"  %row{r} = mul nsw i64 %a_row, {r}")
            self.lines.append(f"  %c_row{r} = mul nsw i64 %c_row, {r}")
        self.masks()
        self.prefetch_target()
        self.lines.append("  %p = add i64 0, 0")
        self.lines.append(f"  %whole = and i64 %k, {-UNROLL}")
        some = self.emit("icmp sgt i64 %whole, 0")
        zero = dict.fromkeys(self.cells, "zeroinitializer")
        self.lines.append(f"  br i1 {some}, label %main, label %rest")
        sums = self.loop("main", "entry", zero, UNROLL, "%whole", "")
        sums = self.join("rest", "entry", "main", zero, sums, "")
        more = self.emit("icmp slt i64 %p_rest, %k")
        self.lines.append(f"  br i1 {more}, label %single, label %end")
        last = self.loop("single", "rest", sums, 1, "%k", "_rest")
        final = self.join("end", "rest", "single", sums, last, "_rest")
        self.finish(final)
        body = "\n".join(self.lines)
        name = self.shape.symbol(self.masked)
        return f"define void @{name}({TILE_PARAMETERS}) nounwind {{\nentry:\n{body}\n}}\n"


def tile_text(shape: TileShape, masked: bool) -> str:
    """The LLVM function of a tile."""
    return _Tile(shape, masked).text()
