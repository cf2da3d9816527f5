"""Reductions of the arrays of a group of devices, as LLVM text: the collectives that add up or
compare.

A sum of 2^n members is a tree of pairs, so its bits are those of the tree whoever adds which part
of it; other numbers are split at the largest power of two below them. Each member reduces its own
part of the elements and writes it to the results of all.
"""

from __future__ import annotations

from functools import cache

from tetrax.compiler.cpu.library.collectives import filled
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_types import F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, ScalarType

CACHED = 8 << 20
"""Bytes of results up to which they are left to the caches."""

BLOCK = 4096
"""Bytes that are reduced at a time: they stay in the first-level cache."""

REDUCTIONS = ("sum", "max", "min")
REDUCTION_KINDS = ("all_reduce", "all_reduce_many", "reduce_scatter")

REDUCED_TYPES = (F32, F64, I8, I16, I32, I64, U8, U16, U32, U64)
"""The types that are reduced as they are; others are converted before and after."""


def reduction_symbols(type: ScalarType) -> tuple[str, ...]:
    """What the module of reductions of a type exports."""
    return tuple(
        f"tetrax_{kind}_{operation}_{type.name}"
        for kind in REDUCTION_KINDS
        for operation in REDUCTIONS
    )


def reduction_module(type: ScalarType, target: Target) -> str:
    """The LLVM module of the reductions of one type."""
    return filled(reduction_text(type, target, _ALL + ONE).replace("$SPREAD$", ""))


def reduction_text(type: ScalarType, target: Target, routines: str) -> str:
    """Routines for each reduction of a type, and the trees that they use."""
    size, lanes = type.bytes, target.natural_lanes(type.bits)
    parts = ["declare i64 @llvm.ctlz.i64(i64, i1)", "!0 = !{i32 1}"]
    for operation in REDUCTIONS:
        declaration, line = _combination(operation, type, lanes)
        scalar_declaration, scalar_line = _combination(operation, type, 0)
        text = _TREE + routines
        for name, value in {
            "OP": operation,
            "NAME": type.name,
            "TYPE": _llvm(type),
            "VECTOR": f"<{lanes} x {_llvm(type)}>",
            "SIZE": size,
            "LANES": lanes,
            "ELEMENTS": BLOCK // size,
            "BLOCK": BLOCK,
            "LINE": max(1, 64 // size),
            "VECTOR_BYTES": size * lanes,
            "CACHED": CACHED,
            "COMBINE_VECTOR": line,
            "COMBINE": scalar_line,
            "DECLARATIONS": "\n".join(sorted({declaration, scalar_declaration} - {""})),
        }.items():
            text = text.replace(f"${name}$", str(value))
        parts.append(text)
    return "\n".join(parts)


@cache
def _combination(operation: str, type: ScalarType, lanes: int) -> tuple[str, str]:
    """A declaration, and the instruction that makes %both of %a and %b."""
    scalar = _llvm(type)
    kind = f"<{lanes} x {scalar}>" if lanes else scalar
    if operation == "sum":
        return "", f"%both = {'fadd' if type.is_float else 'add'} {kind} %a, %b"
    if type.is_float:
        name = "maximum" if operation == "max" else "minimum"
    else:
        name = ("s" if type.is_signed else "u") + operation
    suffix = scalar.replace("float", "f32").replace("double", "f64")
    suffix = f"v{lanes}{suffix}" if lanes else suffix
    called = f"@llvm.{name}.{suffix}"
    return (
        f"declare {kind} {called}({kind}, {kind})",
        f"%both = call {kind} {called}({kind} %a, {kind} %b)",
    )


def _llvm(type: ScalarType) -> str:
    if type.is_float:
        return {4: "float", 8: "double"}[type.bytes]
    return f"i{type.bits}"


_TREE = """
$DECLARATIONS$
; out = a op b, for some elements; out may be a
define internal void @pair_$OP$(ptr noalias %other, ptr %first, ptr %out, i64 %count) nounwind {
entry:
  %whole = and i64 %count, -$LANES$
  %some = icmp sgt i64 %whole, 0
  br i1 %some, label %vector, label %rest
vector:
  %i = phi i64 [ 0, %entry ], [ %i_next, %vector ]
  %place_a = getelementptr $TYPE$, ptr %first, i64 %i
  %place_b = getelementptr $TYPE$, ptr %other, i64 %i
  %place = getelementptr $TYPE$, ptr %out, i64 %i
  %x = load $VECTOR$, ptr %place_a, align $SIZE$
  %y = load $VECTOR$, ptr %place_b, align $SIZE$
  %z = call $VECTOR$ @both_vector_$OP$($VECTOR$ %x, $VECTOR$ %y)
  store $VECTOR$ %z, ptr %place, align $SIZE$
  %i_next = add i64 %i, $LANES$
  %more = icmp slt i64 %i_next, %whole
  br i1 %more, label %vector, label %rest
rest:
  %left = icmp slt i64 %whole, %count
  br i1 %left, label %single, label %leave
single:
  %j = phi i64 [ %whole, %rest ], [ %j_next, %single ]
  %one_a = getelementptr $TYPE$, ptr %first, i64 %j
  %one_b = getelementptr $TYPE$, ptr %other, i64 %j
  %one = getelementptr $TYPE$, ptr %out, i64 %j
  %u = load $TYPE$, ptr %one_a, align $SIZE$
  %v = load $TYPE$, ptr %one_b, align $SIZE$
  %w = call $TYPE$ @both_$OP$($TYPE$ %u, $TYPE$ %v)
  store $TYPE$ %w, ptr %one, align $SIZE$
  %j_next = add i64 %j, 1
  %again = icmp slt i64 %j_next, %count
  br i1 %again, label %single, label %leave
leave:
  ret void
}

; copy a block to the results of all, from element %at on, without reading what was there
define internal void @stream_$OP$(ptr %results, i64 %size, ptr %block, i64 %at, i64 %count)
    nounwind {
entry:
  br label %member_head
member_head:
  %member = phi i64 [ 0, %entry ], [ %member_next, %rest_done ]
  %result = call ptr @listed(ptr %results, i64 1, i64 %member)
  %target = getelementptr $TYPE$, ptr %result, i64 %at
  %whole = and i64 %count, -$LANES$
  br label %head
head:
  %i = phi i64 [ 0, %member_head ], [ %i_next, %body ]
  %more = icmp slt i64 %i, %whole
  br i1 %more, label %body, label %rest
body:
  %from = getelementptr $TYPE$, ptr %block, i64 %i
  %to = getelementptr $TYPE$, ptr %target, i64 %i
  %x = load $VECTOR$, ptr %from, align 32
  store $VECTOR$ %x, ptr %to, align $VECTOR_BYTES$, !nontemporal !0
  %i_next = add i64 %i, $LANES$
  br label %head
rest:
  %left = sub i64 %count, %whole
  %left_bytes = mul i64 %left, $SIZE$
  %left_from = getelementptr $TYPE$, ptr %block, i64 %whole
  %left_to = getelementptr $TYPE$, ptr %target, i64 %whole
  call void @llvm.memcpy.p0.p0.i64(ptr %left_to, ptr %left_from, i64 %left_bytes, i1 false)
  br label %rest_done
rest_done:
  %member_next = add i64 %member, 1
  %again = icmp slt i64 %member_next, %size
  br i1 %again, label %member_head, label %leave
leave:
  ret void
}

define internal $VECTOR$ @both_vector_$OP$($VECTOR$ %a, $VECTOR$ %b) alwaysinline nounwind {
  $COMBINE_VECTOR$
  ret $VECTOR$ %both
}

define internal $TYPE$ @both_$OP$($TYPE$ %a, $TYPE$ %b) alwaysinline nounwind {
  $COMBINE$
  ret $TYPE$ %both
}

; reduce some elements, from element %at, of %members operands from the %first-th, into %out;
; %list holds their addresses, one in every %step words
define internal void @tree_$OP$(ptr %list, i64 %step, i64 %first, i64 %members, i64 %at,
    i64 %count, ptr %out) nounwind {
entry:
  %operand = call ptr @listed(ptr %list, i64 %step, i64 %first)
  %source = getelementptr $TYPE$, ptr %operand, i64 %at
  switch i64 %members, label %split [ i64 1, label %copy
                                      i64 2, label %two ]
copy:
  %bytes = mul i64 %count, $SIZE$
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %source, i64 %bytes, i1 false)
  ret void
two:
  %following = add i64 %first, 1
  %second = call ptr @listed(ptr %list, i64 %step, i64 %following)
  %other = getelementptr $TYPE$, ptr %second, i64 %at
  call void @pair_$OP$(ptr %other, ptr %source, ptr %out, i64 %count)
  ret void
split:
  ; the largest power of two below the number of members
  %below = sub i64 %members, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %below, i1 true)
  %shift = sub i64 63, %zeros
  %half = shl i64 1, %shift
  %rest = sub i64 %members, %half
  %middle = add i64 %first, %half
  %block = alloca [$BLOCK$ x i8], align 64
  call void @tree_$OP$(ptr %list, i64 %step, i64 %first, i64 %half, i64 %at, i64 %count,
      ptr %out)
  call void @tree_$OP$(ptr %list, i64 %step, i64 %middle, i64 %rest, i64 %at, i64 %count,
      ptr %block)
  call void @pair_$OP$(ptr %block, ptr %out, ptr %out, i64 %count)
  ret void
}

"""

# One array as a table of one entry.
ONE = """
define i32 @tetrax_$SPREAD$all_reduce_$OP$_$NAME$(ptr %device, i64 %partition, i64 %site,
    ptr %send, ptr %recv, i64 %count) nounwind {
  %table = alloca [3 x i64], align 8
  %second = getelementptr ptr, ptr %table, i64 1
  %third = getelementptr i64, ptr %table, i64 2
  store ptr %send, ptr %table, align 8
  store ptr %recv, ptr %second, align 8
  store i64 %count, ptr %third, align 8
  %status = call i32 @tetrax_$SPREAD$all_reduce_many_$OP$_$NAME$(ptr %device, i64 %partition,
      i64 %site, ptr %table, ptr null, i64 1)
  ret i32 %status
}
"""

_ALL = """
define i32 @tetrax_all_reduce_many_$OP$_$NAME$(ptr %device, i64 %partition, i64 %site,
    ptr %table, ptr %unused, i64 %entries) nounwind {
entry:
  %status = call i32 @enter(ptr %device, i64 %partition, i64 %site, ptr %table, ptr null)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %refuse, label %go
refuse:
  ret i32 1
go:
  %group = call ptr @group(ptr %device, i64 %partition)
  %rank = call i64 @rank(ptr %device, i64 %partition)
  %size = call i64 @size(ptr %group)
  ; where the operands of all are, then where their results are
  %both = mul i64 %size, 2
  %operands = alloca ptr, i64 %both, align 8
  %results = getelementptr ptr, ptr %operands, i64 %size
  br label %head
head:
  %index = phi i64 [ 0, %go ], [ %following, %body ]
  %more = icmp slt i64 %index, %entries
  br i1 %more, label %body, label %done
body:
  call void @column(ptr %group, i64 %size, i64 %index, i64 0, ptr %operands)
  call void @column(ptr %group, i64 %size, i64 %index, i64 1, ptr %results)
  %words = mul i64 %index, 3
  %at = add i64 %words, 2
  %place = getelementptr i64, ptr %table, i64 %at
  %count = load i64, ptr %place, align 8
  call void @share_$OP$(ptr %operands, ptr %results, i64 %rank, i64 %size, i64 %count)
  %following = add i64 %index, 1
  br label %head
done:
  %after = call i32 @leave(ptr %device, i64 %partition, i64 %site)
  ret i32 %after
}

; reduce the own part of an array of all members, and write it to the results of all
define internal void @share_$OP$(ptr %operands, ptr %results, i64 %rank, i64 %size, i64 %count)
    nounwind {
entry:
  %block = alloca [$BLOCK$ x i8], align 64
  ; parts are whole cache lines
  %rounded = add i64 %count, $LINE$
  %lines_up = sub i64 %rounded, 1
  %lines = sdiv i64 %lines_up, $LINE$
  %lines_more = add i64 %lines, %size
  %lines_all = sub i64 %lines_more, 1
  %part_lines = sdiv i64 %lines_all, %size
  %part = mul i64 %part_lines, $LINE$
  %start = mul i64 %rank, %part
  %end_full = add i64 %start, %part
  %short = icmp slt i64 %end_full, %count
  %end = select i1 %short, i64 %end_full, i64 %count
  ; results that no cache will hold are written past them
  %all_elements = mul i64 %count, %size
  %all_bytes = mul i64 %all_elements, $SIZE$
  %large = icmp sgt i64 %all_bytes, $CACHED$
  %aligned = call i1 @aligned(ptr %results, i64 %size)
  %past_caches = and i1 %large, %aligned
  br label %blocks
blocks:
  %at = phi i64 [ %start, %entry ], [ %at_next, %shared ]
  %more = icmp slt i64 %at, %end
  br i1 %more, label %one, label %done
one:
  %left = sub i64 %end, %at
  %fits = icmp slt i64 %left, $ELEMENTS$
  %now = select i1 %fits, i64 %left, i64 $ELEMENTS$
  call void @tree_$OP$(ptr %operands, i64 1, i64 0, i64 %size, i64 %at, i64 %now, ptr %block)
  %bytes = mul i64 %now, $SIZE$
  br i1 %past_caches, label %stream, label %copy
stream:
  call void @stream_$OP$(ptr %results, i64 %size, ptr %block, i64 %at, i64 %now)
  br label %shared
copy:
  %member = phi i64 [ 0, %one ], [ %next, %copy ]
  %result = call ptr @listed(ptr %results, i64 1, i64 %member)
  %target = getelementptr $TYPE$, ptr %result, i64 %at
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %block, i64 %bytes, i1 false)
  %next = add i64 %member, 1
  %others = icmp slt i64 %next, %size
  br i1 %others, label %copy, label %shared
shared:
  %at_next = add i64 %at, %now
  br label %blocks
done:
  ret void
}

define i32 @tetrax_reduce_scatter_$OP$_$NAME$(ptr %device, i64 %partition, i64 %site,
    ptr %send, ptr %recv, i64 %count) nounwind {
entry:
  %status = call i32 @enter(ptr %device, i64 %partition, i64 %site, ptr %send, ptr %recv)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %refuse, label %go
refuse:
  ret i32 1
go:
  %group = call ptr @group(ptr %device, i64 %partition)
  %rank = call i64 @rank(ptr %device, i64 %partition)
  %size = call i64 @size(ptr %group)
  %operands = call ptr @operands(ptr %group)
  %start = mul i64 %rank, %count
  br label %blocks
blocks:
  %at = phi i64 [ 0, %go ], [ %at_next, %one ]
  %more = icmp slt i64 %at, %count
  br i1 %more, label %one, label %done
one:
  %left = sub i64 %count, %at
  %fits = icmp slt i64 %left, $ELEMENTS$
  %now = select i1 %fits, i64 %left, i64 $ELEMENTS$
  %from = add i64 %start, %at
  %target = getelementptr $TYPE$, ptr %recv, i64 %at
  call void @tree_$OP$(ptr %operands, i64 4, i64 0, i64 %size, i64 %from, i64 %now, ptr %target)
  %at_next = add i64 %at, %now
  br label %blocks
done:
  %after = call i32 @leave(ptr %device, i64 %partition, i64 %site)
  ret i32 %after
}
"""
