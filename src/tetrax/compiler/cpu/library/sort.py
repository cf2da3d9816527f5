"""Sorting of integer keys, as LLVM text; a quicksort that partitions whole vectors.

    void tetrax_sort_i32(ptr keys, ptr spare, i64 n, i64 first, i64 last)
    void tetrax_sort_i64(ptr keys, ptr spare, i64 n, i64 first, i64 last)
    void tetrax_sort_pairs(ptr keys, ptr spare, i64 n, i64 first, i64 last)

Elements `first` to `last` of `keys` become those of the sorted whole; the others are left in any
order. `pairs` are n signed 64-bit keys followed by n 64-bit positions, ordered by key and then by
position, so a sort by them is stable. `spare` is memory of the same size.

A partition stores every vector twice, at both ends of what is free: its small elements stand first,
so each end gets those it is to have (the permutation comes from a table, by the mask of the
comparison). Bramas, "A novel hybrid quicksort algorithm vectorized using AVX-512", 2017, has the
idea. Few elements go through a network; a partition that fails too often gives way to a heapsort.
Many keys go to buckets first (`sort_buckets.py`). Parts of large inputs are sorted by several
threads; the outcome is the same, since it is the only one.
"""

from __future__ import annotations

from dataclasses import dataclass

from tetrax.compiler.cpu.library.sort_buckets import (
    BUCKET_SORT,
    BUCKET_VALUES,
    BUCKETS,
    NO_BUCKETS,
)
from tetrax.compiler.cpu.library.sort_network import Element, Lanes, Lines, sorted_vectors
from tetrax.compiler.cpu.library.sort_text import (
    CONTEXT,
    ENTRY,
    HEAP,
    KEYS_ONLY,
    NETWORKS,
    PARTITION,
    PIVOT,
    QUICK,
    SMALL,
    TASKS,
    WITH_POSITIONS,
)
from tetrax.compiler.cpu.target import Target

SORT_SYMBOLS = ("tetrax_sort_i32", "tetrax_sort_i64", "tetrax_sort_pairs")
SHARED = 100_000
"""Elements from which parts are sorted by several threads."""


@dataclass(frozen=True)
class Kind:
    """One routine: the type of its keys, and whether positions go along."""

    name: str
    key: str
    paired: bool
    wide: bool
    """Whether vectors can be permuted by a table (AVX2)."""

    @property
    def bits(self) -> int:
        return int(self.key[1:])

    @property
    def lanes(self) -> Lanes:
        return Lanes(self.key, 256 // self.bits, self.paired)

    @property
    def largest(self) -> int:
        return (1 << (self.bits - 1)) - 1

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the parts of an element."""
        return ("k", "p") if self.paired else ("k",)


def sort_module(target: Target) -> str:
    """The LLVM module of all routines."""
    wide = target.architecture == "x86_64" and target.vector_bits >= 256
    kinds = [
        Kind("i32", "i32", False, wide),
        Kind("i64", "i64", False, wide),
        Kind("pairs", "i64", True, wide),
    ]
    parts = [_DECLARATIONS, _tables(), *(text for kind in kinds for text in _functions(kind))]
    if wide:
        parts.append("declare <8 x i32> @llvm.x86.avx2.permd(<8 x i32>, <8 x i32>)")
    return "\n".join(parts)


_DECLARATIONS = """
declare void @tetrax_parallel(ptr, ptr, i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare <8 x i32> @llvm.smin.v8i32(<8 x i32>, <8 x i32>)
declare <8 x i32> @llvm.smax.v8i32(<8 x i32>, <8 x i32>)
declare <4 x i64> @llvm.smin.v4i64(<4 x i64>, <4 x i64>)
declare <4 x i64> @llvm.smax.v4i64(<4 x i64>, <4 x i64>)
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i32 @llvm.ctlz.i32(i32, i1)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


def _tables() -> str:
    """Per mask, the lanes with the small elements in front, in units of 32 bits."""

    def rows(lanes: int, units: int) -> list[str]:
        made = []
        for mask in range(1 << lanes):
            order = sorted(range(lanes), key=lambda lane: not mask >> lane & 1)
            made += [str(lane * units + unit) for lane in order for unit in range(units)]
        return made

    tables = {"order_i32": rows(8, 1), "order_i64": rows(4, 2)}
    return "\n".join(
        f"@{name} = internal constant [{len(row)} x i8] [{', '.join('i8 ' + x for x in row)}]"
        for name, row in tables.items()
    )


def _functions(kind: Kind) -> list[str]:
    values = {
        **BUCKET_VALUES,
        "ABOVE": str(kind.bits - (BUCKETS.bit_length() - 1)),
        **(WITH_POSITIONS if kind.paired else KEYS_ONLY),
        "CONTEXT": CONTEXT,
        "NAME": kind.name,
        "T": kind.key,
        "LARGEST": str(kind.largest),
        "BYTES": str(kind.bits // 8),
        "SHARED": str(SHARED),
        "MOST": str(NETWORKS[-1]),
    }
    templates = [_less(kind), _move(kind), *(_network(kind, n) for n in NETWORKS), _partition(kind)]
    buckets = NO_BUCKETS if kind.paired else BUCKET_SORT
    texts = [*templates, SMALL, HEAP, PIVOT, QUICK, TASKS, buckets, ENTRY]
    result = []
    for text in texts:
        for name, value in values.items():
            text = text.replace(f"${name}$", value)
        result.append(text)
    return result


def _less(kind: Kind) -> str:
    if not kind.paired:
        return """
define internal i1 @less_$NAME$(ptr %a, i64 %i, ptr %b, i64 %j, i64 %gap) alwaysinline {
  %x = getelementptr $T$, ptr %a, i64 %i
  %y = getelementptr $T$, ptr %b, i64 %j
  %u = load $T$, ptr %x, align $BYTES$
  %v = load $T$, ptr %y, align $BYTES$
  %r = icmp slt $T$ %u, %v
  ret i1 %r
}"""
    return """
define internal i1 @less_$NAME$(ptr %a, i64 %i, ptr %b, i64 %j, i64 %gap) alwaysinline {
  %x = getelementptr i64, ptr %a, i64 %i
  %y = getelementptr i64, ptr %b, i64 %j
  %xp = getelementptr i64, ptr %x, i64 %gap
  %yp = getelementptr i64, ptr %y, i64 %gap
  %u = load i64, ptr %x, align 8
  %v = load i64, ptr %y, align 8
  %up = load i64, ptr %xp, align 8
  %vp = load i64, ptr %yp, align 8
  %below = icmp slt i64 %u, %v
  %same = icmp eq i64 %u, %v
  %first = icmp slt i64 %up, %vp
  %tie = and i1 %same, %first
  %r = or i1 %below, %tie
  ret i1 %r
}"""


def _move(kind: Kind) -> str:
    """Copies one element."""
    text = """
define internal void @move_$NAME$(ptr %a, i64 %i, ptr %b, i64 %j, i64 %gap) alwaysinline {
  %x = getelementptr $T$, ptr %a, i64 %i
  %y = getelementptr $T$, ptr %b, i64 %j
  %u = load $T$, ptr %x, align $BYTES$
  store $T$ %u, ptr %y, align $BYTES$
"""
    if kind.paired:
        text += """
  %xp = getelementptr i64, ptr %x, i64 %gap
  %yp = getelementptr i64, ptr %y, i64 %gap
  %up = load i64, ptr %xp, align 8
  store i64 %up, ptr %yp, align 8
"""
    return text + "  ret void\n}"


def _network(kind: Kind, size: int) -> str:
    """Sorts exactly `size` elements of a buffer in place."""
    lanes, out = kind.lanes, Lines()
    count = size // lanes.width
    where: list[list[str]] = []
    vectors: list[Element] = []
    for at in range(count):
        places = [out.emit(f"getelementptr {kind.key}, ptr %a, i64 {at * lanes.width}")]
        if kind.paired:
            places.append(out.emit(f"getelementptr i64, ptr {places[0]}, i64 %gap"))
        where.append(places)
        vectors.append(
            tuple(out.emit(f"load {lanes.vector}, ptr {p}, align {kind.bits // 8}") for p in places)
        )
    for places, element in zip(where, sorted_vectors(out, lanes, vectors), strict=True):
        for place, text in zip(places, element, strict=True):
            out.effect(f"store {lanes.vector} {text}, ptr {place}, align {kind.bits // 8}")
    body = "\n".join(out.lines)
    return (
        f"define internal void @network_$NAME$_{size}(ptr %a, i64 %gap) noinline nounwind "
        f"{{\n{body}\n  ret void\n}}"
    )


def _partition(kind: Kind) -> str:
    """Moves what comes before the pivot to the front of `dst`, the rest to its end; gives the
    number of the former.
    """
    return PARTITION.replace("$VECTORS$", _partition_vectors(kind) if kind.wide else "").replace(
        "$AFTER$", "vectors" if kind.wide else "entry"
    )


def _partition_vectors(kind: Kind) -> str:
    lanes, out = kind.lanes, Lines()
    width, bits = lanes.width, kind.bits
    at = out.emit("load i64, ptr %iv, align 8")
    left = out.emit("load i64, ptr %lv, align 8")
    right = out.emit("load i64, ptr %rv, align 8")
    source = out.emit(f"getelementptr {kind.key}, ptr %src, i64 {at}")
    sources = [source]
    if kind.paired:
        sources.append(out.emit(f"getelementptr i64, ptr {source}, i64 %gap"))
    element = tuple(out.emit(f"load {lanes.vector}, ptr {s}, align {bits // 8}") for s in sources)
    mask = lanes.less(out, element, ("%pivots", "%pivotps")[: len(element)])
    small = out.emit(f"bitcast {lanes.mask} {mask} to i{width}")
    number = out.emit(f"zext i{width} {small} to i64")
    row = out.emit(f"shl i64 {number}, 3")
    place = out.emit(f"getelementptr i8, ptr @order_{kind.key}, i64 {row}")
    narrow = out.emit(f"load <8 x i8>, ptr {place}, align 1")
    order = out.emit(f"zext <8 x i8> {narrow} to <8 x i32>")
    count = out.emit(f"call i64 @llvm.ctpop.i64(i64 {number})")
    end = out.emit(f"sub i64 {right}, {width}")
    targets = []
    for position in (end, left):
        first = out.emit(f"getelementptr {kind.key}, ptr %dst, i64 {position}")
        both = [first]
        if kind.paired:
            both.append(out.emit(f"getelementptr i64, ptr {first}, i64 %gap"))
        targets.append(both)
    moved = []
    for text in element:
        units = text
        if bits == 64:
            units = out.emit(f"bitcast {lanes.vector} {text} to <8 x i32>")
        moved.append(
            out.emit(f"call <8 x i32> @llvm.x86.avx2.permd(<8 x i32> {units}, <8 x i32> {order})")
        )
    for both in targets:  # the right end first: see the module's text on what the left one spoils
        for value, target in zip(moved, both, strict=True):
            out.effect(f"store <8 x i32> {value}, ptr {target}, align {bits // 8}")
    new_left = out.emit(f"add i64 {left}, {count}")
    new_right = out.emit(f"add i64 {end}, {count}")
    following = out.emit(f"add i64 {at}, {width}")
    for value, slot in ((new_left, "%lv"), (new_right, "%rv"), (following, "%iv")):
        out.effect(f"store i64 {value}, ptr {slot}, align 8")
    body = "\n".join(out.lines)
    zeros = f"<{width} x i32> zeroinitializer"
    splat = f"""
  %one = insertelement {lanes.vector} poison, {kind.key} %pivot, i64 0
  %pivots = shufflevector {lanes.vector} %one, {lanes.vector} poison, {zeros}
"""
    if kind.paired:
        splat += f"""
  %onep = insertelement {lanes.vector} poison, i64 %pivotp, i64 0
  %pivotps = shufflevector {lanes.vector} %onep, {lanes.vector} poison, {zeros}
"""
    # Two vectors must be free in `dst`, so that the two stores do not meet.
    return f"""
{splat}
  %last = sub i64 %n, {2 * width}
  br label %vhead
vhead:
  %vi = load i64, ptr %iv, align 8
  %more = icmp sle i64 %vi, %last
  br i1 %more, label %vbody, label %vectors
vbody:
{body}
  br label %vhead
vectors:
"""
