"""Collectives of groups that have members in several processes, as LLVM text.

They take and do what those in `collectives.py` do. The members in one process meet; the first of
them, the leader, exchanges data with the leaders of the other processes (`processes.py`) from and
to memory of its own, the stage, which all members of the process fill and read. A leader with no
other member beside it uses operand and result themselves where these are laid out as the exchange
wants them.

Every process has the same number of members. `RANKS` says which rank in the group a member has
(processes in order, members of a process in order), `PLACES` the opposite. A sum is the tree over
the members of a process, then the tree over processes: where a process has 2^n neighbours of the
group, that is the tree over all, so its bits don't depend on how devices are spread.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.collectives import (
    ONE,
    REDUCTION_KINDS,
    REDUCTIONS,
    filled,
    reduction_text,
)
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_types import ScalarType

SPREAD_SYMBOLS = (
    "tetrax_spread_all_gather",
    "tetrax_spread_all_to_all",
    "tetrax_spread_permute",
)


def spread_symbols(type: ScalarType) -> tuple[str, ...]:
    """What the module of reductions of a type exports."""
    return tuple(
        f"tetrax_spread_{kind}_{operation}_{type.name}"
        for kind in REDUCTION_KINDS
        for operation in REDUCTIONS
    )


def spread_module(target: Target) -> str:
    """The LLVM module of the exchanges."""
    return filled("\n".join([_HEAD, _ALL_GATHER, _ALL_TO_ALL, _PERMUTE]))


def spread_reduction_module(type: ScalarType, target: Target) -> str:
    """The LLVM module of the reductions of one type."""
    text = reduction_text(type, target, _REDUCTIONS + ONE)
    return filled(_HEAD + text.replace("$SPREAD$", "spread_"))


def _for(name: str, count: str, body: str) -> str:
    """A loop over %name below `count`; labels in the body must be its own."""
    return f"""
  br label %{name}.before
{name}.before:
  br label %{name}.head
{name}.head:
  %{name} = phi i64 [ 0, %{name}.before ], [ %{name}.next, %{name}.back ]
  %{name}.more = icmp slt i64 %{name}, {count}
  br i1 %{name}.more, label %{name}.body, label %{name}.done
{name}.body:
{body}
  br label %{name}.back
{name}.back:
  %{name}.next = add i64 %{name}, 1
  br label %{name}.head
{name}.done:"""


def _when(name: str, test: str, body: str) -> str:
    """What is done where the i1 `test` holds."""
    return f"""
  br i1 {test}, label %{name}.then, label %{name}.end
{name}.then:
{body}
  br label %{name}.end
{name}.end:"""


def _routine(name: str, last: str, prepare: str, work: str, more: str = "") -> str:
    """A collective: `prepare` is the leader's before the meeting, `work` everybody's after it."""
    leads = _when("prepare", "%leads", prepare)
    return f"""
define i32 @tetrax_spread_{name}(ptr %device, i64 %partition, i64 %site,
    ptr %send, ptr %recv, i64 %{last}{more}) nounwind {{
entry:
  %group = call ptr @group(ptr %device, i64 %partition)
  %slot = call i64 @rank(ptr %device, i64 %partition)
  %members = call i64 @size(ptr %group)
  %processes = call i64 @group_word(ptr %group, i64 $PROCESS_COUNT$)
  %all = mul i64 %members, %processes
  %exchange = call ptr @group_pointer(ptr %group, i64 $PROCESSES$)
  %leads = icmp eq i64 %slot, 0
{leads}
  %entered = call i32 @enter(ptr %device, i64 %partition, i64 %site, ptr %send, ptr %recv)
  %refused = icmp ne i32 %entered, 0
  br i1 %refused, label %refuse, label %go
refuse:
  ret i32 1
go:
  %stage = call ptr @group_pointer(ptr %group, i64 $STAGE$)
{work}
  %after = call i32 @leave(ptr %device, i64 %partition, i64 %site)
  ret i32 %after
}}
"""


def _meet(station: int) -> str:
    return f"""
  %met{station} = call i32 @pass(ptr %device, i64 %partition, i64 %site, i64 {station})
  %lost{station} = icmp ne i32 %met{station}, 0
  br i1 %lost{station}, label %refuse, label %met.{station}
met.{station}:"""


def _leader(name: str, calls: str) -> str:
    """What the leader exchanges; `calls` sets %NAME.status."""
    return _when(
        name,
        "%leads",
        f"""{calls}
  call void @report(ptr %device, i64 %site, i32 %{name}.status)""",
    )


def _stage(size: str) -> str:
    """The leader's memory."""
    return f"""  %own_stage = call ptr @tetrax_local_memory(i64 {size})
  %stage_place = getelementptr ptr, ptr %group, i64 $STAGE$
  store ptr %own_stage, ptr %stage_place, align 8"""


_HEAD = """
declare ptr @tetrax_local_memory(i64)
declare i32 @tetrax_process_all_gather(ptr, ptr, ptr, i64)
declare i32 @tetrax_process_all_to_all(ptr, ptr, ptr, i64)
declare i32 @tetrax_process_permute(ptr, ptr, i64, ptr, i64, i64)
declare void @tetrax_devices_fail(ptr, i64, i32)

define internal i64 @group_word(ptr %group, i64 %index) alwaysinline nounwind {
  %place = getelementptr i64, ptr %group, i64 %index
  %value = load i64, ptr %place, align 8
  ret i64 %value
}

define internal ptr @group_pointer(ptr %group, i64 %index) alwaysinline nounwind {
  %place = getelementptr ptr, ptr %group, i64 %index
  %value = load ptr, ptr %place, align 8
  ret ptr %value
}

define internal i64 @table(ptr %group, i64 %which, i64 %index) alwaysinline nounwind {
  %list = call ptr @group_pointer(ptr %group, i64 %which)
  %place = getelementptr i64, ptr %list, i64 %index
  %value = load i64, ptr %place, align 8
  ret i64 %value
}

define internal void @report(ptr %device, i64 %site, i32 %status) nounwind {
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %fail, label %leave
fail:
  %number = mul i64 %site, $STATIONS$
  call void @tetrax_devices_fail(ptr %device, i64 %number, i32 %status)
  br label %leave
leave:
  ret void
}
"""

# The stage: the operands of this process, then those of all.
_ALL_GATHER = _routine(
    "all_gather",
    "bytes",
    """  %own_bytes = mul i64 %members, %bytes
  %all_bytes = mul i64 %all, %bytes
  %stage_bytes = add i64 %own_bytes, %all_bytes
"""
    + _stage("%stage_bytes"),
    """  %here = mul i64 %members, %bytes
  %place = mul i64 %slot, %bytes
  %target = getelementptr i8, ptr %stage, i64 %place
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %send, i64 %bytes, i1 false)
  %gathered = getelementptr i8, ptr %stage, i64 %here"""
    + _meet(1)
    + _leader(
        "swap",
        """  %swap.status = call i32 @tetrax_process_all_gather(ptr %exchange, ptr %stage,
      ptr %gathered, i64 %here)""",
    )
    + _meet(2)
    + _for(
        "member",
        "%all",
        """  %rank = call i64 @table(ptr %group, i64 $RANKS$, i64 %member)
  %from_at = mul i64 %member, %bytes
  %to_at = mul i64 %rank, %bytes
  %from = getelementptr i8, ptr %gathered, i64 %from_at
  %to = getelementptr i8, ptr %recv, i64 %to_at
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)""",
    ),
)

# The stage: for each process, for each member here, the blocks for its members; twice.
_ALL_TO_ALL = _routine(
    "all_to_all",
    "bytes",
    """  %pairs = mul i64 %all, %members
  %half_bytes = mul i64 %pairs, %bytes
  %stage_bytes = mul i64 %half_bytes, 2
"""
    + _stage("%stage_bytes"),
    """  %per_member = mul i64 %members, %bytes
  %per_process = mul i64 %members, %per_member
  %half = mul i64 %processes, %per_process
  %arrived = getelementptr i8, ptr %stage, i64 %half
  %own_at = mul i64 %slot, %per_member
"""
    + _for(
        "process",
        "%processes",
        """  %process_at = mul i64 %process, %per_process
  %row_at = add i64 %process_at, %own_at
  %first = mul i64 %process, %members
"""
        + _for(
            "other",
            "%members",
            """  %index = add i64 %first, %other
  %rank = call i64 @table(ptr %group, i64 $RANKS$, i64 %index)
  %from_at = mul i64 %rank, %bytes
  %column = mul i64 %other, %bytes
  %to_at = add i64 %row_at, %column
  %from = getelementptr i8, ptr %send, i64 %from_at
  %to = getelementptr i8, ptr %stage, i64 %to_at
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)""",
        ),
    )
    + _meet(1)
    + _leader(
        "swap",
        """  %swap.status = call i32 @tetrax_process_all_to_all(ptr %exchange, ptr %stage,
      ptr %arrived, i64 %per_process)""",
    )
    + _meet(2)
    + """
  %own_column = mul i64 %slot, %bytes
"""
    + _for(
        "member",
        "%all",
        """  %source_rank = call i64 @table(ptr %group, i64 $RANKS$, i64 %member)
  %line = mul i64 %member, %per_member
  %cell = add i64 %line, %own_column
  %there_at = mul i64 %source_rank, %bytes
  %cell_place = getelementptr i8, ptr %arrived, i64 %cell
  %there = getelementptr i8, ptr %recv, i64 %there_at
  call void @llvm.memcpy.p0.p0.i64(ptr %there, ptr %cell_place, i64 %bytes, i1 false)""",
    ),
)

# No stage: the leader sends operands and receives results, one pair of members at a time. Whose
# operand goes to several members is gathered instead, by the compiler.
_PERMUTE = _routine(
    "permute",
    "bytes",
    "",
    """  %own_process = call i64 @group_word(ptr %group, i64 $OWN_PROCESS$)
  %own_first = mul i64 %own_process, %members
  %own_index = add i64 %own_first, %slot
  %own_rank = call i64 @table(ptr %group, i64 $RANKS$, i64 %own_index)
  %source_place = getelementptr i64, ptr %sources, i64 %own_rank
  %source_rank = load i64, ptr %source_place, align 8
  %nobody = icmp slt i64 %source_rank, 0
  br i1 %nobody, label %clear, label %find
clear:
  call void @llvm.memset.p0.i64(ptr %recv, i8 0, i64 %bytes, i1 false)
  br label %remote
find:
  %source_index = call i64 @table(ptr %group, i64 $PLACES$, i64 %source_rank)
  %source_process = sdiv i64 %source_index, %members
  %near = icmp eq i64 %source_process, %own_process
  br i1 %near, label %copy, label %remote
copy:
  %source_slot = srem i64 %source_index, %members
  %operand = call ptr @operand(ptr %group, i64 %source_slot)
  call void @llvm.memcpy.p0.p0.i64(ptr %recv, ptr %operand, i64 %bytes, i1 false)
  br label %remote
remote:
"""
    + _leader(
        "swap",
        """  %swap.status = call i32 @rounds(ptr %group, ptr %exchange, i64 %members, i64 %all,
      i64 %own_process, i64 %bytes, ptr %sources)""",
    ),
    ", ptr %sources",
) + (
    """
; exchange what goes from one process to another: for each pair of places in a process in turn
define internal i32 @rounds(ptr %group, ptr %exchange, i64 %members, i64 %all, i64 %own_process,
    i64 %bytes, ptr %sources) nounwind {
entry:
  %own_first = mul i64 %own_process, %members
"""
    + _for(
        "into",
        "%members",
        _for(
            "out_of",
            "%members",
            """
  %into_index = add i64 %own_first, %into
  %into_rank = call i64 @table(ptr %group, i64 $RANKS$, i64 %into_index)
  %from = call i64 @partner(ptr %group, i64 %members, i64 %own_process, i64 %into_rank,
      i64 %out_of, ptr %sources)
  %out_index = add i64 %own_first, %out_of
  %out_rank = call i64 @table(ptr %group, i64 $RANKS$, i64 %out_index)
  %to = call i64 @taker(ptr %group, i64 %members, i64 %all, i64 %own_process, i64 %out_rank,
      i64 %into, ptr %sources)
  %send = call ptr @operand(ptr %group, i64 %out_of)
  %recv = call ptr @result(ptr %group, i64 %into)
  %status = call i32 @tetrax_process_permute(ptr %exchange, ptr %send, i64 %to, ptr %recv,
      i64 %from, i64 %bytes)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %stop, label %on
stop:
  ret i32 %status
on:""",
        ),
    )
    + """
  ret i32 0
}

; the other process whose member at place %out_of sends to rank %into, or -1
define internal i64 @partner(ptr %group, i64 %members, i64 %own_process, i64 %into, i64 %out_of,
    ptr %sources) nounwind {
entry:
  %place = getelementptr i64, ptr %sources, i64 %into
  %rank = load i64, ptr %place, align 8
  %none = icmp slt i64 %rank, 0
  br i1 %none, label %nobody, label %look
look:
  %index = call i64 @table(ptr %group, i64 $PLACES$, i64 %rank)
  %process = sdiv i64 %index, %members
  %slot = srem i64 %index, %members
  %this = icmp eq i64 %slot, %out_of
  %other = icmp ne i64 %process, %own_process
  %found = and i1 %this, %other
  %answer = select i1 %found, i64 %process, i64 -1
  ret i64 %answer
nobody:
  ret i64 -1
}

; the other process whose member at place %into takes what rank %out_of has, or -1
define internal i64 @taker(ptr %group, i64 %members, i64 %all, i64 %own_process, i64 %out_of,
    i64 %into, ptr %sources) nounwind {
entry:
"""
    + _for(
        "rank",
        "%all",
        """
  %place = getelementptr i64, ptr %sources, i64 %rank
  %source = load i64, ptr %place, align 8
  %mine = icmp eq i64 %source, %out_of
  %index = call i64 @table(ptr %group, i64 $PLACES$, i64 %rank)
  %process = sdiv i64 %index, %members
  %slot = srem i64 %index, %members
  %this = icmp eq i64 %slot, %into
  %other = icmp ne i64 %process, %own_process
  %both = and i1 %this, %other
  %found = and i1 %mine, %both
  br i1 %found, label %answer, label %further
answer:
  ret i64 %process
further:""",
    )
    + """
  ret i64 -1
}
"""
)

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
    + _routine(
        "all_reduce_many_$OP$_$NAME$",
        "entries",
        """  %first_count = call i64 @total_$OP$(ptr %send, i64 %entries)
  %first_block = call i64 @part_$OP$(i64 %first_count, i64 %processes)
  %first_padded = mul i64 %first_block, %processes
  %two = mul i64 %first_padded, 2
  %elements = add i64 %two, %first_block
  %stage_bytes = mul i64 %elements, $SIZE$
"""
        + _stage("%stage_bytes")
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
        + _meet(1)
        + _leader(
            "swap",
            """  %first.status = call i32 @tetrax_process_all_to_all(ptr %exchange, ptr %stage,
      ptr %arrived, i64 %block_bytes)
  %ok = icmp eq i32 %first.status, 0
  br i1 %ok, label %sums, label %swapped
sums:
  %list = alloca ptr, i64 %processes, align 8
"""
            + _for(
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
        + _meet(2)
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
    + _routine(
        "reduce_scatter_$OP$_$NAME$",
        "count",
        """  %elements = mul i64 %all, %count
  %two = mul i64 %elements, 2
  %stage_bytes = mul i64 %two, $SIZE$
"""
        + _stage("%stage_bytes"),
        """  %half = mul i64 %all, %count
  %arrived = getelementptr $TYPE$, ptr %stage, i64 %half
  %per_process = mul i64 %members, %count
  %process_bytes = mul i64 %per_process, $SIZE$
  %operands = call ptr @operands(ptr %group)
  %turns = sdiv i64 %all, %members
"""
        + _for(
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
        + _meet(1)
        + _leader(
            "swap",
            """  %swap.status = call i32 @tetrax_process_all_to_all(ptr %exchange, ptr %stage,
      ptr %arrived, i64 %process_bytes)""",
        )
        + _meet(2)
        + """
  %list = alloca ptr, i64 %processes, align 8
"""
        + _for(
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
