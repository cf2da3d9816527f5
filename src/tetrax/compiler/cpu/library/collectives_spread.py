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

from tetrax.compiler.cpu.library.collectives import filled
from tetrax.compiler.cpu.target import Target

SPREAD_SYMBOLS = (
    "tetrax_spread_all_gather",
    "tetrax_spread_all_to_all",
    "tetrax_spread_permute",
)


def spread_module(target: Target) -> str:
    """The LLVM module of the exchanges."""
    return filled("\n".join([HEAD, _ALL_GATHER, _ALL_TO_ALL, _PERMUTE]))


def loop(name: str, count: str, body: str) -> str:
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


def when(name: str, test: str, body: str) -> str:
    """What is done where the i1 `test` holds."""
    return f"""
  br i1 {test}, label %{name}.then, label %{name}.end
{name}.then:
{body}
  br label %{name}.end
{name}.end:"""


def routine(name: str, last: str, prepare: str, work: str, more: str = "") -> str:
    """A collective: `prepare` is the leader's before the meeting, `work` everybody's after it."""
    leads = when("prepare", "%leads", prepare)
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


def meet(station: int) -> str:
    """The members of this process wait for each other."""
    return f"""
  %met{station} = call i32 @pass(ptr %device, i64 %partition, i64 %site, i64 {station})
  %lost{station} = icmp ne i32 %met{station}, 0
  br i1 %lost{station}, label %refuse, label %met.{station}
met.{station}:"""


def leader(name: str, calls: str) -> str:
    """What the leader exchanges; `calls` sets %NAME.status."""
    return when(
        name,
        "%leads",
        f"""{calls}
  call void @report(ptr %device, i64 %site, i32 %{name}.status)""",
    )


def stage(size: str) -> str:
    """The leader's memory."""
    return f"""  %own_stage = call ptr @tetrax_local_memory(i64 {size})
  %stage_place = getelementptr ptr, ptr %group, i64 $STAGE$
  store ptr %own_stage, ptr %stage_place, align 8"""


HEAD = """
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
_ALL_GATHER = routine(
    "all_gather",
    "bytes",
    """  %own_bytes = mul i64 %members, %bytes
  %all_bytes = mul i64 %all, %bytes
  %stage_bytes = add i64 %own_bytes, %all_bytes
"""
    + stage("%stage_bytes"),
    """  %here = mul i64 %members, %bytes
  %place = mul i64 %slot, %bytes
  %target = getelementptr i8, ptr %stage, i64 %place
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %send, i64 %bytes, i1 false)
  %gathered = getelementptr i8, ptr %stage, i64 %here"""
    + meet(1)
    + leader(
        "swap",
        """  %swap.status = call i32 @tetrax_process_all_gather(ptr %exchange, ptr %stage,
      ptr %gathered, i64 %here)""",
    )
    + meet(2)
    + loop(
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
_ALL_TO_ALL = routine(
    "all_to_all",
    "bytes",
    """  %pairs = mul i64 %all, %members
  %half_bytes = mul i64 %pairs, %bytes
  %stage_bytes = mul i64 %half_bytes, 2
"""
    + stage("%stage_bytes"),
    """  %per_member = mul i64 %members, %bytes
  %per_process = mul i64 %members, %per_member
  %half = mul i64 %processes, %per_process
  %arrived = getelementptr i8, ptr %stage, i64 %half
  %own_at = mul i64 %slot, %per_member
"""
    + loop(
        "process",
        "%processes",
        """  %process_at = mul i64 %process, %per_process
  %row_at = add i64 %process_at, %own_at
  %first = mul i64 %process, %members
"""
        + loop(
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
    + meet(1)
    + leader(
        "swap",
        """  %swap.status = call i32 @tetrax_process_all_to_all(ptr %exchange, ptr %stage,
      ptr %arrived, i64 %per_process)""",
    )
    + meet(2)
    + """
  %own_column = mul i64 %slot, %bytes
"""
    + loop(
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
_PERMUTE = routine(
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
    + leader(
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
    + loop(
        "into",
        "%members",
        loop(
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
    + loop(
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
