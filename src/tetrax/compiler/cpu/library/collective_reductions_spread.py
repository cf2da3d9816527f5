"""Reductions of groups that have members in several processes, as LLVM text: those of
`collectives_spread.py` that add up or compare.

A sum is the tree over the members of a process, then the tree over processes.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.collective_reductions import (
    ONE,
    REDUCTION_KINDS,
    REDUCTIONS,
    reduction_text,
)
from tetrax.compiler.cpu.library.collectives import filled
from tetrax.compiler.cpu.library.collectives_spread import (
    HEAD,
    leader,
    loop,
    meet,
    routine,
    stage,
)
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_types import ScalarType


def spread_symbols(type: ScalarType) -> tuple[str, ...]:
    """What the module of reductions of a type exports."""
    return tuple(
        f"tetrax_spread_{kind}_{operation}_{type.name}"
        for kind in REDUCTION_KINDS
        for operation in REDUCTIONS
    )


def spread_reduction_module(type: ScalarType, target: Target) -> str:
    """The LLVM module of the reductions of one type."""
    text = reduction_text(type, target, _REDUCTIONS + ONE)
    return filled(HEAD + text.replace("$SPREAD$", "spread_"))


_PART = """
  %rounded = add i64 %count, {line}
  %up = sub i64 %rounded, 1
  %lines = sdiv i64 %up, {line}
  %more_lines = add i64 %lines, {parts}
  %all_lines = sub i64 %more_lines, 1
  %part_lines = sdiv i64 %all_lines, {parts}
  %part = mul i64 %part_lines, {line}
  ret i64 %part
"""

# The stage of all_reduce: the sum of this process, padded to a block per process; the blocks that
# arrive; the sum of one block. Of reduce_scatter: sums of this process for all ranks, those that
# arrive.
_REDUCTIONS = (
    """
; the elements of a part, where %count elements are cut in %parts parts of whole cache lines
define internal i64 @part_$OP$(i64 %count, i64 %parts) nounwind {"""
    + _PART.format(line="$LINE$", parts="%parts")
    + """}

; reduce %count elements from element %at on, block by block
define internal void @reduce_$OP$(ptr %list, i64 %step, i64 %members, i64 %at, i64 %count,
    ptr %out) nounwind {
entry:
  br label %head
head:
  %done = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %done, %count
  br i1 %more, label %body, label %leave
body:
  %left = sub i64 %count, %done
  %fits = icmp slt i64 %left, $ELEMENTS$
  %now = select i1 %fits, i64 %left, i64 $ELEMENTS$
  %from = add i64 %at, %done
  %target = getelementptr $TYPE$, ptr %out, i64 %done
  call void @tree_$OP$(ptr %list, i64 %step, i64 0, i64 %members, i64 %from, i64 %now,
      ptr %target)
  %next = add i64 %done, %now
  br label %head
leave:
  ret void
}
"""
    + routine(
        "all_reduce_many_$OP$_$NAME$",
        "entries",
        """  %first_count = call i64 @total_$OP$(ptr %send, i64 %entries)
  %first_block = call i64 @part_$OP$(i64 %first_count, i64 %processes)
  %first_padded = mul i64 %first_block, %processes
  %two = mul i64 %first_padded, 2
  %elements = add i64 %two, %first_block
  %stage_bytes = mul i64 %elements, $SIZE$
"""
        + stage("%stage_bytes")
        + """
  ; what is behind the elements is exchanged too
  %behind = sub i64 %first_padded, %first_count
  %behind_bytes = mul i64 %behind, $SIZE$
  %end_of_sum = getelementptr $TYPE$, ptr %own_stage, i64 %first_count
  call void @llvm.memset.p0.i64(ptr %end_of_sum, i8 0, i64 %behind_bytes, i1 false)""",
        """  %count = call i64 @total_$OP$(ptr %send, i64 %entries)
  %block = call i64 @part_$OP$(i64 %count, i64 %processes)
  %padded = mul i64 %block, %processes
  %arrived = getelementptr $TYPE$, ptr %stage, i64 %padded
  %sum = getelementptr $TYPE$, ptr %arrived, i64 %padded
  %block_bytes = mul i64 %block, $SIZE$
  call void @fill_$OP$(ptr %group, ptr %send, i64 %entries, i64 %slot, i64 %members, ptr %stage)"""
        + meet(1)
        + leader(
            "swap",
            """  %first.status = call i32 @tetrax_process_all_to_all(ptr %exchange, ptr %stage,
      ptr %arrived, i64 %block_bytes)
  %ok = icmp eq i32 %first.status, 0
  br i1 %ok, label %sums, label %swapped
sums:
  %list = alloca ptr, i64 %processes, align 8
"""
            + loop(
                "process",
                "%processes",
                """  %block_at = mul i64 %process, %block
  %block_place = getelementptr $TYPE$, ptr %arrived, i64 %block_at
  %list_place = getelementptr ptr, ptr %list, i64 %process
  store ptr %block_place, ptr %list_place, align 8""",
            )
            + """
  call void @reduce_$OP$(ptr %list, i64 1, i64 %processes, i64 0, i64 %block, ptr %sum)
  %second.status = call i32 @tetrax_process_all_gather(ptr %exchange, ptr %sum, ptr %stage,
      i64 %block_bytes)
  br label %swapped
swapped:
  %swap.status = phi i32 [ %first.status, %swap.then ], [ %second.status, %process.done ]""",
        )
        + meet(2)
        + """
  call void @spill_$OP$(ptr %send, i64 %entries, ptr %stage)""",
    )
    + """
; the elements of all entries of a table
define internal i64 @total_$OP$(ptr %table, i64 %entries) nounwind {
entry:
  br label %turn
turn:
  %at = phi i64 [ 0, %entry ], [ %next, %turn ]
  %sum = phi i64 [ 0, %entry ], [ %grown, %turn ]
  %words = mul i64 %at, 3
  %word = add i64 %words, 2
  %place = getelementptr i64, ptr %table, i64 %word
  %count = load i64, ptr %place, align 8
  %grown = add i64 %sum, %count
  %next = add i64 %at, 1
  %more = icmp slt i64 %next, %entries
  br i1 %more, label %turn, label %leave
leave:
  ret i64 %grown
}

; the own part of the sum of the members here of each entry, one entry after another
define internal void @fill_$OP$(ptr %group, ptr %table, i64 %entries, i64 %slot, i64 %members,
    ptr %stage) nounwind {
entry:
  %operands = alloca ptr, i64 %members, align 8
  br label %turn
turn:
  %at = phi i64 [ 0, %entry ], [ %next, %turn ]
  %offset = phi i64 [ 0, %entry ], [ %offset_next, %turn ]
  call void @column(ptr %group, i64 %members, i64 %at, i64 0, ptr %operands)
  %words = mul i64 %at, 3
  %word = add i64 %words, 2
  %place = getelementptr i64, ptr %table, i64 %word
  %count = load i64, ptr %place, align 8
  %part = call i64 @part_$OP$(i64 %count, i64 %members)
  %start = mul i64 %slot, %part
  %end_full = add i64 %start, %part
  %short = icmp slt i64 %end_full, %count
  %end = select i1 %short, i64 %end_full, i64 %count
  %length = sub i64 %end, %start
  %own = add i64 %offset, %start
  %target = getelementptr $TYPE$, ptr %stage, i64 %own
  call void @reduce_$OP$(ptr %operands, i64 1, i64 %members, i64 %start, i64 %length, ptr %target)
  %offset_next = add i64 %offset, %count
  %next = add i64 %at, 1
  %more = icmp slt i64 %next, %entries
  br i1 %more, label %turn, label %leave
leave:
  ret void
}

; the sums to the results of a table
define internal void @spill_$OP$(ptr %table, i64 %entries, ptr %stage) nounwind {
entry:
  br label %turn
turn:
  %at = phi i64 [ 0, %entry ], [ %next, %turn ]
  %offset = phi i64 [ 0, %entry ], [ %offset_next, %turn ]
  %words = mul i64 %at, 3
  %second = add i64 %words, 1
  %third = add i64 %words, 2
  %result_place = getelementptr ptr, ptr %table, i64 %second
  %place = getelementptr i64, ptr %table, i64 %third
  %result = load ptr, ptr %result_place, align 8
  %count = load i64, ptr %place, align 8
  %bytes = mul i64 %count, $SIZE$
  %source = getelementptr $TYPE$, ptr %stage, i64 %offset
  call void @llvm.memcpy.p0.p0.i64(ptr %result, ptr %source, i64 %bytes, i1 false)
  %offset_next = add i64 %offset, %count
  %next = add i64 %at, 1
  %more = icmp slt i64 %next, %entries
  br i1 %more, label %turn, label %leave
leave:
  ret void
}
"""
    + routine(
        "reduce_scatter_$OP$_$NAME$",
        "count",
        """  %elements = mul i64 %all, %count
  %two = mul i64 %elements, 2
  %stage_bytes = mul i64 %two, $SIZE$
"""
        + stage("%stage_bytes"),
        """  %half = mul i64 %all, %count
  %arrived = getelementptr $TYPE$, ptr %stage, i64 %half
  %per_process = mul i64 %members, %count
  %process_bytes = mul i64 %per_process, $SIZE$
  %operands = call ptr @operands(ptr %group)
  %turns = sdiv i64 %all, %members
"""
        + loop(
            "turn",
            "%turns",
            """  %before = mul i64 %turn, %members
  %index = add i64 %before, %slot
  %rank = call i64 @table(ptr %group, i64 $RANKS$, i64 %index)
  %from = mul i64 %rank, %count
  %to_at = mul i64 %index, %count
  %to = getelementptr $TYPE$, ptr %stage, i64 %to_at
  call void @reduce_$OP$(ptr %operands, i64 4, i64 %members, i64 %from, i64 %count, ptr %to)""",
        )
        + meet(1)
        + leader(
            "swap",
            """  %swap.status = call i32 @tetrax_process_all_to_all(ptr %exchange, ptr %stage,
      ptr %arrived, i64 %process_bytes)""",
        )
        + meet(2)
        + """
  %list = alloca ptr, i64 %processes, align 8
"""
        + loop(
            "process",
            "%processes",
            """  %block_row = mul i64 %process, %per_process
  %own_at = mul i64 %slot, %count
  %block_at = add i64 %block_row, %own_at
  %block_place = getelementptr $TYPE$, ptr %arrived, i64 %block_at
  %list_place = getelementptr ptr, ptr %list, i64 %process
  store ptr %block_place, ptr %list_place, align 8""",
        )
        + """
  call void @reduce_$OP$(ptr %list, i64 1, i64 %processes, i64 0, i64 %count, ptr %recv)""",
    )
)
